"""The whole page: pure functions from the loaded records to a ``Page``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.health.verdicts import latest
from trueup_node.record import OUTCOMES

from ..cases import read_cases
from ..catalog import MEASURE, folder
from ..figures import cost, tokens, users
from ..figures.compare.comparing import Deltas
from ..figures.frames import Heads
from ..figures.groups import groups
from ..figures.health import expectations
from ..figures.health.examine import examine
from ..figures.health.required import roster
from ..figures.pooling import has_work
from ..figures.prices import read_all
from ..figures.scaling.tables import series
from ..figures.sizes import read_sizes
from ..figures.terms import OWN, Terms
from ..render.html import UNKNOWN, Page, Part, Section
from ..rooms import is_served, names_of, views
from ..selection import run_ids
from ..sheets import cost as cost_sheets
from ..sheets import tokens as token_sheets
from ..sheets import users as user_sheets
from ..sheets.serving import sweep_sheets
from ..units import plural
from . import opening
from .benchmark import benchmark_section
from .changes import changes_section
from .charts.common import Judged
from .health import every_verdict, health_section, node_health
from .layouts import layout_parts
from .opening import NOT_AZURE, answer_section, machines, price_sentences
from .published import reference_section
from .records import Evidence, excluded_section, method_section, records_section
from .roofline import roofline_parts
from .scaling import scaling_parts
from .serving import serving_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.health.faults import Faults

    from ..figures.advise.access import Advised
    from ..figures.advise.kinds import Sized
    from ..figures.compare.changes import Comparison
    from ..figures.cost import CostTable
    from ..figures.groups import Group
    from ..figures.scaling.tables import Series
    from ..figures.terms import ApiPrices, ServiceLevel
    from ..figures.tokens import TokenTable
    from ..figures.users import UserTable
    from ..load import Loaded
    from ..sheets.sheet import Sheet
    from .health import NodeHealth
    from .opening import Machine

# A publication's figures about its own results are no benchmark beside them.
_ABOUT: Final = frozenset({"devito_sums", "nx_avd", "vllm_ratios"})
_STATE: Final = "node_state"
_NAMED: Final = 3


def gather(
    loaded: Loaded,
    *,
    catalog: Path | None = None,
    terms: Terms = OWN,
    api: ApiPrices | None = None,
    level: ServiceLevel | None = None,
    advised: Advised | Sized | None = None,
    changes: Comparison | None = None,
    output_dir: Path | None = None,
) -> Page:
    """The whole report, ready to be rendered. Published results among the records are named as
    such. An advice comes first, then the answer: on prices where they are asked for, on health,
    and on the changes since the run before.

    Args:
        output_dir: the folder of the page, for links to records; None for no links.

    Raises:
        BadInput: the catalog or a choice of price cannot be used.
    """
    first: tuple[Section, ...] = () if advised is None else (_advice(advised),)
    cases = read_cases(loaded)
    if not cases:
        return replace(_empty(loaded), first=first)
    catalog_folder = folder(catalog)
    expected = expectations.read_catalog(catalog)
    ok = [case for case in cases if case.outcome == "ok"]
    ours = [case for case in cases if case.measured]
    measured_on = machines(ours or cases)
    faults = expectations.read_faults(catalog)
    health = _health(loaded, ours, expected, faults)
    heads = Heads(loaded, expected)
    sizes = read_sizes(catalog_folder)
    judged = Judged(expected, sizes, heads, _bad(health))
    evidence, deltas = Evidence(output_dir, cases), Deltas(changes)
    by_benchmark = _by_benchmark(groups(ok, heads))
    compared = {name: _series(loaded, name, expected) for name in by_benchmark}
    scaled = {name: list(filter(_several, of_it)) for name, of_it in compared.items()}
    billed = _billed(loaded, by_benchmark, catalog_folder, terms, api, expected, level)
    of_tokens = {} if billed.tokens is None else serving_parts(billed.tokens, level)
    asks_price = _asks_price(terms, api, level)
    opens_with = _opens_with(health, asks_price=asks_price)
    prices = price_sentences(billed.runs, billed.tokens, sizes) if asks_price else []
    costs = _placed(billed.section(), is_first=asks_price)
    of_health = _health_section(health, evidence)
    first += _some(
        answer_section(prices, opens_with, changes),
        costs.first,
        None if changes is None else changes_section(changes),
        of_health.first,
    )
    sections = [
        *(
            benchmark_section(
                members,
                judged,
                [
                    *_more(members, ok, scaled[name], judged),
                    *of_tokens.get(name, ()),
                ],
                evidence,
                deltas,
            )
            for name, members in by_benchmark.items()
        ),
        costs.later,
        reference_section(loaded, catalog_folder, compared),
        of_health.later,
        opening.machines_section(measured_on),
        records_section(loaded, cases, heads, evidence),
        excluded_section(loaded),
        method_section(cases),
    ]
    every = [each_series for of_it in scaled.values() for each_series in of_it]
    return Page(
        title=_title(cases, measured_on, opens_with, health),
        subtitle=_subtitle(loaded, cases),
        summary=_summary(loaded, cases),
        first=first,
        warnings=opening.warnings(loaded, cases, every, billed.runs, _missing(health)),
        notes=opening.notes(loaded, every, billed.runs),
        headlines=opening.headlines(by_benchmark, expected),
        facts=opening.facts(loaded, cases, measured_on),
        sections=_some(*sections),
        verdicts=None if health is None else every_verdict(health),
        records_at=evidence.records_at,
    )


class _Placed(NamedTuple):
    """A section before the benchmarks, or after them."""

    first: Section | None
    later: Section | None


def _placed(section: Section | None, *, is_first: bool) -> _Placed:
    return _Placed(section, None) if is_first else _Placed(None, section)


def _opens_with(health: NodeHealth | None, *, asks_price: bool) -> NodeHealth | None:
    """The health that title and answer speak of."""
    return health if health is not None and health.is_opening(asks_price=asks_price) else None


def _health_section(health: NodeHealth | None, evidence: Evidence) -> _Placed:
    """First, but for records of a benchmark without limits, which were never meant to judge a
    node."""
    if health is None:
        return _Placed(None, None)
    return _placed(health_section(health, evidence), is_first=health.is_checked)


def _asks_price(terms: Terms, api: ApiPrices | None, level: ServiceLevel | None) -> bool:
    """Whether any option on prices was used."""
    of_api = api is not None and api.given
    return terms != OWN or of_api or (level is not None and bool(level.limits))


def _some(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def _missing(health: NodeHealth | None) -> set[str]:
    """The names of nodes without a record."""
    return {node.name for node in health.missing} if health is not None else set()


def _advice(advised: Advised | Sized) -> Section:
    # An eighth of the imports of a report, and most have none.
    from .advice import advice_section  # noqa: PLC0415

    return advice_section(advised)


def _health(
    loaded: Loaded, ours: Sequence[Case], expected: Expectations, faults: Faults
) -> NodeHealth | None:
    """The verdicts on our records; None where all that was read is published."""
    if not ours:
        return None
    meant = roster(loaded, ours)
    return node_health(
        examine(latest(ours, run_ids(loaded)), expected, expected=meant, faults=faults),
        meant.nodes,
    )


def _bad(health: NodeHealth | None) -> frozenset[tuple[str, str]]:
    """(node, benchmark) of each failure and warning."""
    if health is None:
        return frozenset()
    return frozenset(
        (node, item.benchmark)
        for item in health.health.verdicts
        if item.verdict in ("fail", "warn")
        for node in item.nodes
    )


def _by_benchmark(all_groups: Sequence[Group]) -> dict[str, list[Group]]:
    members: dict[str, list[Group]] = {}
    for group in all_groups:
        members.setdefault(group.benchmark, []).append(group)
    return members


def _series(loaded: Loaded, benchmark: str, expected: Expectations) -> list[Series]:
    """The scaling series of a benchmark."""
    if not views()[benchmark].scales:
        return []
    try:
        return series(loaded, benchmark=benchmark, expectations=expected)
    except BadInput:
        # Records that do not say their cores or nodes can be shown and not scaled.
        return []


def _several(scaling_series: Series) -> bool:
    """Whether a series has more than one count."""
    return len(scaling_series.best) > 1


def _more(
    members: Sequence[Group], ok: Sequence[Case], scaled: Sequence[Series], judged: Judged
) -> list[Part]:
    benchmark = members[0].benchmark
    view = views()[benchmark]
    of_it = [case for case in ok if case.benchmark == benchmark]
    return [
        *(layout_parts(members) if view.layouts and len(members) > 1 else ()),
        *(scaling_parts(scaled) if scaled else ()),
        *roofline_parts(of_it, ok, judged.sizes, judged.heads.loaded.figures),
    ]


class _Billed(NamedTuple):
    """The results on costs."""

    runs: CostTable | None
    tokens: TokenTable | None
    level: ServiceLevel | None = None
    users: UserTable | None = None

    def sheets(self) -> list[Sheet]:
        """The sheets of `trueup cost`, without the load sweeps of a benchmark's section."""
        sheets = [] if self.runs is None else cost_sheets.cost(self.runs)
        sheets += [] if self.tokens is None else token_sheets.tokens(self.tokens)
        return sheets + ([] if self.users is None else user_sheets.users(self.users))

    def section(self) -> Section | None:
        """The costs; where no price is known one sentence, and how to give one."""
        sheets = self.sheets()
        if not sheets:
            return None
        data = [*sheets, *([] if self.tokens is None else sweep_sheets(self.tokens, self.level))]
        priced = (self.runs is not None and self.runs.has_prices) or (
            self.tokens is not None
            and any(row["usd_per_hour"] is not None for row in self.tokens.table)
        )
        priced = priced or (self.users is not None and self.users.has_prices)
        if not priced:
            unknown = opening.unique(
                [
                    *(self.runs.unknown if self.runs is not None else ()),
                    *(self.tokens.unknown if self.tokens is not None else ()),
                    *(self.users.unknown if self.users is not None else ()),
                ]
            )
            reasons = " ".join(unknown)
            only_part = Part(
                paragraphs=(f"No price is known, so no cost is shown. {reasons}".rstrip(),)
            )
            return Section("cost", "Cost", (only_part,), data=data)
        # Prices that are unknown stand among the warnings at the top of the page.
        parts = [Part(sheets=(replace(sheet, warnings=()),)) for sheet in sheets]
        return Section("cost", "Cost", parts, data=data)


