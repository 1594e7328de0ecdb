"""docs/guides/fslogix.md: its tables follow from trueup_controller.desktops.fslogix_settings by
``make options``; the text before the first table is written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.desktops import fslogix_settings as settings

if TYPE_CHECKING:
    from pathlib import Path

    from trueup_node.options import Option

PAGE = "docs/guides/fslogix.md"
MARK = (
    "<!-- Below: written by `make options` from trueup_controller.desktops.fslogix_settings. -->\n"
)
HEAD = (
    "| value | type | range | FSLogix's default | what it is |\n| --- | --- | --- | --- | --- |\n"
)
TYPES = {"dword": "DWORD", "string": "SZ", "multistring": "MULTI_SZ"}


def page(root: Path) -> str:
    """The page's text: what stands there by hand, and the tables."""
    by_hand = (root / PAGE).read_text(encoding="utf-8").partition(MARK)[0]
    return by_hand + MARK + "".join(map(_table, settings.KEYS))


def _table(key: settings.Key) -> str:
    path = key.path.replace("HKLM:", "HKLM")
    rows = "".join(map(_row, key.options))
    return f"\n### `fslogix_settings.{key.variable}`: `{path}`\n\n{HEAD}{rows}"


def _row(one: Option) -> str:
    default = "" if one.default in (None, "") else f"`{one.default}`"
    cells = (f"`{one.name}`", TYPES[settings.KINDS[one.type]], _range(one), default, one.help)
    return f"| {' | '.join(cells)} |\n"


def _range(one: Option) -> str:
    if one.choices:
        return ", ".join(one.choices)
    if one.least is None or one.most is None:
        return ""
    return f"{one.least:.0f} to {one.most:.0f}" if one.most < 2**32 - 1 else f"from {one.least:.0f}"
