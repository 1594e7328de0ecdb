"""The registry of the simulated Windows host: typed values, names without regard to case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from .errors import UnknownError

Data = Union[int, str, list[str]]

# The words of win_regedit, and what win_reg_stat calls them.
TYPES = {
    "dword": "REG_DWORD",
    "qword": "REG_QWORD",
    "string": "REG_SZ",
    "expandstring": "REG_EXPAND_SZ",
    "multistring": "REG_MULTI_SZ",
}
_HIVES = ("HKLM:", "HKU:")


@dataclass
class Value:
    """A value of a key: its name as it was written, its type (a word of win_regedit), its data."""

    name: str
    type: str
    data: Data


@dataclass
class Key:
    """A key: its path as it was written, its values by lower-case name."""

    path: str
    values: dict[str, Value] = field(default_factory=dict)


class Registry:
    r"""Keys by path, as ``HKLM:\SOFTWARE\...``; a key's parents exist with it.

    Raises:
        UnknownError: for a hive other than HKLM and HKU.
    """

    def __init__(self, state: dict[str, dict[str, list[Any]]] | None = None) -> None:
        self._keys: dict[str, Key] = {}
        for path, values in (state or {}).items():
            self.make(path)
            for name, (kind, data) in values.items():
                self.set(path, name, kind, data)

    def get(self, path: str) -> Key | None:
        """The key, if it is there."""
        return self._keys.get(_folded(path))

    def value(self, path: str, name: str) -> Data | None:
        """The data of a value, if it is there."""
        key = self.get(path)
        found = key.values.get(name.lower()) if key else None
        return found.data if found else None

    def make(self, path: str) -> Key:
        """The key, made with its parents where it is not there."""
        parts = [part for part in path.split("\\") if part]
        _folded(path)
        for count in range(1, len(parts) + 1):
            whole = "\\".join(parts[:count])
            key = self._keys.setdefault(whole.lower(), Key(whole))
        return key

    def set(self, path: str, name: str, kind: str, data: Data) -> None:
        """Set a value; the key is made where it is not there."""
        if kind not in TYPES:
            raise UnknownError(f"registry type {kind}")
        self.make(path).values[name.lower()] = Value(name, kind, data)

    def unset(self, path: str, name: str) -> None:
        """Remove a value, if it is there."""
        key = self.get(path)
        if key:
            key.values.pop(name.lower(), None)

    def delete(self, path: str) -> None:
        """Remove a key and what is below it."""
        folded = _folded(path)
        for each in [key for key in self._keys if key == folded or key.startswith(folded + "\\")]:
            del self._keys[each]

    def below(self, path: str) -> list[str]:
        """The names of the keys one step below."""
        start = _folded(path) + "\\"
        return [
            key.path[len(start) :]
            for folded, key in self._keys.items()
            if folded.startswith(start) and "\\" not in folded[len(start) :]
        ]

    def dump(self) -> dict[str, dict[str, list[Any]]]:
        """All keys with their values, as ``{path: {name: [type, data]}}``."""
        return {
            key.path: {value.name: [value.type, value.data] for value in key.values.values()}
            for key in self._keys.values()
        }


def _folded(path: str) -> str:
    hive, _, rest = path.partition("\\")
    if hive.upper() not in _HIVES:
        raise UnknownError(f"registry hive {hive}")
    return "\\".join([hive, *[part for part in rest.split("\\") if part]]).lower()
