"""The opening of the report: the answer to the question in some sentences, warnings, headline
figures, benchmarks and machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from trueup_node.record import TOO_SHORT

from .. import units
from ..figures.cost import cheapest_of_tokens, cheapest_of_work
from ..figures.pooling import work_priced
from ..figures.prices import NO_SIZE
from ..render.html import UNKNOWN, Fact, Headline, Part, Section, Warnings
from ..rooms import at_headline, judged_by, names_of, view_of
from ..sheets import compare
from ..sheets import health as health_sheets
from ..sheets.sheet import Column, Sheet, place_text
from ..units import count, in_unit, money, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from trueup_node.cases import Case
    from trueup_node.health.expectations import Expectations
    from trueup_node.view import View

    from ..figures.compare.changes import Comparison
    from ..figures.cost import CostTable
    from ..figures.groups import Group, Pooled
    from ..figures.scaling.tables import Series
    from ..figures.sizes import Sizes
    from ..figures.tokens import TokenTable
    from ..load import Loaded
    from .health import NodeHealth

NOT_AZURE: Final = "not an Azure size"

# How identify ends its warning where no metadata service answers: true of every machine at home,
# and no trouble there.
OFF_AZURE: Final = "taken for a machine outside Azure"

# More lines than these of one kind are counted, not listed: the tables below list them all.
_LINES: Final = 8
_NAMES: Final = 8
_TILES: Final = 12
# Nodes of a finding, and prices of the answer that it names.
_NODES: Final = 3
_COSTS: Final = 4
# Findings that the answer names; the cards have all.
_FINDINGS: Final = 3
_TOKENS: Final = "usd_per_million_total_tokens"
# How a machine says nothing.
_NOT_SAID: Final = (None, "", UNKNOWN, units.UNKNOWN)
_GIB: Final = 1024**3
_MIB: Final = 1024**2


def answer_section(
    prices: Sequence[str], health: NodeHealth | None, changes: Comparison | None
) -> Section | None:
    """The sentences on prices, then health, then the changes since the run before; None without
    any."""
    sentences = list(prices)
    if health is not None:
        sentences.append(" ".join(health_sentences(health)))
    if changes is not None:
        sentences.append(f"Since the run before: {compare.answer(changes)}")
    if not sentences:
        return None
    return Section("answer", "The answer", (Part(paragraphs=sentences),), data=())


def health_sentences(fleet: NodeHealth) -> list[str]:
    """How many nodes are well, and the worst findings."""
    sentences = [f"{fleet.sentence[:1].upper()}{fleet.sentence[1:]}."]
    failures = [item for item in fleet.health.findings if item.verdict == "fail"]
    findings = health_sheets.findings(failures)
    sentences += [_finding(finding) for finding in findings[:_FINDINGS]]
    if len(findings) > _FINDINGS:
        sentences.append(f"{plural(len(findings) - _FINDINGS, 'more finding')} below.")
    return sentences


def _finding(finding: health_sheets.Finding) -> str:
    """ "h100-0017: NCCL all-reduce on one node at 16 GiB 236.10 GB/s (limit ≥ 460.00)." """
    row = finding.row
    names = ["+".join(its[0].nodes) for its in finding.nodes]
    more = f" and {plural(len(names) - _NODES, 'more node')}" if len(names) > _NODES else ""
    text = f"{', '.join(names[:_NODES])}{more}: {', '.join(finding.checks)}"
    text += f" at {finding.size}" if finding.size else ""
    if row["measured"] == units.UNKNOWN:
        return f"{text}, {row['reason']}."
    worst = " at worst" if len(names) > 1 else ""
    limit = f" (limit {row['expected']})" if row["expected"] else ""
    return f"{text} {row['measured']} {row['unit']}{worst}{limit}."


def price_sentences(runs: CostTable | None, tokens: TokenTable | None, sizes: Sizes) -> list[str]:
    """The cheapest of several machines for the same work; without a choice, the cost of each
    benchmark's cheapest row; without a price, the reason."""
    sentences = [] if runs is None else cheapest_of_work(runs, sizes)
    sentences += [] if tokens is None else cheapest_of_tokens(tokens, sizes)
    if not sentences:
        sentences = [*_costs(runs), *_token_costs(tokens)]
        more = len(sentences) - _COSTS
        sentences[_COSTS:] = [f"{plural(more, 'more price')} below."] if more > 0 else []
    if sentences:
        return sentences
    unknown = [
        *([] if runs is None else runs.unknown),
        *([] if tokens is None else tokens.unknown),
    ]
    if not unknown and runs is None and tokens is None:
        return ["Nothing among these records has a price: no run time and no rate of work."]
    return [f"No price is known. {' '.join(dict.fromkeys(unknown))}".rstrip()]


