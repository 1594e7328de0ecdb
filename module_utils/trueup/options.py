"""An option of a benchmark, written once: name, type, unit, default, range and help.

A room's ``case.py`` declares ``OPTIONS``. From them follow the module's argument spec and page
(plugins/doc_fragments/trueup_options.py), the role's ``defaults`` and ``argument_specs`` (``make
options`` writes them, a contract says when they are stale), and what preflight and module refuse.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from .words import did_you_mean

# Whose option it is: the role's and the module's alike, or of one of them alone. The role's plan
# makes of its own options what the module is given.
BOTH, ROLE, MODULE = "both", "role", "module"
# Characters of a wrong value in a sentence.
_MOST_SHOWN = 80
# What no file name, argument or variable of a process can hold; and what a path is refused for.
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# Of Ansible's types those that a default tells; without one it is a text.
_TYPES = {bool: "bool", int: "int", float: "float", list: "list", dict: "dict"}


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: the module's name of it, units included; the role's is ``<role>_<name>``.
        help: what it is, in its unit, in one or two sentences; the range is added to it.
        default: where nothing is given. None: nothing is, or it must be given (``required``).
        type: of Ansible's, where the default does not tell it: path, or float of a whole number.
        why: why this default, with its source; only the role's defaults say it.
        choices: the values that it may have; of a list, its elements.
        elements: type of a list's elements; else dict where it has ``fields``, else str.
        least: the smallest number, of a list each of them; None: any.
        most: the largest.
        multiple_of: what the number is a whole multiple of.
        filled: an empty list or text is refused.
        of: BOTH, ROLE or MODULE.
        required: the module has no default of it.
        secret: it is in no log, plan or record.
        fields: what a dictionary holds, or each in a list of them.
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
        told = self.type or _TYPES.get(type(self.default), "str")
        object.__setattr__(self, "type", told)
        if told == "list" and not self.elements:
            object.__setattr__(self, "elements", "dict" if self.fields else "str")

    def described(self) -> str:
        """The help, with the range where there is one."""
        limits = self._limits()
        return f"{self.help[:-1]}: {limits}." if limits else self.help

    def spec(self) -> Dict[str, Any]:
        """The option as Ansible's argument specs have it, of modules and roles."""
        found: Dict[str, Any] = {"type": self.type}
        if self.elements:
            found["elements"] = self.elements
        if self.choices:
            found["choices"] = list(self.choices)
        if self.required:
            found["required"] = True
        elif self.default is not None:
            found["default"] = self.default
        if self.secret:
            found["no_log"] = True
        if self.fields:
            found["options"] = {one.name: one.spec() for one in self.fields}
        return found

    def refusal(self, value: Any, name: str) -> Optional[str]:
        """Why ``value``, which has the type, cannot be used; None where it can."""
        if value is None:
            return None
        hidden = unwritable(value, name, path="path" in (self.type, self.elements))
        if hidden:
            return hidden
        if self.filled and not value:
            return f"{name} is empty: {self._wanted()}"
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(part, (int, float)) and not self._fits(part):
                return f"{name} is {shown(part)}: {self._wanted()}"
            if isinstance(part, Mapping) and self.fields:
                wrong = refusals(self.fields, part, f"{name}: ")
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


def time_limit(seconds: int, of: str = "one case", why: str = "") -> Option:
    """How long a benchmark may take; ``of`` says how much of it."""
    help_ = f"Time limit of {of} in seconds."
    return Option("timeout_seconds", help_, seconds, why=why, least=1)


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
    spec = {one.name: one.spec() for one in options if one.of != ROLE}
    for one in options:
        # Ansible takes a parameter with "token" in its name for a secret, and warns.
        if one.name in spec and "token" in one.name and not one.secret:
            spec[one.name]["no_log"] = False
    return spec


def for_module(options: Iterable[Option], values: Mapping[str, Any]) -> Dict[str, Any]:
    """Of a role's values those that its module takes too, under the same name."""
    return {one.name: values[one.name] for one in options if one.of == BOTH and one.name in values}


def unwritable(value: Any, name: str, *, path: bool = False) -> Optional[str]:
    """Which character keeps a value, or a part of it, out of every file name and argument; None
    where none does. The value itself, which may be a secret, is not shown.

    Args:
        value: of any type. A part that stands in several places, or in itself, as YAML's aliases
            make it, is looked at once.
        name: what a sentence calls it.
        path: whether control characters are refused too, as in a path.
    """
    wrong = _CONTROL if path else _UNWRITABLE
    where = "a path" if path else "a file name, an argument or a variable"
    seen: Set[int] = set()
    left: List[Tuple[str, Any]] = [(name, value)]
    while left:
        place, part = left.pop()
        found = wrong.search(part) if isinstance(part, str) else None
        if found:
            return f"{place} holds {found[0]!a}, which {where} cannot hold: remove it"
        if id(part) not in seen:
            left += reversed(_parts(part, place))
        seen.add(id(part))
    return None


