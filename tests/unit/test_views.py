"""How benchmarks are shown: every figure that a view names is one that records hold."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recorded_runs import GPT_ALONE
from trueup_analysis import rooms
from trueup_node.benchmarks.devito import case as devito
from trueup_node.benchmarks.fio import case as fio
from trueup_node.benchmarks.megatron import case as megatron
from trueup_node.benchmarks.nv_a10 import case as nv_a10
from trueup_node.errors import ParseError
from trueup_node.view import Measure, Peak, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trueup_node.record import Metric

ROOT = Path(__file__).parent.parent.parent
TOOLS = rooms.names()
# A figure's name, unit, direction and statistic; "" for the one that stands for it.
Row = tuple[str, str, str, str]
TYPICAL = {None, "median", "single", "mean"}
KINDS = {"lines", "matrix", "rows"}
PLACES = {"message_bytes", "device", "node", "case"}
# Unit of records -> units that people read.
SHOWN = {
    "1": {"", "%"},
    "1/s": {
        "IOPS",
        "frames/s",
        "messages/s",
        "operations/s",
        "requests/s",
        "samples/s",
        "steps/s",
        "tokens/s",
    },
    "bit/s": {"Gb/s"},
    "byte/s": {"GB/s"},
    "flop/s": {"GFLOP/s", "TFLOP/s"},
    "kJ/mol/ps": {"kJ/mol/ps"},
    "ns/day": {"ns/day"},
    "point/s": {"GPts/s"},
    "s": {"s", "ms", "us"},
}
# Figures of a GPU that catalog/training.yml holds.
NO_COLUMN = {"gpu_peak_bf16_gflops_each"}
TINY = {**GPT_ALONE, "iterations": 12, "processes": 2, "nodes": ["a"], "launcher": "torchrun"}


def added(tool: str, output: Any) -> list[Metric]:
    """What the tool's module adds to what its parser found."""
    if tool == "devito":
        fraction = devito.roofline_fraction(output, 1e11, None)
        return [fraction] if fraction else []
    if tool == "megatron":
        return megatron.rates(megatron.asked(TINY), output)
    if tool == "fio":
        return fio.files_metrics(output, cached=True)
    if tool == "nv_a10":
        return nv_a10.held(output, 60)
    return []


@cache
def recorded(tool: str) -> frozenset[Row]:
    """The figures of all recorded outputs that the parser understands."""
    parse = getattr(rooms.part(tool, "output"), f"parse_{tool}")
    rows: list[Metric] = []
    for path in sorted((ROOT / "tests" / "data" / tool).iterdir()):
        try:
            output = parse(path.read_text())
        except ParseError:
            continue
        rows += output.metrics() + added(tool, output)
    found = {(row.name, row.unit, row.direction, row.statistic or "") for row in rows}
    stands = {(row.name, row.unit, row.direction, "") for row in rows if row.statistic in TYPICAL}
    return frozenset(found | stands)


@cache
def parameters_of(tool: str) -> str:
    """The code in which the parameters of a record are named, published ones included."""
    room = Path(rooms.part(tool, "view").__file__ or "").parent
    paths = [ROOT / "library" / f"{tool}_bench.py", *sorted(room.glob("*.py"))]
    paths.remove(room / "view.py")
    paths += [ROOT / "analysis" / "trueup_analysis" / "published.py"]
    return "\n".join(path.read_text() for path in paths if path.exists())


def named(tool: str, parameter: str) -> bool:
    code = parameters_of(tool)
    # Names that a record takes over as they are: in place, or a list of their own.
    taken = re.findall(r"for name in \(([^)]*)\)", code)
    for names in re.findall(r"for name in (\w+)", code):
        taken += re.findall(rf"(?ms)^{names} = \((.*?)\)$", code)
    # Also what the name of a tool becomes: "tensor_model_parallel_size": "tensor_parallel".
    said = rf'"{parameter}":|": "{parameter}"|\b{parameter}='
    return bool(re.search(said, code)) or any(f'"{parameter}"' in names for names in taken)


def measures(view: View) -> Iterator[Measure]:
    yield from view.headlines
    yield from view.figures
    for chart in view.charts:
        yield from chart.measures


def peaks(view: View) -> Iterator[Peak]:
    for measure in measures(view):
        peak = measure.peak
        while peak is not None:
            yield peak
            peak = peak.otherwise


