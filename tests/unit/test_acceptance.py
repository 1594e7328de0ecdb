"""Rows of catalog/acceptance.yml: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from trueup.cluster import acceptance
from trueup.errors import BadInput

ROOT = Path(__file__).parents[2]
ROW: dict[str, Any] = {"id": "a", "what": "w", "minutes": 1, "test": "t", "expected": "e"}


def test_the_catalog_is_read() -> None:
    found = acceptance.rows(yaml.safe_load((ROOT / acceptance.FILE).read_text()))
    by_id = {row.id: row for row in found}
    assert len(by_id) == len(found) >= 61
    assert by_id["stream-hbv3"].applies == {"family": ["hbv3"]}
    assert "320 GB/s" in by_id["stream-hbv3"].expected


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "list `rows`"),
        ({"rows": {}}, "list `rows`"),
        ({"rows": ["a"]}, "row 1 is not a mapping"),
        ({"rows": [ROW, {**ROW}]}, "the id a stands twice"),
        ({"rows": [{**ROW, "id": ""}]}, "id is missing"),
        ({"rows": [{**ROW, "minutes": "1"}]}, "row 1 (a): minutes is missing or no int"),
        ({"rows": [{**ROW, "applies": "hbv3"}]}, "applies is missing or no dict"),
        ({"rows": [{**ROW, "expcted": "e"}]}, "there is no expcted in a row"),
    ],
)
def test_a_wrong_file_is_refused(data: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        acceptance.rows(data)
    assert (acceptance.FILE in str(caught.value), said in str(caught.value)) == (True, True)
