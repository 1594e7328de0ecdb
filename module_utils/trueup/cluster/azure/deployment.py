"""One deployment in one place: what stands against it, its resource group, what would change, the
deployment itself and what it is refused with.

Shapes: azure-mgmt-resource (deployments, what-if, operations) and azure-mgmt-compute (SKUs, usages,
instances of sets), which are generated from Microsoft's specification.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ... import rest
from ...errors import BadInput, TrueupError
from . import availability, nfs, switch, windows
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
    "AuthorizationFailed": f"the login needs the role Contributor; {switch.RIGHTS}",
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
    """What Azure did not make, its innermost code, and what it said."""

    what: str
    code: str
    said: str

    def __str__(self) -> str:
        advice = _ADVICE.get(self.code)
        said = self.said.rstrip(".")
        return f"{self.what}: {said}{f' - {advice}' if advice else ''}"


class NotDeployed(TrueupError):
    """Azure did not make all of it; ``failures`` say what and why."""

    def __init__(self, name: str, failures: Sequence[Failure], request: str = "") -> None:
        some = "; ".join(dict.fromkeys(str(one) for one in failures))
        super().__init__(f"deployment {name} failed: {some}{request}")
        self.failures = tuple(failures)

    @property
    def no_room(self) -> bool:
        """Whether nothing but room or quota was missing."""
        return bool(self.failures) and all(one.code in NO_ROOM for one in self.failures)


class Change(NamedTuple):
    """What the deployment would do to one resource.

    Attributes:
        what: its type and name.
        kind: Azure's word: Create, Modify, Deploy, Delete, NoChange, Ignore, Unsupported.
        before, after: what changes, as text; all of it of what is created.
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
    """A run's deployment in one place.

    Args:
        manager: asks Azure; the first of its subscriptions is deployed to.
        made: what is deployed, and where.
        run: the run's id.
        tell: is told how it goes.
        password: of Windows nodes.
    """

    def __init__(
        self,
        manager: Manager,
        made: Parameters,
        catalog: Catalog,
        run: str,
        tell: rest.Tell,
        password: str = "",
    ) -> None:
        self.made = made
        self._password = password
        self.run = run
        self.name = f"trueup-{run}"
        self._manager = manager
        self._catalog = catalog
        self._tell = tell
        subscription = f"/subscriptions/{manager.login.subscriptions[0]}"
        self._subscription = subscription
        self._compute = f"{subscription}/providers/Microsoft.Compute"
        self._group = f"{subscription}/resourcegroups/{made.resource_group}"
        self._path = f"{self._group}/providers/{DEPLOYMENTS}/{self.name}"

    def _version(self, kind: str) -> Dict[str, str]:
        return {"api-version": self._catalog.api_version(kind)}

    # ---- what stands against it -----------------------------------------------------------------

    def against(self) -> Tuple[List[str], List[str]]:
        """What stands against it where it is to be, and what could not be held against Azure's
        answers; a sentence each.

        Raises:
            BadInput: the login may not assign the role of the switch.
        """
        unread = self._look_at_rights()
        against, unknown = self._against(self.made)
        return against, [*unread, *unknown]

    def _look_at_rights(self) -> List[str]:
        """Check the right to assign the role of the switch; a sentence where the login may not read
        its permissions.

        Raises:
            BadInput: it has not that right.
        """
        if switch.missing(self.made):
            return []
        version = self._catalog.api_version(switch.PERMISSIONS)
        answered = False
        # Of a group that is not there, the subscription's hold.
        for scope in (self._subscription, self._group):
            try:
                found = self._manager.every(f"{scope}/providers/{switch.PERMISSIONS}", version)
            except rest.Refused as error:
                if error.status not in (_FORBIDDEN, *([_NOT_FOUND] if answered else [])):
                    raise
                continue
            answered = True
            if switch.may_assign(found):
                return []
        if answered:
            raise BadInput(f"the login lacks a {switch.NEED}")
        return [f"the login may not read its permissions, so this is not checked: {switch.NEED}"]

    def _against(self, made: Parameters) -> Tuple[List[str], List[str]]:
        skus = self._manager.every(
            f"{self._compute}/skus",
            self._catalog.api_version(_SKUS),
            **{"$filter": f"location eq '{made.region}'"},
        )
        usages = self._manager.every(
            f"{self._compute}/locations/{made.region}/usages", self._catalog.api_version(_USAGES)
        )
        quotas = availability.held_against(availability.needs(made, self._catalog), usages)
        problems = [(one.missing, one.problem()) for one in quotas]
        found = availability.restrictions(made, skus)
        found += [text for missing, text in problems if missing and text]
        return found, [text for missing, text in problems if not missing and text]

    def nearest(self) -> str:
        """Which other region has all of it, in a sentence."""
        near, unplaced = self._catalog.others(list(self.made.sizes().values()), self.made.region)
        places = [(name, f" ({km:.0f} km)") for name, km in near] + [(one, "") for one in unplaced]
        for name, far in places[:_MOST_REGIONS]:
            if not self._against(replace(self.made, region=name, zone=""))[0]:
                return f"the nearest region that has all of it for this subscription is {name}{far}"
        asked = ", ".join(name for name, _ in places[:_MOST_REGIONS])
        return f"none of {asked} has all of it for this subscription" if asked else ""

    # ---- the resource group ---------------------------------------------------------------------

    def group(self) -> Optional[Dict[str, Any]]:
        """The resource group; None where there is none. One that Azure deletes is waited for.

        Raises:
            BadInput: it is another run's or nobody's of ours, or in another region.
        """
        found = self._got(self._group, GROUPS)
        if found is None:
            return None
        state = (found.get("properties") or {}).get("provisioningState")
        if str(state).lower() == "deleting":
            self._wait_for_removal()
            return None
        name, tags = self.made.resource_group, found.get("tags") or {}
        if tags.get("run") != self.run:
            whose = "nobody's of trueup" if "run" not in tags else f"of the run {tags['run']}"
            raise BadInput(
                f"the resource group {name} is there and is {whose}: remove it (`ansible-playbook"
                " playbooks/teardown.yml`), or give another resource_group"
            )
        if str(found.get("location", "")).lower() != self.made.region:
            raise BadInput(
                f"the resource group {name} of this run is in {found.get('location')}, and region"
                f" is {self.made.region}: remove the run first"
            )
        return found

    def make_group(self) -> None:
        """Make the resource group, unless it is there."""
        if self.group() is None:
            body = arm.resource_group(self.made, self.run)
            answer = self._manager.request("PUT", self._group, self._version(GROUPS), body)
            self._manager.finished(answer, f"resource group {self.made.resource_group}")

    def remove(self) -> None:
        """Remove the run, and wait until it is gone.

        Raises:
            TrueupError: something is left, such as a group that holds a resource of somebody else.
        """
        removal = Teardown(self._manager, self._catalog, self.run, self._tell)
        groups = removal.end()
        if groups:
            left = removal.left(groups, lambda *_: None)
            raise TrueupError("; ".join(left.sentences(self.run)))

    def _wait_for_removal(self) -> None:
        version = self._version(GROUPS)["api-version"]
        here = f"{self._manager.url}{self._group}?api-version={version}"
        order = rest.Answer(202, {"location": here}, b"", "DELETE", here)
        what = f"removal of resource group {self.made.resource_group}, which goes on"
        self._manager.finished(order, what, tell=self._tell)

    # ---- the deployment -------------------------------------------------------------------------

    def standing(self) -> Optional[str]:
        """The state of the run's deployment in small letters; None where there is none."""
        found = self._got(self._path, DEPLOYMENTS)
        if found is None:
            return None
        return str((found.get("properties") or {}).get("provisioningState", "")).lower()

    def deploy(self, key: str) -> None:
        """Deploy, or go on with the deployment that runs.

        Args:
            key: the run's public key.

        Raises:
            NotDeployed: Azure did not make all of it.
        """
        what = f"deployment {self.name}"
        version = self._version(DEPLOYMENTS)
        try:
            if self.standing() in ("accepted", "running"):
                answer = self._manager.request("GET", self._path, version)
            else:
                answer = self._ordered(key)
            self._manager.finished(answer, what, tell=self._tell)
        except rest.Failed as error:
            raise self._not_deployed(error) from None
        except rest.Refused as error:
            known = error.code in _ADVICE or _is_quota(error.code, error.said)
            if error.status in _NOT_ALLOWED or not known:
                raise
            failure = _failure("the template", error.code, str(error))
            raise NotDeployed(self.name, [failure]) from None

    def _ordered(self, key: str) -> rest.Answer:
        version = self._version(DEPLOYMENTS)
        try:
            return self._manager.request("PUT", self._path, version, self._body(key))
        except rest.Lost:
            # Azure may have taken it.
            if self.standing() is None:
                raise
            return self._manager.request("GET", self._path, version)

    def _body(self, key: str) -> Dict[str, Any]:
        template = self._template()
        parameters = {arm.KEY: {"value": key}}
        if self.made.nodes.windows:
            parameters[windows.PASSWORD] = {"value": self._password}
        properties = {"mode": "Incremental", "template": template, "parameters": parameters}
        return {"properties": properties}

    def _template(self) -> Dict[str, Any]:
        return arm.template(self.made, self._catalog, self.run, self._manager.url)

    def _not_deployed(self, error: rest.Failed) -> NotDeployed:
        """What the operations of the deployment say; what it said itself where they cannot be
        had."""
        try:
            version = self._catalog.api_version(DEPLOYMENTS)
            rows = self._manager.every(f"{self._path}/operations", version)
        except TrueupError:
            rows = []
        found = [one for row in rows if (one := _failed(row.get("properties")))]
        if found:
            return NotDeployed(self.name, found, error.request)
        return NotDeployed(self.name, [_failure("Azure", error.code, str(error))])

    def what_if(self, key: str) -> List[Change]:
        """What the deployment would change; of a group that is not there, Azure is not asked, and
        all is created."""
        if self.group() is None:
            return [
                Change(f"{one['type']}/{one['name']}", "Create", after=_text(one))
                for one in self._template()["resources"]
            ]
        path, version = f"{self._path}/whatIf", self._version(DEPLOYMENTS)
        answer = self._manager.request("POST", path, version, self._body(key), question=True)
        document = self._manager.finished(answer, f"what-if of {self.name}", tell=self._tell)
        properties = document.get("properties")
        rows = properties.get("changes") if isinstance(properties, Mapping) else None
        if not isinstance(rows, list):
            raise TrueupError(f"Azure's what-if of {self.name} has no list of changes")
        return [_change(row) for row in rows]

    # ---- its machines ---------------------------------------------------------------------------

    def machines(self) -> List[Machine]:
        """The run's machines as Resource Graph lists them, up to a minute late."""
        groups = [self.made.resource_group]
        every = machines(self._manager, groups, groups)
        return [one for one in every if one.tags.get("run") == self.run]

    def security(self, of: Sequence[Machine]) -> Dict[str, Security]:
        """The security of machines as Azure has made them, by their names.

        Raises:
            TrueupError: Azure does not list one of them.
        """
        sets = dict.fromkeys(one.scale_set_id for one in of if one.uniform)
        paths = [(f"{path}/virtualMachines", _SETS) for path in sets]
        if any(not one.uniform for one in of):
            paths.append((f"{self._group}/providers/{_MACHINES}", _MACHINES))
        found = {}
        for path, kind in paths:
            for row in self._manager.every(path, self._catalog.api_version(kind)):
                found[str(row.get("id")).lower()] = _security(row.get("properties"))
        unlisted = [one.name for one in of if one.id.lower() not in found]
        if unlisted:
            raise TrueupError(f"Azure lists no properties of {', '.join(unlisted)}")
        return {one.name: found[one.id.lower()] for one in of}

    def mounts(self) -> List[Dict[str, str]]:
        """What nodes mount, as the role shared_storage takes it.

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
        found = (self._got(where, kind) or {}).get("properties") or {}
        if self.made.storage.kind == "anf":
            targets = found.get("mountTargets") or [{}]
            address, share = targets[0].get("ipAddress"), f":/{path.rpartition('/')[2]}"
        else:
            address = (found.get("clientInfo") or {}).get("mgsAddress")
            share = "@tcp:/lustrefs"
        if not address:
            raise TrueupError(f"Azure names no address at which {path} is mounted")
        return [{"path": MOUNTED, "kind": self.made.storage.kind, "source": f"{address}{share}"}]

    def discard(self, unwanted: Sequence[Machine]) -> None:
        """Remove machines, and wait until they are gone."""
        by_set: Dict[str, List[str]] = {}
        for one in unwanted:
            if one.uniform:
                by_set.setdefault(one.scale_set_id, []).append(one.id.rpartition("/")[2])
        orders = [
            ("POST", f"{path}/delete", _SETS, {"instanceIds": ids}) for path, ids in by_set.items()
        ]
        orders += [("DELETE", one.id, _MACHINES, {}) for one in unwanted if not one.uniform]
        for method, path, kind, body in orders:
            answer = self._manager.request(method, path, self._version(kind), body or None)
            self._manager.finished(answer, f"removal of {path.rpartition('/providers/')[2]}")

    def _got(self, path: str, kind: str) -> Optional[Dict[str, Any]]:
        try:
            answer = self._manager.request("GET", path, self._version(kind))
        except rest.Refused as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        return self._manager.document(answer, f"GET {path}")


def _is_quota(code: str, said: str) -> bool:
    return code == "OperationNotAllowed" and "quota" in said.lower()


def _failure(what: str, code: str, said: str) -> Failure:
    return Failure(what, QUOTA if _is_quota(code, said) else code, said)


def _failed(properties: Any) -> Optional[Failure]:
    """An operation of a deployment that failed; None of any other."""
    if not isinstance(properties, Mapping):
        return None
    if str(properties.get("provisioningState")).lower() != "failed":
        return None
    message = properties.get("statusMessage")
    error = message.get("error") if isinstance(message, Mapping) else None
    target = properties.get("targetResource") or {}
    what = f"{target.get('resourceType', 'a resource')} {target.get('resourceName', '')}".strip()
    if not isinstance(error, Mapping):
        return Failure(what, str(properties.get("statusCode", "")), str(message)[:200])
    inner = rest.innermost(error)
    code, said = str(inner.get("code", "")), " ".join(str(inner.get("message", "")).split())
    return _failure(what, code, f"{code}: {said}")


def _change(row: Any) -> Change:
    if not isinstance(row, Mapping) or not isinstance(row.get("resourceId"), str):
        raise TrueupError("Azure's what-if has a change without a resourceId")
    what = row["resourceId"].rpartition("/providers/")[2]
    kind, why = str(row.get("changeType")), str(row.get("unsupportedReason") or "")
    if kind == "Create":
        return Change(what, kind, after=_text(row.get("after")))
    if kind == "Delete":
        return Change(what, kind, before=_text(row.get("before")))
    if kind != "Modify":
        return Change(what, kind, why=why)
    lines = _deltas(row.get("delta") or [], "")
    before, after = ("".join(f"{path}: {one[side]}\n" for path, *one in lines) for side in (0, 1))
    return Change(what, kind, before, after)


def _deltas(rows: Any, where: str) -> List[Tuple[str, str, str]]:
    """Path, before and after of each property that changes.

    What reads as deleted is what Azure filled in and the template does not name; what refers to
    another resource's state (``reference()``) is not worked out by what-if, and always differs.
    """
    found = []
    for row in rows if isinstance(rows, list) else []:
        path, kind = f"{where}{row.get('path')}", row.get("propertyChangeType")
        after = row.get("after")
        referred = isinstance(after, str) and after.startswith("[") and "reference(" in after
        if kind in ("NoEffect", "Delete") or referred:
            continue
        if row.get("children"):
            found += _deltas(row["children"], f"{path}.")
        else:
            found.append((path, _plain(row.get("before")), _plain(after)))
    return found


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _text(resource: Any) -> str:
    """A resource, less what no reader reads."""
    if isinstance(resource, Mapping):
        resource = _without(resource)
    return json.dumps(resource, indent=2, sort_keys=True) + "\n"


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: f"({len(str(part))} characters)" if name == "customData" else _without(part)
            for name, part in value.items()
        }
    return [_without(part) for part in value] if isinstance(value, list) else value
