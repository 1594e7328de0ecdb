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


def sized(sizing: Sized, *, explain: bool) -> list[Sheet]:
    """The answer; with ``explain`` where each figure is from."""
    if isinstance(sizing, Desktops):
        return _desktops(sizing, explain=explain)
    return _eda(sizing, explain=explain)


def recommended(sizing: Sized) -> str:
    """The recommended choice, in words."""
    return _hosts_told(sizing) if isinstance(sizing, Desktops) else _stores_told(sizing)


def _facts(sizing: Sized) -> dict[str, Any]:
    return {
        "kind": "advise",
        "ask": dict(sizing.ask),
        "recommended": recommended(sizing),
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


def _desktops(desktops: Desktops, *, explain: bool) -> list[Sheet]:
    best, hours = desktops.choices[0], desktops.ask["hours_a_month"]
    held = (
        f"US$ are of hosts that run {hours:g} hours a month, and hold the hosts alone: no profiles,"
        " files, licences or user rights. User-hours are of all users, signed in all that time. No"
        " host is in reserve."
    )
    notes = [
        recommended(desktops),
        held,
        f"Base rate: {desktops.billing}. The Windows rate is what a host without it pays.",
    ]
    needs = ("gpu_memory_gib_a_user", "memory_gib_a_user", "vcpus_a_user")
    if not any(desktops.ask[name] for name in needs):
        notes.append(f"What a user needs was not given: {', '.join(needs)}.")
    if best.beyond:
        notes.append(f"Not seen before: {best.beyond}")
    notes += age_notes((choice.price.date, choice.price.age) for choice in desktops.choices)
    if explain:
        notes += [
            f"{short_size(choice.size)}: {_limits(choice)}. Base rate: {choice.price.source}, as of"
            f" {choice.price.dated}. Windows rate: {choice.windows_source or 'unknown'}."
            for choice in desktops.choices
        ]
    sheet = Sheet(
        title=desktops.sizing.title,
        columns=_HOSTS,
        rows=[_hosts_row(choice, desktops, best=choice is best) for choice in desktops.choices],
        notes=notes,
        warnings=_unpriced(desktops.unpriced),
        marks="mark",
        name="advise",
        facts=_facts(desktops),
    )
    refused = [(short_size(refusal.size), refusal.reason) for refusal in desktops.refused]
    return [sheet, *_refused(refused)]


def _unpriced(sizes: Sequence[str]) -> list[str]:
    return [f"No price, so not ranked: {', '.join(sizes)}."] if sizes else []


def _limits(choice: Hosts) -> str:
    return ", ".join(
        f"{each.users} ({each.what}{f', {each.evidence.source}' if each.evidence else ''})"
        for each in choice.bounds
    )


def _hosts_row(choice: Hosts, desktops: Desktops, *, best: bool) -> dict[str, Any]:
    each, hours = choice.hosts * choice.price.usd_per_hour, desktops.ask["hours_a_month"]
    windows, users = choice.hosts * choice.windows_usd_per_hour, desktops.ask["users"]
    evidence = choice.bounds[0].evidence
    trust = evidence.kind if evidence else (YOURS if choice.limit in _GIVEN else "limit")
    return {
        "best": "cheapest" if best else "",
        "size": choice.size,
        "hosts": choice.hosts,
        "users_a_host": choice.users_a_host,
        "limit": choice.limit,
        "region": choice.region,
        "usd_per_month": each * hours,
        "windows_usd_per_month": windows * hours,
        "usd_per_user_hour": each / users,
        "windows_usd_per_user_hour": windows / users,
        "trust": trust,
        "usd_per_host_hour": choice.price.usd_per_hour,
        "price_date": choice.price.date,
        "price_age": choice.price.age,
        "price_source": choice.price.source,
        "windows_source": choice.windows_source,
        "limits": _limits(choice),
        "evidence": "; ".join(
            f"{each.evidence.kind}: {each.evidence.source}"
            for each in choice.bounds
            if each.evidence
        ),
        "beyond": choice.beyond,
        "mark": "best" if best else "",
    }


# Limits that are the user's own.
_GIVEN: Final = (YOURS, "personal", "GPU memory", "memory", "number of vCPUs")


def _hosts_told(desktops: Desktops) -> str:
    top, hours = desktops.choices[0], desktops.ask["hours_a_month"]
    each = top.hosts * top.price.usd_per_hour
    users = units.plural(top.users_a_host, "user")
    return (
        f"Cheapest: {top.hosts} x {short_size(top.size)} in {top.region}, {users} a host (limited"
        f" by: {top.limit}), {price(each * hours)} US$ a month at the base rate,"
        f" {price(each / desktops.ask['users'])} US$ a user and hour."
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


def _eda(eda: Eda, *, explain: bool) -> list[Sheet]:
    best = next((store for store in eda.stores if store.able), None)
    stores = Sheet(
        title=eda.sizing.title,
        columns=_STORES,
        rows=[_store_row(store, best=store is best) for store in eda.stores],
        notes=[recommended(eda), *_store_notes(eda, explain=explain)],
        marks="mark",
        name="advise",
        facts=_facts(eda),
    )
    held = (
        f"Prices of the catalog, pay as you go, {eda.ask['hours_a_month']:g} hours a month. The"
        " published rates are of 10 clients of E64ds_v5. A network that is not in the catalog"
        " carries no throughput that is asked for."
    )
    clients = Sheet(
        title=f"Clients: {units.plural(eda.ask['clients'], 'node')}",
        columns=_CLIENTS,
        rows=[_client_row(client) for client in eda.clients],
        notes=[held, *age_notes((client.price.date, client.price.age) for client in eda.clients)],
        name="advise-clients",
        facts={"kind": "advise_clients"},
    )
    refused = [(refusal.name, refusal.why) for refusal in eda.refused]
    return [stores, clients, *_refused(refused)]


def _store_row(store: Store, *, best: bool) -> dict[str, Any]:
    rate = store.rate
    return {
        "best": "first" if best else "",
        "level": _called(store),
        "service": store.service,
        "tib": store.tib,
        "because": store.because,
        "mb_s": store.mb_s,
        "rate": rate.value if rate else None,
        "rate_low": rate.low if rate else None,
        "rate_high": rate.high if rate else None,
        "within": f"{rate.low:.0f} .. {rate.high:.0f}" if rate else "",
        "known": store.known or None,
        "holds": store.holds,
        "able": store.able,
        "usd_per_month": store.usd,
        "billing": store.billing or _UNSAID,
        "beyond": store.beyond,
        "doubts": "; ".join(store.doubts),
        "evidence": "; ".join(f"{each.kind}: {each.source}" for each in store.evidence),
        "mark": "best" if best else "",
    }


def _called(store: Store) -> str:
    """Lustre's levels have its name."""
    return store.level if store.level.startswith("AMLFS") else f"ANF {store.level}"


def _store_notes(eda: Eda, *, explain: bool) -> list[str]:
    sentences = _paid(eda)
    if eda.ask["operations_per_second"]:
        sentences.append(
            "Operations/s are of the published benchmark at 2 ms (10 clients, its TB taken for"
            " TiB); a rate that a result had on the level with no more capacity is held, else the"
            " low end of what is expected counts."
        )
    sentences += [*_doubts(eda), _own_server(eda)]
    if explain:
        every = [each for store in eda.stores for each in store.evidence]
        sentences += [f"{each.kind}: {each.source}." for each in dict.fromkeys(every)]
    return sentences


def _paid(eda: Eda) -> list[str]:
    """The known prices, and the billed quantities."""
    sentences = []
    unpriced = [_called(store) for store in eda.stores if store.usd is None]
    if unpriced and len(unpriced) == len(eda.stores):
        sentences.append(
            "No price of storage is known: without yours (usd_per_tib_month) storage is in the"
            " order of capacity."
        )
    elif unpriced:
        sentences.append(f"Without a price, so after those with one: {'; '.join(unpriced)}.")
    billed = dict.fromkeys((store.service, store.billing or _UNSAID) for store in eda.stores)
    if billed:
        billing_text = "; ".join(f"{service}, {unit}" for service, unit in billed)
        sentences.append(f"The quantity is TiB a month. What is billed: {billing_text}.")
    return sentences


def _doubts(eda: Eda) -> list[str]:
    """Extrapolations beyond all results, and unknown facts, with the levels of each."""
    beyond = {_called(store): store.beyond for store in eda.stores if store.beyond}
    sentences = [f"Not seen before, {level}: {words}" for level, words in beyond.items()]
    doubts: dict[str, list[str]] = {}
    for store in eda.stores:
        for each in store.doubts:
            doubts.setdefault(each, []).append(_called(store))
    return sentences + [f"{'; '.join(levels)}: {words}." for words, levels in doubts.items()]


def _own_server(eda: Eda) -> str:
    server = eda.server
    data = f"{eda.ask['data_tb']:g} TB"
    if server is None:
        return f"An NFS server of one's own: no priced node has NVMe disks for {data}."
    return (
        f"An NFS server of one's own: the cheapest node whose NVMe disks hold {data} is"
        f" {short_size(server.size)} in {server.region}, {price(server.usd_per_month)} US$ a"
        " month. They are lost when it is deallocated, and no result tells its operations/s:"
        " measure it (roles nfs_server and fio, eda_mixed)."
    )


def _stores_told(eda: Eda) -> str:
    best = next((store for store in eda.stores if store.able), None)
    clients = eda.clients[0]
    nodes = (
        f" Cheapest clients: {eda.ask['clients']} x {short_size(clients.size)} in"
        f" {clients.region}, {price(clients.usd_per_month)} US$ a month."
    )
    if best is None:
        return f"No storage is known to hold what was asked: holds says what is missed.{nodes}"
    cost = "no price known" if best.usd is None else f"{price(best.usd)} US$ a month by your price"
    first = "Cheapest known" if best.usd is not None else "Least capacity"
    return (
        f"{first} that holds what was asked: {_called(best)}, {best.tib:g} TiB bought"
        f" for {best.because}; {cost}.{nodes}{' '.join(['', *eda.notes])}"
    )


def _client_row(client: Client) -> dict[str, Any]:
    return {
        "size": client.size,
        "cores": client.cores,
        "gib_a_core": client.gib_a_core,
        "network_mb_s": client.network_mb_s,
        "region": client.region,
        "usd_per_hour": client.price.usd_per_hour,
        "usd_per_month": client.usd_per_month,
        "price_date": client.price.date,
        "price_age": client.price.age,
        "price_source": client.price.source,
    }


def _refused(rows: Sequence[tuple[str, str]]) -> list[Sheet]:
    if not rows:
        return []
    by_reason: dict[str, list[str]] = {}
    for name, reason in rows:
        by_reason.setdefault(reason, []).append(name)
    return [
        Sheet(
            title="What cannot do it",
            columns=[Column("what", "what", words=True), Column("reason", "why not", words=True)],
            rows=[
                {"what": "; ".join(some), "reason": reason} for reason, some in by_reason.items()
            ],
            name="advise-refused",
            facts={"kind": "advise_refused"},
        )
    ]
