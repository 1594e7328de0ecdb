"""The end of a run on Azure: what carries its tag ``run`` is deleted, and what is left is named.

Azure Resource Manager is asked, whose lists know a tag at once; Resource Graph is behind by up to a
minute and says here only which machines are left and run. A group is deleted whole where it carries
the run's tag and holds nothing else (``expiry.sort_out`` says what is the run's); else the run's
resources are deleted one by one. Nothing of the controller's is needed: the run's id is
enough.

Source: https://learn.microsoft.com/rest/api/resources for groups, lists and deployments, and
https://learn.microsoft.com/rest/api/authorization for role assignments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable, NamedTuple, Optional, Union

from ... import rest
from ...errors import BadInput, TrueupError
from ...record import is_run_id
from . import expiry, switch
from .catalog import Catalog
from .cost import LIST, SPOT, Find
from .machines import Machine, without_addresses
from .manager import Manager, Row
from .session_host import end_pools

_DEPLOYMENTS = "Microsoft.Resources/deployments"
GROUPS = "Microsoft.Resources/resourceGroups"
_GROUP = re.compile(r"/subscriptions/[^/]+/resourceGroups/([^/]+)", re.IGNORECASE)
# What goes first; what is in no stage goes last.
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
# What users of a run's host pools are told, and the seconds that they have.
_POOL_TITLE, _POOL_SECONDS = "This desktop is going away", 300.0
_POOL_TEXT = "Please save your work and sign out within 5 minutes: this desktop is deleted then."
# Of one resource in a row, where another operation holds it.
_ATTEMPTS, _PAUSES = 5, (1.0, 2.0, 5.0, 10.0)
_ROUNDS = 5
_OVER = ("succeeded", "failed", "canceled", "cancelled")
_NO_COMPUTING = ("deallocated", "deallocating")

Tell = Callable[[str], None]


class Group(NamedTuple):
    """A resource group that holds something of a run.

    Attributes:
        run: of the group's own tag; empty without one.
        mine: the run's resources in it, as Azure lists them.
        others: the ids of what is not the run's.
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
        """What is to be deleted of it."""
        return [one["id"] for one in self.mine] + [self.id] * self.whole


