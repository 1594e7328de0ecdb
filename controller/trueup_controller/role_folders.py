"""The folder of each role. roles/ holds the core's roles, and a folder for each group of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Below roles/: Windows, and services of a site. ``roles_path`` in ansible.cfg has the same folders.
GROUPS = ("desktops", "sites")


def role_folders(roles: Path) -> dict[str, Path]:
    """The folder of each role by its name, in order. ``roles``: the project's folder."""
    tasks = [path for group in ("", *GROUPS) for path in (roles / group).glob("*/tasks")]
    return dict(sorted((path.parent.name, path.parent) for path in tasks))


def role_files(roles: Path, file: str) -> dict[str, Path]:
    """A file of each role that has it (``tasks/benchmark.yml``), by the role's name, in order."""
    paths = {role: folder / file for role, folder in role_folders(roles).items()}
    return {role: path for role, path in paths.items() if path.is_file()}
