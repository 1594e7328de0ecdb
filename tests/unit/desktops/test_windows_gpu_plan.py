"""The role windows_gpu, planned. Keys, names, types and data of the registry are typed in from
windows_a10.md, section 2."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from role_plans import ROOT, asked
from role_plans import windows_node as host
from trueup_controller.desktops.windows_gpu import address, ended, pinned, plan
from trueup_node.errors import BadInput

TS = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows NT\Terminal Services"
WS = r"HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations"
NOTES = r"HKLM:\SOFTWARE\trueup"
MANIFEST = ROOT / "tests" / "data" / "grid" / "resources.json"
OF_MANIFEST = {
    "manifest": str(MANIFEST),
    "manifest_sha256": hashlib.sha256(MANIFEST.read_bytes()).hexdigest(),
}
URL_574_24 = (
    "https://download.microsoft.com/download/e9a86343-1981-4ac8-883a-49bf5e2c4d18/"
    "574.24_grid_win10_win11_server2022_dch_server2025_64bit_international_azure_swl.exe"
)
NOW = "2026-11-23T07:00:00"


def found(
    works: str | None = None,
    installed: str | None = None,
    registry: dict[str, Any] | None = None,
    on_pci: int = 1,
) -> dict[str, Any]:
    """What windows_gpu_facts and windows_facts found out; ``works`` is what nvidia-smi answers."""
    state = {
        "user_space": works,
        "gpus": 1 if works else None,
        "kernel_module": installed or works,
        "gpus_on_pci": on_pci,
        "asked_at": NOW,
    }
    return {"trueup_gpu": state, "registry": {TS: None, WS: None, NOTES: None, **(registry or {})}}


def values(
    facts: dict[str, Any], on: dict[str, Any] | None = None, /, **options: Any
) -> dict[str, Any]:
    planned = plan(asked("windows_gpu", on or host(), facts, **options))
    assert planned.refused == []
    return planned.as_result()


def items(due: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (one["path"], one["name"], one.get("type"), one.get("data"), one["state"]) for one in due
    ]


W24H2 = "Windows 11 Enterprise multi-session 24H2"


def test_what_the_page_does_not_name_is_the_manifests() -> None:
    driver = values(found(), host(os=W24H2), branch="18.6", version="573.96", **OF_MANIFEST)
    assert driver["driver"]["manifest"]["url"] == ""
    of_azure = values(found(), host(os=W24H2), branch="18.6", version="573.96")["driver"][
        "manifest"
    ]
    assert of_azure["url"].startswith(
        "https://raw.githubusercontent.com/Azure/azhpc-extensions/12c"
    )
    assert of_azure["path"] == str(Path.home() / ".trueup-grid-c88598e2b992")
    assert address(driver["driver"]) == "https://example.invalid/573.96.exe"
    twenty = values(found(), host(os=W24H2), branch="20.0", version="595.97", **OF_MANIFEST)
    assert address(twenty["driver"]) == "https://example.invalid/595.97.exe"
    given = values(found(), version="573.96", branch="18.6", url="https://download.microsoft.com/x")
    assert address(given["driver"]) == "https://download.microsoft.com/x"


@pytest.mark.parametrize(
    ("on", "options", "said"),
    [
        (
            host(),
            {"branch": "18.6", "version": "573.96"},
            r"no GRID 18\.6 for Windows 11 25H2 \(it has none\)",
        ),
        (
            host(os=W24H2),
            {"branch": "19.0", "version": "580.1"},
            r"no GRID 19\.0 for Windows 11 24H2 \(it has 18\.6 \(573\.96\), 20\.0 \(595\.97\)\)",
        ),
        (
            host(os=W24H2),
            {"branch": "18.6", "version": "573.97"},
            r"is driver 573\.96 by the manifest, and windows_gpu_version is 573\.97",
        ),
        (
            host(os=W24H2),
            {"branch": "18.6", "version": "573.96", "manifest_sha256": "0" * 64},
            "sha256 .*, expected 0000",
        ),
    ],
)
def test_a_manifest_that_does_not_say_it(on: Any, options: dict[str, Any], said: str) -> None:
    driver = values(found(), on, **{**OF_MANIFEST, **options})["driver"]
    with pytest.raises(BadInput, match=said):
        address(driver)


@parametrized(("status", "said"))
def test_how_the_installer_may_end(status: int, said: str) -> None:
    why = ended(status, {"version": "574.24"})
    assert why.startswith(f"NVIDIA's installer of driver 574.24 ended with {said}" if said else "")
    assert bool(why) is bool(said)


def test_the_sha256_of_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    driver = values(found())["driver"]
    assert pinned(driver, URL_574_24) == ("", True)
    # What the site gives is taken at its word, whatever the address.
    given = values(found(), checksums={"574.24": "A" * 64}, url="https://mirror/x.exe")["driver"]
    assert pinned(given, "https://mirror/x.exe") == ("a" * 64, False)
    assert pinned(driver, "https://mirror/x.exe") == ("", False)
    pin = tmp_path / ".trueup-grid-574.24-windows.sha256"
    pin.write_text(f"{'b' * 64}\n")
    assert pinned(driver, URL_574_24) == ("b" * 64, False)
    pin.write_text("")
    with pytest.raises(BadInput, match="holds no sha256"):
        pinned(driver, URL_574_24)
