"""Rows of catalog/acceptance.yml: what is read, and what is refused with its place."""

from __future__ import annotations

import calendar
import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import machines
import pytest
import recorded_runs
import role_plans
import untested
import yaml
from helpers import parametrized
from trueup_controller import acceptance
from trueup_node.errors import BadInput
from trueup_node.node import link_flaps

ROOT = Path(__file__).parents[2]
ROW: dict[str, Any] = {"id": "a", "what": "w", "minutes": 1, "test": "t", "expected": "e"}
STEP = {"run": ["true"], "seconds": 1}
CHANGES: dict[str, Any] = {
    **ROW,
    "steps": [STEP],
    "restore": [STEP],
    "checks": [{"step": 1, "has": ["a"]}],
}


def test_the_catalog_is_read() -> None:
    found = acceptance.rows(yaml.safe_load((ROOT / acceptance.FILE).read_text()))
    by_id = {row.id: row for row in found}
    assert len(by_id) == len(found) >= 61
    assert by_id["stream-hbv3"].applies == {"vm_size": ["Standard_HB120rs_v3"]}
    assert "320 GB/s" in by_id["stream-hbv3"].expected


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "it is None: it must be a mapping"),
        ({"rows": {}}, "rows is {}: it must be a list"),
        ({"rows": ["a"]}, "rows[0] is 'a': it must be a mapping"),
        ({"rows": [CHANGES, {**CHANGES}]}, "the id a stands twice"),
        ({"rows": [{**ROW, "id": ""}]}, "id is ''"),
        ({"rows": [{**ROW, "minutes": "1"}]}, "rows[0] ('a').minutes is '1': it must be"),
        ({"rows": [{**ROW, "applies": "hbv3"}]}, "applies is 'hbv3': it must be a mapping"),
        ({"rows": [{**ROW, "expcted": "e"}]}, "expcted is not known; did you mean expected?"),
        ({"rows": [{**ROW, "checks": ["a"]}]}, "checks[0] is 'a': it must be a mapping"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "fact": "b"}]}]}, "a check asks one of"),
        (
            {"rows": [{**ROW, "checks": [{"command": ["ip", -4], "has": ["a"]}]}]},
            "command[1] is -4: it must be a text",
        ),
        ({"rows": [{**ROW, "checks": [{"command": "ip", "has": ["a"]}]}]}, "it must be a list"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "has": ["("]}]}]}, "no regular expression"),
        ({"rows": [{**ROW, "checks": [{"fact": "node.a", "from": "1"}]}]}, "from is '1'"),
        ({"rows": [{**ROW, "checks": [{"file": "/a"}]}]}, "the check of a file compares nothing"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "from": 1}]}]}, "a file has no from"),
        ({"rows": [ROW]}, "neither checks nor what it needs"),
        ({"rows": [{**ROW, "beyond": ["money"]}]}, "beyond is 'money'"),
        ({"rows": [{**CHANGES, "restore": []}]}, "stand together"),
        ({"rows": [{**CHANGES, "steps": [{"run": "ls", "seconds": 1}]}]}, "run is 'ls'"),
        ({"rows": [{**CHANGES, "steps": [{"run": ["ls"]}]}]}, "steps[0].seconds is missing"),
        ({"rows": [{**CHANGES, "checks": [{"step": 2, "has": ["a"]}]}]}, "there is no step 2"),
        ({"rows": [{**CHANGES, "checks": [{"file": "/a", "has": ["a"]}]}]}, "a step of its own"),
        ({"rows": [{**CHANGES, "given": [1]}]}, "given[0] is 1: it must be a text"),
    ],
)
def test_a_wrong_file_is_refused(data: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        acceptance.rows(data)
    assert (acceptance.FILE in str(caught.value), said in str(caught.value)) == (True, True)


# ---- each row with checks: passes, fails, and is of another machine -----------------------------

PAIRS = yaml.safe_load((ROOT / "tests" / "data" / "acceptance" / "pairs.yml").read_text())
ROWS = {
    row.id: row for row in acceptance.rows(yaml.safe_load((ROOT / acceptance.FILE).read_text()))
}
CHECKED = sorted(name for name, row in ROWS.items() if row.checks)
RECORDS = {one["benchmark"]: one for one in recorded_runs.every_tool().records}


def laid(base: Any, over: Any) -> Any:
    """A mapping with another one laid over it, in depth."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: laid(base.get(key), value) for key, value in over.items()}}


def a_record(given: dict[str, Any]) -> dict[str, Any]:
    """The real record of a benchmark, with these members and figures."""
    there = copy.deepcopy(RECORDS[given["benchmark"]])
    named = given.pop("figures", {})
    message = {"message_bytes": given.pop("message_bytes", None)}
    for row in there["metrics"]:
        if row["name"] in named:
            row.update(value=named[row["name"]], **{k: v for k, v in message.items() if v})
    lacking = set(named) - {row["name"] for row in there["metrics"]}
    there["metrics"] += [{"name": name, "value": named[name], **message} for name in lacking]
    return {"run_id": "20261123T000000Z-0001", **laid(there, {"outcome": "ok", **given})}


def ended(command: list[str], text: str = "", status: int | None = 0) -> dict[str, Any]:
    """A step as module evidence_steps returns it."""
    note = None if status == 0 else f"{command[0]} ended with exit status {status}"
    return {"command": " ".join(command), "status": status, "note": note, "output": text}


def steps_of(row: acceptance.Row, pair: dict[str, Any]) -> dict[str, Any]:
    """What came of a row's steps, by a pair: none after one that failed."""
    done = []
    for number, step in enumerate(row.steps, 1):
        status = pair.get("status", {}).get(number, 0)
        done.append(ended(step.run, pair.get("printed", {}).get(number, ""), status))
        if status:
            break
    return {"refused": None, "steps": done, "restored": [ended(one.run) for one in row.restore]}


def known(pair: dict[str, Any], row: acceptance.Row | None = None) -> acceptance.Facts:
    """What a pair says of a machine, for its row."""
    shown = machines.topology_of(pair["topology"]) if "topology" in pair else None
    node = role_plans.node(pair["family"], topology=shown)
    gpu = pair.get("gpu")
    if gpu and "nvlinks" in gpu:
        device = {
            "nvlinks": {"active": gpu["nvlinks"], "total": gpu["nvlinks"], "inactive": []},
            "fabric": {"state": gpu.get("fabric", "Completed"), "status": "Success"},
        }
        gpu = {**gpu, "devices": [device] * 8}
    return acceptance.Facts(
        facts={
            "node": laid(node, pair.get("node", {})),
            "gpu": gpu,
            "rdma": pair.get("rdma"),
            "run": pair.get("run"),
        },
        files=pair.get("files", {}),
        commands={
            **pair.get("commands", {}),
            **({" ".join(row.given): pair["given"]} if row and "given" in pair else {}),
        },
        done={row.id: steps_of(row, pair)} if row and "printed" in pair else {},
        programs=pair.get("programs", {}),
        records=[a_record(dict(one)) for one in pair.get("records", [])],
        rebooted=pair.get("rebooted", False),
    )


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_passes_on_its_machine_and_fails_on_a_planted_fault(name: str) -> None:
    pair = {key: value for key, value in PAIRS[name].items() if key != "fault"}
    found = [
        acceptance.settle(ROWS[name], known(one, ROWS[name]))
        for one in (pair, laid(pair, PAIRS[name]["fault"]))
    ]
    assert [one["outcome"] for one in found] == ["passed", "failed"], found
    assert len(found[0]["evidence"]) == len(ROWS[name].checks) + bool(ROWS[name].steps)


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_does_not_pass_where_nobody_looked(name: str) -> None:
    pair = PAIRS[name]
    nothing = {name: pair[name] for name in ("family", "programs") if name in pair}
    nothing["node"] = {**pair.get("node", {}), "metadata_status": None}
    found = acceptance.settle(ROWS[name], known(nothing))
    assert found["outcome"] in {"failed", "not measured"}, found


def test_every_pair_is_of_a_row() -> None:
    assert sorted(PAIRS) == CHECKED


CHANGING = sorted(name for name, row in ROWS.items() if row.steps)


@pytest.mark.parametrize("name", CHANGING)
def test_steps_are_done_where_they_are_asked_for(name: str) -> None:
    row = ROWS[name]
    asked = {key: value for key, value in PAIRS[name].items() if key != "printed"}
    found = acceptance.settle(row, known(asked, row))
    assert found["outcome"] == "not measured"
    assert "-e trueup_acceptance_change=true" in found["evidence"][0]
    assert acceptance.to_change([row], known(asked, row)) == [row]
    nobody = {**asked, "node": {**asked.get("node", {}), "privilege": None}}
    assert acceptance.to_change([row], known(nobody, row)) == []
    assert "need root" in acceptance.settle(row, known(nobody, row))["evidence"][0]


def of_steps(**done: Any) -> dict[str, Any]:
    """What came of the row sysctl-after-reboot whose steps ended so."""
    row = ROWS["sysctl-after-reboot"]
    pair = PAIRS[row.id]
    there = known(pair, row)
    return acceptance.settle(
        row, dataclasses.replace(there, done={row.id: {**steps_of(row, pair), **done}})
    )


@parametrized(("done", "outcome", "said"))
def test_what_came_of_steps(done: dict[str, Any], outcome: str, said: str) -> None:
    found = of_steps(**done)
    assert found["outcome"] == outcome
    assert said in "; ".join(found["evidence"])
    assert {name: found["done"][name] for name in done} == done


@pytest.mark.parametrize(("losses", "outcome"), [(2, "passed"), (1, "failed")])
def test_the_row_knows_how_lost_links_are_said(losses: int, outcome: str) -> None:
    seen = {"device": "mlx5_ib0", "interface": "ib0", "losses": losses, "last": "2026-11-23T0:0:0Z"}
    row = ROWS["link-losses"]
    pair = {**PAIRS[row.id], "rdma": {"problems": link_flaps.problems([seen], 6)}}
    assert acceptance.settle(row, known(pair, row))["outcome"] == outcome


def test_a_case_that_is_too_short_to_judge_settles_nothing() -> None:
    row = acceptance.rows({"rows": [{**ROW, "checks": [{"record": "stream"}]}]})[0]
    records = [a_record({"benchmark": "stream", "outcome": "too_short", "reason": "0.1 s"})]
    node = role_plans.node("hbv3")
    found = acceptance.settle(row, acceptance.Facts(facts={"node": node}, records=records))
    assert found["outcome"] == "not measured"


# ---- figures of one run beside each other -------------------------------------------------------


def beside(check: dict[str, Any], *figures: tuple[str, Any]) -> str:
    """The outcome of a check over records of one run: their layout and figure."""
    row = acceptance.rows(
        {"rows": [{**ROW, "checks": [{"record": "stream", "metric": "x", **check}]}]}
    )[0]
    records = [
        a_record({"benchmark": "stream", "parameters": {"layout": layout}, "figures": {"x": value}})
        for layout, value in figures
    ]
    node = role_plans.node("hbv3")
    found = acceptance.settle(row, acceptance.Facts(facts={"node": node}, records=records))
    return str(found["outcome"])


@parametrized(("figures", "outcome"))
def test_figures_that_are_alike(figures: Any, outcome: str) -> None:
    assert beside({"alike": 0.01}, *figures) == outcome


@parametrized(("figures", "outcome"))
def test_a_figure_that_is_not_below_another(figures: Any, outcome: str) -> None:
    assert beside({"where": {"layout": "a"}, "not_below": {"layout": "b"}}, *figures) == outcome


# ---- what is asked, and what earlier runs left --------------------------------------------------


def test_what_is_not_installed_is_not_applicable() -> None:
    pair = {**PAIRS["slurm-cgroups"], "programs": {"scontrol": None}}
    found = acceptance.settle(ROWS["slurm-cgroups"], known(pair))
    assert (found["outcome"], found["evidence"]) == (
        "not applicable",
        ["scontrol is not installed"],
    )
    assert "scontrol" in acceptance.asks(list(ROWS.values()), known(pair).facts["node"])["programs"]


def test_what_is_to_be_measured_is_named_once() -> None:
    rows = [ROWS[name] for name in ("binding-hbv3", "stream-hbv3", "gemm")]
    node = role_plans.node("hbv3")
    settled = [acceptance.settle(row, acceptance.Facts(facts={"node": node})) for row in rows]
    assert acceptance.to_measure(rows, settled) == ["devito", "stream"]


@pytest.mark.parametrize("value", ["231e9", None, True, float("nan")])
def test_a_figure_is_a_number_in_its_range(value: Any) -> None:
    row = acceptance.rows({"rows": [{**ROW, "checks": [{"fact": "node.x", "from": 1}]}]})[0]
    found = acceptance.settle(row, acceptance.Facts(facts={"node": {"x": value}}))
    assert found["outcome"] == "failed"


BEGUN, BOOTED = "2026-11-23T00:00:00Z", calendar.timegm((2026, 11, 23, 2, 0, 0))
LATER = "2026-11-23T03:00:00Z"


def a_run(folder: Path, number: int, begun: str, **changed: Any) -> None:
    """A run of the host ``a`` that ended an hour after it began."""
    run = folder / f"20261123T00000{number}Z-0001"
    run.mkdir(parents=True)
    ended = begun.replace("T00", "T01").replace("T03", "T04")
    manifest = {"playbook": "site.yml", "count": number, "started_at": begun, "finished_at": ended}
    manifest["hosts"] = {"a": {"changed": number, "failed": 0, "unreachable": 0}}
    (run / "run.json").write_text(json.dumps({**manifest, **changed}))


def test_the_second_run_counts_and_a_reboot_between_is_seen(tmp_path: Path) -> None:
    a_run(tmp_path, 1, BEGUN)
    once = acceptance.history(str(tmp_path), "a", BOOTED)
    assert (once.run, once.rebooted) == (None, True)
    a_run(tmp_path, 2, LATER)
    a_run(tmp_path, 3, LATER, playbook="check.yml")
    twice = acceptance.history(str(tmp_path), "a", BOOTED)
    assert twice.run is not None
    assert (twice.run["changed"], twice.run["after_boot"]) == (2, True)
    early = acceptance.history(str(tmp_path), "a", None)
    assert early.run is not None
    assert (early.run["after_boot"], early.rebooted) == (False, False)
    assert acceptance.history(str(tmp_path), "b", BOOTED).run is None


@pytest.mark.parametrize("text", ["", "[]", '{"playbook": "site.yml"}', "{", '{"hosts": 3}'])
def test_a_run_that_cannot_be_read_is_left_out(tmp_path: Path, text: str) -> None:
    a_run(tmp_path, 1, BEGUN)
    a_run(tmp_path, 2, LATER)
    for path in tmp_path.glob("*/run.json"):
        path.write_text(text)
    assert acceptance.history(str(tmp_path), "a", BOOTED) == acceptance.History([], None, False)


@parametrized("change")
def test_a_record_of_another_shape_is_left_out(tmp_path: Path, change: dict[str, Any]) -> None:
    a_run(tmp_path, 1, BEGUN)
    record = {**RECORDS["stream"], "nodes": ["a"], **change}
    (tmp_path / "20261123T000001Z-0001" / "one.json").write_text(json.dumps(record))
    assert acceptance.history(str(tmp_path), "a", BOOTED).records == []


@pytest.mark.parametrize(
    "path", ["node.gpus.name", "node.gpus.9.name", "node.no.such", "node.os.x"]
)
def test_a_fact_that_is_not_there_fails(path: str) -> None:
    row = acceptance.rows({"rows": [{**ROW, "checks": [{"fact": path, "is": "a"}]}]})[0]
    node = {**role_plans.node("ndv4"), "os": "Ubuntu"}
    assert acceptance.settle(row, acceptance.Facts(facts={"node": node}))["outcome"] == "failed"


def test_records_of_the_host_are_taken_from_all_runs(tmp_path: Path) -> None:
    a_run(tmp_path, 1, BEGUN)
    record = {**RECORDS["stream"], "nodes": ["a"]}
    for number, node in enumerate(("a", "b")):
        path = tmp_path / "20261123T000001Z-0001" / f"{number}.json"
        path.write_text(json.dumps({**record, "nodes": [node]}))
    found = acceptance.history(str(tmp_path), "a", BOOTED).records
    assert [one["nodes"] for one in found] == [["a"]]


# ---- bundles ------------------------------------------------------------------------------------


def a_bundle(date: str, outcome: str, replica: str | None = None) -> str:
    rows = [{"row": "r", "outcome": outcome, "evidence": ["e"]}]
    machine = {"vm_size": "S", "os": "O", "replica": replica, "rows": rows}
    return json.dumps({"schema": acceptance.SCHEMA, "date": date, "machines": [machine]})


def test_the_newest_of_each_machine_came_back() -> None:
    texts = [
        a_bundle("2026-12-02", "passed"),
        a_bundle("2026-12-01", "failed"),
        a_bundle("2026-12-03", "not measured"),
        a_bundle("2026-12-01", "failed", replica="ubuntu-hpc-22.04"),
    ]
    bundles = [untested.bundle(text, "b.json") for text in texts]
    assert untested.came_back("r", bundles) == [
        "passed 2026-12-02 (S, O)",
        "failed 2026-12-01 (replica ubuntu-hpc-22.04, O)",
    ]
    assert untested.came_back("other", bundles) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", a_bundle("2026-12-01", "fine"), '{"schema": "trueup.acceptance/1"}']
)
def test_what_is_no_bundle_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"b\.json is no bundle"):
        untested.bundle(text, "b.json")
