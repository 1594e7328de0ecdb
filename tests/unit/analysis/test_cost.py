"""Cost: node-hours, prices by date, and what has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import made
import pandas as pd
import pytest
from helpers import parametrized
from trueup_analysis import rooms
from trueup_analysis.cases import read_cases
from trueup_analysis.figures.cost import CostTable, table
from trueup_analysis.figures.health import expectations
from trueup_analysis.figures.pooling import has_work, work_priced
from trueup_analysis.figures.prices import read_prices
from trueup_analysis.figures.terms import Terms
from trueup_analysis.load import Loaded, load
from trueup_analysis.sheets import cost as cost_sheets
from trueup_node.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
PRICES = ROOT / "catalog" / "prices.csv"
SIZE = "Standard_HB120rs_v3"


def measured(tmp_path: Path, records: list[dict[str, Any]]) -> Loaded:
    return load([made.write(tmp_path, records)])


def figure(name: str, value: float, unit: str, **more: Any) -> dict[str, Any]:
    return made.figure(name, value, unit, "higher", **more)


def of(benchmark: str, metrics: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A record of another benchmark, with these parameters alone."""
    parameters = changes.pop("parameters", {})
    fields = {"case": "made", "software": {benchmark: "1.0"}, **changes}
    return {**made.record(benchmark=benchmark, metrics=metrics, **fields), "parameters": parameters}


