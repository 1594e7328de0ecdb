"""An option of a benchmark, written once: name, type, unit, default, range and help.

A room's ``case.py`` declares ``OPTIONS``. From them follow the module's argument spec and page
(plugins/doc_fragments/trueup_options.py), the role's ``defaults`` and ``argument_specs`` (``make
options`` writes them, a contract says when they are stale), and the checks of preflight and module.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from .suggest import did_you_mean

# Whose option it is: the role's and the module's alike, or of one of them alone. The role's plan
# computes the module's arguments from its own options.
BOTH, ROLE, MODULE = "both", "role", "module"
# Characters of a wrong value in a sentence.
_MOST_SHOWN = 80
# Characters that no file name, argument or variable of a process can hold; and those refused in a
# path.
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# Ansible's type by the type of the default; without a default it is a text.
_TYPES = {bool: "bool", int: "int", float: "float", list: "list", dict: "dict"}


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: the module's name of it, units included; the role's is ``<role>_<name>``.
        help: its meaning and unit, in one or two sentences; the range is added to it.
        default: the value where none is given; None if there is none, or one is ``required``.
        type: of Ansible's, where the default does not tell it: path, or float of a whole number.
        why: why this default, with its source; only the role's defaults say it.
        choices: the values that it may have; of a list, its elements.
        elements: type of a list's elements; else dict where it has ``fields``, else str.
        least: the smallest number, of a list each of them; None: any.
        most: the largest.
        multiple_of: the number is a whole multiple of it.
        filled: an empty list or text is refused.
        of: BOTH, ROLE or MODULE.
        required: the module has no default of it.
        secret: it is in no log, plan or record.
        fields: the members of a dictionary, or of each in a list of them.
        variable: of the controller's environment, which is the role's default.
    """

    name: str
    help: str
    default: Any = None
    type: str = ""
    why: str = ""
    choices: Tuple[str, ...] = ()
    elements: str = ""
    least: Optional[float] = 0
    most: Optional[float] = None
    multiple_of: Optional[int] = None
    filled: bool = False
    of: str = BOTH
    required: bool = False
    secret: bool = False
    fields: Tuple[Option, ...] = ()
    variable: str = ""

    def __post_init__(self) -> None:
        type_name = self.type or _TYPES.get(type(self.default), "str")
        object.__setattr__(self, "type", type_name)
        if type_name == "list" and not self.elements:
            object.__setattr__(self, "elements", "dict" if self.fields else "str")

    def described(self) -> str:
        """The help, with the range where there is one."""
        limits = self._limits()
        return f"{self.help[:-1]}: {limits}." if limits else self.help

    def spec(self) -> Dict[str, Any]:
        """The option as Ansible's argument specs have it, of modules and roles."""
        argument_spec: Dict[str, Any] = {"type": self.type}
        if self.elements:
            argument_spec["elements"] = self.elements
        if self.choices:
            argument_spec["choices"] = list(self.choices)
        if self.required:
            argument_spec["required"] = True
        elif self.default is not None:
            argument_spec["default"] = self.default
        if self.secret:
            argument_spec["no_log"] = True
        if self.fields:
            argument_spec["options"] = {field.name: field.spec() for field in self.fields}
        return argument_spec

    def refusal(self, value: Any, name: str) -> Optional[str]:
        """Why ``value``, which has the type, cannot be used; None where it can."""
        if value is None:
            return None
        hidden = unwritable(value, name, path="path" in (self.type, self.elements))
        if hidden:
            return hidden
        if self.filled and not value:
            return f"{name} is empty: {self._wanted()}"
        for member in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(member, (int, float)) and not self._fits(member):
                return f"{name} is {shown(member)}: {self._wanted()}"
            if isinstance(member, Mapping) and self.fields:
                wrong = refusals(self.fields, member, f"{name}: ")
                if wrong:
                    return "; ".join(wrong)
        return None

    def _fits(self, number: float) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.multiple_of is None or number % self.multiple_of == 0)
        )

    def _wanted(self) -> str:
        return f"it must be {self._limits()}"

    def _limits(self) -> str:
        parts = []
        if self.multiple_of is not None:
            parts.append(f"a multiple of {self.multiple_of}")
        if self.least is not None and {"int", "float"} & {self.type, self.elements}:
            parts.append(f"{_plain(self.least)} or more")
        if self.most is not None:
            parts.append(f"{_plain(self.most)} or less")
        if self.filled:
            parts.append("not empty")
        return ", ".join(parts)


