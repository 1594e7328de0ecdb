"""The opening of the report: the answer to the question in some sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..figures.cost import cheapest_of_tokens, cheapest_of_work
from ..figures.pooling import work_priced
from ..render.html import Part, Section
from ..rooms import names_of
from ..sheets import compare
from ..sheets import health as health_sheets
from ..units import UNKNOWN, money, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..figures.compare.changes import Comparison
    from ..figures.cost import CostTable
    from ..figures.sizes import Sizes
    from ..figures.tokens import TokenTable
    from .health import NodeHealth

# Findings that the answer names; the cards have all.
_FINDINGS: Final = 3
_NAMES: Final = 3
_COSTS: Final = 4
_TOKENS: Final = "usd_per_million_total_tokens"


def answer_section(
    prices: Sequence[str], health: NodeHealth | None, changes: Comparison | None
) -> Section | None:
    """The sentences on prices, then health, then the changes since the run before; None without
    any."""
    sentences = list(prices)
    if health is not None:
        sentences.append(" ".join(health_sentences(health)))
    if changes is not None:
        sentences.append(f"Since the run before: {compare.answer(changes)}")
    if not sentences:
        return None
    return Section("answer", "The answer", (Part(paragraphs=sentences),), data=())


def health_sentences(fleet: NodeHealth) -> list[str]:
    """How many nodes are well, and the worst findings."""
    sentences = [f"{fleet.sentence[:1].upper()}{fleet.sentence[1:]}."]
    failures = [item for item in fleet.health.findings if item.verdict == "fail"]
    findings = health_sheets.findings(failures)
    sentences += [_finding(finding) for finding in findings[:_FINDINGS]]
    if len(findings) > _FINDINGS:
        sentences.append(f"{plural(len(findings) - _FINDINGS, 'more finding')} below.")
    return sentences


def _finding(finding: health_sheets.Finding) -> str:
    """ "h100-0017: NCCL all-reduce on one node at 16 GiB 236.10 GB/s (limit ≥ 460.00)." """
    row = finding.row
    names = ["+".join(its[0].nodes) for its in finding.nodes]
    more = f" and {plural(len(names) - _NAMES, 'more node')}" if len(names) > _NAMES else ""
    text = f"{', '.join(names[:_NAMES])}{more}: {', '.join(finding.checks)}"
    text += f" at {finding.size}" if finding.size else ""
    if row["measured"] == UNKNOWN:
        return f"{text}, {row['reason']}."
    worst = " at worst" if len(names) > 1 else ""
    limit = f" (limit {row['expected']})" if row["expected"] else ""
    return f"{text} {row['measured']} {row['unit']}{worst}{limit}."


def price_sentences(runs: CostTable | None, tokens: TokenTable | None, sizes: Sizes) -> list[str]:
    """The cheapest of several machines for the same work; without a choice, the cost of each
    benchmark's cheapest row; without a price, the reason."""
    sentences = [] if runs is None else cheapest_of_work(runs, sizes)
    sentences += [] if tokens is None else cheapest_of_tokens(tokens, sizes)
    if not sentences:
        sentences = [*_costs(runs), *_token_costs(tokens)]
        more = len(sentences) - _COSTS
        sentences[_COSTS:] = [f"{plural(more, 'more price')} below."] if more > 0 else []
    if sentences:
        return sentences
    unknown = [
        *([] if runs is None else runs.unknown),
        *([] if tokens is None else tokens.unknown),
    ]
    if not unknown and runs is None and tokens is None:
        return ["Nothing among these records has a price: no run time and no rate of work."]
    return [f"No price is known. {' '.join(dict.fromkeys(unknown))}".rstrip()]


def _costs(runs: CostTable | None) -> Iterator[str]:
    """Of each benchmark the cheapest row, by its first unit of work that has a cost."""
    by_benchmark: dict[str, list[tuple[float, str]]] = {}
    for row in [] if runs is None else runs.table:
        units = {f"usd_per_{work.key}": work.unit for work in work_priced(row["benchmark"])}
        column = next((name for name in (*units, "usd_per_run") if row.get(name) is not None), None)
        if column is None:
            continue
        where = f"{row['vm_size'] or 'this machine'} at {money(row['usd_per_hour'])} US$ an hour"
        cost = f"{money(row[column])} US$ per {units.get(column, 'run')}"
        text = f"{names_of(row['benchmark'])}, {row['case']}: {cost} on {where}."
        by_benchmark.setdefault(row["benchmark"], []).append((row[column], text))
    for costs in by_benchmark.values():
        yield min(costs)[1]


def _token_costs(tokens: TokenTable | None) -> Iterator[str]:
    """Of each model its cheapest row."""
    by_model: dict[str, list[tuple[float, str]]] = {}
    for row in [] if tokens is None else tokens.table:
        if row[_TOKENS] is not None:
            where = (
                f"{row['vm_size'] or 'this machine'} at {money(row['usd_per_hour'])} US$ an hour"
            )
            cost = f"{money(row[_TOKENS])} US$ per million tokens"
            by_model.setdefault(row["model"], []).append(
                (row[_TOKENS], f"{row['model']}: {cost} on {where}.")
            )
    for costs in by_model.values():
        yield min(costs)[1]
