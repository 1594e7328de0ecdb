"""Links that come and go, by journal lines in the formats of systemd-networkd, NetworkManager and
mlx5 (synthetic: no adapter that flaps was at hand)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from trueup.node.link_flaps import carrier_losses, losses, problems

DEVICES: list[dict[str, Any]] = [
    {"device": "mlx5_ib0", "kind": "infiniband", "interfaces": ["ib0"]},
    {"device": "mlx5_ib10", "kind": "infiniband", "interfaces": ["ib10"]},
    {"device": "mlx5_an0", "kind": "ethernet", "interfaces": ["eth1"]},
]
AT = 1_700_000_000


def line(seconds: float, said: str, who: str = "systemd-networkd[812]") -> str:
    return f"{AT + seconds:.6f} node-1 {who}: {said}"


def counted(*lines: str) -> dict[str, int]:
    return {row["interface"]: row["losses"] for row in losses("\n".join(lines), DEVICES)}


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ("ib0: Lost carrier", "systemd-networkd[812]"),
        ("<info>  [1700000000.1] device (ib0): carrier: link disconnected", "NetworkManager[9]"),
        ("mlx5_core 0101:00:00.0 ib0: Link down", "kernel"),
    ],
)
def test_a_loss_is_known_by_who_says_it(said: str, who: str) -> None:
    assert counted(line(0, said, who)) == {"ib0": 1, "ib10": 0}


@parametrized("said")
def test_what_is_no_loss_of_an_infiniband_link(said: str) -> None:
    assert counted(line(0, said)) == {"ib0": 0, "ib10": 0}


def test_one_event_that_two_tell_of_counts_once() -> None:
    both = (
        line(0, "mlx5_core 0101:00:00.0 ib0: Link down", "kernel"),
        line(2, "ib0: Lost carrier"),
    )
    assert counted(*both, line(600, "ib0: Lost carrier")) == {"ib0": 2, "ib10": 0}


def test_more_than_one_loss_of_one_link_is_a_problem() -> None:
    text = "\n".join(line(at, "ib10: Lost carrier") for at in (0, 60, 120))
    found = losses(f"-- Boot 1 --\n{text}\n{line(130, 'ib0: Lost carrier')}", DEVICES)
    assert found[1] == {
        "device": "mlx5_ib10",
        "interface": "ib10",
        "losses": 3,
        "last": "2023-11-14T22:15:20Z",
    }
    [problem] = problems(found, 6)
    assert problem.startswith("mlx5_ib10 (ib10): its link was lost 3 times within 6 hours, last at")
    assert "NHC2005" in problem


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert {row["losses"] for row in losses(text, DEVICES)} == {0}


@pytest.mark.parametrize(
    ("counts", "total"),
    [({}, None), ({"ib0": "0"}, 0), ({"ib0": "2", "ib1": "3"}, 5), ({"ib0": "x"}, None)],
)
def test_the_kernels_own_count(tmp_path: Path, counts: dict[str, str], total: int | None) -> None:
    for name, text in counts.items():
        folder = tmp_path / "class" / "net" / name
        folder.mkdir(parents=True)
        (folder / "carrier_down_count").write_text(f"{text}\n")
    assert carrier_losses(["ib0", "ib1"], str(tmp_path)) == total
