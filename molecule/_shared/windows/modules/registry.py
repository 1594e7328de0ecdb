"""win_reg_stat and win_regedit."""

from __future__ import annotations

import re
from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..registry import TYPES, Data, Value

_PATH = re.compile(r"^HK(CC|CR|CU|LM|U):\\", re.IGNORECASE)


@module(
    "ansible.windows.win_reg_stat",
    {"path": Option(required=True, aliases=("key",)), "name": Option(aliases=("entry", "value"))},
)
def win_reg_stat(call: Call) -> dict[str, Any]:
    """What a key or a value holds."""
    path, name = call.args["path"], call.args["name"]
    if not _PATH.match(path):
        raise FailError(
            f"path: {path} is not a valid registry path, see module documentation for examples."
        )
    key = call.host.registry.get(path)
    if key is None:
        return {"exists": False}
    if name is None:
        properties = {value.name: _shown(call, value) for value in key.values.values()}
        names = call.host.registry.below(path)
        return {"exists": True, "properties": properties, "sub_keys": names}
    value = key.values.get(name.lower())
    return {"exists": True, **_shown(call, value)} if value else {"exists": False}


def _shown(call: Call, value: Value) -> dict[str, Any]:
    data = value.data
    if value.type == "expandstring":
        data = call.host.expanded(str(data)) if "%" in str(data) else data
    return {"type": TYPES[value.type], "value": data, "raw_value": value.data}


@module(
    "ansible.windows.win_regedit",
    {
        "path": Option(required=True, aliases=("key",)),
        "name": Option(aliases=("entry", "value")),
        "data": Option("raw"),
        "type": Option(
            default="string",
            choices=(
                "binary", "dword", "expandstring", "multistring", "none", "qword", "string",
            ),
            aliases=("datatype",),
        ),
        "state": Option(default="present", choices=("absent", "present")),
        "delete_key": Option("bool", default=True),
        "hive": Option("path", known=False),
    },
)  # fmt: skip
def win_regedit(call: Call) -> dict[str, Any]:
    """Set or remove a value or a key."""
    path, name = call.args["path"], call.args["name"] or None
    kind = call.args["type"]
    if call.args["name"] is None and kind != "string":
        call.warnings.append(
            "the data type when name is not specified can only be 'string', "
            "the type has automatically been converted"
        )
        kind = "string"
    if not _PATH.match(path):
        raise FailError(
            f"path: {path} is not a valid powershell path, see module documentation for examples."
        )
    call.host.registry.get(path)
    same = {"changed": False, "data_changed": False, "data_type_changed": False}
    if call.args["state"] == "absent":
        return {**same, **_absent(call, path, name)}
    return {**same, **_present(call, path, name, kind, _data(call.args["data"], kind, name))}


def _absent(call: Call, path: str, name: str | None) -> dict[str, Any]:
    registry = call.host.registry
    key = registry.get(path)
    if key is None:
        return _diff("", "")
    if call.args["delete_key"] and not name:
        if not call.check:
            registry.delete(path)
        return {"changed": True, **_diff({path: {}}, {})}
    value = key.values.get((name or "").lower())
    if value is None:
        return _diff("", "")
    if not call.check:
        registry.unset(path, name or "")
    return {"changed": True, **_diff({path: {name: _seen(value.type, value.data)}}, {path: {}})}


def _present(
    call: Call, path: str, name: str | None, kind: str, data: Data | None
) -> dict[str, Any]:
    registry = call.host.registry
    key = registry.get(path)
    before: dict[str, Any] = {path: {}} if key else {}
    after: dict[str, Any] = {path: {}}
    result: dict[str, Any] = {"changed": key is None}
    if key is None and not call.check:
        key = registry.make(path)
    if key is None or data is None:
        return {**result, **_diff(before, after)}
    before.setdefault(path, {})
    value = key.values.get((name or "").lower())
    if value is not None:
        result["data_type_changed"] = value.type != kind
        result["data_changed"] = value.data != data
        before[path][name] = _seen(value.type, value.data)
    after[path][name] = _seen(kind, data)
    if value is None or value.type != kind or value.data != data:
        result["changed"] = True
        if not call.check:
            # Windows keeps the name as it was first written.
            registry.set(path, value.name if value else name or "", kind, data)
    return {**result, **_diff(before, after)}


def _data(data: Any, kind: str, name: str | None) -> Data | None:
    """The data as the registry holds it; None: only the key was asked for."""
    if kind in ("binary", "none"):
        raise UnknownError(f"registry type {kind}")
    if kind in ("dword", "qword"):
        return _number(data, kind)
    if kind == "multistring":
        given = data if isinstance(data, list) else [] if data is None else [data]
        return [str(each) for each in given]
    if data is None:
        return "" if name else None
    if isinstance(data, (list, dict)):
        # What .NET makes of it is not what anybody wanted.
        raise UnknownError(f"data of registry type {kind} that is a {type(data).__name__}")
    return str(data)


def _number(data: Any, kind: str) -> int:
    most = 0xFFFFFFFF if kind == "dword" else 0xFFFFFFFFFFFFFFFF
    try:
        number = int(data, 0) if isinstance(data, str) and data else int(data or 0)
    except (TypeError, ValueError):
        raise FailError(f'Cannot convert value "{data}" to type "System.UInt64".') from None
    if isinstance(data, float) and data != number:
        raise FailError(
            f"data '{data}' cannot be a decimal or float value "
            "with a remainder when type is dword or qword"
        )
    if number > most:
        raise FailError(f"data cannot be larger than {most:#x} when type is {kind}")
    return number


_NET = {
    "dword": "DWord",
    "qword": "QWord",
    "string": "String",
    "expandstring": "ExpandString",
    "multistring": "MultiString",
}


def _seen(kind: str, data: Data) -> dict[str, Any]:
    width = {"dword": 8, "qword": 16}.get(kind)
    return {"type": _NET[kind], "value": f"0x{data:0{width}x}" if width else data}


def _diff(before: Any, after: Any) -> dict[str, Any]:
    return {"diff": {"before": before, "after": after}}
