"""The pictures of the report in docs/pictures: each is taken of a page that the product writes.

``make pictures`` writes them. Each holds the outline of its page, which a test compares with the
outline of the page that the product writes now.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import recorded_runs as runs
from chromium import Browser, program
from report_pages import look
from trueup_analysis.figures.terms import Terms
from trueup_analysis.load import load
from trueup_analysis.report.publish import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"
OUTLINE = "outline"
_WIDTH = 1220


class Picture(NamedTuple):
    """What is measured, and the element of the page that the picture begins with."""

    run: Callable[[], runs.Run]
    selector: str
    most: int


PICTURES = {
    "report": Picture(lambda: runs.h100_fleet(200), "body", 1500),
    "report-nccl": Picture(runs.nccl_sweep, 'section[aria-labelledby="nccl"]', 1600),
    "report-devito": Picture(runs.hbv3_scaling, ".part:has(#figure-devito-scaling-1)", 900),
}


def page(picture: Picture, folder: Path) -> Path:
    """The page of a picture, as ``trueup report`` writes it."""
    results = runs.write(folder / "results", picture.run())
    return write_report(load([results]), folder / "report", terms=Terms())


def outline(path: Path) -> str:
    """The digest of a page's headings, tables, cards and kinds of elements; no figure is in it."""
    seen = look(path)
    held = {
        "headings": [(level, text.partition(":")[0]) for level, text in seen.headings],
        "tables": {name: rows[0] for name, rows in seen.tables.items()},
        "cards": len(seen.cards),
        "kinds": sorted({(tag, str(values.get("class"))) for tag, values in seen.tags}),
    }
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        browser = Browser(program(), folder)
        try:
            for title, picture in PICTURES.items():
                path = page(picture, folder / title)
                browser.open(path, (_WIDTH, 900), "light")
                text = {OUTLINE: outline(path)}
                browser.picture(FOLDER / f"{title}.png", picture.selector, picture.most, text)
                sys.stdout.write(f"{FOLDER / title}.png\n")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