def _costs(runs: CostTable | None) -> Iterator[str]:
    """Of each benchmark the cheapest row, by its first unit of work that has a cost."""
    by_benchmark: dict[str, list[tuple[float, str]]] = {}
    for row in [] if runs is None else runs.table:
        by_column = {f"usd_per_{work.key}": work.unit for work in work_priced(row["benchmark"])}
        column = next(
            (name for name in (*by_column, "usd_per_run") if row.get(name) is not None), None
        )
        if column is None:
            continue
        where = f"{row['vm_size'] or 'this machine'} at {money(row['usd_per_hour'])} US$ an hour"
        cost = f"{money(row[column])} US$ per {by_column.get(column, 'run')}"
        text = f"{names_of(row['benchmark'])}, {row['case']}: {cost} on {where}."
        by_benchmark.setdefault(row["benchmark"], []).append((row[column], text))
    for costs in by_benchmark.values():
        yield min(costs)[1]


def _token_costs(tokens: TokenTable | None) -> Iterator[str]:
    """Of each model its cheapest row."""
    by_model: dict[str, list[tuple[float, str]]] = {}
    for row in [] if tokens is None else tokens.table:
        if row[_TOKENS] is not None:
            where = (
                f"{row['vm_size'] or 'this machine'} at {money(row['usd_per_hour'])} US$ an hour"
            )
            cost = f"{money(row[_TOKENS])} US$ per million tokens"
            by_model.setdefault(row["model"], []).append(
                (row[_TOKENS], f"{row['model']}: {cost} on {where}.")
            )
    for costs in by_model.values():
        yield min(costs)[1]


def warnings(
    loaded: Loaded,
    cases: Sequence[Case],
    scaled: Sequence[Series],
    billed: CostTable | None,
    missing: Collection[str] = (),
) -> tuple[Warnings, ...]:
    """Errors, and doubts about figures, worst first. The reasons why the ``missing`` nodes have no
    record stand above them.
    """
    failed = [case for case in cases if case.outcome == "failed"]
    invalid = [case for case in cases if case.outcome == "invalid"]
    short = [case for case in cases if case.outcome == TOO_SHORT]
    doubts = [Fact(series.title, text) for series in scaled for text in series.warnings]
    unknown = [text for text in unique(billed.unknown) if text != NO_SIZE] if billed else []
    prices = unique(billed.warnings) if billed else []
    return _filled(
        _group(
            f"{plural(len(failed), 'record')} failed",
            _reasons(failed),
            "All records lists the rest.",
        ),
        _group(
            f"{plural(len(invalid), 'record')} invalid (ran, but failed the correctness check)",
            _reasons(invalid),
            "All records lists the rest.",
        ),
        _group(
            f"{plural(len(short), 'record')} too short to judge, in no headline, cost or scaling",
            _reasons(short),
            "All records lists the rest.",
        ),
        _group(
            f"{plural(len(loaded.excluded), 'file')} left out because unreadable",
            [Fact(item.path, item.reason) for item in loaded.excluded],
            "Files left out lists the rest.",
        ),
        _group("The run", _run_troubles(loaded, missing)),
        _group("Scaling", doubts, "The rest stands in the Scaling section."),
        _group("Prices that are unknown", [Fact("", text) for text in unknown]),
        _group("Prices", [Fact("", text) for text in prices]),
    )


def notes(
    loaded: Loaded, scaled: Sequence[Series], billed: CostTable | None
) -> tuple[Warnings, ...]:
    """Notes that are no warnings."""
    steps = [step for run in loaded.runs for step in run.get("skipped") or []]
    skipped = [
        Fact(f"{step.get('node', UNKNOWN)}: {step.get('what', UNKNOWN)}", step.get("why", UNKNOWN))
        for step in steps
    ]
    about = [Fact("", text) for run in loaded.runs for text in _said(run) if OFF_AZURE in text]
    about += [Fact("", text) for text in loaded.notes]
    # Where no price is known at all, the section on costs says so.
    if billed and billed.has_prices and NO_SIZE in billed.unknown:
        about.append(Fact("", NO_SIZE))
    single = sum(len(series.rows) == 1 for series in scaled)
    if single:
        of = f"{single} of {plural(len(scaled), 'series', 'series')}"
        about.append(
            Fact("", f"Only one count was measured in {of}: that says nothing on scaling.")
        )
    return _filled(
        _group("The run and its figures", list(dict.fromkeys(about))),
        _group(f"{plural(len(steps), 'step')} skipped", skipped),
    )


def _filled(*groups: Warnings) -> tuple[Warnings, ...]:
    return tuple(group for group in groups if group.lines)


def _said(run: dict[str, Any]) -> list[str]:
    return [str(text) for text in run.get("warnings") or []]


