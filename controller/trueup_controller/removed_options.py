"""Unknown role variables: the sentence that refuses one, with its replacement or a similar name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import yaml
from trueup_node.suggest import did_you_mean

from trueup_controller.role_folders import role_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# Beside catalog/ of the project: name of a removed role option -> the user's next step.
FILE = "removed_options.yml"


@functools.lru_cache(maxsize=4)
def removed_options(catalog: Path) -> Mapping[str, str]:
    """Removed role options and the user's next step, from ``removed_options.yml`` in a folder."""
    options: dict[str, str] = yaml.safe_load((catalog / FILE).read_text(encoding="utf-8")) or {}
    return options


def removal_refusals(names: Iterable[str], catalog: Path) -> list[str]:
    """One sentence for each removed role option among the names."""
    steps = removed_options(catalog)
    return [f"{name} was removed: {steps[name]}." for name in sorted(set(names) & set(steps))]


def unknown_option(name: str, role: str, options: Iterable[str], catalog: Path) -> str:
    """The sentence that refuses a variable which a role does not have.

    Args:
        name: of the variable.
        role: whose prefix the name has.
        options: the role's variables.
        catalog: the project's folder of that name.
    """
    removed = removal_refusals([name], catalog)
    if removed:
        return removed[0]
    project = catalog.parent
    folder = role_folders(project / "roles")[role].relative_to(project)
    hint = did_you_mean(name, options) or f"; {folder}/defaults/main.yml lists its variables."
    return f"{name}: the role {role} has no such variable{hint}"
