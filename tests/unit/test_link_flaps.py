"""Links that come and go, by journal lines in the formats of systemd-networkd, NetworkManager and
mlx5 (synthetic: no adapter that flaps was at hand)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from trueup_node.node.link_flaps import losses

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


def test_one_event_that_two_tell_of_counts_once() -> None:
    both = (
        line(0, "mlx5_core 0101:00:00.0 ib0: Link down", "kernel"),
        line(2, "ib0: Lost carrier"),
    )
    assert counted(*both, line(600, "ib0: Lost carrier")) == {"ib0": 2, "ib10": 0}


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert {row["losses"] for row in losses(text, DEVICES)} == {0}