def _group(title: str, lines: Sequence[Fact], rest: str = "") -> Warnings:
    """Long lists that another part of the page holds whole (``rest`` says where) are cut."""
    if not rest or len(lines) <= _LINES:
        return Warnings(title, tuple(lines))
    more = f"and {len(lines) - _LINES:,} more. {rest}"
    return Warnings(title, tuple(lines[:_LINES]), more)


def _reasons(cases: Sequence[Case]) -> list[Fact]:
    return [
        Fact(f"{case.benchmark} {case.case} on {case.node}", case.reason or UNKNOWN)
        for case in cases
    ]


def _run_troubles(loaded: Loaded, missing: Collection[str]) -> list[Fact]:
    lines = []
    for run in loaded.runs:
        name = str(run.get("run_id", UNKNOWN))
        if not run.get("finished_at"):
            lines.append(Fact(name, "did not finish: it was interrupted, or it is still running."))
        for host, tally in sorted((run.get("hosts") or {}).items()):
            bad = [f"{plural(tally['failed'], 'task')} failed"] if tally.get("failed") else []
            bad += ["unreachable"] if tally.get("unreachable") else []
            if bad and host not in missing:
                lines.append(Fact(name, f"{host}: {', '.join(bad)}."))
        lines += [Fact(name, text) for text in _said(run) if OFF_AZURE not in text]
    return lines


def headlines(
    by_benchmark: Mapping[str, Sequence[Group]], expected: Expectations
) -> list[Headline]:
    """The best figure of each benchmark; of a single one, the other figures of its case too."""
    tiles = []
    for groups in by_benchmark.values():
        best = _best(groups, expected)
        if best is not None:
            tiles += _tiles(best, everything=len(by_benchmark) == 1)
    return tiles[:_TILES]


def _best(groups: Sequence[Group], expected: Expectations) -> Group | None:
    """The best group of the problem that is judged, else that most nodes ran, then most cases."""
    headed = [group for group in groups if group.head is not None]
    problems: dict[object, list[Group]] = {}
    for group in headed:
        problems.setdefault((group.apart, group.head and group.head.measure.metric), []).append(
            group
        )
    if not problems:
        return None
    members = max(
        problems.values(),
        key=lambda of: (
            any(_judged(group, expected) for group in of),
            max(len(group.nodes) for group in of),
            sum(len(group.cases) for group in of),
            -_rank(of[0]),
            # Of equals the larger problem, or the higher rate.
            max(group.head.value for group in of if group.head is not None),
        ),
    )

    def value(group: Group) -> float:
        head = group.head
        if head is None:
            return 0.0
        return -head.value if head.measure.direction == "lower" else head.value

    return max(members, key=value)


def _judged(group: Group, expected: Expectations) -> bool:
    metric = "" if group.head is None else group.head.measure.metric
    return bool(judged_by(group.cases[0], metric, expected))


def _rank(group: Group) -> int:
    view = view_of(group.benchmark)
    metrics = [] if view is None else [measure.metric for measure in view.headlines]
    metric = group.head.measure.metric if group.head is not None else ""
    return metrics.index(metric) if metric in metrics else len(metrics)


def _tiles(group: Group, *, everything: bool) -> list[Headline]:
    view, head = view_of(group.benchmark), group.head
    if view is None or head is None:
        return []
    measure = head.measure
    several = len(group.cases) > 1 and len(group.nodes) > 1
    size = head.shown.message_bytes
    if several:
        at = "" if size is None else f" at {units.size_of(size)}"
    else:
        at = place_text(head.shown)
    tiles = [
        Headline(
            f"{view.title}: {measure.label}{at}",
            in_unit(head.value, measure.shown),
            measure.shown,
            ", ".join(_detail(group, head, view)),
        )
    ]
    for other in view.figures if everything else ():
        row = at_headline(head.best, other)
        if row is not None and other.metric != measure.metric:
            value = in_unit(row.value, other.shown)
            tiles.append(Headline(other.label, value, other.shown, "of the same case"))
    return tiles


def _detail(group: Group, head: Pooled, view: View) -> list[str]:
    """The text below the figure: its nodes, its layout and its ends."""
    several = len(group.cases) > 1 and len(group.nodes) > 1
    words = [f"median of {len(group.nodes):,} nodes" if several else group.where]
    words += [group.layout] if view.layouts and group.layout else []
    words += [value for name, value in group.apart if name in ("operation", "workload")]
    if head.low is not None and head.high is not None and head.low != head.high:
        low, high = (in_unit(end, head.measure.shown) for end in (head.low, head.high))
        words.append(f"{low} to {high}")
    return words


