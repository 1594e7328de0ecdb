"""The terms of a price: the options of a node-hour, an API's prices, and a service level."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from trueup_node.errors import BadInput

_DATE: Final = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_DAY: Final = 24


@dataclass(frozen=True)
class Terms:
    """The terms of a price.

    Attributes:
        region, offer: instead of the record's own; a record without an offer is priced as
            pay-as-you-go ("payg").
        price: US$ per node-hour for all rows, instead of the catalog.
        as_size: price every row as this size (also records made off Azure).
        price_date: newest price on or before this day (YYYY-MM-DD) instead of the newest.
        idle_hours: of each day, in which a server is billed and nobody asks it; part of the
            cost of its tokens and answers, and of nothing else.
        users: how many share a host, instead of the records' number.
        agreed: the user's contract file, as of ``catalog.contract_file``.

    Raises:
        BadInput: a price that is not above zero, a price date that is none, idle hours that leave
            none of a day, or no user.
    """

    region: str | None = None
    offer: str | None = None
    os: str = "linux"
    price: float | None = None
    as_size: str | None = None
    price_date: str | None = None
    idle_hours: float = 0.0
    users: int | None = None
    agreed: Path | None = None

    def __post_init__(self) -> None:
        if self.users is not None and self.users < 1:
            raise BadInput(f"{self.users} users are not 1 or more")
        if not 0 <= self.idle_hours < _DAY:
            raise BadInput(
                f"{self.idle_hours:g} idle hours a day are not 0 or more and less than {_DAY}"
            )
        if self.price is not None and not 0 < self.price < math.inf:
            raise BadInput(f"a price of {self.price} US$ an hour is not above zero")
        if self.price_date is not None and not is_date(self.price_date):
            raise BadInput(f"price date {self.price_date!r} is not a date like 2026-06-18")

    @property
    def idle_factor(self) -> float:
        """The factor on the cost of a served hour that pays for the idle ones."""
        return _DAY / (_DAY - self.idle_hours)

    @property
    def placed(self) -> bool:
        """Whether a published rate, which names no region, has a price."""
        return self.region is not None or self.price is not None


OWN: Final = Terms()


def is_date(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(_DATE.match(text)) and bool(date.fromisoformat(text))
    return False


@dataclass(frozen=True)
class ApiPrices:
    """An API's prices, US$ per million output tokens and per million of all tokens; None where
    nothing is compared.

    Raises:
        BadInput: a price that is not above zero.
    """

    output: float | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        for token_kind, price in (("output tokens", self.output), ("tokens", self.total)):
            if price is not None and not 0 < price < math.inf:
                message = (
                    f"an API price of {price:g} US$ per million {token_kind} is not above zero"
                )
                raise BadInput(message)

    @property
    def given(self) -> bool:
        return self.output is not None or self.total is not None


@dataclass(frozen=True)
class ServiceLevel:
    """The promise to users: the 99th percentile of TTFT and of TPOT, in milliseconds; None is no
    limit.

    Raises:
        BadInput: a limit that is not above zero.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            if not 0 < limit < math.inf:
                raise BadInput(f"a service level of {limit:g} ms {name.upper()} is not above zero")

    @property
    def limits(self) -> dict[str, float]:
        """Milliseconds by ttft and tpot, where there is a limit."""
        milliseconds = {"ttft": self.ttft_ms, "tpot": self.tpot_ms}
        return {name: limit for name, limit in milliseconds.items() if limit is not None}

    @property
    def words(self) -> str:
        """ "99 % of TTFT within 500 ms and of TPOT within 50 ms"."""
        parts = [f"{name.upper()} within {limit:g} ms" for name, limit in self.limits.items()]
        return f"99 % of {' and of '.join(parts)}"

    def holds(self, row: Mapping[str, Any]) -> bool | None:
        """Whether a load is within it in every repeat; None where a latency is unknown."""
        verdicts = [
            None
            if row[f"{name}_p99_known"] < row["n"]
            else bool(row[f"{name}_p99_seconds"] * 1000 <= limit)
            for name, limit in self.limits.items()
        ]
        if False in verdicts:
            return False
        return None if None in verdicts else True
