"""The role devito's sweeps, with a stand-in of its module: who starts the one over nodes, which
nodes it may use, which layouts of a node are skipped, and what a resumed run measures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import plays
import pytest
import yaml
from ansible.module_utils.trueup_node.benchmarks.devito import case
from ansible.module_utils.trueup_node.run.bench import argument_spec
from helpers import parametrized

ROOT = Path(__file__).parents[2]
RUN = "20261120T091300Z-7c1e"
NODES = ["n1", "n2", "n3"]
# Returns a record of what it was asked for: ok, or failed where nodes are absent.
MODULE = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup_node.run.resume import identity, standing
def main():
    spec = {name: {"type": "raw"} for name in json.loads(os.environ["PARAMETERS"])}
    given = AnsibleModule(argument_spec=spec)
    asked = given.params
    record = json.loads(open(os.environ["RECORD"]).read())
    mpi = asked["mpi_mode"] if len(asked["nodes"] or []) > 1 else "off"
    record.update(
        benchmark="devito", outcome="ok", reason=None, run_id=asked["run_id"],
        nodes=asked["nodes"] or [asked["node_name"]], node_count=len(asked["nodes"] or [1]),
        case="%s-%s-%s" % (asked["shape"], len(asked["nodes"] or []), asked["scaling"]),
    )
    record["parameters"] = {
        **{name: asked[name] for name in ("model", "shape", "scaling", "binding")},
        **{name: int(asked[name]) for name in ("space_order", "tn_ms", "nbl", "repeats")},
        "layout": "%sx%s" % (asked["ranks"], asked["threads_per_rank"]),
        "launcher": asked["launcher"] or "local", "mpi": mpi, "autotune": asked["autotune"],
    }
    record.update(ranks=int(asked["ranks"]), threads_per_rank=int(asked["threads_per_rank"]))
    for row in record["metrics"]:
        row["value"] = json.loads(os.environ["SECONDS"]).get(record["parameters"]["layout"], 1.0)
    taken = standing(asked["earlier"], record)
    if taken is not None:
        given.exit_json(changed=False, record=None, raw=None, resumed=taken)
    with open(os.environ["CALLED"], "a") as stream:
        keys = ("node_name", "nodes", "absent", "shape", "scaling", "threads_per_rank")
        stream.write(json.dumps({name: asked[name] for name in keys}) + "\\n")
    if asked["absent"]:
        record.update(outcome="failed", reason="absent", metrics=[])
        given.fail_json(msg="absent", record=record, raw="words")
    given.exit_json(changed=False, record=record, raw="words", resumed=None)
main()
"""
NODE = {
    "layouts": [{"ranks": 1, "threads_per_rank": 2, "binding": "core"}],
    "programs": {"mpirun": "/x", "gcc": "/x"},
    "privilege": None,
    "catalog": None,
}


