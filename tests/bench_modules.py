"""Runs a benchmark module in this process, with its benchmark replaced by a recording of one."""

from __future__ import annotations

import importlib
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.common import warnings
from ansible.module_utils.trueup_node.node.topology import Topology
from ansible.module_utils.trueup_node.run import bench, process
from ansible.module_utils.trueup_node.run import slurm_job as slurm
from ansible.module_utils.trueup_node.run.launcher import Launcher
from ansible.module_utils.trueup_node.run.resume import identity
from helpers import answer_of
from record_schema import RECORDS
from trueup_options import RETURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

_FOLDER = re.compile(r"(?<=/trueup-)[a-z-]+-\w{8}(?=/|$)")
# What a launch on two nodes is given besides their names.
LAUNCHED = {
    "launcher": "mpirun",
    "hosts": ["a", "b"],
    "launcher_path": "/opt/mpirun",
    "launcher_arguments": ["-v"],
}
COMMON = {"run_id": "20261120T091300Z-7c1e", "node_name": "node-1"}


class FakeRun:
    """Stands in for process.run and slurm.run: answers as told and remembers how it was called.

    Args:
        lost: what a launcher finds wrong with its nodes before it starts anything.
        ending: of process.Completed, what is not as after a good run of 4.5 s; or ``error``, to be
            raised.
    """

    def __init__(self, *, lost: Sequence[str] = (), **ending: Any) -> None:
        self.lost = list(lost)
        self.calls: list[dict[str, Any]] = []
        self.ending: dict[str, Any] = {
            "returncode": 0,
            "stdout": "",
            "stderr": "",
            "seconds": 4.5,
            "timed_out": False,
            "out_of_memory": False,
            **ending,
        }

    def __call__(self, argv: list[str], **options: Any) -> process.Completed:
        self.calls.append({"argv": list(argv), **options})
        if isinstance(self.ending.get("error"), BaseException):
            raise self.ending["error"]
        return process.Completed(argv=tuple(argv), **self.ending)


