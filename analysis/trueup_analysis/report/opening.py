"""What the report opens with: warnings, headline figures, and what was measured on what."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from ..cost import NO_SIZE
from ..render import units
from ..render.html import UNKNOWN, Column, Fact, Headline, Part, Row, Section, Table, Warnings
from ..render.units import count, measure, money, percent_figure, plural, seconds, span
from .cases import problem
from .cells import NOT_AZURE, unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cost import CostTable
    from ..load import Loaded
    from ..scaling import Series
    from .cases import Case, Machine

__all__ = ["facts", "headline_note", "headlines", "machines_section", "notes", "warnings"]

# How module_utils/trueup/identify.py ends its warning where no metadata service answers: true of
# every machine at home, and no trouble there.
OFF_AZURE: Final = "taken for a machine outside Azure"

# More lines than these of one kind are counted, not listed: the tables below list them all.
_LINES: Final = 8
_NAMES: Final = 8
_GIB: Final = 1024**3
_MIB: Final = 1024**2


def warnings(
    loaded: Loaded, cases: Sequence[Case], scaled: Sequence[Series], billed: CostTable | None
) -> tuple[Warnings, ...]:
    """What went wrong, or puts a figure in doubt, worst first."""
    failed = [case for case in cases if case.outcome == "failed"]
    invalid = [case for case in cases if case.outcome == "invalid"]
    doubts = [Fact(one.title, text) for one in scaled for text in one.warnings]
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
            f"{plural(len(loaded.excluded), 'file')} left out because unreadable",
            [Fact(item.path, item.reason) for item in loaded.excluded],
            "Files left out lists the rest.",
        ),
        _group("The run", _run_troubles(loaded)),
        _group("Scaling", doubts, "The rest stands in the Scaling section."),
        _group("Prices that are unknown", [Fact("", text) for text in unknown]),
        _group("Prices", [Fact("", text) for text in prices]),
    )


def notes(
    loaded: Loaded, scaled: Sequence[Series], billed: CostTable | None
) -> tuple[Warnings, ...]:
    """What a reader may want to know, with nothing wrong in it."""
    steps = [step for run in loaded.runs for step in run.get("skipped") or []]
    skipped = [
        Fact(f"{step.get('node', UNKNOWN)}: {step.get('what', UNKNOWN)}", step.get("why", UNKNOWN))
        for step in steps
    ]
    about = [Fact("", text) for run in loaded.runs for text in _said(run) if OFF_AZURE in text]
    about += [Fact("", text) for text in loaded.notes]
    if billed and NO_SIZE in billed.unknown:
        about.append(Fact("", NO_SIZE))
    single = sum(len(one.table) == 1 for one in scaled)
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
        lines += [Fact(name, text) for text in _said(run) if OFF_AZURE not in text]
    return lines


def headlines(best: Case | None, ok: Sequence[Case], billed: CostTable | None) -> list[Headline]:
    found = []
    if best is not None:
        time = best.figures["run_time"]
        layout = "layout unknown" if best.layout == UNKNOWN else best.layout
        repeats = "" if time.n is None else f", n = {time.n}"
        spread = span(time.low, time.high, "s")
        spread = "" if spread == units.UNKNOWN else f", {spread}\u00a0s"
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
                percent_figure(best.median("roofline_fraction")),
                "%",
                "of what the memory bandwidth allows at its operational intensity",
            )
        )
    found += _bandwidth_headline(ok)
    if best is not None:
        found.append(_cost_headline(best, billed))
    return found


def _headline(label: str, value: str, unit: str, detail: str) -> Headline:
    return Headline(label, value, "" if value == units.UNKNOWN else unit, detail)


def _bandwidth_headline(ok: Sequence[Case]) -> list[Headline]:
    rates = [(rate, case) for case in ok if (rate := case.median("triad_rate")) is not None]
    if not rates:
        return []
    rate, case = max(rates, key=lambda pair: pair[0])
    on = f"{plural(case.cores or 0, 'thread')} on {case.machine.nodes}"
    return [Headline("Memory bandwidth, triad", measure(rate, "byte/s"), "GB/s", on)]


def _cost_headline(best: Case, billed: CostTable | None) -> Headline:
    label = "Cost of that run"
    sized = _is_text(best.machine.vm_size)
    why = (
        f"no price is known{': see Prices that are unknown' if sized else ' off Azure: see Notes'}"
    )
    rows = None if billed is None else billed.table[billed.table["case"] == best.name]
    if rows is not None:
        rows = rows[rows["version"] == best.software.get(best.benchmark, "")]
    if rows is None or rows.empty:
        return Headline(label, UNKNOWN, "", why)
    own = rows[rows["vm_size"] == best.machine.vm_size]
    row = (rows if own.empty else own).iloc[0]
    # The table's row pools the repeats of several runs; this is the cost of one.
    hours = (best.median("run_time") or 0.0) * (best.node_count or 1) / 3600
    value = money(hours * float(row["usd_per_hour"]))
    if value == units.UNKNOWN:
        return Headline(label, UNKNOWN, "", why)
    date = f", price of {row['price_date']}" if row["price_date"] else ", undated price"
    where = ", ".join(str(row[key]) for key in ("vm_size", "region", "offer") if _is_text(row[key]))
    return Headline(label, value, "US$", f"{where}{date}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def headline_note(best: Case | None) -> str:
    if best is None:
        return ""
    statistic = ", median of the repeats" if best.measured else f", published in {best.provenance}"
    return (
        f"Fastest of its problem, {problem(best)}: case {best.name} on {best.machine.nodes}"
        f"{statistic}."
        " Run times of other problems are not comparable."
    )


def facts(loaded: Loaded, cases: Sequence[Case], measured_on: Sequence[Machine]) -> list[Fact]:
    ours = [case for case in cases if case.measured] or list(cases)
    versions: dict[str, set[str]] = {}
    for case in ours:
        for name, version in case.software.items():
            versions.setdefault(name, set()).add(_short_version(version))
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
    playbooks = unique(str(run["playbook"]) for run in loaded.runs if run.get("playbook"))
    if playbooks:
        facts.append(Fact("Playbook", ", ".join(PurePath(name).name for name in playbooks)))
    return facts


def _short_version(text: str) -> str:
    """ "Open MPI v4.1.4" of "Open MPI v4.1.4, package: Debian OpenMPI, ident: ...", where the rest
    says who built it.
    """
    return text.partition(",")[0]


def _machine(machine: Machine) -> list[tuple[str, str]]:
    """What is known of one machine; a size that Azure does not have cannot have a region or an
    image.
    """
    memory = units.number(machine.get("memory_bytes"))
    cache = units.number(machine.get("last_level_cache_bytes"))
    names = machine.nodes.split("+")
    nodes = ", ".join(names[:_NAMES]) + (
        f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    )
    rows = [
        ("Node" if len(names) == 1 else f"{len(names)} nodes", nodes),
        ("Azure size", machine.vm_size or NOT_AZURE),
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


def machines_section(measured_on: Sequence[Machine]) -> Section | None:
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