# One of the role alone, and one of the module alone.
RoleOption = partial(Option, of=ROLE)
ModuleOption = partial(Option, of=MODULE)


def time_limit(seconds: int, of: str = "one case", reason: str = "") -> Option:
    """How long a benchmark may take; ``of`` says how much of it."""
    help_ = f"Time limit of {of} in seconds."
    return Option("timeout_seconds", help_, seconds, why=reason, least=1)


# Of modules that a test lets read another machine's recorded tree.
SYSFS_ROOT = ModuleOption(
    "sysfs_root",
    "Where to read the hardware from. Anything but V(/sys) is another machine's recorded tree.",
    "/sys",
    type="path",
)
PROCFS_ROOT = ModuleOption("procfs_root", "The same of procfs.", "/proc", type="path")


def _plain(number: float) -> str:
    """Without an exponent where it is whole."""
    return str(int(number)) if float(number).is_integer() else f"{number:g}"


def module_spec(options: Iterable[Option]) -> Dict[str, Dict[str, Any]]:
    """The module's part of an argument spec."""
    spec = {option.name: option.spec() for option in options if option.of != ROLE}
    for option in options:
        # Ansible takes a parameter with "token" in its name for a secret, and warns.
        if option.name in spec and "token" in option.name and not option.secret:
            spec[option.name]["no_log"] = False
    return spec


def for_module(options: Iterable[Option], values: Mapping[str, Any]) -> Dict[str, Any]:
    """The role's values that its module takes too, under the same name."""
    return {
        option.name: values[option.name]
        for option in options
        if option.of == BOTH and option.name in values
    }


def unwritable(value: Any, name: str, *, path: bool = False) -> Optional[str]:
    """Which character keeps a value, or a part of it, out of every file name and argument; None
    where none does. The value itself, which may be a secret, is not shown.

    Args:
        value: of any type. A part that stands in several places, or in itself, as YAML's aliases
            make it, is looked at once.
        name: its name in a sentence.
        path: whether control characters are refused too, as in a path.
    """
    wrong = _CONTROL if path else _UNWRITABLE
    where = "a path" if path else "a file name, an argument or a variable"
    visited: Set[int] = set()
    pending: List[Tuple[str, Any]] = [(name, value)]
    while pending:
        location, current = pending.pop()
        match = wrong.search(current) if isinstance(current, str) else None
        if match:
            return f"{location} holds {match[0]!a}, which {where} cannot hold: remove it"
        if id(current) not in visited:
            pending += reversed(_parts(current, location))
        visited.add(id(current))
    return None


def _parts(value: Any, name: str) -> List[Tuple[str, Any]]:
    """The members of a value, each with its name in a sentence."""
    if isinstance(value, Mapping):
        keys = [(f"the key {str(key)!a} of {name}", str(key)) for key in value]
        return keys + [(f"{name}.{key}", child) for key, child in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{number}]", child) for number, child in enumerate(value)]
    return []


