"""JSON objects whose members are single figures: a line of SGLang's ``--output-file``, and a row of
InferenceX (before: InferenceMAX; utils/process_result.py), whose times are in seconds."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from .schema import Draft, Figure, at, number

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATISTIC: Final = re.compile(
    r"(mean|median|std|min|max|p\d{1,2}(?:\.\d{1,3})?)_(ttft|tpot|itl|e2el|e2e_latency)(_ms)?"
)
_FIGURES: Final = {
    "duration": "duration",
    "completed": "requests_completed",
    "failed": "requests_failed",
    "total_input_tokens": "input_tokens",
    "total_output_tokens": "output_tokens",
    "request_throughput": "request_throughput",
    "request_goodput": "request_goodput",
    "input_throughput": "input_token_throughput",
    "output_throughput": "output_token_throughput",
    "total_throughput": "total_token_throughput",
    "total_token_throughput": "total_token_throughput",
    "max_output_tokens_per_s": "peak_output_token_throughput",
    "max_concurrent_requests": "peak_concurrent_requests",
    "concurrency": "concurrency",
}
_PARAMETERS: Final = {
    "backend": "backend",
    "framework": "engine",
    "model": "model",
    "model_id": "model",
    "precision": "precision",
    "dataset_name": "dataset",
    "request_rate": "request_rate",
    "max_concurrency": "max_concurrency",
    "conc": "max_concurrency",
    "num_prompts": "num_prompts",
    "random_input_len": "input_length",
    "random_output_len": "output_length",
    "isl": "input_length",
    "osl": "output_length",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "ep": "expert_parallel",
    "dp_attention": "dp_attention",
    "spec_decoding": "spec_decoding",
    "hw": "hardware",
    "hardware": "hardware",
    "device": "hardware",
    "image": "image",
}
_NO_SETTINGS: Final = frozenset({"date", "result_filename", "dispatch_ref", "nightly"})
# Numbers of single requests, and those that follow from others.
_LISTS: Final = re.compile(
    r"(?:input|output)_lens|ttfts|itls|latencies|generated_texts|errors|.*_intvty|.*_retokenized"
    r"|start_times|server_info|.*tput_per_gpu|is_multinode|disagg|num_(?:prefill|decode)_gpu"
)


def read_sglang(data: Mapping[str, Any]) -> Draft:
    """A line of SGLang's ``--output-file``."""
    draft = _draft("sglang bench_serving", data)
    server = data.get("server_info")
    for key, name in (
        ("model_path", "model"),
        ("served_model_name", "model"),
        ("version", "engine_version"),
        ("tp_size", "tensor_parallel"),
        ("dp_size", "data_parallel"),
        ("quantization", "precision"),
        ("dtype", "precision"),
    ):
        draft.say(name, at(server, key))
    draft.say("engine", draft.parameters.get("backend"))
    draft.tool_version = draft.parameters.get("engine_version")
    return draft


def read_inferencex(data: Mapping[str, Any]) -> Draft:
    """A row of InferenceX: rates of each GPU, times the GPUs. The rows of its web service have the
    figures as a member of their own."""
    figures = data.get("metrics")
    if isinstance(figures, dict):
        data = {**{name: value for name, value in data.items() if name != "metrics"}, **figures}
    draft = _draft("inferencex", data)
    # A setting that is not known may tell two servers apart: floats are figures.
    for name, value in data.items():
        if name in draft.not_judged and name not in _NO_SETTINGS and not isinstance(value, float):
            draft.say(name, draft.not_judged.pop(name))
    gpus, decode = _gpus(data)
    if gpus is None:
        draft.unknown("tput_per_gpu", data.get("tput_per_gpu"))
    else:
        draft.gpus = Figure(gpus)
        for key, name, count in (
            ("tput_per_gpu", "total_token_throughput", gpus),
            ("output_tput_per_gpu", "output_token_throughput", decode or gpus),
        ):
            if name not in draft.figures:
                draft.put(name, number(data.get(key), count))
    _check_speed(draft, data)
    return draft


def _gpus(data: Mapping[str, Any]) -> tuple[float | None, float]:
    """The GPUs of a row, and those of them that generate where they are others than those that
    read the prompts, else 0; None where the row does not say."""
    prefill, decode = (number(data.get(f"num_{part}_gpu")) for part in ("prefill", "decode"))
    if prefill is not None and decode is not None:
        # Where one engine does both, either number is that of its GPUs.
        together = data.get("disagg") in (False, "false") and prefill.value == decode.value
        return (decode.value if together else prefill.value + decode.value), decode.value
    tensor = number(data.get("tp"))
    if tensor is None:
        return None, 0.0
    degrees = (number(data.get(name)) for name in ("pp", "pcp_size"))
    return tensor.value * math.prod(each.value for each in degrees if each is not None), 0.0


def _check_speed(draft: Draft, data: Mapping[str, Any]) -> None:
    """The tokens a second of a user are 1 / TPOT, figure by figure."""
    for statistic in ("mean", "median", "p99"):
        speed = number(data.get(f"{statistic}_intvty"))
        time = draft.latencies["tpot"].get(statistic)
        if speed is None or time is None or not time.value:
            continue
        if abs(speed.value * time.value - 1) > 1e-2:
            draft.warnings.append(
                f"{statistic}_intvty {speed.value:g} is not 1 / TPOT of {time.value:g} s"
            )


def _draft(client: str, data: Mapping[str, Any]) -> Draft:
    draft = Draft(client)
    for key, value in data.items():
        statistic = _STATISTIC.fullmatch(key)
        if statistic is not None:
            name = "e2el" if statistic[2].startswith("e2e") else statistic[2]
            draft.latency(name, statistic[1], number(value, 1e-3 if statistic[3] else 1.0))
        elif key in _FIGURES:
            draft.put(_FIGURES[key], number(value))
        elif key in _PARAMETERS:
            draft.say(_PARAMETERS[key], value)
        elif not _LISTS.fullmatch(key) and isinstance(value, (str, int, float)):
            draft.unknown(key, value)
    return draft
