"""Parser of ``vllm bench serve`` (before 0.10: ``benchmark_serving.py``), which measures a server.

Three forms are read:

- the output of trueup's driver (roles/vllm/files/vllm_driver.py): vLLM's own table, and as the last
  line ``trueup-vllm {...}`` with the same figures unrounded, the server's /metrics during the run,
  and a checksum;
- the JSON object of ``--save-result``;
- the printed table alone (``Serving Benchmark Result``), where every figure is rounded to 0.01.

Labels and keys are those of vllm/benchmarks/serve.py (0.32) and of the older scripts: ``Total Token
throughput`` is now ``Total token throughput``, the key ``request_goodput:`` had a colon, and
versions before October 2025 do not count failed requests. Rows and sections that are not known
(probe requests, queueing, speculative decoding; those of forks) are kept by name and not judged.
SGLang prints a table with the same title and other rows; it is refused here.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...errors import ParseError
from ...reading import (
    Line,
    decoded,
    digest,
    is_count,
    is_number,
    lines_of,
    members_of,
    only_json,
    refuse_after,
)
from ...serving import LEAST_TOKEN_SECONDS
from .figures import EXACT, Figures
from .result import Latency, Server, VllmOutput
from .signatures import DRIVER_PREFIX
from .table import Table, first_error

__all__ = ("TOOL", "Latency", "Server", "VllmOutput", "parse_vllm")
TOOL = "vllm"
# One entry a request, whether it succeeded or not.
_LISTS = (
    *("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times"),
    *("generated_texts", "errors"),
)
# Nothing that any server does.
_MOST_SECONDS = 1e9


def parse_vllm(text: str) -> VllmOutput:
    """Read the output of one run.

    Raises:
        ParseError: no result or a damaged one, two of them, a run in which no request succeeded, a
            figure that is missing or no number, figures that contradict each other, or requests
            without a token that were counted as successful.
    """
    lines = lines_of(text)
    titles = [line for line in lines if "Serving Benchmark Result" in line]
    sealed = [line for line in lines if line.startswith(DRIVER_PREFIX)]
    for marked_lines, kind in ((titles, "table"), (sealed, "line of the driver")):
        if len(marked_lines) > 1:
            raise marked_lines[1].error(f"a second {kind}: two runs in one output")
    if sealed:
        return _driver(lines, sealed[0], titles)
    for line in lines:
        if '"busy_samples"' in line:
            raise line.error("the driver's line is damaged: it does not begin as one")
    if titles:
        output = Table(lines, titles[0]).output()
        return replace(output, first_error=first_error(lines[: titles[0].number]))
    if text.lstrip().startswith("{"):
        return _Json(only_json(text, text.index("{")), lines).output()
    raise ParseError(
        "no result of vLLM's serving benchmark: neither its table nor its JSON; the run did not end"
    )


class _Json:
    """The JSON object of ``--save-result``.

    Args:
        data: the object.
        lines: where it stands.
        in_one_piece: answers that arrived in one piece, where the driver counted them.
    """

    def __init__(
        self, data: Dict[str, Any], lines: Sequence[Line], in_one_piece: Optional[int] = None
    ) -> None:
        if "request_goodput:" in data:
            data["request_goodput"] = data["request_goodput:"]
        self._lines = lines
        self.figures = Figures(data, self._where, 0.0)
        self._data, self._refuse = data, self.figures.refuse
        self.figures.in_one_piece = self._counted_pieces() if in_one_piece is None else in_one_piece

    def _where(self, key: str) -> Optional[Line]:
        for line in self._lines:
            at = line.find(f'"{key}"')
            if at >= 0:
                return Line(line[at : at + 80], line.number)
        return None

    def output(self) -> VllmOutput:
        """The result, where the figures of single requests are of this run."""
        output = self.figures.output()
        if "total_token_throughput" not in self._data:
            self._refuse("total_token_throughput is missing", "duration")
        self._lists(output)
        return output

    def _counted_pieces(self) -> Optional[int]:
        """Answers that arrived in one piece, where the figures of single requests are there."""
        lengths, gaps = self._data.get("output_lens"), self._data.get("itls")
        if not isinstance(lengths, list) or not isinstance(gaps, list):
            return None
        if not all(isinstance(request_gaps, list) for request_gaps in gaps):
            self._refuse("itls holds no lists", "itls")
        return sum(
            tokens > 1
            and sum(self._all_numbers("itls", request_gaps)) < LEAST_TOKEN_SECONDS * (tokens - 1)
            for tokens, request_gaps in zip(self._all_numbers("output_lens", lengths), gaps)
        )

    def _lists(self, output: VllmOutput) -> None:
        """Where the figures of single requests are there, they must be of this run."""
        lists = self._equally_long(
            None if output.failed is None else output.completed + output.failed
        )
        # A request that failed has a length of 0.
        empty = lists.get("output_lens", []).count(0) - (output.failed or 0)
        if empty > 0:
            self._refuse(_empty(empty, output.completed), "output_lens")
        if output.failed:
            return
        # Of a run without failures the summary follows from the lists.
        for key, total in (
            ("input_lens", output.input_tokens),
            ("output_lens", output.output_tokens),
        ):
            if key in lists and sum(self._all_numbers(key, lists[key])) != total:
                self._refuse(f"{key} do not add up to {total}", key)
        for key, name in (("ttfts", "ttft"), ("latencies", "e2el"), ("itls", "itl")):
            if key in lists and name in output.latencies:
                self._recompute(key, lists[key], output.latencies[name])

    def _equally_long(self, requests: Optional[int]) -> Dict[str, List[Any]]:
        lists: Dict[str, List[Any]] = {}
        for key in _LISTS:
            values = self._data.get(key)
            if values is None:
                continue
            if not isinstance(values, list):
                self._refuse(f"{key} is no list", key)
            requests = len(values) if requests is None else requests
            if len(values) != requests:
                self._refuse(f"{key} has {len(values)} entries for {requests} requests", key)
            lists[key] = values
        return lists

    def _recompute(self, key: str, values: Sequence[Any], latency: Latency) -> None:
        if key == "itls":
            values = [value for request_gaps in values for value in request_gaps]
        numbers = sorted(self._all_numbers(key, values))
        if not numbers:
            return
        pairs = [(math.fsum(numbers) / len(numbers), latency.mean)]
        percentiles = [(50.0, latency.median), *latency.percentiles.items()]
        pairs += [(_at(numbers, percent), value) for percent, value in percentiles]
        for mine, printed in pairs:
            if abs(mine - printed) > EXACT * abs(printed):
                self._refuse(f"{key} give {mine:g} s where the summary says {printed:g} s", key)

    def _all_numbers(self, key: str, values: Sequence[Any]) -> List[float]:
        for value in values:
            if not is_number(value) or not 0 <= value < _MOST_SECONDS:
                self._refuse(f"{key} holds {value!r}", key)
        return list(values)


def _at(ordered: Sequence[float], percent: float) -> float:
    """The percentile as numpy takes it: linear between the two nearest."""
    position = percent / 100 * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _empty(requests: int, completed: int) -> str:
    return f"{requests} of {completed} requests without a token were counted as successful"


def _driver(lines: Sequence[Line], line: Line, titles: Sequence[Line]) -> VllmOutput:
    """The result that the driver's line holds, whose checksum says that it is whole."""
    data = decoded(line, DRIVER_PREFIX, "the driver's line", version=1, role="vllm")
    if data.pop("sha256", None) != digest(data):
        raise line.error("the driver's line is not what the driver wrote: its checksum differs")
    refuse_after(lines[line.number :], "text after the driver's last line")
    with members_of(line, "the driver's line"):
        return _driven(data, lines, line, titles)


