"""Parser of SuperBench's summaries: results-summary.json of a node, a line of
results-summary.jsonl, and the results of its data diagnosis (microsoft/superbenchmark@700d650).

A summary is an object from the names of figures to numbers::

    {"node": "node-01", "nccl-bw:nvlink/allreduce_8589934592_busbw:0": 468.9,
     "nccl-bw:nvlink/return_code:0": 0, "mem-bw/return_code": 33, ...}

A name is ``benchmark[:annotation]/figure[:rank]``. Units are those of the project's pages
(docs/user-tutorial/benchmarks); a figure without a unit there is not judged. ``return_code`` other
than 0 is a benchmark that failed. Diagnosis adds ``diagnosis/...`` or ``Category`` with the node in
``index``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import is_number, refuse_long_numbers, unique
from trueup_node.record import Metric

from ...labelled import Labelled
from ...units import of_words
from .signatures import FIGURE

TOOL = "superbench"
_NAME = re.compile(
    r"(?P<benchmark>[^/:]{1,80})(?::(?P<annotation>[^/:]{1,80}))?/(?P<figure>.{1,400}?)"
    r"(?::(?P<rank>\d{1,6}))?"
)
# Figures that ``trueup export`` wrote (render/superbench.py).
_EXPORTED: Final = "trueup-"
_OURS = re.compile(
    r"(?P<metric>[a-z][a-z0-9_]{0,120})"
    r"(?:\.(?P<statistic>median|min|max|mean|single|p\d{1,3}(?:\.\d{1,6})?))?"
    r"(?:\.(?P<size>\d{1,15})B)?(?:\.(?P<device>[A-Za-z0-9_.>-]{1,80}))?\.(?P<unit>[A-Za-z0-9_]{1,40})"
)
_SIZES: Final = (
    re.compile(
        r"(?P<before>all\w+|reduce\w*|broadcast|sendrecv)_(?P<size>\d{1,15})_(?P<after>\w+)"
    ),
    re.compile(r"(?P<before>ib_\w+?_(?:bw|lat))_(?P<size>\d{1,15})(?P<after>)"),
    re.compile(r"(?P<before>(?i:ib_[a-z]+))_(?P<size>\d{1,15})_(?P<after>\w+)"),
)
_LOWER, _HIGHER, _NONE = "lower", "higher", "none"
# By benchmark and figure: factor, unit, direction. The first that fits counts.
_UNITS: Final = tuple(
    (re.compile(pattern), unit)
    for pattern, unit in (
        (r"[nr]ccl-bw/.*_(?:algbw|busbw)", (1e9, "byte/s", _HIGHER)),
        (r"[nr]ccl-bw/.*_time", (1e-6, "s", _LOWER)),
        (r"kernel-launch/(?:event|wall)_(?:time|overhead)", (1e-3, "s", _LOWER)),
        (r"gemm-flops/(?i:int\d.*|.*_iops)", (1e9, "1/s", _HIGHER)),
        (r"gemm-flops/(?i:[ft][pf]\d.*|bf16.*)", (1e9, "flop/s", _HIGHER)),
        (r"(?:cub|hipb)laslt-gemm/.*_flops", (1e12, "flop/s", _HIGHER)),
        (r"(?:cublas|cudnn)-function/name_(?!.*_(?:correctness|error)).*", (1e-6, "s", _LOWER)),
        (r"(?:tensorrt|ort)-inference/.*_time(?:_.*)?", (1e-3, "s", _LOWER)),
        (r"(?:pytorch-[\w-]+|dist-inference)/(?!.*throughput).*", (1e-3, "s", _LOWER)),
        (r"gpu-burn/time", (1.0, "s", _NONE)),
        (r"cpu-hpl/throughput", (1e9, "flop/s", _HIGHER)),
        (r"cpu-hpl/time", (1.0, "s", _LOWER)),
        (r"cpu-stream/.*_throughput", (1e6, "byte/s", _HIGHER)),
        (r"cpu-stream/.*_time_.*", (1.0, "s", _LOWER)),
        (r"cpu-memory-bw-latency/.*_bw", (1e6, "byte/s", _HIGHER)),
        (r"cpu-memory-bw-latency/.*_lat", (1e-9, "s", _LOWER)),
        (r"(?:mem-bw|gpu-copy-bw|gpu-sm-copy-bw)/.*", (1e9, "byte/s", _HIGHER)),
        (r"(?:gpu-stream|nvbandwidth)/.*_bw", (1e9, "byte/s", _HIGHER)),
        (r"ib-loopback/IB_.*_Avg_.*", (1e6, "byte/s", _HIGHER)),
        (r"ib-loopback/ib_.*bw.*", (1e9, "byte/s", _HIGHER)),
        (r"ib-traffic/ib_.*_bw_.*", (1e9, "byte/s", _HIGHER)),
        (r"ib-traffic/ib_.*_lat_.*", (1e-6, "s", _LOWER)),
        (r"tcp-connectivity/.*_time_(?:min|max|avg)", (1e-3, "s", _LOWER)),
        (r"disk-benchmark/.*_iops", (1.0, "1/s", _HIGHER)),
        (r"disk-benchmark/.*_lat_ns_.*", (1e-9, "s", _LOWER)),
        (r".*/.*(?:steptime|step_time)(?:_.*)?", (1e-3, "s", _LOWER)),
        (r".*/.*throughput(?:_.*)?", (1.0, "1/s", _HIGHER)),
        (r"megatron-.*/.*_tflops", (1e12, "flop/s", _HIGHER)),
        (r"megatron-.*/.*mem_allocated", (1e9, "byte", _NONE)),
    )
)
# Of superbench/benchmarks/return_code.py.
_CODES: Final = {
    1: "invalid argument",
    2: "invalid benchmark type",
    3: "invalid benchmark result",
    4: "runtime exception",
    10: "no supported precision",
    13: "distributed setting was not set up",
    14: "distributed setting was not ended",
    15: "dataset generation failed",
    16: "data loader failed",
    17: "optimizer creation failed",
    18: "model creation failed",
    30: "no name of the program",
    31: "program does not exist",
    32: "execution failed",
    33: "its output could not be parsed",
    34: "unsupported architecture",
    35: "device not found",
    36: "MPI failed",
    50: "no image set",
    51: "no container set",
    52: "image pull failed",
    53: "container failed",
    54: "its output could not be parsed",
    124: "killed by timeout",
}
_NODE: Final = ("node", "index")
_CATEGORY: Final = ("diagnosis/category", "Category")
_ISSUES: Final = ("diagnosis/issue_details", "Defective Details")
_RAW: Final = "diagnosis/accept"
_NO_UNIT, _DEVIATIONS = "figures without a unit, or below zero", "deviations from the baseline"
# Beyond any figure of a machine.
_MOST: Final = 1e30
# Names that are shown of what is not judged.
_SHOWN: Final = 3


class _Figure(NamedTuple):
    """A figure's name in parts, and its value."""

    name: str
    benchmark: str
    figure: str
    rank: str | None
    value: float

    @property
    def title(self) -> str:
        """The benchmark with its annotation; of a return code all before it."""
        if self.is_code:
            return self.name[: self.name.rindex("/")]
        return self.name.partition("/")[0]

    @property
    def is_code(self) -> bool:
        """Whether it is the return code of a benchmark."""
        return self.figure.rpartition("/")[2] == "return_code"