def unknown(view: View, rows: frozenset[Row]) -> set[Row]:
    """The figures that a view names and no record holds."""
    asked = {(one.metric, one.unit, one.direction, one.statistic) for one in measures(view)}
    for chart in view.charts:
        for one in chart.measures:
            asked |= {(one.metric, one.unit, one.direction, name) for name in chart.statistics}
    return asked - rows


def view_of(tool: str) -> View:
    return rooms.part(tool, "view").VIEW


@pytest.mark.parametrize("tool", TOOLS)
def test_every_benchmark_says_how_it_is_shown(tool: str) -> None:
    view = view_of(tool)
    assert type(view) is View
    assert (bool(view.title.strip()), bool(view.headlines)) == (True, True)
    assert view.resource in {"cores", "gpus"}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_figure_is_one_that_records_hold(tool: str) -> None:
    assert unknown(view_of(tool), recorded(tool)) == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_figures_can_be_told_apart(tool: str) -> None:
    view = view_of(tool)
    for group in (view.headlines, view.figures):
        assert len({(one.metric, one.statistic) for one in group}) == len(group)
        assert len({one.label for one in group}) == len(group)
    # The same figure is called the same everywhere.
    labels = {(one.metric, one.statistic): one for one in measures(view)}
    assert set(measures(view)) == set(labels.values())


@pytest.mark.parametrize("tool", TOOLS)
def test_units_can_be_converted_and_are_no_part_of_a_label(tool: str) -> None:
    found = set(measures(view_of(tool)))
    assert {(one.unit, one.shown) for one in found if one.shown not in SHOWN[one.unit]} == set()
    labels = {(one.label, one.shown) for one in found}
    assert {label for label, _ in labels if label != label.strip() or not label} == set()
    assert {label for label, shown in labels if shown and shown in label.split()} == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_charts_can_be_drawn(tool: str) -> None:
    view = view_of(tool)
    assert len({chart.title for chart in view.charts}) == len(view.charts)
    for chart in view.charts:
        assert chart.kind in KINDS
        assert chart.over in PLACES or named(tool, chart.over)
        assert (chart.kind == "matrix") <= (chart.over in {"device", "node"})
        assert (chart.kind == "lines") <= (chart.over not in {"device", "node", "case"})
        # One axis has one unit.
        assert len({(one.unit, one.shown) for one in chart.measures}) == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_work_is_counted_by_a_rate_that_records_hold(tool: str) -> None:
    work = view_of(tool).work
    assert len({one.key for one in work}) == len({one.unit for one in work}) == len(work)
    units = {metric: unit for metric, unit, _, _ in recorded(tool)}
    for one in work:
        assert one.key == one.unit.lower().replace(" ", "_")
        assert {units[metric] for metric in (one.rate, *one.also)} == {units[one.rate]}
        assert units[one.rate].endswith("/s" if one.seconds == 1 else "/day")
        assert (one.amount > 0, one.parameter == "") == (True, one.value == "")
        assert one.parameter == "" or named(tool, one.parameter)


@pytest.mark.parametrize("tool", TOOLS)
def test_cases_are_told_apart_by_parameters_of_records(tool: str) -> None:
    view = view_of(tool)
    others = (*view.spread, *view.grows, view.amount, *(view.batch or ()), *dict(view.titled))
    used = {*view.apart, *others} - {""}
    assert [name for name in sorted(used) if not named(tool, name)] == []
    assert len(set(view.apart)) == len(view.apart)


@pytest.mark.parametrize("tool", TOOLS)
def test_peaks_are_in_the_catalog(tool: str) -> None:
    with (ROOT / "catalog" / "vm_sizes.csv").open(encoding="utf-8", newline="") as stream:
        known = set(next(csv.reader(stream))) | NO_COLUMN
    found = list(peaks(view_of(tool)))
    assert {peak.column for peak in found} - known == set()
    assert [peak for peak in found if peak.parameter and not named(tool, peak.parameter)] == []
    assert [peak for peak in found if (peak.parameter == "") != (peak.value == "")] == []
    # What always holds leaves nothing to the next.
    assert [peak for peak in found if peak.otherwise and not peak.parameter] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_the_method_is_two_sentences(tool: str) -> None:
    method = view_of(tool).method
    first, second = re.findall(r"\S.*?\.(?=\s|$)", method)
    assert f"{first} {second}" == method
    assert re.search(r"\bnot in it\b", second) is not None
