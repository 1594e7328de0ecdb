"""ARM deployments of the emulated cloud: templates, their order, what-if.

Mode Incremental, into a resource group. Members of a template that are not named here (copy loops,
nested templates, conditions) are refused.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import threading
import traceback
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .capacity import demand, refuse_quota
from .compute import unsecret
from .expressions import Later, Scope, invalid, resource_id
from .replies import SUBSCRIPTION, Refused
from .resources import Operation, Resource, now, target

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Document

KIND = "Microsoft.Resources/deployments"
_OF_TEMPLATE = {"$schema", "contentVersion", "parameters", "variables", "resources", "outputs"}
_OF_RESOURCE = {"apiVersion", "dependsOn", "comments", "scope"}
_TYPES: dict[str, Any] = {
    "string": str,
    "securestring": str,
    "int": int,
    "bool": bool,
    "object": dict,
    "secureobject": dict,
    "array": list,
}
_SPACE = "Microsoft.Resources"
_NAME = re.compile(r"[-\w.()]{1,64}")


@dataclass
class Part:
    """One resource of a template.

    Attributes:
        id: where it is made.
        asked: as the template has it.
        needs: the ids, in lower case, that it depends on within the template.
    """

    id: str
    kind: str
    version: str
    asked: Document
    needs: set[str]
    done: threading.Event = field(default_factory=threading.Event)
    state: str = ""
    error: Document | None = None
    begun: str = ""


@dataclass
class Deployment:
    """One deployment."""

    id: str
    group: str
    parts: list[Part]
    parameters: Document
    template: Document
    scope: Scope
    operation: Operation | None = None
    outputs: Document = field(default_factory=dict)
    error: Document | None = None
    begun: str = field(default_factory=now)
    correlation: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def canceled(self) -> bool:
        return self.operation is not None and self.operation.status == "Canceled"

    def document(self) -> Document:
        names = {"InProgress": "Running"}
        state = self.operation.status if self.operation else "Succeeded"
        digest = hashlib.sha256(json.dumps(self.template, sort_keys=True).encode()).hexdigest()
        properties: Document = {
            "templateHash": str(int(digest[:15], 16)),
            "parameters": self.parameters,
            "mode": "Incremental",
            "provisioningState": names.get(state, state),
            "timestamp": self.begun,
            "correlationId": self.correlation,
            "dependencies": [],
            "providers": [],
        }
        if state == "Succeeded":
            properties["outputs"] = self.outputs
            properties["outputResources"] = [{"id": one.id} for one in self.parts]
        if state == "Failed":
            properties["error"] = self.error
        name = self.id.rpartition("/")[2]
        return {"id": self.id, "name": name, "type": KIND, "properties": properties}

    def operations(self) -> list[Document]:
        found = []
        for number, one in enumerate(self.parts):
            if not one.begun:
                continue
            failed = one.error is not None
            properties: Document = {
                "provisioningOperation": "Create",
                "provisioningState": one.state or "Running",
                "timestamp": one.begun,
                "trackingId": self.correlation,
                "targetResource": {
                    "id": one.id,
                    "resourceType": one.kind,
                    "resourceName": one.id.rpartition("/")[2],
                },
            }
            if one.state:
                properties["statusCode"] = "Conflict" if failed else "OK"
            if failed:
                properties["statusMessage"] = {"status": "Failed", "error": one.error}
            name = f"{number:016X}"
            found.append(
                {
                    "id": f"{self.id}/operations/{name}",
                    "operationId": name,
                    "properties": properties,
                }
            )
        return found


def deployment(cloud: Cloud, group: str, name: str, body: Any) -> Deployment:
    """A request's deployment, its template held against everything that is known before it begins.

    Raises:
        Refused: it is not taken.
    """
    if not _NAME.fullmatch(name):
        raise Refused(400, "InvalidDeploymentName", f"The deployment name '{name}' is not valid.")
    properties = body.get("properties") if isinstance(body, dict) else None
    if not isinstance(properties, dict) or not isinstance(properties.get("template"), dict):
        said = "The request content has no properties with a template."
        raise Refused(400, "InvalidRequestContent", said)
    if properties.get("mode") != "Incremental":
        said = "The emulated cloud knows deployment mode Incremental only."
        raise Refused(400, "InvalidDeploymentMode", said)
    template = properties["template"]
    _sections(template)
    found = cloud.group(group)
    own = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{found.name}"
    values, shown = _parameters(
        template.get("parameters") or {}, properties.get("parameters") or {}
    )

    def reference(path: str, full: bool) -> Any:
        resource = cloud.resources.get(path.lower())
        if resource is None or (resource.busy and not resource.busy.done.is_set()):
            raise Later(path)
        document = cloud.view(resource)
        document["apiVersion"] = resource.version
        return document if full else document["properties"]

    scope = Scope(found.document(), cloud.url, reference, values, template.get("variables") or {})
    parts = [_part(scope, one, number) for number, one in enumerate(template["resources"])]
    _ordered(parts)
    return Deployment(f"{own}/providers/{KIND}/{name}", found.name, parts, shown, template, scope)


def _sections(template: Document) -> None:
    """Refuse a template whose sections are not those that are known."""
    strange = sorted(set(template) - _OF_TEMPLATE)
    if strange:
        raise invalid(f"the template has '{strange[0]}', which the emulated cloud does not know")
    for member, kind in (("$schema", str), ("contentVersion", str), ("resources", list)):
        if not isinstance(template.get(member), kind):
            raise invalid(f"the template property '{member}' is missing, or of another type")
    for member in ("parameters", "variables", "outputs"):
        if not isinstance(template.get(member, {}), dict):
            raise invalid(f"the template property '{member}' is no object")


def _parameters(declared: Document, given: Document) -> tuple[Document, Document]:
    """The values of a template's parameters, and what a GET shows of them."""
    strange = sorted(set(given) - set(declared))
    if strange:
        raise invalid(f"the template parameters '{', '.join(strange)}' are not in the template")
    values, shown = {}, {}
    for name, about in declared.items():
        if not isinstance(about, dict):
            raise invalid(f"the template parameter '{name}' is no object")
        kind = str(about.get("type", "")).lower()
        if kind not in _TYPES:
            raise invalid(f"the type of template parameter '{name}' is not valid")
        if name in given:
            if not isinstance(given[name], dict) or "value" not in given[name]:
                raise invalid(f"the template parameter '{name}' has no value")
            value = given[name]["value"]
        elif "defaultValue" in about:
            value = about["defaultValue"]
        else:
            raise invalid(f"the value for the template parameter '{name}' is not provided")
        if not isinstance(value, _TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
            raise invalid(f"the value of template parameter '{name}' is not of type {kind}")
        if "allowedValues" in about and value not in about["allowedValues"]:
            raise invalid(f"the value of template parameter '{name}' is not an allowed one")
        values[name] = value
        shown[name] = {"type": kind, **({} if kind.startswith("secure") else {"value": value})}
    return values, shown


def _part(scope: Scope, asked: Any, number: int) -> Part:
    if not isinstance(asked, dict):
        raise invalid(f"resource {number + 1} is no object")
    for member in ("type", "apiVersion", "name"):
        if not isinstance(asked.get(member), str):
            raise invalid(f"resource {number + 1} has no '{member}'")
    if not isinstance(asked.get("dependsOn", []), list):
        raise invalid(f"'dependsOn' of '{asked['name']}' is no list")
    for member in ("copy", "condition", "resources"):
        if member in asked:
            raise invalid(f"the emulated cloud does not know '{member}' of a resource")
    try:
        name, kind = scope.value(asked["name"]), scope.value(asked["type"])
        needs = {str(scope.value(one)).lower() for one in asked.get("dependsOn") or ()}
        above = str(scope.value(asked.get("scope", ""))) or scope.group["id"]
    except Later as error:
        raise invalid(f"reference('{error}') cannot stand in a name, scope or dependsOn") from None
    if kind.count("/") != name.count("/") + 1:
        raise invalid(
            f"the template resource '{name}' of type '{kind}' has incorrect segment lengths"
        )
    group = scope.group["name"]
    own = resource_id(f"{SUBSCRIPTION}|{group}", kind, *name.split("/"))
    if above != scope.group["id"]:
        own = above + own.removeprefix(scope.group["id"])
    return Part(own, kind, asked["apiVersion"], asked, needs)


def _ordered(parts: list[Part]) -> list[Part]:
    """In the order of their needs.

    Raises:
        Refused: one depends on what the template has not, on itself in a circle, or is there twice.
    """
    known: dict[str, Part] = {}
    for one in parts:
        if one.id.lower() in known:
            raise invalid(f"the resource '{one.id}' is defined multiple times in a template")
        known[one.id.lower()] = one
    for one in parts:
        # By name alone, too, as a template may.
        by_name = {key.rpartition("/")[2]: key for key in known}
        one.needs = {by_name.get(need, need) for need in one.needs}
        for need in one.needs - set(known):
            raise invalid(f"the resource '{need}' is not defined in the template")
    left, order = list(parts), list[Part]()
    while left:
        free = [one for one in left if one.needs <= {done.id.lower() for done in order}]
        if not free:
            names = ", ".join(one.id for one in left)
            raise invalid(f"circular dependency detected on resources: '{names}'")
        order += free
        left = [one for one in left if one not in free]
    return order


def body_of(asked: Document) -> Document:
    return {key: one for key, one in asked.items() if key not in _OF_RESOURCE}


def preflight(cloud: Cloud, made: Deployment) -> None:
    """Refuse what Azure refuses before a deployment begins, each resource's own words in details.

    Raises:
        Refused: InvalidTemplateDeployment.
    """
    errors: list[Document] = []
    wanted = []
    for one in made.parts:
        body = body_of(made.scope.settled(one.asked))
        try:
            cloud.validate(one.kind, body, one.version)
            resource, before = cloud.planned(one.id, body, one.version)
            cloud.preflight(resource, before)
            asked = demand(one.kind, resource.body)
            if asked and before is None:
                wanted.append(asked)
        except Refused as refused:
            errors.append({**refused.error, "target": one.id})
    try:
        refuse_quota(cloud, wanted)
    except Refused as refused:
        errors.append(refused.error)
    if errors:
        raise Refused(
            400,
            "InvalidTemplateDeployment",
            f"The template deployment '{made.id.rpartition('/')[2]}' is not valid according to the"
            f" validation procedure. The tracking id is '{made.correlation}'. See inner errors for"
            " details.",
            details=errors,
        )


def begin(cloud: Cloud, made: Deployment) -> Operation:
    """Begin to deploy."""
    made.operation = cloud.operate(lambda: _deploy(cloud, made), 0.5, made.id)
    return made.operation


def cancel(cloud: Cloud, made: Deployment) -> None:
    """End a deployment that runs: it makes nothing more, and what it has begun goes on alone.

    Raises:
        Refused: it does not run.
    """
    with cloud.lock:
        operation = made.operation
        if operation is None or operation.done.is_set():
            state = made.document()["properties"]["provisioningState"]
            said = f"The deployment '{made.id.rpartition('/')[2]}' is in state '{state}'"
            raise Refused(409, "DeploymentCannotBeCancelled", f"{said} and cannot be canceled.")
        operation.status = "Canceled"
        operation.done.set()


def _deploy(cloud: Cloud, made: Deployment) -> None:
    by_id = {one.id.lower(): one for one in made.parts}

    def run(one: Part) -> None:
        needs = [by_id[need] for need in one.needs]
        for need in needs:
            need.done.wait()
        try:
            if all(need.state == "Succeeded" for need in needs):
                one.error = _make(cloud, made, one)
                if one.begun:
                    one.state = "Failed" if one.error else "Succeeded"
        finally:
            one.state = one.state or "Canceled"
            one.done.set()

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in made.parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    details = [one.error for one in made.parts if one.error]
    if not details:
        try:
            made.outputs = {
                name: {"type": one["type"], "value": made.scope.value(one["value"])}
                for name, one in (made.template.get("outputs") or {}).items()
            }
        except Later as error:
            details = [
                {"code": "ResourceNotFound", "message": f"The Resource '{error}' not found."}
            ]
    if details:
        made.error = {
            "code": "DeploymentFailed",
            "target": made.id,
            "message": "At least one resource deployment operation failed. Please list deployment"
            " operations for details. Please see https://aka.ms/arm-deployment-operations for usage"
            " details.",
            "details": details,
        }
        said = dict(made.error)
        raise Refused(409, said.pop("code"), said.pop("message"), **said)


def _make(cloud: Cloud, made: Deployment, one: Part) -> Document | None:
    """Make one resource, unless the deployment was canceled; what stands against it."""
    try:
        with cloud.lock:
            if made.canceled:
                return None
            one.begun = now()
            body = body_of(made.scope.value(one.asked))
            cloud.validate(one.kind, body, one.version)
            resource, _ = cloud.put(one.id, body, one.version)
            operation = resource.busy
    except Later as error:
        return {
            "code": "ResourceNotFound",
            "message": f"The Resource '{error}' was not found: reference() needs what is there.",
        }
    except Refused as refused:
        return {**refused.error, "target": one.id}
    except Exception as error:  # noqa: BLE001 WHY: whoever waits for it must see an end
        cloud.broken.append(traceback.format_exc())
        said = f"The emulated cloud itself failed: {error!r}"
        return {"code": "InternalServerError", "message": said}
    assert operation is not None
    operation.done.wait()
    if not operation.error:
        return None
    return {
        "code": "ResourceDeploymentFailure",
        "target": one.id,
        "message": "The resource write operation failed to complete successfully, because it"
        " reached terminal provisioning state 'Failed'.",
        "details": [operation.error],
    }


# ---- what-if ------------------------------------------------------------------------------------


def what_if(cloud: Cloud, made: Deployment, *, ids_only: bool) -> Document:
    """What a deployment would change."""
    changes = []

    def unknown(path: str, _: bool) -> Any:
        # Azure's what-if works no reference() out.
        raise Later(path)

    scope = replace(made.scope, reference=unknown)
    named = {one.id.lower() for one in made.parts}
    for one in made.parts:
        body = body_of(scope.settled(one.asked))
        head = {"id": one.id, "name": one.id.rpartition("/")[2], "type": one.kind}
        after = {
            "apiVersion": one.version,
            **head,
            **{k: v for k, v in body.items() if k != "name"},
        }
        there = cloud.resources.get(one.id.lower())
        change: Document = {"resourceId": one.id, "changeType": "Create"}
        if there is not None:
            before = _before(cloud, there, one.version)
            delta = _delta(before, after)
            change["changeType"] = "Modify" if delta else "NoChange"
            change["before"] = before
            if delta:
                change["delta"] = delta
        change["after"] = after
        changes.append(change)
    for resource in cloud.within(made.group):
        # Parts of another resource, and rights, are not looked at.
        if (
            resource.key not in named
            and resource.kind.count("/") == 1
            and ("/providers/microsoft.authorization/" not in resource.key)
        ):
            before = _before(cloud, resource, resource.version)
            changes.append(
                {
                    "resourceId": resource.id,
                    "changeType": "Ignore",
                    "before": before,
                    "after": before,
                }
            )
    if ids_only:
        keep = ("resourceId", "changeType")
        changes = [{key: one[key] for key in keep} for one in changes]
    return {"changes": changes}


def _before(cloud: Cloud, resource: Resource, version: str) -> Document:
    """A resource without what only Azure sets; with what it adds where nothing was said."""
    provider = cloud.provider(resource.kind)
    body = copy.deepcopy(resource.body)
    head = {"id": resource.id, "name": resource.name, "type": resource.kind, "apiVersion": version}
    properties = {**copy.deepcopy(provider.defaults), **(body.pop("properties", None) or {})}
    return {**head, **body, "properties": unsecret(properties)}


_NEVER_READ = {"customData", "adminPassword", "apiVersion"}


def _delta(before: Any, after: Any) -> list[Document]:
    """Each property that differs: objects member by member, lists as a whole by place."""
    found: list[Document] = []
    for name in [*after, *(key for key in before if key not in after)]:
        if name in _NEVER_READ:
            continue
        if name not in before:
            found.append(_change(name, "Create", None, after[name]))
        elif name not in after:
            found.append(_change(name, "Delete", before[name], None))
        else:
            found += _of_values(name, before[name], after[name])
    return found


def _of_values(name: str, old: Any, new: Any) -> list[Document]:
    if isinstance(old, dict) and isinstance(new, dict):
        inner = _delta(old, new)
        for one in inner:
            one["path"] = f"{name}.{one['path']}"
        return inner
    if isinstance(old, list) and isinstance(new, list):
        children: list[Document] = []
        for number in range(max(len(old), len(new))):
            if number >= len(old):
                children.append(_change(str(number), "Create", None, new[number]))
            elif number >= len(new):
                children.append(_change(str(number), "Delete", old[number], None))
            else:
                inner = _of_values(str(number), old[number], new[number])
                nested = isinstance(old[number], dict) and isinstance(new[number], dict)
                if inner and nested:
                    for one in inner:
                        one["path"] = one["path"].removeprefix(f"{number}.")
                    children.append(
                        {**_change(str(number), "Modify", None, None), "children": inner}
                    )
                else:
                    children += inner
        if not children:
            return []
        return [{**_change(name, "Array", None, None), "children": children}]
    same = old == new or (name in ("id", "type", "location") and _folded(old) == _folded(new))
    return [] if same else [_change(name, "Modify", old, new)]


def _folded(value: Any) -> str:
    return str(value).replace(" ", "").lower()


def _change(path: str, kind: str, before: Any, after: Any) -> Document:
    found = {"path": path, "propertyChangeType": kind, "before": before, "after": after}
    return {key: one for key, one in found.items() if one is not None}


def in_group(path: str) -> tuple[str, list[str]] | None:
    """The group of a path to deployments, and what stands behind the word."""
    # Azure's own client asks for operations without the provider's name.
    path = re.sub(r"(?i)(/resourcegroups/[^/]+)(/deployments/)", rf"\1/providers/{_SPACE}\2", path)
    asked = target(path)
    if not asked or f"{asked.namespace}/{(asked.kinds or ('',))[0]}".lower() != KIND.lower():
        return None
    _, _, rest = path.partition("/deployments")
    return asked.group, [word for word in rest.split("/") if word]
