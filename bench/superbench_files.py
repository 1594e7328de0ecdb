"""The fleet as SuperBench's analyzer reads it: the same figures under its names, with rules.

``TRUEUP_SUPERBENCH`` names a checkout of github.com/microsoft/superbenchmark with an environment in
its ``.venv`` (docs/dev/measurements.md). Its commands run as a user runs them:

    sb result diagnosis -d results.jsonl -r rules.yaml -b baseline.json --output-file-format json
    sb result summary -d results.jsonl -r summary.yaml

With two sets of rules: all metrics (ALL and SUMMARY below), and those of its own tests/analyzer.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import Side, Word, command

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = os.environ.get("TRUEUP_SUPERBENCH", "")
_SB = "from superbench.cli.sb import main; main()"
# Prefixes of its names; a figure without one keeps ours.
_NAMES = {
    "h2d_bandwidth": "mem-bw/H2D_Mem_BW",
    "d2h_bandwidth": "mem-bw/D2H_Mem_BW",
    "p2p_bandwidth": "gpu-copy-bw/p2p",
    "gemm_bf16": "gemm-flops/BF16_TC",
}
_BENCHMARKS = {"nccl": "nccl-bw", "ib": "ib-loopback", "gemm": "gemm-flops", "gpu_copy": "mem-bw"}
# The rules on all metrics: name to function, criteria and metrics.
_SLOW, _OTHER, _ANY = "lambda x:x<-0.05", "lambda x:abs(x)>0.05", "lambda x:x>0"
_RATES = (
    "gemm-flops/BF16",
    "mem-bw/.*BW",
    "gpu-copy-bw/p2p",
    "ib-loopback/IB_write",
    "ib-pair/IB_write",
    "nccl-bw/.*_busbw",
)
_SET = ("node-state/(cores|memory|rdma_nics|gpus|nvme_disks|link_rate|nvlinks_|fabric_)",)
_COUNTS = ("node-state/(hardware_xids|ecc_|row_|rows_)", "nccl-bw/.*_wrong")
_CODES = tuple(f"{name}/return_code" for name in (*_BENCHMARKS.values(), "node-state"))
ALL = {
    "slow": ("variance", _SLOW, _RATES),
    "other": ("variance", _OTHER, _SET),
    "errors": ("value", _ANY, _COUNTS),
    "failed": ("value", _ANY, _CODES),
}
# The statistics of its own test rules, over the ranks of each metric.
SUMMARY = {"statistics": ["mean", "p90", "min", "max"], "aggregate": True}


def names(record: dict[str, Any]) -> Iterable[tuple[str, float]]:
    """SuperBench's name of each figure of a record, and the figure."""
    benchmark = _BENCHMARKS.get(record["benchmark"], "node-state")
    operation = record["parameters"].get("operation", "").replace("_", "")
    for row in record["metrics"]:
        device = row.get("device") or "0"
        rank = int("".join(filter(str.isdigit, device.partition(">")[0].rpartition("_")[2])))
        size = row.get("message_bytes")
        if record["node_count"] > 1:
            first_node, other = (int(node.rpartition("-")[2]) for node in record["nodes"])
            name = f"ib-pair/IB_write_{size}_Avg_{other - first_node}:0"
        elif benchmark == "ib-loopback":
            name = f"ib-loopback/IB_write_{size}_Avg_{rank}:0"
        elif benchmark == "nccl-bw":
            name = f"nccl-bw/{operation}_{size}_{row['name']}:0"
        elif ">" in device:
            name = f"{_NAMES[row['name']]}_{device.rpartition('gpu')[2]}:{rank}"
        else:
            name = f"{_NAMES.get(row['name'], f'{benchmark}/' + row['name'])}:{rank}"
        yield name, row["value"]
    if record["node_count"] == 1:
        yield f"{benchmark}/return_code", int(record["outcome"] != "ok")


def write(records: Iterable[dict[str, Any]], folder: Path) -> int:
    """Write results.jsonl, baseline.json (medians), rules.yaml and summary.yaml; how many figures.

    A figure of two nodes belongs to the first one.
    """
    nodes: dict[str, dict[str, float]] = {}
    for record in records:
        node_figures = nodes.setdefault(record["nodes"][0], {})
        for name, value in names(record):
            # Of several records of one benchmark the worst return code counts.
            code = name.endswith("return_code")
            node_figures[name] = max(value, node_figures.get(name, 0)) if code else value
    with (folder / "results.jsonl").open("w", encoding="utf-8") as file:
        for node, figures in nodes.items():
            file.write(json.dumps({"node": node, **figures}) + "\n")
    values: dict[str, list[float]] = {}
    for figures in nodes.values():
        for name, value in figures.items():
            values.setdefault(name, []).append(value)
    baseline = {name: statistics.median(each) for name, each in values.items()}
    (folder / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    # JSON is YAML.
    rules = {
        name: {"function": how, "criteria": when, "categories": name, "metrics": [*metrics]}
        for name, (how, when, metrics) in ALL.items()
    }
    summary = {
        name: {**SUMMARY, "categories": name, "metrics": [*metrics]}
        for name, (_, _, metrics) in ALL.items()
    }
    for file_name, each in (("rules.yaml", rules), ("summary.yaml", summary)):
        document = {"version": "v0.12", "superbench": {"rules": each}}
        (folder / file_name).write_text(json.dumps(document), encoding="utf-8")
    return sum(map(len, nodes.values()))


def commit() -> str:
    """The checkout's commit, short."""
    argv = ["git", "-C", FOLDER, "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def steps(data: Path, *, own_rules: bool) -> tuple[Side, Side]:
    """Diagnosis and summary of the files in ``data``; they write below it."""
    checkout = Path(FOLDER)
    analyzer_tests = checkout / "tests" / "analyzer"
    rules = analyzer_tests / "test_rules.yaml" if own_rules else data / "rules.yaml"
    summary = analyzer_tests / "test_summary_rules.yaml" if own_rules else data / "summary.yaml"
    output = data / ("own" if own_rules else "all")
    sb: list[Word] = [checkout / ".venv" / "bin" / "python", "-c", _SB, "result"]
    files: list[Word] = ["-d", data / "results.jsonl", "--output-dir", output]
    judge: list[Word] = ["-r", rules, "-b", data / "baseline.json", "--output-file-format", "json"]
    env = {"PYTHONPATH": FOLDER}
    return (
        command([*sb, "diagnosis", *files, *judge], env=env),
        command([*sb, "summary", *files, "-r", summary], env=env),
    )


def defective(data: Path) -> set[str]:
    """Nodes that the diagnosis by the rules on all metrics named."""
    rows = json.loads((data / "all" / "diagnosis_summary.json").read_text(encoding="utf-8"))
    return {row["index"] for row in rows}
