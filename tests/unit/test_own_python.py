"""What a role's own environment installs, and from where."""

from __future__ import annotations

import pytest
from trueup_node.node import own_python


@pytest.mark.parametrize(
    ("find_links", "no_index", "told"),
    [
        ("", False, []),
        ("/srv/wheels", False, ["--find-links=/srv/wheels"]),
        ("/srv/wheels", True, ["--no-index", "--find-links=/srv/wheels"]),
    ],
)
def test_where_pip_takes_packages_from(find_links: str, no_index: bool, told: list[str]) -> None:
    assert own_python.pip_source(find_links, no_index) == told
