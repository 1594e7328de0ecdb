"""One deployment in one region or zone: obstacles, resource group, expected changes, the deployment
itself and its errors.

Shapes: azure-mgmt-resource (deployments, what-if, operations) and azure-mgmt-compute (SKUs, usages,
instances of sets), which are generated from Microsoft's specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace
from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

from . import availability, nfs, self_destruct, windows
from . import template as arm
from .catalog import Catalog
from .machines import Machine, machines
from .manager import Manager
from .parameters import Parameters
from .teardown import Teardown

GROUPS, DEPLOYMENTS = "Microsoft.Resources/resourceGroups", "Microsoft.Resources/deployments"
_SKUS, _USAGES = "Microsoft.Compute/skus", "Microsoft.Compute/locations/usages"
_MACHINES = "Microsoft.Compute/virtualMachines"
_SETS = "Microsoft.Compute/virtualMachineScaleSets"
# Where nodes have the shared storage.
MOUNTED = "/shared"
# Other regions that are asked whether they have all of it.
_MOST_REGIONS = 5
_NOT_FOUND, _FORBIDDEN, _NOT_ALLOWED = 404, 403, (401, 403)

QUOTA = "QuotaExceeded"
# With these Azure has no room or no quota, and another place may.
NO_ROOM = frozenset(
    {
        "AllocationFailed",
        "ZonalAllocationFailed",
        "OverconstrainedAllocationRequest",
        "SkuNotAvailable",
        QUOTA,
    }
)
_PLACES = "name other places in elsewhere"
_ADVICE: Mapping[str, str] = {
    "SkuNotAvailable": "Azure has none of this size here for the subscription (spot is not sold"
    f" with every offer): {_PLACES}",
    "AllocationFailed": f"Azure has no room for it now: wait, take fewer nodes, or {_PLACES}",
    "ZonalAllocationFailed": f"the zone has no room for it now: wait, leave out zone, or {_PLACES}",
    "OverconstrainedAllocationRequest": "Azure has no room that meets size, zone, priority and"
    f" placement together: leave out nodes.proximity or zone, or {_PLACES}",
    QUOTA: f"ask for more quota (Azure portal, Quotas), or {_PLACES}",
    "MarketplacePurchaseEligibilityFailed": "the terms of the image are not accepted, or its plan"
    " is not sold to the subscription: `az vm image terms accept`, or give another image",
    "AuthorizationFailed": f"the login needs the role Contributor; {self_destruct.RIGHTS}",
    "RequestDisallowedByPolicy": "a policy forbids it: ask its keeper, or change what it names",
    "InvalidTemplateDeployment": "Azure refuses the template before it makes anything",
    "RetryableErrorDueToAnotherOperation": "another operation goes on: run it again",
    "ImageNotFound": "the image is not offered here, or not any more: give another as image",
    "PlatformImageNotFound": "the image is not offered here, or not any more: give another as"
    " image",
    "LocationNotAvailableForResourceType": "the region does not have this service: take another",
    "MissingSubscriptionRegistration": "`az provider register --namespace` with the namespace that"
    " it names, and run it again",
}


class Failure(NamedTuple):
    """A resource that Azure did not make, the innermost error code, and Azure's message."""

    what: str
    code: str
    said: str

    def __str__(self) -> str:
        advice = _ADVICE.get(self.code)
        message = self.said.rstrip(".")
        return f"{self.what}: {message}{f' - {advice}' if advice else ''}"


class NotDeployed(TrueupError):
    """Azure did not make all resources; ``failures`` lists each one with the reason."""

    def __init__(self, name: str, failures: Sequence[Failure], request: str = "") -> None:
        some = "; ".join(dict.fromkeys(str(failure) for failure in failures))
        super().__init__(f"deployment {name} failed: {some}{request}")
        self.failures = tuple(failures)

    @property
    def no_room(self) -> bool:
        """Whether nothing but room or quota was missing."""
        return bool(self.failures) and all(failure.code in NO_ROOM for failure in self.failures)


