"""What a role's own environment installs, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest
from trueup.node import own_python


def test_pins_are_those_of_all_files_without_their_hashes(tmp_path: Path) -> None:
    text = "# by pip-compile\npip==26.0 \\\n    --hash=sha256:ab\nA.b_c==1.0+cpu --hash=sha256:cd\n"
    (tmp_path / "one.txt").write_text(text)
    (tmp_path / "two.txt").write_text("x==2 ; python_version > '3'\n# y==3\n")
    found = own_python.pins(["one.txt", "two.txt"], str(tmp_path))
    assert found == ["pip==26.0", "A.b_c==1.0+cpu", "x==2"]


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
