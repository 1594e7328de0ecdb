"""The role nv_a10, planned: how ffmpeg comes to the node, and a case for each count of sessions."""

from __future__ import annotations

import ntpath
import re
from typing import Any

from trueup_node.benchmarks.nv_a10.case import OPTIONS
from trueup_node.options import for_module
from trueup_node.plan import Plan, PlanInputs, Skipped, sentences

# It is on every Windows, and users of a session host cannot write there.
_DOWNLOADS = r"C:\Program Files"
_FOLDER = r"C:\Program Files\trueup\ffmpeg"
# The case's bit rate of a session, Mb/s: no role sets it.
_BIT_RATE = next(option.default for option in OPTIONS if option.name == "megabits_per_second")


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node: whether ffmpeg is there already."""
    program = _program(inputs)
    if not _windows(inputs):
        return {"program_facts": {"programs": [program]}}
    return {"windows_facts": {"files": [program]}} if "\\" in program else {}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each number of sessions, and one of copies where there is a GPU.

    ``install`` is package, windows or empty; on Windows ``download`` and ``unzip`` are the
    arguments of win_get_url and win_unzip.
    """
    options = inputs.options
    url, sha256, folder = _zip(inputs), options["ffmpeg_sha256"].lower(), _folder(inputs)
    refused = sentences(
        {
            "nv_a10_ffmpeg_sha256 is no SHA-256: give the zip's 64 hexadecimal digits.": bool(url)
            and not re.fullmatch(r"[0-9a-f]{64}", sha256),
        }
    )
    gpus = inputs.node.get("gpus") or []
    of_size = (inputs.node.get("catalog") or {}).get("gpus")
    if not gpus and of_size and _windows(inputs):
        # Windows shows none before its driver is there, which this run may install: where the role
        # windows_gpu fails, nothing is measured.
        gpus = [{}] * int(of_size)
    # A size with GPUs of which none is seen is broken: its CPU is not measured instead.
    encoder = "h264_nvenc" if gpus or of_size else "libx264"
    lacking = _lacking(inputs, gpus, encoder)
    program = _program(inputs)
    archive = f"{_DOWNLOADS}\\trueup-ffmpeg-{sha256[:12]}.zip"
    module_options = {
        **for_module(OPTIONS, options),
        "encoder": encoder,
        "ffmpeg": program,
        "megabits_per_second": _BIT_RATE,
    }
    cases: list[dict[str, Any]] = [
        {**module_options, "kind": "encode", "sessions": number} for number in options["sessions"]
    ]
    skipped = [Skipped("nv_a10", lacking)] if lacking else []
    if options["copies"] and gpus:
        cases.append({**module_options, "kind": "copy"})
    return Plan(
        values={
            "install": _install(inputs),
            "download": {
                "url": url,
                "dest": archive,
                "checksum": sha256,
                # Its default is SHA-1; with force it would download again on every run.
                "checksum_algorithm": "sha256",
                "force": False,
                "url_timeout": 600,
            },
            "unzip": {"src": archive, "dest": folder, "creates": program},
        },
        skipped=skipped,
        refused=refused,
        cases=cases,
    )


def _windows(inputs: PlanInputs) -> bool:
    return inputs.node.get("system") == "windows"


def _folder(inputs: PlanInputs) -> str:
    """Where the zip is unpacked: another folder for another zip."""
    return f"{_FOLDER}\\{inputs.options['ffmpeg_sha256'].lower()[:12]}"


def _zip(inputs: PlanInputs) -> str:
    """Address of the zip with ffmpeg; empty where the node needs none."""
    absolute = re.match(r"[A-Za-z]:|[\\/]", inputs.options["ffmpeg"])
    return inputs.options["ffmpeg_url"] if _windows(inputs) and not absolute else ""


def _program(inputs: PlanInputs) -> str:
    """The program that is run: in the zip's folder where there is a zip."""
    url, program = _zip(inputs), str(inputs.options["ffmpeg"])
    if not url:
        return program
    if program == "ffmpeg":
        stem = url.rpartition("/")[2]
        stem = stem[:-4] if stem.lower().endswith(".zip") else stem
        program = ntpath.join(stem, "bin", "ffmpeg.exe")
    return ntpath.join(_folder(inputs), program)


def _has_ffmpeg(inputs: PlanInputs) -> bool:
    program = _program(inputs)
    if _windows(inputs):
        # A name without a folder is looked for in the host's PATH when it is run.
        return "\\" not in program or bool(inputs.found.get("files", {}).get(program))
    return bool(inputs.found["programs"].get(program))


def _install(inputs: PlanInputs) -> str:
    if _windows(inputs):
        return "windows" if _zip(inputs) and not _has_ffmpeg(inputs) else ""
    return "" if _has_ffmpeg(inputs) else "package"


def _lacking(inputs: PlanInputs, gpus: list[Any], encoder: str) -> str:
    """Why the node cannot be measured; empty where it can."""
    if not gpus and encoder != "libx264":
        return f"the node shows no GPU for {encoder}, which its size has: redeploy the VM"
    program = inputs.options["ffmpeg"]
    if _windows(inputs):
        there = bool(_zip(inputs)) or _has_ffmpeg(inputs)
        return "" if there else f"there is no {program} on this host"
    if _has_ffmpeg(inputs):
        return ""
    if program != "ffmpeg":
        return f"there is no {program} on this node (nv_a10_ffmpeg)"
    root = inputs.node.get("privilege") in ("root", "sudo")
    return "" if root else "no ffmpeg on this node, and installing it needs root or sudo"