class Left(NamedTuple):
    """What a run still has.

    Attributes:
        ids: resources and groups.
        why: by id, what Azure said when it was to be deleted.
        kept: groups that others use, with the ids of theirs.
        where: the subscriptions that were looked at.
        machines: how many bill computing.
        usd_per_hour: of those with a price.
        unpriced: what has none, in words.
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
        found = [
            f"group {name} is kept, for it holds {len(theirs)} resources that are not of run {run}:"
            f" {_some(theirs, expiry.MOST_NAMES)}"
            for name, theirs in self.kept.items()
        ]
        if not self.ids:
            return [
                *found,
                f"nothing is left of run {run} in subscription {' or '.join(self.where)}",
            ]
        head = f"{len(self.ids)} left of run {run}: {self.cost_sentence()}"
        return [*found, head, *(f"{one}: {self.why.get(one, 'still there')}" for one in self.ids)]

    def cost_sentence(self) -> str:
        """What bills."""
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
    wanted = "tagName eq 'run'" + (f" and tagValue eq '{run}'" if run else "")
    found: dict[str, Row] = {}
    for subscription in manager.login.subscriptions:
        path = f"/subscriptions/{subscription}/{kind}"
        for row in manager.every(path, version, **{"$filter": wanted}):
            of = expiry.tag(row, "run")
            if is_run_id(str(of)) and (not run or of == run):
                found[str(row.get("id")).lower()] = row
    return list(found.values())


@dataclass
class Teardown:
    """The end of one run.

    Args:
        run: its id.
        tell: is told what is done.

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
        self._versions = {kind.lower(): str(one) for kind, one in versions.items()}

    def find(self) -> list[Group]:
        """The groups that hold something of the run."""
        rows = tagged(self.manager, "resourcegroups", self._version, self.run)
        rows += tagged(self.manager, "resources", self._version, self.run)
        return self.groups(rows)

    def groups(self, rows: Iterable[Row]) -> list[Group]:
        """The groups of rows that ``tagged`` gave, as they are now."""
        places: dict[str, str] = {}
        for row in rows:
            found = _GROUP.match(str(row.get("id")))
            if not found:
                raise TrueupError(f"Azure lists {str(row.get('id'))[:200]!r}, which is in no group")
            places.setdefault(found[0].lower(), found[0])
        looked = [self._look(place) for _, place in sorted(places.items())]
        return [one for one in looked if one is not None]

    def _look(self, place: str) -> Optional[Group]:
        """A group as it is now; None where it is gone."""
        query = {"api-version": self._version}
        try:
            of = str(expiry.tag(self.manager.get(place, query), "run") or "")
            listed = self.manager.every(f"{place}/resources", self._version)
            listed = expiry.within_group(listed, place)
            disks = expiry.disks_of(self._machines(listed))
            mine, others = expiry.sort_out(listed, self.run, disks)
        except rest.Refused as error:
            if error.status == 404:
                return None
            raise
        except expiry.Trouble as trouble:
            raise TrueupError(str(trouble)) from None
        return Group(place, of, mine, others, whole=of == self.run and not others)

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
        """Delete all of the run; what is left of it."""
        before: list[str] = []
        for _ in range(_ROUNDS):
            groups = self.find()
            now = sorted(one.lower() for group in groups for one in group.ids)
            if now == before:
                break
            before = now
            for group in groups:
                if group.ids:
                    self._end_group(group.id)
        else:
            groups = self.find()
        return groups

    def _end_group(self, place: str) -> None:
        self._cancel(place)
        # A list is old when other groups were waited for.
        group = self._look(place)
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
            group = self._look(place)
            if group is None:
                return
        rights = self._rights(group)
        stages: dict[int, list[tuple[str, str]]] = {}
        within = tuple(f"{one['id'].lower()}/" for one in group.mine)
        for one in group.mine:
            kind, low = str(one.get("type")), one["id"].lower()
            if low.startswith(within) and kind.lower() not in _STAGE:
                continue  # it goes with what it is in
            version = self._versions.get(kind.lower())
            if version is None:
                self.why[low] = f"catalog azure.yml pins no version of {kind}: delete it by hand"
                continue
            stage = _STAGE.get(kind.lower(), len(_STAGES))
            stages.setdefault(stage, []).append((one["id"], version))
        if stages:
            count = sum(map(len, stages.values()))
            self.tell(f"delete {count} resources of group {group.name} one by one")
        self._delete([*(work for _, work in sorted(stages.items())), rights])

    def _cancel(self, place: str) -> None:
        """Cancel the run's deployment where it still goes on."""
        path = f"{place}/providers/{_DEPLOYMENTS}/trueup-{self.run}"
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
        version = self.catalog.api_version(switch.ASSIGNMENTS)
        found: list[tuple[str, str]] = []
        for one in group.mine:
            if str(one.get("type")).lower() != expiry.VMS or expiry.tag(one, "role") != "login":
                continue
            principal = self._principal(one["id"])
            if not principal:
                continue
            path = f"{group.id}/providers/{switch.ASSIGNMENTS}"
            try:
                rows = self.manager.every(path, version, **{"$filter": "atScope()"})
            except rest.Refused as error:
                self.tell(f"role assignments of {group.name} were not listed: {error}")
                continue
            found += [
                (str(row.get("id")), version)
                for row in rows
                if str(row.get("id")).lower().startswith(f"{path.lower()}/")
                and isinstance(row.get("properties"), dict)
                and row["properties"].get("principalId") == principal
            ]
        return found

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
        """Delete these (id, version), those of a stage together; what something else holds is
        asked for again after all the others."""
        waiting = list(stages)
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.manager.sleep(_PAUSES[attempt - 1])
            waiting = [again for again in map(self._stage, waiting) if again]
            if not waiting:
                return

    def _stage(self, work: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """What of a stage has to be asked for again."""
        orders = [(one, self._order(*one)) for one in work]
        return [
            one for one, order in orders if order is not None and not self._ended(one[0], order)
        ]

    def _order(self, place: str, version: str) -> Union[rest.Answer, rest.Refused, None]:
        """Ask for a deletion: the answer, the refusal if it may pass, or None."""
        try:
            # Asked twice it deletes once.
            return self.manager.request("DELETE", place, {"api-version": version}, question=True)
        except rest.Refused as error:
            if error.status == 404:
                return None
            self.why[place.lower()] = str(error)
            return error if _may_pass(error) else None

    def _ended(self, place: str, order: Union[rest.Answer, rest.Refused]) -> bool:
        """Whether a deletion came to an end, and needs no further order."""
        if isinstance(order, rest.Refused):
            return False
        try:
            self.manager.finished(order, f"DELETE {place}", tell=self.tell)
        except (rest.Failed, rest.Refused, rest.Unreadable) as error:
            self.why[place.lower()] = str(error)
            return getattr(error, "code", "") == _LOCKED
        return True

    def left(self, groups: Sequence[Group], find: Find) -> Left:
        """What is left, and what it costs an hour.

        Args:
            groups: as ``end`` or ``find`` gives them.
            find: the price of a size in a region by an offer.
        """
        ids = tuple(one for group in groups for one in group.ids)
        kept = {group.name: tuple(group.others) for group in groups if group.others}
        bills = self._bills(groups, find) if ids else (0, 0.0, ())
        why = {one: self.why[one.lower()] for one in ids if one.lower() in self.why}
        return Left(ids, why, kept, self.manager.login.subscriptions, *bills)

    def _bills(self, groups: Sequence[Group], find: Find) -> tuple[int, float, tuple[str, ...]]:
        try:
            return cost_of(self.manager, groups, find)
        except TrueupError as error:
            self.tell(f"which machines run is not known: {error}")
            return 0, 0.0, tuple(str(one.get("name")) for group in groups for one in group.mine)


def cost_of(
    manager: Manager, groups: Iterable[Group], find: Find
) -> tuple[int, float, tuple[str, ...]]:
    """How many machines bill computing, US$ an hour of those with a price, and what has none."""
    rows = {one["id"].lower(): str(one.get("type")) for group in groups for one in group.mine}
    names = sorted({group.name for group in groups if group.mine})
    computing = (expiry.VMS, expiry.SETS)
    unpriced = [kind.rpartition("/")[2] for kind in rows.values() if kind.lower() not in computing]
    count, usd, known = 0, 0.0, set()
    there = [one for one, kind in rows.items() if kind.lower() in computing]
    listed = without_addresses(manager, names, names) if there else {}
    for one in listed.values():
        place = one.scale_set_id.lower() if one.uniform else one.id.lower()
        if place not in there:
            continue
        known |= {place, one.scale_set_id.lower()}
        if one.power in _NO_COMPUTING:
            continue
        count += 1
        price = find(one.size, one.location, _offer(one))
        if price is None:
            unpriced.append(f"{one.name} ({one.size})")
        else:
            usd += price.usd_per_hour
    unpriced += [one.rpartition("/")[2] for one in there if one not in known]
    return count, usd, tuple(unpriced)


def _offer(one: Machine) -> str:
    return LIST if one.priority == "Regular" else SPOT


def _may_pass(error: rest.Refused) -> bool:
    """Whether a refused deletion may be taken later: something uses it, or Azure itself failed."""
    if error.code == _LOCKED:
        return False
    in_use = re.search("InUse|CannotBeDeleted|CannotDelete|Busy|AnotherOperation", error.code)
    return error.status in (409, 412, 429) or error.status >= 500 or bool(in_use)


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
