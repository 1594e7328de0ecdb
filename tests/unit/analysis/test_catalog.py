"""Files that a person writes: what cannot be one is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup_analysis import catalog
from trueup_analysis.commands.judged import nodes_of
from trueup_node.errors import BadInput


@pytest.mark.parametrize(("cells", "taken"), [("1", False), ("1,2", True), ("1,2,3", False)])
def test_a_row_has_as_many_cells_as_the_header(tmp_path: Path, cells: str, taken: bool) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n3,4\n{cells}\n")
    if taken:
        assert [row for _, row in catalog.rows(path)] == [
            {"a": "3", "b": "4"},
            {"a": "1", "b": "2"},
        ]
        return
    with pytest.raises(BadInput, match=r"x\.csv:3: the row does not have 2 cells"):
        list(catalog.rows(path))


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 20_000, '{"a":' * 50_000, "? " * 20_000])
def test_lists_within_each_other_do_not_end_the_process(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yml"
    path.write_text(text)
    with pytest.raises(BadInput, match="more than 100 lists or mappings within each other"):
        catalog.document(path)


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(BadInput, match="/dev/zero is longer than"):
        catalog.document(Path("/dev/zero"))
    with pytest.raises(BadInput, match="neither a file nor a folder"):
        nodes_of(Path("/dev/zero"))
