"""Small files and folders of sysfs and procfs, of which a machine may lack any."""

from __future__ import annotations

import re
from pathlib import Path


def text_of(path: Path) -> str:
    """The stripped text of a file; empty where it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def entries(folder: Path) -> list[Path]:
    """The entries of a folder, mlx5_ib2 before mlx5_ib10; none if the folder does not exist."""
    try:
        return sorted(folder.iterdir(), key=_natural)
    except OSError:
        return []


def _natural(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", path.name)
    return [(0, int(token), "") if token.isdecimal() else (1, 0, token) for token in parts]
