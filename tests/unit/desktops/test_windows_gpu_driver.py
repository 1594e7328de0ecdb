"""The action windows_gpu_driver on the controller: the manifest, the download that is taken once,
and what it tells when there is no way to either."""

from __future__ import annotations

import hashlib
import io
import threading
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from action.desktops import windows_gpu_driver
from role_plans import ROOT
from simulated_windows import grid
from trueup_node.errors import BadInput

MANIFEST = (ROOT / "tests" / "data" / "grid" / "resources.json").read_bytes()
AZURE = "https://raw.example/resources.json"


@pytest.fixture(name="requests")
def _requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked for, of a network that has the manifest and the driver."""
    asked: list[str] = []

    def answer(url: str, timeout: int) -> Any:
        asked.append(url)
        if url not in (AZURE, grid.URL):
            raise URLError("no way there")
        response: Any = io.BytesIO(MANIFEST if url == AZURE else grid.program())
        response.status, response.headers = 200, {}
        return response

    monkeypatch.setattr(windows_gpu_driver, "open_url", answer)
    return asked


def driver(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "branch": "18.6",
        "version": "573.96",
        "system": "Windows 11 24H2",
        "unlisted_allowed": False,
        "url": "",
        "sha256": "",
        "manifest": {
            "url": AZURE,
            "path": str(folder / "manifest"),
            "sha256": hashlib.sha256(MANIFEST).hexdigest(),
        },
        "taken": str(folder / "x-windows.exe"),
        "pin": str(folder / "x-windows.sha256"),
        **changes,
    }


def test_the_manifest_is_downloaded_once(tmp_path: Path, requests: list[str]) -> None:
    for _ in range(2):
        found = windows_gpu_driver._address(driver(tmp_path))
        assert found == "https://example.invalid/573.96.exe"
    assert requests == [AZURE]


def test_hosts_that_come_at_a_time_take_the_driver_once(
    tmp_path: Path, requests: list[str]
) -> None:
    found: list[str] = []
    hosts = [
        threading.Thread(
            target=lambda: found.append(windows_gpu_driver._sha256(driver(tmp_path), grid.URL))
        )
        for _ in range(8)
    ]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    assert found == [hashlib.sha256(grid.program()).hexdigest()] * 8
    assert requests == [grid.URL]
    assert (tmp_path / "x-windows.sha256").read_text() == f"{found[0]}\n"
    assert (tmp_path / "x-windows.exe").exists() is False


def test_no_way_to_an_address_is_told_with_what_to_do(tmp_path: Path, requests: list[str]) -> None:
    given = driver(tmp_path)
    given["manifest"]["url"] = "https://nowhere.example/x"
    with pytest.raises(BadInput, match=r"cannot download https://nowhere\.example/x \(.*no way"):
        windows_gpu_driver._address(given)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_driver_pins_nothing(tmp_path: Path, requests: list[str]) -> None:
    (tmp_path / "x-windows.exe").write_bytes(b"<html>Sorry</html>")
    with pytest.raises(BadInput, match="is no program for Windows"):
        windows_gpu_driver._sha256(driver(tmp_path), grid.URL)
    assert (tmp_path / "x-windows.sha256").exists() is False
    assert requests == []
