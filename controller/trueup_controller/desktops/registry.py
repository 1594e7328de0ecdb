"""The values of a Windows registry that a role declares, and the changes that are due on a host.

Names of keys and values are the same whatever their case, as Windows has them; data is compared
as it is written, as win_regedit does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trueup_node.errors import BadInput

# Of win_regedit's types those that roles declare, as win_reg_stat calls them.
TYPES = {
    "dword": "REG_DWORD",
    "qword": "REG_QWORD",
    "string": "REG_SZ",
    "expandstring": "REG_EXPAND_SZ",
    "multistring": "REG_MULTI_SZ",
}
_MOST = {"dword": 2**32 - 1, "qword": 2**64 - 1}


@dataclass(frozen=True)
class Value:
    """One value of a key.

    Attributes:
        path: of its key, as win_regedit takes it: ``HKLM:\\SOFTWARE\\FSLogix\\Profiles``.
        name: the value's; never empty.
        type: one of ``TYPES``.
        data: a number, a text, or of a multistring its texts.

    Raises:
        BadInput: the data is not of the type, or the path is of no hive.
    """

    path: str
    name: str
    type: str
    data: int | str | tuple[str, ...]

    def __post_init__(self) -> None:
        if isinstance(self.data, list):
            object.__setattr__(self, "data", tuple(self.data))
        if not _is_of(self.type, self.data):
            label = f"{self.path} {self.name}"
            raise BadInput(f"{label}: {self.data!r} is no data of the type {self.type}")
        if not self.name or not self.path.upper().startswith(("HKLM:\\", "HKCU:\\", "HKU:\\")):
            raise BadInput(f"{self.path!r}, {self.name!r}: a value has a name and a key in HKLM:\\")

    def as_item(self) -> dict[str, Any]:
        """The item of win_regedit."""
        data = list(self.data) if isinstance(self.data, tuple) else self.data
        return {"path": self.path, "name": self.name, "type": self.type, "data": data}


def changes(
    declared: Sequence[Value], current: Mapping[str, Any], owned: Mapping[str, Collection[str]]
) -> list[dict[str, Any]]:
    """The changes that are due on a host, as windows_settings and win_regedit take them: values to
    set, in the order of declaring, and then those to remove.

    Args:
        declared: the values that must be there.
        current: ``registry`` of windows_facts: by the path of a key its ``values`` and ``keys``, or
            None where there is no such key. A key that was not asked for counts as missing.
        owned: by the path of a key the names that are removed where nobody declares them.
    """
    declared_names = {(_same(value.path), _same(value.name)) for value in declared}
    items: list[dict[str, Any]] = [{**value.as_item(), "state": "present"} for value in declared]
    items += [
        {"path": path, "name": name, "state": "absent"}
        for path, names in owned.items()
        for name in names
        if (_same(path), _same(name)) not in declared_names
    ]
    return due(items, current)


def due(items: Sequence[dict[str, Any]], current: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of items of win_regedit those that would change something.

    Args:
        items: ``path``, ``name``, ``type``, ``data`` and ``state`` (present or absent) of a value.
        current: as ``changes`` takes it.

    Raises:
        BadInput: the data is not of the type, or a path is of no hive.
    """
    keys = {_same(path): _values(key) for path, key in current.items()}

    def differs(item: Mapping[str, Any]) -> bool:
        values = keys.get(_same(item["path"]), {})
        is_wanted = item.get("state", "present") == "present"
        # For a value to remove too: without a name it would be the whole key.
        type_and_data = (item["type"], item["data"]) if is_wanted else ("dword", 0)
        value = Value(item["path"], item["name"], *type_and_data)
        return not _is_there(value, values) if is_wanted else _same(value.name) in values

    return [item for item in items if differs(item)]


def value_of(current: Mapping[str, Any], path: str, name: str) -> dict[str, Any] | None:
    """``type`` and ``data`` of a value in ``registry`` of windows_facts; None where there is no
    such value."""
    for key, content in current.items():
        if _same(key) == _same(path):
            return _values(content).get(_same(name))
    return None


def data_of(current: Mapping[str, Any], path: str, name: str) -> Any:
    """The data of such a value; None where there is no such value."""
    return (value_of(current, path, name) or {}).get("data")


def shown(value: Mapping[str, Any] | None) -> str:
    """A value of the registry in words; empty where there is none."""
    if value is None:
        return ""
    data = value["data"]
    texts = data if isinstance(data, (list, tuple)) else [data]
    return " ".join([value["type"], "; ".join(map(str, texts))])


def _same(name: str) -> str:
    return name.rstrip("\\").casefold()


def _values(key: Any) -> dict[str, Any]:
    """Of a key of windows_facts, by names that compare."""
    values = (key or {}).get("values") or {}
    return {name.casefold(): value for name, value in values.items()}


def _is_there(value: Value, values: Mapping[str, Any]) -> bool:
    current_value = values.get(value.name.casefold())
    if current_value is None or current_value.get("type") != TYPES[value.type]:
        return False
    data = current_value.get("data")
    return bool(value.data == (tuple(data) if isinstance(data, list) else data))


def _is_of(kind: str, data: Any) -> bool:
    if kind in _MOST:
        is_number = isinstance(data, int) and not isinstance(data, bool)
        return is_number and 0 <= data <= _MOST[kind]
    if kind == "multistring":
        return isinstance(data, tuple) and all(isinstance(text, str) and text for text in data)
    return kind in TYPES and isinstance(data, str)
