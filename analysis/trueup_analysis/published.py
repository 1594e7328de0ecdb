"""catalog/reference_results.csv as cases: published results in the frames of measured ones."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput

from . import catalog
from .packed import canonical

if TYPE_CHECKING:
    from pathlib import Path


_COLUMNS = (
    *("system", "benchmark", "configuration", "nodes", "cores_or_gpus", "metric", "value"),
    *("unit", "source", "provenance", "notes"),
)
_DEVITO = "devito benchmark.py acoustic forward"
_DEVITO_SUMS = "devito cost table"
_VLLM = "vLLM Llama-3.1-8B-Instruct FP16"
_DEEPSEEK = "vLLM DeepSeek-R1"
_NX = "Siemens NX on Azure Virtual Desktop"
_STORAGE = "EDA storage benchmark"
# metric in the file -> measured quantity, latency
_STORAGE_METRICS = {
    "io_rate_at_2ms": ("I/O rate", "2 ms"),
    "io_rate_at_2ms_min": ("I/O rate, at least", "2 ms"),
    "io_rate_at_edge_7ms": ("I/O rate", "about 7 ms"),
    "throughput": ("throughput", ""),
}
_STORAGE_UNITS = {"ops/s": (1.0, "1/s"), "GB/s": (1e9, "byte/s")}
# metric and unit in the file -> metric, factor to the base unit, base unit, direction, statistic
_Metrics = dict[tuple[str, str], tuple[str, float, str, str, str]]
_DEVITO_METRICS: _Metrics = {
    ("run_time", "s"): ("run_time", 1.0, "s", "lower", "single"),
    ("throughput", "GFLOP/s"): ("flop_rate", 1e9, "flop/s", "higher", "single"),
    ("speedup", "x vs 16 vCPU"): ("published_speedup", 1.0, "1", "none", "single"),
    ("speedup", "x vs 1 node"): ("published_speedup", 1.0, "1", "none", "single"),
    ("wall_clock_sum", "h"): ("wall_clock_sum", 3600.0, "s", "none", "single"),
}
_VLLM_METRICS: _Metrics = {
    ("prompt_throughput", "tok/s"): ("input_token_throughput", 1.0, "1/s", "higher", "single"),
    ("generation_throughput", "tok/s"): ("output_token_throughput", 1.0, "1/s", "higher", "single"),
    ("max_requests_waiting", "requests"): ("requests_waiting", 1.0, "1", "lower", "max"),
    ("max_kv_cache_usage", "%"): ("kv_cache_usage", 0.01, "1", "lower", "max"),
    ("kv_cache_hit_rate", "%"): ("prefix_cache_hit_rate", 0.01, "1", "higher", "mean"),
}
_DEEPSEEK_METRICS: _Metrics = {
    ("cost_ratio_vs_llama8b", "x"): ("cost_ratio", 1.0, "1", "none", "single"),
    ("token_ratio_vs_llama8b", "x"): ("token_ratio", 1.0, "1", "none", "single"),
    ("throughput_slowdown_vs_llama8b", "x"): ("slowdown", 1.0, "1", "none", "single"),
}
_NX_METRICS: _Metrics = {
    ("users_per_host", "users"): ("users_per_host", 1.0, "1", "none", "single"),
}
_METRICS = {
    _DEVITO: _DEVITO_METRICS,
    _DEVITO_SUMS: _DEVITO_METRICS,
    _VLLM: _VLLM_METRICS,
    _DEEPSEEK: _DEEPSEEK_METRICS,
    _NX: _NX_METRICS,
}
# Of these some rows are words.
_IN_WORDS = (_DEEPSEEK, _NX)
_VLLM_CONFIGURATION = re.compile(r"(?P<profile>\w+), 1 GPU \((?P<gpu>\w+)\), ")
# The article's cost table names its sums in other words than its result tables.
_SUMMED = {
    "all 5 single-node runs": "single node, CentOS-HPC 8.1, EPYC 7V73X",
    "4 cluster runs, 64 vCPU/node": "multi-node, 64 vCPU per node",
    "4 cluster runs, 96 vCPU/node": "multi-node, 96 vCPU per node",
}


def read_published(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The Devito and vLLM rows of catalog/reference_results.csv as rows of the packed layout, and
    notes on the others.

    Run times, flop rates and rates of tokens become the metrics that a record has, and prompt and
    generated tokens add up to ``total_token_throughput``; the Devito article's own speed-ups stay
    beside them as ``published_speedup``, its sums of run times as benchmark ``devito_sums``, metric
    ``wall_clock_sum`` (s), and the ratios of DeepSeek R1 to Llama 3.1 8B as benchmark
    ``vllm_ratios``, metrics ``cost_ratio``, ``slowdown`` and ``token_ratio`` (tokens of one
    answer). Users of Siemens NX on a host are benchmark ``nx_avd``, metric ``users_per_host``.

    Raises:
        BadInput: another kind of file, or a row that cannot be understood.
    """
    cases: dict[tuple[str, ...], dict[str, Any]] = {}
    skipped: Counter[str] = Counter()
    for where, row in catalog.rows(path, *_COLUMNS):
        metrics_by_key = _METRICS.get(row["benchmark"])
        metric = (
            None if metrics_by_key is None else metrics_by_key.get((row["metric"], row["unit"]))
        )
        if metrics_by_key is None or (metric is None and row["benchmark"] in _IN_WORDS):
            skipped[row["benchmark"]] += 1
            continue
        if metric is None:
            metric_text = f"metric {row['metric']} in {row['unit']!r}"
            of = "vLLM" if row["benchmark"] == _VLLM else "Devito"
            raise BadInput(f"{where}: {metric_text} is not known for {of}")
        name, factor, unit, direction, statistic = metric
        key = tuple(row[name] for name in _COLUMNS[:5])
        case = cases.get(key)
        if case is None:
            case = cases[key] = _CASES[row["benchmark"]](row, where)
        try:
            value = float(row["value"]) * factor
        except ValueError as error:
            raise BadInput(f"{where}: {row['value']!r} is not a number") from error
        case["metrics"].append(_metric(name, value, unit, direction, statistic))
    for case in cases.values():
        _add_total(case)
    notes = []
    if skipped:
        notes.append(
            f"{path.name}: {sum(skipped.values())} rows of {len(skipped)} other benchmarks are left"
            " out; only its Devito and vLLM rows can be analysed as cases."
        )
    return list(cases.values()), notes


