"""The node program gpu_clocks, with a stand-in for nvidia-smi that keeps what it was asked.

The stand-in's answers are synthetic, in nvidia-smi's layout: its csv, the sentences of -lgc and
-lmc, and status 0 for a setting that a model does not support, as nvidia-smi has it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helpers
import pytest
from helpers import parametrized

PROGRAM = Path(__file__).parents[2] / "roles" / "gpu_clocks" / "files" / "gpu_clocks.py"
gpu_clocks: Any = helpers.program("roles/gpu_clocks/files/gpu_clocks.py")

FAKE = r'''#!{python} -I
"""Stand-in for tests: nvidia-smi."""
import json, pathlib, sys
HERE = pathlib.Path({folder!r})
state = json.loads((HERE / "state.json").read_text())
with (HERE / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")
args = sys.argv[1:]
if args[0].startswith("--query-gpu="):
    if state.get("broken"):
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        sys.exit(9)
    fields = args[0].split("=")[1].split(",")
    clocks = ("clocks.max", "clocks.current")
    print(", ".join(f + (" [MHz]" if f.startswith(clocks) else "") for f in fields))
    for gpu in state["gpus"]:
        print(", ".join(gpu[f] for f in fields))
    sys.exit(0)
assert args[0] == "-i"
gpu = next(g for g in state["gpus"] if g["pci.bus_id"] == args[1])
clock, word, short = {{
    "-lgc": ("graphics", "GPU", "gpuClk"), "-lmc": ("memory", "Memory", "memClk"),
    "-rgc": ("graphics", "GPU", ""), "-rmc": ("memory", "Memory", ""),
}}[args[2]]
if state.get("user"):
    print(f"The current user does not have permission to change clocks for GPU {{args[1]}}.")
    print("Terminating early due to previous errors.")
    sys.exit(4)
if clock in gpu.get("fixed", []):
    print(f"Setting locked {{word}} clocks is not supported for GPU {{args[1]}}.")
    print("Treating as warning and moving on.\nAll done.")
    sys.exit(0)
if args[2].startswith("-l"):
    low = args[3].split(",")[0]
    both = f"({{short}}Min {{low}}, {{short}}Max {{low}})"
    print(f'{{word}} clocks set to "{{both}}" for GPU {{args[1]}}')
    if not gpu.get("deaf"):
        gpu["clocks.current." + clock] = low
else:
    gpu["clocks.current." + clock] = "345"
print("All done.")
(HERE / "state.json").write_text(json.dumps(state))
'''


def a_gpu(number: int, **changes: Any) -> dict[str, Any]:
    gpu = {
        "index": str(number),
        "pci.bus_id": f"0000000{number + 1}:00:00.0",
        "mig.mode.current": "Disabled",
        "clocks.max.graphics": "1410",
        "clocks.max.memory": "1215",
        "clocks.current.graphics": "345",
        "clocks.current.memory": "1215",
        "clocks_event_reasons.active": "0x0000000000000000",
    }
    return {**gpu, **changes}


class Machine:
    """A folder with the stand-in, and what became of it."""

    def __init__(self, folder: Path, **state: Any) -> None:
        self.folder = folder
        state.setdefault("gpus", [a_gpu(0), a_gpu(1)])
        (folder / "state.json").write_text(json.dumps(state))
        tool = folder / "nvidia-smi"
        tool.write_text(FAKE.format(python=sys.executable, folder=str(folder)))
        tool.chmod(0o755)

    def run(self, action: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), action],
            env={"PATH": str(self.folder), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    def changes(self) -> list[list[str]]:
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [call for call in calls if not call[0].startswith("--query")]


def test_each_gpu_is_locked_to_its_own_maximum(tmp_path: Path) -> None:
    other = a_gpu(1, **{"clocks.max.graphics": "1980", "clocks.max.memory": "2619"})
    machine = Machine(tmp_path, gpus=[a_gpu(0), other])
    status, report = machine.run("lock")
    assert (status, report["problems"]) == (0, [])
    assert machine.changes() == [
        ["-i", "00000001:00:00.0", "-lgc", "1410,1410"],
        ["-i", "00000001:00:00.0", "-lmc", "1215,1215"],
        ["-i", "00000002:00:00.0", "-lgc", "1980,1980"],
        ["-i", "00000002:00:00.0", "-lmc", "2619,2619"],
    ]
    assert [gpu["locked_mhz"] for gpu in report["gpus"]] == [
        {"graphics": 1410, "memory": 1215},
        {"graphics": 1980, "memory": 2619},
    ]
    assert report["gpus"][1]["graphics"] == {
        "max_mhz": 1980,
        "current_mhz": 1980,
        "at_maximum": True,
    }


def test_they_are_put_back_with_the_right_pair(tmp_path: Path) -> None:
    machine = Machine(tmp_path, gpus=[a_gpu(0)])
    machine.run("lock")
    status, report = machine.run("reset")
    assert (status, report["problems"]) == (0, [])
    assert machine.changes()[2:] == [
        ["-i", "00000001:00:00.0", "-rgc"],
        ["-i", "00000001:00:00.0", "-rmc"],
    ]
    assert machine.run("status")[1]["gpus"][0]["graphics"]["current_mhz"] == 345


def test_a_clock_that_did_not_follow_fails_with_both_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slowed = {
        "clocks.current.graphics": "1200",
        "clocks_event_reasons.active": "0x0000000000000008",
    }
    Machine(tmp_path, gpus=[a_gpu(0, deaf=True, **slowed), a_gpu(1)])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu_clocks, "SETTLE_SECONDS", 0)
    assert gpu_clocks.main(["lock"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem.startswith(
        "GPU 00000001:00:00.0: the graphics clock runs at 1200 MHz, locked to 1410 MHz "
        "(hardware slowdown)"
    )


def test_a_clock_that_follows_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(tmp_path, gpus=[a_gpu(0, deaf=True)])
    monkeypatch.setenv("PATH", str(tmp_path))
    waited = []

    def follow(seconds: float) -> None:
        waited.append(seconds)
        (tmp_path / "state.json").write_text(
            json.dumps({"gpus": [a_gpu(0, **{"clocks.current.graphics": "1410"})]})
        )

    monkeypatch.setattr(gpu_clocks, "time", SimpleNamespace(sleep=follow))
    assert gpu_clocks.main(["lock"]) == 0
    assert waited == [1]


def test_an_idle_gpu_may_run_slower_than_its_lock(tmp_path: Path) -> None:
    idle = a_gpu(0, deaf=True, **{"clocks_event_reasons.active": "0x0000000000000001"})
    status, report = Machine(tmp_path, gpus=[idle]).run("lock")
    (gpu,) = report["gpus"]
    assert (status, gpu["idle"], gpu["graphics"]["at_maximum"]) == (0, True, None)
    assert gpu["locked_mhz"]["graphics"] == 1410


@pytest.mark.parametrize("unknown", ["[N/A]", "N/A", "[Not Supported]"])
def test_a_clock_without_a_maximum_is_left_alone(tmp_path: Path, unknown: str) -> None:
    machine = Machine(
        tmp_path,
        gpus=[a_gpu(0, **{"clocks.max.memory": unknown, "clocks.current.memory": unknown})],
    )
    status, report = machine.run("lock")
    assert status == 0
    assert [call[2] for call in machine.changes()] == ["-lgc"]
    assert report["gpus"][0]["unsupported"] == {"memory": "no maximum is known"}


def test_a_memory_clock_that_cannot_be_locked_is_named_and_no_failure(tmp_path: Path) -> None:
    machine = Machine(tmp_path, gpus=[a_gpu(0, fixed=["memory"])])
    status, report = machine.run("lock")
    (gpu,) = report["gpus"]
    assert (status, gpu["locked_mhz"]) == (0, {"graphics": 1410})
    assert gpu["unsupported"]["memory"] == (
        "Setting locked Memory clocks is not supported for GPU 00000001:00:00.0."
    )
    assert machine.run("reset")[0] == 0


def test_a_user_without_permission(tmp_path: Path) -> None:
    status, report = Machine(tmp_path, gpus=[a_gpu(0)], user=True).run("lock")
    assert status == 1
    assert len(report["problems"]) == 2
    assert report["problems"][0].startswith("GPU 00000001:00:00.0: nvidia-smi -lgc needs root: The")
    status, report = Machine(tmp_path, gpus=[a_gpu(0)], user=True).run("reset")
    assert (status, len(report["problems"])) == (1, 2)


def test_a_gpu_in_mig_mode_is_locked_as_a_whole(tmp_path: Path) -> None:
    mig = a_gpu(0, **{"mig.mode.current": "Enabled", "clocks.current.graphics": "[N/A]"}, deaf=True)
    status, report = Machine(tmp_path, gpus=[mig]).run("lock")
    (gpu,) = report["gpus"]
    assert (status, gpu["mig"], gpu["graphics"]["at_maximum"]) == (0, True, None)
    assert gpu["locked_mhz"] == {"graphics": 1410, "memory": 1215}


def test_status_names_a_busy_gpu_that_is_slow_and_changes_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    status, report = machine.run("status")
    assert (status, machine.changes(), len(report["problems"])) == (1, [], 2)
    assert report["problems"][0] == (
        "GPU 00000001:00:00.0: the graphics clock runs at 345 MHz, its maximum is 1410 MHz "
        "(not locked)."
    )


# An H100's, as its driver 580.159.04 told them on 2026-11-27: idle, and in bf16 products.
H100 = {"clocks.max.graphics": "1980", "clocks.max.memory": "2619", "clocks.current.memory": "2619"}
AT_WORK = {"clocks.current.graphics": "1500", "clocks_event_reasons.active": "0x0000000000000004"}


@parametrized(("changes", "why"))
def test_status_says_that_a_lock_cannot_be_told(
    tmp_path: Path, changes: dict[str, str], why: str
) -> None:
    machine = Machine(tmp_path, gpus=[a_gpu(0, **H100, **changes)])
    status, report = machine.run("status")
    assert (status, report["problems"]) == (0, [])
    assert report["said"] == (
        f"gpu_clocks: 0 of 1 GPUs at their maximum; not proved: 00000001:00:00.0 ({why})"
    )


def test_without_a_driver(tmp_path: Path) -> None:
    complaint = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    status, report = Machine(tmp_path, broken=True).run("lock")
    assert (status, report["problems"]) == (1, [f"nvidia-smi failed with status 9: {complaint}"])
    (tmp_path / "nvidia-smi").unlink()
    (problem,) = Machine.run(_bare(tmp_path), "lock")[1]["problems"]
    assert problem.startswith("nvidia-smi is not installed: install the driver")


def _bare(folder: Path) -> Machine:
    machine = Machine.__new__(Machine)
    machine.folder = folder
    return machine


HEADER = "index, pci.bus_id, mig.mode.current, clocks.max.graphics [MHz], clocks.max.memory [MHz], "
REST = "clocks.current.graphics [MHz], clocks.current.memory [MHz], clocks_event_reasons.active\n"


@parametrized(("text", "message"))
def test_an_answer_that_cannot_be_used(text: str, message: str) -> None:
    with pytest.raises(gpu_clocks.Failure, match=message):
        gpu_clocks.parse(text)


def test_columns_are_found_by_name() -> None:
    header = (HEADER + REST).strip().split(", ")
    row = ["0", "00000001:00:00.0", "[N/A]", "1410", "1215", "1395", "1215", "0x0000000000000000"]
    text = ", ".join(reversed(header)) + "\n" + ", ".join(reversed(row)) + "\n"
    (gpu,) = gpu_clocks.parse(text)
    # A step of 15 MHz below is at the maximum.
    assert gpu["graphics"] == {"max_mhz": 1410, "current_mhz": 1395, "at_maximum": True}


def test_a_tool_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu_clocks, "LIMIT_SECONDS", 0.2)
    with pytest.raises(gpu_clocks.Failure, match=r"did not end within 0\.2 s"):
        gpu_clocks.ask(["-L"])


IDLE = {"clocks_event_reasons.active": "0x0000000000000001"}
# What a load does to the stand-in's GPUs: they are busy, and run at this clock.
LOAD = r"""
import json, pathlib, sys, time
file = pathlib.Path({folder!r}) / "state.json"
state = json.loads(file.read_text())
for gpu in state["gpus"]:
    if gpu["pci.bus_id"] == sys.argv[2]:
        gpu["clocks_event_reasons.active"] = "{reasons}"
        gpu["clocks.current.graphics"] = "{clock}"
