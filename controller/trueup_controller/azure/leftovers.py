"""Leftovers of runs on Azure: all resources with the tags ``run`` and ``expires``, by run."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from trueup_node.vm import expiry

from .catalog import Catalog
from .cost import Find
from .manager import Manager, Row
from .teardown import GROUPS, Remaining, Teardown, Tell, tagged

_HOUR = 3600.0


class Leftover(NamedTuple):
    """The remaining resources of one run.

    Attributes:
        run, owner, recipe: as its tags say.
        expires: as its group's tag says, which extends a run; else as the latest of its resources.
        ends: the same in seconds since 1970; None where it is no time.
        groups: names.
        left: the resources, and their cost.
    """

    run: str
    owner: str
    recipe: str
    expires: str
    ends: float | None
    groups: tuple[str, ...]
    left: Remaining

    def hours_over(self, now: float) -> float | None:
        """Since its expiry, negative before it; None where ``expires`` is no time."""
        return None if self.ends is None else (now - self.ends) / _HOUR

    def past(self, now: float) -> bool:
        """Whether it should be gone; one without a time is looked at by somebody."""
        return self.ends is None or self.ends <= now

    def sentence(self, now: float) -> str:
        """For a reader."""
        over = self.hours_over(now)
        when = (
            f"has expires {self.expires!r}, which is no time"
            if over is None
            else f"expired {over:,.1f} h ago"
            if over >= 0
            else f"expires in {-over:,.1f} h"
        )
        return (
            f"run {self.run} of {self.owner or 'nobody'} (group {', '.join(self.groups)}) {when}:"
            f" {self.left.cost_sentence()}"
        )


def leftovers(manager: Manager, catalog: Catalog, find: Find, tell: Tell = print) -> list[Leftover]:
    """The runs with remaining resources, the longest expired first.

    Args:
        catalog: versions of the API.
        find: the price of a size in a region by an offer.
        tell: gets messages about failed requests.
    """
    version = catalog.api_version(GROUPS)
    by_run: dict[str, list[Row]] = {}
    for kind in ("resourcegroups", "resources"):
        for row in tagged(manager, kind, version):
            if expiry.tag(row, "expires") is not None:
                by_run.setdefault(str(expiry.tag(row, "run")), []).append(row)
    runs = []
    for run, rows in by_run.items():
        work = Teardown(manager, catalog, run, tell)
        groups = [group for group in work.groups(rows) if group.ids]
        if groups:
            names = tuple(group.name for group in groups)
            remaining = work.left(groups, find)
            runs.append(Leftover(run, *_said(rows), groups=names, left=remaining))
    return sorted(runs, key=lambda leftover: (leftover.ends or 0.0, leftover.run))


def _said(rows: list[Row]) -> tuple[str, str, str, float | None]:
    """Owner, recipe, expiry of a run's rows, of which its groups stand first."""
    of_groups = [row for row in rows if "/providers/" not in str(row.get("id"))]
    texts = [str(expiry.tag(row, "expires")) for row in of_groups or rows]
    expires = max(texts, key=lambda text: expiry.moment(text) or 0.0)

    def first(name: str) -> str:
        words: list[Any] = [expiry.tag(row, name) for row in rows]
        return next((str(text) for text in words if text), "")

    return first("owner"), first("recipe"), expires, expiry.moment(expires)


def warnings(runs: list[Leftover], now: float | None = None) -> list[str]:
    """A sentence for each run that should be gone, and how to remove them."""
    moment = time.time() if now is None else now
    past = [leftover.sentence(moment) for leftover in runs if leftover.past(moment)]
    return [*past, "`trueup azure leftovers --delete` removes what has expired"] if past else []
