"""Which system packages the controller needs, and what is done about those that are missing."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup_controller.lab import default_set, packages, wanted

BY_SET = {"run": ["gcc", "make"], "lab": ["podman", "netavark"], "test": ["chromium"]}
NOT_OFFERED = {
    "Ubuntu-24.04": {"chromium": "only as a snap"},
    "Ubuntu-22.04": {"chromium": "only as a snap", "netavark": "CNI instead"},
}


def facts(name: str, version: str, family: str = "Debian") -> dict[str, Any]:
    return {
        "distribution": name,
        "distribution_version": version,
        "distribution_major_version": version.split(".", maxsplit=1)[0],
        "os_family": family,
    }


@parametrized(("system", "chosen", "expected", "left_out"))
def test_a_set_includes_those_before_it(
    system: dict[str, Any], chosen: str, expected: list[str], left_out: list[str]
) -> None:
    lab = wanted(system, BY_SET, NOT_OFFERED, chosen)
    assert (lab["apt"], lab["wanted"], lab["left_out"]) == (True, expected, left_out)
    assert lab["query"][:2] == ["dpkg-query", "--show"]
    assert lab["query"][3:] == expected


def test_an_inventory_with_a_lab_needs_its_packages() -> None:
    assert (default_set([]), default_set(["n1"])) == ("run", "lab")


LAB = wanted(facts("Debian", "12"), BY_SET, {}, "lab")
SHOWN = ["gcc ii ", "make hi ", "podman rc ", "netavark un "]


@parametrized(("root", "sudo", "check_mode", "install", "report"))
def test_what_is_missing_is_installed_or_named(
    root: bool, sudo: bool, check_mode: bool, install: bool, report: str
) -> None:
    found = packages(LAB, SHOWN, {"root": root, "sudo": sudo}, check_mode)
    assert (found["missing"], found["install"]) == (["netavark", "podman"], install)
    assert [text[: len(report)] for text in found["report"]] == [report]


def test_nothing_is_missing() -> None:
    shown = [f"{name} ii " for name in LAB["wanted"]]
    assert packages(LAB, shown, {"root": True, "sudo": False}, False) == {
        "missing": [],
        "install": False,
        "report": ["All 4 system packages are installed."],
    }
