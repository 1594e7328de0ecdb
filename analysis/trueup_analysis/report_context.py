"""What stands in the report: pure functions from what was loaded to a ``Page``.

Here stands what the records say by themselves; ``report_sections`` holds what was analysed.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from .catalog import folder
from .cost import read_prices, table
from .render.html import Column, Fact, Headline, Page, Part, Row, Section, Table, Warnings
from .render.printed import UNKNOWN, count, measure, money, percent, plural, seconds, span
from .report_cases import headline_case, machines, problem, read_cases
from .report_sections import (
    bandwidth_section,
    cost_section,
    layouts_section,
    read_sizes,
    reference_section,
    roofline_section,
    scaling_section,
)
from .scaling import JUDGED, series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from .cost import CostTable
    from .load import Loaded
    from .report_cases import Case, Machine
    from .scaling import Series

__all__ = ["gather"]

_BENCHMARKS: Final = {"devito": "Devito", "stream": "memory bandwidth"}
_NOT_AZURE: Final = "not an Azure size"
# More lines than these of one kind are counted, not listed: the tables below list them all.
_LINES: Final = 8
_NAMES: Final = 8
_GIB: Final = 1024**3
_MIB: Final = 1024**2


def gather(
    loaded: Loaded,
    *,
    catalog: Path | None = None,
    region: str | None = None,
    offer: str | None = "payg",
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
    sections = [
        _machines_section(measured_on),
        scaling_section(scaled),
        layouts_section(ok),
        roofline_section(ok, sizes),
        bandwidth_section(ok, sizes),
        cost_section(billed),
        reference_section(loaded, place / "reference_results.csv"),
        _records_section(cases),
        _excluded_section(loaded),
        _method_section(),
    ]
    return Page(
        title=_title(cases, measured_on),
        subtitle=_subtitle(loaded, cases),
        summary=_summary(loaded, cases),
        warnings=tuple(group for group in _warnings(loaded, cases, scaled, billed) if group.lines),
        headlines=tuple(_headlines(best, ok, billed)),
        headline_note=_headline_note(best),
        facts=tuple(_facts(loaded, cases, measured_on)),
        sections=tuple(section for section in sections if section is not None),
    )


def _series(loaded: Loaded, ok: Sequence[Case]) -> list[Series]:
    """The scaling series of every benchmark that can have one."""
    found = []
    for benchmark in sorted(JUDGED):
        of_it = [case for case in ok if case.benchmark == benchmark]
        if any(case.median(JUDGED[benchmark][0]) is not None for case in of_it):
            found += series(loaded, benchmark=benchmark)
    # Bandwidth at one thread count is no scaling and was not meant to be: its own table has it.
    return [one for one in found if one.benchmark != "stream" or one.table["best"].sum() > 1]


def _empty(loaded: Loaded) -> Page:
    section = _excluded_section(loaded)
    return Page(
        title="No records",
        subtitle="nothing was measured, or nothing of it could be read",
        summary=(
            "There is no record to report on: run `make run`, or name the folder of the records.",
        ),
        warnings=tuple(group for group in _warnings(loaded, [], [], None) if group.lines),
        sections=() if section is None else (section,),
    )


def _title(cases: Sequence[Case], measured_on: Sequence[Machine]) -> str:
    # A publication's sums of its own run times are no benchmark beside it.
    found = sorted({case.benchmark for case in cases} - {"devito_sums"}) or ["devito_sums"]
    names = [_BENCHMARKS.get(name, name) for name in found]
    what = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    nodes = sorted({node for machine in measured_on for node in machine.nodes.split("+")})
    where = nodes[0] if len(nodes) == 1 else plural(len(nodes), "node")
    if nodes == ["published"]:
        where = "published systems"
    return f"{what[:1].upper()}{what[1:]} on {where} ({_sizes(measured_on)})"


def _sizes(measured_on: Sequence[Machine]) -> str:
    names = sorted({machine.vm_size or _NOT_AZURE for machine in measured_on})
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


# --- warnings -------------------------------------------------------------------------------------


def _warnings(
    loaded: Loaded, cases: Sequence[Case], scaled: Sequence[Series], billed: CostTable | None
) -> list[Warnings]:
    """All that a reader must know before the figures, worst first; groups without lines are
    dropped by the caller.
    """
    failed = [case for case in cases if case.outcome == "failed"]
    invalid = [case for case in cases if case.outcome == "invalid"]
    skipped = [step for run in loaded.runs for step in run.get("skipped") or []]
    doubts = [Fact(one.title, text) for one in scaled for text in one.warnings]
    unknown = _unique(billed.unknown) if billed else []
    prices = _unique(billed.warnings) if billed else []
    return [
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
            f"{plural(len(loaded.excluded), 'file')} left out because unreadable",
            [Fact(item.path, item.reason) for item in loaded.excluded],
            "Files left out lists the rest.",
        ),
        _group("The run", _run_troubles(loaded)),
        _group("Scaling", doubts, "The rest stands in the Scaling section."),
        _group("Prices that are unknown", [Fact("", text) for text in unknown]),
        _group("Prices", [Fact("", text) for text in prices]),
        _group(
            f"{plural(len(skipped), 'step')} skipped",
            [
                Fact(
                    f"{step.get('node', UNKNOWN)}: {step.get('what', UNKNOWN)}",
                    str(step.get("why")),
                )
                for step in skipped
            ],
        ),
        _group("Notes of the reader", [Fact("", text) for text in loaded.notes]),
    ]


def _group(title: str, lines: Sequence[Fact], rest: str = "") -> Warnings:
    """Long lists that another part of the page holds whole (``rest`` says where) are cut."""
    if not rest or len(lines) <= _LINES:
        return Warnings(title, tuple(lines))
    more = f"and {len(lines) - _LINES:,} more. {rest}"
    return Warnings(title, tuple(lines[:_LINES]), more)


def _reasons(cases: Sequence[Case]) -> list[Fact]:
    return [
        Fact(f"{case.benchmark} {case.name} on {case.machine.nodes}", case.reason or UNKNOWN)
        for case in cases
    ]


def _run_troubles(loaded: Loaded) -> list[Fact]:
    lines = []
    for run in loaded.runs:
        name = str(run.get("run_id", UNKNOWN))
        if not run.get("finished_at"):
            lines.append(Fact(name, "did not finish: it was interrupted, or it is still running."))
        for host, tally in sorted((run.get("hosts") or {}).items()):
            bad = [f"{plural(tally['failed'], 'task')} failed"] if tally.get("failed") else []
            bad += ["unreachable"] if tally.get("unreachable") else []
            if bad:
                lines.append(Fact(name, f"{host}: {', '.join(bad)}."))
        lines += [Fact(name, str(text)) for text in run.get("warnings") or []]
    return lines


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


# --- headline figures -----------------------------------------------------------------------------


def _headlines(best: Case | None, ok: Sequence[Case], billed: CostTable | None) -> list[Headline]:
    found = []
    if best is not None:
        time = best.figures["run_time"]
        layout = "layout unknown" if best.layout == UNKNOWN else best.layout
        repeats = "" if time.n is None else f", n = {time.n}"
        spread = span(time.low, time.high, "s")
        spread = "" if spread == UNKNOWN else f", {spread}\u00a0s"
        found.append(
            Headline("Best run time", seconds(time.median), "s", f"{layout}{repeats}{spread}")
        )
        for label, name, unit, printed in (
            ("Floating-point rate", "flop_rate", "flop/s", "GFLOP/s"),
            ("Point rate", "point_rate", "point/s", "GPts/s"),
        ):
            found.append(
                _headline(label, measure(best.median(name), unit), printed, "of the same run")
            )
        found.append(
            _headline(
                "Fraction of the roofline",
                percent(best.median("roofline_fraction")),
                "%",
                "of what the memory bandwidth allows at its operational intensity",
            )
        )
    found += _bandwidth_headline(ok)
    if best is not None:
        found.append(_cost_headline(best, billed))
    return found


def _headline(label: str, value: str, unit: str, detail: str) -> Headline:
    return Headline(label, value, "" if value == UNKNOWN else unit, detail)


def _bandwidth_headline(ok: Sequence[Case]) -> list[Headline]:
    rates = [(rate, case) for case in ok if (rate := case.median("triad_rate")) is not None]
    if not rates:
        return []
    rate, case = max(rates, key=lambda pair: pair[0])
    on = f"{plural(case.cores or 0, 'thread')} on {case.machine.nodes}"
    return [Headline("Memory bandwidth, triad", measure(rate, "byte/s"), "GB/s", on)]


def _cost_headline(best: Case, billed: CostTable | None) -> Headline:
    label, why = "Cost of that run", "no price is known: see Prices that are unknown"
    rows = None if billed is None else billed.table[billed.table["case"] == best.name]
    if rows is None or rows.empty:
        return Headline(label, UNKNOWN, "", why)
    own = rows[rows["vm_size"] == best.machine.vm_size]
    row = (rows if own.empty else own).iloc[0]
    value = money(float(row["usd_per_run"]))
    if value == UNKNOWN:
        return Headline(label, UNKNOWN, "", why)
    date = f", price of {row['price_date']}" if row["price_date"] else ", undated price"
    where = ", ".join(str(row[key]) for key in ("vm_size", "region", "offer") if _is_text(row[key]))
    return Headline(label, value, "US$", f"{where}{date}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _headline_note(best: Case | None) -> str:
    if best is None:
        return ""
    statistic = ", median of the repeats" if best.measured else f", published in {best.provenance}"
    return (
        f"Fastest of its problem, {problem(best)}: case {best.name} on {best.machine.nodes}"
        f"{statistic}."
        " Run times of other problems are not comparable."
    )


# --- what it was measured on ----------------------------------------------------------------------


def _facts(loaded: Loaded, cases: Sequence[Case], measured_on: Sequence[Machine]) -> list[Fact]:
    ours = [case for case in cases if case.measured] or list(cases)
    versions: dict[str, set[str]] = {}
    for case in ours:
        for name, version in case.software.items():
            versions.setdefault(name, set()).add(version)
    software = ", ".join(
        f"{name} {' and '.join(sorted(versions[name]))}" for name in sorted(versions)
    )
    facts = []
    if len(measured_on) == 1:
        facts = [Fact(title, text) for title, text in _machine(measured_on[0])]
    else:
        facts.append(Fact("Machines", f"{len(measured_on)}, listed under Machines"))
    facts.append(Fact("Software", software or UNKNOWN))
    runs = sorted({case.run_id for case in cases})
    facts.append(Fact("Run" if len(runs) == 1 else "Runs", ", ".join(runs)))
    playbooks = _unique(str(run["playbook"]) for run in loaded.runs if run.get("playbook"))
    if playbooks:
        facts.append(Fact("Playbook", ", ".join(PurePath(name).name for name in playbooks)))
    return facts


def _machine(machine: Machine) -> list[tuple[str, str]]:
    """What is known of one machine; a size that Azure does not have cannot have a region or an
    image.
    """
    memory, cache = machine.get("memory_bytes"), machine.get("last_level_cache_bytes")
    names = machine.nodes.split("+")
    nodes = ", ".join(names[:_NAMES]) + (
        f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    )
    rows = [
        ("Node" if len(names) == 1 else f"{len(names)} nodes", nodes),
        ("Azure size", machine.vm_size or _NOT_AZURE),
    ]
    if machine.vm_size:
        rows.append(("Region", machine.region or UNKNOWN))
    rows += [
        ("CPU", str(machine.get("cpu_model") or UNKNOWN)),
        ("Cores", count(machine.get("cores"))),
        ("Memory", f"{memory / _GIB:,.1f} GiB" if memory else UNKNOWN),
        ("Last-level cache", f"{cache / _MIB:,.0f} MiB" if cache else UNKNOWN),
        ("Operating system", str(machine.get("os") or UNKNOWN)),
        ("Kernel", str(machine.get("kernel") or UNKNOWN)),
    ]
    if machine.vm_size:
        rows.append(("Image", str(machine.get("image") or UNKNOWN)))
    return rows


def _machines_section(measured_on: Sequence[Machine]) -> Section | None:
    if len(measured_on) < 2:  # one machine stands at the top of the page
        return None
    titles = (
        "Node",
        "Azure size",
        "Region",
        "CPU",
        "Cores",
        "Memory",
        "Operating system",
        "Kernel",
    )
    rows = []
    for machine in measured_on:
        known = dict(_machine(machine))
        known["Node"] = _machine(machine)[0][1]
        known.setdefault("Region", "none")
        rows.append(Row(tuple(known[title] for title in titles)))
    columns = tuple(
        Column(t, kind="number" if t in ("Cores", "Memory") else "word") for t in titles
    )
    listing = Table("machines", "The machines that the records come from.", columns, tuple(rows))
    return Section("machines", "Machines", (Part(tables=(listing,)),))


# --- all records ----------------------------------------------------------------------------------


def _records_section(cases: Sequence[Case]) -> Section:
    several = len({case.run_id for case in cases}) > 1
    columns = (
        Column("Case"),
        *((Column("Run"),) if several else ()),
        Column("Node"),
        Column("Outcome"),
        Column("Reason", kind="text"),
        Column("Started", "UTC"),
        Column("Duration", "s", "number"),
        Column("Command", kind="code"),
        Column("Raw output", kind="code"),
    )
    rows = [
        Row(
            (
                f"{case.benchmark} {case.name}",
                *((case.run_id,) if several else ()),
                case.machine.nodes,
                case.outcome if case.measured else "published",
                case.reason or ("" if case.outcome == "ok" else UNKNOWN),
                _moment(case.started_at) if case.started_at else UNKNOWN,
                seconds(case.duration),
                " ".join(case.command) or UNKNOWN,
                _beside(case),
            ),
            mark="" if case.outcome == "ok" else "bad",
        )
        for case in cases
    ]
    listing = Table(
        "records",
        "Every record that was read, whatever its outcome.",
        columns,
        tuple(rows),
        shown=500,
    )
    return Section("records", "All records", (Part(tables=(listing,)),))


def _beside(case: Case) -> str:
    """The raw output's place below the results folder."""
    if case.raw_path is None:
        return "none kept" if case.measured else case.provenance
    return "/".join(PurePath(case.raw_path).parts[-2:])


