"""The role windows_gpu, planned. Keys, names, types and data of the registry are typed in from
windows_a10.md, section 2."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from role_plans import ROOT, asked, node
from role_plans import windows_node as host
from trueup_controller.desktops.windows_gpu import address, asks, ended, pinned, plan, system_of
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


def key(**values: Any) -> dict[str, Any]:
    kinds = {int: "REG_DWORD", str: "REG_SZ"}
    typed = {name: {"type": kinds[type(v)], "data": v} for name, v in values.items()}
    return {"values": typed, "keys": []}


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


def dword(path: str, name: str, data: int) -> tuple[Any, ...]:
    return (path, name, "dword", data, "present")


AVC = [
    dword(TS, "bEnumerateHWBeforeSW", 1),
    dword(TS, "AVCHardwareEncodePreferred", 1),
]
SIXTY = dword(WS, "DWMFRAMEINTERVAL", 15)
NOTED = (NOTES, "windows_gpu_changed_at", "string", NOW, "present")


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({}, [*AVC, dword(TS, "AVC444ModePreferred", 1), dword(TS, "ImageQuality", 2), SIXTY]),
        ({"video": "avc420"}, [*AVC, SIXTY]),
        ({"video": "hevc"}, [*AVC, dword(TS, "HEVCHardwareEncodePreferred", 1), SIXTY]),
    ],
)
def test_the_policies_of_a_fresh_host(options: dict[str, Any], due: list[Any]) -> None:
    assert items(values(found(), **options)["registry"]) == [*due, NOTED]


def test_a_host_of_remoteapp_has_its_graphics_too() -> None:
    groups = [{"name": "apps", "type": "RemoteApp"}]
    question = asked("windows_gpu", host(), found(), video="avc420")
    planned = plan(replace(question, variables={"avd_session_host_groups": groups}))
    remoteapp = dword(TS, "fEnableRemoteFXAdvancedRemoteApp", 1)
    assert items(planned.values["registry"]) == [*AVC, remoteapp, SIXTY, NOTED]


CONVERGED = {
    TS: key(
        bEnumerateHWBeforeSW=1, AVCHardwareEncodePreferred=1, AVC444ModePreferred=1, ImageQuality=2
    ),
    WS: key(DWMFRAMEINTERVAL=15),
    NOTES: key(windows_gpu_changed_at="2026-11-22T01:00:00"),
}


def test_a_converged_host_has_nothing_due() -> None:
    result = values(found("574.24", registry=CONVERGED))
    assert (result["registry"], result["changes"], result["driver"]["missing"]) == (
        [],
        False,
        False,
    )
    assert result["expected"] == {
        "driver_version": "574.24",
        "gpus": 1,
        "gpu_memory_gib": 8.0,
        "booted_after": "2026-11-22T01:00:00",
        "changes": False,
    }


@pytest.mark.parametrize(
    ("there", "due"),
    [
        ({"AVC444ModePreferred": 0}, [dword(TS, "AVC444ModePreferred", 1)]),
        ({"avc444modepreferred": 1}, []),
        ({"ImageQuality": "2"}, [dword(TS, "ImageQuality", 2)]),
        # Somebody else's policies stay; ours that are not declared go.
        ({"MaxDisconnectionTime": 60000}, []),
        ({"fEnableWddmDriver": 0}, [(TS, "fEnableWddmDriver", None, None, "absent")]),
        (
            {"HEVCHardwareEncodePreferred": 1},
            [(TS, "HEVCHardwareEncodePreferred", None, None, "absent")],
        ),
    ],
)
def test_drift(there: dict[str, Any], due: list[Any]) -> None:
    policies = {name: value["data"] for name, value in CONVERGED[TS]["values"].items()}
    if "avc444modepreferred" in there:
        del policies["AVC444ModePreferred"]
    result = values(found("574.24", registry={**CONVERGED, TS: key(**{**policies, **there})}))
    assert items(result["registry"]) == [*due, *([NOTED] if due else [])]
    assert result["changes"] is bool(due)
    assert result["expected"]["booted_after"] == (NOW if due else "2026-11-22T01:00:00")


@pytest.mark.parametrize(
    ("size", "gpus", "gib"),
    [
        ("Standard_NV6ads_A10_v5", 1, 4),
        ("Standard_NV12ads_A10_v5", 1, 8),
        ("Standard_NV18ads_A10_v5", 1, 12),
        ("Standard_NV36ads_A10_v5", 1, 24),
        ("Standard_NV36adms_A10_v5", 1, 24),
        ("Standard_NV72ads_A10_v5", 2, 24),
    ],
)
def test_the_share_of_each_size(size: str, gpus: int, gib: float) -> None:
    expected = values(found(), host(size))["expected"]
    assert (expected["gpus"], expected["gpu_memory_gib"]) == (gpus, gib)


def test_a_size_that_the_catalog_lacks_is_not_judged() -> None:
    expected = values(found(), host(catalog=None, gpu_count_expected=None))["expected"]
    assert (expected["gpus"], expected["gpu_memory_gib"]) == (0, None)


@pytest.mark.parametrize(
    ("facts", "options", "kept", "missing"),
    [
        (found(), {}, "", True),
        (found("574.24"), {}, "574.24", False),
        (found("573.96"), {}, "573.96", False),
        (found("595.97"), {}, "595.97", False),
        (found("573.96"), {"working_driver": "replace"}, "", True),
        (found("538.46"), {"working_driver": "replace"}, "", True),
        # Installed and not at work: the check says why, and nothing is installed again.
        (found(None, "574.24"), {}, "", False),
        (found(None, "573.96"), {}, "", True),
    ],
)
def test_a_driver_that_works_is_kept(
    facts: dict[str, Any], options: dict[str, Any], kept: str, missing: bool
) -> None:
    result = values(facts, **options)
    assert (result["kept"], result["driver"]["missing"]) == (kept, missing)
    assert result["expected"]["driver_version"] == (kept or "574.24")


def test_the_driver_of_a_fresh_host() -> None:
    driver = values(found())["driver"]
    assert (driver["version"], driver["branch"], driver["url"]) == ("574.24", "18.8", URL_574_24)
    file = r"C:\Program Files\trueup\574.24.exe"
    assert (driver["file"], driver["installer"]) == (file, [file, "-s", "-noreboot"])
    assert driver["pin"] == str(Path.home() / ".trueup-grid-574.24-windows.sha256")


@pytest.mark.parametrize(
    ("says", "system"),
    [
        ("Windows 11 Enterprise multi-session 25H2", "Windows 11 25H2"),
        ("Microsoft Windows 11 Enterprise multi-session 24H2", "Windows 11 24H2"),
        ("Windows 10 Enterprise 22H2", "Windows 10 22H2"),
        ("Windows Server 2022 Datacenter Azure Edition 21H2", "Windows Server 2022"),
        ("Windows Server 2025 Datacenter", "Windows Server 2025"),
        ("Windows 7", "Windows 7"),
        (None, ""),
    ],
)
def test_a_system_in_the_manifests_words(says: str | None, system: str) -> None:
    assert system_of({"os": says}) == system


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


@pytest.mark.parametrize(
    ("on", "facts", "options", "said"),
    [
        (node("nv_a10_v5"), found(), {}, ["Standard_NV6ads_A10_v5 is of the family nv_a10_v5 and"]),
        (host(family="ndv4"), found(), {}, ["Standard_NV12ads_A10_v5 is of the family ndv4"]),
        (host(), found(on_pci=0), {}, ["this host shows no NVIDIA GPU"]),
        (host(), found(None, "538.46"), {}, ["driver 538.46 is installed here, of a GRID release"]),
        (host(), found("553.62"), {}, ["driver 553.62 is installed here"]),
        (
            host(),
            found(),
            {"url": "https://mirror/x.exe"},
            ["no sha256 is known for driver 574.24"],
        ),
        (host(os=W24H2), found(), {}, ["GRID 18.8 is not for Windows 11 24H2 by Microsoft's page"]),
        (host(os=W24H2), found("573.96"), {}, []),
        (host(os=W24H2), found(), {"unlisted_os_allowed": True}, []),
        (
            host(),
            found(),
            {"branch": "18.6"},
            ["driver 574.24 is GRID 18.8 by Microsoft's page, and windows_gpu_branch is 18.6"],
        ),
    ],
)
def test_what_cannot_work_is_refused(
    on: Any, facts: dict[str, Any], options: dict[str, Any], said: list[str]
) -> None:
    refused = plan(asked("windows_gpu", on, facts, **options)).refused
    starts = [f"windows_gpu: {one}" for one in said]
    assert [one[: len(start)] for one, start in zip(refused, starts, strict=True)] == starts


@pytest.mark.parametrize(
    ("video", "groups", "count"),
    [
        ("hevc", [{"name": "nx", "type": "Desktop"}, {"name": "apps", "type": "RemoteApp"}], 1),
        ("avc444", [{"name": "apps", "type": "RemoteApp"}], 0),
        ("hevc", [{"name": "nx", "type": "Desktop"}], 0),
        ("hevc", None, 0),
    ],
)
def test_a_remoteapp_group_takes_no_hevc(video: str, groups: Any, count: int) -> None:
    question = asked("windows_gpu", host(), found(), video=video)
    variables = {"avd_session_host_groups": groups}
    refused = plan(replace(question, variables=variables)).refused
    assert [one.split(":")[1] for one in refused] == [" RemoteApp takes no HEVC"] * count


def test_older_releases_are_refused_by_the_rule_of_gpu_grid() -> None:
    options = {"branch": "17.5", "version": "553.62"}
    (refused,) = plan(asked("windows_gpu", host(), found(), **options)).refused
    assert refused.startswith("GRID 17.5 with driver 553.62 does not work on NV A10 v5")
    assert refused.endswith("leave windows_gpu_branch and windows_gpu_version at their defaults.")


def test_what_the_host_is_asked() -> None:
    assert asks(asked("windows_gpu", host())) == {
        "windows_gpu_facts": {"settle_seconds": 0},
        "windows_facts": {"registry": [TS, WS, NOTES]},
    }


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, ""),
        (1, ""),
        (3010, ""),
        (100, "status 100: it found no GPU that it is for, or failed"),
        (240, "status 240: it did not end in time"),
        (840, "status 840: it did not end in time"),
        (-1, "status -1: see"),
        (2, "status 2: see"),
    ],
)
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
