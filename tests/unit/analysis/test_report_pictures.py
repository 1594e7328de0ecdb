"""The pictures of the report in the docs show the page that people get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import report_pictures
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("name", report_pictures.PICTURES)
def test_a_picture_is_of_the_page_that_the_product_writes(tmp_path: Path, name: str) -> None:
    path = report_pictures.page(report_pictures.PICTURES[name], tmp_path)
    with Image.open(report_pictures.FOLDER / f"{name}.png") as picture:
        held = picture.info.get(report_pictures.OUTLINE)
    assert (held, "make pictures writes it") == (
        report_pictures.outline(path),
        "make pictures writes it",
    )


def test_the_outline_changes_with_the_page(tmp_path: Path) -> None:
    path = report_pictures.page(report_pictures.PICTURES["report-devito"], tmp_path)
    changed = tmp_path / "changed.html"
    text = path.read_text("utf-8")
    changed.write_text(text.replace("</h2>", " and more</h2>", 1), "utf-8")
    same = tmp_path / "same.html"
    same.write_text(text.replace("1.139", "1.140"), "utf-8")
    assert report_pictures.outline(same) == report_pictures.outline(path)
    assert report_pictures.outline(changed) != report_pictures.outline(path)
