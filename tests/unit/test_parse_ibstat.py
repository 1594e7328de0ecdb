"""ibstat's output: what must be read from it, or refused; and it agrees with the sysfs trees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import root_of
from trueup.errors import ParseError
from trueup.node import infiniband
from trueup.node.ibstat import Port, parse_ibstat

DATA = Path(__file__).parent.parent / "data" / "ibstat"
NDV4 = (DATA / "nd96asr_v4.txt").read_text()
# Soft-RoCE has no firmware, and ibstat prints the name with nothing behind it.
SOFT = NDV4[: NDV4.index("CA 'mlx5_ib1'")].replace(
    "Firmware version: 20.31.1014", "Firmware version:"
)


@pytest.mark.parametrize("machine", sorted(path.stem for path in DATA.glob("*.txt")))
def test_it_agrees_with_the_machines_sysfs(machine: str) -> None:
    ports = sorted(
        parse_ibstat((DATA / f"{machine}.txt").read_text()), key=lambda port: port.device
    )
    rows = infiniband.read_devices(str(root_of(machine) / "sys"))
    assert [
        (port.device, port.state, port.physical_state, port.rate_gbps, port.link_layer)
        for port in ports
    ] == [
        (
            row["device"],
            row["state"],
            row["physical_state"],
            row["rate_gbps"],
            row["link_layer"],
        )
        for row in rows
    ]


def test_a_port() -> None:
    assert parse_ibstat(NDV4)[0] == Port(
        "mlx5_ib0", 1, "20.31.1014", "ACTIVE", "LinkUp", 200.0, "InfiniBand"
    )
    assert parse_ibstat(SOFT)[0].firmware is None


def test_a_link_that_is_down_and_one_that_initialises() -> None:
    down = (
        SOFT.replace("Active", "Down").replace("LinkUp", "Polling").replace("Rate: 200", "Rate: 10")
    )
    assert (parse_ibstat(down)[0].state, parse_ibstat(down)[0].rate_gbps) == ("DOWN", 10.0)
    assert parse_ibstat(SOFT.replace("Active", "Initializing"))[0].state == "INIT"


def test_two_ports_of_one_adapter() -> None:
    second = SOFT[SOFT.index("\tPort 1:") :].replace("Port 1", "Port 2")
    ports = parse_ibstat(SOFT.replace("ports: 1", "ports: 2") + second)
    assert [port.number for port in ports] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no adapter in its answer"),
        ("ibpanic: no devices\n", "neither an adapter, a port nor a value of one (line 1"),
        (SOFT.replace("State: Active", "State: Sleeping"), "is 'Sleeping' at '200' Gb/s"),
        (SOFT.replace("Rate: 200", "Rate: fast"), "is 'Active' at 'fast' Gb/s"),
        (SOFT[: SOFT.index("\t\tRate")], "lacks Rate, Link layer"),
        (SOFT[: SOFT.index("\tPort")], "says it has 1 port(s) and shows 0"),
        (SOFT.replace("layer: InfiniBand", "layer: Infini"), "has the link layer 'Infini'"),
        (SOFT.replace("ports: 1", "ports: 2"), "says it has 2 port(s) and shows 1"),
        (SOFT.replace("\tPort 1:", "\tPortal"), "neither an adapter, a port"),
    ],
)
def test_damaged_output_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_ibstat(text)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_truncation_gives_whole_adapters_or_an_error(data: st.DataObject) -> None:
    right = parse_ibstat(NDV4)
    cut = data.draw(st.integers(0, len(NDV4)))
    try:
        got = parse_ibstat(NDV4[:cut])
    except ParseError:
        return
    assert got == right[: len(got)]
