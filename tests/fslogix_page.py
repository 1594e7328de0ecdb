"""docs/reference/fslogix_settings.md, written from the settings of the role by ``make options``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.desktops import fslogix_settings as settings

if TYPE_CHECKING:
    from trueup_node.options import Option

PAGE = "docs/reference/fslogix_settings.md"
INTRODUCTION = """\
# FSLogix settings

`make options` writes this page from trueup_controller.desktops.fslogix_settings. Types, ranges and
FSLogix's defaults: learn.microsoft.com/fslogix/reference-configuration-settings, 2025-08-26. To
declare values: [fslogix](../guides/fslogix.md).

Variables in paths: `%username%`, `%userdomain%`, `%sid%`, `%osmajor%`, `%osminor%`, `%osbuild%`,
`%osservicepack%`, `%profileversion%`, `%clientname%`. `object_specific` of `fslogix_settings` takes
the values of `profiles` by SID of a user or group.
"""
HEAD = "| value | type | default | meaning |\n| --- | --- | --- | --- |\n"
TYPES = {"dword": "DWORD", "string": "SZ", "multistring": "MULTI_SZ"}


def page() -> str:
    """The page's text: a table of each registry key, without rows that the first one has too."""
    first, *others = settings.KEYS
    return INTRODUCTION + _table(first) + "".join(_table(key, first) for key in others)


def _table(key: settings.Key, first: settings.Key | None = None) -> str:
    path = key.path.replace("HKLM:", "HKLM")
    known = {_row(one): one.name for one in first.options} if first else {}
    rows = [row for row in map(_row, key.options) if row not in known]
    shared = ""
    if first and len(rows) < len(key.options):
        names = {one.name for one in key.options}
        absent = ", ".join(f"`{name}`" for name in known.values() if name not in names)
        shared = f"All values of `{first.variable}` except {absent}, and these:\n\n"
    return f"\n### `fslogix_settings.{key.variable}`: `{path}`\n\n{shared}{HEAD}{''.join(rows)}"


def _row(one: Option) -> str:
    default = "" if one.default in (None, "") else f"`{one.default}`"
    kind = f"{TYPES[settings.KINDS[one.type]]} {_range(one)}".strip()
    cells = (f"`{one.name}`", kind, default, one.help)
    return f"| {' | '.join(cells)} |\n"


def _range(one: Option) -> str:
    if one.choices:
        return ", ".join(one.choices)
    if one.least is None or one.most is None:
        return ""
    return f"{one.least:.0f}-{one.most:.0f}" if one.most < 2**32 - 1 else f"from {one.least:.0f}"
