"""Understand ``ibstat`` of infiniband-diags.

One section an adapter (``CA 'mlx5_ib0'``) with an indented section a port (``Port 1:``), each a
list of ``name: value``. GUIDs and LIDs are passed over. Source: infiniband-diags, ibstat(8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ParseError, refuse_long_numbers

_STATES = {
    "Down": "DOWN",
    "Initializing": "INIT",
    "Armed": "ARMED",
    "Active": "ACTIVE",
}
_LINK_LAYERS = ("InfiniBand", "Ethernet")
_NEEDED = ("State", "Physical state", "Rate", "Link layer")


@dataclass(frozen=True)
class Port:
    """A port of an adapter.

    Attributes:
        device: name of the adapter, e.g. ``mlx5_ib0``.
        number: number of the port, from 1.
        firmware: version of the adapter's firmware; None where it has none (soft-RoCE).
        state: as sysfs writes it: ``ACTIVE``, ``INIT``, ``ARMED`` or ``DOWN``.
        physical_state: such as ``LinkUp``, ``Polling`` or ``Disabled``.
        rate_gbps: rate of the link in Gb/s.
        link_layer: ``InfiniBand`` or ``Ethernet``.
    """

    device: str
    number: int
    firmware: str | None
    state: str
    physical_state: str
    rate_gbps: float
    link_layer: str


def parse_ibstat(text: str) -> tuple[Port, ...]:
    """Parse the output of ``ibstat``: the ports of all adapters, in its order.

    Raises:
        ParseError: a line, state or rate of another shape, an adapter with fewer ports than it
            says, a port that lacks a value, or no adapter.
    """
    refuse_long_numbers(text)
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    ports: list[Port] = []
    device = ""
    adapter: dict[str, str] = {}
    number = 0
    values: dict[str, str] = {}

    def end_port() -> None:
        if number:
            ports.append(_port(device, number, adapter, values))

    def end_adapter() -> None:
        end_port()
        said = adapter.get("Number of ports")
        count = sum(port.device == device for port in ports)
        if device and said != str(count):
            raise ParseError(f"ibstat: {device} says it has {said} port(s) and shows {count}")

    for line_number, line in lines:
        heading = re.fullmatch(r"CA '(\S+)'", line)
        port = re.fullmatch(r"\tPort (\d+):", line)
        value = re.fullmatch(r"(\t{1,2})([A-Za-z][A-Za-z ]*): ?(.*)", line)
        if heading:
            end_adapter()
            device, adapter, number, values = heading.group(1), {}, 0, {}
        elif port and device:
            end_port()
            number, values = int(port.group(1)), {}
        elif value and device and (number or len(value.group(1)) == 1):
            section = values if len(value.group(1)) == 2 else adapter
            section[value.group(2)] = value.group(3).strip()
        else:
            raise ParseError(
                "ibstat: neither an adapter, a port nor a value of one", line_number, line
            )
    end_adapter()
    if not ports:
        raise ParseError("ibstat: no adapter in its answer")
    return tuple(ports)


def _port(device: str, number: int, adapter: dict[str, str], values: dict[str, str]) -> Port:
    missing = [name for name in _NEEDED if not values.get(name)]
    if missing:
        raise ParseError(f"ibstat: port {number} of {device} lacks {', '.join(missing)}")
    if values["Link layer"] not in _LINK_LAYERS:
        raise ParseError(
            f"ibstat: port {number} of {device} has the link layer {values['Link layer']!r}"
        )
    state = _STATES.get(values["State"])
    if state is None or re.fullmatch(r"\d+(\.\d+)?", values["Rate"]) is None:
        raise ParseError(
            f"ibstat: port {number} of {device} is {values['State']!r} at {values['Rate']!r} Gb/s, "
            "which is no known state and a number"
        )
    return Port(
        device=device,
        number=number,
        firmware=adapter.get("Firmware version") or None,
        state=state,
        physical_state=values["Physical state"],
        rate_gbps=float(values["Rate"]),
        link_layer=values["Link layer"],
    )