class Runner:
    """One module under test."""

    def __init__(
        self,
        module: ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
        usual: Mapping[str, Any],
    ) -> None:
        self._module, self._monkeypatch, self._capsys = module, monkeypatch, capsys
        self._usual = usual
        monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
        # What this machine has of a test's programs is not what a node has.
        monkeypatch.setattr(bench, "program_digest", lambda _: None)
        # The nodes of tests are none.
        monkeypatch.setattr(Launcher, "lost", lambda _: [])
        monkeypatch.setattr(Launcher, "_remove", lambda *_: [])
        # A module's process ends with it; this one keeps what other tests' modules have warned of.
        monkeypatch.setattr(warnings, "_global_warnings", {})
        monkeypatch.setattr(warnings, "_global_deprecations", {})
        # Other tests load the controller's code here, which would show a module's warnings.
        monkeypatch.setattr(warnings._internal, "is_controller", False)

    def __call__(self, run: FakeRun, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """The module's result; ``failed`` says whether it ended by fail_json."""
        self._monkeypatch.setattr(process, "run", run)
        self._monkeypatch.setattr(slurm, "run", run)
        if run.lost:
            self._monkeypatch.setattr(Launcher, "lost", lambda _: run.lost)
        given = {**COMMON, **self._usual, **arguments, "_ansible_check_mode": check}
        return answer_of(self._module, self._capsys, **given)


def node_of(gpu: str) -> dict[str, Any]:
    """A node with four such GPUs, as the modules are given it."""
    gpus = [{"name": gpu, "pci": f"000{number}:00:00.0"} for number in range(1, 5)]
    return {"gpus": gpus, "os": "Ubuntu 24.04", "kernel": "6.8.0-1017-azure"}


def on_four_gpus(
    runner: Any, monkeypatch: pytest.MonkeyPatch, module: ModuleType, gpu: str, **usual: Any
) -> Any:
    """A runner on a node of two CPUs, each its own NUMA node, which two GPUs are beside."""
    two = Topology(cpus=(0, 1), numa={0: (0,), 1: (1,)}, l3_groups=(), cores=((0,), (1,)))
    monkeypatch.setattr(module, "read_topology", lambda **_: two)
    return runner(module, gpu_masks=["1", "2", "1", "2"], node=node_of(gpu), **usual)


def goes_well(run_module: Any, run: FakeRun, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a module returns after a good run, and its record, which keeps to the schema."""
    result = run_module(run, **given)
    record = result["record"]
    RECORDS.validate(record)
    assert (record["outcome"], record["reason"]) == ("ok", None)
    return result, record


def checks_only(output: str, *, leaves: str | None = None, **given: Any) -> Callable[..., None]:
    """A test: in check mode a module runs nothing, says what it would run, and has all keys.

    Args:
        output: of a run that goes well.
        leaves: a folder below tmp_path that must be empty afterwards.
        given: the module's arguments.
    """

    def test(run_module: Any, tmp_path: Path) -> None:
        run = FakeRun(stdout=output)
        result = run_module(run, check=True, **given)
        left = list((tmp_path / leaves).iterdir()) if leaves else []
        real = run_module(FakeRun(stdout=output), **given)
        assert (run.calls, left) == ([], [])
        assert set(result) - {"warnings"} == set(real) - {"warnings"}
        assert {*RETURNED} <= set(real)
        assert (result["record"], result["raw"], result["ansible_facts"]) == (None, None, {})
        assert result["environment"] == real["environment"]
        # A folder of the run has a name of its own.
        assert [_FOLDER.sub("", word) for word in result["command"]] == [
            _FOLDER.sub("", word) for word in real["command"]
        ]

    return test


def ends_badly(
    *endings: tuple[Mapping[str, Any], str, str], leaves: str | None = None, **given: Any
) -> Callable[..., None]:
    """Tests: a benchmark that ends so, or whose program is not there, fails the module, with a
    record that says why.

    Args:
        endings: of FakeRun; the record's outcome; a part of its reason.
        leaves: a folder below tmp_path that must be empty afterwards.
        given: the module's arguments.
    """

    absent = {"error": FileNotFoundError(2, "No such file or directory")}

    @pytest.mark.parametrize(
        ("ending", "outcome", "reason"), [(absent, "failed", "cannot be run"), *endings]
    )
    def test(
        run_module: Any, tmp_path: Path, ending: dict[str, Any], outcome: str, reason: str
    ) -> None:
        result = run_module(FakeRun(**ending), **given)
        record = result["record"]
        RECORDS.validate(record)
        assert (result["failed"], record["outcome"]) == (True, outcome)
        assert (reason in record["reason"], reason in result["msg"]) == (True, True)
        if outcome == "failed":
            assert (record["metrics"], "ansible_facts" in result) == ([], False)
        if leaves:
            assert list((tmp_path / leaves).iterdir()) == []

    return test


def refuses(
    *inputs: tuple[Mapping[str, Any], str], leaves: str | None = None, **given: Any
) -> Callable[..., None]:
    """Tests: input that cannot work fails the module in one sentence, before anything runs.

    Args:
        inputs: the module's arguments; a part of the message.
        leaves: a folder below tmp_path that must be empty afterwards.
        given: arguments where inputs have no others.
    """

    @pytest.mark.parametrize(("arguments", "message"), inputs)
    def test(run_module: Any, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
        run = FakeRun()
        result = run_module(run, **{**given, **arguments})
        assert result["failed"] is True
        assert message in result["msg"]
        assert "\n" not in result["msg"]
        assert (result["record"], run.calls) == (None, [])
        if leaves:
            assert list((tmp_path / leaves).iterdir()) == []

    return test


def resumes(
    run_module: Any,
    good: Callable[[], FakeRun],
    module: ModuleType,
    changed: Mapping[str, Any],
    *,
    along: Mapping[str, Mapping[str, Any]] | None = None,
    idle: Mapping[str, Any] | None = None,
) -> None:
    """A record of the run stands for the same case, and for none in which one option differs.

    Args:
        run_module: runs the module with arguments.
        good: a new run that ends well.
        module: the module.
        changed: for every option of the module, another value of it.
        along: of an option that counts with others only, those others, in both cases.
        idle: another value of the options that change no figure: the record stands all the same.
    """
    assert {*changed, *(idle or {})} == own_options(module)
    earlier = _recorded(run_module, good)
    again = good()
    taken = run_module(again, earlier=earlier)
    assert (taken["resumed"], taken["record"], again.calls) == (0, None, [])
    measured = set()
    for name, value in changed.items():
        others = (along or {}).get(name, {})
        before = _recorded(run_module, good, **others) if others else earlier
        again = run_module(good(), check=True, earlier=before, **{**others, name: value})
        measured |= {name} if again["resumed"] is None else set()
    assert measured == set(changed)
    # How long it may take changes no figure.
    for name, value in {**(idle or {}), "timeout_seconds": 77}.items():
        assert run_module(good(), earlier=earlier, **{name: value})["resumed"] == 0
    # A record of another kernel or node does not stand for this one.
    for other in ({"nodes": ["node-9"]}, {"system": {}}, {"program": "0" * 12}):
        again = run_module(good(), check=True, earlier=[{**earlier[0], **other}])
        assert again["resumed"] is None


def own_options(module: ModuleType) -> set[str]:
    """Names of a module's options that not every benchmark module has."""
    tool = module.__name__.removesuffix("_bench")
    case = importlib.import_module(f"ansible.module_utils.trueup_node.benchmarks.{tool}.case")
    common = {"timeout_seconds", *(one.name for one in bench.COMMON)}
    return set(bench.argument_spec(case.OPTIONS)) - common


def _recorded(run_module: Any, good: Callable[[], FakeRun], **given: Any) -> list[dict[str, Any]]:
    """What is compared of a record of a case."""
    return list(json.loads(json.dumps([identity(run_module(good(), **given)["record"])])))