def _driven(
    data: Mapping[str, Any], lines: Sequence[Line], line: Line, titles: Sequence[Line]
) -> VllmOutput:
    if data["status"] != 0:
        raise line.error(f"the benchmark ended with status {data['status']!r}")
    if not isinstance(data["result"], dict):
        raise line.error("the benchmark saved no result")
    if not isinstance(data["server"], dict):
        raise line.error("the driver's line says nothing of the server")
    server = _server(data["server"], line)
    answers = {key: int(count) for key, count in (data.get("answers") or {}).items()}
    output = _Json(data["result"], [line], answers.get("in_one_piece")).output()
    if answers.get("empty"):
        raise line.error(_empty(answers["empty"], output.completed))
    if titles:
        output.not_judged.update(Table(lines, titles[0]).not_judged)
    if server.refused:
        output.warnings.append(
            f"the server did not answer {server.refused} times while the benchmark ran"
        )
    if not server.busy_samples:
        output.warnings.append(
            "no sample of the server's metrics met a request: sample more often, or run longer"
        )
    return replace(
        output,
        tool_version=str(data["vllm"] or "") or None,
        server_version=str(data["server_vllm"] or "") or None,
        server=server,
        first_error=first_error(lines[: (titles or [line])[0].number]),
    )


def _server(data: Mapping[str, Any], line: Line) -> Server:
    server = Server(**{each.name: data[each.name] for each in fields(Server)})
    for name, value in vars(server).items():
        is_optional = name not in ("samples", "busy_samples", "refused")
        is_figure = is_number(value) and 0 <= value < math.inf if is_optional else is_count(value)
        if not is_figure and not (is_optional and value is None):
            raise line.error(f"server: {name} {value!r} cannot be")
    if max(server.kv_cache_usage_max or 0, server.kv_cache_usage_mean or 0) > 1:
        raise line.error("server: more of the KV cache was used than there is")
    if (server.prefix_cache_hits or 0) > (server.prefix_cache_queries or 0):
        raise line.error("server: more prefix-cache hits than queries")
    return server
