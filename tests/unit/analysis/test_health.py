"""trueup health: verdicts with their unit and source, and whom a fleet's figures blame."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import fleet
import pytest
import yaml
from fleet import FAULTS, GIB, NOISY_PAIR, SIZE
from helpers import parametrized
from made import figure, record, write
from trueup_analysis import cli
from trueup_analysis.figures.health import expectations, many
from trueup_analysis.figures.health import fleet as fleets
from trueup_analysis.figures.health.examine import Health, examine
from trueup_analysis.figures.health.measured import cases as cases_of
from trueup_analysis.load import load
from trueup_analysis.render import junit, prometheus
from trueup_node.cases import Case, Figure
from trueup_node.errors import BadInput
from trueup_node.health import verdicts
from trueup_node.health.expectations import of_document
from trueup_node.node.state import metrics
from trueup_node.quantity import Quantity

ROOT = Path(__file__).resolve().parents[3]
CATALOG = ROOT / "catalog" / "expectations.yml"
NDV4 = "Standard_ND96asr_v4"
FACTS = expectations.read(CATALOG)


def case(
    benchmark: str,
    *rows: dict[str, Any],
    size: str | None = NDV4,
    parameters: dict[str, Any] | None = None,
    **changes: Any,
) -> Case:
    """A case with these metric rows."""
    made = {
        "nodes": ("made-1",),
        "vm_size": size,
        "benchmark": benchmark,
        "case": "made",
        "outcome": "ok",
        "reason": None,
        "parameters": parameters or {},
        "software": {},
        "gpus": 8,
        **changes,
    }
    made.setdefault("node_count", len(made["nodes"]))
    return Case(**made, figures=[Figure(**row) for row in rows])


def busbw(gigabytes: float, message_bytes: int = 8 * GIB) -> dict[str, Any]:
    return figure("busbw", gigabytes * 1e9, "byte/s", "higher", message_bytes=message_bytes)


SUM = {"operation": "all_reduce", "datatype": "float", "reduction": "sum"}
NVLINK = {**SUM, "transport": "nvlink"}
FROM_GPU = {"gdr": "yes", "queue_pairs": "1", "connection": "RC", "link": "IB"}


@parametrized(("measured", "word"))
def test_a_figure_fails_below_the_floor_and_passes_from_it_on(measured: float, word: str) -> None:
    [verdict] = verdicts.judge_case(case("nccl", busbw(measured), parameters=NVLINK), FACTS)
    assert verdict.verdict == word
    assert (verdict.measured, verdict.expected, verdict.unit) == (measured * 1e9, 228e9, "byte/s")
    assert str(verdict.source).startswith("Azure/azurehpc-health-checks@0e0a1ac conf/")
    assert verdict.fault == ("NHC2010" if word == "fail" else None)


LEVELS = {
    "at_least": {
        "floor": 460,
        "healthy": {"value": 480, "source": "fleet", "date": "2026"},
        "warn_below": {"of_healthy": 0.975, "source": "fleet's scatter", "date": "2026"},
    },
    # A lower figure is better: the limit is a ceiling.
    "at_most": {
        "ceiling": 5,
        "healthy": {"value": 2, "source": "fleet", "date": "2026"},
        "warn_above": {"value": 4, "source": "its page", "date": "2026"},
    },
    "exactly": {"value": 8},
}
UNITS = {"at_least": "GB/s", "at_most": "us", "exactly": "1"}


def entry_of(comparison: str, levels: dict[str, Any]) -> dict[str, Any]:
    """An expectation of a made figure on the size x."""
    return {
        "what": "made",
        "benchmark": "stream",
        "metric": "triad_rate",
        "unit": UNITS.get(comparison, "GB/s"),
        "comparison": comparison,
        "source": "made",
        "date": "2026",
        "values": [{**levels, "sizes": ["x"]}],
    }


@parametrized(("comparison", "value", "unit", "word", "reason", "share"))
def test_a_figure_is_judged_by_its_limit_and_warned_of_by_a_stated_limit_alone(
    comparison: str, value: float, unit: str, word: str, reason: str | None, share: float | None
) -> None:
    expected = of_document({"expectations": [entry_of(comparison, LEVELS[comparison])]}, "made")
    row = figure("triad_rate", value, unit, "higher")
    [verdict] = verdicts.judge_case(case("stream", row, size="x"), expected)
    assert verdict.verdict == word
    assert str(verdict.reason).startswith(str(reason))
    got = verdict.of_healthy
    assert got == (share if share is None else pytest.approx(share, abs=1e-4))
    # The fleet's way and the node's way agree.
    fast, passes = many.judge(
        [case("stream", row, size="x")],
        many.together([case("stream", row, size="x")]),
        expected,
        [0],
    )
    assert [*fast, *passes.verdicts()] == [verdict]


def test_a_sweep_is_judged_at_the_size_that_is_named_and_not_by_its_average() -> None:
    # A healthy NDv4: the average over the sweep is 68.4 GB/s, and the 8 GiB row is 235.26 GB/s.
    sweep = [busbw(0.5 + exponent, 2**exponent) for exponent in range(3, 30)]
    [verdict] = verdicts.judge_case(case("nccl", *sweep, busbw(235.26), parameters=NVLINK), FACTS)
    assert (verdict.verdict, verdict.message_bytes) == ("pass", 8 * GIB)


def test_a_sweep_that_ends_before_that_size_has_no_verdict() -> None:
    found = verdicts.judge_case(case("nccl", busbw(100.0, 1024), parameters=NVLINK), FACTS)
    assert {(item.verdict, item.measured, item.reason) for item in found} == {
        ("no verdict", None, f"{size} bytes are judged, and were not measured")
        for size in (8 * GIB, 4 * GIB)
    }


def test_another_operation_or_more_nodes_are_not_judged_by_what_one_node_must_reach() -> None:
    gather = case("nccl", busbw(100.0), parameters={**NVLINK, "operation": "all_gather"})
    several = case("nccl", busbw(100.0), parameters=NVLINK, nodes=("a", "b"))
    found = [verdicts.judge_case(item, FACTS) for item in (gather, several)]
    assert [[item.verdict for item in one] for one in found] == [["no verdict"], ["no verdict"]]


@parametrized(("size", "gigabytes", "word"))
@pytest.mark.parametrize("way", ["read", "write"])
def test_the_scratch_disks_of_nd_sizes_have_the_articles_rate(
    size: str, gigabytes: float, word: str, way: str
) -> None:
    rate = figure(f"{way}_bandwidth", gigabytes * 1e9, "byte/s", "higher")
    asked = {"workload": f"sequential_{way}", "direct": True, "filesystem_source": "/dev/md127"}
    [verdict] = verdicts.judge_case(case("fio", rate, size=size, parameters=asked), FACTS)
    assert verdict.verdict == word
    cached = case("fio", rate, size=size, parameters={**asked, "direct": False})
    assert [one.verdict for one in verdicts.judge_case(cached, FACTS)] == ["no verdict"]
    share = case("fio", rate, size=size, parameters={**asked, "filesystem_source": "server:/a"})
    assert [one.verdict for one in verdicts.judge_case(share, FACTS)] == ["no verdict"]


def test_bits_and_bytes_are_never_compared() -> None:
    wrong = figure("busbw", 300e9, "bit/s", "higher", message_bytes=8 * GIB)
    found = verdicts.judge_case(case("nccl", wrong, parameters=NVLINK), FACTS)
    [verdict] = [item for item in found if item.message_bytes == 8 * GIB]
    assert (verdict.verdict, verdict.measured) == ("no verdict", None)
    assert re.findall(r"\w+/s", str(verdict.reason)) == ["bit/s", "byte/s"]
    with pytest.raises(BadInput, match="GB/s and Gb/s measure different things"):
        Quantity(25, "GB/s").to("Gb/s")
    assert Quantity(200, "Gb/s").to("bit/s").value == 200e9


def test_an_unknown_size_and_an_unknown_benchmark_have_no_verdict() -> None:
    found = [
        verdicts.judge_case(case("nccl", busbw(1.0), parameters=NVLINK, size=size), FACTS)[0]
        for size in (None, "Standard_D4s_v4")
    ]
    found += verdicts.judge_case(case("devito", figure("run_time", 1.0, "s", "lower")), FACTS)
    assert [item.verdict for item in found] == ["no verdict"] * 3
    assert [item.reason for item in found] == [
        "the VM size is not known",
        "nothing is expected of the size Standard_D4s_v4",
        "nothing is expected of devito on Standard_ND96asr_v4",
    ]


def test_a_failed_case_is_not_measured_and_an_invalid_one_is_a_failure_whatever_its_figures() -> (
    None
):
    fast = busbw(400.0)
    failed = case("nccl", parameters=NVLINK, outcome="failed", reason="time limit")
    invalid = case("nccl", fast, parameters=NVLINK, outcome="invalid", reason="3 wrong values")
    words = [
        (item.verdict, item.reason, item.fault)
        for each in (failed, invalid)
        for item in verdicts.judge_case(each, FACTS)
    ]
    assert words == [("not measured", "time limit", None), ("fail", "3 wrong values", "NHC2010")]


def test_a_silent_fall_back_to_sockets_fails_whatever_the_speed() -> None:
    [verdict] = verdicts.judge_case(
        case("nccl", busbw(400.0), parameters={**NVLINK, "transport": "socket"}), FACTS
    )
    assert (verdict.verdict, verdict.measured, verdict.fault) == ("fail", None, "NHC2010")
    assert verdict.reason == (
        "NCCL all-reduce on one node: transport socket, expected nvlink or p2p or shm or unknown;"
        " the figures do not count"
    )


def test_each_device_is_judged_by_itself() -> None:
    rows = [
        figure("link_rate", rate * 1e9, "bit/s", "none", device=f"mlx5_ib{number}")
        for number, rate in enumerate([200, 200, 100])
    ]
    found = verdicts.judge_case(case("node_state", *rows), FACTS)
    links = [item for item in found if item.metric == "link_rate"]
    assert [(item.device, item.verdict) for item in links] == [
        ("mlx5_ib0", "pass"),
        ("mlx5_ib1", "pass"),
        ("mlx5_ib2", "fail"),
    ]


@parametrized(("size", "mebibytes", "licence", "found"))
def test_a_slice_has_its_memory_and_its_licence(
    size: str, mebibytes: int, licence: str | None, found: tuple[str, str]
) -> None:
    gpu = {"memory_bytes": mebibytes * 1024**2, "licence": licence}
    gpus = 2 if "NV72" in size else 1
    rows = metrics({"gpus": [{}] * gpus}, {"devices": [gpu] * gpus}, None)
    judged = verdicts.judge_case(
        case("node_state", *(row.as_row() for row in rows), size=size), FACTS
    )
    said = {(item.metric, item.verdict) for item in judged}
    assert ("gpus", "pass") in said
    of_slice = ("gpu_memory", "gpu_licensed")
    assert {one for one in said if one[0] in of_slice} == set(zip(of_slice, found, strict=True))


@pytest.mark.parametrize(
    "other", [{"stores": "regular"}, {"spread": "part"}, {"array_bytes": 80_000_000}]
)
def test_a_part_of_the_machine_is_not_held_to_what_the_whole_reaches(other: dict[str, str]) -> None:
    row = figure("triad_rate", 90e9, "byte/s", "higher", statistic="max")
    parameters = {"stores": "streaming", "spread": "whole", "array_bytes": 6 * GIB, **other}
    found = case("stream", row, size="Standard_HB120rs_v3", parameters=parameters)
    assert [item.verdict for item in verdicts.judge_case(found, FACTS)] == ["no verdict"]


def test_what_is_no_number_has_no_verdict() -> None:
    found = verdicts.judge_case(case("nccl", busbw(float("nan")), parameters=NVLINK), FACTS)
    assert {item.verdict for item in found} == {"no verdict"}


def test_what_else_a_sick_node_lacks_is_judged_too_and_an_xid_has_its_code() -> None:
    sick = case(
        "node_state",
        figure("gpus", 7.0, "1", "none"),
        outcome="invalid",
        reason="GPU 0003:00:00.0 logged XID 79 (the GPU has fallen off the bus) 1 time(s)"
        " (Azure's fault code NHC2013).",
    )
    found = [item for item in verdicts.judge_case(sick, FACTS) if item.verdict == "fail"]
    assert [(item.metric, item.fault) for item in found] == [(None, "NHC2013"), ("gpus", "NHC2009")]


def source_rows() -> list[dict[str, str]]:
    """Azure's own figures, as the catalog took them over."""
    text = (ROOT / "tests" / "data" / "health" / "nhc.csv").read_text()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("row", source_rows(), ids=lambda row: row["conf"])