file.write_text(json.dumps(state))
print("{said}", flush=True)
time.sleep(600)
"""


@pytest.fixture(name="verify")
def _verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    def verify(gpus: list[dict[str, Any]], **of_load: str) -> tuple[int, dict[str, Any]]:
        Machine(tmp_path, gpus=gpus)
        given = {"reasons": "0x0", "clock": "1410", "said": "running", **of_load}
        (tmp_path / "load.py").write_text(LOAD.format(folder=str(tmp_path), **given))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(gpu_clocks, "__file__", str(tmp_path / "load.py"))
        monkeypatch.setattr(gpu_clocks, "SETTLE_SECONDS", 0)
        monkeypatch.setattr(gpu_clocks, "LOAD_SECONDS", 2)
        status = gpu_clocks.main(["verify"])
        return status, json.loads(capsys.readouterr().out)

    return verify


def test_a_lost_lock_is_renewed(verify: Any) -> None:
    at_maximum = a_gpu(0, **IDLE, **{"clocks.current.graphics": "1410"})
    status, report = verify([at_maximum, a_gpu(1, **IDLE)])
    assert (status, report["problems"], report["renewed"]) == (0, [], ["00000002:00:00.0"])
    assert report["said"] == (
        "gpu_clocks: 2 of 2 GPUs at their maximum; lock renewed: 00000002:00:00.0"
    )


def test_clocks_at_their_maximum_are_left_alone(verify: Any, tmp_path: Path) -> None:
    status, report = verify([a_gpu(0, **{"clocks.current.graphics": "1410"})])
    calls = [json.loads(line)[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert (status, report["renewed"], [call[:7] for call in calls]) == (0, [], ["--query"])


def test_an_idle_gpu_that_clocks_down_is_proved_under_a_load(verify: Any) -> None:
    status, report = verify([a_gpu(0, deaf=True, **IDLE)])
    assert (status, report["problems"], report["renewed"]) == (0, [], [])
    assert report["said"] == "gpu_clocks: 1 of 1 GPUs at their maximum"


def test_a_gpu_at_its_power_limit_is_no_fault_and_gets_no_load(verify: Any) -> None:
    status, report = verify([a_gpu(0, deaf=True, **H100, **AT_WORK)], said="must not run")
    assert (status, report["problems"], report["renewed"]) == (0, [], [])
    assert report["said"].endswith("not proved: 00000001:00:00.0 (its power limit slows it)")


def test_a_gpu_that_is_slow_under_a_load_fails(verify: Any) -> None:
    status, report = verify([a_gpu(0, deaf=True, **IDLE)], clock="1200", reasons="0x4")
    (problem,) = report["problems"]
    assert status == 1
    assert problem.startswith(
        "GPU 00000001:00:00.0: under load the graphics clock runs at 1200 MHz, its maximum is"
        " 1410 MHz (software power cap)"
    )
    assert report["said"].endswith("(it is slow under load)")


@parametrized(("changes", "said", "why"))
def test_what_cannot_be_proved_is_named(
    verify: Any, changes: dict[str, str], said: str, why: str
) -> None:
    status, report = verify([a_gpu(0, deaf=True, **changes)], said=said)
    assert status == 0
    assert f"0 of 1 GPUs at their maximum; not proved: 00000001:00:00.0 ({why}" in report["said"]


def test_a_slow_gpu_in_use_gets_no_load(verify: Any) -> None:
    """Its clock is read as it is; that it is locked again does not raise it."""
    status, report = verify([a_gpu(0, deaf=True)], said="must not run")
    assert status == 1
    assert "locked to 1410 MHz" in report["problems"][0]


class FakeCuda:
    """CUDA's driver, which keeps what it was asked and fails at one call."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls = fails, []

    def __getattr__(self, name: str) -> Any:
        def call(*_given: Any) -> int:
            self.calls.append(name)
            return 999 if name == self.fails else 0

        return call


def test_the_load_launches_a_kernel_and_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda = FakeCuda()
    monkeypatch.setattr(gpu_clocks.ctypes, "CDLL", lambda _name: cuda)
    assert gpu_clocks.main(["load", "0001:00:00.0"]) == 0
    assert capsys.readouterr().out == "running\n"
    assert cuda.calls[-2:] == ["cuLaunchKernel", "cuCtxSynchronize"]
    cuda = FakeCuda("cuModuleLoadData")
    assert gpu_clocks.main(["load", "0001:00:00.0"]) == 1
    said = "cuModuleLoadData of CUDA's driver failed with status 999"
    assert capsys.readouterr().out == said


def test_without_cuda_the_load_says_so(tmp_path: Path) -> None:
    idle = a_gpu(0, deaf=True, **IDLE)
    status, report = Machine(tmp_path, gpus=[idle]).run("verify")
    assert (status, report["problems"]) == (0, [])
    assert "libcuda.so.1 of the driver cannot be loaded" in report["gpus"][0]["unproved"]
