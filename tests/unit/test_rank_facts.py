"""The module rank_facts: where ranks are by their own account, against where they should be."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import bench_modules
import pytest
import rank_facts
from ansible.module_utils.trueup.errors import ParseError
from ansible.module_utils.trueup.node.affinity import Placement
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.run import launcher, process, ranks
from ansible.module_utils.trueup.run.ranks import Rank
from bench_modules import FakeRun

if TYPE_CHECKING:
    pass

PAIR = Placement(2, 2, "core", ((0, 1), (2, 3)))
TWO_NODES = "".join(
    f"trueup-rank {node} {cpus} {mask}\n"
    for node in ("n1", "n2")
    for cpus, mask in (("2-3", "0xc"), ("0-1", "0x3"))
)
# Here only the CPUs that this process may use can be planned for.
ONE = "trueup-rank n1 {cpu} -\n"


def good(text: str, *, nodes: int = 2) -> str | None:
    return ranks.judge(ranks.parse_ranks(text), PAIR, nodes)


def test_ranks_tell_their_node_and_cpus() -> None:
    text = "Warning: Permanently added 'n1'\n" + TWO_NODES
    assert ranks.parse_ranks(text) == [
        Rank("n1", "2-3", "2-3"),
        Rank("n1", "0-1", "0-1"),
        Rank("n2", "2-3", "2-3"),
        Rank("n2", "0-1", "0-1"),
    ]
    assert good(text) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("trueup-rank n1 0-1", "not whole"),
        ("trueup-rank n1 0-1 0x3 x", "not whole"),
        ("trueup-rank n1 zero 0x3", "CPU list"),
        ("trueup-rank n1 0-1 mask", "no CPU list"),
    ],
)
def test_a_damaged_line_is_refused(line: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        ranks.parse_ranks(line)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 ranks told where they are instead of 4"),
        (TWO_NODES + TWO_NODES, "8 ranks told where they are instead of 4"),
        (TWO_NODES.replace("n2", "n1"), "ranks are not 2 on each of 2 nodes: 4 on n1"),
        (
            TWO_NODES.replace("n2 2-3 0xc", "n2 0-3 0xf"),
            "on n2 ranks are bound to 0-1/0-3 instead of 0-1/2-3",
        ),
        (
            TWO_NODES.replace("n1 2-3 0xc", "n1 2-3 0xf"),
            "on n1 hwloc-bind says 0-3 where the kernel says 2-3",
        ),
    ],
)
def test_ranks_elsewhere_are_named(text: str, why: str) -> None:
    assert good(text) == why


def test_unbound_ranks_may_be_anywhere() -> None:
    loose = Placement(2, 2, "none", ((), ()))
    text = TWO_NODES.replace("0-1 0x3", "0-63 -")
    assert ranks.judge(ranks.parse_ranks(text), loose, 2) is None
    assert ranks.planned(loose) == []


def test_the_probe_tells_what_the_kernel_says() -> None:
    told = subprocess.run(ranks.PROBE, check=True, capture_output=True, text=True).stdout
    (rank,) = ranks.parse_ranks(told)
    assert rank.cpus == ranks.format_cpu_list(rank_facts.os.sched_getaffinity(0))
    assert rank.hwloc in (None, rank.cpus)


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
            "ranks": [{"node": "n1", "cpus": str(first_cpu()), "hwloc": None}],
        }
    }
    assert result["planned"] == [str(first_cpu())]
    assert run.calls[0]["argv"] == result["command"]
    assert result["command"][0] == "taskset"


def test_check_mode_starts_nothing(run_module: Any) -> None:
    run = FakeRun()
    result = run_module(run, check=True)
    assert (run.calls, result["ansible_facts"], result["changed"]) == ([], {}, False)


@pytest.mark.parametrize(
    ("ending", "arguments", "why"),
    [
        ({"stdout": ""}, {}, "launcher local: 0 ranks told where they are instead of 1"),
        ({"returncode": 3}, {}, "ended with exit status 3"),
        ({"stdout": "trueup-rank n1 x y"}, {}, "CPU list"),
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
