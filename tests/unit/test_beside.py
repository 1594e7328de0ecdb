"""What the controller does beside its tasks: what comes of it, and that it ends."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from trueup_controller import background
from trueup_node.run import orphan_guard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def controller() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child
        child.kill()


def began(folder: Path, controller: subprocess.Popen[bytes], work: Any) -> dict[str, Any]:
    return background.begin(str(folder), orphan_guard.of(controller.pid), work)


def test_what_came_of_it_is_returned(tmp_path: Path, controller: subprocess.Popen[bytes]) -> None:
    begun = began(tmp_path, controller, lambda: {"group": os.getpgid(0)})
    assert background.end(begun, 60) == {"group": begun["process"]["pid"]}
    assert orphan_guard.gone(begun["process"]) is True


def sleeping(folder: Path) -> dict[str, Any]:
    child = subprocess.Popen(["sleep", "600"])
    (folder / "child").write_text(str(child.pid))
    child.wait()
    return {}


def until(found: Any) -> bool:
    deadline = time.monotonic() + 60
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(found())


def test_it_ends_with_its_controller_and_all_that_it_started(
    tmp_path: Path, controller: subprocess.Popen[bytes]
) -> None:
    begun = began(tmp_path, controller, lambda: sleeping(tmp_path))
    assert until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    child = orphan_guard.of(int((tmp_path / "child").read_text()))
    controller.kill()
    assert until(lambda: orphan_guard.gone(child)) is True
    with pytest.raises(ConnectionError, match=r"ended without a result: it was killed"):
        background.end(begun, 60)


def test_it_is_killed_at_its_time_limit(
    tmp_path: Path, controller: subprocess.Popen[bytes]
) -> None:
    begun = began(tmp_path, controller, lambda: sleeping(tmp_path))
    with pytest.raises(TimeoutError, match=r"had not ended after 0.3 s"):
        background.end(begun, 0.3)
    assert until(lambda: orphan_guard.gone(begun["process"])) is True
