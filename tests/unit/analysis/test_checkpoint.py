"""trueup checkpoint: rates below an account's limit, and intervals by Young and Daly."""

from __future__ import annotations

import json

import pytest
from helpers import parametrized
from trueup_analysis import cli
from trueup_analysis.figures.checkpoint import intervals, transfer
from trueup_node.errors import BadInput


def test_the_articles_eight_copies_stay_below_twenty_gigabits() -> None:
    """8 x 2300 Mb/s is 18.4 Gb/s."""
    sent = transfer(2.3e12, copies=8, limit=20e9, cap=2300e6)
    assert sent.rate_bits_per_second == 18.4e9
    assert sent.seconds == pytest.approx(1000.0, rel=1e-12)


@parametrized(("copies", "limit", "cap"))
def test_without_a_cap_the_largest_that_stays_below_is_taken(
    copies: int, limit: float, cap: float
) -> None:
    sent = transfer(1e12, copies=copies, limit=limit)
    assert sent.cap_bits_per_second == cap
    assert sent.rate_bits_per_second < limit <= copies * (cap + 100e6)


@parametrized(("arguments", "said"))
def test_what_an_account_would_throttle_is_refused_with_what_would_do(
    arguments: dict[str, float], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        transfer(1e12, **arguments)  # type: ignore[arg-type]  # as above
    assert said in str(caught.value)


@pytest.mark.parametrize("hours", [1.0, 1e-3, 5e-324])
def test_where_no_checkpoint_comes_to_its_end_all_is_lost(hours: float) -> None:
    """10,000 nodes, each failing every hour: a failure each 0.36 s."""
    found = intervals(1000.0, overhead=0.05, nodes=10_000, node_hours=hours)
    assert found.lost_share == 1.0


@pytest.mark.parametrize("node_hours", [None, 20_000.0])
@pytest.mark.parametrize("nodes", [0, -1])
def test_a_count_of_nodes_is_positive_also_where_it_is_not_needed(
    nodes: int, node_hours: float | None
) -> None:
    with pytest.raises(BadInput, match=f"nodes {nodes} is not a positive number"):
        intervals(10.0, overhead=0.05, nodes=nodes, node_hours=node_hours)


@pytest.mark.parametrize("overhead", [0.0, 1.0, -0.1, 5.0])
def test_a_share_is_between_nothing_and_all(overhead: float) -> None:
    with pytest.raises(BadInput, match="is not a share between 0 and 1"):
        intervals(10.0, overhead=overhead)


def test_the_command_prints_units_and_json_base_units(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trueup", "checkpoint", "--gigabytes", "2300", "--cap-mbps", "2300"]
    monkeypatch.setattr("sys.argv", [*words, "--nodes", "16", "--node-mtbf-hours", "20000"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    told = capsys.readouterr().out
    assert "18.4  Gb/s" in " ".join(told.split()).replace("18.4 Gb/s", "18.4  Gb/s")
    monkeypatch.setattr("sys.argv", [*words, "--format", "json"])
    with pytest.raises(SystemExit):
        cli.main()
    [table] = json.loads(capsys.readouterr().out)["tables"]
    rows = {row["name"]: (row["value"], row["base_unit"]) for row in table["rows"]}
    assert rows["checkpoint_time"] == (pytest.approx(1000.0), "s")
    assert rows["least_interval"] == (pytest.approx(20_000.0), "s")
    assert rows["rate"] == (18.4e9, "bit/s")
