"""Variables of the play that creates nodes of CycleCloud."""

from __future__ import annotations

from typing import Any

from helpers import parametrized
from trueup_controller.sites.cyclecloud_variables import hosts, problems


@parametrized(("given", "begin"))
def test_what_cannot_be_meant(given: dict[str, Any], begin: list[str]) -> None:
    found = problems(given)
    assert [text[: len(words)] for text, words in zip(found, begin, strict=True)] == begin


NODES = [{"name": "n1", "private_ip": "10.0.0.4"}, {"name": "n2", "private_ip": None}]


@parametrized(("given", "expected"))
def test_nodes_with_an_address_join_the_inventory(
    given: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert hosts(NODES, given) == expected
