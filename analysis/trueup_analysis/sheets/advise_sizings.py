"""From answers that have no time (desktops, EDA) to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import units
from ..figures.advise.kinds.desktops import YOURS, Desktops
from .price_list import age_notes
from .sheet import Column, Sheet, price, short_size, unshown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..figures.advise.kinds import Sized
    from ..figures.advise.kinds.desktops import Hosts
    from ..figures.advise.kinds.eda import Client, Eda, Store

_three: Final = partial(units.significant, digits=3)


def sized(found: Sized, *, explain: bool) -> list[Sheet]:
    """The answer; with ``explain`` where each figure is from."""
    if isinstance(found, Desktops):
        return _desktops(found, explain=explain)
    return _eda(found, explain=explain)


def recommended(found: Sized) -> str:
    """What to rent, in words."""
    return _hosts_told(found) if isinstance(found, Desktops) else _stores_told(found)


def _facts(found: Sized) -> dict[str, Any]:
    return {
        "kind": "advise",
        "ask": dict(found.ask),
        "recommended": recommended(found),
    }


_HOSTS: Final = [
    Column("best", "best", words=True),
    Column("size", "size", short_size, words=True),
    Column("hosts", "hosts"),
    Column("users_a_host", "users\na host"),
    Column("limit", "limited by", words=True),
    Column("region", "region", words=True),
    Column("usd_per_month", "US$/month", price),
    Column("windows_usd_per_month", "US$/month,\nWindows", price),
    Column("usd_per_user_hour", "US$ per\nuser-h", price),
    Column("trust", "from", words=True),
    *unshown("windows_usd_per_user_hour", "usd_per_host_hour"),
    *unshown("price_date", "price_age", "price_source", "windows_source", "limits"),
    *unshown("evidence", "beyond", "mark"),
]


def _desktops(found: Desktops, *, explain: bool) -> list[Sheet]:
    best, hours = found.choices[0], found.ask["hours_a_month"]
    held = (
        f"US$ are of hosts that run {hours:g} hours a month, and hold the hosts alone: no profiles,"
        " files, licences or user rights. User-hours are of all users, signed in all that time. No"
        " host is in reserve."
    )
    notes = [
        recommended(found),
        held,
        f"Base rate: {found.billing}. The Windows rate is what a host without it pays.",
    ]
    needs = ("gpu_memory_gib_a_user", "memory_gib_a_user", "vcpus_a_user")
    if not any(found.ask[name] for name in needs):
        notes.append(f"What a user needs was not given: {', '.join(needs)}.")
    if best.beyond:
        notes.append(f"Not seen before: {best.beyond}")
    notes += age_notes((one.price.date, one.price.age) for one in found.choices)
    if explain:
        notes += [
            f"{short_size(one.size)}: {_limits(one)}. Base rate: {one.price.source}, as of"
            f" {one.price.dated}. Windows rate: {one.windows_source or 'unknown'}."
            for one in found.choices
        ]
    sheet = Sheet(
        title=found.sizing.title,
        columns=_HOSTS,
        rows=[_hosts_row(one, found, best=one is best) for one in found.choices],
        notes=notes,
        warnings=_unpriced(found.unpriced),
        marks="mark",
        name="advise",
        facts=_facts(found),
    )
    refused = [(short_size(one.size), one.reason) for one in found.refused]
    return [sheet, *_refused(refused)]


def _unpriced(sizes: Sequence[str]) -> list[str]:
    return [f"No price, so not ranked: {', '.join(sizes)}."] if sizes else []


def _limits(one: Hosts) -> str:
    return ", ".join(
        f"{each.users} ({each.what}{f', {each.evidence.source}' if each.evidence else ''})"
        for each in one.bounds
    )


def _hosts_row(one: Hosts, found: Desktops, *, best: bool) -> dict[str, Any]:
    each, hours = one.hosts * one.price.usd_per_hour, found.ask["hours_a_month"]
    windows, users = one.hosts * one.windows_usd_per_hour, found.ask["users"]
    told = one.bounds[0].evidence
    trust = told.kind if told else (YOURS if one.limit in _GIVEN else "limit")
    return {
        "best": "cheapest" if best else "",
        "size": one.size,
        "hosts": one.hosts,
        "users_a_host": one.users_a_host,
        "limit": one.limit,
        "region": one.region,
        "usd_per_month": each * hours,
        "windows_usd_per_month": windows * hours,
        "usd_per_user_hour": each / users,
        "windows_usd_per_user_hour": windows / users,
        "trust": trust,
        "usd_per_host_hour": one.price.usd_per_hour,
        "price_date": one.price.date,
        "price_age": one.price.age,
        "price_source": one.price.source,
        "windows_source": one.windows_source,
        "limits": _limits(one),
        "evidence": "; ".join(
            f"{each.evidence.kind}: {each.evidence.source}" for each in one.bounds if each.evidence
        ),
        "beyond": one.beyond,
        "mark": "best" if best else "",
    }


# Limits that are the user's own.
_GIVEN: Final = (YOURS, "personal", "GPU memory", "memory", "number of vCPUs")


def _hosts_told(found: Desktops) -> str:
    one, hours = found.choices[0], found.ask["hours_a_month"]
    each = one.hosts * one.price.usd_per_hour
    users = units.plural(one.users_a_host, "user")
    return (
        f"Cheapest: {one.hosts} x {short_size(one.size)} in {one.region}, {users} a host (limited"
        f" by: {one.limit}), {price(each * hours)} US$ a month at the base rate,"
        f" {price(each / found.ask['users'])} US$ a user and hour."
    )


def _priced(value: Any) -> str:
    return "" if value is None else price(value)


_STORES: Final = [
    Column("best", "best", words=True),
    Column("level", "level", words=True),
    Column("tib", "TiB", partial(units.fixed, digits=0)),
    Column("because", "bought for", words=True),
    Column("mb_s", "MB/s", partial(units.fixed, digits=0)),
    Column("rate", "op/s\nexpected", partial(units.fixed, digits=0)),
    Column("within", "from .. to", words=True, data=False),
    Column("known", "op/s in\na result", partial(units.fixed, digits=0)),
    Column("holds", "holds", words=True),
    Column("usd_per_month", "US$/month", _priced),
    *unshown(
        "service",
        "billing",
        "rate_low",
        "rate_high",
        "able",
        "beyond",
        "doubts",
        "evidence",
        "mark",
    ),
]
_UNSAID: Final = "no source says"
_CLIENTS: Final = [
    Column("size", "size", short_size, words=True),
    Column("cores", "cores"),
    Column("gib_a_core", "GiB\na core", _three),
    Column("network_mb_s", "network\nMB/s", partial(units.fixed, digits=0)),
    Column("region", "region", words=True),
    Column("usd_per_hour", "US$/h\neach", price),
    Column("usd_per_month", "US$/month\nall", price),
    *unshown("price_date", "price_age", "price_source"),
]


def _eda(found: Eda, *, explain: bool) -> list[Sheet]:
    best = next((one for one in found.stores if one.able), None)
    stores = Sheet(
        title=found.sizing.title,
        columns=_STORES,
        rows=[_store_row(one, best=one is best) for one in found.stores],
        notes=[recommended(found), *_store_notes(found, explain=explain)],
        marks="mark",
        name="advise",
        facts=_facts(found),
    )
    held = (
        f"Prices of the catalog, pay as you go, {found.ask['hours_a_month']:g} hours a month. The"
        " published rates are of 10 clients of E64ds_v5. A network that is not in the catalog"
        " carries no throughput that is asked for."
    )
    clients = Sheet(
        title=f"Clients: {units.plural(found.ask['clients'], 'node')}",
        columns=_CLIENTS,
        rows=[_client_row(one) for one in found.clients],
        notes=[held, *age_notes((one.price.date, one.price.age) for one in found.clients)],
        name="advise-clients",
        facts={"kind": "advise_clients"},
    )
    refused = [(one.name, one.why) for one in found.refused]
    return [stores, clients, *_refused(refused)]


def _store_row(one: Store, *, best: bool) -> dict[str, Any]:
    rate = one.rate
    return {
        "best": "first" if best else "",
        "level": _called(one),
        "service": one.service,
        "tib": one.tib,
        "because": one.because,
        "mb_s": one.mb_s,
        "rate": rate.value if rate else None,
        "rate_low": rate.low if rate else None,
        "rate_high": rate.high if rate else None,
        "within": f"{rate.low:.0f} .. {rate.high:.0f}" if rate else "",
        "known": one.known or None,
        "holds": one.holds,
        "able": one.able,
        "usd_per_month": one.usd,
        "billing": one.billing or _UNSAID,
        "beyond": one.beyond,
        "doubts": "; ".join(one.doubts),
        "evidence": "; ".join(f"{each.kind}: {each.source}" for each in one.evidence),
        "mark": "best" if best else "",
    }


def _called(one: Store) -> str:
    """Lustre's levels have its name."""
    return one.level if one.level.startswith("AMLFS") else f"ANF {one.level}"


