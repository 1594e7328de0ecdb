"""Plans of roles, each compared whole with its case in tests/data/plans/<role>.cases.

A case that changes is read first, and then all are written anew: PYTHONPATH=tests python
tests/plan_cases.py
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import plan_cases
import pytest
import yaml
from trueup_node import benchmarks
from trueup_node.options import module_spec

READ = functools.cache(functools.partial(plan_cases.read, plan_cases.FOLDER))


@pytest.mark.parametrize("role", plan_cases.ROLES)
def test_each_case_gives_the_recorded_plan(role: str) -> None:
    cases = READ(role)
    results = plan_cases.checked(role, cases)
    assert {case["name"]: case["gives"] for case in results} == {
        case["name"]: case["gives"] for case in cases
    }


@pytest.mark.parametrize("role", plan_cases.ROLES)
def test_a_benchmarks_module_takes_each_planned_case(role: str) -> None:
    """``completed`` takes out of a case of devito what the search alone needs."""
    name = f"{benchmarks.__name__}.{role}.case"
    if importlib.util.find_spec(f"{benchmarks.__name__}.{role}") is None:
        assert "cases:" not in "".join(case["gives"] for case in READ(role))
        return
    known = {*module_spec(importlib.import_module(name).OPTIONS), "search", "node"}
    planned = [
        case
        for recorded in READ(role)
        if "of" not in recorded and recorded["call"] == "plan"
        for case in cases_of(recorded["gives"])
    ]
    assert {option for case in planned for option in case} - known == set()


def cases_of(result: str) -> list[dict[str, Any]]:
    """The module's arguments for each case of a plan."""
    cases: list[dict[str, Any]] = yaml.load(result, Loader=yaml.CSafeLoader).get("cases", [])
    return cases
