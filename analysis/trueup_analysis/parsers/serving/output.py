"""Parser of the tools that measure servers of language models, by whichever engine: SGLang's
bench_serving, trtllm-bench, vLLM's offline benchmarks, AIPerf and GenAI-Perf, GuideLLM, InferenceX
rows and llm-d's Benchmark Report. All fill one schema (``schema``); each has a reader beside."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import ParseError
from trueup_node.reading import lines_of, unique, whole_number

from . import aiperf, flat, guidellm, llmd, tables, trtllm, vllm_offline
from .signatures import form_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trueup_node.reading import Line

    from .schema import Draft, Serving

TOOL = "serving"
# The time for YAML grows with the square of the depth of braces.
_DEEPEST: Final = 50
# YAML takes digits with a colon between for a number of minutes, or of hours.
_SIXTIES: Final = re.compile(r"(?m)[:,{] *[-+]?\d{1,18}(?::\d{1,18})+ *(?:[,}]|$)")
_TEXTS: Final[dict[str, Callable[[Sequence[Line]], Draft]]] = {
    "table": tables.read_table,
    "offline_table": tables.read_table,
    "trtllm_text": trtllm.read_text,
    "vllm_throughput": vllm_offline.read_throughput,
    "vllm_latency": vllm_offline.read_latency,
    "aiperf_table": aiperf.read_table,
    "aiperf_csv": aiperf.read_csv,
}
_OBJECTS: Final[dict[str, Callable[[Mapping[str, Any]], Draft]]] = {
    "guidellm": guidellm.read_benchmark,
    "llmd": llmd.read_report,
    "trtllm_json": trtllm.read_json,
    "inferencex": flat.read_inferencex,
    "sglang_json": flat.read_sglang,
    "vllm_throughput_json": vllm_offline.read_throughput_json,
    "vllm_latency_json": vllm_offline.read_latency_json,
    "aiperf_json": aiperf.read_json,
}


def parse_serving(text: str) -> Serving:
    """Read the output of one run.

    Raises:
        ParseError: no result of these tools, two of them, or figures that contradict each other.
    """
    lines = lines_of(text)
    form = form_of(text)
    if form is None:
        raise ParseError("no result of a tool that measures servers: this form is not known")
    draft = _TEXTS[form](lines) if form in _TEXTS else _OBJECTS[form](_object(text, form))
    return draft.finished()


def _object(text: str, form: str) -> Mapping[str, Any]:
    """The one JSON object of a text, or the YAML document of a report."""
    if form == "llmd" and not text.lstrip().startswith("{"):
        return _document(text)
    try:
        data = json.loads(
            text,
            object_pairs_hook=unique,
            parse_constant={"Infinity": "inf"}.get,
            parse_int=whole_number,
        )
    except ValueError as error:
        number = getattr(error, "lineno", 1)
        raise ParseError(f"the JSON is cut off or damaged ({error})", number) from None
    except RecursionError:
        raise ParseError("the JSON is nested too deeply", 1) from None
    if not isinstance(data, dict):
        raise ParseError("a list of results: one is read at a time", 1)
    return data


def _document(text: str) -> Mapping[str, Any]:
    depths = accumulate(1 if mark in "[{" else -1 for mark in re.findall(r"[][{}]", text))
    if max(depths, default=0) > _DEEPEST:
        raise ParseError("the YAML is nested too deeply: it is no report", 1)
    match = _SIXTIES.search(text)
    if match is not None:
        number = text.count("\n", 0, match.end()) + 1
        raise ParseError(f"{match[0].strip(' ,:{')!r} is not a number", number)
    import yaml  # noqa: PLC0415 WHY: a tenth of a second, for reports alone

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = yaml.load(text, loader)  # noqa: S506 WHY: either of them is a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        mark = getattr(error, "problem_mark", None)
        raise ParseError(
            f"the YAML is cut off or damaged ({problem})", None if mark is None else mark.line + 1
        ) from None
    if not isinstance(data, dict):
        raise ParseError("the report is no mapping: this form is not known", 1)
    return data