def read_storage(path: Path) -> list[dict[str, Any]]:
    """The rows of the published EDA storage benchmark: configuration, system, clients, what
    (the quantity), latency, low and high (the same where it is no range), unit (1/s or byte/s),
    source, said.

    Raises:
        BadInput: another kind of file, or a row that cannot be understood.
    """
    rows = []
    for where, row in catalog.rows(path, *_COLUMNS):
        if row["benchmark"] != _STORAGE:
            continue
        numbers = re.fullmatch(r"([0-9.]+)(?:-([0-9.]+))?", row["value"])
        measure = _STORAGE_METRICS.get(row["metric"])
        unit = _STORAGE_UNITS.get(row["unit"])
        if numbers is None or measure is None or unit is None:
            metric_text = f"metric {row['metric']}, {row['value']} {row['unit']!r}"
            raise BadInput(f"{where}: {metric_text} is not known for {_STORAGE}")
        factor, base = unit
        low, high = numbers[1], numbers[2] or numbers[1]
        rows.append(
            {
                "configuration": row["configuration"],
                "system": row["system"],
                "clients": _whole(row, "nodes", where),
                "what": measure[0],
                "latency": measure[1],
                "low": float(low) * factor,
                "high": float(high) * factor,
                "unit": base,
                "source": row["source"],
                "said": row["notes"],
            }
        )
    return rows


