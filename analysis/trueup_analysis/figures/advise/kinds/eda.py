"""Chip design (EDA): storage that many clients share, and the clients.

The published benchmark has operations a second at 2 ms of volumes of some capacities and levels.
Azure NetApp Files' large volumes do as many as their throughput allows, until one volume does no
more; between results the rate is taken on a line. Of the others there is one result each, which is
held up to what it had and no further. The article's TB are taken for TiB, since a large volume has
50 TiB at least.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup.errors import BadInput
from trueup.options import Option

from ..access import level_prices
from ..backtest import expected, factor
from ..estimates import PUBLISHED, Evidence, Range
from ..knowledge import Knowledge, number
from ..services import TIB_IN_TB, Needs, level, read_services
from .kind import Point, Prediction, between
from .sizing import OF_RUNS, Held, Sizing, cheapest_region

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...prices import Quote
    from ..services import Level, Services
    from .kind import Ask

_BENCHMARK: Final = "EDA storage benchmark"
_PAYG: Final = "payg"
# What the published rates are at.
LATENCY_MS: Final = 2.0
_PUBLISHED: Final = re.compile(
    r"(?P<what>ANF LV|ANF regular volume|AMLFS Ultra \(500 MB/s/TiB\)) (?P<tib>\d+)TB"
    r"(?: (?P<level>Standard|Premium|Ultra))?"
)
_LARGE: Final = "ANF large volume"
_REGULAR: Final = "ANF regular volume"
# Of regular volumes.
_HIGHEST: Final = "Ultra"
_LUSTRE: Final = "AMLFS-Durable-Premium-500"
_GIB_IN_TB: Final = 2**30 / 1e12
_BITS: Final = 8
_SLOW: Final = "rate not at the slow end"
# Clients shown.
_CLIENTS: Final = 5

OPTIONS: Final = (
    Option(
        "clients",
        "Clients that use it at once.",
        type="int",
        required=True,
        least=1,
        most=100_000,
    ),
    Option(
        "data_tb",
        "Capacity, TB (1e12 bytes).",
        type="float",
        required=True,
        least=1e-3,
        most=1e6,
    ),
    Option(
        "operations_per_second",
        "Operations a second of all clients at the latency, front and back end mixed.",
        type="float",
        least=1,
        most=1e9,
    ),
    Option("latency_ms", "Mean latency of an operation to hold, ms.", 2.0, least=1e-3, most=1000),
    Option(
        "mb_s",
        "What all clients together read or write, MB/s (1e6).",
        type="float",
        least=1e-3,
        most=1e7,
    ),
    Option("cores_a_client", "Cores of a client, at least.", 1, least=1, most=1000),
    Option(
        "memory_gib_a_core",
        "Memory of a client's core, GiB, at least.",
        type="float",
        least=0.1,
        most=1000,
    ),
    Option(
        "hours_a_month",
        "Hours a month that the clients run; 730 is always.",
        730.0,
        type="float",
        least=1,
        most=744,
    ),
)


def points(known: Knowledge) -> list[Point]:
    """Operations a second at 2 ms of the published volumes."""
    return [
        Point(one.label, one.told.name, 10, one.rate, traits, one.evidence, one.condition)
        for one in _published(known, "io_rate_at_2ms")
        for traits in [{"mb_s": one.told.mb_s}]
    ]


class _Told(NamedTuple):
    """What was measured: level (empty where nobody says), TiB, and MB/s that they bring."""

    name: str
    tib: float
    mb_s: float


class _Result(NamedTuple):
    """A published rate, and of what condition it is."""

    label: str
    condition: str
    told: _Told
    rate: float
    evidence: Evidence


def _published(known: Knowledge, metric: str) -> list[_Result]:
    return known.once(("eda", metric), lambda: list(_read(known, metric)))


def _read(known: Knowledge, metric: str) -> Iterator[_Result]:
    levels = {one["name"]: one for one in _rows(read_services(known.folder))}
    for row in known.results(_BENCHMARK, metric):
        found = _PUBLISHED.fullmatch(row["configuration"])
        if found is None:
            continue
        tib, mb_s = float(found["tib"]), 0.0
        if found["what"] == _REGULAR:
            what, name = _REGULAR, ""
        elif found["level"]:
            what, name = _LARGE, f"{found['level']}, large volume"
        else:
            what = name = _LUSTRE
        if name:
            brings = tib * levels[name]["mb_s_per_tib"]
            mb_s = min(brings, levels[name].get("most_mb_s", math.inf))
        evidence = Evidence(PUBLISHED, row["source"])
        label = f"{row['configuration']}, {row['nodes']} clients"
        yield _Result(label, what, _Told(name, tib, mb_s), float(row["value"]), evidence)


def _rows(services: Services) -> Iterator[Mapping[str, Any]]:
    for row in services.storage:
        if row["service"] in ("anf", "amlfs"):
            yield from row.get("levels", ())


def predict(target: Point, others: Sequence[Point], known: Knowledge) -> Prediction | None:
    """The rate of a large volume by its throughput: between results on a line, both axes
    logarithmic; below them in proportion; above them as much as the nearest, or more where a
    publication says that so much throughput brings more."""
    others = [one for one in others if one.condition == target.condition]
    if target.condition != _LARGE or not others:
        return None
    mb_s = target.traits["mb_s"]
    rate, near, least, most = between(mb_s, others, lambda one: one.traits["mb_s"])
    used = [one.evidence for one in near if one.evidence]
    beyond = ""
    if mb_s < least:
        rate *= mb_s / least
        beyond = f"no result has less than {least:.0f} MB/s: in proportion to it."
    elif mb_s > most:
        beyond = f"no result has more than {most:.0f} MB/s."
    for floor in _published(known, "io_rate_at_2ms_min"):
        # What is predicted has no part in it.
        if (
            floor.condition == _LARGE
            and floor.told.mb_s <= mb_s
            and floor.rate > rate
            and floor.label != target.label
        ):
            rate = floor.rate
            used.append(floor.evidence)
    return Prediction(rate, tuple(dict.fromkeys(used)), beyond)


class _Tells(NamedTuple):
    """What the back-test asks."""

    name: str
    unit: str
    points: Any
    predict: Any


TELLS: Final = _Tells("eda", "operations/s at 2 ms", points, predict)


@dataclass(frozen=True)
class Store:
    """A storage, bought so large that it holds the data, the throughput and the rate.

    Attributes:
        level: as Azure calls it; tib: what is to be bought, mb_s: what that brings.
        rate: operations a second that are expected; None where one result, or none, tells of it.
        known: the most that a result of this level and no more capacity had, 0 without one.
        holds: yes, or what is not held or not known.
        able: nothing that was asked for is known to be missed, or unknown.
        because: what makes it so large.
        usd: a month, by a price that was given; None without one.
        billing: the unit as a source says it; empty where none does.
    """

    service: str
    level: str
    tib: float
    mb_s: float
    rate: Range | None
    known: float
    holds: str
    able: bool
    because: str
    usd: float | None
    billing: str
    beyond: str
    doubts: tuple[str, ...]
    evidence: tuple[Evidence, ...]


class Client(NamedTuple):
    """Nodes that use it, of one size."""

    size: str
    cores: int
    gib_a_core: float
    network_mb_s: float | None
    region: str
    price: Quote
    usd_per_month: float


class Refused(NamedTuple):
    """A storage that cannot, and why."""

    name: str
    why: str


class Eda(NamedTuple):
    """What is advised: storage that holds what was asked first.

    Attributes:
        server: the cheapest node whose local disks hold the data, as an NFS server; None where no
            node's do.
        notes: sentences on all of it.
    """

    sizing: Sizing
    ask: Ask
    stores: Sequence[Store]
    refused: Sequence[Refused]
    clients: Sequence[Client]
    server: Client | None
    notes: Sequence[str]


def size(ask: Ask, held: Held) -> Eda:
    """Storage and clients for an ask.

    Raises:
        BadInput: a latency that no result has, a price that is none, or nothing that can do it.
    """
    held.known.require(ask["sizes"])
    rate = ask["operations_per_second"]
    if rate and ask["latency_ms"] < LATENCY_MS:
        raise BadInput(
            f"latency_ms is {ask['latency_ms']:g}: no published rate is at less than"
            f" {LATENCY_MS:g} ms; measure it (docs/fio.md, eda_mixed), or ask for {LATENCY_MS:g}"
        )
    prices = level_prices(ask["usd_per_tib_month"])
    clients = _clients(ask, held)
    if not clients:
        raise BadInput(_no_client(ask))
    stores: list[Store] = []
    refused: list[Refused] = []
    for row in held.services.storage:
        if row["service"] not in ("anf", "amlfs"):
            continue
        for one in row["levels"]:
            found = _bought(one, row, ask, held, prices)
            (refused if isinstance(found, Refused) else stores).append(found)  # type: ignore[arg-type]
    server = _server(ask, held)
    if not stores and server is None:
        raise BadInput("; ".join(f"{one.name}: {one.why}" for one in refused))
    stores.sort(key=_order)
    return Eda(SIZING, ask, stores, refused, clients[:_CLIENTS], server, _notes(ask, held))


def _order(one: Store) -> tuple[bool, bool, float, float, str]:
    usd = math.inf if one.usd is None else one.usd
    return not one.able, one.usd is None, usd, one.tib, one.level


def _bought(
    row: Mapping[str, Any],
    service: Mapping[str, Any],
    ask: Ask,
    held: Held,
    prices: Mapping[str, float],
) -> Store | Refused:
    """The level so large that the rate is held too, where that is known; else what it is for the
    rest."""
    needs = Needs(nodes=ask["clients"], data_tb=ask["data_tb"], mb_s=ask["mb_s"])
    found = level(row, needs, ask["data_tb"], held.services)
    if found.refused:
        return Refused(f"{service['name']}, {row['name']}", found.refused.partition(": ")[2])
    rate = ask["operations_per_second"]
    tried = _larger(row, found, needs, held.services) if rate else [found]
    stores = [_store(one, service, ask, held) for one in tried]
    # The smallest that holds the rate, else that is expected to, though not at the slow end.
    chosen = next((one for one in stores if one.able), None)
    chosen = chosen or next((one for one in stores if one.holds == _SLOW), None)
    if chosen is None and stores[0].rate is not None:
        most = max(one.rate.value for one in stores if one.rate)
        return Refused(
            f"{service['name']}, {row['name']}",
            f"{rate:,.0f} operations/s are asked; {most:,.0f} are the most that is expected of one"
            f" volume at {LATENCY_MS:g} ms",
        )
    chosen = chosen or stores[0]
    because = _because(chosen.tib, row, ask)
    price = prices.get(row["name"])
    usd = None if price is None else price * chosen.tib
    return Store(**{**vars(chosen), "because": because, "usd": usd})


def _larger(
    row: Mapping[str, Any], found: Level, needs: Needs, services: Services
) -> Iterator[Level]:
    """The level from this size on, step by step."""
    steps = round((row["most_tib"] - found.tib) / row["step_tib"])
    for step in range(steps + 1):
        tib = found.tib + step * row["step_tib"]
        yield level(row, needs, tib * TIB_IN_TB, services)


def _because(tib: float, row: Mapping[str, Any], ask: Ask) -> str:
    step = row["step_tib"]
    wanted = {
        "capacity": ask["data_tb"] / TIB_IN_TB,
        "throughput": (ask["mb_s"] or 0.0) / row["mb_s_per_tib"],
        "least size": row["least_tib"],
    }
    name = max(wanted, key=lambda one: wanted[one])
    return name if tib < wanted[name] + step * (1 + 1e-9) else "operations/s"


def _store(found: Level, service: Mapping[str, Any], ask: Ask, held: Held) -> Store:
    rate = ask["operations_per_second"]
    what = _condition(found.name)
    every = held.known.once(("eda", "points"), lambda: points(held.known))
    alike = [one for one in every if one.condition == what]
    wide = held.known.once(("eda", what), lambda: factor(TELLS, alike, held.known))
    asked = Point("", found.name, ask["clients"], traits={"mb_s": found.mb_s}, condition=what)
    made = predict(asked, alike, held.known) if wide is not None else None
    expects = None if made is None or wide is None else expected(made, wide)
    known, evidence = _held_by_result(found, what, held.known)
    sure = rate is None or known >= rate or (expects is not None and expects.low >= rate)
    if sure:
        holds = "yes" if rate else "capacity and throughput"
    elif expects is not None and expects.value >= rate * (1 - 1e-9):
        holds = _SLOW
    elif expects is not None:
        holds = "rate missed"
    else:
        holds = "rate not judged"
    used = (*(made.evidence if made else ()), *evidence)
    return Store(
        service["name"],
        found.name,
        found.tib,
        found.mb_s,
        expects,
        known,
        holds,
        able=sure,
        because="",
        usd=None,
        billing=service["billing"],
        beyond=made.beyond if made else "",
        doubts=found.doubts,
        evidence=tuple(dict.fromkeys(used)),
    )


def _condition(name: str) -> str:
    if name.endswith("large volume"):
        return _LARGE
    return name if name.startswith("AMLFS") else _REGULAR


def _held_by_result(
    found: Level, what: str, known: Knowledge
) -> tuple[float, tuple[Evidence, ...]]:
    """The most that a result had on this level with no more capacity. A result that does not say
    its level counts for the highest, which brings no less throughput than any."""
    told = [
        (one.rate, one.evidence)
        for metric in ("io_rate_at_2ms", "io_rate_at_2ms_min")
        for one in _published(known, metric)
        if one.condition == what
        and one.told.tib <= found.tib
        and one.told.name == ("" if found.name == _HIGHEST else found.name)
    ]
    if not told:
        return 0.0, ()
    rate, evidence = max(told, key=lambda pair: pair[0])
    return rate, (evidence,)


def _clients(ask: Ask, held: Held) -> list[Client]:
    """Sizes that have the cores, the memory and the network, the cheapest first."""
    found = [one for one in _priced(ask, held, ask["clients"]) if _fits(one, ask)]
    return sorted(found, key=lambda one: (one.usd_per_month, one.size))


def _fits(one: Client, ask: Ask) -> bool:
    """A network that is not known carries no throughput that was asked for."""
    each = (ask["mb_s"] or 0.0) / ask["clients"]
    return (
        one.cores >= ask["cores_a_client"]
        and one.gib_a_core >= (ask["memory_gib_a_core"] or 0.0)
        and (one.network_mb_s or 0.0) >= each
    )


def _priced(ask: Ask, held: Held, count: int) -> Iterator[Client]:
    known = held.known
    for name, row in known.sizes.items():
        cores, memory = number(row, "vcpus"), number(row, "memory_gib")
        if name in known.withheld or number(row, "gpus") or not cores or not memory:
            continue
        if ask["sizes"] and name not in ask["sizes"]:
            continue
        priced = cheapest_region(held.book, name, ask["region"], _PAYG)
        if priced is not None:
            network = number(row, "eth_gbps")
            yield Client(
                name,
                int(cores),
                memory / cores,
                None if network is None else network * 1000 / _BITS,
                *priced,
                count * priced[1].usd_per_hour * ask["hours_a_month"],
            )


def _no_client(ask: Ask) -> str:
    asked = [f"at least {ask['cores_a_client']} core{'s' * (ask['cores_a_client'] > 1)}"]
    if ask["memory_gib_a_core"]:
        asked.append(f"{ask['memory_gib_a_core']:g} GiB a core")
    if ask["mb_s"]:
        asked.append(f"a network of {ask['mb_s'] / ask['clients']:,.0f} MB/s")
    where = f" in {ask['region']}" if ask["region"] else ""
    sizes = f" of {', '.join(ask['sizes'])}" if ask["sizes"] else ""
    return f"no size{sizes} without GPUs that has a price{where} has {' and '.join(asked)}"


def _server(ask: Ask, held: Held) -> Client | None:
    """The cheapest node whose NVMe disks hold the data."""
    every = {**ask, "sizes": []}

    def disks(name: str) -> float:
        row = held.known.sizes[name]
        return (number(row, "nvme_disks") or 0) * (number(row, "nvme_gib_each") or 0) * _GIB_IN_TB

    found = [one for one in _priced(every, held, 1) if disks(one.size) >= ask["data_tb"]]
    return min(found, key=lambda one: (one.usd_per_month, one.size), default=None)


def _notes(ask: Ask, held: Held) -> list[str]:
    rate, clients = ask["operations_per_second"], ask["clients"]
    every = held.known.once(("eda", "points"), lambda: points(held.known))
    most = max((one.rate / one.nodes for one in every), default=0.0)
    said = []
    if rate and rate / clients > most * (1 + 1e-9):
        said.append(
            f"{rate / clients:,.0f} operations/s a client are asked: no result has more than"
            f" {most:,.0f}. Whether the clients do so many was not judged."
        )
    if rate and ask["latency_ms"] > LATENCY_MS:
        said.append(
            f"Rates are those at {LATENCY_MS:g} ms; at {ask['latency_ms']:g} ms there are more, and"
            " no result by capacity says how many."
        )
    return said


SIZING: Final = Sizing(
    name="eda",
    title="Chip design (EDA): shared storage and clients",
    options=OPTIONS,
    unasked=OF_RUNS,
    size=size,
)
