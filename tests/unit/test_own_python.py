"""What a role's own environment installs, and from where."""

from __future__ import annotations

from helpers import parametrized
from trueup_node.node import own_python


@parametrized(("find_links", "no_index", "told"))
def test_where_pip_takes_packages_from(find_links: str, no_index: bool, told: list[str]) -> None:
    assert own_python.pip_source(find_links, no_index) == told
