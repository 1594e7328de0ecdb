"""Chip design (EDA): storage that many clients share, and the clients.

The published benchmark has operations a second at 2 ms of volumes of some capacities and levels.
Azure NetApp Files' large volumes do as many as their throughput allows, until one volume does no
more; between results the rate is taken on a line. Of the others there is one result each, which
counts up to its own capacity and no further. The article's TB are taken for TiB, since a large
volume has 50 TiB at least.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ..access import level_prices
from ..backtest import expected, width
from ..estimates import PUBLISHED, Evidence, Range
from ..knowledge import Knowledge, number
from ..points import Point, Prediction
from ..services import TIB_IN_TB, Needs, level, read_services
from .kind import between
from .sizing import OF_RUNS, Held, Sizing, cheapest_region

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...prices import Quote
    from ..services import Level, Purchase, Service, Services
    from .kind import Ask

_BENCHMARK: Final = "EDA storage benchmark"
_PAYG: Final = "payg"
# The latency of the published rates.
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


def points(knowledge: Knowledge) -> list[Point]:
    """Operations a second at 2 ms of the published volumes."""
    return [
        Point(
            result.label,
            result.told.name,
            10,
            result.rate,
            traits,
            result.evidence,
            result.condition,
        )
        for result in _published(knowledge, "io_rate_at_2ms")
        for traits in [{"mb_s": result.told.mb_s}]
    ]


class _Told(NamedTuple):
    """A measured volume: level (empty where nobody says), TiB, and the MB/s that they bring."""

    name: str
    tib: float
    mb_s: float


class _Result(NamedTuple):
    """A published rate and its condition."""

    label: str
    condition: str
    told: _Told
    rate: float
    evidence: Evidence


def _published(knowledge: Knowledge, metric: str) -> list[_Result]:
    return knowledge.once(("eda", metric), lambda: list(_read(knowledge, metric)))


def _read(knowledge: Knowledge, metric: str) -> Iterator[_Result]:
    levels = {row.name: row for row in _rows(read_services(knowledge.folder))}
    for row in knowledge.results(_BENCHMARK, metric):
        match = _PUBLISHED.fullmatch(row["configuration"])
        if match is None:
            continue
        tib, mb_s = float(match["tib"]), 0.0
        if match["what"] == _REGULAR:
            condition, name = _REGULAR, ""
        elif match["level"]:
            condition, name = _LARGE, f"{match['level']}, large volume"
        else:
            condition = name = _LUSTRE
        if name:
            brings = tib * levels[name].mb_s_per_tib
            mb_s = min(brings, levels[name].most_mb_s)
        evidence = Evidence(PUBLISHED, row["source"])
        label = f"{row['configuration']}, {row['nodes']} clients"
        yield _Result(label, condition, _Told(name, tib, mb_s), float(row["value"]), evidence)


def _rows(services: Services) -> Iterator[Purchase]:
    for row in services.storage:
        if row.service in ("anf", "amlfs"):
            yield from row.levels


def predict(target: Point, peers: Sequence[Point], knowledge: Knowledge) -> Prediction | None:
    """The rate of a large volume by its throughput: between results on a line, both axes
    logarithmic; below them in proportion; above them as much as the nearest, or more where a
    publication says that so much throughput brings more."""
    peers = [peer for peer in peers if peer.condition == target.condition]
    if target.condition != _LARGE or not peers:
        return None
    mb_s = target.traits["mb_s"]
    rate, near, least, most = between(mb_s, peers, lambda point: point.traits["mb_s"])
    used = [point.evidence for point in near if point.evidence]
    beyond = ""
    if mb_s < least:
        rate *= mb_s / least
        beyond = f"no result has less than {least:.0f} MB/s: in proportion to it."
    elif mb_s > most:
        beyond = f"no result has more than {most:.0f} MB/s."
    for floor in _published(knowledge, "io_rate_at_2ms_min"):
        # The predicted result has no part in it.
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
    """The members that the back-test uses."""

    name: str
    unit: str
    points: Any
    predict: Any


TELLS: Final = _Tells("eda", "operations/s at 2 ms", points, predict)


@dataclass(frozen=True)
class Store:
    """A storage, bought so large that it holds the data, the throughput and the rate.

    Attributes:
        level: as Azure calls it; tib: the capacity to buy; mb_s: its throughput.
        rate: operations a second that are expected; None where one result, or none, tells of it.
        known: the most that a result of this level and no more capacity had, 0 without one.
        holds: yes, or the demand that is not held or not known.
        able: nothing that was asked for is known to be missed, or unknown.
        because: the demand that makes it so large.
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
    """The advice: storage that meets the request comes first.

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
    held.known.require(ask["sizes"], held.known.withheld)
    rate = ask["operations_per_second"]
    if rate and ask["latency_ms"] < LATENCY_MS:
        raise BadInput(
            f"latency_ms is {ask['latency_ms']:g}: no published rate is at less than"
            f" {LATENCY_MS:g} ms; measure it (docs/benchmarks/fio.md, eda_mixed), or ask for"
            f" {LATENCY_MS:g}"
        )
    prices = level_prices(ask["usd_per_tib_month"])
    clients = _clients(ask, held)
    if not clients:
        raise BadInput(_no_client(ask))
    stores: list[Store] = []
    refused: list[Refused] = []
    for row in held.services.storage:
        if row.service not in ("anf", "amlfs"):
            continue
        for level_row in row.levels:
            store = _bought(level_row, row, ask, held, prices)
            (refused if isinstance(store, Refused) else stores).append(store)  # type: ignore[arg-type]
    server = _server(ask, held)
    if not stores and server is None:
        raise BadInput("; ".join(f"{refusal.name}: {refusal.why}" for refusal in refused))
    stores.sort(key=_order)
    return Eda(SIZING, ask, stores, refused, clients[:_CLIENTS], server, _notes(ask, held))


def _order(store: Store) -> tuple[bool, bool, float, float, str]:
    usd = math.inf if store.usd is None else store.usd
    return not store.able, store.usd is None, usd, store.tib, store.level


def _bought(
    row: Purchase,
    service: Service,
    ask: Ask,
    held: Held,
    prices: Mapping[str, float],
) -> Store | Refused:
    """The level, large enough for the rate too where that is known; else for the other demands
    alone."""
    needs = Needs(nodes=ask["clients"], data_tb=ask["data_tb"], mb_s=ask["mb_s"])
    least_level = level(row, needs, ask["data_tb"])
    if least_level.refused:
        return Refused(f"{service.name}, {row.name}", least_level.refused.partition(": ")[2])
    rate = ask["operations_per_second"]
    tried = _larger(row, least_level, needs) if rate else [least_level]
    stores = [_store(bought_level, service, ask, held) for bought_level in tried]
    # The smallest that holds the rate, else that is expected to, though not at the slow end.
    chosen = next((store for store in stores if store.able), None)
    chosen = chosen or next((store for store in stores if store.holds == _SLOW), None)
    if chosen is None and stores[0].rate is not None:
        most = max(store.rate.value for store in stores if store.rate)
        return Refused(
            f"{service.name}, {row.name}",
            f"{rate:,.0f} operations/s are asked; {most:,.0f} are the most that is expected of one"
            f" volume at {LATENCY_MS:g} ms",
        )
    chosen = chosen or stores[0]
    because = _because(chosen.tib, row, ask)
    price = prices.get(row.name)
    usd = None if price is None else price * chosen.tib
    return Store(**{**vars(chosen), "because": because, "usd": usd})


def _larger(row: Purchase, least_level: Level, needs: Needs) -> Iterator[Level]:
    """The level from this size on, step by step."""
    steps = round((row.most_tib - least_level.tib) / row.step_tib)
    for step in range(steps + 1):
        tib = least_level.tib + step * row.step_tib
        yield level(row, needs, tib * TIB_IN_TB)


def _because(tib: float, row: Purchase, ask: Ask) -> str:
    step = row.step_tib
    tib_by_cause = {
        "capacity": ask["data_tb"] / TIB_IN_TB,
        "throughput": (ask["mb_s"] or 0.0) / row.mb_s_per_tib,
        "least size": row.least_tib,
    }
    name = max(tib_by_cause, key=lambda cause: tib_by_cause[cause])
    return name if tib < tib_by_cause[name] + step * (1 + 1e-9) else "operations/s"


def _store(bought_level: Level, service: Service, ask: Ask, held: Held) -> Store:
    rate = ask["operations_per_second"]
    condition = _condition(bought_level.name)
    every = held.known.once(("eda", "points"), lambda: points(held.known))
    alike = [point for point in every if point.condition == condition]
    wide = held.known.once(("eda", condition), lambda: width(TELLS, alike, held.known))
    target = Point(
        "",
        bought_level.name,
        ask["clients"],
        traits={"mb_s": bought_level.mb_s},
        condition=condition,
    )
    prediction = predict(target, alike, held.known) if wide is not None else None
    expects = None if prediction is None or wide is None else expected(prediction, wide)
    proven_rate, evidence = _held_by_result(bought_level, condition, held.known)
    sure = rate is None or proven_rate >= rate or (expects is not None and expects.low >= rate)
    if sure:
        holds = "yes" if rate else "capacity and throughput"
    elif expects is not None and expects.value >= rate * (1 - 1e-9):
        holds = _SLOW
    elif expects is not None:
        holds = "rate missed"
    else:
        holds = "rate not judged"
    used = (*(prediction.evidence if prediction else ()), *evidence)
    return Store(
        service.name,
        bought_level.name,
        bought_level.tib,
        bought_level.mb_s,
        expects,
        proven_rate,
        holds,
        able=sure,
        because="",
        usd=None,
        billing=service.billing,
        beyond=prediction.beyond if prediction else "",
        doubts=bought_level.doubts,
        evidence=tuple(dict.fromkeys(used)),
    )


def _condition(name: str) -> str:
    if name.endswith("large volume"):
        return _LARGE
    return name if name.startswith("AMLFS") else _REGULAR


def _held_by_result(
    bought_level: Level, condition: str, knowledge: Knowledge
) -> tuple[float, tuple[Evidence, ...]]:
    """The most that a result had on this level with no more capacity. A result that does not say
    its level counts for the highest, which brings no less throughput than any."""
    results = [
        (result.rate, result.evidence)
        for metric in ("io_rate_at_2ms", "io_rate_at_2ms_min")
        for result in _published(knowledge, metric)
        if result.condition == condition
        and result.told.tib <= bought_level.tib
        and result.told.name == ("" if bought_level.name == _HIGHEST else bought_level.name)
    ]
    if not results:
        return 0.0, ()
    rate, evidence = max(results, key=lambda pair: pair[0])
    return rate, (evidence,)


def _clients(ask: Ask, held: Held) -> list[Client]:
    """Sizes that have the cores, the memory and the network, the cheapest first."""
    clients = [client for client in _priced(ask, held, ask["clients"]) if _fits(client, ask)]
    return sorted(clients, key=lambda client: (client.usd_per_month, client.size))


def _fits(client: Client, ask: Ask) -> bool:
    """A network that is not known carries no throughput that was asked for."""
    each = (ask["mb_s"] or 0.0) / ask["clients"]
    return (
        client.cores >= ask["cores_a_client"]
        and client.gib_a_core >= (ask["memory_gib_a_core"] or 0.0)
        and (client.network_mb_s or 0.0) >= each
    )


def _priced(ask: Ask, held: Held, count: int) -> Iterator[Client]:
    knowledge = held.known
    for name, row in knowledge.sizes.items():
        cores, memory = number(row, "vcpus"), number(row, "memory_gib")
        if name in knowledge.withheld or number(row, "gpus") or not cores or not memory:
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
    conditions = [f"at least {ask['cores_a_client']} core{'s' * (ask['cores_a_client'] > 1)}"]
    if ask["memory_gib_a_core"]:
        conditions.append(f"{ask['memory_gib_a_core']:g} GiB a core")
    if ask["mb_s"]:
        conditions.append(f"a network of {ask['mb_s'] / ask['clients']:,.0f} MB/s")
    where = f" in {ask['region']}" if ask["region"] else ""
    sizes = f" of {', '.join(ask['sizes'])}" if ask["sizes"] else ""
    return f"no size{sizes} without GPUs that has a price{where} has {' and '.join(conditions)}"


def _server(ask: Ask, held: Held) -> Client | None:
    """The cheapest node whose NVMe disks hold the data."""
    every = {**ask, "sizes": []}

    def disks(name: str) -> float:
        row = held.known.sizes[name]
        return (number(row, "nvme_disks") or 0) * (number(row, "nvme_gib_each") or 0) * _GIB_IN_TB

    servers = [server for server in _priced(every, held, 1) if disks(server.size) >= ask["data_tb"]]
    return min(servers, key=lambda server: (server.usd_per_month, server.size), default=None)


def _notes(ask: Ask, held: Held) -> list[str]:
    rate, clients = ask["operations_per_second"], ask["clients"]
    every = held.known.once(("eda", "points"), lambda: points(held.known))
    most = max((point.rate / point.nodes for point in every), default=0.0)
    notes = []
    if rate and rate / clients > most * (1 + 1e-9):
        notes.append(
            f"{rate / clients:,.0f} operations/s a client are asked: no result has more than"
            f" {most:,.0f}. Whether the clients do so many was not judged."
        )
    if rate and ask["latency_ms"] > LATENCY_MS:
        notes.append(
            f"Rates are those at {LATENCY_MS:g} ms; at {ask['latency_ms']:g} ms there are more, and"
            " no result by capacity says how many."
        )
    return notes


SIZING: Final = Sizing(
    name="eda",
    title="Chip design (EDA): shared storage and clients",
    options=OPTIONS,
    unasked=OF_RUNS,
    size=size,
)
