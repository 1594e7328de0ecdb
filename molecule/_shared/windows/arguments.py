"""The argument tables of the simulated modules, checked as Ansible.Basic checks them.

A table names every option with its type, default and choices as the module's documentation has
them; tests/contract/desktops/test_simulated_windows.py compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import FailError, UnknownError

if TYPE_CHECKING:
    from .host import Host

_TRUE = {"y", "yes", "on", "1", "true", "t", "1.0"}
_FALSE = {"n", "no", "off", "0", "false", "f", "0.0"}
HIDDEN = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


@dataclass(frozen=True)
class Option:
    """One option of a module.

    Args:
        type: str, path, int, float, bool, list, dict, raw.
        known: False: the simulated host refuses any value but the default.
    """

    type: str = "str"
    default: Any = None
    choices: tuple[str, ...] = ()
    required: bool = False
    aliases: tuple[str, ...] = ()
    elements: str | None = None
    options: Mapping[str, Option] | None = None
    no_log: bool = False
    known: bool = True


@dataclass
class Call:
    """One call of a module: its arguments checked and complete, and how it is run.

    Args:
        host: whose state it works on.
        user: who runs it: the connection's user, or the become user.
        become: whether it runs by become, and so not in a network logon.
        secrets: the values that must not be in its result.
    """

    host: Host
    module: str
    args: dict[str, Any]
    check: bool = False
    user: str = ""
    become: bool = False
    secrets: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)


Handler = Callable[[Call], dict[str, Any]]


@dataclass(frozen=True)
class Module:
    """A simulated module: its table, rules between its options, and what it does."""

    name: str
    options: Mapping[str, Option]
    handler: Handler
    check_mode: bool
    required_if: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


MODULES: dict[str, Module] = {}


def once(registered: Mapping[str, Any], name: str) -> None:
    """Refuse a second stand-in for the same.

    Raises:
        ValueError: there is one.
    """
    if name in registered:
        raise ValueError(f"simulated Windows host: two stand for {name}")


def module(
    name: str,
    options: Mapping[str, Option],
    *,
    check_mode: bool = True,
    required_if: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
) -> Callable[[Handler], Handler]:
    """Register a handler for a module by its full name."""

    def register(handler: Handler) -> Handler:
        once(MODULES, name)
        MODULES[name] = Module(name, options, handler, check_mode, required_if)
        return handler

    return register


def checked(what: Module, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments with defaults and types, and the values that are secret.

    Raises:
        FailError: what Ansible.Basic would refuse, with its words.
        UnknownError: an option that the simulated host does not do.
    """
    secrets: list[str] = []
    args = _level(what.name.rsplit(".", 1)[1], what.options, given, secrets, "")
    for option, value, needed in what.required_if:
        missing = [name for name in needed if args[name] is None]
        if args[option] == value and missing:
            raise FailError(
                f"{option} is {value} but all of the following are missing: {', '.join(missing)}"
            )
    return args, tuple(secrets)


def _level(
    module: str,
    options: Mapping[str, Option],
    given: Mapping[str, Any],
    secrets: list[str],
    context: str,
) -> dict[str, Any]:
    names = {name: name for name in options}
    for name, option in options.items():
        names.update(dict.fromkeys(option.aliases, name))
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise FailError(
            f"Unsupported parameters for ({module}) module: {', '.join(unknown)}{context}. "
            f"Supported parameters include: {', '.join(sorted(names))}"
        )
    held = {names[name]: value for name, value in given.items() if value is not None}
    missing = sorted(
        name for name, option in options.items() if option.required and name not in held
    )
    if missing:
        raise FailError(f"missing required arguments: {', '.join(missing)}{context}")
    args = {}
    for name, option in options.items():
        value = held.get(name, option.default)
        if value is not None:
            value = _typed(module, name, option, value, secrets, context)
        if not option.known and value != option.default:
            raise UnknownError(f"option {name} of module {module}")
        args[name] = value
    return args


def _typed(
    module: str, name: str, option: Option, value: Any, secrets: list[str], context: str
) -> Any:
    value = _converted(name, option.type, value, context)
    if option.type == "list":
        element = Option(option.elements or "raw", options=option.options)
        value = [_typed(module, name, element, each, secrets, context) for each in value]
    elif option.type == "dict" and option.options is not None:
        value = _level(module, option.options, value, secrets, f" found in {name}")
    if option.no_log:
        secrets += _texts(value)
    for each in value if isinstance(value, list) else [value]:
        if option.choices and each not in option.choices:
            raise FailError(
                f"value of {name} must be one of: {', '.join(option.choices)}. "
                f"Got no match for: {each}{context}"
            )
    return value


def _converted(name: str, kind: str, value: Any, context: str) -> Any:
    try:
        if kind == "bool":
            word = str(value).lower()
            if word in _TRUE | _FALSE:
                return word in _TRUE
            raise ValueError(f"The value '{value}' is not a valid boolean")
        if kind == "dict" and not isinstance(value, dict):
            raise ValueError("the value is no dictionary")
        if kind == "list":
            return value if isinstance(value, list) else str(value).split(",")
        if kind in ("str", "path", "int", "float") and isinstance(value, (dict, list)):
            raise ValueError("the value is no single word")
        convert = {"int": int, "float": float, "str": str, "path": str}.get(kind)
        return convert(value) if convert else value
    except ValueError as error:
        raise FailError(
            f"argument for {name} is of type {type(value).__name__} and we were unable to "
            f"convert to {kind}: {error}{context}"
        ) from None


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [str(value)] if str(value) else []


def hidden(value: Any, secrets: tuple[str, ...]) -> Any:
    """A result without what is secret, as Ansible.Basic leaves it."""
    if isinstance(value, dict):
        return {key: hidden(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [hidden(each, secrets) for each in value]
    if isinstance(value, str):
        if value in secrets:
            return HIDDEN
        for secret in secrets:
            value = value.replace(secret, "********")
    return value