class Sweep:
    """Runs of one play over three nodes that are this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Beside the play it is found before that of the project.
        (folder / "library").mkdir()
        (folder / "library" / "devito_bench.py").write_text(MODULE)
        self.node = NODE
        self.seconds: dict[str, float] = {}
        self.variables: dict[str, Any] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "trueup_run_id": RUN,
            "trueup_results": str(folder / "results"),
            "devito_python": sys.executable,
            "devito_nodes": NODES,
            "devito_node_mpi_modes": ["basic"],
        }

    def run(
        self, *arguments: str, sick: str = "", skipped: str = "", **more: Any
    ) -> tuple[int, list[dict[str, Any]]]:
        """Exit status, and what the module was asked for over nodes."""
        play = [
            {
                "name": "Sweep",
                "hosts": "all",
                "gather_facts": False,
                "tasks": [
                    {
                        "ansible.builtin.set_fact": {
                            "trueup_run_id": RUN,
                            "trueup_node": self.node,
                            "cacheable": True,
                        }
                    },
                    {
                        "ansible.builtin.set_fact": {
                            "trueup_skipped": [{"what": "devito", "why": "no gcc"}]
                        },
                        "when": f"inventory_hostname == '{skipped}'",
                    },
                    {
                        "ansible.builtin.fail": {"msg": "sick"},
                        "when": f"inventory_hostname == '{sick}'",
                    },
                    {
                        "ansible.builtin.include_role": {
                            "name": "devito",
                            "tasks_from": "benchmark",
                        },
                        "when": f"inventory_hostname != '{skipped}'",
                    },
                ],
            }
        ]
        (self.folder / "play.yml").write_text(json.dumps(play))
        hosts = {"all": {"hosts": dict.fromkeys(NODES), "vars": self.variables}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
        called = self.folder / "called"
        called.unlink(missing_ok=True)
        asked = [*argument_spec(case.OPTIONS)]
        done = plays.playbook(
            self.folder,
            *("--inventory", str(self.folder / "hosts.yml"), str(self.folder / "play.yml")),
            *("-e", json.dumps(more), *arguments),
            env={
                "PARAMETERS": json.dumps(sorted(asked)),
                "RECORD": str(ROOT / "tests" / "data" / "records" / "valid.json"),
                "CALLED": str(called),
                "SECONDS": json.dumps(self.seconds),
            },
        )
        self.said = done.stdout + done.stderr
        lines = called.read_text().splitlines() if called.exists() else []
        calls = [json.loads(line) for line in lines]
        # A node's own sweep names no nodes.
        self.own = [call for call in calls if not call["nodes"]]
        return done.returncode, [call for call in calls if call["nodes"]]


@pytest.fixture(name="sweep")
def _sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def brief(calls: list[dict[str, Any]]) -> list[tuple[str, int, list[str]]]:
    return [(call["node_name"], len(call["nodes"]), call["absent"]) for call in calls]


def test_a_sweep_and_what_is_measured_again(sweep: Sweep) -> None:
    status, calls = sweep.run()
    assert (status, brief(calls)) == (0, [("n1", 1, []), ("n1", 2, []), ("n1", 3, [])]), sweep.said
    assert sweep.run() == (0, [])
    # The smallest case of a weak series has the shape of the strong one.
    status, calls = sweep.run(devito_node_scaling="weak")
    assert (status, [call["scaling"] for call in calls]) == (0, ["weak"] * 3), sweep.said
    # Other nodes are another case.
    status, calls = sweep.run(devito_nodes=["n1", "n3"])
    assert (status, brief(calls)) == (0, [("n1", 2, [])]), sweep.said


@parametrized(("arguments", "given", "status", "lead", "absent"))
def test_nodes_that_take_no_part_are_not_measured_on(
    sweep: Sweep,
    arguments: list[str],
    given: dict[str, str],
    status: int,
    lead: str,
    absent: list[str],
) -> None:
    ended, calls = sweep.run(*arguments, **given)
    wanted = [
        (lead, count, [node for node in NODES[:count] if node in absent]) for count in (1, 2, 3)
    ]
    assert (ended, brief(calls)) == (status, wanted), sweep.said
    failed = sum(bool(names) for _, _, names in wanted)
    assert "; ".join(["absent"] * failed) in " ".join(sweep.said.split())


def test_layouts_that_cannot_win_are_skipped_by_name(sweep: Sweep) -> None:
    counts = [1, 2, 4, 8]
    rows = [{"ranks": 1, "threads_per_rank": count, "binding": "none"} for count in counts]
    numa = [{"node": 0, "cpus": "0-7"}]
    sweep.node = {**NODE, "cores": 8, "numa": numa, "layouts": rows, "warnings": []}
    sweep.seconds = {"1x8": 3.0, "1x4": 4.0, "1x2": 6.0, "1x1": 9.0}
    alone = {"devito_nodes": []}
    assert sweep.run("--limit", "n1", **alone)[0] == 0, sweep.said
    assert [call["threads_per_rank"] for call in sweep.own] == [8, 4]
    why = "fewer threads of one rank are slower: 4 took 4 s, 8 took 3 s"
    what = [f"devito 1 rank(s) x {count} thread(s), binding none" for count in (2, 1)]
    assert [f"n1: skipped: {name}: {why}" in sweep.said for name in what] == [True, True]
    manifest = json.loads((sweep.folder / "results" / RUN / "run.json").read_text())
    skipped = [{"node": "n1", "what": name, "why": why} for name in what]
    assert manifest["skipped"] == skipped
    assert "1 rank(s) x 8 thread(s), binding none, is the fastest of 2 layouts" in sweep.said
    # Again, and then all of them: those that were skipped, and no other.
    assert sweep.run("--limit", "n1", **alone) == (0, [])
    assert sweep.own == []
    assert sweep.run("--limit", "n1", devito_search="all", **alone) == (0, [])
    assert [call["threads_per_rank"] for call in sweep.own] == [1, 2]


@pytest.mark.parametrize("name", ["benchmark", "health"])
def test_no_node_measures_beside_a_case_that_it_is_part_of(name: str) -> None:
    """The lock is held on the node that starts a case: the others are kept by the plays' order,
    whatever strategy a site sets."""
    [play] = [
        play
        for play in yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text())
        if "tasks" in play
    ]
    assert play["strategy"] == "ansible.builtin.linear"
