"""The end of a run on Azure: all resources with its tag ``run`` are deleted, the rest is listed.

The lists come from Azure Resource Manager, which knows a tag at once; Resource Graph is up to a
minute late and only tells which of the remaining machines run. A whole group is deleted if it
carries the run's tag and holds nothing else (``expiry.sort_out`` finds the run's resources); else
the run's resources are deleted one by one. The run's id is enough: no file of the controller is
needed.

Source: https://learn.microsoft.com/rest/api/resources for groups, lists and deployments, and
https://learn.microsoft.com/rest/api/authorization for role assignments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable, NamedTuple

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError
from trueup_node.record import is_run_id
from trueup_node.vm import expiry

from ..desktops.session_host import end_pools
from . import self_destruct
from .catalog import Catalog
from .cost import LIST, SPOT, Find
from .machines import Machine, without_addresses
from .manager import Manager, Row

_DEPLOYMENTS = "Microsoft.Resources/deployments"
GROUPS = "Microsoft.Resources/resourceGroups"
_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)", re.IGNORECASE)
# Order of deletion; a type that is in no stage goes last.
_STAGES: tuple[tuple[str, ...], ...] = (
    (
        "Microsoft.Compute/virtualMachineScaleSets",
        "Microsoft.Compute/virtualMachines",
        "Microsoft.Network/bastionHosts",
        "Microsoft.NetApp/netAppAccounts/capacityPools/volumes",
        "Microsoft.StorageCache/amlFilesystems",
        "Microsoft.DesktopVirtualization/workspaces",
    ),
    (
        "Microsoft.Network/networkInterfaces",
        "Microsoft.NetApp/netAppAccounts/capacityPools",
        "Microsoft.Compute/disks",
        "Microsoft.Compute/proximityPlacementGroups",
        "Microsoft.DesktopVirtualization/applicationGroups",
    ),
    (
        "Microsoft.Network/virtualNetworks",
        "Microsoft.NetApp/netAppAccounts",
        "Microsoft.DesktopVirtualization/hostPools",
    ),
    ("Microsoft.Network/natGateways", "Microsoft.Network/networkSecurityGroups"),
)
_STAGE = {kind.lower(): number for number, kinds in enumerate(_STAGES) for kind in kinds}
_LOCKED = "ScopeLocked"
# Message to the users of a run's host pools, and the seconds that they have.
_POOL_TITLE, _POOL_SECONDS = "This desktop is going away", 300.0
_POOL_TEXT = "Please save your work and sign out within 5 minutes: this desktop is deleted then."
# Of one resource in a row, where another operation holds it.
_ATTEMPTS, _PAUSES = 5, (1.0, 2.0, 5.0, 10.0)
_ROUNDS = 5
_OVER = ("succeeded", "failed", "canceled", "cancelled")
_NO_COMPUTING = ("deallocated", "deallocating")

Tell = Callable[[str], None]


class Group(NamedTuple):
    """A resource group with resources of a run.

    Attributes:
        run: of the group's own tag; empty without one.
        mine: the run's resources in it, as Azure lists them.
        others: the ids of all other resources.
    """

    id: str
    run: str
    mine: list[Row]
    others: list[str]
    whole: bool

    @property
    def name(self) -> str:
        return self.id.rpartition("/")[2]

    @property
    def ids(self) -> list[str]:
        """The ids of the resources to delete."""
        return [resource["id"] for resource in self.mine] + [self.id] * self.whole


class Remaining(NamedTuple):
    """The remaining resources of a run.

    Attributes:
        ids: resources and groups.
        why: by id, Azure's error of its deletion.
        kept: groups that others use, with the ids of theirs.
        where: the subscriptions that were looked at.
        machines: the number that bill computing.
        usd_per_hour: of the resources with a price.
        unpriced: the resources without a price, in words.
    """

    ids: tuple[str, ...]
    why: Mapping[str, str]
    kept: Mapping[str, tuple[str, ...]]
    where: tuple[str, ...]
    machines: int = 0
    usd_per_hour: float = 0.0
    unpriced: tuple[str, ...] = ()

    def sentences(self, run: str) -> list[str]:
        """All of it, for a reader."""
        sentences = [
            f"group {name} is kept, for it holds {len(theirs)} resources that are not of run {run}:"
            f" {_some(theirs, expiry.MOST_NAMES)}"
            for name, theirs in self.kept.items()
        ]
        if not self.ids:
            return [
                *sentences,
                f"nothing is left of run {run} in subscription {' or '.join(self.where)}",
            ]
        head = f"{len(self.ids)} left of run {run}: {self.cost_sentence()}"
        return [
            *sentences,
            head,
            *(
                f"{resource_id}: {self.why.get(resource_id, 'still there')}"
                for resource_id in self.ids
            ),
        ]

    def cost_sentence(self) -> str:
        """The running cost, in a sentence."""
        least = "at least " if self.unpriced else ""
        text = (
            f"{self.machines} machines bill computing, {least}{self.usd_per_hour:,.2f} US$ an hour"
        )
        if self.unpriced:
            text += f", {len(self.unpriced)} without a price ({_some(self.unpriced)})"
        return text


def tagged(manager: Manager, kind: str, version: str, run: str = "") -> list[Row]:
    """The groups (``resourcegroups``) or resources that carry a run's tag, or any run's.

    The list is looked through again: a server that overlooks the filter lists everything.
    """
    tag_filter = "tagName eq 'run'" + (f" and tagValue eq '{run}'" if run else "")
    by_id: dict[str, Row] = {}
    for subscription in manager.login.subscriptions:
        path = f"/subscriptions/{subscription}/{kind}"
        for row in manager.every(path, version, **{"$filter": tag_filter}):
            of = expiry.tag(row, "run")
            if is_run_id(str(of)) and (not run or of == run):
                by_id[str(row.get("id")).lower()] = row
    return list(by_id.values())


@dataclass
class Teardown:
    """The end of one run.

    Args:
        run: its id.
        tell: gets progress messages.

    Raises:
        BadInput: the run is no run's id.
    """

    manager: Manager
    catalog: Catalog
    run: str
    tell: Tell = print
    why: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_run_id(self.run):
            raise BadInput(
                f"the run {self.run!r} is not of the form 20261120T091300Z-7c1e: the tag run of its"
                " resource group says it"
            )
        self._version = self.catalog.api_version(GROUPS)
        # Azure's lists differ in case.
        versions = self.catalog.facts["api_versions"]
        self._versions = {kind.lower(): str(version) for kind, version in versions.items()}

    def find(self) -> list[Group]:
        """The groups that hold something of the run."""
        rows = tagged(self.manager, "resourcegroups", self._version, self.run)
        rows += tagged(self.manager, "resources", self._version, self.run)
        return self.groups(rows)

    def groups(self, rows: Iterable[Row]) -> list[Group]:
        """The groups of rows that ``tagged`` gave, as they are now."""
        places: dict[str, str] = {}
        for row in rows:
            match = _GROUP.match(str(row.get("id")))
            if not match:
                raise TrueupError(f"Azure lists {str(row.get('id'))[:200]!r}, which is in no group")
            places.setdefault(match[0].lower(), match[0])
        looked = [self._look(path) for _, path in sorted(places.items())]
        return [group for group in looked if group is not None]

    def _look(self, path: str) -> Group | None:
        """A group as it is now; None where it is gone."""
        query = {"api-version": self._version}
        try:
            of = str(expiry.tag(self.manager.get(path, query), "run") or "")
            listed = self.manager.every(f"{path}/resources", self._version)
            listed = expiry.within_group(listed, path)
            disks = expiry.disks_of(self._machines(listed))
            mine, other_ids = expiry.sort_out(listed, self.run, disks)
        except rest.Refused as error:
            if error.status == 404:
                return None
            raise
        except expiry.Trouble as trouble:
            raise TrueupError(str(trouble)) from None
        return Group(path, of, mine, other_ids, whole=of == self.run and not other_ids)

    def _machines(self, listed: list[Row]) -> list[Row]:
        """The run's machines that have disks in a group."""
        machines: list[Row] = []
        for path in expiry.machine_lists(listed, self.run):
            try:
                machines += self.manager.every(path, self._versions[expiry.VMS])
            except rest.Refused as error:
                # A set that is gone by now.
                if error.status != 404:
                    raise
        return machines

    def end(self) -> list[Group]:
        """Delete all of the run; the groups that are left."""
        before: list[str] = []
        for _ in range(_ROUNDS):
            groups = self.find()
            now = sorted(resource_id.lower() for group in groups for resource_id in group.ids)
            if now == before:
                break
            before = now
            for group in groups:
                if group.ids:
                    self._end_group(group.id)
        else:
            groups = self.find()
        return groups

    def _end_group(self, path: str) -> None:
        self._cancel(path)
        # A list is old when other groups were waited for.
        group = self._look(path)
        if group is None:
            return
        end_pools(
            self.manager,
            group.mine,
            title=_POOL_TITLE,
            text=_POOL_TEXT,
            seconds=_POOL_SECONDS,
            tell=self.tell,
        )
        if group.whole:
            self.tell(f"delete group {group.name} with {len(group.mine)} resources")
            self._delete([[(group.id, self._version)]])
            group = self._look(path)
            if group is None:
                return
        rights = self._rights(group)
        stages: dict[int, list[tuple[str, str]]] = {}
        within = tuple(f"{resource['id'].lower()}/" for resource in group.mine)
        for resource in group.mine:
            kind, low = str(resource.get("type")), resource["id"].lower()
            if low.startswith(within) and kind.lower() not in _STAGE:
                continue  # deleted with its parent
            version = self._versions.get(kind.lower())
            if version is None:
                self.why[low] = f"catalog azure.yml pins no version of {kind}: delete it by hand"
                continue
            stage = _STAGE.get(kind.lower(), len(_STAGES))
            stages.setdefault(stage, []).append((resource["id"], version))
        if stages:
            count = sum(map(len, stages.values()))
            self.tell(f"delete {count} resources of group {group.name} one by one")
        self._delete([*(work for _, work in sorted(stages.items())), rights])

    def _cancel(self, group_path: str) -> None:
        """Cancel the run's deployment where it still goes on."""
        path = f"{group_path}/providers/{_DEPLOYMENTS}/trueup-{self.run}"
        query = {"api-version": self.catalog.api_version(_DEPLOYMENTS)}
        try:
            for attempt in range(_ATTEMPTS * _ATTEMPTS):
                if not self._goes_on(path, query):
                    return
                if attempt == 0:
                    self.tell(f"cancel deployment trueup-{self.run}")
                    self.manager.request("POST", f"{path}/cancel", query, question=True)
                self.manager.sleep(_PAUSES[-1])
            self.tell(f"deployment trueup-{self.run} goes on although it was cancelled")
        except rest.Refused as error:
            # 404: there is none; 409: it ended meanwhile.
            if error.status not in (404, 409):
                self.tell(f"deployment trueup-{self.run} was not cancelled: {error}")

    def _goes_on(self, path: str, query: Mapping[str, str]) -> bool:
        properties = self.manager.get(path, query).get("properties")
        state = properties.get("provisioningState") if isinstance(properties, dict) else None
        return str(state).lower() not in _OVER

    def _rights(self, group: Group) -> list[tuple[str, str]]:
        """The role assignments of the run's machines in a group that stays."""
        version = self.catalog.api_version(self_destruct.ASSIGNMENTS)
        assignments: list[tuple[str, str]] = []
        for resource in group.mine:
            if (
                str(resource.get("type")).lower() != expiry.VMS
                or expiry.tag(resource, "role") != "login"
            ):
                continue
            principal = self._principal(resource["id"])
            if not principal:
                continue
            path = f"{group.id}/providers/{self_destruct.ASSIGNMENTS}"
            try:
                rows = self.manager.every(path, version, **{"$filter": "atScope()"})
            except rest.Refused as error:
                self.tell(f"role assignments of {group.name} were not listed: {error}")
                continue
            assignments += [
                (str(row.get("id")), version)
                for row in rows
                if str(row.get("id")).lower().startswith(f"{path.lower()}/")
                and isinstance(row.get("properties"), dict)
                and row["properties"].get("principalId") == principal
            ]
        return assignments

    def _principal(self, machine: str) -> str:
        """A machine's own identity; empty where it has none."""
        query = {"api-version": self._versions[expiry.VMS]}
        try:
            identity = self.manager.get(machine, query).get("identity")
        except rest.Refused as error:
            self.tell(f"the identity of {machine} is not known: {error}")
            return ""
        return str(identity.get("principalId") or "") if isinstance(identity, dict) else ""

    def _delete(self, stages: Iterable[Sequence[tuple[str, str]]]) -> None:
        """Delete these (id, version), one stage after the other. A deletion that another resource
        blocks is repeated after all the others."""
        waiting = list(stages)
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.manager.sleep(_PAUSES[attempt - 1])
            waiting = [again for again in map(self._stage, waiting) if again]
            if not waiting:
                return

    def _stage(self, work: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """The deletions of a stage that must be repeated."""
        orders = [(target, self._order(*target)) for target in work]
        return [
            target
            for target, order in orders
            if order is not None and not self._ended(target[0], order)
        ]

    def _order(self, path: str, version: str) -> rest.Response | rest.Refused | None:
        """Ask for a deletion: the answer, the refusal if it may pass, or None."""
        try:
            # Asked twice it deletes once.
            return self.manager.request("DELETE", path, {"api-version": version}, question=True)
        except rest.Refused as error:
            if error.status == 404:
                return None
            self.why[path.lower()] = str(error)
            return error if _may_pass(error) else None

    def _ended(self, path: str, order: rest.Response | rest.Refused) -> bool:
        """Whether a deletion came to an end, and needs no further order."""
        if isinstance(order, rest.Refused):
            return False
        try:
            self.manager.finished(order, f"DELETE {path}", tell=self.tell)
        except (rest.Failed, rest.Refused, rest.Unreadable) as error:
            self.why[path.lower()] = str(error)
            return getattr(error, "code", "") == _LOCKED
        return True

    def left(self, groups: Sequence[Group], find: Find) -> Remaining:
        """The remaining resources, and their cost per hour.

        Args:
            groups: as ``end`` or ``find`` gives them.
            find: the price of a size in a region by an offer.
        """
        ids = tuple(resource_id for group in groups for resource_id in group.ids)
        shared_groups = {group.name: tuple(group.others) for group in groups if group.others}
        bills = self._bills(groups, find) if ids else (0, 0.0, ())
        reasons = {
            resource_id: self.why[resource_id.lower()]
            for resource_id in ids
            if resource_id.lower() in self.why
        }
        return Remaining(ids, reasons, shared_groups, self.manager.login.subscriptions, *bills)

    def _bills(self, groups: Sequence[Group], find: Find) -> tuple[int, float, tuple[str, ...]]:
        try:
            return cost_of(self.manager, groups, find)
        except TrueupError as error:
            self.tell(f"which machines run is not known: {error}")
            return (
                0,
                0.0,
                tuple(str(resource.get("name")) for group in groups for resource in group.mine),
            )


def cost_of(
    manager: Manager, groups: Iterable[Group], find: Find
) -> tuple[int, float, tuple[str, ...]]:
    """Number of machines that bill computing, US$ an hour of the priced ones, and all unpriced."""
    rows = {
        resource["id"].lower(): str(resource.get("type"))
        for group in groups
        for resource in group.mine
    }
    names = sorted({group.name for group in groups if group.mine})
    computing = (expiry.VMS, expiry.SETS)
    unpriced = [kind.rpartition("/")[2] for kind in rows.values() if kind.lower() not in computing]
    count, usd, listed_ids = 0, 0.0, set()
    computing_ids = [resource_id for resource_id, kind in rows.items() if kind.lower() in computing]
    listed = without_addresses(manager, names, names) if computing_ids else {}
    for machine in listed.values():
        owner_id = machine.scale_set_id.lower() if machine.uniform else machine.id.lower()
        if owner_id not in computing_ids:
            continue
        listed_ids |= {owner_id, machine.scale_set_id.lower()}
        if machine.power in _NO_COMPUTING:
            continue
        count += 1
        price = find(machine.size, machine.location, _offer(machine))
        if price is None:
            unpriced.append(f"{machine.name} ({machine.size})")
        else:
            usd += price.usd_per_hour
    unpriced += [
        resource_id.rpartition("/")[2]
        for resource_id in computing_ids
        if resource_id not in listed_ids
    ]
    return count, usd, tuple(unpriced)


def _offer(machine: Machine) -> str:
    return LIST if machine.priority == "Regular" else SPOT


def _may_pass(error: rest.Refused) -> bool:
    """Whether a refused deletion may be taken later: something uses it, or Azure itself failed."""
    if error.code == _LOCKED:
        return False
    in_use = re.search("InUse|CannotBeDeleted|CannotDelete|Busy|AnotherOperation", error.code)
    return error.status in (409, 412, 429) or error.status >= 500 or bool(in_use)


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