def _store_notes(found: Eda, *, explain: bool) -> list[str]:
    said = _paid(found)
    if found.ask["operations_per_second"]:
        said.append(
            "Operations/s are of the published benchmark at 2 ms (10 clients, its TB taken for"
            " TiB); a rate that a result had on the level with no more capacity is held, else the"
            " low end of what is expected counts."
        )
    said += [*_doubts(found), _own_server(found)]
    if explain:
        every = [each for one in found.stores for each in one.evidence]
        said += [f"{each.kind}: {each.source}." for each in dict.fromkeys(every)]
    return said


def _paid(found: Eda) -> list[str]:
    """Which prices are known, and of what."""
    said = []
    unpriced = [_called(one) for one in found.stores if one.usd is None]
    if unpriced and len(unpriced) == len(found.stores):
        said.append(
            "No price of storage is known: without yours (usd_per_tib_month) storage is in the"
            " order of capacity."
        )
    elif unpriced:
        said.append(f"Without a price, so after those with one: {'; '.join(unpriced)}.")
    billed = dict.fromkeys((one.service, one.billing or _UNSAID) for one in found.stores)
    if billed:
        told = "; ".join(f"{service}, {unit}" for service, unit in billed)
        said.append(f"The quantity is TiB a month. What is billed: {told}.")
    return said


