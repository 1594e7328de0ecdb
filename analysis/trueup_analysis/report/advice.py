"""An advice for who decides: what to rent, what else there is, what would change it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..figures.advise.access import Advised
from ..render.html import Fact, Part, Section
from ..sheets import advise as sheets
from ..sheets import advise_services, advise_sizings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..figures.advise.kinds import Sized


def advice_section(advised: Advised | Sized) -> Section:
    """The recommended choice in a paragraph, the front, what would change the answer, what was
    refused. Its CSV file has every choice and the evidence of each."""
    if not isinstance(advised, Advised):
        return _sized(advised)
    found = advised.answer
    parts = [
        Part(title=found.kind.title, paragraphs=(sheets.recommended(found),)),
        Part(sheets=(sheets.front(found), *sheets.break_evens(found))),
        Part(
            title="What would change the answer",
            paragraphs=sheets.changes(found),
            sheets=sheets.sensitivities(found),
        ),
    ]
    if advised.storage is not None:
        storage = advise_services.storage(advised.storage, explain=False)
        # What a command's option would show stands in the CSV file.
        storage = replace(storage, notes=[one for one in storage.notes if "--" not in one])
        parts.append(Part(title="Where the data lies", sheets=(storage,)))
    parts += [
        Part(
            title="What was refused",
            paragraphs=sheets.refusals(found),
            sheets=sheets.refused(found),
        ),
        _asked({**found.ask, **found.assumed}),
    ]
    data = sheets.advised(advised, explain=True, every=True)
    return Section("advice", "Advice", parts, data=data)


def _sized(found: Sized) -> Section:
    """Machines or storage of work that has no time."""
    first, *others = advise_sizings.sized(found, explain=False)
    words, *notes = first.notes
    refused = [one for one in others if one.name == "advise-refused"]
    parts = [
        Part(title=found.sizing.title, paragraphs=(words,)),
        Part(
            sheets=(
                replace(first, title="Choices", notes=notes, warnings=()),
                *(one for one in others if one not in refused),
            )
        ),
    ]
    if refused or first.warnings:
        parts.append(
            Part(title="What was refused", paragraphs=list(first.warnings), sheets=refused)
        )
    parts.append(_asked(found.ask))
    return Section("advice", "Advice", parts, data=advise_sizings.sized(found, explain=True))


def _asked(said: Mapping[str, Any]) -> Part:
    return Part(
        title="What was asked",
        terms=[Fact(name, value) for name, value in sheets.asked(said)],
        notes=("The file tables/advice.csv has every choice, and where each figure is from.",),
    )
