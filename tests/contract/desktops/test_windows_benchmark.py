"""nv_a10 on simulated Windows hosts, by the plays: ffmpeg's zip, cases, records, resuming.

The simulated ffmpeg counts frames and encodes none; what it says of time is made up.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plays
import pytest
from simulated_windows import File, Host, serving

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE = "Standard_NV12ads_A10_v5"
URL = "https://mirror.example/ffmpeg-simulated.zip"
SHA256 = "0123456789abcdef" * 4
PROGRAM = r"C:\Program Files\trueup\ffmpeg\0123456789ab\ffmpeg\bin\ffmpeg.exe"
ASKED = {
    "trueup_benchmarks": ["nv_a10"],
    "nv_a10_ffmpeg_url": URL,
    "nv_a10_ffmpeg_sha256": SHA256,
    "nv_a10_ffmpeg": r"ffmpeg\bin\ffmpeg.exe",
    "nv_a10_sessions": [5, 10],
    "nv_a10_frames": 600,
}


def driven(name: str) -> Host:
    """A host whose driver works, with a mirror of ffmpeg's zip."""
    host = Host.nv_a10(SIZE, name)
    host.gpu_driver = "574.24"
    for gpu in host.gpus:
        gpu.error_code = 0
        gpu.encoder_sessions, gpu.encoder_fps, gpu.encoder_latency_us = 5, 60, 4200
    holds = {r"ffmpeg\bin\ffmpeg.exe": File(b"simulated ffmpeg")}
    host.downloads[URL] = File(b"zip", sha256=SHA256, holds=holds)
    return host


def run(folder: Path, *hosts: Host, options: tuple[str, ...] = (), **more: Any) -> tuple[int, str]:
    """Exit status and what was said of identify, configure and benchmark."""
    with contextlib.ExitStack() as stack:
        found = {host.name: stack.enter_context(serving(host))[1] for host in hosts}
        whole = {"all": {"children": {"windows": {"hosts": found}}}}
        (folder / "hosts.json").write_text(json.dumps(whole))
        names = [f"playbooks/{name}.yml" for name in ("identify", "preflight", "configure")]
        given = json.dumps({**ASKED, **more})
        inventory = ("-i", str(folder / "hosts.json"))
        done = plays.playbook(
            *(folder, *names, "playbooks/benchmark.yml", *inventory, "-e", given),
            # The roles of the family have tests of their own.
            *("--skip-tags", "windows_gpu,fslogix,avd_session_host", *options),
        )
    print(done.stdout, done.stderr)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def records(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in folder.glob("results/*/nv_a10-*.json")]
    return sorted(found, key=lambda record: (record["nodes"], record["case"]))


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    return {
        row["name"]: row["value"]
        for row in record["metrics"]
        if row.get("statistic") in (None, "median")
    }


def test_two_hosts_are_measured_in_one_run(tmp_path: Path) -> None:
    hosts = [driven("nv0"), driven("nv1")]
    status, said = run(tmp_path, *hosts)
    assert status == 0, said
    found = records(tmp_path)
    assert [(record["nodes"], record["case"]) for record in found] == [
        ([name], case)
        for name in ("nv0", "nv1")
        for case in (
            "copy-1920x1080-444",
            "h264_nvenc-1920x1080-444-s10",
            "h264_nvenc-1920x1080-444-s5",
        )
    ]
    assert {record["outcome"] for record in found} == {"ok"}
    assert len({record["run_id"] for record in found}) == 1
    five = found[2]
    assert (five["vm_size"], five["gpus"], five["command"][0]) == (SIZE, 1, PROGRAM)
    # Made up by the simulated ffmpeg: 400 frames a second in all.
    assert figures(five)["session_frame_rate"] == pytest.approx(80)
    assert figures(five)["sessions_held"] == 5
    assert figures(five)["encoder_latency"] == pytest.approx(0.0042)
    assert "sessions_held" not in figures(found[1])
    assert five["software"]["ffmpeg"] == "simulated"
    # Downloaded and unpacked once, and measured again only where something differs.
    status, said = run(tmp_path, *hosts, trueup_resume="last")
    assert (status, len(records(tmp_path))) == (0, 6)
    assert [host.requests.count(URL) for host in hosts] == [1, 1]
    assert "changed=0" in said


def test_check_mode_measures_and_installs_nothing(tmp_path: Path) -> None:
    host = driven("nv0")
    status, said = run(tmp_path, host, options=("--check",))
    assert status == 0, said
    assert (records(tmp_path), host.file(PROGRAM)) == ([], None)
    assert [line for line in host.process_log if "ffmpeg" in line["command_line"]] == []


def test_what_fails_is_recorded_with_the_reason(tmp_path: Path) -> None:
    undriven, busy, shared = driven("nv-undriven"), driven("nv-busy"), driven("nv-shared")
    endless = driven("nv-endless")
    undriven.gpus[0].error_code = 43
    busy.faults.measuring = True
    shared.gpus[0].encoder_sessions = 7
    endless.faults.flood_bytes = 8_500_000
    hosts = (undriven, busy, shared, endless)
    status, _ = run(tmp_path, *hosts, nv_a10_sessions=[5], nv_a10_copies=False)
    assert status != 0
    reasons = {record["nodes"][0]: record["reason"] for record in records(tmp_path)}
    # A broken GPU fails, and its CPU is not measured instead.
    assert reasons.pop("nv-undriven").rpartition(": ")[2] == "Cannot load nvcuda.dll"
    told = reasons.pop("nv-endless")
    assert re.sub(r"8500\d{3}", "8500...", told) == (
        "ffmpeg.exe printed 8500... bytes on its standard output: more than 8 MiB are not read"
    )
    [raw] = tmp_path.glob("results/*/*nv-endless.raw.txt")
    assert raw.stat().st_size < 2 << 20
    assert "the middle is left out; the whole has 8500" in raw.read_text()
    assert reasons == {
        "nv-busy": "another benchmark still runs on this host",
        "nv-shared": "the GPU showed 7 encoder sessions: others encode on it too",
    }


def test_a_zip_that_is_another_one_is_refused(tmp_path: Path) -> None:
    host = driven("nv0")
    host.downloads[URL] = File(b"another", sha256="f" * 64)
    status, _ = run(tmp_path, host)
    assert (status, records(tmp_path), host.file(PROGRAM)) == (2, [], None)
