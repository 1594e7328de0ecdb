"""Desktops with graphics on Azure Virtual Desktop: hosts for users who are signed in at once.

The number of users of a host is from a publication or a record, never from a calculation; a
user's need of memory, vCPUs and the GPU can be given, and lowers it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.options import Option

from ...users import windows_rate
from ..estimates import PUBLISHED, Evidence, Refusal
from ..knowledge import Knowledge, number
from .sizing import OF_RUNS, Held, Sizing, cheapest_region, limit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...prices import Quote
    from .kind import Ask

_AVD: Final = "avd"
_PAYG: Final = "payg"
# Azure Virtual Desktop names this series for graphics, and NC and ND as unsuitable.
_SERIES: Final = "NVadsA10_v5"
_NX: Final = "Siemens NX on Azure Virtual Desktop"
YOURS: Final = "yours"
_SOME: Final = {"type": "float", "least": 1e-3, "most": 1e4}
_MEASURE: Final = (
    "no result says how many users it serves: give users_a_host, or measure what it encodes with"
    ' ansible-playbook playbooks/benchmark.yml -e \'{"trueup_benchmarks": ["nv_a10"]}\''
    " and give the folder with --results"
)

OPTIONS: Final = (
    Option("users", "Users signed in at once.", type="int", required=True, least=1, most=100_000),
    Option(
        "hosts",
        "pooled: several users a host; personal: a host for each user.",
        "pooled",
        choices=("pooled", "personal"),
    ),
    Option(
        "users_a_host",
        "Users on one host; without it what a publication or a record says of the size.",
        type="int",
        least=1,
        most=1000,
    ),
    Option("gpu_memory_gib_a_user", "GPU memory of a user, GiB.", **_SOME),  # type: ignore[arg-type]
    Option("memory_gib_a_user", "Memory of a user, GiB.", **_SOME),  # type: ignore[arg-type]
    Option("vcpus_a_user", "vCPUs of a user.", **_SOME),  # type: ignore[arg-type]
    Option(
        "hours_a_month",
        "Hours a month that the hosts run; 730 is always.",
        730.0,
        type="float",
        least=1,
        most=744,
    ),
)


class Bound(NamedTuple):
    """The most users of one host, and the limit that says so."""

    users: int
    what: str
    evidence: Evidence | None = None


class Hosts(NamedTuple):
    """Hosts of one size for all users.

    Attributes:
        users_a_host: at most; the last host may have fewer.
        limit: the reason that it has no more.
        bounds: all limits, the lowest first.
        usd_per_hour: of one host, at the base rate (licence type Windows_Client).
        windows_usd_per_hour: of one host at the Windows rate; NaN where it is not known.
        beyond: how it goes beyond all results.
    """

    size: str
    hosts: int
    users_a_host: int
    bounds: Sequence[Bound]
    region: str
    price: Quote
    windows_usd_per_hour: float
    windows_source: str
    beyond: str = ""

    @property
    def limit(self) -> str:
        return self.bounds[0].what


class Desktops(NamedTuple):
    """The advised hosts, the cheapest first.

    Attributes:
        refused: sizes that serve no user, or of which nothing is known.
        unpriced: sizes without a price where they are asked for.
        note: of the right to use Windows, with its source.
    """

    sizing: Sizing
    ask: Ask
    choices: Sequence[Hosts]
    refused: Sequence[Refusal]
    unpriced: Sequence[str]
    billing: str


def size(ask: Ask, held: Held) -> Desktops:
    """Hosts for the users of an ask.

    Raises:
        BadInput: more users a host than a licence allows, a size that is not for desktops, or
            nothing serves them.
    """
    candidates = _sizes(ask, held.known)
    licence = limit_of(held.services, _AVD, "users_a_host")
    if (ask["users_a_host"] or 0) > licence.most:
        raise BadInput(
            f"users_a_host {ask['users_a_host']} is above {licence.most} {licence.unit}"
            f" [{licence.source}]"
        )
    if ask["hosts"] == "personal" and (ask["users_a_host"] or 1) != 1:
        raise BadInput("hosts is personal: a host has one user, so leave users_a_host out")
    choices: list[Hosts] = []
    refused, unpriced = [], []
    for name, row in candidates.items():
        bounds = sorted(_bounds(ask, name, row, held), key=lambda bound: bound.users)
        evidenced = [bound for bound in bounds if bound.evidence or bound.what == YOURS]
        if bounds[0].users < 1:
            refused.append(Refusal(name, 1, f"not one user fits: {bounds[0].what}", None))
            continue
        if ask["hosts"] == "pooled" and not evidenced:
            refused.append(Refusal(name, 1, _MEASURE, None, unknown=True))
            continue
        priced = cheapest_region(held.book, name, ask["region"], _PAYG)
        if priced is None:
            unpriced.append(name)
            continue
        choices.append(_hosts(ask, name, row, bounds, priced, held))
    if not choices:
        raise BadInput(_why_nothing(ask, refused, unpriced))
    choices.sort(key=lambda choice: (choice.hosts * choice.price.usd_per_hour, choice.size))
    (avd,) = (service for service in held.services.services if service.service == _AVD)
    return Desktops(SIZING, ask, choices, refused, unpriced, avd.billing)


def _sizes(ask: Ask, knowledge: Knowledge) -> dict[str, Mapping[str, str]]:
    knowledge.require(ask["sizes"], knowledge.withheld)
    for name in ask["sizes"]:
        if knowledge.sizes[name]["series"] != _SERIES:
            raise BadInput(
                f"{name} is not advised for desktops with graphics: Azure Virtual Desktop names"
                f" {_SERIES} for them"
            )
    return {
        name: row
        for name, row in knowledge.sizes.items()
        if row["series"] == _SERIES
        and name not in knowledge.withheld
        and (not ask["sizes"] or name in ask["sizes"])
    }


def _bounds(ask: Ask, name: str, row: Mapping[str, str], held: Held) -> Iterator[Bound]:
    if ask["hosts"] == "personal":
        yield Bound(1, "personal")
    elif ask["users_a_host"]:
        yield Bound(ask["users_a_host"], YOURS)
    else:
        yield from published(name, held.known)
    yield from _encoded(
        name, held.known, alone=not ask["users_a_host"] and ask["hosts"] == "pooled"
    )
    licence = limit_of(held.services, _AVD, "users_a_host")
    yield Bound(licence.most, "users of a GRID licence")
    gpu = (number(row, "gpus") or 0) * (number(row, "gpu_memory_gib") or 0)
    for option, available, resource in (
        ("gpu_memory_gib_a_user", gpu, "GPU memory"),
        ("memory_gib_a_user", number(row, "memory_gib"), "memory"),
        ("vcpus_a_user", number(row, "vcpus"), "number of vCPUs"),
    ):
        if ask[option] and available:
            # A division's last digit must not cost a user.
            yield Bound(math.floor(available / ask[option] + 1e-9), resource)


def published(name: str, knowledge: Knowledge) -> list[Bound]:
    """Published numbers of users on a host of the size."""
    return [
        Bound(int(float(row["value"])), "tests of NX", Evidence(PUBLISHED, row["source"]))
        for row in knowledge.results(_NX, "users_per_host")
        if row["system"] == name
    ]


def _encoded(name: str, knowledge: Knowledge, *, alone: bool) -> list[Bound]:
    """The most sessions that one of our records held at its frame rate, by a GPU's encoder.

    It is a limit where more were tried and did not hold, or where nothing else tells of the size.

    Args:
        alone: whether no number of users was given.
    """
    tried = [
        record
        for record in knowledge.own("nv_a10", "session_frame_rate")
        if record.size == name and record.case.parameters.get("encoder") not in (None, "libx264")
    ]
    held = [(record.case.plain("sessions_held") or 0.0, record) for record in tried]
    most, best = max(held, key=lambda pair: pair[0], default=(0.0, None))
    failed = any(
        not sessions_held and float(record.case.parameters.get("sessions") or 0) > most
        for sessions_held, record in held
    )
    if best is None or not (failed or (alone and not published(name, knowledge))):
        return []
    return [Bound(int(most), "sessions encoded", best.evidence)]


def _hosts(
    ask: Ask,
    name: str,
    row: Mapping[str, str],
    bounds: Sequence[Bound],
    priced: tuple[str, Quote],
    held: Held,
) -> Hosts:
    region, quote = priced
    users = bounds[0].users
    windows, source = windows_rate(
        held.book, quote.usd_per_hour, name, region, _PAYG, int(number(row, "vcpus") or 0)
    )
    most_published = max((bound.users for bound in published(name, held.known)), default=None)
    beyond = ""
    if most_published is None and ask["hosts"] == "pooled":
        beyond = "no publication has users on this size."
    elif most_published is not None and users > most_published:
        beyond = f"no publication has more than {most_published} users on this size."
    hosts = math.ceil(ask["users"] / users)
    return Hosts(name, hosts, users, bounds, region, quote, windows, source, beyond)


def _why_nothing(ask: Ask, refused: Sequence[Refusal], unpriced: Sequence[str]) -> str:
    if unpriced:
        where = ask["region"] or "any region"
        return f"no size that serves them has a price in {where}: {', '.join(unpriced)}"
    by_reason: dict[str, list[str]] = {}
    for refusal in refused:
        by_reason.setdefault(refusal.reason, []).append(refusal.size)
    return "; ".join(f"{', '.join(sizes)}: {reason}" for reason, sizes in by_reason.items())


SIZING: Final = Sizing(
    name="desktops",
    title="Desktops with graphics (Azure Virtual Desktop)",
    options=OPTIONS,
    unasked=(*OF_RUNS, "data_tb", "mb_s", "usd_per_tib_month"),
    size=size,
)