def _billed(
    loaded: Loaded,
    by_benchmark: Mapping[str, Sequence[Group]],
    catalog_folder: Path,
    terms: Terms,
    api: ApiPrices | None,
    expected: Expectations,
    level: ServiceLevel | None,
) -> _Billed:
    book = read_all(catalog_folder, terms.agreed)
    runs = serving = None
    if has_work(loaded):
        runs = cost.table(loaded, prices=book, terms=terms, expectations=expected)
    if any(map(is_served, by_benchmark)):
        gpus = tokens.read_gpus(catalog_folder / "vm_sizes.csv")
        serving = tokens.table(loaded, prices=book, gpus=gpus, terms=terms, api=api)
    if serving is not None and not serving.table:
        serving = None
    by_user = None
    if users.has_users(loaded, terms):
        vcpus = users.read_vcpus(catalog_folder / "vm_sizes.csv")
        by_user = users.table(loaded, prices=book, vcpus=vcpus, terms=terms)
    return _Billed(runs, serving, level, by_user)


def _empty(loaded: Loaded) -> Page:
    section = excluded_section(loaded)
    return Page(
        title="No records",
        subtitle="nothing was measured, or nothing of it could be read",
        summary=(
            f"There is no record to report on: {MEASURE}, or name the folder of the records.",
        ),
        warnings=opening.warnings(loaded, [], [], None),
        notes=opening.notes(loaded, [], None),
        sections=() if section is None else (section,),
    )


