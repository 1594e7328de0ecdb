"""Options that set the price of a node-hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from trueup_node.errors import BadInput

from .options import option

if TYPE_CHECKING:
    from ..figures.prices import Terms
    from ..figures.serving import ServiceLevel
    from ..figures.tokens import ApiPrices
    from ..load import Loaded


@dataclass(frozen=True, kw_only=True)
class Billing:
    """The pricing options."""

    region: Annotated[
        str | None, option("REGION", "Price in this region instead of the record's own: eastus.")
    ] = None
    offer: Annotated[
        str | None,
        option("OFFER", "payg, spot, lowpriority or 1y; else the record's own, else payg."),
    ] = None
    os: Annotated[str, option("OS", "linux or windows.")] = "linux"
    price: Annotated[
        float | None, option("US$", "US$ an hour and node for all rows, instead of the catalog.")
    ] = None
    as_size: Annotated[
        str | None,
        option("SIZE", "Price every row as this size, also records made off Azure.", "--size"),
    ] = None
    price_date: Annotated[
        str | None, option("YYYY-MM-DD", "The newest price on or before this day.")
    ] = None
    api_price: Annotated[
        float | None,
        option(
            "US$", "What an API asks per million output tokens: how busy must the node be to match?"
        ),
    ] = None
    api_price_total: Annotated[
        float | None, option("US$", "The same, per million tokens in total.")
    ] = None
    idle_hours: Annotated[
        float,
        option(
            "HOURS", "Hours a day that a server is billed and nobody asks: what they add to tokens."
        ),
    ] = 0.0
    users: Annotated[
        int | None,
        option("N", "US$ per user-hour of N users a host, instead of the records' sessions."),
    ] = None
    ttft_ms: Annotated[
        float | None,
        option("MS", "Service level of a load sweep: 99 % of first tokens within this time."),
    ] = None
    tpot_ms: Annotated[
        float | None, option("MS", "The same of the time per token after the first, by answer.")
    ] = None

    def terms(self) -> Terms:
        """
        Raises:
            BadInput: a price that is not above zero, no date, no hours of a day, or no user.
        """
        from ..figures.prices import Terms

        return Terms(
            self.region,
            self.offer,
            self.os,
            self.price,
            self.as_size,
            self.price_date,
            self.idle_hours,
            self.users,
        )

    def level(self) -> ServiceLevel:
        """
        Raises:
            BadInput: a time that is not above zero.
        """
        from ..figures.serving import ServiceLevel

        return ServiceLevel(self.ttft_ms, self.tpot_ms)

    def api(self, loaded: Loaded) -> ApiPrices:
        """
        Raises:
            BadInput: a price that is not above zero, or no record to compare with it.
        """
        from ..figures.tokens import ApiPrices, is_served

        api_prices = ApiPrices(self.api_price, self.api_price_total)
        if api_prices.given and not any(map(is_served, {*loaded.values("benchmark")})):
            count = len(loaded.records)
            raise BadInput(
                f"--api-price compares with records of servers, and none of the {count:,} records"
                " is one"
            )
        return api_prices
