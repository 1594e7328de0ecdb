"""Reference architectures beside provision: what a recipe is said to make is what it makes."""

from __future__ import annotations

from datetime import date

import pytest
from provisioning import DATA, NOW, ROOT
from trueup_analysis.figures import azure
from trueup_analysis.figures.advise import architectures
from trueup_analysis.figures.advise.knowledge import Knowledge
from trueup_analysis.figures.prices import Book, read_prices

KNOWN = Knowledge(ROOT / "catalog", date(2026, 11, 24))
EVERY = architectures.read(ROOT / "catalog", KNOWN.sizes)
WITH_RECIPE = [name for name, one in EVERY.items() if one.recipe]


def test_the_works_that_the_sources_speak_of_are_there() -> None:
    assert list(EVERY) == [
        *("deepseek-r1-h100", "deepseek-r1-h200", "llama-3.1-8b", "devito-hbv3"),
        *("megatron-ndm-a100", "gromacs-eessi", "eda-anf", "eda-lustre", "nx-avd"),
        *("teamcenter-simulation", "ansys-minerva"),
    ]
    assert set(EVERY) - set(WITH_RECIPE) == {"teamcenter-simulation", "ansys-minerva"}


@pytest.mark.parametrize("name", WITH_RECIPE)
def test_a_recipe_plans_as_its_architecture_says_and_costs_the_same(name: str) -> None:
    one, book = EVERY[name], Book(read_prices(ROOT / "catalog" / "prices.csv"), None)
    advised = architectures.priced(one, book, KNOWN.sizes, KNOWN.today)
    planned = azure.plan(one.recipe, DATA / "owner.yml", now=NOW)
    made = planned.made
    machines = {"nodes": (made.nodes.size, made.nodes.count), "login node": (made.login.size, 1)}
    assert {line.role.role: (line.size, line.role.count) for line in advised.lines} == machines
    assert (advised.region, advised.unpriced) == (made.region, [])
    # The advice adds up machines and names the rest; the plan has lines for that too.
    of_machines = [
        line.count * line.each.usd_per_hour
        for line in planned.cost.lines
        if line.kind in {"nodes", "login"} and line.each is not None
    ]
    assert sum(of_machines) == pytest.approx(advised.usd_per_hour, rel=1e-12)
    assert planned.cost.usd_per_hour >= sum(of_machines)
    # This storage has no public price here, and a limit refuses what it cannot count.
    bought = made.storage.kind not in {"none", "nfs"}
    assert (planned.refusal() is not None) == bought


@pytest.mark.parametrize("name", WITH_RECIPE)
def test_what_a_recipe_makes_beside_its_machines_is_named_as_what_bills(name: str) -> None:
    one = EVERY[name]
    words = {"anf": "Azure NetApp Files", "amlfs": "Managed Lustre", "none": "system disks"}
    made = azure.plan(one.recipe, DATA / "owner.yml", now=NOW).made
    asked = [words[made.storage.kind], "system disks", "NAT gateway", "public addresses"]
    assert [word for word in asked if word not in one.bills] == []
