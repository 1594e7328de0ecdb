"""An advice for who decides: the recommendation, other choices, and their sensitivities."""

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
    """The recommended choice in a paragraph, the front, the sensitivities, and the refused
    choices. Its CSV file has every choice and the evidence of each."""
    if not isinstance(advised, Advised):
        return _sized(advised)
    ranking = advised.answer
    parts = [
        Part(title=ranking.kind.title, paragraphs=(sheets.recommended(ranking),)),
        Part(sheets=(sheets.front(ranking), *sheets.break_evens(ranking))),
        Part(
            title="What would change the answer",
            paragraphs=sheets.changes(ranking),
            sheets=sheets.sensitivities(ranking),
        ),
    ]
    if advised.storage is not None:
        storage = advise_services.storage(advised.storage, explain=False)
        # Details behind a command's option stand in the CSV file.
        storage = replace(storage, notes=[note for note in storage.notes if "--" not in note])
        parts.append(Part(title="Where the data lies", sheets=(storage,)))
    parts += [
        Part(
            title="What was refused",
            paragraphs=sheets.refusals(ranking),
            sheets=sheets.refused(ranking),
        ),
        _asked({**ranking.ask, **ranking.assumed}),
    ]
    data = sheets.advised(advised, explain=True, every=True)
    return Section("advice", "Advice", parts, data=data)


def _sized(sized: Sized) -> Section:
    """Machines or storage of work that has no time."""
    first, *rest = advise_sizings.sized(sized, explain=False)
    words, *notes = first.notes
    refused = [sheet for sheet in rest if sheet.name == "advise-refused"]
    parts = [
        Part(title=sized.sizing.title, paragraphs=(words,)),
        Part(
            sheets=(
                replace(first, title="Choices", notes=notes, warnings=()),
                *(sheet for sheet in rest if sheet not in refused),
            )
        ),
    ]
    if refused or first.warnings:
        parts.append(
            Part(title="What was refused", paragraphs=list(first.warnings), sheets=refused)
        )
    parts.append(_asked(sized.ask))
    return Section("advice", "Advice", parts, data=advise_sizings.sized(sized, explain=True))


def _asked(inputs: Mapping[str, Any]) -> Part:
    return Part(
        title="What was asked",
        terms=[Fact(name, value) for name, value in sheets.asked(inputs)],
        notes=("The file tables/advice.csv has every choice, and where each figure is from.",),
    )