def parse_superbench(text: str) -> Labelled:
    """Read one node's summary.

    Raises:
        ParseError: it is no such object, several nodes', or holds no figure.
    """
    summary = _summary(text)
    node = next((str(summary[name]) for name in _NODE if name in summary), None)
    figures = list(_figures(summary))
    failed = _failed(figures)
    unknown: dict[str, list[str]] = {}
    rows: dict[tuple[Any, ...], Metric] = {}
    is_raw = _RAW in summary or not any(name in summary for name in _CATEGORY)
    for figure in figures:
        row = _row(figure) if is_raw else None
        if row is None:
            if not figure.is_code:
                unknown.setdefault(_NO_UNIT if is_raw else _DEVIATIONS, []).append(figure.name)
            continue
        key = (row.name, row.message_bytes, row.device, row.statistic)
        if key in rows:
            raise ParseError(f"{figure.name} and another figure have one name")
        rows[key] = row
    empty = [
        name
        for name, value in summary.items()
        if "/" in name and value in (None, "N/A") and not name.startswith("diagnosis/")
    ]
    if empty:
        unknown["figures without a value"] = empty
    counts = list(_counts(figures, failed))
    checks, reasons = _verdicts(summary, failed)
    return Labelled(
        rows=(*counts, *rows.values()),
        checks=checks,
        reasons=reasons,
        node_count=1,
        hosts=() if node is None else (node,),
        not_judged={name: _some(names) for name, names in unknown.items()},
    )