def _title(
    cases: Sequence[Case],
    measured_on: Sequence[Machine],
    opens_with: NodeHealth | None,
    health: NodeHealth | None,
) -> str:
    """The benchmarks, the machines, and whether all nodes pass where the page opens with that."""
    nodes = sorted({node for machine in measured_on for node in machine.nodes})
    expected = len(nodes) if health is None else len(health.words)
    where = nodes[0] if expected == 1 else plural(expected, "node")
    if nodes == ["published"]:
        where = "published systems"
    title = f"{_what(cases)} on {where} ({_sizes(measured_on)})"
    failed = sum(case.outcome != "ok" for case in cases)
    words = [] if opens_with is None else [opens_with.sentence]
    words += [f"{plural(failed, 'record')} not ok"] if failed else []
    return f"{title}: {', '.join(words)}" if words else title


def _what(cases: Sequence[Case]) -> str:
    """The benchmarks in words: "Devito, HPL and 3 more benchmarks"."""
    every = {case.benchmark for case in cases} - {_STATE}
    names = [names_of(name) for name in sorted(every - _ABOUT) or sorted(every) or [_STATE]]
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more benchmarks"]
    *first, last = names
    text = f"{', '.join(first)} and {last}" if first else last
    return text if text.startswith("vLLM") else text[:1].upper() + text[1:]


def _sizes(measured_on: Sequence[Machine]) -> str:
    names = sorted({machine.vm_size or NOT_AZURE for machine in measured_on})
    return names[0] if len(names) == 1 else f"{len(names)} sizes"


def _subtitle(loaded: Loaded, cases: Sequence[Case]) -> str:
    runs = sorted({case.run_id for case in cases})
    begun = [str(run["started_at"]) for run in loaded.runs if run.get("started_at")]
    days = sorted(begun + [case.started_at for case in cases if case.started_at])
    when = _moment(days[0]) if days else f"date {UNKNOWN}"
    ended = [run.get("finished_at") for run in loaded.runs]
    if len(runs) == 1:
        until = f" to {_moment(str(ended[0]))}" if len(ended) == 1 and ended[0] else ""
        return f"run {runs[0]} · {when}{until} UTC"
    return f"{len(runs)} runs, {runs[0]} to {runs[-1]} · from {when} UTC"


def _moment(stamp: str) -> str:
    return stamp.replace("T", " ").removesuffix("Z")


def _summary(loaded: Loaded, cases: Sequence[Case]) -> tuple[str, ...]:
    total = len(cases)
    tally = {name: sum(case.outcome == name for case in cases) for name in OUTCOMES}
    parts = ", ".join(
        f"{number:,} {name.replace('_', ' ')}"
        for name, number in tally.items()
        if number or name == "ok"
    )
    text = f"{plural(total, 'record')}: {parts}."
    left_out = plural(len(loaded.excluded), "file was", "files were")
    text += f" {left_out} left out because unreadable." if loaded.excluded else ""
    if not tally["ok"]:
        text += " No record is ok, so there is no figure to report: the reasons follow."
    return (text,)
