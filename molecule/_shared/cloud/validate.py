"""Requests held against the models of Azure's own SDK packages, which this project did not make.

Every member must be one of the model of its type, every value of the member's type, every word one
of its enum's, and what a model requires must be there. A model is that of the request's api-version
where the package has several, else the package's (requirements/test.in).
"""

from __future__ import annotations

import enum
import importlib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Union

from .replies import Refused
from .resources import at

_DESKTOPS = "desktopvirtualization"
MODELS = {
    "Microsoft.Authorization/roleAssignments": ("authorization", "RoleAssignmentCreateParameters"),
    "Microsoft.Compute/disks": ("compute", "Disk"),
    "Microsoft.Compute/proximityPlacementGroups": ("compute", "ProximityPlacementGroup"),
    "Microsoft.Compute/virtualMachineScaleSets": ("compute", "VirtualMachineScaleSet"),
    "Microsoft.Compute/virtualMachines": ("compute", "VirtualMachine"),
    "Microsoft.Compute/virtualMachines/extensions": ("compute", "VirtualMachineExtension"),
    "Microsoft.Compute/virtualMachines/runCommands": ("compute", "VirtualMachineRunCommand"),
    "Microsoft.DesktopVirtualization/applicationGroups": (_DESKTOPS, "ApplicationGroup"),
    "Microsoft.DesktopVirtualization/applicationGroups:patch": (_DESKTOPS, "ApplicationGroupPatch"),
    "Microsoft.DesktopVirtualization/applicationGroups/applications": (_DESKTOPS, "Application"),
    "Microsoft.DesktopVirtualization/applicationGroups/applications:patch": (
        *(_DESKTOPS, "ApplicationPatch"),
    ),
    "Microsoft.DesktopVirtualization/applicationGroups/desktops:patch": (_DESKTOPS, "DesktopPatch"),
    "Microsoft.DesktopVirtualization/hostPools": (_DESKTOPS, "HostPool"),
    "Microsoft.DesktopVirtualization/hostPools:patch": (_DESKTOPS, "HostPoolPatch"),
    "Microsoft.DesktopVirtualization/hostPools/sessionHosts:patch": (_DESKTOPS, "SessionHostPatch"),
    "Microsoft.DesktopVirtualization/hostPools/sessionHosts/userSessions:sendMessage": (
        *(_DESKTOPS, "SendMessage"),
    ),
    "Microsoft.DesktopVirtualization/workspaces": (_DESKTOPS, "Workspace"),
    "Microsoft.DesktopVirtualization/workspaces:patch": (_DESKTOPS, "WorkspacePatch"),
    "Microsoft.ManagedIdentity/userAssignedIdentities": ("msi", "Identity"),
    "Microsoft.NetApp/netAppAccounts": ("netapp", "NetAppAccount"),
    "Microsoft.NetApp/netAppAccounts/capacityPools": ("netapp", "CapacityPool"),
    "Microsoft.NetApp/netAppAccounts/capacityPools/volumes": ("netapp", "Volume"),
    "Microsoft.Network/bastionHosts": ("network", "BastionHost"),
    "Microsoft.Network/natGateways": ("network", "NatGateway"),
    "Microsoft.Network/networkInterfaces": ("network", "NetworkInterface"),
    "Microsoft.Network/networkSecurityGroups": ("network", "NetworkSecurityGroup"),
    "Microsoft.Network/publicIPAddresses": ("network", "PublicIPAddress"),
    "Microsoft.Network/virtualNetworks": ("network", "VirtualNetwork"),
    "Microsoft.Resources/deployments": ("resource.deployments", "Deployment"),
    "Microsoft.Resources/deployments/whatIf": ("resource.deployments", "DeploymentWhatIf"),
    "Microsoft.Storage/storageAccounts": ("storage", "StorageAccountCreateParameters"),
    "Microsoft.Storage/storageAccounts/blobServices": ("storage", "BlobServiceProperties"),
    "Microsoft.Storage/storageAccounts/blobServices/containers": ("storage", "BlobContainer"),
    "Microsoft.StorageCache/amlFilesystems": ("storagecache", "AmlFilesystem"),
}
# Of a template, and of no resource's model; and what a resource's path says.
OF_TEMPLATES, HEAD = {"apiVersion", "dependsOn"}, {"id", "name", "type"}
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
    for name, one in model._attribute_map.items():
        *path, last = one["key"].replace("\\.", "\0").split(".")
        place = found
        for part in path:
            place = place.setdefault(part, {})
        words = _words_of(model, name, package) if one["type"] == "str" else None
        place[last.replace("\0", ".")] = words or _type_of(one["type"], package)
    return found


def _words_of(model: Any, attribute: str, package: Any) -> Any:
    """The enum of an attribute that is a text: such a package names it in its help alone."""
    said = " ".join(str(model.__doc__).split())
    found = re.search(rf":vartype {attribute}: str or ~[\w.]*?(\w+)(?: |$)", said)
    return getattr(package, found[1], None) if found else None


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
        if not isinstance(kind, Mapping) and isinstance(value, Mapping):
            for name in sorted(required(kind)):
                if at(value, *name.split(".")) is None:
                    yield f"{place}.{name}: required, and missing"


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


def required(model: Any) -> set[str]:
    """The members that a model cannot be without: paths in its JSON."""
    if hasattr(model, "_attribute_map"):
        rules = getattr(model, "_validation", {})
        return {
            one["key"]
            for name, one in model._attribute_map.items()
            if rules.get(name, {}).get("required") and not rules[name].get("readonly")
        }
    fields = model._attr_to_rest_field.values()
    return {one._rest_name for one in fields if not one._is_optional and not one._is_discriminator}


class Models:
    """Holds requests against the models that are installed.

    Attributes:
        absent: packages that are not installed.
    """

    def __init__(self) -> None:
        packages = dict.fromkeys(package for package, _ in MODELS.values())
        self.absent = [
            f"azure-mgmt-{package.replace('.', '-')}"
            for package in packages
            if _module(f"azure.mgmt.{package}.models") is None
        ]

    def __call__(self, kind: str, body: Any, version: str) -> None:
        """Refuse a request of a type; a type without a model is not looked at (``unknown``).

        Raises:
            Refused: the model does not know a member, a value or a word, or misses one.
        """
        known = {name.lower(): name for name in MODELS}
        name = known.get(kind.lower())
        if name is None:
            return
        package, model = MODELS[name]
        found = models(package, version)
        if found is None:
            return
        given = {key: one for key, one in body.items() if key not in OF_TEMPLATES | HEAD}
        wrong = list(problems(given, getattr(found, model), found, name))
        if wrong:
            said = "The request content was invalid: " + "; ".join(wrong[:5])
            raise Refused(400, "InvalidRequestContent", f"{said}.")