def _metric(
    name: str, value: float, unit: str, direction: str, statistic: str = "single"
) -> dict[str, Any]:
    keys = ("name", "value", "unit", "direction", "statistic")
    return dict(zip(keys, (name, value, unit, direction, statistic), strict=True))


def _add_total(case: dict[str, Any]) -> None:
    """All tokens in a second, where prompt and generated ones are known."""
    values = {row["name"]: row["value"] for row in case["metrics"]}
    if {"input_token_throughput", "output_token_throughput"} <= set(values):
        total = values["input_token_throughput"] + values["output_token_throughput"]
        case["metrics"].append(_metric("total_token_throughput", total, "1/s", "higher"))
        # The first stands for the case in a list.
        case["metrics"].sort(key=lambda row: row["name"] != "output_token_throughput")


def _devito_case(row: dict[str, str], source: str) -> dict[str, Any]:
    sums = row["benchmark"] == _DEVITO_SUMS
    configuration = _SUMMED.get(row["configuration"], row["configuration"])
    words = "single-node"
    if per_node := re.search(r"(?<!\d)(\d+) vCPU per node", configuration):
        words = f"nodes-of-{per_node[1]}"
    cores = _whole(row, "cores_or_gpus", source)
    return {
        **_case(row, source),
        "benchmark": "devito_sums" if sums else "devito",
        "case": f"{words}-sum" if sums else f"{words}-{cores}c",
        "cores": cores,
        "gpus": 0,
        "parameters": canonical({"model": "acoustic", "configuration": configuration}),
    }


def _vllm_case(row: dict[str, str], source: str) -> dict[str, Any]:
    configuration = row["configuration"]
    match = _VLLM_CONFIGURATION.match(configuration)
    if match is None:
        raise BadInput(f"{source}: configuration {configuration!r} names no profile and GPU")
    return {
        **_case(row, source),
        "benchmark": "vllm",
        "case": f"{match['profile']}-1x{match['gpu']}",
        "gpus": _whole(row, "cores_or_gpus", source),
        "parameters": canonical(
            {
                "engine": "vLLM",
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "profile": match["profile"],
                "gpu": match["gpu"],
                "configuration": configuration,
            }
        ),
    }


def _deepseek_case(row: dict[str, str], source: str) -> dict[str, Any]:
    gpus = _whole(row, "cores_or_gpus", source)
    return {
        **_case(row, source),
        "benchmark": "vllm_ratios",
        "case": f"deepseek-r1-{gpus}-gpus-{row['metric'].partition('_')[0]}",
        "gpus": gpus,
        "parameters": canonical(
            {"model": "deepseek-ai/DeepSeek-R1", "configuration": row["configuration"]}
        ),
    }


def _nx_case(row: dict[str, str], source: str) -> dict[str, Any]:
    return {
        **_case(row, source),
        "benchmark": "nx_avd",
        "case": f"nx-{row['system'].removeprefix('Standard_').lower()}",
        "parameters": canonical({"configuration": row["configuration"]}),
    }


def _whole(row: dict[str, str], name: str, source: str) -> int | None:
    """A count; None where the publication does not say."""
    if not row[name]:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", row[name]):
        raise BadInput(f"{source}: {name} {row[name]!r} is no count")
    return int(row[name])


def _case(row: dict[str, str], source: str) -> dict[str, Any]:
    """The fields that all cases share."""
    return {
        "run_id": "published",
        "outcome": "ok",
        "nodes": "published",
        "vm_size": row["system"],
        "node_count": _whole(row, "nodes", source),
        "software": "{}",
        "system": "{}",
        "command": "[]",
        "environment": "{}",
        "source": source,
        "provenance": row["source"],
        "metrics": [],
    }


_CASES = {
    _DEVITO: _devito_case,
    _DEVITO_SUMS: _devito_case,
    _VLLM: _vllm_case,
    _DEEPSEEK: _deepseek_case,
    _NX: _nx_case,
}
