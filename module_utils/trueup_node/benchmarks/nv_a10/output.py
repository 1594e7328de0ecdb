"""Parser of ffmpeg's output for N sessions in one process, and of nvidia-smi's beside it.

Read are ffmpeg's own lines with ``-loglevel verbose -benchmark -progress pipe:1``, which are the
same from 5.1 to 9.0 (seen in outputs of 5.1.9, 7.0.2 and 9.0.2; fftools/ffmpeg.c and
ffmpeg_mux.c): the mapping of each output, its stream, how many frames each encoded and how many
bytes that were, the last block of ``-progress``, and the times of ``-benchmark``. Since 6.0 a line
may begin with its context (``[out#0/null @ 0x22c3e380]``).

nvidia-smi's samples stand behind BESIDE (run/process.py): ``--query-gpu=SAMPLED --format=csv``;
average latency in microseconds (``nvidia-smi --help-query-gpu``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Dict, List, Match, NamedTuple, Optional, Pattern, Sequence, Tuple

from ...errors import ParseError
from ...node.nvidia_smi import rows_of
from ...reading import BESIDE, Line, lines_of
from ...record import Metric, summarise

TOOL = "nv_a10"
SAMPLED = (
    *("index", "encoder.stats.sessionCount", "encoder.stats.averageFps"),
    "encoder.stats.averageLatency",
)
# ffmpeg's names for frames that are not encoded: the case that copies them.
_UNCODED = ("wrapped_avframe", "rawvideo")
# Bytes of a pixel.
_PIXEL_BYTES = {"yuv444p": 3.0, "yuv420p": 1.5}
_MOST_SESSIONS = 1000
# How far ffmpeg's own frames a second may be from frames over time: it stops its clock elsewhere.
_TOLERANCE = 0.05

_VERSION = re.compile(r"ffmpeg version (\S{1,80}) ")
_MAPPED = re.compile(r"Stream #0:0 -> #([0-9]{1,4}):0 \(\w+ \(\w+\) -> (\w+) \((\w+)\)\)")
_OUTPUT = re.compile(r"Output #([0-9]{1,4}), null, to ")
_STREAM = re.compile(r"Stream #([0-9]{1,4}):0: Video: (\w+)")
_FORMAT = re.compile(r", (yuv[a-z0-9]+|nv12|cuda)\b")
_PICTURE = re.compile(r", ([0-9]{1,6})x([0-9]{1,6})[ ,\[]")
_ENCODED = re.compile(
    r"(?:\[out#[0-9]{1,4}/null @ \w{1,20}\] )? *Output stream #([0-9]{1,4}):0 \(video\):"
    r" ([0-9]{1,12}) frames encoded; ([0-9]{1,12}) packets muxed \(([0-9]{1,18}) bytes\);"
)
_TIMES = re.compile(
    r"bench: utime=([0-9]{1,9}\.[0-9]{3})s stime=([0-9]{1,9}\.[0-9]{3})s"
    r" rtime=([0-9]{1,9}\.[0-9]{3})s"
)
_PROGRESS = re.compile(r"(frame|fps|dup_frames|drop_frames|progress)= *([0-9a-z.]{1,20})")
# Why ffmpeg ended: the first such line is the cause, the lines after it are consequences.
_WRONG = re.compile(
    r"(?:\[[\w#:/]{1,60} @ \w{1,20}\] )?"
    r"((?:Cannot load|OpenEncodeSessionEx failed|No capable|No NVENC"
    r"|Driver does not|Unknown encoder|Device creation failed|InitializeEncoder failed"
    r"|Error (?:while|initializing|opening|parsing)|.{1,60}not supported).{0,200})"
)


class Session(NamedTuple):
    """One output of ffmpeg.

    Attributes:
        encoder: such as ``h264_nvenc``.
        pixels: the pixel format that it encoded: ``yuv444p``.
        width, height: of the picture.
        frames: how many it encoded.
        size: bytes of all of them, encoded.
    """

    encoder: str
    pixels: str
    width: int
    height: int
    frames: int
    size: int


@dataclass(frozen=True)
class NvA10Output:
    """A run of ffmpeg over one or more sessions.

    Attributes:
        sessions: by number.
        seconds: wall time of encoding; opening the encoders is in it.
        cpu_seconds: CPU time of the process, user's and system's.
        duplicated, dropped: frames that ffmpeg added or left out to keep the frame rate.
        latencies: of each sample of a GPU that encoded, the average latency in seconds.
        seen: the most sessions that the GPUs showed at a time; None where nobody asked them, or
            they showed none at all.
    """

    sessions: Tuple[Session, ...]
    seconds: float
    cpu_seconds: float
    duplicated: int = 0
    dropped: int = 0
    latencies: Tuple[float, ...] = ()
    seen: Optional[int] = None
    tool_version: Optional[str] = None
    warnings: List[str] = field(default_factory=list)
    unverified: Tuple[str, ...] = ()
    # ffmpeg is one process.
    node_count: ClassVar[int] = 1

    @property
    def frames(self) -> int:
        """Those of the session that encoded fewest."""
        return min(session.frames for session in self.sessions)

    @property
    def parameters(self) -> Dict[str, str]:
        """Parameters of the case in the output."""
        first = self.sessions[0]
        return {
            "encoder": first.encoder,
            "sessions": str(len(self.sessions)),
            "picture": f"{first.width}x{first.height} {first.pixels}",
        }

    @property
    def checks(self) -> Dict[str, bool]:
        """Whether all sessions encoded the same, and every frame once."""
        alike = {
            (session.encoder, session.pixels, session.width, session.frames)
            for session in self.sessions
        }
        return {
            "sessions_alike": len(alike) == 1,
            "every_frame": not self.duplicated + self.dropped,
        }

    def metrics(self) -> List[Metric]:
        """Of encoded sessions ``session_frame_rate`` [1/s], ``session_frame_time`` [s],
        ``frame_cpu_time`` [s, of one frame of one session] and ``frame_size`` [byte], with the
        GPU's ``encoder_latency`` [s] where it was asked; of copied frames ``frame_copy_rate``
        [byte/s, each way]."""
        frames, first = self.frames, self.sessions[0]
        if first.encoder in _UNCODED:
            size = _PIXEL_BYTES[first.pixels] * first.width * first.height
            return [Metric("frame_copy_rate", size * frames / self.seconds, "byte/s", "higher")]
        of_all = sum(session.frames for session in self.sessions)
        rows = [
            Metric("session_frame_rate", frames / self.seconds, "1/s", "higher"),
            Metric("session_frame_time", self.seconds / frames, "s", "lower"),
            Metric("frame_cpu_time", self.cpu_seconds / of_all, "s", "lower"),
            Metric(
                "frame_size",
                sum(session.size for session in self.sessions) / of_all,
                "byte",
                "none",
            ),
        ]
        if self.latencies:
            rows += summarise("encoder_latency", self.latencies, "s", "lower")
        return rows


def parse_nv_a10(text: str) -> NvA10Output:
    """Read the output of one run.

    Raises:
        ParseError: a session's mapping, stream or count, the end of -progress, or the times are
            missing, stand twice or do not fit each other; or nothing was encoded.
    """
    lines = lines_of(text)
    at = next((n for n, line in enumerate(lines) if line == BESIDE), len(lines))
    # The sampler is ended in the middle of a line.
    ffmpeg_lines, beside = lines[:at], lines[at + 1 : None if text.endswith("\n") else -1]
    progress = _progress(ffmpeg_lines)
    sessions = _sessions(ffmpeg_lines)
    times = _one(ffmpeg_lines, _TIMES, "line 'bench: utime=... rtime=...' of -benchmark")
    user, system, seconds = (float(number) for number in times.groups())
    frames = min(session.frames for session in sessions)
    if not seconds:
        raise ParseError("ffmpeg ran for 0 s: nothing was measured")
    latencies, encoder_sessions = _samples(beside)
    version = next(filter(None, map(_VERSION.match, ffmpeg_lines)), None)
    return NvA10Output(
        sessions=sessions,
        seconds=seconds,
        cpu_seconds=user + system,
        duplicated=_whole(progress, "dup_frames"),
        dropped=_whole(progress, "drop_frames"),
        latencies=latencies,
        seen=encoder_sessions,
        tool_version=version.group(1) if version else None,
        unverified=_rate_checked(progress, frames, sessions[0].frames, seconds),
    )


def explain(text: str) -> Optional[str]:
    """Why ffmpeg failed, in its own words; None where it does not say."""
    for line in text.splitlines():
        match = _WRONG.match(line)
        if match:
            return match.group(1).strip()
    return None


def _one(lines: Sequence[Line], pattern: Pattern[str], description: str) -> Match[str]:
    matches = [(match, line) for line in lines for match in [pattern.match(line)] if match]
    if not matches:
        raise ParseError(f"no {description}: the output is cut off")
    if len(matches) > 1:
        raise matches[1][1].error(f"a second {description}")
    return matches[0][0]


def _progress(lines: Sequence[Line]) -> Dict[str, str]:
    """The last block of -progress."""
    block: Dict[str, str] = {}
    ended: List[Dict[str, str]] = []
    for line in lines:
        match = _PROGRESS.fullmatch(line.strip())
        if match is None:
            continue
        block[match.group(1)] = match.group(2)
        if match.group(1) == "progress":
            if match.group(2) == "end":
                ended.append(block)
            block = {}
    if len(ended) != 1:
        raise ParseError(f"{len(ended)} blocks of -progress say 'progress=end'; one is expected")
    missing = {"frame", "fps", "dup_frames", "drop_frames"} - set(ended[0])
    if missing:
        raise ParseError(f"the last block of -progress lacks {', '.join(sorted(missing))}")
    return ended[0]


def _whole(progress: Dict[str, str], name: str) -> int:
    if not progress[name].isdecimal():
        raise ParseError(f"-progress: {name}={progress[name]} is no count")
    return int(progress[name])


def _rate_checked(
    progress: Dict[str, str], frames: int, first: int, seconds: float
) -> Tuple[str, ...]:
    """Refuse a count or rate of -progress that is not the others'; say where there is none."""
    if _whole(progress, "frame") != first:
        raise ParseError(f"-progress counted {progress['frame']} frames, session 0 encoded {first}")
    try:
        printed = float(progress["fps"])
    except ValueError:
        raise ParseError(f"-progress: fps={progress['fps']} is no number") from None
    if not frames:
        raise ParseError("a session encoded no frame")
    if printed == 0:
        return ("ffmpeg ran for less than 1 s and printed no frames a second: encode more frames",)
    if abs(printed - first / seconds) > _TOLERANCE * printed:
        raise ParseError(f"{first} frames in {seconds} s are not the {printed} frames/s printed")
    return ()


