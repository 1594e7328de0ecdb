"""An advice for who decides: what to rent, what else there is, what would change it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..render.html import Fact, Part, Section
from ..sheets import advise as sheets
from ..sheets import advise_services

if TYPE_CHECKING:
    from ..figures.advise.access import Advised


def advice_section(advised: Advised) -> Section:
    """The recommended choice in a paragraph, the front, what would change the answer, what was
    refused. Its CSV file has every choice and the evidence of each."""
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
        Part(
            title="What was asked",
            terms=[Fact(name, value) for name, value in sheets.asked(found)],
            notes=("The file tables/advice.csv has every choice, and where each figure is from.",),
        ),
    ]
    data = sheets.advised(advised, explain=True, every=True)
    return Section("advice", "Advice", parts, data=data)
