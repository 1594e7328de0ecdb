"""Azure's driver manifest: which driver is chosen, what is refused. The manifest is synthetic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trueup.errors import BadInput, ParseError
from trueup.node.grid_driver import GridDriver, choose, parse_manifest, refusals

MANIFEST = Path(__file__).parent.parent / "data" / "grid" / "resources.json"
TEXT = MANIFEST.read_text()


def chosen(distribution: str, version: str, branch: str, number: str, **more: bool) -> GridDriver:
    return choose(
        parse_manifest(TEXT),
        branch=branch,
        version=number,
        distribution=distribution,
        distribution_version=version,
        **more,
    )


def test_linux_grid_drivers_alone_are_read() -> None:
    drivers = parse_manifest(TEXT)
    assert [driver.branch for driver in drivers] == ["18.6", "20.0", "16.5", "11.3", "18.6", "18.5"]
    assert drivers[0] == GridDriver(
        "Ubuntu",
        22,
        "570.211.01",
        "18.6",
        "https://example.invalid/570.211.01.run",
        "Ubuntu 20.04 LTS, 22.04 LTS, 24.04 LTS, Red Hat Enterprise Linux 8.6, 8.8, 8.9",
    )


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        ("ubuntu", "22.04"),
        ("ubuntu", "24.04"),
        ("almalinux", "8.10"),
        ("rocky", "8.9"),
        ("rhel", "8"),
    ],
)
def test_systems_that_the_manifest_is_for(distribution: str, version: str) -> None:
    driver = chosen(distribution, version, "18.6", "570.211.01")
    assert driver.url == "https://example.invalid/570.211.01.run"


def test_without_a_direct_link_the_other_is_used() -> None:
    assert chosen("ubuntu", "22.04", "20.0", "595.58.03").url.endswith("/595.58.03.run")


def test_an_older_systems_entry_needs_to_name_this_one() -> None:
    with pytest.raises(BadInput, match=r"GRID 18\.6 is not for almalinux 9\.6 by the driver"):
        chosen("almalinux", "9.6", "18.6", "570.211.01")
    allowed = chosen("almalinux", "9.6", "18.6", "570.211.01", unlisted_allowed=True)
    assert allowed.os_major == 8
    # 18.5 stands in the entry of Ubuntu 20 only, which names 22.04 and not 24.04.
    assert chosen("ubuntu", "22.04", "18.5", "570.195.03").os_major == 20
    with pytest.raises(BadInput, match=r"not for ubuntu 24\.04"):
        chosen("ubuntu", "24.04", "18.5", "570.195.03")


@pytest.mark.parametrize(
    ("distribution", "version", "branch", "message"),
    [
        (
            "ubuntu",
            "22.04",
            "19.0",
            "no GRID 19.0 for ubuntu 22.04 (it has 18.6, 20.0, 16.5, 11.3, 18.5)",
        ),
        ("debian", "12", "18.6", "no GRID 18.6 for debian 12 (it has none)"),
        ("ubuntu", "", "18.6", "no GRID 18.6 for ubuntu  (it has none)"),
        ("rhel", "7.9", "18.6", "(it has none)"),
    ],
)
def test_what_is_not_offered(distribution: str, version: str, branch: str, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        chosen(distribution, version, branch, "570.211.01")


def test_a_manifest_that_disagrees_with_the_pin() -> None:
    with pytest.raises(
        BadInput, match=r"is driver 570\.211\.01 by the manifest, and .* is 570\.1:"
    ):
        chosen("ubuntu", "22.04", "18.6", "570.1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not as expected: JSONDecodeError"),
        ("[]", "not as expected: TypeError"),
        ('{"OS": [{"Name": "Linux"}]}', "not as expected: KeyError 'Version'"),
        ('{"OS": []}', "no GRID driver for Linux"),
        (TEXT.replace('"vGPUVersion"', '"vgpu"'), "not as expected: KeyError 'vGPUVersion'"),
        (TEXT.replace('"22.x"', '"jammy"'), "not as expected: ValueError"),
        (TEXT[:-100], "not as expected: JSONDecodeError"),
    ],
)
def test_a_manifest_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_manifest(text)


@pytest.mark.parametrize(
    ("branch", "kernel", "cuda_needed", "said"),
    [
        ("18.6", "6.14.0-1012-azure", True, []),
        ("20.0", "5.15.0-1089-azure", True, []),
        ("17.55", "6.8.0-1030-azure", True, []),
        ("17.5", "6.8.0-1030-azure", False, []),
        ("17.5", "6.8.0-1030-azure", True, ["GRID 17.5 breaks CUDA on the A10"]),
        (
            "17.55",
            "6.11.0-1018-azure",
            True,
            ["GRID 17.55 does not work on kernel 6.11.0-1018-azure"],
        ),
        ("16.5", "6.8.0-1030-azure", True, ["GRID 16.5 does not know the NV A10 v5"]),
        (
            "16.5",
            "6.14.0-1012-azure",
            True,
            ["GRID 16.5 does not know the NV A10 v5", "GRID 16.5 does not work on kernel"],
        ),
        ("newest", "6.8.0", True, ["gpu_grid_branch is newest: give a vGPU release"]),
    ],
)
def test_the_guards(branch: str, kernel: str, cuda_needed: bool, said: list[str]) -> None:
    found = refusals(branch, kernel=kernel, cuda_needed=cuda_needed)
    assert len(found) == len(said)
    assert [
        text for text, start in zip(found, said, strict=True) if not text.startswith(start)
    ] == []