def _summary(text: str) -> dict[str, Any]:
    """The object; another program's lines may stand behind it."""
    refuse_long_numbers(text)
    begin = len(text) - len(text.lstrip())
    try:
        summary, end = json.JSONDecoder(object_pairs_hook=unique).raw_decode(text, begin)
    except json.JSONDecodeError as error:
        line = text.split("\n")[error.lineno - 1]
        raise ParseError(
            f"this is not the summary of a node ({error.msg})", error.lineno, line
        ) from None
    except (ValueError, RecursionError) as error:
        raise ParseError(f"this is not the summary of a node ({error})") from None
    if FIGURE.search(text, end):
        raise ParseError("summaries of several nodes: one is read at a time")
    if not isinstance(summary, dict):
        raise ParseError("this is not the summary of a node, but a list or another value")
    return summary


def _figures(summary: Mapping[str, Any]) -> Iterator[_Figure]:
    """The figures that are numbers.

    Raises:
        ParseError: there is none, or one is not finite or of another type.
    """
    count = 0
    for name, value in summary.items():
        match = _NAME.fullmatch(name)
        if match is None or match["benchmark"] == "diagnosis" or value in (None, "N/A"):
            continue
        if not is_number(value) or not -_MOST < value < _MOST:
            raise ParseError(f"{name} is {str(value)[:40]!r}, and no number")
        count += 1
        yield _Figure(name, match["benchmark"], match["figure"], match["rank"], float(value))
    if not count:
        raise ParseError("no figure of a benchmark stands in this summary")


def _failed(figures: list[_Figure]) -> dict[str, int]:
    """The benchmarks that failed, with the first code."""
    failed: dict[str, int] = {}
    for figure in figures:
        if figure.is_code and figure.value:
            failed.setdefault(figure.title, int(figure.value))
    return failed


def _counts(figures: list[_Figure], failed: Mapping[str, int]) -> Iterator[Metric]:
    """How many benchmarks the summary is of, and how many failed."""
    yield Metric(
        "superbench_benchmarks",
        float(len({figure.name.partition("/")[0] for figure in figures})),
        "1",
        _NONE,
    )
    if any(figure.is_code for figure in figures):
        yield Metric("superbench_failed", float(len(failed)), "1", _LOWER)


def _verdicts(
    summary: Mapping[str, Any], failed: Mapping[str, int]
) -> tuple[dict[str, bool], dict[str, str]]:
    codes = ", ".join(
        f"{name} (return code {code}{': ' + _CODES[code] if code in _CODES else ''})"
        for name, code in failed.items()
    )
    checks = {"benchmarks_ended_well": not failed}
    reasons = {"benchmarks_ended_well": codes}
    category = next((summary[name] for name in _CATEGORY if name in summary), None)
    issues = next((summary[name] for name in _ISSUES if name in summary), None)
    accepted = summary.get(_RAW, category is None)
    if category is not None or _RAW in summary:
        checks["diagnosis"] = bool(accepted)
        reasons["diagnosis"] = f"SuperBench's diagnosis: {category}: {str(issues)[:300]}"
    return checks, reasons


def _row(figure: _Figure) -> Metric | None:
    """The figure in base units; None where its unit is not known, or it is below zero."""
    if ours := _OURS.fullmatch(figure.figure) if figure.benchmark.startswith(_EXPORTED) else None:
        return _exported(figure, ours)
    path = f"{figure.benchmark}/{figure.figure}"
    unit = next((unit for pattern, unit in _UNITS if pattern.fullmatch(path)), None)
    if unit is None or figure.is_code or figure.value < 0:
        return None
    factor, base, direction = unit
    words, size = figure.figure, None
    for pattern in _SIZES:
        if match := pattern.fullmatch(figure.figure):
            words = "_".join(filter(None, (match["before"], match["after"])))
            size = int(match["size"])
            break
    name = re.sub(r"[^a-z0-9]+", "_", f"sb_{figure.title}_{words}".lower()).strip("_")
    device = None if figure.rank is None else f"rank{figure.rank}"
    return Metric(name, figure.value * factor, base, direction, message_bytes=size, device=device)


def _exported(figure: _Figure, ours: re.Match[str]) -> Metric:
    """A figure that ``trueup export`` wrote; its rank is the number of a GPU, or
    of SuperBench's own."""
    name = re.sub(r"[^a-z0-9]+", "_", f"sb_{figure.title}_{ours['metric']}".lower()).strip("_")
    unit = of_words(ours["unit"])
    kind = "rank" if figure.benchmark == f"{_EXPORTED}{TOOL}" else "gpu"
    device = ours["device"] or (None if figure.rank is None else f"{kind}{figure.rank}")
    return Metric(
        name,
        figure.value,
        unit,
        _LOWER if unit == "s" else _HIGHER,
        message_bytes=int(ours["size"]) if ours["size"] else None,
        device=device,
        statistic=ours["statistic"],
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} ({', '.join(names[:_SHOWN])}{more})"
