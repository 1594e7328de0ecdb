"""Templates held against Azure's own SDK models, which this project did not make.

    python tests/azure_sdk.py TEMPLATE...       (as `trueup azure plan --template` writes them)

Run with a Python that has azure-mgmt-compute, azure-mgmt-network, azure-mgmt-netapp,
azure-mgmt-storagecache and azure-mgmt-authorization; docs/azure_provision.md says which releases
were used. Every member of every resource must be one of its model, every value of the model's type,
and every word one of its enum's. A model is that of the template's API version where the package
has several, else the package's.
"""

from __future__ import annotations

import enum
import importlib
import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Union

MODELS = {
    "Microsoft.Authorization/roleAssignments": ("authorization", "RoleAssignment"),
    "Microsoft.Compute/proximityPlacementGroups": ("compute", "ProximityPlacementGroup"),
    "Microsoft.Compute/virtualMachineScaleSets": ("compute", "VirtualMachineScaleSet"),
    "Microsoft.Compute/virtualMachines": ("compute", "VirtualMachine"),
    "Microsoft.NetApp/netAppAccounts": ("netapp", "NetAppAccount"),
    "Microsoft.NetApp/netAppAccounts/capacityPools": ("netapp", "CapacityPool"),
    "Microsoft.NetApp/netAppAccounts/capacityPools/volumes": ("netapp", "Volume"),
    "Microsoft.Network/bastionHosts": ("network", "BastionHost"),
    "Microsoft.Network/natGateways": ("network", "NatGateway"),
    "Microsoft.Network/networkInterfaces": ("network", "NetworkInterface"),
    "Microsoft.Network/networkSecurityGroups": ("network", "NetworkSecurityGroup"),
    "Microsoft.Network/publicIPAddresses": ("network", "PublicIPAddress"),
    "Microsoft.Network/virtualNetworks": ("network", "VirtualNetwork"),
    "Microsoft.StorageCache/amlFilesystems": ("storagecache", "AmlFilesystem"),
}
# Of a template, and of no resource's model.
_OF_TEMPLATES = {"apiVersion", "dependsOn"}
# Azure's list of VM sizes, which its own help calls out of date.
_STALE = {"VirtualMachineSizeTypes"}
_UNIONS = (Union, types.UnionType)
_PLAIN: dict[type, Any] = {str: str, int: int, float: (int, float), bool: bool}


def models(package: str, version: str) -> Any | None:
    """The models of a package for an API version; None where the package is not installed."""
    dated = f"azure.mgmt.{package}.v{version.replace('-', '_')}.models"
    return _module(dated) or _module(f"azure.mgmt.{package}.models")


def _module(name: str) -> Any | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def members(model: type, package: Any) -> dict[str, Any]:
    """What a model holds: name as in JSON, to its type, or to the like of a flattened part."""
    if hasattr(model, "_attribute_map"):
        return _of_older(model, package)
    model({})
    source = importlib.import_module(model.__module__)
    names = {**vars(source), "_models": package, "datetime": importlib.import_module("datetime")}
    hints: dict[str, Any] = {}
    for base in reversed(model.__mro__[:-1]):
        own = vars(base).get("__annotations__", {})
        for name, annotation in own.items():
            if name in model._attr_to_rest_field:  # type: ignore[attr-defined]
                hints[name] = typing._eval_type(  # type: ignore[attr-defined]
                    typing.ForwardRef(annotation) if isinstance(annotation, str) else annotation,
                    names,
                    names,
                )
    fields = model._attr_to_rest_field  # type: ignore[attr-defined]
    return {fields[name]._rest_name: hint for name, hint in hints.items()}


def _of_older(model: Any, package: Any) -> dict[str, Any]:
    """The same of a package that keeps a map of attributes, in which a part may be flattened."""
    found: dict[str, Any] = {}
    for one in model._attribute_map.values():
        *path, last = one["key"].replace("\\.", "\0").split(".")
        place = found
        for part in path:
            place = place.setdefault(part, {})
        place[last.replace("\0", ".")] = _type_of(one["type"], package)
    return found


def _type_of(name: str, package: Any) -> Any:
    if name.startswith("["):
        return list[_type_of(name[1:-1], package)]  # type: ignore[misc]
    if name.startswith("{"):
        return dict[str, Any]
    known = {"str": str, "int": int, "bool": bool, "float": float, "long": int, "object": Any}
    return known.get(name) or getattr(package, name, Any)


def problems(value: Any, kind: Any, package: Any, place: str) -> Iterator[str]:
    """What of a value its model does not know."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(value, str) and value.startswith("["):
        return  # an expression, whose value ARM works out
    if origin in _UNIONS:
        yield from _any_of(value, [one for one in inner if one is not type(None)], package, place)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
        else:
            for number, one in enumerate(value):
                yield from problems(one, inner[0], package, f"{place}[{number}]")
    elif origin is not dict and kind not in (Any, datetime):
        yield from _of_kind(value, kind, package, place)


def _of_kind(value: Any, kind: Any, package: Any, place: str) -> Iterator[str]:
    """The same of a model, a flattened part of one, an enum, or a plain value."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        words = [one.value for one in kind]
        if kind.__name__ not in _STALE and value not in words:
            yield f"{place}: {value!r} is none of {', '.join(map(str, words))}"
    elif isinstance(kind, type) and kind in _PLAIN:
        if not isinstance(value, _PLAIN[kind]) or (kind is not bool and isinstance(value, bool)):
            yield f"{place}: {value!r} is no {kind.__name__}"
    else:
        fields = kind if isinstance(kind, Mapping) else members(kind, package)
        yield from _unknown(value, fields, package, place)


def _any_of(value: Any, kinds: list[Any], package: Any, place: str) -> Iterator[str]:
    """An enum beside a text is what the text must be of."""
    strict = [one for one in kinds if one is not str] or kinds
    found = [list(problems(value, one, package, place)) for one in strict]
    if all(found):
        yield from min(found, key=len)


def _unknown(value: Any, fields: Mapping[str, Any], package: Any, place: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{place}: {value!r} is no object"
        return
    for name, one in value.items():
        if name not in fields:
            yield f"{place}.{name}: no such member"
        else:
            yield from problems(one, fields[name], package, f"{place}.{name}")


def check(template: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What is wrong with a template's resources, and the types that could not be checked."""
    wrong: list[str] = []
    skipped: list[str] = []
    for resource in template["resources"]:
        kind = resource["type"]
        package, name = MODELS[kind]
        found = models(package, resource["apiVersion"])
        if found is None:
            skipped.append(f"{kind}: azure-mgmt-{package} is not installed")
            continue
        given = {key: one for key, one in resource.items() if key not in _OF_TEMPLATES}
        place = f"{kind} {resource['name']}"
        wrong += problems(given, getattr(found, name), found, place)
    return wrong, list(dict.fromkeys(skipped))


def main(paths: list[str]) -> int:
    """Check files; 0 where nothing is wrong and nothing was skipped."""
    status = 0
    for path in paths:
        template = json.loads(Path(path).read_text(encoding="utf-8"))
        wrong, skipped = check(template)
        for text in (*wrong, *(f"skipped: {one}" for one in skipped)):
            print(f"{path}: {text}")
        count = len(template["resources"])
        print(f"{path}: {count} resources, {len(wrong)} wrong, {len(skipped)} types skipped")
        status |= bool(wrong or skipped)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