@dataclass(frozen=True)
class Machine:
    """The nodes of some records, by the records' own data."""

    nodes: tuple[str, ...]
    vm_size: str | None
    region: str | None
    system: Mapping[str, Any]


def machines(cases: Iterable[Case]) -> list[Machine]:
    """The kinds of machine that the cases ran on, each with all of its nodes."""
    kinds: dict[str, Machine] = {}
    nodes: dict[str, dict[str, None]] = {}
    distinct_cases: dict[tuple[object, ...], Case] = {}
    for case in cases:
        # Records of one node mostly share the object (see packed).
        distinct_cases.setdefault((case.vm_size, case.region, id(case.system), case.nodes), case)
    for case in distinct_cases.values():
        system = str(sorted(case.system.items(), key=str))
        key = f"{case.vm_size}\0{case.region}\0{system}"
        kinds.setdefault(key, Machine(case.nodes, case.vm_size, case.region, case.system))
        nodes.setdefault(key, {}).update(dict.fromkeys(case.nodes))
    return [replace(machine, nodes=tuple(nodes[key])) for key, machine in kinds.items()]


def unique(texts: Iterable[str]) -> list[str]:
    """Each text once, in order."""
    return list(dict.fromkeys(texts))


def facts(loaded: Loaded, cases: Sequence[Case], measured_on: Sequence[Machine]) -> list[Fact]:
    ours = [case for case in cases if case.measured] or list(cases)
    facts = [Fact("Machines", f"{len(measured_on)}, listed under Machines")]
    if len(measured_on) == 1:
        facts = [Fact(title, text) for title, text in _machine(measured_on[0])]
    facts.append(Fact("Software", _software(ours) or UNKNOWN))
    runs = sorted({case.run_id for case in cases})
    facts.append(Fact("Run" if len(runs) == 1 else "Runs", ", ".join(runs)))
    playbooks = unique(str(run["playbook"]) for run in loaded.runs if run.get("playbook"))
    if playbooks:
        facts.append(Fact("Playbook", ", ".join(PurePath(name).name for name in playbooks)))
    return facts


def _software(cases: Iterable[Case]) -> str:
    """Each program with its versions."""
    versions: dict[str, set[str]] = {}
    # Records mostly share the object (see packed).
    for software in {id(case.software): case.software for case in cases}.values():
        for name, version in software.items():
            versions.setdefault(name, set()).add(_short_version(version))
    return ", ".join(f"{name} {' and '.join(sorted(versions[name]))}" for name in sorted(versions))


def _short_version(text: str) -> str:
    """ "Open MPI v4.1.4" of "Open MPI v4.1.4, package: Debian OpenMPI, ident: ...", where the rest
    says who built it.
    """
    return text.partition(",")[0]


def _machine(machine: Machine) -> list[tuple[str, str]]:
    """The known facts of one machine; a size that Azure does not have cannot have a region or an
    image.
    """
    system, names = machine.system, machine.nodes
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    rows = [
        ("Node" if len(names) == 1 else f"{len(names)} nodes", ", ".join(names[:_NAMES]) + more),
        ("Azure size", machine.vm_size or NOT_AZURE),
        ("Region", machine.vm_size and machine.region),
        ("CPU", system.get("cpu_model")),
        ("Cores", count(system.get("cores"))),
        ("Memory", _bytes(system.get("memory_bytes"), _GIB, "{:,.1f} GiB")),
        ("Last-level cache", _bytes(system.get("last_level_cache_bytes"), _MIB, "{:,.0f} MiB")),
        ("Operating system", system.get("os")),
        ("Kernel", system.get("kernel")),
        ("Image", machine.vm_size and system.get("image")),
    ]
    # Facts that were not recorded are left out.
    return [(title, str(text)) for title, text in rows if text not in _NOT_SAID]


def _bytes(value: Any, unit: int, text: str) -> str:
    size = units.number(value)
    return text.format(size / unit) if size else ""


def machines_section(measured_on: Sequence[Machine]) -> Section | None:
    """The machines, where there are several kinds: one alone stands at the top of the page."""
    if len(measured_on) < 2:
        return None
    titles = ("Azure size", "Region", "CPU", "Cores", "Memory", "Operating system", "Kernel")
    rows = []
    for machine in measured_on:
        by_title = dict(_machine(machine))
        rows.append(
            {"nodes": _machine(machine)[0][1], **{title: by_title.get(title) for title in titles}}
        )
    numbers = ("Cores", "Memory")
    columns = [
        Column("nodes", "nodes", words=True),
        *(Column(title, title.lower(), words=title not in numbers) for title in titles),
    ]
    listing = Sheet(title="The machines that the records come from", columns=columns, rows=rows)
    return Section("machines", "Machines", (Part(sheets=(listing,)),))
