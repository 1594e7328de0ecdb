"""The whole page: pure functions from what was loaded to a ``Page``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..catalog import folder
from ..cost import read_prices, table
from ..render.html import UNKNOWN, Page
from ..render.units import plural
from ..scaling import JUDGED, series
from ..tokens import BENCHMARK, read_gpus
from ..tokens import table as token_table
from . import opening
from .cases import headline_case, machines, read_cases
from .cells import NOT_AZURE, moment
from .cost import cost_section
from .layouts import layouts_section
from .published import reference_section
from .records import excluded_section, method_section, records_section
from .roofline import bandwidth_section, read_sizes, roofline_section
from .scaling import scaling_section
from .tokens import tokens_section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..load import Loaded
    from ..scaling import Series
    from .cases import Case, Machine

__all__ = ["gather"]

_BENCHMARKS: Final = {"devito": "Devito", "stream": "memory bandwidth", "vllm": "vLLM"}
# A publication's figures about its own results are no benchmark beside them.
_ABOUT: Final = frozenset({"devito_sums", "vllm_ratios"})


def gather(
    loaded: Loaded,
    *,
    catalog: Path | None = None,
    region: str | None = None,
    offer: str | None = None,
    price: float | None = None,
    as_size: str | None = None,
) -> Page:
    """The whole report, ready to be rendered. Published results among the records are named as
    such.

    Raises:
        BadInput: the catalog or a choice of price cannot be used.
    """
    cases = read_cases(loaded)
    if not cases:
        return _empty(loaded)
    place = folder(catalog)
    ok = [case for case in cases if case.outcome == "ok"]
    best = headline_case([case for case in ok if case.measured] or ok)
    measured_on = machines([case for case in cases if case.measured] or cases)
    sizes = read_sizes(place / "vm_sizes.csv")
    scaled = _series(loaded, ok)
    billed = None
    if any(case.median("run_time") for case in ok):
        billed = table(
            loaded,
            prices=read_prices(place / "prices.csv"),
            region=region,
            offer=offer,
            price=price,
            as_size=as_size,
        )
    serving = None
    if any(case.benchmark == BENCHMARK for case in ok):
        serving = token_table(
            loaded,
            prices=read_prices(place / "prices.csv"),
            gpus=read_gpus(place / "vm_sizes.csv"),
            region=region,
            offer=offer,
            price=price,
            as_size=as_size,
            published=region is not None or price is not None,
        )
    sections = [
        opening.machines_section(measured_on),
        scaling_section(scaled),
        layouts_section(ok),
        roofline_section(ok, sizes),
        bandwidth_section(ok, sizes),
        cost_section(billed),
        tokens_section(serving),
        reference_section(loaded, place / "reference_results.csv"),
        records_section(cases),
        excluded_section(loaded),
        method_section(),
    ]
    return Page(
        title=_title(cases, measured_on),
        subtitle=_subtitle(loaded, cases),
        summary=_summary(loaded, cases),
        warnings=opening.warnings(loaded, cases, scaled, billed),
        notes=opening.notes(loaded, scaled, billed),
        headlines=tuple(opening.headlines(best, ok, billed)),
        headline_note=opening.headline_note(best),
        facts=tuple(opening.facts(loaded, cases, measured_on)),
        sections=tuple(section for section in sections if section is not None),
    )


def _series(loaded: Loaded, ok: Sequence[Case]) -> list[Series]:
    """The scaling series of every benchmark that can have one."""
    found = []
    # A server's rate of tokens belongs to its GPUs and its load, not to the cores beside them.
    for benchmark in sorted(set(JUDGED) - {BENCHMARK}):
        of_it = [case for case in ok if case.benchmark == benchmark]
        if any(case.median(JUDGED[benchmark][0]) is not None for case in of_it):
            found += series(loaded, benchmark=benchmark)
    # Of what was not meant to scale, one count is no scaling.
    return [one for one in found if one.benchmark == "devito" or one.table["best"].sum() > 1]


def _empty(loaded: Loaded) -> Page:
    section = excluded_section(loaded)
    return Page(
        title="No records",
        subtitle="nothing was measured, or nothing of it could be read",
        summary=(
            "There is no record to report on: run `make run`, or name the folder of the records.",
        ),
        warnings=opening.warnings(loaded, [], [], None),
        notes=opening.notes(loaded, [], None),
        sections=() if section is None else (section,),
    )


def _title(cases: Sequence[Case], measured_on: Sequence[Machine]) -> str:
    every = {case.benchmark for case in cases}
    found = sorted(every - _ABOUT) or sorted(every)
    names = [_BENCHMARKS.get(name, name) for name in found]
    what = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    nodes = sorted({node for machine in measured_on for node in machine.nodes.split("+")})
    where = nodes[0] if len(nodes) == 1 else plural(len(nodes), "node")
    if nodes == ["published"]:
        where = "published systems"
    start = what[:1] if what.startswith("vLLM") else what[:1].upper()
    return f"{start}{what[1:]} on {where} ({_sizes(measured_on)})"


def _sizes(measured_on: Sequence[Machine]) -> str:
    names = sorted({machine.vm_size or NOT_AZURE for machine in measured_on})
    return names[0] if len(names) == 1 else f"{len(names)} sizes"


def _subtitle(loaded: Loaded, cases: Sequence[Case]) -> str:
    runs = sorted({case.run_id for case in cases})
    begun = [str(run["started_at"]) for run in loaded.runs if run.get("started_at")]
    days = sorted(begun + [case.started_at for case in cases if case.started_at])
    when = moment(days[0]) if days else f"date {UNKNOWN}"
    ended = [run.get("finished_at") for run in loaded.runs]
    if len(runs) == 1:
        until = f" to {moment(str(ended[0]))}" if len(ended) == 1 and ended[0] else ""
        return f"run {runs[0]} · {when}{until} UTC"
    return f"{len(runs)} runs, {runs[0]} to {runs[-1]} · from {when} UTC"


def _summary(loaded: Loaded, cases: Sequence[Case]) -> tuple[str, ...]:
    total = len(cases)
    tally = {
        name: sum(case.outcome == name for case in cases) for name in ("ok", "failed", "invalid")
    }
    parts = ", ".join(
        f"{number:,} {name}" for name, number in tally.items() if number or name == "ok"
    )
    text = f"{plural(total, 'record')}: {parts}."
    left_out = plural(len(loaded.excluded), "file was", "files were")
    text += f" {left_out} left out because unreadable." if loaded.excluded else ""
    if not tally["ok"]:
        text += " No record is ok, so there is no figure to report: the reasons follow."
    return (text,)
