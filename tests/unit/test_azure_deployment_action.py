"""The action azure_deployment: what it refuses without Azure, and that it ends with its play."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from action import azure_deployment
from helpers import parametrized
from trueup_node.errors import BadInput, TrueupError

RUN = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-7c1e"


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.yml"
    path.write_text("owner: geophysics\nssh_from: [203.0.113.7/32]\nelsewhere: [{zone: '2'}]\n")
    return str(path)


def refusal(run: str, recipe: str, parameters: str, limit: str) -> str:
    with pytest.raises(BadInput) as raised:
        azure_deployment.planned(run, recipe, parameters, limit)
    return str(raised.value)


def test_a_runs_hours_count_from_its_beginning(own: str) -> None:
    begun = datetime.now(UTC) - timedelta(hours=3)
    run = f"{begun:%Y%m%dT%H%M%SZ}-7c1e"
    plan, _ = azure_deployment.planned(run, "devito-hbv3", own, "")
    assert plan.made.expires == f"{begun + timedelta(hours=8):%Y-%m-%dT%H:%MZ}"


@parametrized(("run", "recipe", "limit", "part"))
def test_what_needs_no_azure_is_refused_without_it(
    own: str, run: str, recipe: str, limit: str, part: str
) -> None:
    assert part in refusal(run or RUN, recipe, own, limit)


def test_nothing_is_asked_any_more_once_the_play_is_dead() -> None:
    azure_deployment.while_child_of(os.getppid())(0.0)
    with pytest.raises(TrueupError, match="has ended"):
        azure_deployment.while_child_of(os.getppid() + 1)(0.0)
