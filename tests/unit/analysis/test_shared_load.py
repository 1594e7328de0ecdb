"""The I/O rate of shared storage at a latency, over clients that measured together."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import made
import pytest
from trueup_analysis.figures.reference import storage
from trueup_analysis.figures.shared_load import rows
from trueup_analysis.load import load
from trueup_analysis.sheets.reference import storage_sheets
from trueup_node.cases import Case, Figure

REFERENCE = Path(__file__).resolve().parents[3] / "catalog" / "reference_results.csv"
VOLUME = "10.1.0.4:/tools"


def figures(
    rate: float, latency: float, device: str | None = None, block: int = 4096
) -> list[Figure]:
    """Half reads, half writes; the writes take three times as long as the reads."""
    shares = {"read": (0.5, 0.5 * latency), "write": (0.5, 1.5 * latency)}
    found = []
    for kind, (share, mean) in shares.items():
        found += [
            Figure(f"{kind}_bandwidth", block * rate * share, "byte/s", "higher", device=device),
            Figure(f"{kind}_iops", rate * share, "1/s", "higher", device=device),
            Figure(f"{kind}_latency", mean, "s", "lower", device=device, statistic="mean"),
            Figure(f"{kind}_latency", 9.0, "s", "lower", device=device, statistic="p99"),
        ]
    return found


def case(
    node: str, depth: int, of: list[Figure], *, second: int = 0, duration: float = 70.0, **more: Any
) -> Case:
    parameters = {
        "filesystem_source": VOLUME,
        "workload": "eda_mixed",
        "iodepth": depth,
        "runtime_seconds": 60,
        **more,
    }
    return Case(
        nodes=(node,),
        vm_size=None,
        benchmark="fio",
        case="eda_mixed-direct",
        outcome="ok",
        reason=None,
        parameters=parameters,
        software={},
        figures=of,
        run_id="r",
        started_at=f"2026-11-23T06:00:{second:02}+00:00",
        duration=duration,
    )


def ladder(clients: int, latencies: dict[int, float], rate: float = 1000.0) -> list[Case]:
    """Each client has ``rate`` I/Os per second for each one in flight, and these latencies."""
    return [
        case(f"c{number}", depth, figures(rate * depth, latency))
        for depth, latency in latencies.items()
        for number in range(clients)
    ]


def test_ten_clients_are_summed_and_the_rate_lies_between_two_points() -> None:
    (row,), notes = rows(ladder(10, {1: 0.0005, 2: 0.001, 4: 0.003, 8: 0.009}))
    assert notes == []
    assert (row["clients"], row["points"], row["said"]) == (10, 4, "")
    # Half way from 20000 to 40000, and two thirds from 40000 to 80000.
    assert row["rate_at_2ms"] == pytest.approx(30000)
    assert row["rate_at_7ms"] == pytest.approx(40000 + 40000 * 4 / 6)
    assert row["bandwidth_at_2ms"] == pytest.approx(30000 * 4096)
    assert (row["edge_rate"], row["edge_latency"]) == pytest.approx((80000, 0.009))


def test_the_latency_is_the_mean_of_all_ios_and_not_of_the_parts() -> None:
    mixed = [*figures(9000, 0.001, "frontend"), *figures(1000, 0.011, "backend", 262144)]
    (row,), _ = rows([case("a", 4, mixed)])
    assert row["edge_latency"] == pytest.approx(0.002)
    assert row["edge_rate"] == pytest.approx(10000)


@pytest.mark.parametrize(
    ("latencies", "said"),
    [
        ({1: 0.003, 2: 0.004}, ["2 ms not reached: 3 ms at the lowest", "7 ms not reached: 4 ms"]),
        ({1: 0.0005, 2: 0.001}, ["2 ms not reached: 1 ms at the highest", "7 ms not reached"]),
        ({4: 0.002}, ["2 ms not known: one queue depth only", "7 ms not known"]),
        ({1: 0.002, 2: 0.002, 4: 0.002}, ["2 ms not reached", "7 ms not reached"]),
    ],
)
def test_a_latency_outside_the_points_is_not_made_up(
    latencies: dict[int, float], said: list[str]
) -> None:
    (row,), _ = rows(ladder(2, latencies))
    assert [name for name in row if "_at_" in name] == []
    found = row["said"].split("; ")
    assert [one[: len(start)] for one, start in zip(found, said, strict=True)] == said


def test_clients_that_did_not_measure_together_are_not_summed() -> None:
    late = [
        case("a", 2, figures(1000, 0.001)),
        case("b", 2, figures(1000, 0.001), second=7),
        case("a", 4, figures(2000, 0.003)),
        case("b", 4, figures(2000, 0.003), second=5),
    ]
    (row,), notes = rows(late)
    assert (row["points"], row["edge_rate"]) == (1, 4000)
    (note,) = notes
    assert note == (
        f"eda_mixed on {VOLUME} at queue depth 2: its 2 clients measured together for 88 % of the"
        " time, and 90 % are needed (b began 7 s after a; set fio_start_seconds and forks, or raise"
        " fio_runtime_seconds): no sum is made."
    )
    # One that took longer to make its files began to measure later.
    slow = [case("a", 2, figures(1, 1)), case("b", 2, figures(1, 1), duration=80.0)]
    made_of, notes = rows(slow)
    assert (made_of, len(notes)) == ([], 1)


def test_clients_that_begin_at_a_stated_second_measure_when_fio_has_opened_their_files() -> None:
    stated = [
        case("a", 2, figures(5, 0.001), duration=61.0, start_seconds=60),
        case("b", 2, figures(5, 0.001), duration=62.0, second=3, start_seconds=60),
    ]
    (row,), notes = rows(stated)
    assert (row["edge_rate"], notes) == (10, [])
    late = [stated[0], case("b", 2, figures(5, 0.001), second=7, duration=61.0, start_seconds=60)]
    # As measured over NFS (docs/benchmarks/fio.md): both were started in the same second.
    slow = [stated[0], case("b", 2, figures(5, 0.001), duration=69.0, start_seconds=60)]
    assert [rows(late)[0], rows(slow)[0]] == [[], []]
    assert [of[1][0].split("(")[1].split(";")[0] for of in (rows(late), rows(slow))] == [
        "b began 7 s after a",
        "b began 8 s after a",
    ]


def test_rows_hold_one_set_of_clients_one_volume_and_one_kind_of_load() -> None:
    several = [
        *ladder(2, {1: 0.001, 2: 0.003}),
        case("c0", 4, figures(9, 0.009)),
        case("c0", 1, figures(9, 0.001), filesystem_source="other"),
        case("c0", 1, figures(9, 0.001), jobs=3),
        case("c0", 1, figures(9, 0.001), workload="random_read"),
        case("c0", 0, figures(9, 0.001)),
        # Without a mean latency there is no point.
        case("c0", 16, [one for one in figures(9, 0.001) if one.statistic != "mean"]),
    ]
    found, _ = rows(several)
    assert sorted((row["clients"], row["points"]) for row in found) == [(1, 1), (1, 1), (2, 2)]


def test_a_client_that_is_lost_is_named_and_what_it_lacks_is_not_summed() -> None:
    lost = [
        *ladder(2, {1: 0.001, 2: 0.003}),
        case("c0", 4, figures(4000, 0.009)),
        case("c0", 8, figures(8000, 0.018)),
        dataclasses.replace(case("c1", 8, []), outcome="failed", reason="fio was killed"),
    ]
    run = {
        "run_id": "r",
        "expected": ["c0", "c1", "c2", "c3", "server"],
        "hosts": {"c1": {"unreachable": 1}, "c2": {"unreachable": 1}},
        "failed_in": {"c3": "fio"},
        "finished_at": "2026-11-23T07:00:00Z",
    }
    (row,), notes = rows(lost, [run])
    assert (row["clients"], row["points"], row["edge_rate"]) == (2, 2, 4000)
    where = f"eda_mixed on {VOLUME}"
    assert notes == [
        f"{where} at queue depth 4: no figures of c1 (unreachable): no sum is made.",
        f"{where} at queue depth 8: no figures of c1 (failed: fio was killed): no sum is made.",
        f"{where}: no record of c2 (unreachable), c3 (failed in fio); it is in no sum.",
    ]


def test_a_client_that_was_measured_again_after_it_failed_counts() -> None:
    again = [
        case("a", 1, figures(5, 0.001), second=3),
        dataclasses.replace(case("a", 1, [], second=9), outcome="failed", reason="late"),
    ]
    (row,), notes = rows(again)
    assert (row["edge_rate"], notes) == (5, [])


def test_the_sheet_has_the_shape_of_the_articles_table(tmp_path: Path) -> None:
    records = []
    for number, (depth, latency) in enumerate({1: 0.001, 2: 0.003, 4: 0.008}.items()):
        record = made.record()
        record.update(benchmark="fio", case="eda_mixed-direct", duration_seconds=70.0)
        record["started_at"] = f"2026-11-23T06:0{number}:00Z"
        record["parameters"] = {
            "directory": "/mnt",
            "filesystem": "nfs",
            "filesystem_source": VOLUME,
            "workload": "eda_mixed",
            "iodepth": depth,
            "runtime_seconds": 60,
        }
        record["metrics"] = [
            {"name": f"{kind}_{name}", "value": value, "unit": unit, "direction": "none"} | more
            for kind in ("read", "write")
            for name, value, unit, more in (
                ("bandwidth", 4e8 * depth, "byte/s", {}),
                ("iops", 1e5 * depth, "1/s", {}),
                ("latency", latency, "s", {"statistic": "mean"}),
            )
        ]
        records.append(record)
    sheets = storage_sheets(storage(REFERENCE, load([made.write(tmp_path, records)])))
    (sheet,) = (one for one in sheets if one.facts["kind"] == "own_storage_loads")
    (row,) = sheet.rows
    shown = {column.key: column.show(row.get(column.key)) for column in sheet.shown()}
    assert shown["rate_at_2ms"].replace(",", "") == "300000"
    assert shown["bandwidth_at_7ms"] == "2880.00"
    assert list(shown)[:3] == ["filesystem_source", "workload", "clients"]