def refusals(options: Sequence[Option], values: Mapping[str, Any], prefix: str = "") -> List[str]:
    """The options whose ``values`` are out of range, a sentence each.

    Args:
        options: the declared ones; an option without a value in ``values`` is skipped.
        values: typed, by the options' names.
        prefix: before each name in a sentence: the role's and ``_``.
    """
    sentences = (
        option.refusal(values[option.name], f"{prefix}{option.name}")
        for option in options
        if option.name in values
    )
    return [text for text in sentences if text is not None]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def shown(value: Any) -> str:
    """A value as it is written, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:
        # Python writes no number of 4300 digits and more.
        return "a very long number"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# Of a document's values, whose types nobody has converted; and how each is called.
_KINDS: Mapping[str, Tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_finite, "a number"),
    "list": (lambda value: isinstance(value, list), "a list"),
    "dict": (lambda value: isinstance(value, Mapping), "a mapping"),
    "str": (lambda value: isinstance(value, str), "a text"),
}


def misfits(
    options: Sequence[Option], values: Mapping[Any, Any], where: str = ""
) -> List[Tuple[str, str]]:
    """Problems of a document: unknown names, and values of another type, outside the choices or
    out of range. Each is a path ("nodes.count") and a sentence that begins with it.

    Args:
        options: of the document; ``fields`` are the options of a mapping in it.
        values: the document; a missing option is skipped.
        where: the path of the document, with a dot at its end.
    """
    by_name = {option.name: option for option in options}
    problems = []
    for name, value in values.items():
        path = f"{where}{name}"
        if name in by_name:
            problems += _misfits_of(by_name[name], value, path)
        else:
            near = did_you_mean(str(name), by_name)
            problems.append((path, f"{path} is not known{near.replace(';', ':')}"))
    return problems


def _misfits_of(option: Option, value: Any, path: str) -> List[Tuple[str, str]]:
    hidden = unwritable(value, path)
    if hidden:
        return [(path, hidden)]
    fits, description = _KINDS[option.type]
    if not fits(value):
        return [(path, f"{path} is {shown(value)}: it must be {description}")]
    if option.type == "dict":
        return misfits(option.fields, value, f"{path}.") if option.fields else []
    if option.type == "list":
        fits, description = _KINDS[option.elements]
        problems = []
        for number, member in enumerate(value):
            each = f"{path}[{number}]"
            if not fits(member):
                problems.append((each, f"{each} is {shown(member)}: it must be {description}"))
            elif option.fields:
                problems += misfits(option.fields, member, f"{each}.")
            else:
                problems += _no_choice(option, member, each)
        return problems
    wrong = option.refusal(value, path)
    return _no_choice(option, value, path) or ([(path, wrong)] if wrong else [])


def _no_choice(option: Option, value: Any, path: str) -> List[Tuple[str, str]]:
    if not option.choices or value in option.choices:
        return []
    words = ", ".join(choice or "empty" for choice in option.choices)
    return [(path, f"{path} is {shown(value)}: it must be one of {words}")]


def merged(options: Sequence[Option], *layers: Mapping[str, Any]) -> Dict[str, Any]:
    """The value of each option: that of the last layer with one, else the default; mappings are
    merged by their members."""
    values: Dict[str, Any] = {}
    for option in options:
        layer_values = [layer[option.name] for layer in layers if option.name in layer]
        if option.fields and option.type == "dict":
            values[option.name] = merged(option.fields, *layer_values)
        elif option.type == "dict":
            values[option.name] = {
                name: value for layer in layer_values for name, value in layer.items()
            }
        else:
            values[option.name] = layer_values[-1] if layer_values else option.default
    return values


def row_refusals(
    options: Sequence[Option],
    rows: Sequence[Mapping[str, Any]],
    name: str,
    needed: Sequence[str],
    may: Sequence[str] = (),
) -> List[str]:
    """Problems of a list of dicts of module options, a sentence each.

    Args:
        options: the declared ones.
        rows: the list.
        name: of the list, for a sentence.
        needed: options that each row has.
        may: further options that a row may have.
    """
    declared = {option.name: option for option in options if option.of != ROLE}
    problems = []
    for row in rows:
        if not set(needed) <= set(row) <= {*needed, *may}:
            more = f", and may have {', '.join(may)}" if may else ""
            problems.append(f"each of {name} has {', '.join(needed)}{more}: {dict(row)}")
            continue
        for key, value in row.items():
            option = declared[key]
            if option.choices and value not in option.choices:
                problems.append(
                    f"{name}: {key} is {value}: it must be {' or '.join(option.choices)}"
                )
            elif option.type == "int" and not isinstance(value, int):
                problems.append(f"{name}: {key} is {value}: it must be a whole number")
        problems += refusals(list(declared.values()), row, f"{name}: ")
    return problems
