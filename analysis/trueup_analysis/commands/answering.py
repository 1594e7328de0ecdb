"""An ask as a file or words say it, and its answer; for ``trueup advise`` and the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..figures.advise.access import Advised
    from ..figures.advise.kinds import Sized
    from ..figures.advise.kinds.kind import Kind, Need
    from ..figures.advise.kinds.sizing import Sizing
    from ..figures.advise.knowledge import Knowledge


def answered(
    kind: Kind | Sizing,
    inputs: Mapping[str, Any],
    knowledge: Knowledge,
    catalog: Path | None,
    *,
    price_date: str | None = None,
    agreed: Path | None = None,
    need: Need | None = None,
) -> Advised | Sized:
    """The advice for a kind of work, from its inputs and from the ``need`` of a log, if any."""
    from ..figures import meters
    from ..figures.advise import access, answers, asks
    from ..figures.advise.kinds.sizing import Held, Sizing
    from ..figures.advise.services import read_services
    from ..figures.prices import Book, read_all, refuse_unknown
    from ..figures.terms import Terms

    ask = asks.read(kind, inputs, of_log=need is not None)
    terms = Terms(region=ask["region"], price_date=price_date)
    prices = read_all(catalog, agreed)
    refuse_unknown(prices, terms)
    book = Book(prices, terms.price_date)
    if isinstance(kind, Sizing):
        sized: Sized = kind.size(ask, Held(knowledge, book, read_services(catalog)))
        return sized
    access.refuse_incomplete(ask)
    tariffs = meters.Meters(meters.read_all(catalog, agreed), knowledge.today)
    ranking = answers.answer(kind, ask, knowledge, book, need, tariffs)
    if not any(ask[parameter.name] is not None for parameter in access.OPTIONS):
        return access.Advised(ranking)
    services = read_services(catalog)
    return access.Advised(
        ranking, access.storage(ranking, knowledge.sizes, services, knowledge.today, tariffs)
    )


def ask_of(work: str, values: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The kind of work and its inputs; arguments override the inputs of a file."""
    from ..catalog import document

    inputs: dict[str, Any] = {}
    name = work
    if work.endswith((".yml", ".yaml")):
        contents = document(Path(work))
        if not isinstance(contents, dict) or not isinstance(contents.get("work"), str):
            raise BadInput(
                f"{work} does not say which work it is: give it a line such as work: stencil"
            )
        inputs = {str(key): value for key, value in contents.items() if key != "work"}
        name = contents["work"]
    return name, {**inputs, **said(values)}


def said(words: Sequence[str]) -> dict[str, str]:
    inputs = {}
    for argument in words:
        key, equals, value = argument.partition("=")
        if not equals or not key or not value:
            raise BadInput(f"{argument} is not NAME=VALUE, as in region=eastus")
        inputs[key] = value
    return inputs