def _sessions(lines: Sequence[Line]) -> Tuple[Session, ...]:
    encoders = _by_number(lines, _MAPPED)
    counts = _by_number(lines, _ENCODED)
    streams = _streams(lines)
    if not counts or len(counts) > _MOST_SESSIONS:
        raise ParseError(f"{len(counts)} lines 'Output stream #N:0 (video): ... frames encoded'")
    numbers = list(range(len(counts)))
    for label, by_number in (("counts", counts), ("mappings", encoders), ("streams", streams)):
        if sorted(by_number) != numbers:
            raise ParseError(
                f"{label} are of outputs {sorted(by_number)[:20]}, not 0 to {numbers[-1]}"
            )
    return tuple(
        Session(
            _encoder(*encoders[n].group(2, 3)),
            *streams[n],
            frames=int(counts[n].group(2)),
            size=int(counts[n].group(4)),
        )
        for n in numbers
    )


def _encoder(codec: str, program: str) -> str:
    """``h264_nvenc`` of h264 (h264_nvenc); ffmpeg's own are called native, by their codec here."""
    return codec if program == "native" else program


def _by_number(lines: Sequence[Line], pattern: Pattern[str]) -> Dict[int, Match[str]]:
    """Matches by the number of the output."""
    matches: Dict[int, Match[str]] = {}
    for line in lines:
        match = pattern.match(line.strip())
        if match:
            number = int(match.group(1))
            if number in matches:
                raise line.error(f"output {number} stands twice")
            matches[number] = match
    return matches


