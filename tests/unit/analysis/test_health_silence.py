"""Silence is not health: who was expected and is not there, what a size must have and has not."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import fleet
import made
import pytest
from helpers import parametrized

RUN, OLD = fleet.RUN_ID, "20261119T091300Z-7c1e"
FAR = "20990101T000000Z-0001"
NODES = [fleet.node(number) for number in range(5)]
WELL, DEAD, FAILED, HALF, LEFT = NODES


def tally(**counts: int) -> dict[str, int]:
    return {"ok": 9, "changed": 0, "failed": 0, "unreachable": 0, "skipped": 0, **counts}


def manifest(run_id: str = RUN, **changes: Any) -> dict[str, Any]:
    """As the callback writes it."""
    return {
        "schema": "trueup.run/1",
        "run_id": run_id,
        "count": 1,
        "playbook": "check.yml",
        "started_at": "2026-11-20T09:13:00Z",
        "finished_at": "2026-11-20T09:40:00Z",
        "expected": NODES,
        "hosts": {node: tally() for node in NODES},
        "failed_in": {},
        "skipped": [],
        "chosen": {},
        "warnings": [],
        **changes,
    }


def write_run(results: Path, records: list[dict[str, Any]], **changes: Any) -> Path:
    """A run's folder under ``results``."""
    run_id = changes.get("run_id", RUN)
    made.write(results, [{**record, "run_id": run_id} for record in records])
    folder = results / run_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(manifest(**changes)))
    return folder


