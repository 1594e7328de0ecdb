"""Rows of catalog/acceptance.yml: what is read, and what is refused with its place."""

from __future__ import annotations

import calendar
import copy
import json
from pathlib import Path
from typing import Any

import machines
import pytest
import recorded_runs
import role_plans
import yaml
from trueup.cluster import acceptance
from trueup.errors import BadInput

ROOT = Path(__file__).parents[2]
ROW: dict[str, Any] = {"id": "a", "what": "w", "minutes": 1, "test": "t", "expected": "e"}


def test_the_catalog_is_read() -> None:
    found = acceptance.rows(yaml.safe_load((ROOT / acceptance.FILE).read_text()))
    by_id = {row.id: row for row in found}
    assert len(by_id) == len(found) >= 61
    assert by_id["stream-hbv3"].applies == {"vm_size": ["Standard_HB120rs_v3"]}
    assert "320 GB/s" in by_id["stream-hbv3"].expected


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "list `rows`"),
        ({"rows": {}}, "list `rows`"),
        ({"rows": ["a"]}, "row 1 is not a mapping"),
        ({"rows": [ROW, {**ROW}]}, "the id a stands twice"),
        ({"rows": [{**ROW, "id": ""}]}, "id is missing"),
        ({"rows": [{**ROW, "minutes": "1"}]}, "row 1 (a): minutes is missing or no int"),
        ({"rows": [{**ROW, "applies": "hbv3"}]}, "applies is missing or no dict"),
        ({"rows": [{**ROW, "expcted": "e"}]}, "there is no expcted in a row"),
        ({"rows": [{**ROW, "checks": ["a"]}]}, "a check asks one of file, command"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "fact": "b"}]}]}, "a check asks one of"),
        (
            {"rows": [{**ROW, "checks": [{"command": ["ip", -4], "has": ["a"]}]}]},
            "no list of texts",
        ),
        ({"rows": [{**ROW, "checks": [{"command": "ip", "has": ["a"]}]}]}, "no list of texts"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "has": ["("]}]}]}, "no regular expression"),
        ({"rows": [{**ROW, "checks": [{"fact": "node.a", "from": "1"}]}]}, "is no number"),
        ({"rows": [{**ROW, "checks": [{"file": "/a"}]}]}, "the check of /a compares nothing"),
        ({"rows": [{**ROW, "checks": [{"file": "/a", "from": 1}]}]}, "a file has no from"),
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


def known(pair: dict[str, Any]) -> acceptance.Known:
    """What a pair says of a machine."""
    shown = machines.topology_of(pair["topology"]) if "topology" in pair else None
    node = role_plans.node(pair["family"], topology=shown)
    gpu = pair.get("gpu")
    if gpu and "nvlinks" in gpu:
        device = {"nvlinks": {"active": gpu["nvlinks"], "total": gpu["nvlinks"], "inactive": []}}
        gpu = {**gpu, "devices": [device] * 8}
    return acceptance.Known(
        facts={
            "node": laid(node, pair.get("node", {})),
            "gpu": gpu,
            "rdma": pair.get("rdma"),
            "run": pair.get("run"),
        },
        files=pair.get("files", {}),
        commands=pair.get("commands", {}),
        programs=pair.get("programs", {}),
        records=[a_record(dict(one)) for one in pair.get("records", [])],
        rebooted=pair.get("rebooted", False),
    )


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_passes_on_its_machine_and_fails_on_a_planted_fault(name: str) -> None:
    pair = {key: value for key, value in PAIRS[name].items() if key != "fault"}
    found = [
        acceptance.settle(ROWS[name], known(one))
        for one in (pair, laid(pair, PAIRS[name]["fault"]))
    ]
    assert [one["outcome"] for one in found] == ["passed", "failed"], found
    assert len(found[0]["evidence"]) == len(ROWS[name].checks)


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_is_not_applicable_on_another_machine(name: str) -> None:
    """On a node outside Azure of another system, without the program."""
    pair = {**PAIRS[name], "family": "local", "node": {"distribution": "debian"}, "programs": {}}
    found = acceptance.settle(ROWS[name], known(pair))
    assert (found["outcome"], len(found["evidence"])) == ("not applicable", 1)


@pytest.mark.parametrize("name", CHECKED)
def test_a_row_does_not_pass_where_nobody_looked(name: str) -> None:
    pair = PAIRS[name]
    nothing = {name: pair[name] for name in ("family", "programs") if name in pair}
    nothing["node"] = {**pair.get("node", {}), "metadata_status": None}
    found = acceptance.settle(ROWS[name], known(nothing))
    assert found["outcome"] in {"failed", "not measured"}, found


def test_every_pair_is_of_a_row() -> None:
    assert sorted(PAIRS) == CHECKED


# ---- what is asked, and what earlier runs left --------------------------------------------------


def test_only_what_rows_of_this_machine_ask_is_asked() -> None:
    rows = list(ROWS.values())
    always = [row for row in rows if not row.needs]
    nothing = acceptance.asks(always, role_plans.node("local", "debian-12"))
    assert nothing == {"files": [], "programs": [], "commands": []}
    image = {**role_plans.node("ndv4"), "hpc_image": {"NCCL": "2"}}
    assert "/etc/nccl.conf" in acceptance.asks(rows, image)["files"]
    asked = acceptance.asks(always, role_plans.node("nv_a10_v5", "debian-12"))["commands"]
    assert asked == [{"argv": ["nvidia-smi", "-q"], "seconds": 60}]


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
    settled = [acceptance.settle(row, acceptance.Known(facts={"node": node})) for row in rows]
    assert acceptance.to_measure(rows, settled) == ["devito", "stream"]


def test_what_could_not_be_read_is_not_measured() -> None:
    found = acceptance.settle(
        ROWS["grid-driver"],
        acceptance.Known(
            facts={"node": role_plans.node("nv_a10_v5"), "gpu": {"problems": []}},
            unknown={"nvidia-smi -q": "nvidia-smi did not end within 60 s"},
        ),
    )
    assert found["outcome"] == "not measured"
    assert found["evidence"] == [
        "nvidia-smi -q: nvidia-smi did not end within 60 s",
        "gpu.problems.*: 0 found, 0 expected",
    ]


@pytest.mark.parametrize("value", ["231e9", None, True, float("nan")])
def test_a_figure_is_a_number_in_its_range(value: Any) -> None:
    row = acceptance.rows({"rows": [{**ROW, "checks": [{"fact": "node.x", "from": 1}]}]})[0]
    found = acceptance.settle(row, acceptance.Known(facts={"node": {"x": value}}))
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


@pytest.mark.parametrize(
    "change",
    [{"metrics": "no list"}, {"metrics": ["busbw"]}, {"parameters": None}, {"nodes": "a"}],
)
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
    assert acceptance.settle(row, acceptance.Known(facts={"node": node}))["outcome"] == "failed"


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
    bundles = [acceptance.bundle(text, "b.json") for text in texts]
    assert acceptance.came_back("r", bundles) == [
        "passed 2026-12-02 (S, O)",
        "failed 2026-12-01 (replica ubuntu-hpc-22.04, O)",
    ]
    assert acceptance.came_back("other", bundles) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", a_bundle("2026-12-01", "fine"), '{"schema": "trueup.acceptance/1"}']
)
def test_what_is_no_bundle_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"b\.json is no bundle"):
        acceptance.bundle(text, "b.json")
