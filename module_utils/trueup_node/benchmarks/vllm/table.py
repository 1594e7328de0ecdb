"""The table that vLLM's benchmark prints: every figure is rounded to 0.01."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Sequence, Tuple

from ...reading import Line
from .figures import LATENCIES, LATENCY_KEY, Figures
from .result import VllmOutput

HALF = 0.005 * (1 + 1e-9)
_TITLE = f"{' Serving Benchmark Result ':=^50}"
_END = "=" * 50
_SECTIONS = {title.lower(): name for name, (_, title) in LATENCIES.items()}
_SHORTS = {short: name for name, (short, _) in LATENCIES.items()}
# Rows of the table's head by their labels: key of the JSON.
_COUNTS = {
    "successful requests:": "completed",
    "failed requests:": "failed",
    "maximum request concurrency:": "max_concurrency",
    "total input tokens:": "total_input_tokens",
    "total generated tokens:": "total_output_tokens",
}
_RATES = {
    "request rate configured (rps):": "request_rate",
    "benchmark duration (s):": "duration",
    "request throughput (req/s):": "request_throughput",
    "request goodput (req/s):": "request_goodput",
    "input token throughput (tok/s):": "input_throughput",
    "output token throughput (tok/s):": "output_throughput",
    "peak output token throughput (tok/s):": "max_output_tokens_per_s",
    "peak concurrent requests:": "max_concurrent_requests",
    "total token throughput (tok/s):": "total_token_throughput",
}
_ROW = re.compile(r"([^:]{1,60}:) +(-?[\d.]+|nan|-?inf)")
_STATISTIC = re.compile(r"(Mean|Median|P\d+(?:\.\d+)?) (\w+) \(ms\):")


class Table:
    """The table below its title.

    Attributes:
        figures: as in the JSON.
        not_judged: rows that are not known.
        end: the closing line; None without one.
    """

    def __init__(self, lines: Sequence[Line], title: Line) -> None:
        self._places: Dict[str, Line] = {}
        self._values: Dict[str, Any] = {}
        self.figures = Figures(self._values, self._places.get, HALF)
        self.not_judged: Dict[str, str] = {}
        self.end: Optional[Line] = None
        if title.strip() != _TITLE:
            raise title.error("the table's title is damaged")
        section = ""
        for line in lines[title.number :]:
            text = line.strip()
            if text == _END:
                self.end = line
                _refuse_rows(lines[line.number :])
                return
            if text.startswith("--") and text.endswith("--"):
                section = text.strip("-")
            elif text:
                self._row(section, text, line)
        self._without_half(_SECTIONS.get(section.lower(), ""))

    def output(self) -> VllmOutput:
        """The result; unverified where the end is missing."""
        output = self.figures.output()
        output.not_judged.update(self.not_judged)
        output.warnings.append("the figures of the printed table are rounded to 0.01")
        if self.end is None:
            output.unverified.append("no closing line of =: the table is cut off")
        return output

    def _row(self, section: str, text: str, line: Line) -> None:
        """Take a row; one that is not known is kept by its name, below that of its section."""
        row = _ROW.fullmatch(text)
        label, value = (row[1], row[2]) if row else (text, "a line")
        if label.startswith(("Backend:", "Traffic request rate:")) or "retokenized" in label:
            raise line.error("this is a table of SGLang, not of vLLM")
        key, is_count = self._key(section, label, line)
        if not key:
            name = f"{section}, {label}" if section else label
            self.not_judged[name.rstrip(":")[:80]] = value
            return
        if key in self._values:
            raise line.error(f"row {label!r} stands twice")
        if not re.fullmatch(r"\d{1,18}" if is_count else r"\d+\.\d\d", value):
            form = "a count" if is_count else "a positive number with two decimals"
            raise line.error(f"{key} {value!r} is not {form}")
        self._places[key] = line
        self._values[key] = int(value) if is_count else float(value)

    @staticmethod
    def _key(section: str, label: str, line: Line) -> Tuple[str, bool]:
        """The key of a row, and whether it is a count; no key of a row that is not known."""
        if not section:
            count = _COUNTS.get(label.lower(), "")
            return count or _RATES.get(label.lower(), ""), bool(count)
        latency, statistic = _SECTIONS.get(section.lower()), _STATISTIC.fullmatch(label)
        own = _SHORTS.get(statistic[2]) if statistic else None
        if latency is None or statistic is None or own is None:
            return "", False
        if own != latency:
            raise line.error(f"row {label!r} stands below {section!r}")
        return f"{statistic[1].lower()}_{own}_ms", False

    def _without_half(self, latency: str) -> None:
        """Leave out the last latency of a table that is cut off, unless it has the statistics of
        the others."""
        by_latency: Dict[str, Dict[str, str]] = {}
        for match in filter(None, map(LATENCY_KEY.fullmatch, self._values)):
            by_latency.setdefault(match[2], {})[match[1]] = match[0]
        half = by_latency.pop(latency, {})
        if half and any(half.keys() < whole.keys() for whole in by_latency.values()):
            for key in half.values():
                del self._values[key]


def _refuse_rows(below: Sequence[Line]) -> None:
    """Rows behind the closing line were moved there, or it was moved before them."""
    for line in below:
        row = _ROW.fullmatch(line.strip())
        if line.strip() == _END or (row and _STATISTIC.fullmatch(row[1])):
            raise line.error("vLLM's table goes on after its closing line")


def first_error(above: Sequence[str]) -> Optional[str]:
    """The error of the first failed request, of the lines above a table: of a traceback its last
    line."""
    start = next((n for n, line in enumerate(above) if line.startswith("Error 0: ")), None)
    if start is None:
        return None
    first, *rest = above[start:]
    messages = [first[len("Error 0: ") :].strip()]
    for line in rest:
        if re.match(r"Error \d+: |tip: |={12} ", line):
            break
        messages += [line.strip()] if line.strip() else []
    is_alone = messages[0] and not messages[0].startswith("Traceback")
    return messages[0 if is_alone else -1][:200]
