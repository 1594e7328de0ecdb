"""From the cost of a user's hour to a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import units
from .cost import source_of
from .sheet import Column, Sheet, price, short_size, two, unshown

if TYPE_CHECKING:
    from ..figures.users import UserTable

_RULE = (
    "Base rate: what a host with licence type Windows_Client (Azure Virtual Desktop, users with"
    " their own licences) or a Linux node costs. Windows rate: any other Windows host."
)
_HELD = "Held: each session kept the frame rate that its case asks for."
_WITHOUT = (
    "US$ per user-hour = US$ per node-hour / users, all of them signed in: idle hours, licences,"
    " disks, profiles and network are not in it."
)


def users(result: UserTable) -> list[Sheet]:
    """Cost by the hour of a user; no sheet where nobody says how many there are."""
    rows = result.rows
    if not rows:
        return []
    based = [row for row in rows if not units.is_missing(row["usd_per_hour"])]
    sources = [f"Base rate: {source_of(row)}." for row in based]
    sources += [f"Windows rate: {row['windows_source']}." for row in rows if row["windows_source"]]
    return [
        Sheet(
            title="Cost of a user's hour on a shared host",
            columns=[
                *unshown("benchmark"),
                Column("case", "case", words=True),
                Column("vm_size", "size\n(Standard_)", short_size, words=True),
                Column("region", "region", words=True),
                Column("offer", "offer", words=True),
                *unshown("os", "records"),
                Column("users", "users", units.count),
                Column("frame_rate", "frames/s\neach", two),
                Column("held", "held", words=True),
                Column("usd_per_hour", "base rate\nUS$ per\nnode-h", price),
                Column("usd_per_user_hour", "US$ per\nuser-h", price),
                Column("windows_usd_per_hour", "Windows\nUS$ per\nnode-h", price),
                Column("windows_usd_per_user_hour", "Windows\nUS$ per\nuser-h", price),
                *unshown("price_date", "price_age", "price_source", "windows_source"),
            ],
            rows=rows,
            notes=[
                _RULE,
                *([_HELD] if any(row["held"] for row in rows) else []),
                _WITHOUT,
                *dict.fromkeys(sources),
            ],
            warnings=[*result.warnings, *result.unknown],
            name="users",
            facts={"kind": "users", "currency": "USD", "unknown_prices": list(result.unknown)},
        )
    ]