def _excluded_section(loaded: Loaded) -> Section | None:
    if not loaded.excluded:
        return None
    columns = (Column("File", kind="code"), Column("Reason", kind="text"))
    rows = tuple(Row((item.path, item.reason), mark="bad") for item in loaded.excluded)
    listing = Table("left-out", "What could not be read, and why.", columns, rows)
    return Section("left-out", "Files left out", (Part(tables=(listing,)),))


_METHOD: Final = (
    Fact(
        "Median, n, spread",
        "Each case is run n times after compilation and autotuning, which are not part of the"
        " time. The median stands for"
        " it; the spread is the least and the greatest measurement. It is no confidence interval.",
    ),
    Fact(
        "Run time",
        "s. The time of the forward operator in Devito's own acoustic benchmark, without set-up.",
    ),
    Fact(
        "Point rate",
        "GPts/s, 10⁹ grid points updated in a second: grid points × time steps / run time.",
    ),
    Fact(
        "Floating-point rate",
        "GFLOP/s, 10⁹ floating-point operations a second, counted by Devito from the generated"
        " code, not by the CPU.",
    ),
    Fact(
        "Operational intensity",
        "flop/byte: the counted operations for each byte that must move between memory and the"
        " CPU.",
    ),
    Fact(
        "Memory bandwidth",
        "GB/s, 10⁹ byte/s. Triad is a[i] = b[i] + q × c[i] over arrays at least four times the"
        " last-level cache; three"
        " arrays count 24 byte an element.",
    ),
    Fact(
        "Roofline fraction",
        "%. Floating-point rate / (measured triad bandwidth × operational intensity), or / peak"
        " where that is lower.",
    ),
    Fact(
        "Speed-up, efficiency",
        "Strong scaling: run time of the baseline / run time. Efficiency is the speed-up / how"
        " many times the resources of"
        " the baseline were used; in weak scaling, where the work grows along, it is the"
        " baseline's time / the time.",
    ),
    Fact(
        "Serial fraction",
        "Karp and Flatt's: (1/S - 1/p) / (1 - 1/p) for speed-up S on p times the resources."
        " Growing with p, it means"
        " overhead rather than serial work.",
    ),
    Fact(
        "Amdahl, USL",
        "Least-squares fits to the speed-ups. Amdahl: S = p / (1 + σ(p - 1)). Universal"
        " scalability law:"
        " S = p / (1 + σ(p - 1) + κp(p - 1)); σ is contention, κ coherency. ± is the standard"
        " error of the fit.",
    ),
    Fact(
        "Cost",
        "US$ = nodes × run time × price of a node-hour. Storage, network, provisioning and idle"
        " time are not in it.",
    ),
    Fact(
        "Sources",
        "Measured figures come from the records of this run, each with the tool's own output"
        " beside it. Sizes, prices and"
        " published results come from the catalog, with the source and date that the tables name.",
    ),
)


def _method_section() -> Section:
    return Section("method", "Method and units", (Part(terms=_METHOD),))
