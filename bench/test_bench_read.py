"""The cost of `trueup read` over long outputs, beside a scan of the same file's lines.

make bench ARGS="-k read"
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import synthetic
from measure import command, python, trueup

if TYPE_CHECKING:
    from conftest import Bench

SCAN = "import sys\nfor line in open(sys.argv[1], encoding='utf-8'): pass"
# The tool that writes the output, its MB; ratio and MB of memory.
OUTPUTS: dict[str, tuple[Callable[[Path, int], None], int, float, int]] = {
    "nccl": (lambda path, size: synthetic.nccl_log(path, size, *synthetic.FRONTS), 206, 18.0, 150),
    "nccl-tests": (synthetic.nccl_table, 20, 65.0, 140),
    "megatron": (synthetic.megatron_log, 362, 28.0, 900),
    "fio": (synthetic.fio_json, 50, 35.0, 200),
}
# Lines of one kind before a table.
MOST_OF_A_FRONT = (12.5, 45)


def judge(bench: Bench, figure: str, output: Path, promise: float, most_megabytes: int) -> None:
    """``trueup read`` of a file, which is removed."""
    bench.compare(
        figure,
        command(trueup("read", output)),
        "a scan of its lines",
        command(python(SCAN, output)),
        promise=promise,
        most_megabytes=most_megabytes,
    )
    output.unlink()


@pytest.mark.parametrize("tool", OUTPUTS)
def test_a_long_output_is_read(bench: Bench, tmp_path: Path, tool: str) -> None:
    write, size, promise, megabytes = OUTPUTS[tool]
    output = tmp_path / "output"
    write(output, size * 10**6)
    judge(bench, f"read of {size} MB of {tool}", output, promise, megabytes)


@pytest.mark.parametrize("kind", synthetic.FRONTS)
def test_a_long_front_of_one_kind_is_read(bench: Bench, tmp_path: Path, kind: str) -> None:
    output = tmp_path / "output"
    synthetic.nccl_log(output, 200 * 10**6, kind)
    judge(bench, f"read of 200 MB of lines ({kind}) before a table", output, *MOST_OF_A_FRONT)