def test_the_catalog_holds_every_figure_of_azures_own_health_checks(row: dict[str, str]) -> None:
    held = {
        (item.benchmark, item.metric, item.message_bytes): item.expected.base
        for item in FACTS.of(f"Standard_{row['conf']}")
        if item.source.startswith("Azure/azurehpc-health-checks")
        and item.parameters.get("transport") != ("ib",)
    }
    gpus = int(row["gpu_count"] or 0)
    # check_ib_bw_non_gdr has 1 MiB where the file names no other size.
    of_host = 65536 if row["conf"] == "nd40rs_v2" else 1024**2
    left_out = {"nc80adis_h100_v5", "nd96asr_mi200_v4"}
    wanted = {
        ("node_state", "cores", None): float(row["cores"]),
        ("node_state", "memory", None): int(
            int(row["physmem_kb"]) * (100 - int(row["physmem_tol_pct"])) / 100
        )
        * 1024,
    }
    for key, column, factor in (
        (("node_state", "link_rate", None), "ib_gbps", 1e9),
        (("node_state", "rdma_nics", None), "ib_devices", 1),
        (("node_state", "ethernet_link_rate", None), "an_gbps", 1e9),
        (("node_state", "gpus", None), "gpu_count", 1),
        (("node_state", "nvme_disks", None), "nvme_count", 1),
        (("gpu_copy", "h2d_bandwidth", None), "gpu_bw_host_gbps", 1e9),
        (("gpu_copy", "d2h_bandwidth", None), "gpu_bw_host_gbps", 1e9),
        (("ib", "ib_write_bandwidth", 8 * 1024**2), "ib_bw_gdr_gbps", 1e9),
        (("ib", "ib_write_bandwidth", of_host), "ib_bw_non_gdr_gbps", 1e9),
        (("stream", "triad_rate", None), "stream_mbps", 1e6),
        (("stream", "copy_rate", None), "stream_mbps", 1e6),
    ):
        if row[column]:
            wanted[key] = float(row[column]) * factor
    if row["gpu_bw_p2p_gbps"] and gpus > 1 and row["conf"] not in left_out:
        wanted["gpu_copy", "p2p_bandwidth", None] = float(row["gpu_bw_p2p_gbps"]) * 1e9
    if row["nccl_busbw_gbps"]:
        size = int(row["nccl_msg"][:-1]) * GIB
        wanted["nccl", "busbw", size] = float(row["nccl_busbw_gbps"]) * 1e9
    assert {key: held.get(key) for key in wanted} == wanted


