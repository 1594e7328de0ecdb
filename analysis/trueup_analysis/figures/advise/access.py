"""How the data of a piece of work is reached: the storage for the machines that are advised, by the
conditions of catalog/services.yml."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from trueup_controller.typed import Source
from trueup_node.errors import BadInput
from trueup_node.options import Option
from trueup_node.suggest import did_you_mean

from ..meters import HOURS_A_MONTH
from .services import Access, Data, Needs, Statement, advise_storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from ..meters import Meters
    from .answers import Answer, Choice
    from .services import Advice, Services

# Asked once for every kind of work, under the names of Needs.
OPTIONS: Final = (
    Option(
        "access",
        "How files are reached; it is answered with a storage. once: from end to end; shared: many"
        " nodes, large files; small: many nodes, many small files; scratch: of one job; profiles:"
        " of desktops.",
        type="str",
        choices=get_args(Access),
    ),
    Option(
        "data",
        "How the work reaches them today; it is answered with a storage.",
        type="str",
        choices=get_args(Data),
    ),
    Option("data_tb", "How much data it is, TB (1e12 bytes).", type="float", least=1e-6, most=1e6),
    Option(
        "mb_s",
        "What all nodes together read or write, MB/s (1e6).",
        type="float",
        least=1e-3,
        most=1e7,
    ),
)
# The catalog's levels by the words that a price is given for.
_LEVELS: Final = {
    "standard": ("Standard", "Standard, large volume"),
    "premium": ("Premium", "Premium, large volume"),
    "ultra": ("Ultra", "Ultra, large volume"),
    **{f"lustre-{mb_s}": (f"AMLFS-Durable-Premium-{mb_s}",) for mb_s in (40, 125, 250, 500)},
}
# Prices that no source of the catalog has. They do not ask for a storage.
COSTS: Final = (
    Option(
        "usd_per_tib_month",
        f"Your prices of storage, US$ a TiB and month, as ultra:300: {', '.join(_LEVELS)}.",
        [],
        elements="str",
    ),
    Option(
        "out_tb",
        "Data that leave the region, TB (1e12 bytes).",
        type="float",
        least=1e-6,
        most=1e6,
    ),
    Option(
        "usd_per_gb_out",
        "Your price of data that leave the region, US$ a GB (1e9 bytes).",
        type="float",
        least=1e-6,
        most=100,
    ),
)
_LOCAL: Final = "local-nvme"
_GB_IN_TB: Final = 1000
_GIB_IN_TIB: Final = 1024
_TB: Final = 2**30 / 1e12


class Storage(NamedTuple):
    """Kinds of storage, the first to try first, for one of the choices.

    Attributes:
        prices: US$ a TiB and month by the name of a level, where they were given.
    """

    choice: Choice
    needs: Needs
    found: Sequence[Advice]
    local: str
    prices: Mapping[str, float]


class Advised(NamedTuple):
    """An answer, and the storage for it where that was asked for."""

    answer: Answer
    storage: Storage | None = None


def storage(
    ranking: Answer,
    sizes: Mapping[str, Mapping[str, str]],
    services: Services,
    today: date,
    tariffs: Meters,
) -> Storage | None:
    """Kinds of storage for the data of the answer's machines; None where none was asked for.

    It is for the cheapest choice, whose number of nodes and local disks count.
    """
    options = {option.name: ranking.ask.get(option.name) for option in OPTIONS}
    if not any(value is not None for value in options.values()):
        return None
    choice = ranking.marked("cheapest") or ranking.choices[0]
    requirements: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None
    }
    needs = Needs(nodes=choice.estimate.nodes, **requirements)
    row = sizes[choice.estimate.size]
    gib = _local_gib(row)
    storages = [
        _with_disks(advice, row, gib, needs, today) if advice.service == _LOCAL else advice
        for advice in advise_storage(needs, services, today)
    ]
    storages.sort(key=lambda advice: bool(advice.rank and advice.refused))
    local = f"{gib * _TB:.2f} TB of local disks" if gib else "no local disk"
    node_sentence = f"A node of {choice.estimate.size} has {local}."
    given = level_prices(ranking.ask["usd_per_tib_month"])
    prices = {**public_prices(tariffs, choice.region), **given}
    return Storage(choice, needs, storages, node_sentence, prices)


def refuse_incomplete(ask: Mapping[str, Any]) -> None:
    """Refuse a price without the amount that it applies to.

    Raises:
        BadInput: a price of storage without the amount of data, or of a transfer without its own.
    """
    for price, amount in (("usd_per_tib_month", "data_tb"), ("usd_per_gb_out", "out_tb")):
        if ask[price] and ask[amount] is None:
            raise BadInput(f"{price} says nothing without {amount}")


def public_prices(tariffs: Meters, region: str) -> dict[str, float]:
    """By a level's name, US$ a TiB and month of the region, where a public price or the user's
    contract has it."""
    prices: dict[str, float] = {}
    for names in _LEVELS.values():
        service = "amlfs" if names[0].startswith("AMLFS") else "anf"
        tariff = tariffs.per_hour(f"{service}:{names[0]}", region)
        if tariff is not None:
            month = tariff.usd * _GIB_IN_TIB * HOURS_A_MONTH
            prices |= dict.fromkeys(names, month)
    return prices


def transfer(ask: Mapping[str, Any], region: str, tariffs: Meters | None) -> str:
    """The cost of data that leave the region; empty where none do."""
    if ask["out_tb"] is None:
        return ""
    out = f"{ask['out_tb']:g} TB leave the region"
    if ask["usd_per_gb_out"] is None:
        tariff = tariffs.find("egress", region) if tariffs else None
        if tariff is None:
            return (
                f"{out}: no price of transfer from {region} is known; give yours (usd_per_gb_out)"
                " or run `trueup prices refresh`."
            )
        usd = tariff.total(ask["out_tb"] * _GB_IN_TB)
        return f"{out} of {region} in one month: {usd:,.2f} US$ more at prices of {tariff.dated}."
    usd = ask["out_tb"] * _GB_IN_TB * ask["usd_per_gb_out"]
    return f"{out}: {usd:,.2f} US$ more at your {ask['usd_per_gb_out']:g} US$ a GB."


def level_prices(price_texts: Sequence[str]) -> dict[str, float]:
    """By a level's name, US$ a TiB and month."""
    prices: dict[str, float] = {}
    for price_text in price_texts:
        name, _, text = price_text.partition(":")
        if name not in _LEVELS:
            raise BadInput(
                f"usd_per_tib_month: {name} is no level{did_you_mean(name, _LEVELS)};"
                f" there are {', '.join(_LEVELS)}"
            )
        try:
            usd = float(text)
        except ValueError:
            usd = math.nan
        if not 0 < usd < math.inf:
            raise BadInput(
                f"usd_per_tib_month: {price_text} has no price above 0, as in {name}:300"
            )
        prices |= dict.fromkeys(_LEVELS[name], usd)
    return prices


def _local_gib(row: Mapping[str, str]) -> float:
    """GiB of NVMe disks of a node, or of its temporary disk where it has none."""
    nvme = float(row["nvme_disks"] or 0) * float(row["nvme_gib_each"] or 0)
    return nvme or float(row["local_ssd_gib"] or 0)


def _with_disks(
    advice: Advice, row: Mapping[str, str], gib: float, needs: Needs, today: date
) -> Advice:
    """Local disks, refused where a node has none, or not enough for all of the data."""
    source = Source("catalog/vm_sizes.csv", today.isoformat(), "read")
    reason = ""
    if not gib:
        reason = f"{row['size']} has no local disk in the catalog"
    elif needs.data_tb is not None and needs.data_tb > needs.nodes * gib * _TB:
        every = f"{needs.nodes * gib * _TB:.2f} TB of local disks of {needs.nodes} x {row['size']}"
        reason = f"{needs.data_tb:g} TB is above {every}"
    return (
        replace(advice, refused=(*advice.refused, Statement(reason, source))) if reason else advice
    )
