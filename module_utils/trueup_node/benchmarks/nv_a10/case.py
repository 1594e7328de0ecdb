"""Sessions encoded at once, or frames copied, as a case: options, command, and whether it counts.

RDP encodes each user's screen on the GPU (docs/benchmarks/nv_a10.md). ``measure`` runs in the
module on a Linux node, and for a Windows host on the controller
(trueup_controller.desktops.windows_bench): it asks only the node's facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from ...options import ModuleOption, Option, RoleOption, time_limit
from ...record import Metric
from .output import SAMPLED, NvA10Output, explain, parse_nv_a10

if TYPE_CHECKING:
    from ...run.bench import Bench

# Settings for least delay, by encoder.
_NVENC = ("-preset", "p1", "-tune", "ull", "-zerolatency", "1", "-delay", "0")
ENCODERS: Mapping[str, Tuple[str, ...]] = {
    "h264_nvenc": _NVENC,
    "hevc_nvenc": _NVENC,
    "libx264": ("-preset", "ultrafast", "-tune", "zerolatency"),
}
CHROMAS = ("444", "420")
KINDS = ("encode", "copy")
# Frames of the picture that are drawn once and repeated: drawing them costs more than encoding.
_DRAWN = 30

OPTIONS = (
    RoleOption(
        "ffmpeg_url",
        "Zip with ffmpeg for a Windows host, or a mirror of it; there is none from ffmpeg's own"
        " project, whose page of downloads names these builds. Empty: the host has nv_a10_ffmpeg"
        " already. Linux nodes get the distribution's package.",
        "https://github.com/GyanD/codexffmpeg/releases/download/7.1.1/"
        "ffmpeg-7.1.1-essentials_build.zip",
        why="Its encoder (NVENC 13.0) runs from driver 570 on; that of ffmpeg 8.1.2 and newer"
        " builds needs 610, and an A10's driver on Windows is 574 (GyanD/codexffmpeg issue 181).",
    ),
    RoleOption(
        "ffmpeg_sha256",
        "SHA-256 of the zip, 64 hexadecimal digits.",
        "04861d3339c5ebe38b56c19a15cf2c0cc97f5de4fa8910e4d47e5e6404e4a2d4",
    ),
    Option(
        "ffmpeg",
        "The program ffmpeg. On a Windows host with a zip its path in there, such as"
        " ffmpeg\\bin\\ffmpeg.exe, where ffmpeg is bin\\ffmpeg.exe in a folder of the zip's name; a"
        " whole path is a program that the host has, and no zip is taken.",
        "ffmpeg",
    ),
    RoleOption(
        "sessions",
        "Numbers of sessions that are encoded at once, a case each.",
        [1, 2, 5, 10],
        why="Siemens and Microsoft put 5 users of NX on a host of a third of an A10.",
        elements="int",
        least=1,
        most=64,
        filled=True,
    ),
    ModuleOption("sessions", "Sessions that are encoded at once.", 1, least=1, most=64),
    RoleOption(
        "copies",
        "Whether frames copied to the GPU and back are a case too.",
        True,
    ),
    ModuleOption("kind", "Whether sessions are encoded or frames copied.", "encode", choices=KINDS),
    ModuleOption("encoder", "What encodes.", "h264_nvenc", choices=tuple(ENCODERS)),
    Option("width", "Width of a session's picture in pixels.", 1920, least=64, multiple_of=2),
    Option("height", "Height of a session's picture in pixels.", 1080, least=64, multiple_of=2),
    Option(
        "chroma",
        "Colour of the encoded picture: 444 keeps the colour of each pixel, as thin lines of CAD"
        " want it; 420 of every fourth.",
        "444",
        choices=CHROMAS,
        why="windows_gpu_video is avc444.",
    ),
    Option(
        "frames_per_second",
        "Frames a second that each session must reach to be held.",
        60,
        why="The cap that role windows_gpu sets.",
        least=1,
    ),
    Option(
        "frames",
        "Frames that each session encodes.",
        1800,
        why="30 s at 60 frames a second; a run must last 1 s or more.",
        least=60,
    ),
    ModuleOption("megabits_per_second", "Bit rate that a session is encoded to.", 20, least=1),
    time_limit(900, reason="10 sessions at 2 frames a second, which nobody would use."),
)

# The options that are a case's parameters as they are.
_PARAMETERS = (
    *("kind", "width", "height", "chroma", "frames", "frames_per_second"),
    "megabits_per_second",
)


def measure(bench: Bench) -> None:
    """Take the case to its end."""
    parameters, gpus = bench.given, len(bench.given["node"].get("gpus") or [])
    copies = parameters["kind"] == "copy"
    picture = f"{parameters['width']}x{parameters['height']}-{parameters['chroma']}"
    windows = parameters["node"].get("system") == "windows"
    more = {} if copies else {"encoder": parameters["encoder"], "sessions": parameters["sessions"]}
    bench.prepare(
        case=f"copy-{picture}"
        if copies
        else f"{parameters['encoder']}-{picture}-s{parameters['sessions']}",
        command=command(parameters, gpus),
        environment={} if windows else {"LC_ALL": "C"},
        parameters={**{name: parameters[name] for name in _PARAMETERS}, **more},
        gpus=gpus if copies or parameters["encoder"] != "libx264" else 0,
    )
    # Nobody samples the encoder of a GPU that is not used.
    sampler = ["nvidia-smi", f"--query-gpu={','.join(SAMPLED)}", "--format=csv", "-lms", "500"]
    watched = bench.case.gpus and not copies
    output = bench.run(parse_nv_a10, explain=explain, beside=sampler if watched else ())
    if output.tool_version:
        bench.case.software["ffmpeg"] = output.tool_version
    bench.finish(
        metrics=[*output.metrics(), *held(output, parameters["frames_per_second"])],
        invalid=judge(output, parameters),
    )


def command(parameters: Mapping[str, Any], gpus: int) -> List[str]:
    """ffmpeg's argv: a picture that is drawn once, and an output for each session; sessions are
    spread over the GPUs."""
    size = f"{parameters['width']}x{parameters['height']}"
    rate, chroma = parameters["frames_per_second"], parameters["chroma"]
    picture = f"testsrc2=size={size}:rate={rate},format=yuv{chroma}p"
    argv = [
        *(parameters["ffmpeg"], "-nostdin", "-nostats", "-loglevel", "verbose", "-benchmark"),
        *("-progress", "pipe:1", "-stats_period", "5"),
    ]
    drawn = ["-f", "lavfi", "-i", f"{picture},loop=loop=-1:size={_DRAWN}:start=0", "-map", "0:v"]
    frames = ["-frames:v", str(parameters["frames"])]
    if parameters["kind"] == "copy":
        device = ["-init_hw_device", "cuda=gpu:0", "-filter_hw_device", "gpu"]
        through = f"hwupload,hwdownload,format=yuv{parameters['chroma']}p"
        return [*argv, *device, *drawn, "-vf", through, *frames, "-f", "null", "-"]
    argv += drawn[:-2]
    for number in range(parameters["sessions"]):
        on = ("-gpu", str(number % gpus)) if gpus and parameters["encoder"] != "libx264" else ()
        argv += [
            "-map",
            "0:v",
            *frames,
            "-c:v",
            parameters["encoder"],
            *ENCODERS[parameters["encoder"]],
            *on,
        ]
        argv += ["-b:v", f"{parameters['megabits_per_second']}M", "-f", "null", "-"]
    return argv


def held(output: NvA10Output, frames_per_second: float) -> List[Metric]:
    """``sessions_held``: how many sessions there were, where each kept the frame rate."""
    rates = [row.value for row in output.metrics() if row.name == "session_frame_rate"]
    if not rates or rates[0] < frames_per_second:
        return []
    return [Metric("sessions_held", float(len(output.sessions)), "1", "higher")]


def judge(output: NvA10Output, parameters: Mapping[str, Any]) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    expected_sessions = 1 if parameters["kind"] == "copy" else parameters["sessions"]
    if len(output.sessions) != expected_sessions:
        return f"{len(output.sessions)} sessions ran instead of {expected_sessions}"
    expected: Dict[str, Any] = {
        "frames": parameters["frames"],
        "pixels": f"yuv{parameters['chroma']}p",
        "width": parameters["width"],
        "height": parameters["height"],
    }
    if parameters["kind"] == "encode":
        expected["encoder"] = parameters["encoder"]
    for number, session in enumerate(output.sessions):
        for name, value in expected.items():
            if getattr(session, name) != value:
                return f"session {number} has {name} {getattr(session, name)} instead of {value}"
    if output.duplicated or output.dropped:
        return f"{output.duplicated} frames were repeated and {output.dropped} dropped"
    if output.seen is not None and output.seen > expected_sessions:
        return f"the GPU showed {output.seen} encoder sessions: others encode on it too"
    return None