@parametrized(("change", "said"))
def test_a_wrong_expectation_is_refused_by_number_and_name(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    changed = {**entry_of("at_least", {"floor": 5}), **change}
    entry = {name: value for name, value in changed.items() if value is not None}
    path = tmp_path / "expectations.yml"
    path.write_text(yaml.safe_dump({"expectations": [entry]}))
    with pytest.raises(BadInput) as caught:
        expectations.read(path)
    assert f"{path}: expectation 1 (made) is wrong: " in str(caught.value)
    assert said in str(caught.value)


@parametrized(("comparison", "levels", "said"))
def test_levels_that_contradict_each_other_or_lack_a_source_are_refused(
    comparison: str, levels: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        of_document({"expectations": [entry_of(comparison, levels)]}, "ours.yml")
    assert "ours.yml: expectation 1 (made) is wrong: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("document", [None, [], "text", {}, {"expectations": 3}])
def test_a_document_without_a_list_of_expectations_is_refused(document: Any) -> None:
    with pytest.raises(BadInput) as caught:
        of_document(document, "ours.yml")
    assert str(caught.value) == "ours.yml: expectations, a list, is missing"


# ---- the fleet ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def six_hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("fleet"), fleet.fleet())


@pytest.fixture(scope="module")
def examined(six_hundred: Path) -> Health:
    return examine(cases_of(load([six_hundred])), FACTS)


def test_all_seven_planted_faults_are_found_and_no_other_node_is_blamed(examined: Health) -> None:
    assert len(examined.nodes) == 600
    found = {
        node: sorted({(item.benchmark, item.device, item.fault) for item in its}, key=str)
        for node, its in examined.blamed.items()
    }
    gpu6 = [("gpu_copy", f"gpu{other}>gpu6", "NHC2020") for other in range(8) if other != 6]
    gpu6 += [("gpu_copy", f"gpu6>gpu{other}", "NHC2020") for other in range(8) if other != 6]
    numbers = {fault: fleet.node(number) for number, fault in FAULTS.items()}
    assert found == {
        numbers["slow NIC"]: [("ib", "mlx5_ib5", "NHC2003")],
        numbers["wrong link rate"]: [("node_state", "mlx5_ib2", "NHC2003")],
        numbers["bad NVLink"]: sorted(gpu6),
        numbers["wrong driver"]: [("node_state", None, None)],
        numbers["silent socket fall-back"]: [("nccl", None, "NHC2010")],
    }
    assert [item.nodes for item in examined.groups] == [
        tuple(fleet.node(number) for number in NOISY_PAIR)
    ]
    # Of trueup's matrix product no limit is published: the other nodes show the slow GPU. No other
    # node has a warning.
    warned = {
        (item.nodes, item.metric, item.device)
        for item in examined.verdicts
        if item.verdict == "warn"
    }
    assert warned == {((numbers["cold GPU"],), "gemm_bf16", "gpu3")}
    assert examined.status == 1


def pairs_of(bad: set[tuple[int, int]], nodes: int = 8, device: str = "mlx5_ib0") -> list[Case]:
    """Every pair of a few nodes; those in ``bad`` at half the speed."""
    return [
        case(
            "ib",
            figure(
                "ib_write_bandwidth",
                200e9 if (one, other) in bad else 392e9 + one + other,
                "bit/s",
                "higher",
                message_bytes=8 * 1024**2,
            ),
            size=SIZE,
            nodes=(f"n{one}", f"n{other}"),
            parameters={**FROM_GPU, "device": device},
        )
        for one in range(nodes)
        for other in range(one + 1, nodes)
    ]


def blamed_in(found: list[Case]) -> list[tuple[str, ...]]:
    health = examine(found, FACTS)
    return sorted({item.nodes for item in health.verdicts if item.verdict in ("fail", "warn")})


def test_pairs_are_reduced_to_the_node_that_is_in_the_bad_ones() -> None:
    of_three = {(one, other) for one in range(8) for other in range(8) if 3 in (one, other)}
    assert blamed_in(pairs_of(of_three)) == [("n3",)]
    assert blamed_in(pairs_of(of_three | {(0, 1)})) == [("n0", "n1"), ("n3",)]
    two = of_three | {(one, other) for one in range(8) for other in range(8) if 5 in (one, other)}
    assert blamed_in(pairs_of(two)) == [("n3",), ("n5",)]
    assert blamed_in(pairs_of({(2, 6)})) == [("n2", "n6")]
    assert blamed_in(pairs_of(set())) == []


@pytest.mark.parametrize(
    ("well", "guilty"), [({"b": 1, "c": 1}, "a"), ({"b": 1}, None), ({"b": 1, "c": 0}, None)]
)
def test_a_node_is_guilty_when_more_than_half_of_its_partners_are_well_with_others(
    well: dict[str, int], guilty: str | None
) -> None:
    left = [frozenset("ab"), frozenset("ac")]
    totals = {"a": 2, "b": 9, "c": 9}
    assert fleets._guilty(left, totals, Counter(well)) == guilty


def test_a_pair_is_not_judged_by_what_another_size_of_message_must_reach() -> None:
    slow = [
        replace(item, figures=[item.figures[0]._replace(value=1e9, message_bytes=4096)])
        for item in pairs_of(set())
    ]
    assert {item.verdict for item in examine(slow, FACTS).verdicts} == {"no verdict"}


def test_a_pair_that_takes_longer_than_the_others_is_found_where_nothing_is_expected() -> None:
    found = [
        replace(
            item,
            figures=[
                item.figures[0]._replace(
                    name="ib_send_latency",
                    unit="s",
                    direction="lower",
                    value=2e-6 if item.nodes == ("n2", "n6") else 1e-6,
                )
            ],
        )
        for item in pairs_of(set())
    ]
    assert blamed_in(found) == [("n2", "n6")]


def test_an_adapter_that_is_slow_with_everybody_is_its_nodes() -> None:
    of_two = {(one, other) for one in range(4) for other in range(4) if 2 in (one, other)}
    others = pairs_of(set(), nodes=4) + pairs_of(set(), nodes=4, device="mlx5_ib2")
    assert blamed_in(others + pairs_of(of_two, nodes=4, device="mlx5_ib1")) == [("n2",)]


def test_a_pair_that_is_measured_again_the_other_way_round_is_judged_by_that(
    tmp_path: Path,
) -> None:
    def measured(nodes: list[str], rate: float, at: str) -> dict[str, Any]:
        made = {**FROM_GPU, "test": "write_bw", "device": "mlx5_ib0", "message_bytes": 8388608}
        row = figure(
            "ib_write_bandwidth", rate, "bit/s", "higher", message_bytes=8388608, device="mlx5_ib0"
        )
        return record(
            benchmark="ib",
            case=f"write_bw-mlx5_ib0-8388608-to-{nodes[1]}",
            nodes=nodes,
            node_count=2,
            vm_size=SIZE,
            parameters=made,
            started_at=at,
            metrics=[row],
        )

    slow = measured(["a", "b"], 150e9, "2026-11-20T09:00:00Z")
    mended = measured(["b", "a"], 392e9, "2026-11-20T10:00:00Z")
    write(tmp_path, [mended, slow])
    health = examine(cases_of(load([tmp_path])), FACTS)
    assert [item.verdict for item in health.verdicts] == ["pass"]


def test_another_compiler_is_no_failure_and_another_kernel_is() -> None:
    def node(number: int, benchmark: str, **software: str) -> Case:
        return case(benchmark, nodes=(f"n{number}",), software=software)

    found = [node(n, "stream", compiler="13" if n == 3 else "12") for n in range(6)]
    assert examine(found, FACTS).blamed == {}
    found = [node(n, "node_state", kernel="6.9" if n == 3 else "6.8") for n in range(6)]
    assert list(examine(found, FACTS).blamed) == ["n3"]

    # What nine tenths have is usual; what fewer have is not.
    found = [node(n, "node_state", kernel="6.9" if n < 2 else "6.8") for n in range(20)]
    assert sorted(examine(found, FACTS).blamed) == ["n0", "n1"]
    found = [node(n, "node_state", kernel="6.9" if n < 3 else "6.8") for n in range(20)]
    assert examine(found, FACTS).blamed == {}
    # Of fewer than ten nodes, what all but one have is usual.
    found = [node(n, "node_state", kernel="6.9" if n < 2 else "6.8") for n in range(5)]
    assert examine(found, FACTS).blamed == {}
    found = [node(n, "node_state", kernel="6.9" if n < 1 else "6.8") for n in range(5)]
    assert list(examine(found, FACTS).blamed) == ["n0"]


def test_two_nodes_alone_are_blamed_as_a_pair() -> None:
    health = examine(pairs_of({(0, 1)}, nodes=2), FACTS)
    [verdict] = health.verdicts
    assert (verdict.nodes, verdict.verdict) == (("n0", "n1"), "fail")
    assert "measure each with other nodes" in str(verdict.reason)


def test_an_outlier_is_a_warning_even_where_nothing_is_expected() -> None:
    found = [
        case(
            "devito",
            figure("run_time", 14.0 if number == 4 else 10.0 + number / 100, "s", "lower"),
            nodes=(f"n{number}",),
        )
        for number in range(10)
    ]
    health = examine(found, FACTS)
    warned = [(item.nodes, item.reason) for item in health.verdicts if item.verdict == "warn"]
    assert warned == [(("n4",), "worse than usual")]
    # Fewer nodes than five have no usual value.
    assert examine(found[1:5], FACTS).counts["warn"] == 0


def test_a_repaired_node_is_judged_by_what_it_does_now(tmp_path: Path) -> None:
    def measured(gigabytes: float, at: str) -> dict[str, Any]:
        return record(
            benchmark="nccl",
            case="all_reduce",
            vm_size=NDV4,
            parameters=NVLINK,
            gpus=8,
            started_at=at,
            metrics=[busbw(gigabytes)],
        )

    write(tmp_path, [measured(250, "2026-11-20T10:00:00Z"), measured(100, "2026-11-20T09:00:00Z")])
    health = examine(cases_of(load([tmp_path])), FACTS)
    assert [item.verdict for item in health.verdicts] == ["pass"]


# ---- the command --------------------------------------------------------------------------------


def nccl_record(tmp_path: Path, gigabytes: float, **changes: Any) -> Path:
    made = record(
        benchmark="nccl",
        case="all_reduce",
        vm_size=NDV4,
        parameters=NVLINK,
        gpus=8,
        metrics=[busbw(gigabytes)],
        **changes,
    )
    return write(tmp_path, [made])


def test_the_exit_status_says_pass_fail_or_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {
        "well": nccl_record(tmp_path / "well", 250.0),
        "slow": nccl_record(tmp_path / "slow", 200.0),
        "broken": nccl_record(tmp_path / "broken", 1.0, outcome="failed", reason="time limit"),
        "unknown": nccl_record(tmp_path / "unknown", 250.0),
    }
    unknown = next(made["unknown"].glob("*/*.json"))
    unknown.write_text(unknown.read_text().replace(NDV4, "Standard_Made"))
    # Records that are named one by one: nobody else was expected.
    alone = {name: next(path.glob("*/*.json")) for name, path in made.items()}
    statuses = {name: cli_status(capsys, path) for name, path in alone.items()}
    assert statuses == {"well": 0, "slow": 1, "broken": 2, "unknown": 2}
    assert cli_status(capsys, alone["well"], "--require", "ib") == 2
    # Of a whole run, nobody knows without run.json.
    assert cli_status(capsys, made["well"]) == 2


def cli_status(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["trueup", "health", str(path), *more])
        try:
            cli.main()
        except SystemExit as error:
            capsys.readouterr()
            return int(error.code or 0)
    capsys.readouterr()
    return 0


def test_every_format_tells_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = next(nccl_record(tmp_path, 200.0).glob("*/*.json"))

    def told(form: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["trueup", "health", str(source), "--format", form])
            with pytest.raises(SystemExit):
                cli.main()
        return capsys.readouterr().out

    table = told("table")
    assert "fail" in table
    assert "200.00  \u2265 228.00  235.05: 85 % [2]  GB/s" in table
    [sheet] = json.loads(told("json"))["tables"]
    [row] = sheet["rows"]
    assert (row["node"], row["verdict"], row["measured"], row["expected"], row["unit"]) == (
        *("made-1", "fail"),
        *(200e9, 228e9, "byte/s"),
    )
    assert (row["healthy"], row["of_healthy"]) == (235.05e9, pytest.approx(200 / 235.05))
    assert str(row["healthy_source"]).startswith("microsoft/superbench-results")
    root = ET.fromstring(told("junit"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "1",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    [failure] = root.iter("failure")
    assert failure.get("type") == "NHC2010"
    said = "measured 2e+11 byte/s, expected at least 2.28e+11 byte/s, healthy 2.3505e+11 byte/s"
    assert f"{said} (85.1% of it)" in str(failure.get("message"))
    metrics = told("prometheus")
    assert metrics.count("trueup_health_verdict{") == 1
    assert 'Hostname="made-1"' in metrics
    [line] = [line for line in metrics.splitlines() if line.startswith("trueup_health_verdict{")]
    assert line.endswith("} 2")
    [line] = [line for line in metrics.splitlines() if line.startswith("trueup_health_measured{")]
    assert line.endswith("} 200000000000.0")
    [line] = [line for line in metrics.splitlines() if line.startswith("trueup_health_healthy{")]
    assert line.endswith("} 235050000000.0")


def test_a_name_of_a_node_cannot_break_out_of_a_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = nccl_record(tmp_path, 250.0, nodes=['a"} 1\n\x01<b>'])
    health = examine(cases_of(load([source])), FACTS)
    [line] = [
        line
        for line in prometheus.render(health, every_series=True).splitlines()
        if "verdict{" in line
    ]
    assert 'Hostname="a\\"} 1??<b>"' in line
    suite = next(iter(ET.fromstring(junit.render(health))))
    assert suite.get("name") == 'a"} 1 ?<b>' or suite.get("name") == 'a"} 1\n?<b>'
