"""A benchmark of a Windows host: measured on the controller, its command on the host, the record as
the module on a Linux node gives it."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nv_a10_bench
import pytest
from ansible.module_utils.common import warnings
from ansible.module_utils.common.warnings import warn
from bench_modules import COMMON, FakeRun
from helpers import ROOT, parametrized
from record_schema import RECORDS
from trueup_controller.desktops.windows_bench import MOST_BYTES, completed, measured
from trueup_node import benchmarks
from trueup_node.benchmarks.nv_a10 import case as nv_a10
from trueup_node.errors import BadInput
from trueup_node.run.output_buffer import SHOWN
from trueup_node.run.resume import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DATA = ROOT / "tests" / "data" / "nv_a10"
CPU = (DATA / "ffmpeg902_s5.txt").read_text(encoding="utf-8")
A10 = (DATA / "synthetic_a10_s5.txt").read_text(encoding="utf-8")
OWN, BESIDE = A10.split("\n[beside]\n")
PROGRAM = r"C:\Program Files\trueup\ffmpeg\0123456789ab\bin\ffmpeg.exe"
DIGEST = "fedcba9876543210" * 4
NODE = {
    "system": "windows",
    "os": "Windows 11 Enterprise multi-session 25H2",
    "gpus": [{"name": "NVIDIA A10-8Q", "pci": "0002:00:00.0"}],
    "vm_size": "Standard_NV12ads_A10_v5",
}
GIVEN = {
    **COMMON,
    "ffmpeg": PROGRAM,
    "sessions": 5,
    "encoder": "h264_nvenc",
    "node": NODE,
    "width": 640,
    "height": 360,
    "frames": 600,
    "megabits_per_second": 5,
}


def kept(text: str, end: bytes = b"", size: int = 0) -> dict[str, Any]:
    """An output as the fragment tells it; what ``end`` ends has so many bytes in all."""
    whole = text.replace("\n", "\r\n").encode()
    return {
        "begin": base64.b64encode(whole).decode(),
        "end": base64.b64encode(end).decode(),
        "size": size or len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
    }


RESULT = {
    "busy": False,
    "returncode": 0,
    "stdout": kept(OWN),
    "stderr": kept(""),
    "seconds": 4.5,
    "timed_out": False,
    "beside": kept(BESIDE),
}


class Made:
    """A host that answers as told and remembers what it was asked."""

    def __init__(self, digest: str | None = DIGEST, **result: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.digest = digest
        self.result = {**RESULT, **result}

    def powershell(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((name, dict(parameters)))
        if "error" in self.result:
            raise ConnectionError(self.result["error"])
        return self.result

    def sha256(self, path: str) -> str | None:
        self.asked.append(("sha256", {"path": path}))
        return self.digest


def run(host: Made, *, check: bool = False, **given: Any) -> dict[str, Any]:
    whole = {**GIVEN, **given}
    return measured("nv_a10", nv_a10.OPTIONS, nv_a10.measure, whole, host, check_mode=check)


def test_the_command_runs_on_the_host() -> None:
    host = Made()
    result = run(host)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["vm_size"]) == ("ok", "Standard_NV12ads_A10_v5")
    assert record["software"] == {
        "program_digest": "fedcba987654",
        "ffmpeg": "n9.0.2-17-g2a571b6068-20260930",
    }
    assert record["environment"] == {}
    assert record["duration_seconds"] == 4.5
    [(_, stat), (name, asked)] = host.asked
    assert (stat, name) == ({"path": PROGRAM}, "measure")
    assert {key: asked[key] for key in ("Program", "TimeoutSeconds", "Variables")} == {
        "Program": PROGRAM,
        "TimeoutSeconds": 900,
        "Variables": {},
    }
    # One line, quoted as Windows' C runtime splits it.
    assert asked["Arguments"].startswith("-nostdin -nostats -loglevel verbose -benchmark")
    assert asked["Arguments"].count("-c:v h264_nvenc") == 5
    assert asked["BesideProgram"] == "nvidia-smi"
    assert asked["BesideArguments"].startswith("--query-gpu=")
    assert asked["BesideArguments"].endswith("--format=csv -lms 500")


@pytest.fixture(name="warned")
def _warned() -> Iterator[None]:
    """Another test of this process has warned of something."""
    warn("of another test")
    told = warnings._global_warnings
    yield
    told.clear()


@pytest.mark.usefixtures("warned")
def test_the_record_is_that_of_a_linux_node(runner: Any) -> None:
    module = runner(nv_a10_bench, **{name: GIVEN[name] for name in GIVEN if name not in COMMON})
    # The tests' own runner looks at no program here.
    linux = module(FakeRun(stdout=OWN, beside=BESIDE))
    windows = run(Made(digest=None))
    assert windows.keys() == linux.keys() - {"invocation"}
    assert windows["raw"] == linux["raw"]
    differs = {name for name in linux["record"] if linux["record"][name] != windows["record"][name]}
    assert differs <= {"started_at"}


def test_check_mode_runs_nothing() -> None:
    host = Made()
    result = run(host, check=True)
    assert [name for name, _ in host.asked] == ["sha256"]
    assert (result["record"], result["raw"], result["resumed"]) == (None, None, None)
    assert result["command"][0] == PROGRAM


def test_a_record_stands_for_the_same_case() -> None:
    earlier = json.loads(json.dumps([identity(run(Made())["record"])]))
    again = Made()
    result = run(again, earlier=earlier)
    assert (result["resumed"], result["record"]) == (0, None)
    assert [name for name, _ in again.asked] == ["sha256"]
    # Another ffmpeg at the same path is another program.
    assert run(Made(digest="0" * 64), earlier=earlier)["resumed"] is None
    assert run(Made(), earlier=earlier, sessions=2, check=True)["resumed"] is None


@pytest.mark.parametrize(
    ("result", "outcome", "reason"),
    [
        ({"busy": True}, "failed", "another benchmark still runs on this host"),
        ({"error": "the file was not found"}, "failed", "the file was not found"),
        ({"timed_out": True, "returncode": 1}, "failed", "ended at its time limit of 900 s"),
        (
            {
                "returncode": 1,
                "stdout": kept(""),
                "stderr": kept("[h264_nvenc @ 0] Cannot load nvcuda.dll"),
            },
            *("failed", "exit status 1 after 4.5 s: Cannot load nvcuda.dll"),
        ),
        ({"stdout": kept("")}, "failed", "output not understood"),
        ({"stdout": kept(CPU)}, "invalid", "encoder libx264 instead of h264_nvenc"),
    ],
)
def test_a_bad_end_gives_a_record(result: dict[str, Any], outcome: str, reason: str) -> None:
    found = run(Made(**result))
    RECORDS.validate(found["record"])
    assert (found["failed"], found["record"]["outcome"]) == (True, outcome)
    assert (reason in found["record"]["reason"], reason in found["msg"]) == (True, True)


def test_of_an_output_without_end_the_ends_are_kept() -> None:
    begin = b"begin\n" + b"a" * (MOST_BYTES - 6)
    told = {
        "begin": base64.b64encode(begin).decode(),
        "end": base64.b64encode(b"b" * SHOWN + b"\nthe end\n").decode(),
        "size": 10**12,
        "sha256": "5" * 64,
    }
    found = run(Made(stdout=told))
    why = "ffmpeg.exe printed 1000000000000 bytes on its standard output: more than 8 MiB are not"
    assert found["record"]["outcome"] == "failed"
    assert found["record"]["reason"].startswith(why)
    head, said, end = found["raw"].split("\n[trueup: ")[0], *found["raw"].split("]\n")[0:2]
    assert head == "begin"
    assert said.endswith(f"the whole has 1000000000000 bytes, SHA-256 {'5' * 64}")
    assert end.startswith("the end\n")
    # Just above the limit, what is kept of the end begins before what came last.
    done = completed(["a"], {**RESULT, "stderr": {**told, "end": "Y2Q=", "size": MOST_BYTES + 2}})
    assert len(done.stderr) == pytest.approx(48 << 10, abs=200)
    assert done.stderr.endswith("aaacd")
    assert done.cut == (
        f"a printed {MOST_BYTES + 2} bytes on its standard error: more than 8 MiB are not read",
    )
    assert completed(["a"], {**RESULT, "stderr": {**told, "end": "", "size": MOST_BYTES}}).cut == ()


@parametrized(("given", "message"))
def test_arguments_of_the_wrong_kind_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run(Made(), **given)


ROOMS = sorted(path.parent.name for path in Path(benchmarks.__path__[0]).glob("*/case.py"))
# What asks the machine that it runs on.
OF_THIS_MACHINE = {"os", "subprocess", "socket", "shutil", "pathlib", "platform", "tempfile"}


def test_rooms_measure_on_windows_what_their_modules_measure_on_linux() -> None:
    found = {}
    for room in ROOMS:
        case = importlib.import_module(f"trueup_node.benchmarks.{room}.case")
        if hasattr(case, "measure"):
            tree = ast.parse(Path(case.__file__ or "").read_text(encoding="utf-8"))
            named = {
                name.name.split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for name in node.names
            }
            named |= {
                (node.module or "").split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and not node.level
            }
            module = importlib.import_module(f"{room}_bench")
            found[room] = (module.measure.__code__.co_filename, named & OF_THIS_MACHINE)
    own = {room: (name.endswith(f"{room}/case.py"), asks) for room, (name, asks) in found.items()}
    assert own == {"nv_a10": (True, set())}
