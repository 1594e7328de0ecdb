"""The module nv_a10_bench: success, check mode, refusals, bad ends; and a real ffmpeg."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nv_a10_bench
import pytest
from bench_modules import FakeRun, checks_only, ends_badly, goes_well, refuses, resumes
from trueup_node.benchmarks.nv_a10.case import OPTIONS, command
from trueup_node.run import process

DATA = Path(__file__).parent.parent / "data" / "nv_a10"
GPU = {"name": "NVIDIA A10-8Q", "pci": "0002:00:00.0"}


def recorded(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


CPU, A10 = recorded("ffmpeg902_s5"), recorded("synthetic_a10_s5")
OWN, BESIDE = A10.split("\n[beside]\n")
ASKED = {
    "sessions": 5,
    "encoder": "libx264",
    "width": 640,
    "height": 360,
    "frames": 600,
    "megabits_per_second": 5,
    "node": {"os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1"},
}


@pytest.fixture(name="run_module")
def _run_module(runner: Any) -> Any:
    return runner(nv_a10_bench, **ASKED)


def test_copies_of_frames(run_module: Any) -> None:
    run = FakeRun(stdout=recorded("ffmpeg51_uncoded"))
    _, record = goes_well(run_module, run, kind="copy", frames=40000, node={"gpus": [GPU]})
    assert (record["case"], record["gpus"]) == ("copy-640x360-444", 1)
    assert {"encoder", "sessions"} & set(record["parameters"]) == set()
    [row] = record["metrics"]
    assert row["name"] == "frame_copy_rate"
    argv = run.calls[0]["argv"]
    assert argv[argv.index("-vf") + 1] == "hwupload,hwdownload,format=yuv444p"
    assert argv[argv.index("-init_hw_device") + 1] == "cuda=gpu:0"
    assert "beside" not in run.calls[0]


test_check_mode_returns_the_same_keys_and_runs_nothing = checks_only(CPU)


test_a_bad_end_gives_a_record_with_the_reason = ends_badly(
    (
        {"returncode": 1, "stderr": recorded("ffmpeg51_no_driver")},
        *("failed", "ended with exit status 1 after 4.5 s: Cannot load libcuda.so.1"),
    ),
    ({"returncode": 255, "stdout": recorded("ffmpeg51_interrupted")}, "failed", "status 255"),
    (
        {"stdout": CPU[: CPU.index("bench: utime")]},
        "failed",
        "nv_a10 output not understood: no line 'bench: utime",
    ),
    ({"stdout": ""}, "failed", "0 blocks of -progress"),
    ({"stdout": recorded("ffmpeg51_short")}, "failed", "encode more frames"),
    ({"stdout": recorded("ffmpeg51_s2")}, "invalid", "2 sessions ran instead of 5"),
    (
        {"stdout": recorded("ffmpeg51_s5_420")},
        *("invalid", "session 0 has pixels yuv420p instead of yuv444p"),
    ),
    ({"stdout": OWN}, "invalid", "session 0 has encoder h264_nvenc instead of libx264"),
    (
        {"stdout": CPU.replace("drop_frames=0", "drop_frames=3")},
        "invalid",
        "0 frames were repeated",
    ),
)


test_another_program_on_the_encoder_spoils_the_case = ends_badly(
    (
        {"stdout": OWN, "beside": BESIDE.replace("0, 5, 388", "0, 6, 388")},
        *("invalid", "the GPU showed 6 encoder sessions: others encode on it too"),
    ),
    encoder="h264_nvenc",
    node={"gpus": [GPU]},
)


test_bad_input_is_refused_before_anything_runs = refuses(
    ({"sessions": 0}, "sessions is 0: it must be 1 or more, 64 or less"),
    ({"width": 641}, "width is 641: it must be a multiple of 2, 64 or more"),
    ({"frames": 59}, "frames is 59: it must be 60 or more"),
)


def test_a_record_stands_for_its_case_alone(run_module: Any) -> None:
    resumes(
        run_module,
        lambda: FakeRun(stdout=CPU),
        nv_a10_bench,
        {
            "ffmpeg": "/opt/ffmpeg",
            "sessions": 2,
            "kind": "copy",
            "encoder": "h264_nvenc",
            "width": 1280,
            "height": 720,
            "chroma": "420",
            "frames_per_second": 30,
            "frames": 900,
            "megabits_per_second": 8,
        },
    )


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg on this machine")
def test_a_real_ffmpeg_encodes_two_sessions(tmp_path: Path) -> None:
    defaults = {one.name: one.default for one in OPTIONS}
    argv = command({**defaults, **ASKED, "sessions": 2, "frames": 60}, 0)
    beside = ["sh", "-c", "echo sampled; sleep 60"]
    done = process.run(
        argv, timeout_seconds=60, environment={"LC_ALL": "C"}, cwd=str(tmp_path), beside=beside
    )
    assert (done.returncode, done.stdout.count("progress=end")) == (0, 1)
    assert done.stderr.count("60 frames encoded") == 2
    assert done.beside == "sampled\n"
