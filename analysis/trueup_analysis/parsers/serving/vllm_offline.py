"""``vllm bench throughput`` and ``vllm bench latency`` (before 0.10: benchmark_throughput.py and
benchmark_latency.py): the engine in the tool's own process, without a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import ParseError

from .schema import Draft, Figure, number, printed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.reading import Line

# GPUs of one engine: no machine has so many.
_DEGREE: Final = re.compile(r"[0-9]{1,4}")
_ENGINE: Final = "vllm"
_THROUGHPUT: Final = re.compile(
    r"Throughput: ([\d.]+) requests/s, ([\d.]+) (?:total )?tokens/s(?:, ([\d.]+) output tokens/s)?"
)
_COUNT: Final = re.compile(r"Total num (prompt|output) tokens: +(\d{1,18})")
_SECONDS: Final = r"(\d[\d.]*(?:e-?\d{1,2})?)"
_MEAN: Final = re.compile(rf"Avg latency: {_SECONDS} seconds")
_PERCENTILE: Final = re.compile(
    rf"(\d{{1,2}}(?:\.\d{{1,3}})?)% percentile latency: {_SECONDS} seconds"
)
# The options, as Python prints them before the run.
_OPTIONS: Final = re.compile(r"(?:Namespace|ArgNamespace)\(.*")
_OPTION_OF: Final = {
    "model": "model",
    "dtype": "dtype",
    "quantization": "precision",
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "input_len": "input_length",
    "output_len": "output_length",
    "batch_size": "batch_size",
    "num_prompts": "num_prompts",
    "dataset_name": "dataset",
}


def read_throughput(lines: Sequence[Line]) -> Draft:
    """The line of ``vllm bench throughput``, and the counts of tokens behind it.

    Raises:
        ParseError: a second one.
    """
    draft = _draft("throughput", lines)
    for line in lines:
        match, count = _THROUGHPUT.match(line.strip()), _COUNT.fullmatch(line.strip())
        if match is not None:
            draft.put("request_throughput", printed(match[1], line))
            draft.put("total_token_throughput", printed(match[2], line))
            if match[3]:
                draft.put("output_token_throughput", printed(match[3], line))
        elif count is not None:
            kind = "input" if count[1] == "prompt" else "output"
            draft.put(f"{kind}_tokens", printed(count[2], line))
    if len({"input_tokens", "output_tokens"} & draft.figures.keys()) == 1:
        draft.unverified.append("the tokens of prompts or of outputs are missing")
    _check_counts(draft)
    return draft


def _check_counts(draft: Draft) -> None:
    """The rates of tokens are as the counts of tokens."""
    names = ("input_tokens", "output_tokens", "output_token_throughput", "total_token_throughput")
    figures = [figure for name in names if (figure := draft.figures.get(name)) is not None]
    if len(figures) < len(names):
        return
    prompts, outputs, output, total = figures
    together = prompts.value + outputs.value
    slack = output.slack + total.slack + 1e-6 * total.value
    if together and abs(total.value * outputs.value / together - output.value) > slack:
        message = f"{outputs.value:g} of {together:g} tokens are output, and the rates differ"
        raise output.line.error(message) if output.line else ParseError(message)


def read_latency(lines: Sequence[Line]) -> Draft:
    """The lines of ``vllm bench latency``: the time of a whole batch.

    Raises:
        ParseError: a second run.
    """
    draft = _draft("latency", lines)
    for line in lines:
        mean, percentile = _MEAN.fullmatch(line.strip()), _PERCENTILE.fullmatch(line.strip())
        if mean is not None:
            draft.latency("e2el", "mean", printed(mean[1], line))
        elif percentile is not None:
            draft.latency("e2el", f"p{percentile[1]}", printed(percentile[2], line))
    if "mean" not in draft.latencies["e2el"]:
        draft.unverified.append("no line 'Avg latency': the beginning of the result is missing")
    _rates_of_batch(draft)
    return draft


def read_throughput_json(data: Mapping[str, Any]) -> Draft:
    """``--output-json`` of ``vllm bench throughput``."""
    draft = Draft("vllm bench throughput", _ENGINE)
    for key, name in (
        ("elapsed_time", "duration"),
        ("num_requests", "requests_completed"),
        ("total_num_tokens", "total_tokens"),
        ("requests_per_second", "request_throughput"),
        ("tokens_per_second", "total_token_throughput"),
    ):
        draft.put(name, number(data.get(key)))
    return draft


def read_latency_json(data: Mapping[str, Any]) -> Draft:
    """``--output-json`` of ``vllm bench latency``."""
    draft = Draft("vllm bench latency", _ENGINE)
    draft.latency("e2el", "mean", number(data.get("avg_latency")))
    percentiles = data.get("percentiles")
    for percent, value in percentiles.items() if isinstance(percentiles, dict) else ():
        if re.fullmatch(r"\d{1,2}(?:\.\d{1,3})?", percent):
            draft.latency("e2el", f"p{percent}", number(value))
        else:
            draft.unknown(f"percentile {percent}", value)
    times = data.get("latencies")
    if isinstance(times, list) and times:
        mean = sum(figure.value for each in times if (figure := number(each))) / len(times)
        stated = draft.latencies["e2el"].get("mean")
        if stated is not None and abs(mean - stated.value) > 1e-6 * mean:
            raise ParseError(f"avg_latency is {stated.value:g} and the mean of latencies {mean:g}")
    return draft


def _draft(name: str, lines: Sequence[Line]) -> Draft:
    draft = Draft(f"vllm bench {name}", _ENGINE)
    options = next((line for line in lines if _OPTIONS.match(line.strip())), "")
    for option, parameter in _OPTION_OF.items():
        match = re.search(rf"\b{option}='?([^',)]*)", options)
        draft.say(parameter, match[1] if match else None)
    draft.say("precision", draft.parameters.pop("dtype", None))
    degrees = [draft.parameters.get(f"{kind}_parallel", "") for kind in ("tensor", "pipeline")]
    tensor, pipeline = (int(each) if _DEGREE.fullmatch(each) else None for each in degrees)
    if tensor is not None:
        draft.gpus = Figure(float(tensor * (1 if pipeline is None else pipeline)))
    return draft


def _rates_of_batch(draft: Draft) -> None:
    """A batch of requests of known lengths in the mean time gives the rates."""
    names = ("batch_size", "input_length", "output_length")
    sizes = [draft.parameters.get(name, "") for name in names]
    mean = draft.latencies["e2el"].get("mean")
    if mean is None or mean.value <= 0 or not all(map(str.isdecimal, sizes)):
        return
    batch, inputs, outputs = map(int, sizes)
    each = mean._replace(value=batch / mean.value, slack=batch / mean.value * mean.slack)
    draft.put("request_throughput", each)
    draft.put("output_token_throughput", each.times(outputs))
    draft.put("total_token_throughput", each.times(inputs + outputs))