def _parts(value: Any, name: str) -> List[Tuple[str, Any]]:
    """What a value holds, and what a sentence calls each."""
    if isinstance(value, Mapping):
        keys = [(f"the key {str(key)!a} of {name}", str(key)) for key in value]
        return keys + [(f"{name}.{key}", part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{number}]", part) for number, part in enumerate(value)]
    return []


def refusals(options: Sequence[Option], values: Mapping[str, Any], prefix: str = "") -> List[str]:
    """What of ``values`` is out of range, a sentence each.

    Args:
        options: the declared ones; those without a value in ``values`` are passed over.
        values: typed, by the options' names.
        prefix: before each name in a sentence: the role's and ``_``.
    """
    found = (
        one.refusal(values[one.name], f"{prefix}{one.name}")
        for one in options
        if one.name in values
    )
    return [text for text in found if text is not None]


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
    """Everything in a document that cannot be: what is unknown, of another type, none of the
    choices or out of range. A place ("nodes.count") and a sentence that begins with it, each.

    Args:
        options: what the document may hold; ``fields`` are what a mapping in it may.
        values: the document; what it lacks is passed over.
        where: the place that it stands at, with a dot.
    """
    known = {one.name: one for one in options}
    found = []
    for name, value in values.items():
        place = f"{where}{name}"
        if name in known:
            found += _misfits_of(known[name], value, place)
        else:
            near = did_you_mean(str(name), known)
            found.append((place, f"{place} is not known{near.replace(';', ':')}"))
    return found


def _misfits_of(one: Option, value: Any, place: str) -> List[Tuple[str, str]]:
    hidden = unwritable(value, place)
    if hidden:
        return [(place, hidden)]
    fits, what = _KINDS[one.type]
    if not fits(value):
        return [(place, f"{place} is {shown(value)}: it must be {what}")]
    if one.type == "dict":
        return misfits(one.fields, value, f"{place}.") if one.fields else []
    if one.type == "list":
        fits, what = _KINDS[one.elements]
        found = []
        for number, part in enumerate(value):
            each = f"{place}[{number}]"
            if not fits(part):
                found.append((each, f"{each} is {shown(part)}: it must be {what}"))
            elif one.fields:
                found += misfits(one.fields, part, f"{each}.")
            else:
                found += _no_choice(one, part, each)
        return found
    wrong = one.refusal(value, place)
    return _no_choice(one, value, place) or ([(place, wrong)] if wrong else [])


def _no_choice(one: Option, value: Any, place: str) -> List[Tuple[str, str]]:
    if not one.choices or value in one.choices:
        return []
    words = ", ".join(choice or "empty" for choice in one.choices)
    return [(place, f"{place} is {shown(value)}: it must be one of {words}")]


def merged(options: Sequence[Option], *layers: Mapping[str, Any]) -> Dict[str, Any]:
    """The value of each option: that of the last layer with one, else the default; mappings are
    merged by their members."""
    found: Dict[str, Any] = {}
    for one in options:
        given = [layer[one.name] for layer in layers if one.name in layer]
        if one.fields and one.type == "dict":
            found[one.name] = merged(one.fields, *given)
        elif one.type == "dict":
            found[one.name] = {name: part for layer in given for name, part in layer.items()}
        else:
            found[one.name] = given[-1] if given else one.default
    return found


def row_refusals(
    options: Sequence[Option],
    rows: Sequence[Mapping[str, Any]],
    name: str,
    needed: Sequence[str],
    may: Sequence[str] = (),
) -> List[str]:
    """What is wrong with a list of dicts of module options, a sentence each.

    Args:
        options: the declared ones.
        rows: the list.
        name: of the list, for a sentence.
        needed: options that each row has.
        may: those that it may have beside them.
    """
    declared = {one.name: one for one in options if one.of != ROLE}
    found = []
    for row in rows:
        if not set(needed) <= set(row) <= {*needed, *may}:
            more = f", and may have {', '.join(may)}" if may else ""
            found.append(f"each of {name} has {', '.join(needed)}{more}: {dict(row)}")
            continue
        for key, value in row.items():
            one = declared[key]
            if one.choices and value not in one.choices:
                found.append(f"{name}: {key} is {value}: it must be {' or '.join(one.choices)}")
            elif one.type == "int" and not isinstance(value, int):
                found.append(f"{name}: {key} is {value}: it must be a whole number")
        found += refusals(list(declared.values()), row, f"{name}: ")
    return found