class Change(NamedTuple):
    """The effect of the deployment on one resource.

    Attributes:
        what: its type and name.
        kind: Azure's word: Create, Modify, Deploy, Delete, NoChange, Ignore, Unsupported.
        before, after: the changed properties, as text; of a new resource all properties.
        why: of Unsupported, Azure's reason.
    """

    what: str
    kind: str
    before: str = ""
    after: str = ""
    why: str = ""

    @property
    def counts(self) -> bool:
        """Whether the resource would be another one."""
        if self.kind == "Modify":
            return self.before != self.after
        return self.kind in ("Create", "Deploy", "Delete")


class Security(NamedTuple):
    """Security type of a machine, as parameters have it, and whether Secure Boot is on."""

    kind: str
    secure_boot: bool


def _security(properties: Any) -> Security:
    """That of a machine's properties; without a profile it is standard."""
    profile = (properties if isinstance(properties, Mapping) else {}).get("securityProfile") or {}
    kind = str(profile.get("securityType") or "standard")
    settings = profile.get("uefiSettings") or {}
    kind = {"trustedlaunch": "trusted_launch"}.get(kind.lower(), kind.lower())
    return Security(kind, settings.get("secureBootEnabled") is True)


class Deployment:
    """A run's deployment in one region or zone.

    Args:
        manager: asks Azure; the first of its subscriptions is deployed to.
        parameters: of the deployment, with its region and zone.
        run: the run's id.
        tell: gets progress messages.
        password: of Windows nodes.
    """

    def __init__(
        self,
        manager: Manager,
        parameters: Parameters,
        catalog: Catalog,
        run: str,
        tell: rest.Tell,
        password: str = "",
    ) -> None:
        self.made = parameters
        self._password = password
        self.run = run
        self.name = f"trueup-{run}"
        self._manager = manager
        self._catalog = catalog
        self._tell = tell
        subscription = f"/subscriptions/{manager.login.subscriptions[0]}"
        self._subscription = subscription
        self._compute = f"{subscription}/providers/Microsoft.Compute"
        self._group = f"{subscription}/resourcegroups/{parameters.resource_group}"
        self._path = f"{self._group}/providers/{DEPLOYMENTS}/{self.name}"

    def _version(self, kind: str) -> dict[str, str]:
        return {"api-version": self._catalog.api_version(kind)}

    # ---- obstacles ------------------------------------------------------------------------------

    def against(self) -> tuple[list[str], list[str]]:
        """What stands against it where it is to be, and what could not be held against Azure's
        answers; a sentence each.

        Raises:
            BadInput: the login may not assign the role of the switch.
        """
        unread = self._look_at_rights()
        against, unknown = self._against(self.made)
        return against, [*unread, *unknown]

    def _look_at_rights(self) -> list[str]:
        """Check the right to assign the role of the switch; a sentence where the login may not read
        its permissions.

        Raises:
            BadInput: it has not that right.
        """
        if self_destruct.missing(self.made):
            return []
        version = self._catalog.api_version(self_destruct.PERMISSIONS)
        answered = False
        # Of a group that is not there, the subscription's hold.
        for scope in (self._subscription, self._group):
            try:
                found = self._manager.every(
                    f"{scope}/providers/{self_destruct.PERMISSIONS}", version
                )
            except rest.Refused as error:
                if error.status not in (_FORBIDDEN, *([_NOT_FOUND] if answered else [])):
                    raise
                continue
            answered = True
            if self_destruct.may_assign(found):
                return []
        if answered:
            raise BadInput(f"the login lacks a {self_destruct.NEED}")
        return [
            f"the login may not read its permissions, so this is not checked: {self_destruct.NEED}"
        ]

    def _against(self, parameters: Parameters) -> tuple[list[str], list[str]]:
        skus = self._manager.every(
            f"{self._compute}/skus",
            self._catalog.api_version(_SKUS),
            **{"$filter": f"location eq '{parameters.region}'"},
        )
        usages = self._manager.every(
            f"{self._compute}/locations/{parameters.region}/usages",
            self._catalog.api_version(_USAGES),
        )
        quotas = availability.held_against(availability.needs(parameters, self._catalog), usages)
        problems = [(quota.missing, quota.problem()) for quota in quotas]
        obstacles = availability.restrictions(parameters, skus)
        obstacles += [text for missing, text in problems if missing and text]
        return obstacles, [text for missing, text in problems if not missing and text]

    def nearest(self) -> str:
        """Which other region has all of it, in a sentence."""
        near, unplaced = self._catalog.others(list(self.made.sizes().values()), self.made.region)
        places = [(name, f" ({km:.0f} km)") for name, km in near] + [
            (region, "") for region in unplaced
        ]
        for name, far in places[:_MOST_REGIONS]:
            if not self._against(replace(self.made, region=name, zone=""))[0]:
                return f"the nearest region that has all of it for this subscription is {name}{far}"
        region_names = ", ".join(name for name, _ in places[:_MOST_REGIONS])
        return f"none of {region_names} has all of it for this subscription" if region_names else ""

    # ---- the resource group ---------------------------------------------------------------------

    def group(self) -> dict[str, Any] | None:
        """The resource group; None where there is none. One that Azure deletes is waited for.

        Raises:
            BadInput: it belongs to another run or to no run, or is in another region.
        """
        group = self._got(self._group, GROUPS)
        if group is None:
            return None
        state = (group.get("properties") or {}).get("provisioningState")
        if str(state).lower() == "deleting":
            self._wait_for_removal()
            return None
        name, tags = self.made.resource_group, group.get("tags") or {}
        if tags.get("run") != self.run:
            whose = "nobody's of trueup" if "run" not in tags else f"of the run {tags['run']}"
            raise BadInput(
                f"the resource group {name} is there and is {whose}: remove it (`ansible-playbook"
                " playbooks/teardown.yml`), or give another resource_group"
            )
        if str(group.get("location", "")).lower() != self.made.region:
            raise BadInput(
                f"the resource group {name} of this run is in {group.get('location')}, and region"
                f" is {self.made.region}: remove the run first"
            )
        return group

    def make_group(self) -> None:
        """Make the resource group, unless it is there."""
        if self.group() is None:
            body = arm.resource_group(self.made, self.run)
            response = self._manager.request("PUT", self._group, self._version(GROUPS), body)
            self._manager.finished(response, f"resource group {self.made.resource_group}")

    def remove(self) -> None:
        """Remove the run, and wait until it is gone.

        Raises:
            TrueupError: something is left, such as a group that holds a resource of somebody else.
        """
        removal = Teardown(self._manager, self._catalog, self.run, self._tell)
        groups = removal.end()
        if groups:
            leftovers = removal.left(groups, lambda *_: None)
            raise TrueupError("; ".join(leftovers.sentences(self.run)))

    def _wait_for_removal(self) -> None:
        version = self._version(GROUPS)["api-version"]
        url = f"{self._manager.url}{self._group}?api-version={version}"
        order = rest.Response(202, {"location": url}, b"", "DELETE", url)
        label = f"removal of resource group {self.made.resource_group}, which goes on"
        self._manager.finished(order, label, tell=self._tell)

    # ---- the deployment -------------------------------------------------------------------------

    def standing(self) -> str | None:
        """The state of the run's deployment in small letters; None where there is none."""
        deployment = self._got(self._path, DEPLOYMENTS)
        if deployment is None:
            return None
        return str((deployment.get("properties") or {}).get("provisioningState", "")).lower()

    def deploy(self, key: str) -> None:
        """Deploy, or go on with the deployment that runs.

        Args:
            key: the run's public key.

        Raises:
            NotDeployed: Azure did not make all of it.
        """
        label = f"deployment {self.name}"
        version = self._version(DEPLOYMENTS)
        try:
            if self.standing() in ("accepted", "running"):
                response = self._manager.request("GET", self._path, version)
            else:
                response = self._ordered(key)
            self._manager.finished(response, label, tell=self._tell)
        except rest.Failed as error:
            raise self._not_deployed(error) from None
        except rest.Refused as error:
            is_known = error.code in _ADVICE or _is_quota(error.code, error.said)
            if error.status in _NOT_ALLOWED or not is_known:
                raise
            failure = _failure("the template", error.code, str(error))
            raise NotDeployed(self.name, [failure]) from None

    def _ordered(self, key: str) -> rest.Response:
        version = self._version(DEPLOYMENTS)
        try:
            return self._manager.request("PUT", self._path, version, self._body(key))
        except rest.Lost:
            # Azure may have taken it.
            if self.standing() is None:
                raise
            return self._manager.request("GET", self._path, version)

    def _body(self, key: str) -> dict[str, Any]:
        template = self._template()
        parameters = {arm.KEY: {"value": key}}
        if self.made.nodes.windows:
            parameters[windows.PASSWORD] = {"value": self._password}
        properties = {"mode": "Incremental", "template": template, "parameters": parameters}
        return {"properties": properties}

    def _template(self) -> dict[str, Any]:
        return arm.template(self.made, self._catalog, self.run, self._manager.url)

    def _not_deployed(self, error: rest.Failed) -> NotDeployed:
        """The errors of the deployment's operations; if they cannot be read, the deployment's own
        error."""
        try:
            version = self._catalog.api_version(DEPLOYMENTS)
            rows = self._manager.every(f"{self._path}/operations", version)
        except TrueupError:
            rows = []
        failures = [failure for row in rows if (failure := _failed(row.get("properties")))]
        if failures:
            return NotDeployed(self.name, failures, error.request)
        return NotDeployed(self.name, [_failure("Azure", error.code, str(error))])

    def what_if(self, key: str) -> list[Change]:
        """The changes that the deployment would make. Without a resource group Azure is not asked,
        and every resource is new."""
        if self.group() is None:
            return [
                Change(f"{resource['type']}/{resource['name']}", "Create", after=_text(resource))
                for resource in self._template()["resources"]
            ]
        path, version = f"{self._path}/whatIf", self._version(DEPLOYMENTS)
        response = self._manager.request("POST", path, version, self._body(key), question=True)
        document = self._manager.finished(response, f"what-if of {self.name}", tell=self._tell)
        properties = document.get("properties")
        rows = properties.get("changes") if isinstance(properties, Mapping) else None
        if not isinstance(rows, list):
            raise TrueupError(f"Azure's what-if of {self.name} has no list of changes")
        return [_change(row) for row in rows]

    # ---- its machines ---------------------------------------------------------------------------

    def machines(self) -> list[Machine]:
        """The run's machines as Resource Graph lists them, up to a minute late."""
        groups = [self.made.resource_group]
        every = machines(self._manager, groups, groups)
        return [machine for machine in every if machine.tags.get("run") == self.run]

    def security(self, of: Sequence[Machine]) -> dict[str, Security]:
        """The security of machines as Azure has made them, by their names.

        Raises:
            TrueupError: Azure does not list one of them.
        """
        sets = dict.fromkeys(machine.scale_set_id for machine in of if machine.uniform)
        paths = [(f"{path}/virtualMachines", _SETS) for path in sets]
        if any(not machine.uniform for machine in of):
            paths.append((f"{self._group}/providers/{_MACHINES}", _MACHINES))
        security_by_id = {}
        for path, kind in paths:
            for row in self._manager.every(path, self._catalog.api_version(kind)):
                security_by_id[str(row.get("id")).lower()] = _security(row.get("properties"))
        unlisted = [machine.name for machine in of if machine.id.lower() not in security_by_id]
        if unlisted:
            raise TrueupError(f"Azure lists no properties of {', '.join(unlisted)}")
        return {machine.name: security_by_id[machine.id.lower()] for machine in of}

    def mounts(self) -> list[dict[str, str]]:
        """The mounts of the nodes, as the role shared_storage takes them.

        Raises:
            TrueupError: the storage is there, and Azure names no address of it.
        """
        if self.made.storage.server:
            return [{"path": MOUNTED, "kind": "nfs", "source": nfs.SOURCE}]
        service = arm.shared(self.made)
        if service is None:
            return []
        kind, path = service
        where = f"{self._group}/providers/{path}"
        properties = (self._got(where, kind) or {}).get("properties") or {}
        if self.made.storage.kind == "anf":
            targets = properties.get("mountTargets") or [{}]
            address, share = targets[0].get("ipAddress"), f":/{path.rpartition('/')[2]}"
        else:
            address = (properties.get("clientInfo") or {}).get("mgsAddress")
            share = "@tcp:/lustrefs"
        if not address:
            raise TrueupError(f"Azure names no address at which {path} is mounted")
        return [{"path": MOUNTED, "kind": self.made.storage.kind, "source": f"{address}{share}"}]

    def discard(self, unwanted: Sequence[Machine]) -> None:
        """Remove machines, and wait until they are gone."""
        by_set: dict[str, list[str]] = {}
        for machine in unwanted:
            if machine.uniform:
                by_set.setdefault(machine.scale_set_id, []).append(machine.id.rpartition("/")[2])
        orders = [
            ("POST", f"{path}/delete", _SETS, {"instanceIds": ids}) for path, ids in by_set.items()
        ]
        orders += [
            ("DELETE", machine.id, _MACHINES, {}) for machine in unwanted if not machine.uniform
        ]
        for method, path, kind, body in orders:
            response = self._manager.request(method, path, self._version(kind), body or None)
            self._manager.finished(response, f"removal of {path.rpartition('/providers/')[2]}")

    def _got(self, path: str, kind: str) -> dict[str, Any] | None:
        try:
            response = self._manager.request("GET", path, self._version(kind))
        except rest.Refused as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        return self._manager.document(response, f"GET {path}")


