"""Records of servers as llm-d's Benchmark Report, a report a record (llmd-benchmark-report 0.2.1,
schema_v0_2.py). The texts are JSON, which YAML readers read.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from .exported import Exported, node_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.cases import Case

_VERSION: Final = "0.2"
_BENCHMARKS: Final = ("vllm", "serving")
# By metric of trueup_node.serving: the report's name and unit.
_LATENCIES: Final = {
    "ttft": ("time_to_first_token", "s"),
    "tpot": ("time_per_output_token", "s/token"),
    "itl": ("inter_token_latency", "s/token"),
    "e2el": ("request_latency", "s"),
}
_RATES: Final = {
    "request_throughput": ("request_rate", "queries/s"),
    "input_token_throughput": ("input_token_rate", "tokens/s"),
    "output_token_throughput": ("output_token_rate", "tokens/s"),
    "total_token_throughput": ("total_token_rate", "tokens/s"),
}
_REQUESTS: Final = ("requests_completed", "requests_failed")
_STATISTICS: Final = {
    **{name: name for name in ("mean", "min", "max", "p1", "p5", "p10", "p25", "p75", "p90")},
    "p95": "p95",
    "p99": "p99",
    "median": "p50",
    "p50": "p50",
    "p0.1": "p0p1",
    "p99.9": "p99p9",
}
_ENGINES: Final = ("engine", "server_engine")
_MODELS: Final = ("model", "served_model_name", "model_id")
_PARALLEL: Final = {"tp": "tensor_parallel", "dp": "data_parallel", "pp": "pipeline_parallel"}


def render(cases: Sequence[Case]) -> Exported:
    """A report for each ok record of a benchmark that measures servers."""
    exported = Exported()
    for case in cases:
        if case.benchmark not in _BENCHMARKS:
            exported.left_out[f"record of {case.benchmark}, which measures no server"] += 1
        elif case.outcome != "ok":
            exported.left_out[f"record that is {case.outcome}"] += 1
        else:
            report = _report(case, exported)
            name = _free(f"{case.run_id}-{case.case}-{node_of(case)}", exported.texts)
            exported.texts[name] = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    return exported


def _free(stem: str, names: Mapping[str, str]) -> str:
    """A file's name that no other report has."""
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "-", stem)[:180]
    number, name = 1, f"{stem}.json"
    while name in names:
        number += 1
        name = f"{stem}.{number}.json"
    return name


def _report(case: Case, exported: Exported) -> dict[str, Any]:
    began = seconds_of(case)
    start = None if began is None else datetime.fromtimestamp(began, timezone.utc)
    time = None
    if start is not None:
        end = start + timedelta(seconds=case.duration or 0.0)
        time = {"start": start.isoformat(), "end": end.isoformat()}
        if case.duration is not None:
            time["duration"] = f"PT{case.duration:g}S"
    return {
        "version": _VERSION,
        "run": {
            "uid": f"{case.run_id}/{case.case}/{node_of(case)}",
            "eid": case.run_id,
            **({"time": time} if time else {}),
            "description": f"trueup {case.benchmark} {case.case}",
        },
        "scenario": {"stack": _stack(case)},
        "results": {"request_performance": {"aggregate": _aggregate(case, exported)}},
    }


def _stack(case: Case) -> list[dict[str, Any]]:
    """The machine with all parameters of the case, and the engine where its model and GPUs are
    known."""
    parameters = {
        key: value if isinstance(value, (bool, int, float)) else str(value)
        for key, value in case.parameters.items()
    }
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]
    machine = {
        "kind": "generic",
        "tool": "azure-vm",
        "tool_version": case.vm_size or "unknown",
        "nodes": list(case.nodes),
        "region": case.region,
        "gpus": case.gpus,
        "software": dict(case.software),
        "parameters": parameters,
    }
    stack = [_component("machine", digest, machine)]
    model = next((str(parameters[name]) for name in _MODELS if parameters.get(name)), "")
    if model and case.gpus:
        engine = next((str(parameters[name]) for name in _ENGINES if parameters.get(name)), "vllm")
        degrees = {
            key: value
            for key, name in _PARALLEL.items()
            if (value := _whole(parameters.get(name))) is not None
        }
        stack.append(
            _component(
                "engine",
                digest,
                {
                    "kind": "inference_engine",
                    "tool": engine,
                    "tool_version": case.software.get(engine, "unknown"),
                    "role": "replica",
                    "replicas": 1,
                    "model": {"name": model},
                    "accelerator": {
                        "model": str(parameters.get("gpu_name") or case.vm_size or "unknown"),
                        "count": case.gpus,
                        "parallelism": degrees,
                    },
                },
            )
        )
    return stack


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else None


def _component(label: str, digest: str, standardized: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"label": label, "cfg_id": digest},
        "standardized": standardized,
        "native": {},
    }


def _aggregate(case: Case, exported: Exported) -> dict[str, Any]:
    latencies: dict[str, dict[str, Any]] = {}
    rates: dict[str, dict[str, Any]] = {}
    counts: dict[str, float] = {}
    for figure in case.figures:
        if figure.name in _LATENCIES and figure.statistic in _STATISTICS:
            name, unit = _LATENCIES[figure.name]
            statistics = latencies.setdefault(name, {"units": unit})
            statistics[_STATISTICS[str(figure.statistic)]] = figure.value
        elif figure.name in _RATES:
            name, unit = _RATES[figure.name]
            rates[name] = {"units": unit, "mean": figure.value}
        elif figure.name in _REQUESTS:
            counts[figure.name] = figure.value
        else:
            exported.left_out[f"figure {figure.name}: the report has no field for it"] += 1
    for name in [name for name, statistics in latencies.items() if "mean" not in statistics]:
        del latencies[name]
        exported.left_out[f"latency {name} without a mean, which the report needs"] += 1
    completed = counts.get("requests_completed")
    requests = {}
    if completed is not None:
        failed = int(counts.get("requests_failed", 0))
        requests = {"requests": {"total": int(completed) + failed, "failures": failed}}
    return {
        **requests,
        **({"latency": latencies} if latencies else {}),
        **({"throughput": rates} if rates else {}),
    }
