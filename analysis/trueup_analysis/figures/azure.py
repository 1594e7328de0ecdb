"""A deployment on Azure before anything is asked of Azure: a recipe of the catalog with a user's
parameters, and prices of the table for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueup_controller import dryrun
from trueup_controller.azure import availability, cost, parameters
from trueup_controller.azure.catalog import Catalog
from trueup_controller.project import FOLDER, require_roles
from trueup_controller.sizes import read_sizes
from trueup_node.errors import BadInput
from trueup_node.suggest import did_you_mean

from .. import catalog
from . import meters, prices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RECIPES = "azure_recipes"


@dataclass(frozen=True)
class Plan:
    """A deployment by a recipe.

    Attributes:
        made: its parameters.
        known: the catalog's facts on Azure.
        cost: its cost.
        needs: the cores that it takes, by quota.
        elsewhere: the same where it is made instead, in the order in which that is tried.
    """

    made: parameters.Parameters
    known: Catalog
    cost: cost.Cost
    needs: Sequence[availability.Need]
    elsewhere: Sequence[Plan] = ()

    def refusal(self) -> str | None:
        """Why it may not be made, here or in one of the other places; None where it may."""
        reason = self.cost.refusal()
        if reason is not None or not self.elsewhere:
            return reason
        texts = (
            (alternative.made.place, alternative.cost.refusal()) for alternative in self.elsewhere
        )
        return "; ".join(f"in {location} {text}" for location, text in texts if text) or None

    def missing(self, environment: Mapping[str, str]) -> list[tuple[str, str]]:
        """Everything that the run lacks, as kinds of need and sentences with the remedy.

        Args:
            environment: the controller's variables, for secrets.

        Raises:
            BadInput: a file of the catalog is wrong.
        """
        refused = self.refusal()
        return [
            *(("access", text) for text in self.made.lacking()),
            *([("price", refused)] if refused else []),
            *dryrun.missing(self.made, self.known, environment, FOLDER),
        ]

    def work(self) -> dryrun.Measured:
        """The measurements that it makes.

        Raises:
            BadInput: there is no such preset, or it is for other sizes.
        """
        return dryrun.measured(self.made, self.known, FOLDER)

    def warnings(self) -> list[str]:
        """Objections that do not forbid it."""
        texts = []
        for size in dict.fromkeys(self.made.sizes().values()):
            row = self.known.sizes[size]
            status = str(row.get("status", ""))
            if status.startswith("retires"):
                texts.append(f"{size} {status}")
            if row.get("closed_since"):
                texts.append(f"{size} cannot be deployed by a new subscription")
        if self.made.region not in self.known.priced_regions():
            texts.append(
                f"the price table has no price at all in {self.made.region}: whether it sells these"
                " sizes is not known"
            )
        if self.made.outbound == "none":
            texts.append("nodes cannot reach the internet: packages must come from a mirror within")
        return texts + dryrun.warnings(self.made, self.known, FOLDER)


def recipes(chosen: Path | None = None) -> list[str]:
    """The names of the catalog's recipes."""
    folder = catalog.find(_RECIPES, chosen)
    places = folder if folder.is_dir() else catalog.built_in() / _RECIPES
    return sorted(path.stem for path in places.glob("*.yml"))


def newest_builds(standalone: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Of each architecture the newest build of Python, less its version."""
    return {
        machine: dict(builds[max(builds, key=lambda version: int(version.split(".")[1]))])
        for machine, builds in standalone.items()
    }


def known(rows: Sequence[Mapping[str, Any]], chosen: Path | None = None) -> Catalog:
    """The catalog's facts on Azure; ``rows`` are prices."""
    sold: dict[str, set[str]] = {}
    for row in rows:
        if row["os"] == "linux" and row["offer"] == prices.LIST_OFFER:
            sold.setdefault(row["size"].lower(), set()).add(row["region"])
    return Catalog(
        read_sizes(str(catalog.find("vm_sizes.csv", chosen))),
        catalog.document(catalog.find("azure.yml", chosen)),
        {size: frozenset(regions) for size, regions in sold.items()},
        newest_builds(catalog.document(catalog.find("python.yml", chosen))["standalone"]),
    )


def finder(
    rows: Sequence[Mapping[str, Any]], service_rows: Sequence[Mapping[str, Any]] | None = None
) -> cost.Find:
    """Prices of Linux machines and of services.

    Args:
        rows: of the price table.
        service_rows: of catalog/service_prices.csv; else those of the built-in catalog, and the
            user's.
    """
    book = prices.Book(rows, None)
    services = meters.read_all() if service_rows is None else service_rows
    tariffs = meters.Meters(services, prices.day_of_reading())

    def find(size: str, region: str, offer: str) -> cost.Price | None:
        if offer == cost.SERVICE:
            tariff = tariffs.per_hour(size, region)
            if tariff is None:
                return None
            return cost.Price(tariff.usd, tariff.date, tariff.source, tariff.age)
        quote = book.find(size, region, "linux", offer)
        if quote is None:
            return None
        return cost.Price(quote.usd_per_hour, quote.date, quote.source, quote.age)

    return find


def plan(
    recipe: str,
    user_file: Path | None = None,
    *,
    chosen: Path | None = None,
    limit: float | None = None,
    agreed: Path | None = None,
    now: datetime | None = None,
) -> Plan:
    """A recipe with a user's parameters over it.

    Args:
        recipe: its name.
        user_file: a file of parameters, whose values win.
        chosen: a catalog's folder.
        limit: US$ an hour, instead of the recipe's.
        agreed: as of ``catalog.contract_file``.
        now: for the expiry; else the clock.

    Raises:
        BadInput: no such recipe, or values that cannot be; all of them in one message.
    """
    require_roles("trueup azure")
    names = recipes(chosen)
    if recipe not in names:
        hint = did_you_mean(recipe, names) or f"; there are {', '.join(names)}"
        raise BadInput(f"there is no recipe {recipe!r}{hint}")
    if limit is not None and not limit > 0:
        raise BadInput(f"--max-usd-per-hour {limit:g}: a limit is above 0")
    rows = prices.read_all(chosen, agreed)
    azure_catalog = known(rows, chosen)
    layers = [catalog.document(catalog.find(f"{_RECIPES}/{recipe}.yml", chosen))]
    if user_file is not None:
        user_values = catalog.document(user_file)
        layers.append({} if user_values is None else user_values)
    now = now or datetime.now(UTC)
    recipe_parameters = parameters.read(recipe, layers, azure_catalog, now)
    find = finder(rows, meters.read_all(chosen, agreed))
    hours = (datetime.fromisoformat(recipe_parameters.expires) - now).total_seconds() / 3600
    quota = availability.needs(recipe_parameters, azure_catalog)
    first, *alternatives = (
        Plan(
            placed_parameters,
            azure_catalog,
            cost.cost(placed_parameters, find, hours, limit),
            quota,
        )
        for placed_parameters in recipe_parameters.places()
    )
    return replace(first, elsewhere=tuple(alternatives))
