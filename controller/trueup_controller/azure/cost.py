"""Cost of a deployment per hour, by line, and the lines that bill while its VMs are stopped.

Prices are the catalog's and the user's. A line without a price is listed and counted, the total
then says "at least", and a limit holds only where the user allows such a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple, Optional

from .parameters import Parameters
from .template import NFS_DATA, disks, public_addresses

LIST, SPOT = "payg", "spot"
# The offer of everything that is no VM, whose size is an item of catalog/service_prices.csv.
SERVICE = "service"
_GIB_A_TIB = 1024
# Managed disks: letter of their SKU, and GiB by number of their tier
# (MicrosoftDocs/azure-compute-docs disks-types.md, 2026-08).
_DISK_LETTERS = {"StandardSSD_LRS": "E", "Premium_LRS": "P"}
_DISK_NUMBERS = (1, 2, 3, 4, 6, 10, 15, 20, 30, 40, 50, 60, 70, 80)
_DISK_GIB = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767)


class Price(NamedTuple):
    """US$ an hour of one VM, of which day and from where; ``age`` in words where it is old."""

    usd_per_hour: float
    date: str
    source: str
    age: str = ""


@dataclass(frozen=True)
class Line:
    """One billed item.

    Attributes:
        what: in words.
        kind: one of parameters.Kind.
        count: how many.
        each: its price; None where the catalog has none.
        offer: how it is bought; empty where it is no VM.
        stopped: whether it still bills while the VMs are stopped (deallocated).
    """

    what: str
    kind: str
    count: int
    each: Price | None = None
    offer: str = ""
    stopped: bool = True

    @property
    def usd_per_hour(self) -> float | None:
        """Of all of them."""
        return None if self.each is None else self.each.usd_per_hour * self.count


class Cost(NamedTuple):
    """The lines of a deployment, and the limit that holds for it.

    Attributes:
        unpriced_allowed: kinds of lines that may be without a price under the limit.
    """

    lines: tuple[Line, ...]
    limit: float | None
    hours: float
    unpriced_allowed: tuple[str, ...] = ()

    @property
    def usd_per_hour(self) -> float:
        """The sum of all lines with a price."""
        return sum(line.usd_per_hour or 0.0 for line in self.lines)

    @property
    def unpriced(self) -> list[Line]:
        """The lines without a price."""
        return [line for line in self.lines if line.each is None]

    @property
    def stopped(self) -> list[Line]:
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

    def refusal(self) -> str | None:
        """Why it may not be made; None where it may."""
        if self.limit is None:
            return None
        problems = []
        if self.usd_per_hour > self.limit:
            least = "at least " if self.unpriced else ""
            problems.append(
                f"it costs {least}{self.usd_per_hour:,.2f} US$ an hour, above max_usd_per_hour"
                f" ({self.limit:g} US$): take fewer or smaller nodes, or raise it"
            )
        refused = [line for line in self.unpriced if line.kind not in self.unpriced_allowed]
        if refused:
            kinds = list(dict.fromkeys(line.kind for line in refused))
            each = ", ".join(f"{kind}: ..." for kind in kinds)
            allowed = ", ".join(dict.fromkeys([*self.unpriced_allowed, *kinds]))
            problems.append(
                f"max_usd_per_hour ({self.limit:g} US$) cannot hold, since the price table has no"
                f" price of {'; '.join(line.what for line in refused)}: give US$ an hour of one as"
                f" prices: {{{each}}}, or accept an unknown bill by unpriced_allowed: [{allowed}]"
            )
        return "; ".join(problems) or None


Find = Callable[[str, str, str], Optional[Price]]


def cost(parameters: Parameters, find: Find, hours: float, limit: float | None = None) -> Cost:
    """The cost of a deployment.

    Args:
        parameters: of the deployment.
        find: the price of a size in a region by an offer (payg, spot), on Linux; for the offer
            SERVICE that of one piece, or one GiB, of an item.
        hours: until it expires.
        limit: US$ an hour; else that of the parameters.
    """
    nodes, login, server = parameters.nodes, parameters.login.size, parameters.storage.server
    offer = SPOT if nodes.spot else LIST

    def line(label: str, kind: str, item: str, *, count: int = 1, units: float = 1.0) -> Line:
        price = _given(parameters, kind)
        listed = find(item, parameters.region, SERVICE) if price is None else None
        if listed is not None:
            price = listed._replace(usd_per_hour=listed.usd_per_hour * units)
        return Line(label, kind, count, price)

    def machines(label: str, kind: str, count: int, size: str, offered: str) -> Line:
        price = _given(parameters, kind) or find(size, parameters.region, offered)
        # Reserved capacity bills at the list price whether a node uses it or not.
        is_reserved = bool(nodes.reservation) and kind == "nodes"
        return Line(f"{label} ({size})", kind, count, price, offered, stopped=is_reserved)

    lines = [machines("nodes", "nodes", nodes.count, nodes.size, offer)]
    if login:
        lines.append(machines("login node", "login", 1, login, LIST))
    if server:
        lines.append(machines("NFS server", "server", 1, server, LIST))
    lines += [
        line(
            f"disks of {disk.of} ({disk.sku}, {disk.gib:,} GiB each)",
            "storage" if disk.of == NFS_DATA else "disks",
            disk_item(disk.sku, disk.gib),
            count=disk.count,
        )
        for disk in disks(parameters)
    ]
    lines += [
        line(f"public address {name}", "address", "address")
        for name in public_addresses(parameters)
    ]
    if parameters.outbound == "nat":
        lines.append(line("NAT gateway", "nat", "nat"))
    if parameters.bastion:
        lines.append(line("Bastion (Standard)", "bastion", "bastion:Standard"))
    gib = float(parameters.storage.tib * _GIB_A_TIB)
    if parameters.storage.kind == "anf":
        level = parameters.storage.anf_level
        label = f"Azure NetApp Files ({level}, {parameters.storage.tib} TiB)"
        lines.append(line(label, "storage", f"anf:{level}", units=gib))
    if parameters.storage.kind == "amlfs":
        sku = parameters.storage.amlfs_sku
        label = f"Managed Lustre ({sku}, {parameters.storage.tib} TiB)"
        lines.append(line(label, "storage", f"amlfs:{sku}", units=gib))
    label = "data that leaves Azure or goes through the NAT gateway"
    lines.append(Line(label, "traffic", 1, _given(parameters, "traffic"), stopped=False))
    most = parameters.max_usd_per_hour if limit is None else limit
    return Cost(tuple(lines), most, hours, tuple(parameters.unpriced_allowed))


def _given(parameters: Parameters, kind: str) -> Price | None:
    """The user's price of a line; None where there is none."""
    prices = {str(name): price for name, price in parameters.prices.items()}
    price = prices.get(kind)
    return None if price is None else Price(float(price), "", "your parameters (prices)")


def disk_item(sku: str, gib: float) -> str:
    """The item of a managed disk: its smallest tier that holds so much; empty where there is
    none."""
    tier = next((number for number, most in zip(_DISK_NUMBERS, _DISK_GIB) if gib <= most), None)
    return f"disk:{_DISK_LETTERS[sku]}{tier}" if sku in _DISK_LETTERS and tier else ""
