"""`trueup health` over 600 synthetic nodes, as a process: under 3 s is promised.

make bench ARGS="-k health --benchmark-only"
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "unit" / "analysis")]

import fleet  # noqa: E402 WHY: found by the path above
import made  # noqa: E402 WHY: likewise


@pytest.fixture(scope="module", params=["folder", "packed"])
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made.write(tmp_path_factory.mktemp("fleet"), fleet.fleet())
    if request.param == "folder":
        return folder
    packed = folder / "fleet.parquet"
    subprocess.run([*trueup(), "pack", str(folder), "-o", str(packed)], check=True)
    return packed


def trueup() -> list[str]:
    return [str(Path(sys.executable).with_name("trueup"))]


def test_health_of_600_nodes(benchmark: object, records: Path) -> None:
    def judge() -> int:
        done = subprocess.run(
            [*trueup(), "health", str(records)], capture_output=True, check=False, text=True
        )
        assert "Health of 600 nodes" in done.stdout
        return done.returncode

    assert benchmark.pedantic(judge, rounds=3, warmup_rounds=1) == 1  # type: ignore[attr-defined]
