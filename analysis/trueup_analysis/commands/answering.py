"""An ask as a file or words say it, and its answer; for ``trueup advise`` and the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueup.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.access import Advised
    from ..figures.advise.kinds import Sized
    from ..figures.advise.kinds.kind import Kind, Need
    from ..figures.advise.kinds.sizing import Sizing
    from ..figures.advise.knowledge import Knowledge


def answered(
    kind: Kind | Sizing,
    given: Mapping[str, Any],
    known: Knowledge,
    catalog: Path | None,
    *,
    price_date: str | None = None,
    need: Need | None = None,
) -> Advised | Sized:
    """What is advised for what is said of a kind of work, or ``need``, what a log says of it."""
    from ..figures.advise import access, answers, asks
    from ..figures.advise.kinds.sizing import Held, Sizing
    from ..figures.advise.services import read_services
    from ..figures.prices import Book, Terms, read_all, refuse_unknown

    ask = asks.read(kind, given, of_log=need is not None)
    terms, prices = Terms(region=ask["region"], price_date=price_date), read_all(catalog)
    refuse_unknown(prices, terms)
    book = Book(prices, terms.price_date)
    if isinstance(kind, Sizing):
        sized: Sized = kind.size(ask, Held(known, book, read_services(catalog)))
        return sized
    access.refuse_incomplete(ask)
    found = answers.answer(kind, ask, known, book, need)
    if not any(ask[one.name] is not None for one in access.OPTIONS):
        return access.Advised(found)
    services = read_services(catalog)
    return access.Advised(found, access.storage(found, known.sizes, services, known.today))


def ask_of(work: str, values: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The kind of work and what is said of it; words after a file count before the file's."""
    from ..catalog import document

    given: dict[str, Any] = {}
    name = work
    if work.endswith((".yml", ".yaml")):
        told = document(Path(work))
        if not isinstance(told, dict) or not isinstance(told.get("work"), str):
            raise BadInput(
                f"{work} does not say which work it is: give it a line such as work: stencil"
            )
        given = {str(key): value for key, value in told.items() if key != "work"}
        name = told["work"]
    return name, {**given, **said(values)}


def said(words: Sequence[str]) -> dict[str, str]:
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise BadInput(f"{word} is not NAME=VALUE, as in region=eastus")
        given[key] = value
    return given