def _streams(lines: Sequence[Line]) -> Dict[int, Tuple[str, int, int]]:
    """Pixel format, width and height of each output: the first stream below its heading."""
    streams: Dict[int, Tuple[str, int, int]] = {}
    heading: Optional[int] = None
    for line in lines:
        text = line.strip()
        output = _OUTPUT.match(text)
        if output:
            heading = int(output.group(1))
            if heading in streams:
                raise line.error(f"output {heading} stands twice")
        stream = _STREAM.match(text)
        if stream is None or heading is None or int(stream.group(1)) != heading:
            continue
        pixels, picture = _FORMAT.search(text), _PICTURE.search(text)
        if pixels is None or picture is None or pixels.group(1) not in _PIXEL_BYTES:
            raise line.error("expected a pixel format of 4:2:0 or 4:4:4 and a picture's size")
        streams[heading] = (pixels.group(1), int(picture.group(1)), int(picture.group(2)))
        heading = None
    return streams


def _samples(lines: Sequence[Line]) -> Tuple[Tuple[float, ...], Optional[int]]:
    """Average latencies in seconds of samples of a GPU that encoded, and the most sessions that all
    GPUs showed."""
    text = [line for line in lines if line.strip()]
    if len(text) <= 1:  # not even the head
        return (), None
    most: Dict[str, int] = {}
    latencies = []
    for cells, line in rows_of("\n".join(text), SAMPLED, _same_column):
        if any(cell.startswith("[") for cell in cells):  # [N/A]: this GPU does not say
            continue
        index, sessions, _, latency = cells
        if not re.fullmatch(r"[0-9]{1,9}", sessions) or not re.fullmatch(r"[0-9]{1,12}", latency):
            raise line.error("nvidia-smi: expected whole numbers")
        most[index] = max(most.get(index, 0), int(sessions))
        if int(sessions) and int(latency):
            latencies.append(int(latency) / 1e6)
    return tuple(latencies), sum(most.values()) or None


def _same_column(cell: str, column: str) -> bool:
    """A unit in brackets behind it is not said by every release."""
    return cell.partition(" [")[0] == column