def _doubts(found: Eda) -> list[str]:
    """What no result has seen, and what is not known, with the levels of each."""
    beyond = {_called(one): one.beyond for one in found.stores if one.beyond}
    said = [f"Not seen before, {level}: {words}" for level, words in beyond.items()]
    doubts: dict[str, list[str]] = {}
    for one in found.stores:
        for each in one.doubts:
            doubts.setdefault(each, []).append(_called(one))
    return said + [f"{'; '.join(levels)}: {words}." for words, levels in doubts.items()]


def _own_server(found: Eda) -> str:
    server = found.server
    data = f"{found.ask['data_tb']:g} TB"
    if server is None:
        return f"An NFS server of one's own: no priced node has NVMe disks for {data}."
    return (
        f"An NFS server of one's own: the cheapest node whose NVMe disks hold {data} is"
        f" {short_size(server.size)} in {server.region}, {price(server.usd_per_month)} US$ a"
        " month. They are lost when it is deallocated, and no result tells its operations/s:"
        " measure it (roles nfs_server and fio, eda_mixed)."
    )


def _stores_told(found: Eda) -> str:
    best = next((one for one in found.stores if one.able), None)
    clients = found.clients[0]
    nodes = (
        f" Cheapest clients: {found.ask['clients']} x {short_size(clients.size)} in"
        f" {clients.region}, {price(clients.usd_per_month)} US$ a month."
    )
    if best is None:
        return f"No storage is known to hold what was asked: holds says what is missed.{nodes}"
    cost = "no price known" if best.usd is None else f"{price(best.usd)} US$ a month by your price"
    first = "Cheapest known" if best.usd is not None else "Least capacity"
    return (
        f"{first} that holds what was asked: {_called(best)}, {best.tib:g} TiB bought"
        f" for {best.because}; {cost}.{nodes}{' '.join(['', *found.notes])}"
    )


def _client_row(one: Client) -> dict[str, Any]:
    return {
        "size": one.size,
        "cores": one.cores,
        "gib_a_core": one.gib_a_core,
        "network_mb_s": one.network_mb_s,
        "region": one.region,
        "usd_per_hour": one.price.usd_per_hour,
        "usd_per_month": one.usd_per_month,
        "price_date": one.price.date,
        "price_age": one.price.age,
        "price_source": one.price.source,
    }


def _refused(rows: Sequence[tuple[str, str]]) -> list[Sheet]:
    if not rows:
        return []
    by_reason: dict[str, list[str]] = {}
    for what, why in rows:
        by_reason.setdefault(why, []).append(what)
    return [
        Sheet(
            title="What cannot do it",
            columns=[Column("what", "what", words=True), Column("reason", "why not", words=True)],
            rows=[{"what": "; ".join(some), "reason": why} for why, some in by_reason.items()],
            name="advise-refused",
            facts={"kind": "advise_refused"},
        )
    ]