def records(*lost: str, without: tuple[str, str] = ("", "")) -> list[dict[str, Any]]:
    """Those of five healthy nodes, less some nodes and one benchmark of one of them."""
    found = fleet.fleet(5, faults={}, noisy_pair=None)
    return [
        record
        for record in found
        if not set(lost) & set(record["nodes"])
        and (record["nodes"][0], record["benchmark"]) != without
    ]


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Of five nodes, one is dead, one failed in a role, and one has no program for a benchmark."""
    write_run(
        tmp_path / "results",
        records(DEAD, FAILED, without=(HALF, "gpu_copy")),
        hosts={
            **{node: tally() for node in NODES},
            DEAD: tally(unreachable=1),
            FAILED: tally(failed=1),
        },
        failed_in={FAILED: "gpu_driver"},
        skipped=[{"node": HALF, "what": "gpu_copy", "why": "no such program: nvbandwidth"}],
    )
    return tmp_path / "results"


def rows(text: str) -> list[dict[str, Any]]:
    [table] = json.loads(text)["tables"]
    found: list[dict[str, Any]] = table["rows"]
    return found


WHY = {
    DEAD: "unreachable",
    FAILED: "failed in gpu_driver",
    HALF: "skipped: gpu_copy: no such program: nvbandwidth",
}


def test_json_names_the_three_with_the_reason_and_judges_the_others(
    call_trueup: Any, five: Path
) -> None:
    done = call_trueup("health", five, "--passes", "--format", "json")
    found = rows(done.out)
    lost = [row for row in found if row["verdict"] == "not measured"]
    assert {row["node"]: row["reason"] for row in lost} == WHY
    assert len(lost) == 3
    assert {row["node"] for row in found if row["verdict"] == "pass"} >= {WELL, HALF, LEFT}
    assert {row["run_id"] for row in found} == {RUN}
    judged = [row for row in found if row["measured"] is not None]
    assert {row["measured_at"] for row in judged} == {"2026-11-20T09:13:00Z"}
    [table] = json.loads(done.out)["tables"]
    assert table["judged"] == 2
    assert "2 of 5 nodes judged" in done.err
    assert "nothing is wrong" not in done.err
    assert done.status == 2


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "junit", "prometheus"])
def test_every_format_names_the_three_and_the_status_is_2(
    call_trueup: Any, five: Path, form: str
) -> None:
    done = call_trueup("health", five, "--format", form)
    assert done.status == 2
    assert [node for node in WHY if node not in done.out] == []
    if form == "csv":
        read = list(csv.DictReader(io.StringIO(done.out)))
        assert {row["node"] for row in read if row["verdict"] == "not measured"} == set(WHY)
    elif form == "junit":
        root = ET.fromstring(done.out)
        assert root.get("errors") == "3"
        assert {suite.get("name") for suite in root if suite.get("errors") != "0"} == set(WHY)
    elif form != "prometheus":
        flat = " ".join(done.out.replace("\\", "").split())
        assert [
            why for why in ("unreachable", "gpu_driver", "nvbandwidth") if why not in flat
        ] == []


def test_a_node_that_is_lost_today_does_not_pass_on_yesterdays_record(
    call_trueup: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    write_run(results, records(), run_id=OLD)
    write_run(results, records(DEAD), count=2, hosts={DEAD: tally(unreachable=1)})
    for more in ((), ("--all",), ("--run", RUN), ("--since", "2026-11-18")):
        done = call_trueup("health", results, "--format", "json", *more)
        lost = {row["node"]: row for row in rows(done.out) if row["verdict"] == "not measured"}
        assert (done.status, set(lost)) == (2, {DEAD})
        assert (lost[DEAD]["reason"], lost[DEAD]["run_id"]) == ("unreachable", RUN)
    assert call_trueup("health", results, "--run", OLD).status == 0


def test_the_last_run_is_the_one_with_the_highest_count(call_trueup: Any, tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_run(results, records(), run_id=FAR, count=1)
    write_run(results, records(DEAD), count=2)
    done = call_trueup("health", results, "--format", "json")
    assert done.status == 2
    assert {row["run_id"] for row in rows(done.out)} == {RUN}
    assert f"run {RUN} is shown, the last of 2 runs;" in done.err
    # Without counts, only the time is left, and that is said.
    for folder in results.iterdir():
        old = manifest(folder.name)
        del old["count"]
        (folder / "run.json").write_text(json.dumps(old))
    done = call_trueup("health", results)
    assert f"run {FAR} is shown, the last of 2 runs, by its time" in done.err


@parametrized(("text", "said"))
def test_a_run_without_a_manifest_that_can_be_read_is_not_well(
    call_trueup: Any, tmp_path: Path, text: str | None, said: str
) -> None:
    folder = write_run(tmp_path / "results", records())
    (folder / "run.json").unlink()
    if text is not None:
        (folder / "run.json").write_text(text)
    for form in ("json", "table", "csv", "junit", "prometheus"):
        done = call_trueup("health", folder.parent, "--format", form)
        assert done.status == 2
        if form == "json":
            [lost] = [row for row in rows(done.out) if row["verdict"] == "not measured"]
            assert (lost["node"], lost["run_id"], said in lost["reason"]) == ("", RUN, True)


def test_a_run_that_measured_nothing_names_whom_it_expected(
    call_trueup: Any, tmp_path: Path
) -> None:
    lost = {node: tally(unreachable=1) for node in NODES}
    write_run(tmp_path / "results", [], hosts=lost)
    done = call_trueup("health", tmp_path / "results", "--format", "json")
    assert {row["node"]: row["reason"] for row in rows(done.out)} == dict.fromkeys(
        NODES, "unreachable"
    )
    assert (done.status, "0 of 5 nodes judged" in done.err) == (2, True)
    assert call_trueup("health", tmp_path / "nowhere").status == 2


INI = "[gpu]\nh100-[0000:0004] ansible_user=azureuser\n[all:vars]\nx=1\n"
YAML = "all:\n  children:\n    gpu:\n      hosts:\n        h100-[0000:0004]:\n          x: 1\n"
PLAIN = "\n# ours\n" + "\n".join([*NODES, WELL]) + "\n"


@pytest.mark.parametrize(
    ("name", "text"), [("hosts", PLAIN), ("hosts.ini", INI), ("hosts.yml", YAML)]
)
def test_a_list_of_nodes_says_who_is_missing(
    call_trueup: Any, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    folder = write_run(
        tmp_path / "results", records(DEAD), expected=[n for n in NODES if n != DEAD]
    )
    assert call_trueup("health", folder).status == 0
    done = call_trueup("health", folder, "--nodes", tmp_path / name, "--format", "json")
    [lost] = [row for row in rows(done.out) if row["verdict"] == "not measured"]
    assert (done.status, lost["node"]) == (2, DEAD)
    assert RUN in lost["reason"]
    # A list says what run.json would have.
    (folder / "run.json").unlink()
    done = call_trueup("health", folder, "--nodes", tmp_path / name, "--format", "json")
    lost = [row for row in rows(done.out) if row["verdict"] == "not measured"]
    assert [row["node"] for row in lost] == [DEAD]


@pytest.mark.parametrize("text", ["", "# nobody\n", "[web", "all: ["])
def test_a_list_that_names_nobody_is_refused(call_trueup: Any, tmp_path: Path, text: str) -> None:
    folder = write_run(tmp_path / "results", records())
    (tmp_path / "hosts").write_text(text)
    done = call_trueup("health", folder, "--nodes", tmp_path / "hosts")
    assert (done.status, done.out) == (2, "")
    assert f"--nodes {tmp_path / 'hosts'}" in done.err


def test_what_a_size_must_have_and_could_not_be_read_is_not_measured(
    call_trueup: Any, tmp_path: Path
) -> None:
    found = records()
    [state] = [one for one in found if (one["nodes"][0], one["benchmark"]) == (WELL, "node_state")]
    state["metrics"] = [
        row
        for row in state["metrics"]
        if not row["name"].startswith(("ecc_dram_corrected", "nvlinks", "hardware_xids"))
        and (row["name"], row.get("device"))
        not in {("link_rate", "mlx5_ib3"), ("row_remap_pending", "gpu7")}
    ]
    write_run(tmp_path / "results", found)
    done = call_trueup("health", tmp_path / "results", "--format", "json")
    lost = [row for row in rows(done.out) if row["verdict"] == "not measured"]
    assert {(row["node"], row["metric"], row["reason"]) for row in lost} == {
        (WELL, "ecc_dram_corrected", "it could not be read"),
        (WELL, "nvlinks_active", "it could not be read"),
        (WELL, "hardware_xids", "it could not be read"),
        (WELL, "link_rate", "known of 7 of 8"),
        (WELL, "row_remap_pending", "known of 7 of 8"),
    }
    assert all(row["source"] and row["measured_at"] for row in lost)
    # No limit is published of the matrix product.
    unjudged = [row for row in rows(done.out) if row["verdict"] == "no verdict"]
    assert {row["benchmark"] for row in unjudged} == {"gemm"}
    assert done.status == 2


def test_only_what_is_young_enough_is_judged(call_trueup: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "results", records())
    done = call_trueup("health", folder, "--max-age", "1h", "--format", "json")
    assert {row["node"] for row in rows(done.out)} == set(NODES)
    assert {row["verdict"] for row in rows(done.out)} == {"not measured"}
    assert done.status == 2
    assert call_trueup("health", folder, "--max-age", "40000d").status == 0


@parametrized("wrong")
def test_runs_that_cannot_be_meant_are_wrong_usage(
    call_trueup: Any, tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    folder = write_run(tmp_path / "results", records())
    assert call_trueup("health", folder, *wrong).status == 64


OWN = """
expectations:
  - what: NCCL all-reduce on one node, ours
    benchmark: nccl
    metric: busbw
    comparison: at_least
    unit: GB/s
    message_bytes: 17179869184
    source: acceptance of our own fleet, ticket 4711
    date: "2026-11-01"
    values:
      - {floor: 500, sizes: [Standard_ND96isr_H100_v5]}
