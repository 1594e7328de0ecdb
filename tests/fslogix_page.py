"""docs/reference/fslogix_settings.md, written from the settings of the role by ``make options``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.desktops import fslogix_settings as settings

if TYPE_CHECKING:
    from trueup_node.options import Option

PAGE = "docs/reference/fslogix_settings.md"
INTRODUCTION = """\
# FSLogix settings

`make options` writes this page from trueup_controller.desktops.fslogix_settings: each value with
type, range and default by Microsoft's reference
(learn.microsoft.com/fslogix/reference-configuration-settings, 2025-08-26). To declare them:
[fslogix](../guides/fslogix.md).

Variables in paths: `%username%`, `%userdomain%`, `%sid%`, `%osmajor%`, `%osminor%`, `%osbuild%`,
`%osservicepack%`, `%profileversion%`, `%clientname%`. `object_specific` of `fslogix_settings` takes
the values of `profiles` by SID of a user or group.
"""
HEAD = (
    "| value | type | range | FSLogix's default | what it is |\n| --- | --- | --- | --- | --- |\n"
)
TYPES = {"dword": "DWORD", "string": "SZ", "multistring": "MULTI_SZ"}


def page() -> str:
    """The page's text: a table of each registry key."""
    return INTRODUCTION + "".join(map(_table, settings.KEYS))


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
