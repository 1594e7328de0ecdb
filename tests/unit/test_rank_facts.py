"""The module rank_facts: where ranks are by their own account, against where they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bench_modules
import pytest
import rank_facts
from ansible.module_utils.trueup_node.errors import ParseError
from ansible.module_utils.trueup_node.node.affinity import Placement
from ansible.module_utils.trueup_node.node.topology import Topology, read_topology
from ansible.module_utils.trueup_node.run import launcher, process, ranks
from ansible.module_utils.trueup_node.run.ranks import Rank
from bench_modules import FakeRun
from helpers import parametrized

if TYPE_CHECKING:
    pass

PAIR = Placement(2, 2, "core", ((0, 1), (2, 3)))
# Here only the CPUs that this process may use can be planned for.
ONE = "trueup-rank n1 {cpu} - 0 =*\n"


def good(text: str, *, nodes: int = 2) -> str | None:
    return ranks.judge(ranks.parse_ranks(text), PAIR, nodes)


@parametrized(("line", "why"))
def test_a_damaged_line_is_refused(line: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        ranks.parse_ranks(line)


@parametrized(("text", "why"))
def test_ranks_elsewhere_are_named(text: str, why: str) -> None:
    assert good(text) == why


GPUS = "".join(
    f"trueup-gpu n1 {number}, {domain:08x}:00:00.0, GPU-{number}ab\n"
    for number, domain in enumerate((1, 2, 3))
)
BESIDE = {"0001:00:00.0": "2-3", "0002:00:00.0": "2-3", "0003:00:00.0": "0-1"}


@parametrized(("ranks_of", "why"))
def test_whether_ranks_are_beside_their_gpus(
    ranks_of: list[tuple[str, str | None]], why: str | None
) -> None:
    found = [
        Rank("n1", cpus, None, number, visible) for number, (cpus, visible) in enumerate(ranks_of)
    ]
    said = ranks.judge_gpus(found, ranks.parse_gpus(GPUS), BESIDE)
    assert (said is None) == (why is None)
    assert (why or "") in (said or "")


@parametrized("text")
def test_gpus_that_are_not_told_are_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        ranks.parse_gpus(text)


@pytest.fixture(name="run_module")
def _run_module(runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("run_id", "node_name"):
        monkeypatch.delitem(bench_modules.COMMON, name)  # it is no benchmark
    return runner(rank_facts)


def first_cpu() -> int:
    return read_topology(allowed=rank_facts.os.sched_getaffinity(0)).cores[0][0]


def test_a_rank_where_it_should_be(run_module: Any) -> None:
    run = FakeRun(stdout=ONE.format(cpu=first_cpu()))
    result = run_module(run)
    assert result["ansible_facts"] == {
        "trueup_ranks": {
            "launcher": "local",
            "ranks": [
                {
                    "node": "n1",
                    "cpus": str(first_cpu()),
                    "hwloc": None,
                    "number": 0,
                    "visible": None,
                }
            ],
        }
    }
    assert result["planned"] == [str(first_cpu())]
    assert run.calls[0]["argv"] == result["command"]
    assert result["command"][0] == "taskset"


@parametrized(("mask", "why"))
def test_a_rank_is_compared_with_its_gpu(
    run_module: Any, monkeypatch: pytest.MonkeyPatch, mask: str, why: str | None
) -> None:
    machine = Topology(
        cpus=(0, 1), cores=((0,), (1,)), l3_groups=((0,), (1,)), numa={0: (0,), 1: (1,)}
    )
    monkeypatch.setattr(rank_facts, "read_topology", lambda **_: machine)
    text = "trueup-rank n1 0 - 0 =*\ntrueup-gpu n1 0, 00000001:00:00.0, GPU-1\n"
    result = run_module(
        FakeRun(stdout=text),
        gpus=True,
        gpu_masks=[mask] if mask else [],
        node={"gpus": [{"pci": "0001:00:00.0"}]},
    )
    assert bool(result.get("failed")) == (why is not None)
    assert (why or "") in result.get("msg", "")
    if why is None:
        assert "nvidia-smi" in result["command"][-1]


def test_ranks_are_bound_beside_their_gpus_and_started_by_the_nodes_mpi(run_module: Any) -> None:
    libraries = {"LD_LIBRARY_PATH": "/opt/hpcx-v2/ompi/lib"}
    mpi = {"path": "/opt/hpcx-v2/ompi/bin/mpirun", "kind": "hpcx", "environment": libraries}
    given = {"launcher": "mpirun", "nodes": ["a", "b"], "ranks": 2, "binding": "gpu"}
    run = FakeRun()
    result = run_module(run, check=True, gpu_masks=["c", "3"], node={"mpi": mpi}, **given)
    assert result["planned"] == ["2-3", "0-1"]
    assert result["command"][0] == "/opt/hpcx-v2/ompi/bin/mpirun"
    assert "LD_LIBRARY_PATH" in result["command"]
    refused = run_module(run, check=True, **given)
    assert "binding gpu needs gpu_masks" in refused["msg"]


@pytest.mark.parametrize(
    ("ending", "arguments", "why"),
    [
        ({"stdout": ""}, {}, "launcher local: 0 ranks told where they are instead of 1"),
        ({"returncode": 3}, {}, "ended with exit status 3"),
        ({"stdout": "trueup-rank n1 x y 0 =*"}, {}, "CPU list"),
        ({"error": FileNotFoundError(2, "No such file")}, {}, "No such file"),
        ({}, {"nodes": ["a", "b"]}, "launcher local cannot run on 2 nodes"),
        ({}, {"ranks": 100000}, "this machine has"),
        ({}, {"launcher": "slurm"}, "launcher slurm needs nodes"),
        ({}, {"launcher": "slurm", "nodes": ["a"]}, "needs job_directory"),
    ],
)
def test_what_cannot_be_is_said(
    run_module: Any, ending: dict[str, Any], arguments: dict[str, Any], why: str
) -> None:
    result = run_module(FakeRun(**ending), **arguments)
    assert result["failed"] is True
    assert why in result["msg"]


def test_a_lost_node_is_named_before_anything_starts(
    run_module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher.Launcher, "lost", lambda _self: ["node b does not answer ssh"])
    run = FakeRun()
    result = run_module(run, nodes=["a", "b"], launcher="mpirun")
    assert (result["msg"], run.calls) == ("launcher mpirun: node b does not answer ssh", [])
    assert process.run is run
