"""What `trueup read` costs over long outputs, beside a scan of the same file's lines.

make bench ARGS="-k read"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import synthetic
from measure import command, python, trueup

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Bench

SCAN = "import sys\nfor line in open(sys.argv[1], encoding='utf-8'): pass"
# What writes the output, its bytes; ratio and MB.
OUTPUTS = {
    "nccl": (synthetic.nccl_log, 206e6, 55.0, 700),
    "megatron": (synthetic.megatron_log, 36e6, 120.0, 450),
    "fio": (synthetic.fio_json, 50e6, 60.0, 850),
}


@pytest.mark.parametrize("tool", OUTPUTS)
def test_a_long_output_is_read(bench: Bench, tmp_path: Path, tool: str) -> None:
    write, size, promise, megabytes = OUTPUTS[tool]
    output = tmp_path / "output"
    write(output, int(size))
    bench.compare(
        f"read of {size / 1e6:.0f} MB of {tool}",
        command(trueup("read", output)),
        "a scan of its lines",
        command(python(SCAN, output)),
        promise=promise,
        most_megabytes=megabytes,
    )
    output.unlink()
