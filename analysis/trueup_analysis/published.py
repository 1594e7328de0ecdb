"""catalog/reference_results.csv as cases: published results in the frames of measured ones."""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from trueup.errors import BadInput

from .packed import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["read_published"]


_REFERENCE_COLUMNS = {
    *("system", "benchmark", "configuration", "nodes", "cores_or_gpus", "metric", "value"),
    *("unit", "source", "provenance", "notes"),
}
_DEVITO = "devito benchmark.py acoustic forward"
_DEVITO_SUMS = "devito cost table"
# metric and unit in the file -> metric, factor to the base unit, base unit, direction
_DEVITO_METRICS = {
    ("run_time", "s"): ("run_time", 1.0, "s", "lower"),
    ("throughput", "GFLOP/s"): ("flop_rate", 1e9, "flop/s", "higher"),
    ("speedup", "x vs 16 vCPU"): ("published_speedup", 1.0, "1", "none"),
    ("speedup", "x vs 1 node"): ("published_speedup", 1.0, "1", "none"),
    ("wall_clock_sum", "h"): ("wall_clock_sum", 3600.0, "s", "none"),
}
# The article's cost table names its sums in other words than its result tables.
_SUMMED = {
    "all 5 single-node runs": "single node, CentOS-HPC 8.1, EPYC 7V73X",
    "4 cluster runs, 64 vCPU/node": "multi-node, 64 vCPU per node",
    "4 cluster runs, 96 vCPU/node": "multi-node, 96 vCPU per node",
}


def read_published(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The Devito rows of catalog/reference_results.csv as rows of the packed layout, and notes on
    the others.

    Run times and flop rates become the metrics that a record has; the article's own speed-ups stay
    beside them as ``published_speedup``, and its sums of run times as benchmark ``devito_sums``,
    metric ``wall_clock_sum`` (s).

    Raises:
        BadInput: another kind of file, or a row that cannot be understood.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    others: Counter[str] = Counter()
    for line, row in _csv_rows(path):
        if row["benchmark"] not in (_DEVITO, _DEVITO_SUMS):
            others[row["benchmark"]] += 1
            continue
        known = _DEVITO_METRICS.get((row["metric"], row["unit"]))
        if known is None:
            what = f"metric {row['metric']} in {row['unit']!r}"
            message = f"{path} line {line}: {what} is not known for Devito"
            raise BadInput(message)
        name, factor, unit, direction = known
        key = (
            row["system"],
            row["benchmark"],
            row["configuration"],
            row["nodes"],
            row["cores_or_gpus"],
        )
        case = found.get(key)
        if case is None:
            case = found[key] = _published_case(row, f"{path}:{line}")
        try:
            value = float(row["value"]) * factor
        except ValueError as error:
            message = f"{path} line {line}: {row['value']!r} is not a number"
            raise BadInput(message) from error
        case["metrics"].append(
            {
                "name": name,
                "value": value,
                "unit": unit,
                "direction": direction,
                "statistic": "single",
            }
        )
    notes = []
    if others:
        notes.append(
            f"{path.name}: {sum(others.values())} rows of {len(others)} other benchmarks are left"
            " out; only its Devito rows can be analysed as cases."
        )
    return list(found.values()), notes


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            if not set(reader.fieldnames or ()) >= _REFERENCE_COLUMNS:
                message = (
                    f"{path} is not a table of published results: its header lacks "
                    + ", ".join(sorted(_REFERENCE_COLUMNS - set(reader.fieldnames or ())))
                )
                raise BadInput(message)
            for row in reader:
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        message = f"{path} cannot be read: {error}"
        raise BadInput(message) from error


def _published_case(row: dict[str, str], source: str) -> dict[str, Any]:
    sums = row["benchmark"] == _DEVITO_SUMS
    configuration = _SUMMED.get(row["configuration"], row["configuration"])
    words = "single-node"
    if per_node := re.search(r"(\d+) vCPU per node", configuration):
        words = f"nodes-of-{per_node[1]}"
    cores = int(row["cores_or_gpus"]) if row["cores_or_gpus"] else None
    return {
        "run_id": "published",
        "benchmark": "devito_sums" if sums else "devito",
        "case": f"{words}-sum" if sums else f"{words}-{cores}c",
        "outcome": "ok",
        "nodes": "published",
        "vm_size": row["system"],
        "node_count": int(row["nodes"]) if row["nodes"] else None,
        "cores": cores,
        "gpus": 0,
        "parameters": canonical({"model": "acoustic", "configuration": configuration}),
        "software": "{}",
        "system": "{}",
        "command": "[]",
        "environment": "{}",
        "source": source,
        "provenance": row["source"],
        "metrics": [],
    }
