"""How tables are laid out for a terminal: wrapped cells, blocks, cells of a terminal, colour."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from trueup_analysis import units
from trueup_analysis.render import table
from trueup_analysis.sheets.sheet import Column, Sheet


def sheet(*columns: Column, rows: list[tuple[Any, ...]], **options: Any) -> Sheet:
    keys = [column.key for column in columns]
    made = [dict(zip(keys, row, strict=True)) for row in rows]
    return Sheet(**{"title": "t", "columns": columns, "rows": made, **options})


def words(header: str) -> Column:
    return Column(header, header, words=True)


def figure(header: str) -> Column:
    return Column(header, header)


def shown(made: Sheet, width: int = table.WIDTH, *, colour: bool = False) -> str:
    """What is written, less the title."""
    return table.render([made], width=width, colour=colour).partition("\n")[2]


def expected(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def test_words_stand_left_figures_right_and_short_headings_on_the_rule() -> None:
    made = sheet(
        *(words("case"), Column("s", "median\ns"), words("by")),
        rows=[("a-1", "184.39", "x"), ("nodes-of-64", "9.1", "-")],
        notes=["A note."],
    )
    once = expected(
        """
        t
                     median
        case              s  by
        ───────────────────────
        a-1          184.39  x
        nodes-of-64     9.1  -
          A note.
        """
    )
    assert table.render([made, made]) == f"{once}\n{once}"


def blocks(made: Sheet, width: int) -> list[str]:
    """The headings of each block."""
    return [block.partition("\n")[0] for block in shown(made, width).split("\n\n")]


def test_columns_line_up_as_a_terminal_shows_them() -> None:
    made = sheet(
        *(words("case"), figure("n")),
        rows=[
            ("漢字かな", "1"),
            ("e\u0301e\u0301e\u0301", "22"),
            ("\u1112\u1161\u11ab", "3"),
            ("×σ", "4"),
        ],
    )
    lines = shown(made).splitlines()
    assert [cell_len(line) for line in lines] == [12] * 6
    assert lines[2] == "漢字かな   1"


def test_nothing_that_a_terminal_would_obey_is_written() -> None:
    evil = "a\x1b[31m\u202e\x9b\r\n\u2028b"
    made = sheet(
        *(words(evil.replace("\n", "")), Column("n", "n", lambda value: value)),
        rows=[(evil, evil)],
        title=evil,
        notes=[evil],
    )
    safe = "a?[31m?????b"
    assert table.render([made]) == expected(
        f"""
        {safe}
        a?[31m????b              n
        ──────────────────────────
        {safe}  {safe}
          {safe}
        """
    )


# --- properties -----------------------------------------------------------------------------------

LETTER = st.sampled_from(["a", "b", "é", "漢", "e\u0301"])
DIGIT = st.sampled_from("0123456789")
MARK = st.sampled_from(["-", "/", "_", "+", ",", ":", "=", "--", "://", "-)"])
NAME = st.lists(LETTER, min_size=1, max_size=5).map("".join)
HEADER = st.lists(NAME, min_size=1, max_size=3).map("\n".join)


def text(name: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    part = st.tuples(name, MARK).map("".join)
    word = st.tuples(st.lists(part, max_size=3).map("".join), name).map("".join)
    return st.lists(word, min_size=1, max_size=5).map(" ".join)


WORDS = text(NAME)


@st.composite
def sheets(draw: st.DrawFn) -> Sheet:
    """Any sheet whose pieces and figures are short enough for 80 columns."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=10))
    columns = [Column(f"k{n}", draw(HEADER), words=kind) for n, kind in enumerate(kinds)]
    rows = [
        {
            column.key: draw(WORDS)
            if column.words
            else f"9.{number}{place}{'0' * draw(st.integers(0, 20))}"
            for place, column in enumerate(columns)
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    return Sheet(draw(WORDS), columns, rows, notes=draw(st.lists(WORDS, max_size=2)))


@given(sheets())
def test_at_80_columns_no_line_is_longer(made: Sheet) -> None:
    lines = table.render([made], width=80).splitlines()
    assert [line for line in lines if cell_len(line) > 80] == []
    assert [line for line in lines if line != line.rstrip()] == []


@given(sheets(), st.integers(1, 100))
def test_a_figure_is_written_whole_at_any_width(made: Sheet, width: int) -> None:
    figures = [row[column.key] for row in made.rows for column in made.columns if not column.words]
    found = Counter(table.render([made], width=width).split())
    assert [text for text in set(figures) if found[text] < figures.count(text)] == []


@given(text(st.one_of(NAME, st.text(DIGIT, min_size=1, max_size=5))), st.integers(1, 60))
def test_the_lines_of_a_cell_are_its_words(cell: str, width: int) -> None:
    lines = shown(sheet(words("w"), rows=[(cell,)]), width).splitlines()[2:]
    assert "".join(lines).replace(" ", "") == cell.replace(" ", "")
    # A line holds its part of the text as it is, and ends where a blank or a mark is.
    rest = cell
    for line in lines[:-1]:
        assert rest.startswith(line)
        rest = rest.removeprefix(line)
        assert rest.startswith(" ") or re.search(r"[-/_+,:=]\)?$", line) is not None
        rest = rest.removeprefix(" ")


@given(sheets(), st.integers(1, 100))
def test_blocks_repeat_the_names_and_hold_every_other_column_once(made: Sheet, width: int) -> None:
    columns = [Column(one.key, f"h{n}h", words=one.words) for n, one in enumerate(made.columns)]
    found = [
        [int(n) for n in re.findall(r"h(\d+)h", line)]
        for line in blocks(Sheet("", columns, made.rows), width)
    ]
    every = list(range(len(columns)))
    names = max(
        n
        for n in range(1, len(columns) + 1)
        if all(block[:n] == every[:n] for block in found) and (len(found) > 1 or n == 1)
    )
    assert [n for block in found for n in block[names:]] == every[names:]


HOSTILE = st.text(alphabet=st.characters(exclude_categories=["Cn", "Co"]), max_size=4)


@given(st.lists(HOSTILE, min_size=4, max_size=4), st.integers(1, 100))
def test_no_control_reaches_the_terminal(texts: list[str], width: int) -> None:
    title, header, cell, note = texts
    made = Sheet(
        title=title,
        columns=[Column("w", header, words=True), Column("f", "f", lambda value: value)],
        rows=[{"w": cell, "f": cell}],
        notes=[note],
    )
    written = table.render([made], width=width).replace("\n", "")
    obeyed = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert [char for char in written if unicodedata.category(char) in obeyed] == []
    assert units.text(written) == written