def _is_quota(code: str, message: str) -> bool:
    return code == "OperationNotAllowed" and "quota" in message.lower()


def _failure(subject: str, code: str, message: str) -> Failure:
    return Failure(subject, QUOTA if _is_quota(code, message) else code, message)


def _failed(properties: Any) -> Failure | None:
    """An operation of a deployment that failed; None of any other."""
    if not isinstance(properties, Mapping):
        return None
    if str(properties.get("provisioningState")).lower() != "failed":
        return None
    message = properties.get("statusMessage")
    error = message.get("error") if isinstance(message, Mapping) else None
    target = properties.get("targetResource") or {}
    resource = (
        f"{target.get('resourceType', 'a resource')} {target.get('resourceName', '')}".strip()
    )
    if not isinstance(error, Mapping):
        return Failure(resource, str(properties.get("statusCode", "")), str(message)[:200])
    inner = rest.innermost(error)
    code, text = str(inner.get("code", "")), " ".join(str(inner.get("message", "")).split())
    return _failure(resource, code, f"{code}: {text}")


def _change(row: Any) -> Change:
    if not isinstance(row, Mapping) or not isinstance(row.get("resourceId"), str):
        raise TrueupError("Azure's what-if has a change without a resourceId")
    resource = row["resourceId"].rpartition("/providers/")[2]
    kind, reason = str(row.get("changeType")), str(row.get("unsupportedReason") or "")
    if kind == "Create":
        return Change(resource, kind, after=_text(row.get("after")))
    if kind == "Delete":
        return Change(resource, kind, before=_text(row.get("before")))
    if kind != "Modify":
        return Change(resource, kind, why=reason)
    lines = _deltas(row.get("delta") or [], "")
    before, after = (
        "".join(f"{path}: {sides[side]}\n" for path, *sides in lines) for side in (0, 1)
    )
    return Change(resource, kind, before, after)


def _deltas(rows: Any, where: str) -> list[tuple[str, str, str]]:
    """Path, before and after of each property that changes.

    Two kinds of changes are skipped. A deleted property is one that Azure filled in and the
    template does not name. A property that refers to another resource's state (``reference()``)
    is not computed by Azure's what-if, and always differs.
    """
    deltas = []
    for row in rows if isinstance(rows, list) else []:
        path, kind = f"{where}{row.get('path')}", row.get("propertyChangeType")
        after = row.get("after")
        referred = isinstance(after, str) and after.startswith("[") and "reference(" in after
        if kind in ("NoEffect", "Delete") or referred:
            continue
        if row.get("children"):
            deltas += _deltas(row["children"], f"{path}.")
        else:
            deltas.append((path, _plain(row.get("before")), _plain(after)))
    return deltas


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _text(resource: Any) -> str:
    """A resource as JSON, with its customData shortened."""
    if isinstance(resource, Mapping):
        resource = _without(resource)
    return json.dumps(resource, indent=2, sort_keys=True) + "\n"


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: f"({len(str(child))} characters)" if name == "customData" else _without(child)
            for name, child in value.items()
        }
    return [_without(child) for child in value] if isinstance(value, list) else value
