"""What a deployment costs an hour, by line, and what of it still bills while its VMs are stopped.

The catalog has prices of VMs alone. Everything else is listed and counted, and the total then says
"at least".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, NamedTuple, Optional, Tuple

from .parameters import Parameters
from .template import disks, public_addresses

LIST, SPOT = "payg", "spot"


class Price(NamedTuple):
    """US$ an hour of one VM, of which day and from where; ``age`` in words where it is old."""

    usd_per_hour: float
    date: str
    source: str
    age: str = ""


@dataclass(frozen=True)
class Line:
    """One thing that bills.

    Attributes:
        what: in words.
        count: how many.
        each: its price; None where the catalog has none.
        offer: how it is bought; empty where it is no VM.
        stopped: whether it still bills while the VMs are stopped (deallocated).
    """

    what: str
    count: int
    each: Optional[Price] = None
    offer: str = ""
    stopped: bool = True

    @property
    def usd_per_hour(self) -> Optional[float]:
        """Of all of them."""
        return None if self.each is None else self.each.usd_per_hour * self.count


class Cost(NamedTuple):
    """The lines of a deployment, and the limit that holds for it."""

    lines: Tuple[Line, ...]
    limit: Optional[float]
    hours: float

    @property
    def usd_per_hour(self) -> float:
        """Of what has a price."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def unpriced(self) -> List[Line]:
        """The lines without a price."""
        return [line for line in self.lines if line.each is None]

    @property
    def stopped(self) -> List[Line]:
        """The lines that still bill while the VMs are stopped."""
        return [line for line in self.lines if line.stopped]

    def sentence(self) -> str:
        """All of it, for a reader."""
        hour = self.usd_per_hour
        least = "at least " if self.unpriced else ""
        text = (
            f"{least}{hour:,.2f} US$ an hour, {hour * 24:,.2f} US$ a day,"
            f" {hour * self.hours:,.2f} US$ until it expires"
        )
        if self.unpriced:
            text += f"; {len(self.unpriced)} of {len(self.lines)} lines have no price"
        return text

    def refusal(self) -> Optional[str]:
        """Why it may not be made; None where it may."""
        if self.limit is None or self.usd_per_hour <= self.limit:
            return None
        least = "at least " if self.unpriced else ""
        return (
            f"it costs {least}{self.usd_per_hour:,.2f} US$ an hour, above max_usd_per_hour"
            f" ({self.limit:g} US$): take fewer or smaller nodes, or raise it"
        )


Find = Callable[[str, str, str], Optional[Price]]


def cost(made: Parameters, find: Find, hours: float, limit: Optional[float] = None) -> Cost:
    """What a deployment costs.

    Args:
        made: what is deployed.
        find: the price of a size in a region by an offer (payg, spot), on Linux.
        hours: until it expires.
        limit: US$ an hour; else that of the parameters.
    """
    nodes, login, server = made.nodes, made.login.size, made.storage.server
    offer = SPOT if nodes.spot else LIST

    def machines(what: str, count: int, size: str, offered: str) -> Line:
        found = find(size, made.region, offered)
        # Reserved capacity bills at the list price whether a node uses it or not.
        kept = bool(nodes.reservation) and what == "nodes"
        return Line(f"{what} ({size})", count, found, offered, stopped=kept)

    lines = [machines("nodes", nodes.count, nodes.size, offer)]
    if login:
        lines.append(machines("login node", 1, login, LIST))
    if server:
        lines.append(machines("NFS server", 1, server, LIST))
    lines += [
        Line(f"disks of {one.of} ({one.sku}, {one.gib:,} GiB each)", one.count)
        for one in disks(made)
    ]
    lines += [Line(f"public address {name}", 1) for name in public_addresses(made)]
    if made.outbound == "nat":
        lines.append(Line("NAT gateway", 1))
    if made.bastion:
        lines.append(Line("Bastion (Standard)", 1))
    if made.storage.kind == "anf":
        what = f"Azure NetApp Files ({made.storage.anf_level}, {made.storage.tib} TiB)"
        lines.append(Line(what, 1))
    if made.storage.kind == "amlfs":
        lines.append(Line(f"Managed Lustre ({made.storage.amlfs_sku}, {made.storage.tib} TiB)", 1))
    lines.append(Line("data that leaves Azure or goes through the NAT gateway", 1, stopped=False))
    most = made.max_usd_per_hour if limit is None else limit
    return Cost(tuple(lines), most, hours)
