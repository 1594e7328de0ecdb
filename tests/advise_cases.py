"""tests/data/advise_cases.md: below each command of it stands what the command answers.

``PYTHONPATH=tests python tests/advise_cases.py`` writes the answers anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from unittest import mock

from trueup_analysis import cli

PAGE = Path(__file__).resolve().parents[1] / "tests" / "data" / "advise_cases.md"
_CASE = re.compile(
    r"^    trueup (?P<words>advise [^\n]+)\n\n<!-- answer -->\n(?P<answer>.*?)<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)


# The day of the page, 2026-11-24: sizes retire and prices grow old as time goes on.
_DAY = {"SOURCE_DATE_EPOCH": "1795478400"}


def written(page: str) -> str:
    """The page with the answer of each of its commands."""
    return _CASE.sub(_answered, page)


def count(page: str) -> int:
    return len(_CASE.findall(page))


def _answered(found: re.Match[str]) -> str:
    words = shlex.split(found["words"])
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["trueup", *words, "--format", "markdown"]),
        mock.patch.dict(os.environ, _DAY),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        cli.main()
    answer = out.getvalue().strip() or f"`{err.getvalue().strip()}`"
    return f"    trueup {found['words']}\n\n<!-- answer -->\n{answer}\n<!-- end -->"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
