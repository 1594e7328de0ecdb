"""The report's section on what tokens cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..cost import NO_SIZE
from ..render.html import Column, Part, Row, Section, Table
from ..render.sheet import rows_of
from ..render.token_sheets import WHOLE_VM, rate, used_of
from ..render.units import count, money
from .cells import NOT_AZURE, words

if TYPE_CHECKING:
    from ..tokens import TokenTable

__all__ = ["tokens_section"]

# Rows of a table that has one for each record; its CSV file has them all.
_ROWS_SHOWN: Final = 200
_BY_SHARE: Final = (
    "By the share of the VM's GPUs: holds only when the others do the same work at the same rate."
)


def tokens_section(found: TokenTable | None) -> Section | None:
    """US$ per million tokens of each vLLM case; a price that is not known is shown as unknown."""
    if found is None or found.table.empty:
        return None
    columns = (
        Column("Model"),
        Column("Case"),
        Column("Billed as"),
        Column("Region"),
        Column("Offer"),
        Column("Nodes", kind="number"),
        Column("GPUs", kind="number"),
        Column("n", kind="number"),
        Column("Output", "tokens/s", "number"),
        Column("Total", "tokens/s", "number"),
        Column("Node-hour", "US$", "number"),
        Column("10⁶ output tokens", "US$", "number"),
        Column("10⁶ tokens", "US$", "number"),
        Column("10⁶ output tokens by GPUs used", "US$", "number"),
        Column("10⁶ tokens by GPUs used", "US$", "number"),
        Column("Price of"),
        Column("Price source"),
    )
    rows = [
        Row(
            (
                words(row["model"]),
                words(row["case"]),
                words(row["vm_size"], NOT_AZURE),
                words(row["region"]),
                words(row["offer"]),
                count(row["node_count"]),
                used_of(row["gpus"], row["gpus_billed"]) if row["gpus"] else "none",
                count(row["n"]),
                rate(row["output_tokens_per_second"]),
                rate(row["total_tokens_per_second"]),
                money(row["usd_per_hour"]),
                money(row["usd_per_million_output_tokens"]),
                money(row["usd_per_million_total_tokens"]),
                _by_share(row, "output"),
                _by_share(row, "total"),
                words(row["price_date"]),
                words(row["price_source"]),
            )
        )
        for row in rows_of(found.table)
    ]
    caption = "US$ per million tokens (currency: USD), the whole VM billed."
    listing = Table("tokens", caption, columns, tuple(rows), shown=_ROWS_SHOWN)
    notes = [WHOLE_VM]
    notes += [_BY_SHARE] if (found.table["gpu_share"] < 1).any() else []
    notes += [text for text in found.unknown if text == NO_SIZE]
    return Section(
        "tokens",
        "Cost per million tokens",
        (
            Part(
                warnings=(
                    *found.warnings,
                    *(text for text in found.unknown if text != NO_SIZE),
                    # Failed and invalid records stand at the top of the page.
                    *(text for text in found.left_out if text.startswith("left out, ok")),
                ),
                tables=(listing,),
                notes=tuple(notes),
            ),
        ),
    )


def _by_share(row: dict[str, Any], kind: str) -> str:
    if not row["gpus"]:
        return "none"
    if row["gpu_share"] == 1:
        return "all used"
    return money(row[f"usd_per_million_{kind}_tokens_by_gpu_share"])
