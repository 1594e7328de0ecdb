"""The machine that runs molecule got what the main job needs, and only in the scenario's folder."""

from __future__ import annotations

from pathlib import Path

from nodes import devito
from testinfra.host import Host

ROOT = Path(__file__).parents[3]
PREFIX = ROOT / ".cache/molecule-local"


def test_devito_imports_at_the_pinned_version(host: Host) -> None:
    found, pinned = devito(host, PREFIX)
    assert found == pinned


def test_the_driver_and_the_kernel_can_be_executed(host: Host) -> None:
    assert host.run(f"test -x {PREFIX}/devito/devito_driver.py").rc == 0
    assert host.run(f"test -x {PREFIX}/stream/stream_kernel-streaming").rc == 0
