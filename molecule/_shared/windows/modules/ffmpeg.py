"""A simulated ffmpeg for Windows, and what stands for the fragment that measures.

Its frames are counted and not encoded: what it says of time follows from ``SPEEDS``. Its version is
"simulated", and so is the software in a record made of it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from ..arguments import Call
from ..errors import UnknownError
from ..host import Host
from .commands import PROGRAMS, MissingError, program, program_of, split
from .powershell import fragment

VERSION = "simulated"
# Frames a second of all sessions together, made up.
SPEEDS = {"h264_nvenc": 400.0, "hevc_nvenc": 350.0, "libx264": 40.0, "wrapped_avframe": 900.0}
_CODECS = {"h264_nvenc": "h264", "hevc_nvenc": "hevc", "libx264": "h264"}
_DRAWN = r"testsrc2=size=(\d+x\d+):rate=\d+,format=(yuv\d+p),loop=loop=-1:size=\d+:start=0"
# How many words each option takes: of other words nothing is known.
_WORDS = {
    **dict.fromkeys(("-nostdin", "-nostats", "-benchmark"), 0),
    **dict.fromkeys(
        ("-loglevel", "-progress", "-stats_period", "-f", "-i", "-map", "-frames:v"), 1
    ),
    **dict.fromkeys(("-c:v", "-preset", "-tune", "-zerolatency", "-delay", "-gpu", "-b:v"), 1),
    **dict.fromkeys(("-init_hw_device", "-filter_hw_device", "-vf"), 1),
}


@program("ffmpeg")
def ffmpeg(host: Host, argv: list[str]) -> tuple[int, str, str]:
    """Sessions of one drawn picture to nowhere, as benchmark nv_a10 asks for them.

    Raises:
        MissingError: it is not at its path.
        UnknownError: an option that is not simulated.
    """
    if host.file(argv[0]) is None:
        raise MissingError
    options, outputs = _parsed(argv[1:])
    drawn = re.fullmatch(_DRAWN, options["-i"])
    if drawn is None:
        raise UnknownError(f"picture {options['-i']} of ffmpeg")
    size, pixels = drawn.groups()
    encoders = [one.get("-c:v", "wrapped_avframe") for one in outputs]
    driven = host.gpu_driver and any(gpu.error_code == 0 for gpu in host.gpus)
    head = f"ffmpeg version {VERSION} Copyright (c) the FFmpeg developers\n"
    if ("_nvenc" in encoders[0] or "-init_hw_device" in options) and not driven:
        failed = f"[{encoders[0]} @ 0000000000000000] Cannot load nvcuda.dll\n"
        return 1, "", head + failed
    frames = int(outputs[0]["-frames:v"])
    seconds = frames * len(outputs) / SPEEDS[encoders[0]]
    rate = frames / seconds
    said = [head.rstrip("\n"), "Stream mapping:"]
    for number, encoder in enumerate(encoders):
        codec = _CODECS.get(encoder, encoder)
        name = "native" if encoder == codec else encoder
        said.append(f"  Stream #0:0 -> #{number}:0 (wrapped_avframe (native) -> {codec} ({name}))")
    for number in range(len(outputs)):
        said += [f"Output #{number}, null, to 'pipe:':", f"  Stream #{number}:0: Video: simulated,"]
        said[-1] += f" {pixels}(progressive), {size} [SAR 1:1 DAR 16:9]"
    for number in range(len(outputs)):
        said.append(
            f"  Output stream #{number}:0 (video): {frames} frames encoded; {frames} packets muxed"
            f" ({frames * 1000} bytes); "
        )
    said.append(f"bench: utime={seconds / 10:.3f}s stime={seconds / 20:.3f}s rtime={seconds:.3f}s")
    progress = {"frame": frames, "fps": f"{rate:.2f}", "dup_frames": 0, "drop_frames": 0}
    told = "".join(f"{name}={value}\n" for name, value in {**progress, "progress": "end"}.items())
    return 0, told.replace("\n", "\r\n"), "\r\n".join(said) + "\r\n"


def _parsed(words: list[str]) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The options up to the input, and those of each output."""
    before: dict[str, str] = {}
    outputs: list[dict[str, str]] = []
    current: dict[str, str] = before
    place = 0
    while place < len(words):
        word = words[place]
        if word == "-":
            outputs.append(current)
            current = {}
            place += 1
            continue
        if word not in _WORDS:
            raise UnknownError(f"option {word} of ffmpeg")
        count = _WORDS[word]
        current[word] = words[place + 1] if count else ""
        place += 1 + count
        if word == "-i":
            current = {}
    if "-i" not in before or not outputs or current:
        raise UnknownError("ffmpeg without an input and outputs to nowhere")
    return before, outputs


@fragment("controller/trueup_controller/desktops/measure.ps1")
def measure(call: Call, given: dict[str, Any]) -> dict[str, Any]:
    """Run a simulated program as the fragment runs one."""
    host = call.host
    unknown = set(given) - {
        *("Program", "Arguments", "TimeoutSeconds", "Variables"),
        *("BesideProgram", "BesideArguments", "MostBytes", "ShownBytes", "LockSeconds"),
    }
    if unknown or given.get("Variables"):
        raise UnknownError(f"parameters {', '.join(sorted(unknown)) or 'Variables'} of measure.ps1")
    if host.faults.measuring:
        return {"changed": False, "result": {"busy": True}}
    status, stdout, stderr = _started(call, given["Program"], given.get("Arguments", ""))
    if status is None:
        message = f'Exception calling "Start" with "1" argument(s): "{stderr}"'
        return {"changed": False, "failed": True, "error": [{"exception": {"message": message}}]}
    result = {
        "busy": False,
        "returncode": status,
        "stdout": _kept(stdout, given, host.faults.flood_bytes),
        "stderr": _kept(stderr, given),
        "seconds": 1.0,
        "timed_out": host.faults.slow_seconds > given["TimeoutSeconds"],
        "beside": None,
    }
    if given.get("BesideProgram"):
        line = given.get("BesideArguments", "")
        words = split(line)
        # Once, as it begins: it is not said how the encoder was used meanwhile.
        sampled = _started(
            call, given["BesideProgram"], line.replace(f" {' '.join(words[-2:])}", "")
        )
        if sampled[0] == 0 and words[-2] == "-lms":
            result["beside"] = _kept(sampled[1], given)
    return {"changed": False, "result": result}


def _kept(text: str, given: dict[str, Any], flood_bytes: int = 0) -> dict[str, Any]:
    """An output as the fragment tells it: a line of so many bytes, if any, and then the text."""
    whole = b"x" * flood_bytes + text.encode()
    begin, rest = whole[: given["MostBytes"]], whole[given["MostBytes"] :]
    return {
        "begin": base64.b64encode(begin).decode(),
        "end": base64.b64encode(rest[-given["ShownBytes"] :]).decode(),
        "size": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
    }


def _started(call: Call, name: str, line: str) -> tuple[int | None, str, str]:
    """What a program gave; no status where it cannot be started."""
    if program_of(name) not in PROGRAMS:
        raise UnknownError(f"program {name}")
    call.host.run(f"{name} {line}".strip(), call.user)
    try:
        return PROGRAMS[program_of(name)](call.host, [name, *split(line)])
    except MissingError:
        return None, "", "The system cannot find the file specified"
