"""Results of parsers, each compared whole with its case in tests/data/parsed/<tool>.cases.

A case that changes is read first, and then all are written anew: PYTHONPATH=tests python
tests/parse_cases.py
"""

from __future__ import annotations

import parse_cases
import plan_cases
import pytest


@pytest.mark.parametrize("tool", parse_cases.TOOLS)
def test_each_case_gives_the_recorded_result(tool: str) -> None:
    cases = plan_cases.read(parse_cases.FOLDER, tool)
    results = parse_cases.checked(tool, cases)
    assert {case["name"]: case["gives"] for case in results} == {
        case["name"]: case["gives"] for case in cases
    }