def on(number: int, record: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same on another node: records that agree in name, node and duration are one."""
    return {**record, "nodes": [f"n{number}"], "duration_seconds": float(number), **changes}


def prices(*rows: tuple[str, str, float, str]) -> list[dict[str, Any]]:
    """Made prices of the size: region, offer, US$ an hour, date."""
    return [
        {
            "size": SIZE,
            "region": region,
            "os": "linux",
            "offer": offer,
            "usd_per_hour": usd,
            "as_of_date": date,
            "source": f"made {date}",
            "notes": "",
        }
        for region, offer, usd, date in rows
    ]


def test_the_articles_cost_table_with_what_it_leaves_out() -> None:
    result = table(
        load([ROOT / "catalog" / "reference_results.csv"]),
        prices=read_prices(PRICES),
        terms=Terms(region="eastus"),
    )
    totals = made.frame(result.totals)
    assert [f"{value:.3f}" for value in totals["published_hours"]] == ["0.197", "0.086", "0.102"]
    assert [f"{value:.4f}" for value in totals["sum_run_hours"]] == ["0.1975", "0.0861", "0.1029"]
    assert [f"{value:.4f}" for value in totals["node_hours"]] == ["0.1975", "0.2588", "0.3250"]
    assert [f"{value:.1f}" for value in totals["underbilled"]] == ["1.0", "3.0", "3.2"]
    assert totals["usd"].to_list() == pytest.approx((totals["node_hours"] * 3.60).to_list())
    assert len(result.table) == 13
    assert set(made.frame(result.table)["price_date"]) == {"2026-06-18"}


def test_a_row_carries_all_that_a_price_depends_on(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record(36.0, node_count=2, nodes=["a", "b"])])
    row = made.frame(
        table(loaded, prices=prices(("eastus", "payg", 3.6, "2026-06-18"))).table
    ).iloc[0]
    assert row["node_hours"] == pytest.approx(0.02)
    assert row["usd_per_run"] == pytest.approx(0.072)
    assert row["usd_per_pflop"] == pytest.approx(0.072 / (made.WORK / 1e15))
    assert row["usd_per_billion_grid_points"] == pytest.approx(0.072 / (made.POINTS / 1e9))
    shown = ["vm_size", "region", "os", "offer", "currency", "price_date", "price_source", "n"]
    assert row[shown].to_list() == [
        SIZE, "eastus", "linux", "payg", "USD", "2026-06-18", "made 2026-06-18", 3,
    ]  # fmt: skip


@parametrized(("price_date", "usd"))
def test_the_newest_price_on_or_before_the_day_counts(
    tmp_path: Path, price_date: str | None, usd: float | None
) -> None:
    book = prices(
        ("eastus", "payg", 4.0, "2026-06-18"),
        ("eastus", "payg", 2.0, "2024-01-01"),
        ("eastus", "payg", 9.0, ""),
        ("eastus", "payg", 3.0, "2025-05-16"),
    )
    result = table(
        measured(tmp_path, [made.record()]), prices=book, terms=Terms(price_date=price_date)
    )
    found = made.frame(result.table)["usd_per_hour"].iloc[0]
    assert (None if pd.isna(found) else found) == usd
    assert (result.unknown == []) is (usd is not None)


def test_an_undated_price_counts_nowhere_and_is_named(tmp_path: Path) -> None:
    loaded = measured(tmp_path, [made.record()])
    result = table(loaded, prices=prices(("eastus", "payg", 9.0, "")))
    assert made.frame(result.table)["usd_per_hour"].to_list() == [None]
    [sentence] = result.unknown
    assert [word in sentence for word in ("payg", "eastus", "it has no date", SIZE)] == [True] * 4


@parametrized(("spot", "saving", "word"))
def test_spot_is_a_saving_only_below_the_list_price(
    tmp_path: Path, spot: float, saving: float | None, word: str | None
) -> None:
    book = prices(("eastus", "payg", 3.6, "2026-06-18"), ("eastus", "spot", spot, "2026-06-18"))
    result = table(measured(tmp_path, [made.record()]), prices=book, terms=Terms(offer="spot"))
    found = made.frame(result.table)["saving"].iloc[0]
    assert (None if pd.isna(found) else found) == (
        None if saving is None else pytest.approx(saving)
    )
    expected = (
        []
        if word is None
        else [f"The spot price in eastus {word} the list price: no saving for {SIZE}."]
    )
    assert result.warnings == expected


@parametrized(("changes", "options", "message"))
def test_an_unknown_price_is_unknown_and_says_why(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    loaded = measured(tmp_path, [made.record(**changes)])
    result = table(loaded, prices=read_prices(PRICES), terms=Terms(**options))
    assert made.frame(result.table)["usd_per_run"].isna().to_list() == [True]
    assert made.frame(result.table)["node_hours"].to_list() == pytest.approx([10 / 3600])
    assert [message in text for text in result.unknown] == [True]


@parametrized(("options", "message"))
def test_what_no_price_can_have_is_refused_with_the_nearest(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    loaded = measured(tmp_path, [made.record()])
    with pytest.raises(BadInput, match=message):
        table(loaded, prices=read_prices(PRICES), terms=Terms(**options))
    # A price of one's own needs none of them.
    if "price_date" not in options:
        table(loaded, prices=read_prices(PRICES), terms=Terms(price=3.6, **options))


@pytest.mark.parametrize("region", ["eastus", "mars"])
def test_a_day_before_the_first_price_is_said(tmp_path: Path, region: str) -> None:
    loaded = measured(tmp_path, [made.record(region=region)])
    book = [row for row in read_prices(PRICES) if row["as_of_date"]]
    result = table(loaded, prices=book, terms=Terms(price_date="2015-01-01"))
    first = {
        row["region"]: row["as_of_date"]
        for row in sorted(book, key=lambda row: row["as_of_date"], reverse=True)
        if (row["size"], row["os"], row["offer"]) == (SIZE, "linux", "payg")
    }
    there = first.get(region, min(first.values()))
    assert [
        f"on or before 2015-01-01; the first one is of {there}" in text for text in result.unknown
    ] == [True]


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(tmp_path: Path, price: float) -> None:
    with pytest.raises(BadInput, match=r"is not above zero"):
        table(
            measured(tmp_path, [made.record()]),
            prices=read_prices(PRICES),
            terms=Terms(price=price),
        )


def test_a_case_without_a_node_count_is_refused(tmp_path: Path) -> None:
    known = measured(tmp_path, [made.record()])
    loaded = replace(
        known, records=known.records.assign(node_count=pd.Series([pd.NA], dtype="Int64"))
    )
    with pytest.raises(BadInput, match=r"does not say on how many nodes it ran"):
        table(loaded, prices=read_prices(PRICES))


@pytest.mark.parametrize(
    "record",
    [
        made.record(outcome="failed", reason="killed"),
        # A loopback moves nothing for anyone, and vLLM's tokens are priced elsewhere.
        of("ib", [figure("ib_write_bandwidth", 4e11, "bit/s")], parameters={"role": "loopback"}),
        of("vllm", [figure("output_token_throughput", 1e3, "1/s")]),
        of("ib", [figure("ib_send_latency", 2e-6, "s")], parameters={"role": "client"}),
    ],
)
def test_records_without_work_cannot_be_priced(tmp_path: Path, record: dict[str, Any]) -> None:
    loaded = measured(tmp_path, [record])
    with pytest.raises(BadInput, match=r"none of 1 records is ok and holds a run time"):
        table(loaded, prices=read_prices(PRICES))
    assert has_work(loaded) is False


@parametrized(("text", "message"))
def test_a_spoilt_price_table_is_refused_with_the_line(
    tmp_path: Path, text: str, message: str
) -> None:
    header = "size,region,os,offer,usd_per_hour,as_of_date,source,notes"
    path = tmp_path / "prices.csv"
    path.write_text(text.replace("H\n", header + "\n"), encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        read_prices(path)


# 16 GiB, the largest message here.
LARGE = 16 * 1024**3


@pytest.mark.parametrize(
    ("record", "price", "key", "usd"),
    [
        # 4 nodes x 3.60 US$/h = 14.40 US$/h = 345.60 US$ a day; / 100 ns a day.
        (
            of("gromacs", [figure("simulation_rate", 100.0, "ns/day")], node_count=4),
            *(3.60, "ns", 3.456),
        ),
        # 36 US$/h = 0.01 US$/s; / 0.025 TB/s. The largest message size counts.
        (
            of(
                "ib",
                [
                    figure("ib_write_bandwidth", 2.0e11, "bit/s", message_bytes=LARGE),
                    figure("ib_write_bandwidth", 3.9e11, "bit/s", message_bytes=1024),
                ],
                parameters={"role": "client"},
            ),
            *(36.0, "tb", 0.4),
        ),
        # 72 US$/h = 0.02 US$/s; 8 GPUs at once x 0.5 PFLOP/s = 4 PFLOP/s.
        (
            of(
                "gemm",
                [figure("gemm_bf16", 5e14, "flop/s", device=f"gpu{gpu}") for gpu in range(8)],
                parameters={"gpus_at_once": "all"},
            ),
            *(72.0, "pflop_in_bf16", 0.005),
        ),
        # One GPU after the other: 0.02 US$/s / 0.05 TB/s, the slowest of them.
        (
            of(
                "gpu_copy",
                [
                    figure("h2d_bandwidth", 5e10 + gpu * 1e9, "byte/s", device=f"gpu{gpu}")
                    for gpu in range(8)
                ],
            ),
            *(72.0, "tb", 0.4),
        ),
        # 2 nodes x 18 US$/h = 0.01 US$/s; / 50 samples/s = 0.0002 US$ each.
        (
            of("megatron", [figure("sample_throughput", 50.0, "1/s")], node_count=2),
            *(18.0, "million_samples", 200.0),
        ),
        # 3.60 US$/h = 0.001 US$/s; 3 GB/s read and 1 GB/s written = 0.004 TB/s.
        (
            of(
                "fio",
                [
                    figure(f"{way}_bandwidth", rate, "byte/s")
                    for way, rate in (("read", 3e9), ("write", 1e9))
                ],
            ),
            *(3.6, "tb", 0.25),
        ),
        # 72 US$/h = 0.02 US$/s; / 0.25 PFLOP/s.
        (of("hpl", [figure("hpl_rate", 2.5e14, "flop/s")]), 72.0, "pflop", 0.08),
    ],
)
def test_us_dollars_by_unit_of_work_are_those_worked_out_by_hand(
    tmp_path: Path, record: dict[str, Any], price: float, key: str, usd: float
) -> None:
    nodes = [f"n{number}" for number in range(record["node_count"])]
    loaded = measured(tmp_path, [{**record, "nodes": nodes}])
    row = made.frame(
        table(loaded, prices=read_prices(PRICES), terms=Terms(price=price)).table
    ).iloc[0]
    assert row[f"usd_per_{key}"] == pytest.approx(usd, rel=1e-12)
    per_hour = row[f"{key}_per_node_hour"]
    assert per_hour * usd == pytest.approx(price, rel=1e-12)
    # None of these has a run time.
    assert row[["run_seconds", "node_hours", "usd_per_run"]].isna().to_list() == [True] * 3


def test_the_judged_message_size_counts_else_the_largest(tmp_path: Path) -> None:
    size = "Standard_ND96isr_H100_v5"
    judged_size = 8 * 1024**2
    sweep = [
        figure("ib_write_bandwidth", 1.6e11 * scale, "bit/s", message_bytes=judged_size * scale)
        for scale in (1, 2)
    ]
    parameters = {"role": "client", "gdr": "yes", "queue_pairs": 1, "connection": "RC"}
    record = of("ib", sweep, vm_size=size, parameters={**parameters, "link": "IB"})
    loaded = measured(tmp_path, [record])
    judged = expectations.read(ROOT / "catalog" / "expectations.yml")
    # 36 US$/h = 0.01 US$/s; / 0.02 TB/s at 8 MiB, / 0.04 TB/s at 16 MiB.
    for expected, place, usd in ((judged, judged_size, 0.5), (None, 2 * judged_size, 0.25)):
        found = made.frame(
            table(loaded, prices=prices(), terms=Terms(price=36.0), expectations=expected).table
        ).iloc[0]
        assert (found["message_bytes"], found["usd_per_tb"]) == (place, pytest.approx(usd))


def test_nodes_of_one_size_that_ran_the_same_are_one_row(tmp_path: Path) -> None:
    alone = [
        on(number, of("stream", [
            figure("triad_rate", (1 + number / 100) * 2e11, "byte/s", n=5)
        ], parameters={"elements": 10**9}))
        for number in range(21)
    ]  # fmt: skip
    copies = [
        on(number, of("gpu_copy", [
            figure("h2d_bandwidth", 5e10 + number * 1e9, "byte/s", device=f"gpu{number % 2}"),
            figure("h2d_bandwidth", 9e10, "byte/s", device="gpu7"),
        ]))
        for number in range(3)
    ]  # fmt: skip
    pairs = [
        on(number, of("ib", [figure("ib_write_bandwidth", 4e11, "bit/s", message_bytes=8)],
           case=f"write_bw-n{number}-n{number + 1}", node_count=2, parameters={"role": "client"}),
           nodes=[f"n{number}", f"n{number + 1}"])
        for number in range(4)
    ]  # fmt: skip
    loaded = measured(tmp_path, [*alone, *copies, *pairs])
    found = made.frame(table(loaded, prices=prices(), terms=Terms(price=36.0)).table)
    shown = ["benchmark", "case", "apart", "records", "devices", "device"]
    assert found[shown].astype(object).where(found[shown].notna(), None).to_numpy().tolist() == [
        ["stream", "made", "", 21, None, None],
        # The slowest GPU is another one on each node.
        ["gpu_copy", "made", "", 3, 2, None],
        ["ib", "write_bw-*-*", "", 4, None, None],
    ]
    assert found["n"].iloc[0] == 21 * 5
    # The medians: node 10 of 0 to 20, and node 1 of 0 to 2.
    assert found["value"].to_list() == pytest.approx([2.2e11, 5.1e10, 4e11])
    # 2 nodes x 0.01 US$/s / 0.05 TB/s for the pairs.
    assert found["usd_per_tb"].to_list() == pytest.approx([0.01 / 0.22, 0.01 / 0.051, 0.4])


def test_pooled_figures_are_those_of_each_record(tmp_path: Path) -> None:
    records = [made.record(seconds, nodes=[f"n{seconds}"]) for seconds in (8.0, 10.0, 13.0)]
    loaded = measured(tmp_path, records)
    row = made.frame(table(loaded, prices=prices(), terms=Terms(price=3.6)).table).iloc[0]
    cases = read_cases(loaded)
    one = sorted(cases, key=lambda case: case.plain("run_time") or 0)[1]
    shown = rooms.headline(one)
    assert shown is not None
    assert (row["metric"], row["value"], row["unit"]) == (
        shown.measure.metric, shown.value, shown.measure.unit,
    )  # fmt: skip
    for work in work_priced("devito"):
        rate = rooms.amount_rate(one, work)
        assert rate is not None
        assert row[f"{work.key}_per_node_hour"] == pytest.approx(rate * 3600 / work.amount)


def marked(result: CostTable) -> list[tuple[str, bool]]:
    return list(
        zip(
            made.frame(result.table)["compared_by"],
            made.frame(result.table)["cheapest"],
            strict=True,
        )
    )


def test_the_cheapest_of_the_same_work_is_marked(tmp_path: Path) -> None:
    book = prices(("eastus", "payg", 3.6, "2026-06-18"))
    records = [
        # Twice the nodes are not twice as fast.
        made.record(10.0, case="one"),
        made.record(6.0, case="two", node_count=2, nodes=["a", "b"]),
        made.record(10.0, case="tie", ranks=2, threads=2),
        # Other work, alone and without a price.
        made.record(1.0, case="other", parameters={"space_order": 16}),
        made.record(1.0, case="unpriced", vm_size=None),
    ]
    by = "usd_per_billion_grid_points"
    found = marked(table(measured(tmp_path, records), prices=book))
    assert found == [(by, True), (by, False), (by, True), ("", False), ("", False)]


def test_a_rate_of_zero_is_no_cost(tmp_path: Path) -> None:
    records = [of("hpl", [figure("hpl_rate", 0.0, "flop/s")])]
    result = table(measured(tmp_path, records), prices=prices(), terms=Terms(price=3.6))
    assert made.frame(result.table)[["usd_per_pflop", "pflop_per_node_hour"]].isna().all(axis=None)
    (sheet,) = cost_sheets.cost(result)
    assert [column.key for column in sheet.shown()] == ["shown_case", "shown_figure"]


@pytest.mark.parametrize("spoilt", [float("nan"), 0.0, -1.0, float("inf")])
def test_a_price_that_cannot_be_one_counts_as_none(tmp_path: Path, spoilt: float) -> None:
    book = prices(("eastus", "payg", spoilt, "2026-06-18"))
    result = table(measured(tmp_path, [made.record()]), prices=book)
    assert made.frame(result.table)["usd_per_run"].isna().to_list() == [True]
    assert (result.has_prices, len(result.unknown)) == (False, 1)


def test_a_figure_in_another_unit_gives_no_cost_and_is_said(tmp_path: Path) -> None:
    records = [
        of("hpl", [figure("hpl_rate", 2.5e14, "flop/s")], case="right"),
        of("hpl", [figure("hpl_rate", 250.0, "1/s")], case="wrong"),
    ]
    result = table(measured(tmp_path, records), prices=prices(), terms=Terms(price=72.0))
    assert made.frame(result.table)["case"].to_list() == ["right", "wrong"]
    assert made.frame(result.table)["usd_per_pflop"].isna().to_list() == [False, True]
    assert result.warnings == [
        "hpl: hpl_rate is in 1/s, not in flop/s, in 1 record, and does not count there."
    ]


def test_bus_bandwidth_has_no_price(tmp_path: Path) -> None:
    """NCCL measures links: nobody buys a TB of it."""
    rates = [figure(name, 4e11, "byte/s", message_bytes=LARGE) for name in ("busbw", "algbw")]
    nccl = of("nccl", rates, parameters={"operation": "all_reduce"})
    with pytest.raises(BadInput, match="nothing to price"):
        table(measured(tmp_path, [nccl]), prices=read_prices(PRICES))


def test_a_figure_of_each_gpu_on_more_nodes_is_another_work(tmp_path: Path) -> None:
    records = [
        on(nodes, of("gemm", [figure("gemm_bf16", 7e14, "flop/s")],
           case=f"bf16-{nodes}x8", node_count=nodes, gpus=8 * nodes,
           vm_size="Standard_ND96isr_H100_v5", parameters={"gpus_at_once": "all"}),
           nodes=[f"n{node}" for node in range(nodes)])
        for nodes in (1, 2, 64)
    ]  # fmt: skip
    result = table(measured(tmp_path, records), prices=read_prices(PRICES))
    assert made.frame(result.table)["cheapest"].to_list() == [False] * 3
