"""What ffmpeg prints of N sessions: what must be read from it, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from damage import changed, damaged, refuses, same_or_refused
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.benchmarks.nv_a10.output import Session, explain, parse_nv_a10
from trueup_node.benchmarks.nv_a10.signatures import SIGNATURE

DATA = Path(__file__).parent.parent / "data" / "nv_a10"


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


TWO = recorded("ffmpeg51_s2")
A10 = recorded("synthetic_a10_s5")


def values(text: str) -> dict[Any, float]:
    return {(row.name, row.statistic): row.value for row in parse_nv_a10(text).metrics()}


# Read by eye: sessions, encoder, picture, frames, bytes of a session, seconds, user, system.
READ = {
    "ffmpeg51_s2": (2, "libx264", "yuv444p", 600, 6370098, 1.233, 1.150, 0.145),
    "ffmpeg51_s5_420": (5, "libx264", "yuv420p", 600, 6284955, 2.142, 1.994, 0.249),
    "ffmpeg702_s2": (2, "libx264", "yuv444p", 1800, 18881792, 2.598, 3.256, 0.420),
    "ffmpeg902_s1": (1, "libx264", "yuv444p", 1800, 18881778, 1.390, 1.638, 0.243),
    "ffmpeg902_s5": (5, "libx264", "yuv444p", 600, 6370084, 1.528, 2.549, 0.377),
    "synthetic_a10_s5": (5, "h264_nvenc", "yuv444p", 600, 6370084, 1.528, 2.549, 0.377),
}


@pytest.mark.parametrize("name", READ)
def test_what_versions_of_ffmpeg_print(name: str) -> None:
    text = recorded(name)
    count, encoder, pixels, frames, size, seconds, user, system = READ[name]
    output = parse_nv_a10(text)
    assert output.sessions == (Session(encoder, pixels, 640, 360, frames, size),) * count
    assert (output.seconds, output.cpu_seconds) == (seconds, pytest.approx(user + system))
    assert (output.duplicated, output.dropped, output.unverified) == (0, 0, ())
    assert output.checks == {"sessions_alike": True, "every_frame": True}
    got = values(text)
    assert got["session_frame_rate", None] == pytest.approx(frames / seconds)
    assert got["session_frame_time", None] == pytest.approx(seconds / frames)
    assert got["frame_cpu_time", None] == pytest.approx((user + system) / (frames * count))
    assert got["frame_size", None] == pytest.approx(size / frames)
    assert SIGNATURE.recognises(text) is True


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ffmpeg51_no_driver", "Cannot load libcuda.so.1"),
        ("ffmpeg902_no_driver", "Cannot load libcuda.so.1"),
        ("ffmpeg51_no_cuda", "Cannot load libcuda.so.1"),
        ("ffmpeg902_no_encoder", "Unknown encoder 'h265_nvenc'"),
        ("ffmpeg51_s2", None),
    ],
)
def test_ffmpeg_says_why_it_failed(name: str, why: str | None) -> None:
    assert explain(recorded(name)) == why


test_damaged_output_is_refused = refuses(
    parse_nv_a10,
    ("", "0 blocks of -progress"),
    ("Nothing here\n", "0 blocks of -progress"),
    (TWO[: TWO.index("bench: utime")], "no line 'bench: utime"),
    (TWO + TWO[TWO.index("bench: utime") :], "a second line 'bench: utime"),
    (TWO + TWO, "2 blocks of -progress"),
    (changed(TWO, "^drop_frames=.*\n", "", 2), "the last block of -progress lacks drop_frames"),
    (
        changed(TWO, "^frame=600", "frame=599"),
        "-progress counted 599 frames, session 0 encoded 600",
    ),
    (
        changed(TWO, "^fps=486.78", "fps=286.78"),
        "600 frames in 1.233 s are not the 286.78 frames/s",
    ),
    (changed(TWO, "^fps=486.78", "fps=a.b"), "fps=a.b is no number"),
    (changed(TWO, "^dup_frames=0", "dup_frames=x", 2), "dup_frames=x is no count"),
    (changed(TWO, "rtime=1.233s", "rtime=0.000s"), "ran for 0 s"),
    (changed(TWO, "600 frames encoded", "frames encoded"), "counts"),
    (changed(TWO, " frames encoded", " frames decoded", 2), "0 lines 'Output stream"),
    (changed(TWO, "-> #1:0", "-> #0:0"), "output 0 stands twice"),
    (changed(TWO, "^  Output stream #1:0", "  Output stream #0:0"), "output 0 stands twice"),
    (changed(TWO, "^Output #1, null", "Output #0, null"), "output 0 stands twice"),
    (changed(TWO, r"yuv444p\(progressive\)", "gray10le(progressive)"), "expected a pixel format"),
    (A10.replace("averageFps", "averageSpeed"), "expected the columns index"),
    (A10.replace("388, 9120", "388, 9.5"), "nvidia-smi: expected whole numbers"),
    (A10.replace("388, 9120", "388"), "expected 4 cells, got 3"),
)


FIGURES = [row.as_row() for row in parse_nv_a10(TWO).metrics()]


@given(data=st.data())
@settings(deadline=None)
def test_damage_gives_the_same_figures_or_an_error(data: st.DataObject) -> None:
    text = damaged(TWO, data, "cut", "lost", "doubled", "neighbours")

    def read(one: str) -> Any:
        output = parse_nv_a10(one)
        return [row.as_row() for row in output.metrics()]

    assert same_or_refused(read, text, FIGURES)


@given(text=st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    assert same_or_refused(parse_nv_a10, text, None)
