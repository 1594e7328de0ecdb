"""The cheapest machine for the same work, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .. import units
from .pooling import work_priced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .cost import CostTable
    from .sizes import Sizes
    from .tokens import TokenTable

_TOTAL: Final = "usd_per_million_total_tokens"
# More sentences than these are a table.
_MOST: Final = 3


class _Offer(NamedTuple):
    """What is billed."""

    vm_size: str
    region: str | None
    offer: str | None


def of_tokens(result: TokenTable, sizes: Sizes) -> list[str]:
    """For each model the cheapest offer of those that served the same cases, at its cheapest one of
    these."""
    models: dict[str, dict[_Offer, dict[str, float]]] = {}
    for row in result.table:
        if row[_TOTAL] is not None and row["vm_size"] is not None:
            by_case = models.setdefault(row["model"], {}).setdefault(_offer(row), {})
            by_case[row["case"]] = min(row[_TOTAL], by_case.get(row["case"], row[_TOTAL]))
    return list(_sentences(_of_models(models, sizes)))


def _of_models(
    models: Mapping[str, Mapping[_Offer, Mapping[str, float]]], sizes: Sizes
) -> Iterator[str]:
    for model, by_offer in models.items():
        common = set.intersection(*(set(by_case) for by_case in by_offer.values()))
        if len(by_offer) > 1 and common:
            costs = {
                offer: min(by_case[case] for case in common) for offer, by_case in by_offer.items()
            }
            yield _sentence(costs, "million tokens", model, sizes)


def of_work(result: CostTable, sizes: Sizes) -> list[str]:
    """For each piece of work the cheapest of several offers."""
    groups: dict[tuple[Any, ...], dict[_Offer, float]] = {}
    for row in result.table:
        column = row["compared_by"]
        if column and row["vm_size"] is not None:
            key = (row["benchmark"], row["case"], column, row["same_work"], row["message_bytes"])
            costs = groups.setdefault(key, {})
            offer = _offer(row)
            costs[offer] = min(row[column], costs.get(offer, row[column]))
    sentences = (
        _sentence(costs, _unit(benchmark, column), f"{benchmark} {case}", sizes)
        for (benchmark, case, column, *_), costs in groups.items()
        if len(costs) > 1
    )
    return list(_sentences(sentences))


def _sentences(each: Iterator[str]) -> Iterator[str]:
    """All of a few sentences; none of many, which nobody reads."""
    sentences = list(each)
    yield from sentences if len(sentences) <= _MOST else ()


def _unit(benchmark: str, column: str) -> str:
    """What a column's cost is of."""
    names = {f"usd_per_{work.key}": work.unit for work in work_priced(benchmark)}
    return names.get(column, "run")


def _offer(row: Mapping[str, Any]) -> _Offer:
    return _Offer(row["vm_size"], row["region"], row["offer"])


def _sentence(costs: Mapping[_Offer, float], unit: str, work: str, sizes: Sizes) -> str:
    """ "H200: 2.16 US$ per million tokens, 32 % below H100 (llama)"."""
    names = _names(list(costs), sizes)
    first, *others = sorted(costs, key=lambda offer: costs[offer])
    compared = [
        f"{units.percent(1 - costs[first] / costs[other])} below {names[other]}" for other in others
    ]
    end = f" ({work})" if work else ""
    cost = f"{units.money(costs[first])} US$ per {unit}"
    return f"{names[first]}: {cost}, {' and '.join(compared)}{end}."


def _names(offers: Sequence[_Offer], sizes: Sizes) -> dict[_Offer, str]:
    """The shortest names that tell offers apart: of GPUs, else of sizes, with region and offer
    where these differ."""
    vm_sizes = {offer.vm_size for offer in offers}
    gpus = {size: sizes.text(size, "gpu_model").partition("-")[0] for size in vm_sizes}
    by_gpu = all(gpus.values()) and len(set(gpus.values())) == len(vm_sizes)
    varying = [
        field
        for field in ("region", "offer")
        if len({getattr(offer, field) for offer in offers}) > 1
    ]
    return {
        offer: " ".join(
            [
                gpus[offer.vm_size] if by_gpu else offer.vm_size.removeprefix("Standard_"),
                *(str(getattr(offer, field) or "") for field in varying),
            ]
        ).strip()
        for offer in offers
    }
