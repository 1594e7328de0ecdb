"""In check mode: paths that a task would have written, for the later tasks that use them.

It is kept on the controller, in the folder that Ansible makes for one run and removes at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote


def add(folder: str, host: str, paths: Iterable[str]) -> None:
    """Note that these paths of a host would be written."""
    all_paths = {*of(folder, host), *paths}
    _file(folder, host).write_text(json.dumps(sorted(all_paths)), encoding="utf-8")


def of(folder: str, host: str) -> list[str]:
    """The paths of a host that would have been written so far."""
    try:
        text = _file(folder, host).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    paths: list[str] = json.loads(text)
    return paths


def _file(folder: str, host: str) -> Path:
    return Path(folder, f"trueup-unwritten-{quote(host, safe='')}.json")