"""


def test_a_sites_own_expectation_stands_in_the_catalogs_place_with_its_source(
    call_trueup: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path / "results", records())
    own = tmp_path / "ours.yml"
    own.write_text(OWN)
    done = call_trueup("health", folder, "--expectations", own, "--passes", "-f", "json")
    found = [row for row in rows(done.out) if row["benchmark"] == "nccl"]
    assert {(row["verdict"], row["expected"], row["source"]) for row in found} == {
        ("fail", 500e9, "acceptance of our own fleet, ticket 4711")
    }
    # What it does not speak of is judged by the catalog.
    assert {row["benchmark"] for row in rows(done.out) if row["verdict"] == "pass"} >= {"ib"}
    assert done.status == 1
    monkeypatch.setenv("TRUEUP_EXPECTATIONS", str(own))
    assert call_trueup("health", folder).status == 1
    own.write_text("[")
    assert call_trueup("health", folder).status == 2
    # A file of the format before is refused, with its replacement.
    own.write_text(f"warn_within: 0.05\n{OWN}")
    refused = call_trueup("health", folder)
    assert (refused.status, refused.out) == (2, "")
    assert f"{own}: warn_within is of an earlier format" in refused.err
    assert "healthy" in refused.err


# ---- a fleet ------------------------------------------------------------------------------------


def of_places(nodes: int, **faults: float) -> list[dict[str, Any]]:
    """Figures of two places: the first has always half of what the second has."""
    return [
        made.record(
            benchmark="gemm",
            case="bf16",
            nodes=[f"n{node}"],
            vm_size="Standard_Made",
            metrics=[
                made.figure(
                    "rate",
                    place * (1 + node / 1000) * faults.get(f"n{node}_{place}", 1.0),
                    "flop/s",
                    "higher",
                    device=f"gpu{place}",
                    message_bytes=2**exponent,
                )
                for place in (1, 2)
                for exponent in range(10)
            ],
        )
        for node in range(nodes)
    ]


def test_figures_are_compared_with_those_of_the_same_place(
    call_trueup: Any, tmp_path: Path
) -> None:
    write_run(tmp_path / "results", of_places(40, n7_2=0.6), expected=[], hosts={})
    done = call_trueup("health", tmp_path / "results", "--format", "json")
    warned = [row for row in rows(done.out) if row["verdict"] == "warn"]
    # What is always so at the first place is no warning, and the second's fault is one, although
    # all figures together scatter by more.
    assert {(row["node"], row["device"]) for row in warned} == {("n7", "gpu2")}
    table = call_trueup("health", tmp_path / "results")
    told = [line for line in table.out.splitlines() if line.startswith("n7")]
    assert len(told) == 1
    markdown = call_trueup("health", tmp_path / "results", "--format", "markdown")
    assert "worst of 10" in markdown.out


def test_the_summary_says_how_each_figure_is_spread(call_trueup: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "results", of_places(11), expected=[], hosts={})
    done = call_trueup("health", tmp_path / "results", "--summary", "--format", "json")
    found = rows(done.out)
    assert [row["message_bytes"] for row in found] == [2**exponent for exponent in range(10)]
    one = found[0]
    assert (one["n"], one["nodes"], one["unit"]) == (22, 11, "flop/s")
    assert (one["least"], one["most"]) == (1.0, 2.02)
    assert one["mean"] == pytest.approx(1.5 * 1.005)
    assert one["median"] == pytest.approx((1.01 + 2.0) / 2)
    # Sorted, the figures at 2.1 and 18.9 of 21 steps.
    assert (one["p10"], one["p90"]) == pytest.approx((1.0021, 2.0158))
    assert one["spread"] == pytest.approx((2.0158 - 1.0021) / 1.505)
    assert call_trueup("health", tmp_path / "results", "--summary", "-f", "junit").status == 64
    both = call_trueup("health", tmp_path / "results", "--summary").out
    verdicts = call_trueup("health", tmp_path / "results").out
    assert both.startswith(verdicts.rstrip())
    table = both[len(verdicts.rstrip()) :]
    assert [word for word in ("median", "p10", "p90", "spread") if word not in table] == []


@pytest.mark.parametrize("form", ["table", "json", "csv", "junit", "markdown"])
def test_only_chosen_verdicts_are_written_and_all_are_counted(
    call_trueup: Any, five: Path, form: str
) -> None:
    every = call_trueup("health", five, "--passes", "-f", "json")
    counts = json.loads(every.out)["tables"][0]["counts"]
    assert min(counts["pass"], counts["not measured"]) > 0
    done = call_trueup("health", five, "--only", "not_measured", "-f", form)
    assert done.status == every.status
    if form == "json":
        (table,) = json.loads(done.out)["tables"]
        assert {row["verdict"] for row in table["rows"]} == {"not measured"}
        assert (len(table["rows"]), table["counts"]) == (counts["not measured"], counts)
    elif form == "junit":
        assert (done.out.count("<error"), done.out.count("<system-out")) == (
            counts["not measured"],
            0,
        )
    else:
        assert ("not measured" in done.out, ",pass," in done.out) == (True, False)


def test_json_has_no_passes_unless_asked(call_trueup: Any, five: Path) -> None:
    rows_ = json.loads(call_trueup("health", five, "-f", "json").out)["tables"][0]["rows"]
    assert (len(rows_) > 0, [row for row in rows_ if row["verdict"] == "pass"]) == (True, [])


def test_prometheus_has_no_chosen_verdicts(call_trueup: Any, five: Path) -> None:
    done = call_trueup("health", five, "--only", "fail", "-f", "prometheus")
    assert (done.status, "--only chooses verdicts" in done.err) == (64, True)
