"""A filter is an adapter: its name says whose it is, what it works out stands in a room, and the
documentation says what it takes."""

from __future__ import annotations

import re

import trueup_filters


def test_every_filter_has_a_name_of_ours_and_is_documented() -> None:
    filters = trueup_filters.FilterModule().filters()
    assert [name for name in filters if not name.startswith("trueup_")] == []
    described = set(re.findall(r"C\((trueup_\w+)\)", trueup_filters.DOCUMENTATION))
    assert set(filters) - described == set()
