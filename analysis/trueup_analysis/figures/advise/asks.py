"""Asks: a kind of work, its options, and how it may be rented; from a file or words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from trueup_node.errors import BadInput
from trueup_node.options import Option, shown
from trueup_node.suggest import did_you_mean

from ..prices import region_name
from . import stops
from .access import COSTS, OPTIONS
from .kinds import KINDS, SIZINGS
from .kinds.kind import Kind
from .kinds.sizing import Sizing

OFFERS: Final = ("payg", "spot")

# Of every kind.
TERMS: Final = (
    Option("region", "Azure region; without one the cheapest that has a price.", type="str"),
    Option("offers", "How it may be rented.", ["payg", "spot"], choices=OFFERS, filled=True),
    Option("sizes", "Only these VM sizes; empty: all that can be had.", [], elements="str"),
    Option("most_nodes", "Nodes at most.", 8, least=1, most=1024),
    Option("deadline_hours", "It must be done within so many hours.", type="float", least=1e-3),
    Option("budget_usd", "It must cost no more, US$.", type="float", least=1e-2),
    *stops.OPTIONS,
    Option("idle_hours", "Hours that the nodes are paid for and idle.", 0.0, type="float"),
    *OPTIONS,
    *COSTS,
)


def options(kind: Kind | Sizing) -> list[Option]:
    """All that can be asked of a kind: its own, then the terms that say something of it."""
    excluded = {*(option.name for option in kind.options), *kind.unasked}
    return [*kind.options, *(option for option in TERMS if option.name not in excluded)]


def chosen(name: str) -> Kind | Sizing:
    """The kind of this name.

    Raises:
        BadInput: there is none.
    """
    every: dict[str, Kind | Sizing] = {**KINDS, **SIZINGS}
    if name not in every:
        raise BadInput(
            f"no kind of work is called {name}{did_you_mean(name, every)}; there are"
            f" {', '.join(every)}"
        )
    return every[name]


def read(kind: Kind | Sizing, values: Mapping[str, Any], *, of_log: bool = False) -> dict[str, Any]:
    """Every option of the kind with its value, and given assumptions under their own names.

    Args:
        of_log: a log says which work it is; only the terms are asked.
        values: by name, of the option's type or as words ("512x512x512", "payg,spot").

    Raises:
        BadInput: an unknown name, a value of another type or out of range, or one that is missing;
            all that is wrong is said at once.
    """
    by_name = {option.name: option for option in (TERMS if of_log else options(kind))}
    wrong, ask = [], {option.name: option.default for option in (*TERMS, *by_name.values())}
    if not of_log:
        assumed = (assumption.name for assumption in kind.assumptions)
        by_name |= {name: Option(name, "", type="float", least=1e-9) for name in assumed}
    for name, value in values.items():
        if name not in by_name:
            wrong.append(f"{name} is no option of {kind.name}{did_you_mean(name, by_name)}")
            continue
        try:
            ask[name] = _typed(by_name[name], value)
        except (TypeError, ValueError, OverflowError):
            wrong.append(f"{name} is {shown(value)}: it must be {_wanted(by_name[name])}")
            continue
        refused = _refusal(by_name[name], ask[name])
        wrong += [refused] if refused else []
    for name, option in by_name.items():
        if option.required and name not in values:
            wrong.append(
                f"{name} is missing: {option.described()[:1].lower()}{option.described()[1:-1]}"
            )
    if wrong:
        raise BadInput("; ".join(wrong))
    ask["region"] = region_name(ask["region"]) if ask["region"] else None
    return ask


def _refusal(option: Option, value: Any) -> str | None:
    """Why a value of the right type cannot be used; None where it can."""
    parts = value if isinstance(value, list) else [value]
    strange = [choice for choice in parts if choice not in option.choices] if option.choices else []
    if strange:
        return f"{option.name}: {strange[0]} is none of {', '.join(option.choices)}"
    return option.refusal(value, option.name)


def _typed(option: Option, value: Any) -> Any:
    if option.type == "list":
        words = (
            re.split(r"[x,\s]+", value) if isinstance(value, str) and _numbers(option) else value
        )
        if isinstance(words, str):
            words = [token for token in re.split(r"[,\s]+", words) if token]
        if isinstance(words, (int, float, Mapping)) or words is None:
            raise TypeError
        return [_whole(token) if _numbers(option) else str(token) for token in words]
    if option.type == "int":
        return _whole(value)
    if option.type == "float":
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
        return number
    if not isinstance(value, str):
        raise TypeError
    return value


def _numbers(option: Option) -> bool:
    return option.elements == "int"


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = float(value) if not isinstance(value, int) else value
    if number != int(number):
        raise ValueError
    return int(number)


def _wanted(option: Option) -> str:
    words = {"int": "a whole number", "float": "a number", "str": "a word"}
    if option.type == "list":
        return (
            "whole numbers, as in 512x512x512" if _numbers(option) else "words with commas between"
        )
    return words[option.type]
