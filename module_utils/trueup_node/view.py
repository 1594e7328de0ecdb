"""How a benchmark is shown: its room says it once, and report, list, scaling, cost and plots follow
from it.

Every ``benchmarks/<tool>/view.py`` has one ``VIEW``. Nothing here reads or draws: analysis does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Tuple


class Peak(NamedTuple):
    """The most that a VM size's hardware could do, by a column of catalog/vm_sizes.csv.

    Attributes:
        column: the column; or ``gpu_peak_bf16_gflops_each``, the figure of the size's GPU in
            catalog/training.yml, which is no column.
        factor: converts its unit into the measure's base unit (1e9 for GFLOP/s).
        parameter: a parameter of the case that must have ``value`` for this peak to hold ("" for
            any case). Both are compared as text: ``gpus: 0`` is "0".
        nodes: whether the peak is of one node and the figure of all nodes of the case.
        gpus: whether the peak is of one GPU and the figure of all GPUs of the case.
        otherwise: the peak where this one does not hold.
    """

    column: str
    factor: float
    parameter: str = ""
    value: str = ""
    nodes: bool = False
    gpus: bool = False
    otherwise: Optional[Peak] = None


@dataclass(frozen=True)
class Measure:
    """One figure that is shown.

    Attributes:
        metric: its name in records.
        label: its name for people, without the unit: "bus bandwidth".
        unit: the base unit in records ("byte/s").
        direction: which figures are better: "higher", "lower" or "none".
        shown: the unit that people read ("GB/s", "TFLOP/s", "ms"); "%" for a share, "" for a plain
            number.
        statistic: which statistic of repeats stands for it; "" for the median or the only value.
        grows: whether it is a figure of the whole case, which more nodes raise (a rate of all
            ranks) or lower (a time); not for a figure of each device or rank, which stays the same
            on more nodes where all is well (busbw, TFLOP/s of one GPU).
        peak: the most that the hardware allows, if the catalog says it.
    """

    metric: str
    label: str
    unit: str
    direction: str
    shown: str
    statistic: str = ""
    grows: bool = True
    peak: Optional[Peak] = None


# Units of a rate for people, and its base unit; of others that is 1/s.
_BASE_UNITS = {
    "GB/s": "byte/s",
    "Gb/s": "bit/s",
    "GFLOP/s": "flop/s",
    "TFLOP/s": "flop/s",
    "GPts/s": "point/s",
    "ns/day": "ns/day",
}


def rate(metric: str, label: str, display_unit: str, **more: Any) -> Measure:
    """A rate, of which more is better."""
    return Measure(
        metric, label, _BASE_UNITS.get(display_unit, "1/s"), "higher", display_unit, **more
    )


def seconds(metric: str, label: str, display_unit: str, **more: Any) -> Measure:
    """A time, of which less is better."""
    return Measure(metric, label, "s", "lower", display_unit, **more)


def latency(metric: str, label: str, display_unit: str) -> Tuple[Measure, Measure]:
    """The median and the 99th percentile of a latency."""
    return (
        seconds(metric, label, display_unit, grows=False),
        seconds(metric, f"{label}, p99", display_unit, statistic="p99", grows=False),
    )


class Work(NamedTuple):
    """The unit of a case's work, so that the work can be priced.

    Attributes:
        unit: the unit that people pay for, in the singular as after "US$ per": "ns", "PFLOP", "TB",
            "million output tokens".
        key: the same as part of a column's name in CSV: "usd_per_<key>".
        rate: the metric that says how much of it is done in ``seconds``. Where it is measured at
            several message sizes, the headline's counts; of several devices, their sum.
        amount: how many of the rate's base units one unit of work is (1e15 flop for a PFLOP).
        seconds: the time that the rate is over: 1, or 86400 for a rate by day.
        also: metrics that count with ``rate`` where the case holds them: written bytes beside read
            ones. A case that holds any of them is priced.
        together: whether its devices were measured at the same time, so that their rates add up;
            else the worst device's counts.
        parameter: a parameter of the case that must have ``value`` (as text) for this work to have
            been done ("" for any case).
    """

    unit: str
    key: str
    rate: str
    amount: float
    seconds: float = 1.0
    also: Tuple[str, ...] = ()
    together: bool = True
    parameter: str = ""
    value: str = ""


class Chart(NamedTuple):
    """One plot of the benchmark's section. It is drawn where cases hold its measures, and over a
    parameter where that has several values.

    Attributes:
        kind: "lines": over the figure that ``over`` names; "matrix": from device to device, or from
            node to node; "rows": one row a case or device, for figures without an order.
        measures: the measures to draw; several lines of one unit share a plot.
        over: "message_bytes", "device", "node", "case", or a parameter's name ("max_concurrency").
        title: in words: "Bus bandwidth over message size".
        log: whether the axis that ``over`` names is logarithmic.
        statistics: which statistics become a line each ("median", "p99"); empty for the one that
            the measure names.
        along: parameters that change along with ``over`` and make no other line (the number of
            prompts with the load).
    """

    kind: str
    measures: Tuple[Measure, ...]
    over: str
    title: str
    log: bool = False
    statistics: Tuple[str, ...] = ()
    along: Tuple[str, ...] = ()


class Timed(NamedTuple):
    """The time over which a case's rates are measured. A case with less than a second of it says
    nothing on the machine.

    Attributes:
        metric: a metric in seconds; or with ``divided_by`` a count, over the rate of that count.
        divided_by: the rate; "" for none.
        summed: whether the repeats follow each other in one run and add up.
    """

    metric: str
    divided_by: str = ""
    summed: bool = False


@dataclass(frozen=True)
class View:
    """How one benchmark is shown.

    Attributes:
        title: its name for people: "NCCL collectives".
        headlines: the figures that may stand for a case, the first that the case holds does. Where
            it is measured at several message sizes, the one that the size's expectation judges
            counts, else the largest; of several devices, the worst.
        figures: the table's figures beside the headline; other headlines too, and the one that
            stands for a case is not repeated.
        identity: parameters of which one must be known for two cases to be of equal work ("model"
            of a server); empty where the tool has one work only (STREAM).
        required: parameters that must all be known beside that one ("engine").
        apart: parameters by which cases are told apart when several nodes ran the same
            ("operation"), and that name a row.
        charts: the plots of its section, none for none.
        work: units of work for the cost; empty where no work is done that anyone pays for.
        method: two sentences: the measured quantity and how it is measured, and the parts that are
            not in it.
        resource: the resource of a case within a node, over which scaling within a node runs:
            "cores" or "gpus".
        scales: whether nodes or cores do its work together, so that more of them may be compared
            with fewer; not where each device is measured by itself.
        layouts: whether the same work is run in several layouts of ranks and threads, so that the
            fastest is looked for.
        spread: parameters that say over how many GPUs or ranks the work was spread; they tell no
            work apart.
        grows: parameters that a weak series changes along its way; in a strong one they are the
            same.
        amount: the parameter that counts the work ("points"): a weak series has the same of it on
            each core.
        batch: the parameters that count the work of one process and of all of them: where that is
            one process' times the processes, the case is part of a weak series.
        titled: the parameters in a series' title: ("space_order", "space order {}").
        timed: the time over which rates are measured, where the problem decides it; None where the
            tool repeats until it has measured long enough.
        loads: parameters that state the load of a server: cases that differ only in these are a
            sweep, and their tokens are priced; empty where no server is measured.
    """

    title: str
    headlines: Tuple[Measure, ...]
    method: str
    figures: Tuple[Measure, ...] = ()
    identity: Tuple[str, ...] = ()
    required: Tuple[str, ...] = ()
    apart: Tuple[str, ...] = ()
    charts: Tuple[Chart, ...] = ()
    work: Tuple[Work, ...] = ()
    resource: str = "cores"
    scales: bool = True
    layouts: bool = False
    spread: Tuple[str, ...] = ()
    grows: Tuple[str, ...] = ()
    amount: str = ""
    batch: Optional[Tuple[str, str]] = None
    titled: Tuple[Tuple[str, str], ...] = ()
    timed: Optional[Timed] = None
    loads: Tuple[str, ...] = ()
