"""Speed over load from NVIDIA's aiconfigurator, an optional program whose database holds times of
vLLM's operators on GPUs (``pip install 'trueup[serving]'``; Apache-2.0)."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_node.errors import BadInput

from .roofline import Layout, Speed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .curves import Level
    from .roofline import Work

PROGRAM: Final = "aiconfigurator"
VERSION: Final = "0.12.0"
# GPUs of the catalog and the program's names of their systems.
SYSTEMS: Final[Mapping[str, str]] = {
    "A100-SXM4-80GB": "a100_sxm",
    "H100-SXM5-80GB": "h100_sxm",
    "H200-SXM5-141GB": "h200_sxm",
}
# A search takes some 10 s of CPU.
_SECONDS: Final = 300
# Where nobody asks for a time, the program still wants one.
_UNLIMITED_MS: Final = 60_000


def program() -> str:
    """Its path; empty where it is not installed."""
    beside = Path(sys.executable).with_name(PROGRAM)
    return str(beside) if beside.is_file() else shutil.which(PROGRAM) or ""


def curves(
    path: str, document: Mapping[str, Any], gpu_model: str, gpus: int, work: Work, level: Level
) -> Mapping[Layout, list[Speed]]:
    """The points of each layout on one node, by the layout of its servers.

    Args:
        path: of the program.
        document: the model's config.json.

    Raises:
        BadInput: the program failed, with the last line of its message.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(document), encoding="utf-8")
        results = Path(folder) / "results"
        command = [
            *(path, "cli", "default", "--model-path", str(model), "--backend", "vllm"),
            *("--total-gpus", str(gpus), "--system", SYSTEMS[gpu_model], "--no-color"),
            *("--isl", str(work.tokens_in), "--osl", str(work.tokens_out)),
            *("--prefix", str(work.cached), "--serving-mode", "agg"),
            *("--ttft", f"{min(level.ttft * 1000, _UNLIMITED_MS):g}"),
            *("--tpot", f"{min(level.tpot * 1000, _UNLIMITED_MS):g}"),
            *("--save-dir", str(results)),
        ]
        try:
            run = subprocess.run(  # noqa: S603 WHY: the argv is ours, the program the user's
                command, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=folder
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadInput(f"{PROGRAM} did not run: {error}") from error
        tables = list(results.rglob("pareto.csv"))
        if run.returncode or not tables:
            raise BadInput(f"{PROGRAM} failed: {_last_line(run.stderr or run.stdout)}")
        return _read(tables[0], gpus)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def _read(table: Path, gpus: int) -> Mapping[Layout, list[Speed]]:
    """
    Raises:
        BadInput: the table has other columns, or a cell that is no number.
    """
    points: dict[Layout, list[Speed]] = defaultdict(list)
    try:
        with table.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if int(row["pp"]) != 1:
                    continue
                tensor, data = int(row["tp"]), int(row["dp"])
                servers = gpus // (tensor * data)
                is_mixture = int(row["moe_ep"]) * int(row["moe_tp"]) > 1
                layout = Layout(tensor, data, int(row["moe_ep"]) > 1, servers)
                if not is_mixture and data == 1:
                    layout = Layout(tensor, data=servers)
                points[layout].append(
                    Speed(
                        float(row["bs"]),
                        float(row["seq/s"]) / data,
                        float(row["ttft"]) / 1000,
                        float(row["tpot"]) / 1000,
                    )
                )
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise BadInput(f"{PROGRAM} wrote a table of another form: {error!r}") from error
    return points
