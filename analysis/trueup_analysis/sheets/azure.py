"""From a deployment's plan to sheets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trueup_controller.azure import self_destruct, windows

from .. import units
from .price_list import age_notes
from .sheet import Column, Sheet, price, short_size, unshown, worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_controller.azure.cost import Cost
    from trueup_controller.azure.leftovers import Leftover

    from ..figures.azure import Plan

_SHOWN = 3
_RIGHT = f"Needs a {self_destruct.NEED}. It is read from Azure before anything is made."


def plan(azure_plan: Plan, template: Mapping[str, Any]) -> list[Sheet]:
    """The planned resources, their cost, and the required quota."""
    return [_made(azure_plan, template), _cost(azure_plan), _quota(azure_plan)]


def _made(azure_plan: Plan, template: Mapping[str, Any]) -> Sheet:
    setup = azure_plan.made
    names: dict[str, list[str]] = {}
    for resource in template["resources"]:
        name = resource["name"]
        # An expression, of which ARM makes the name.
        called = "the login node's, of the group" if name.startswith("[") else name
        names.setdefault(resource["type"].removeprefix("Microsoft."), []).append(called)
    rows = [
        {"resource": kind, "count": len(called), "names": _few(called)}
        for kind, called in names.items()
    ]
    nodes = setup.nodes
    images = f"image {nodes.image or setup.image}"
    if nodes.image and setup.login.size:
        images += f", of the login node {setup.image}"
    how = "separate VMs" if nodes.placement == "single" else f"a {nodes.placement} set"
    bought = f"spot ({nodes.eviction} when taken away)" if nodes.spot else "regular"
    ways = [
        f"ssh to the login node from {', '.join(setup.ssh_from)}" if setup.ssh_from else "",
        "ssh through Bastion" if setup.bastion else "",
    ]
    way_in = " and ".join(filter(None, ways)) or "none"
    way_out = "a NAT gateway" if setup.outbound == "nat" else "none"
    notes = [
        f"Nodes: {nodes.count} of {nodes.size} as {how}, {bought}; {images}.",
        f"Security type: {setup.security}. Way in: {way_in}. Way out: {way_out}.",
        f"Tags of all: owner {setup.owner or '(not given)'}, run, recipe, expires {setup.expires}.",
        *self_destruct.promise(setup),
        *([] if self_destruct.missing(setup) else [_RIGHT]),
    ]
    return Sheet(
        title=f"{setup.recipe}: resource group {setup.resource_group} in {setup.region}",
        columns=[
            Column("resource", "resource", words=True),
            Column("count", "count", units.count),
            *worded("names"),
        ],
        rows=rows,
        notes=notes,
        facts={
            "kind": "azure_plan",
            "recipe": setup.recipe,
            "region": setup.region,
            "expires": setup.expires,
            "lacking": setup.lacking(),
        },
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _cost(azure_plan: Plan) -> Sheet:
    cost = azure_plan.cost
    rows = [
        {
            "what": line.what,
            "count": line.count,
            "offer": line.offer,
            "usd_per_hour": line.usd_per_hour,
            "usd_per_day": None if line.usd_per_hour is None else line.usd_per_hour * 24,
            "as_of_date": line.each.date if line.each else "",
            "price_age": line.each.age if line.each else "",
            "source": line.each.source if line.each else "not priced",
            "stopped": "yes" if line.stopped else "no",
        }
        for line in cost.lines
    ]
    refused = azure_plan.refusal()
    notes = [
        f"Total: {cost.sentence()}.",
        *(
            f"Else in {alternative.made.place}: {alternative.cost.sentence()}."
            for alternative in azure_plan.elsewhere
        ),
        *_unpriced(cost),
        *windows.rate(azure_plan.made),
        "A line that bills when stopped ends when it is removed, not when VMs are deallocated.",
    ]
    if cost.limit is not None:
        notes.append(f"Limit: {cost.limit:g} US$ an hour, held against all lines with a price.")
    sources = dict.fromkeys(line.each.source for line in cost.lines if line.each)
    notes += [f"Prices: {source}." for source in sources]
    notes += age_notes((line.each.date, line.each.age) for line in cost.lines if line.each)
    return Sheet(
        title="What it costs",
        columns=[
            Column("what", "what", words=True),
            Column("count", "count", units.count),
            *worded("offer"),
            Column("usd_per_hour", "US$/h", _price),
            Column("usd_per_day", "US$/day", _price),
            Column("as_of_date", "as of"),
            Column("stopped", "bills when\nstopped"),
            *unshown("price_age", "source"),
        ],
        rows=rows,
        notes=notes,
        facts={
            "kind": "azure_cost",
            "currency": "USD",
            "usd_per_hour": cost.usd_per_hour,
            "unpriced": len(cost.unpriced),
            "refused": refused or "",
        },
    )


def _unpriced(costs: Cost) -> list[str]:
    """A sentence on the lines without a price, where there are some."""
    kinds = dict.fromkeys(line.kind for line in costs.unpriced)
    if not kinds:
        return []
    known = "`trueup prices refresh` asks Azure for it, or give it as prices of your file"
    return [f"Without a price, and billed all the same: {', '.join(kinds)}. {known}."]


def _price(value: Any) -> str:
    return "not priced" if units.is_missing(value) else price(value)


def _quota(azure_plan: Plan) -> Sheet:
    rows = [
        {
            "quota": need.name or "not known",
            "vcpus": need.vcpus,
            "sizes": ", ".join(need.sizes),
        }
        for need in azure_plan.needs
    ]
    return Sheet(
        title="Quota that it needs",
        columns=[
            Column("quota", "quota", words=True),
            Column("vcpus", "vCPUs", units.count),
            Column("sizes", "for", words=True),
        ],
        rows=rows,
        notes=["What the subscription has of it was not asked."],
        facts={"kind": "azure_quota"},
    )


def missing(needs: Sequence[tuple[str, str]]) -> Sheet:
    """Everything that a run lacks, of the dry run."""
    return Sheet(
        title="What is missing",
        columns=worded("need", "text"),
        rows=[{"need": need, "text": text} for need, text in needs],
        notes=[] if needs else ["Nothing: the dry run found all that the recipe needs."],
        facts={"kind": "azure_missing", "missing": len(needs)},
    )


def recipes(plans: Sequence[Plan], environment: Mapping[str, str]) -> Sheet:
    """Each recipe as it is shipped: its work, price, and the needs that the dry run finds unmet."""
    rows = []
    for azure_plan in plans:
        work, nodes = azure_plan.work(), azure_plan.made.nodes
        # Owner and way in are never a recipe's.
        needs = [need for need, _ in azure_plan.missing(environment) if need != "access"]
        rows.append(
            {
                "recipe": azure_plan.made.recipe,
                "nodes": nodes.count,
                "size": nodes.size,
                "benchmarks": ", ".join(work.benchmarks),
                "preset": work.preset or "none",
                "seconds": work.seconds,
                "reference": "; ".join(work.references) or f"none: {work.unpublished}",
                "usd_per_hour": azure_plan.cost.usd_per_hour,
                "unpriced": len(azure_plan.cost.unpriced),
                "missing": ", ".join(dict.fromkeys(needs)) or "nothing",
            }
        )
    return Sheet(
        title="Recipes as they are shipped",
        columns=[
            *worded("recipe"),
            Column("nodes", "nodes", units.count),
            Column("size", "size", short_size, words=True),
            Column("benchmarks", "measures", words=True),
            *worded("preset"),
            Column("seconds", "seconds", _seconds),
            Column("reference", "published rows", words=True),
            Column("usd_per_hour", "US$/h\nat least", units.money),
            Column("unpriced", "not\npriced", units.count),
            Column("missing", "missing", words=True),
        ],
        rows=rows,
        notes=[
            "Seconds: of the preset's work alone; not known without a preset.",
            "Missing: by the dry run, with this environment's secrets (see `trueup azure plan`).",
            "Every recipe needs owner and ssh_from of your file too.",
        ],
        facts={"kind": "azure_recipes", "currency": "USD"},
    )


def _seconds(value: Any) -> str:
    return "not known" if units.is_missing(value) else units.count(value)


def leftovers(runs: Sequence[Leftover], now: float) -> Sheet:
    """Leftovers of runs, the longest expired first; ``now`` in seconds since 1970."""
    rows = [
        {
            "run": run.run,
            "owner": run.owner,
            "recipe": run.recipe,
            "groups": ", ".join(run.groups),
            "expires": run.expires,
            "hours_over": run.hours_over(now),
            "resources": len(run.left.ids),
            "machines": run.left.machines,
            "usd_per_hour": run.left.usd_per_hour,
            "unpriced": len(run.left.unpriced),
        }
        for run in runs
    ]
    return Sheet(
        title="Runs of trueup on Azure",
        columns=[
            *worded("run", "owner", "groups"),
            *unshown("recipe"),
            Column("expires", "expires"),
            Column("hours_over", "h since", partial(units.fixed, digits=1)),
            Column("resources", "resources", units.count),
            Column("machines", "machines\nthat bill", units.count),
            Column("usd_per_hour", "US$/h\nat least", units.money),
            Column("unpriced", "not\npriced", units.count),
        ],
        rows=rows,
        notes=[
            "A machine bills until it is deallocated or deleted; its price is the catalog's.",
            "Disks, addresses, gateways and storage have no price there, and bill too.",
            "Which machines run is Resource Graph's word, up to a minute old.",
        ],
        facts={"kind": "azure_leftovers", "currency": "USD"},
    )
