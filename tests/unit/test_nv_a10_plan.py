"""The role nv_a10, planned: which sessions, how ffmpeg comes there, and what is skipped."""

from __future__ import annotations

from typing import Any

import pytest
from trueup_controller.plans.nv_a10 import asks, plan
from trueup_node.benchmarks.nv_a10.case import OPTIONS
from trueup_node.options import MODULE
from trueup_node.plan import PlanInputs, Skipped

DEFAULTS = {one.name: one.default for one in OPTIONS if one.of != MODULE}
GPU = {"name": "NVIDIA A10-8Q", "pci": "0002:00:00.0", "memory_bytes": 8 * 1024**3}
LINUX = {"gpus": [GPU], "privilege": "root", "system": "linux"}
WINDOWS = {"gpus": [GPU], "privilege": "administrator", "system": "windows"}
SHA256 = "0123456789abcdef" * 4
ZIP = {
    "ffmpeg_url": "https://mirror.example/ffmpeg-7.1-full_build.zip",
    "ffmpeg_sha256": SHA256.upper(),
    "ffmpeg": r"ffmpeg-7.1-full_build\bin\ffmpeg.exe",
}
THERE = {"programs": {"ffmpeg": "/usr/bin/ffmpeg"}}
ABSENT = {"programs": {"ffmpeg": None}}


def asked(node: dict[str, Any], found: dict[str, Any] | None = None, **options: Any) -> PlanInputs:
    return PlanInputs(options={**DEFAULTS, **options}, node=node, found=found or {})


def test_a_linux_node_with_a_gpu() -> None:
    one = asked(LINUX, THERE)
    assert asks(one) == {"program_facts": {"programs": ["ffmpeg"]}}
    made = plan(one)
    assert (made.skipped, made.refused, made.values["install"]) == ([], [], "")
    assert made.cases is not None
    assert [(case["kind"], case.get("sessions")) for case in made.cases] == [
        *(("encode", 1), ("encode", 2), ("encode", 5), ("encode", 10), ("copy", None)),
    ]
    assert {case["encoder"] for case in made.cases} == {"h264_nvenc"}
    assert set(made.cases[0]) == {
        *("ffmpeg", "kind", "sessions", "encoder", "width", "height", "chroma"),
        *("frames", "frames_per_second", "megabits_per_second", "timeout_seconds"),
    }


def test_a_node_without_a_gpu_measures_its_cpu_and_copies_nothing() -> None:
    made = plan(asked({**LINUX, "gpus": []}, THERE, sessions=[3]))
    assert made.cases is not None
    assert [(case["kind"], case["encoder"]) for case in made.cases] == [("encode", "libx264")]
    # Of a size with GPUs, one that shows none is broken.
    broken = {**LINUX, "gpus": [], "catalog": {"gpus": 1}}
    [skipped] = plan(asked(broken, THERE)).skipped
    assert skipped.why.startswith("the node shows no GPU for h264_nvenc")


def test_copies_can_be_left_out() -> None:
    made = plan(asked(LINUX, THERE, copies=False, sessions=[1]))
    assert made.cases is not None
    assert [case["kind"] for case in made.cases] == ["encode"]


@pytest.mark.parametrize(
    ("node", "options", "install", "why"),
    [
        ({}, {}, "package", ""),
        ({"privilege": "sudo"}, {}, "package", ""),
        ({"privilege": None}, {}, "package", "installing it needs root or sudo"),
        ({}, {"ffmpeg": "/opt/ffmpeg"}, "package", "there is no /opt/ffmpeg on this node"),
    ],
)
def test_ffmpeg_is_installed_where_it_is_missing(
    node: dict[str, Any], options: dict[str, Any], install: str, why: str
) -> None:
    made = plan(asked({**LINUX, **node}, ABSENT, **options))
    assert made.values["install"] == install
    assert [why in one.why for one in made.skipped] == ([True] if why else [])


def test_a_zip_for_a_windows_host() -> None:
    folder = r"C:\Program Files\trueup\ffmpeg\0123456789ab"
    program = rf"{folder}\ffmpeg-7.1-full_build\bin\ffmpeg.exe"
    one = asked(WINDOWS, {"files": {program: None}}, **ZIP)
    assert asks(one) == {"windows_facts": {"files": [program]}}
    made = plan(one)
    assert (made.skipped, made.refused, made.values["install"]) == ([], [], "windows")
    kept = r"C:\Program Files\trueup-ffmpeg-0123456789ab.zip"
    assert made.values["download"] == {
        "url": ZIP["ffmpeg_url"],
        "dest": kept,
        "checksum": SHA256,
        "checksum_algorithm": "sha256",
        "force": False,
        "url_timeout": 600,
    }
    assert made.values["unzip"] == {
        "src": kept,
        "dest": folder,
        "creates": program,
    }
    assert made.cases is not None
    assert {case["ffmpeg"] for case in made.cases} == {program}
    there = plan(asked(WINDOWS, {"files": {program: {"size": 1}}}, **ZIP))
    assert (there.skipped, there.values["install"]) == ([], "")


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"ffmpeg_sha256": ""}, "nv_a10_ffmpeg_sha256 is no SHA-256"),
        ({"ffmpeg_sha256": SHA256[:-1]}, "nv_a10_ffmpeg_sha256 is no SHA-256"),
    ],
)
def test_a_zip_that_cannot_be_checked_is_refused(options: dict[str, Any], refusal: str) -> None:
    [sentence] = plan(asked(WINDOWS, **{**ZIP, **options})).refused
    assert sentence.startswith(refusal)


def test_an_ffmpeg_that_a_windows_host_has() -> None:
    path = r"D:\tools\ffmpeg.exe"
    # A whole path: the zip is not taken.
    one = asked(WINDOWS, {"files": {path: {"size": 1, "is_dir": False}}}, ffmpeg=path)
    assert asks(one) == {"windows_facts": {"files": [path]}}
    made = plan(one)
    assert (made.skipped, made.values["install"]) == ([], "")
    absent = plan(asked(WINDOWS, {"files": {path: None}}, ffmpeg=path))
    assert absent.skipped == [Skipped("nv_a10", rf"there is no {path} on this host")]
    # Of a name alone the host's PATH decides, when it runs.
    named = plan(asked(WINDOWS, ffmpeg_url="", ffmpeg="ffmpeg.exe"))
    assert (named.skipped, named.values["install"]) == ([], "")


@pytest.mark.parametrize(
    ("options", "program"),
    [
        ({}, r"04861d3339c5\ffmpeg-7.1.1-essentials_build\bin\ffmpeg.exe"),
        (
            {"ffmpeg_url": "https://mirror.example/a/ffmpeg-n8.ZIP", "ffmpeg_sha256": SHA256},
            r"0123456789ab\ffmpeg-n8\bin\ffmpeg.exe",
        ),
    ],
)
def test_a_windows_host_gets_ffmpeg_without_a_variable(
    options: dict[str, Any], program: str
) -> None:
    made = plan(asked(WINDOWS, **options))
    assert (made.skipped, made.refused, made.values["install"]) == ([], [], "windows")
    whole = rf"C:\Program Files\trueup\ffmpeg\{program}"
    assert made.values["unzip"]["creates"] == whole
    assert made.values["download"]["checksum"][:12] == program[:12]
    assert made.cases is not None
    assert {case["ffmpeg"] for case in made.cases} == {whole}
