"""The table of public outputs: how many are read."""

from __future__ import annotations

import public_outputs


def test_whole_outputs_are_read() -> None:
    whole = [row for row in public_outputs.table() if row["class"] == public_outputs.WHOLE]
    read = [row for row in whole if row["result"] in {"read", "unverified"}]
    assert (len(whole) >= 150, len(read) >= 0.98 * len(whole)) == (True, True)


def test_each_read_output_has_a_figure_and_a_source() -> None:
    rows = [row for row in public_outputs.table() if row["result"] == "read"]
    assert [row for row in rows if not row["source"]] == []


def test_no_output_stands_twice() -> None:
    rows = [tuple(row.values()) for row in public_outputs.table()]
    assert len(rows) == len(set(rows))
