"""Azure Virtual Desktop by Azure Resource Manager: a host pool as it is declared, its registration
token, and its session hosts, which are drained before a change and given back after it.

Source: https://learn.microsoft.com/rest/api/desktopvirtualization (2024-04-03, which
azure-mgmt-desktopvirtualization 2.0.0 has too; a pool says how its hosts are managed from
2025-10-10 on) and Microsoft's pages on host pools, session host statuses and drain mode.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, NamedTuple
from urllib.parse import quote, unquote

from trueup_node import rest
from trueup_node.errors import BadInput, TrueupError

from ..azure.manager import Manager, Row

PROVIDER = "Microsoft.DesktopVirtualization"
VERSION, MANAGED_VERSION = "2024-04-03", "2025-10-10"
_ROLES_VERSION = "2022-04-01"
# Built-in roles by their ids (Microsoft's list of built-in roles).
DESKTOP_USER = "1d18fff3-a72a-46b5-b4a9-0b38a3cd7e63"
VM_USER = "fb879df8-f326-4884-b1cf-06f3ad86be52"
# Statuses in which a host serves users; NeedsAssistance has a check failed that is no obstacle.
WELL = ("Available", "NeedsAssistance")
HEARTBEAT_SECONDS = 300
_LEFT_OF_TOKEN = timedelta(minutes=15)
_SUCCEEDED = "HealthCheckSucceeded"
_POLL_SECONDS, _SIGN_OUT_SECONDS = 10.0, 120.0
_NOT_FOUND, _FORBIDDEN = 404, 403

Tell = Callable[[str], None]
_POOL = re.compile(
    rf"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/{re.escape(PROVIDER)}/hostPools/([^/]+)",
    re.IGNORECASE,
)


class Location(NamedTuple):
    """Where a host pool is."""

    subscription: str
    group: str
    name: str

    @property
    def below(self) -> str:
        """The path of its resource group's resources of Azure Virtual Desktop."""
        group = f"/subscriptions/{self.subscription}/resourceGroups/{quote(self.group)}"
        return f"{group}/providers/{PROVIDER}"

    @property
    def path(self) -> str:
        return f"{self.below}/hostPools/{quote(self.name)}"


def place_of(path: str) -> Location:
    """Where the host pool of an id is.

    Raises:
        TrueupError: it is no host pool's id.
    """
    match = _POOL.fullmatch(path)
    if match is None:
        raise TrueupError(f"{path[:200]!r} is no host pool's id")
    return Location(*map(unquote, match.groups()))


class Change(NamedTuple):
    """A resource that is made (``before`` is empty) or changed: its declared members."""

    what: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class Host(NamedTuple):
    """A session host.

    Attributes:
        name: as its path has it, with or without a domain.
        allows: whether new sessions may come.
        heartbeat: the last one; None where the service has none.
        failed: name and message of each check that did not succeed.
    """

    path: str
    name: str
    vm_id: str
    resource_id: str
    status: str
    allows: bool
    sessions: int
    heartbeat: datetime | None
    failed: tuple[str, ...]

    def troubles(self, now: datetime, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> list[str]:
        """Why it does not serve users well, whether or not new ones may come."""
        wrong = []
        if self.status not in WELL:
            checks = f" ({'; '.join(self.failed)})" if self.failed else ""
            wrong.append(f"its status in the pool is {self.status or 'not said'}{checks}")
        if self.heartbeat is None:
            wrong.append("no heartbeat of it is known")
        elif (now - self.heartbeat).total_seconds() > heartbeat_seconds:
            age = (now - self.heartbeat).total_seconds()
            wrong.append(f"its last heartbeat is {age:.0f} s old (at most {heartbeat_seconds:g})")
        return wrong


class Session(NamedTuple):
    """A user's session; ``state`` is Active, Disconnected, Pending, LogOff or another word."""

    path: str
    user: str
    state: str


class UsersStayError(TrueupError):
    """Users were still on a host when the time to drain it was over."""


def moment(text: Any) -> datetime | None:
    """A time of the service's, which has up to seven digits of a second; None where it is none."""
    shorter = re.sub(r"(\.\d{6})\d+", r"\1", str(text or "")).replace("Z", "+00:00")
    # Python 3.9 takes three or six digits.
    shorter = re.sub(r"\.(\d{1,6})(?=[+-]|$)", lambda match: "." + match[1].ljust(6, "0"), shorter)
    try:
        parsed = datetime.fromisoformat(shorter)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)


def host_of(row: Mapping[str, Any]) -> Host:
    """A session host as the service lists it.

    Raises:
        TrueupError: it says neither its path nor whether it takes new sessions.
    """
    properties = row.get("properties")
    if not isinstance(properties, dict) or not isinstance(row.get("id"), str):
        raise TrueupError("Azure Virtual Desktop lists a session host without id or properties")
    allows, sessions = properties.get("allowNewSession"), properties.get("sessions")
    if not isinstance(allows, bool):
        raise TrueupError(f"{row['id']} does not say whether it takes new sessions")
    return Host(
        path=row["id"],
        name=row["id"].rpartition("/")[2],
        vm_id=str(properties.get("virtualMachineId") or ""),
        resource_id=str(properties.get("resourceId") or ""),
        status=str(properties.get("status") or ""),
        allows=allows,
        sessions=sessions if isinstance(sessions, int) else 0,
        heartbeat=moment(properties.get("lastHeartBeat")),
        failed=tuple(_failed(properties.get("sessionHostHealthCheckResults"))),
    )


def _failed(checks: Any) -> Iterator[str]:
    for check in checks if isinstance(checks, list) else []:
        if not isinstance(check, dict) or check.get("healthCheckResult") == _SUCCEEDED:
            continue
        details = check.get("additionalFailureDetails")
        message = str(details.get("message") or "") if isinstance(details, dict) else ""
        result = message or str(check.get("healthCheckResult") or "no result")
        yield f"{check.get('healthCheckName')}: {' '.join(result.split())[:200]}"


def ends_of(token: str) -> datetime | None:
    """When a registration token ends, where it has the form of a JWT that says so; None elsewhere.
    Its signature is the service's business."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        raw = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        ends = json.loads(raw)["exp"]
        return datetime.fromtimestamp(int(ends), timezone.utc)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


def _as_told(declared: Any, actual: Any) -> bool:
    """Whether the actual value is the declared one; ids of resources have no case."""
    if isinstance(declared, str) and declared.startswith("/subscriptions/"):
        return isinstance(actual, str) and actual.lower() == declared.lower()
    return bool(declared == actual)


class Desktops:
    """One host pool and its resources.

    Args:
        check: change nothing, and list the planned changes.
        tell: gets messages while it waits.
        now: the time, with a zone.
    """

    def __init__(
        self,
        manager: Manager,
        pool_id: Location,
        *,
        check: bool = False,
        tell: Tell = print,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self.manager, self.place, self.check, self.tell, self.now = (
            manager,
            pool_id,
            check,
            tell,
            now,
        )
        self.changes: list[Change] = []
        self._there = False

    # -- the pool --

    def pool(self) -> Row | None:
        """The pool's document; None where there is none.

        Raises:
            BadInput: its hosts are managed by a session host configuration, or the resource group
                or subscription is not there.
        """
        document = self._get(self.place.path, MANAGED_VERSION)
        if document is not None and _properties(document).get("managementType") == "Automated":
            raise BadInput(
                f"the host pool {self.place.name} is managed by a session host configuration"
                " (managementType Automated): it gives no registration token and makes its hosts"
                " itself. Make a pool of standard management: this cannot be changed in a pool"
            )
        return document

    def known(self) -> Row:
        """The pool's document.

        Raises:
            BadInput: there is none.
        """
        document = self.pool()
        if document is None:
            raise BadInput(
                f"there is no host pool {self.place.name} in the resource group {self.place.group}"
                f" of subscription {self.place.subscription}: check avd_session_host_pool,"
                " _resource_group and _subscription, or set avd_session_host_azure to manage"
            )
        return document

    def _get(self, path: str, version: str = VERSION) -> Row | None:
        try:
            return self.manager.get(path, {"api-version": version})
        except rest.Refused as error:
            if error.status != _NOT_FOUND:
                raise
            if error.code in ("SubscriptionNotFound", "ResourceGroupNotFound"):
                raise BadInput(
                    f"{error}: check avd_session_host_subscription ({self.place.subscription}) and"
                    f" avd_session_host_resource_group ({self.place.group})"
                ) from None
            return None

    def settle(
        self,
        properties: Mapping[str, Any],
        *,
        location: str,
        tags: Mapping[str, str],
        groups: Sequence[Mapping[str, Any]] = (),
        workspace: str = "",
        users: Sequence[Mapping[str, str]] = (),
    ) -> list[Change]:
        """Make the pool, its groups, applications and workspace, and let users in. Declared
        properties are enforced; others are left alone.

        Args:
            properties: of the pool, in Azure's names.
            groups: each ``name``, ``properties`` and ``applications`` (name, properties).
            users: each ``id`` and ``type`` (User, Group): they get Desktop Virtualization User on
                each group.

        Returns:
            The changes; in check mode the planned ones.

        Raises:
            TrueupError: something cannot be so, or Azure refuses it.
        """
        self.changes = []
        self.pool()
        below = self.place.below
        self._kept(
            self.place.path, properties, location=location, tags=tags, fixed=("hostPoolType",)
        )
        references = []
        for group in groups:
            path = f"{below}/applicationGroups/{quote(group['name'])}"
            references.append(path)
            declared = {"hostPoolArmPath": self.place.path, **group["properties"]}
            fixed = ("hostPoolArmPath", "applicationGroupType")
            self._kept(path, declared, location=location, tags=tags, fixed=fixed)
            for application in group["applications"]:
                where = f"{path}/applications/{quote(application['name'])}"
                self._kept(where, application["properties"], location="", tags={})
            exists = not self.check or self._get(path) is not None
            for user in users:
                self.allow(path, DESKTOP_USER, user, exists=exists)
        if workspace:
            path = f"{below}/workspaces/{quote(workspace)}"
            document = self._get(path)
            # Groups of others in it stay.
            existing = _properties(document or {}).get("applicationGroupReferences") or []
            low = [str(reference).lower() for reference in existing]
            every = [
                *existing,
                *(reference for reference in references if reference.lower() not in low),
            ]
            declared = {"applicationGroupReferences": every}
            self._kept(path, declared, location=location, tags=tags)
        return self.changes

    def _kept(
        self,
        path: str,
        properties: Mapping[str, Any],
        *,
        location: str,
        tags: Mapping[str, str],
        fixed: tuple[str, ...] = (),
    ) -> None:
        """A resource with these properties and tags, among others."""
        document, name = self._get(path), path.rpartition("/")[2]
        kind = path.split("/")[-2]
        if document is None:
            regional = {"location": location, "tags": dict(tags)} if location else {}
            body = {**regional, "properties": dict(properties)}
            self._send("PUT", path, body, Change(f"{kind}/{name}", {}, body))
            return
        actual = _properties(document)
        differ = {
            key: declared
            for key, declared in properties.items()
            if not _as_told(declared, actual.get(key))
        }
        wrong = [key for key in differ if key in fixed]
        if wrong:
            raise BadInput(
                f"{kind}/{name} has {wrong[0]} {actual.get(wrong[0])!r} and not"
                f" {properties[wrong[0]]!r}, which Azure does not change: give it another name, or"
                " delete it"
            )
        old = document.get("tags") or {}
        body = {"properties": differ} if differ else {}
        if any(old.get(key) != value for key, value in tags.items()):
            body["tags"] = {**old, **tags}
        if body:
            before = {"properties": {key: actual.get(key) for key in differ}} if differ else {}
            if "tags" in body:
                before["tags"] = old
            self._send("PATCH", path, body, Change(f"{kind}/{name}", before, body))

    def _send(self, method: str, path: str, body: Mapping[str, Any], change: Change) -> None:
        self.changes.append(change)
        if not self.check:
            self.manager.request(method, path, {"api-version": VERSION}, body)

    def allow(self, scope: str, role: str, user: Mapping[str, str], *, exists: bool = True) -> None:
        """Let a user or group have a role on a resource, unless they have it there or above it.

        Args:
            exists: whether the resource exists; in check mode it may not yet.
        """
        roles = f"{scope}/providers/Microsoft.Authorization/roleAssignments"
        definition = f"/subscriptions/{self.place.subscription}/providers/Microsoft.Authorization"
        body = {
            "roleDefinitionId": f"{definition}/roleDefinitions/{role}",
            "principalId": user["id"],
            "principalType": user["type"],
        }
        every: list[Row] = []
        if exists:
            every = self.manager.every(roles, _ROLES_VERSION, **{"$filter": "atScope()"})
        for assignment in every:
            has = _properties(assignment)
            same = str(has.get("principalId")).lower() == user["id"].lower()
            if same and str(has.get("roleDefinitionId")).lower().endswith(role):
                return
        # The same id each time: an assignment that was lost is made again, not twice.
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.lower()} {role} {user['id'].lower()}")
        label = f"role assignment of {user['id']} on {scope.rpartition('/')[2]}"
        self.changes.append(Change(label, {}, body))
        if self.check:
            return
        try:
            query = {"api-version": _ROLES_VERSION}
            self.manager.request("PUT", f"{roles}/{name}", query, {"properties": body})
        except rest.Refused as error:
            if error.code != "RoleAssignmentExists":
                raise

    # -- registration --

    def token(self, hours: float) -> str:
        """A registration token: the pool's while it is good for a quarter of an hour, so that hosts
        that register side by side use one; else a new one, good for ``hours``.

        Raises:
            TrueupError: the pool gives none.
        """
        self.known()
        registration = self._token()
        ends = moment(registration.get("expirationTime"))
        if registration.get("token") and ends and ends - self.now() > _LEFT_OF_TOKEN:
            return str(registration["token"])
        until = (self.now() + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
        info = {"expirationTime": until, "registrationTokenOperation": "Update"}
        body = {"properties": {"registrationInfo": info}}
        self._for_token("PATCH", self.place.path, body)
        registration = self._token()
        if not registration.get("token"):
            raise TrueupError(
                f"the host pool {self.place.name} gives no registration token although one was made"
                f" until {until}: make one in the portal, and give it as avd_session_host_token"
            )
        return str(registration["token"])

    def _token(self) -> Row:
        response = self._for_token("POST", f"{self.place.path}/retrieveRegistrationToken", {})
        return self.manager.document(response, "POST retrieveRegistrationToken")

    def _for_token(self, method: str, path: str, body: Mapping[str, Any]) -> rest.Response:
        try:
            return self.manager.request(method, path, {"api-version": VERSION}, body, question=True)
        except rest.Refused as error:
            if error.status != _FORBIDDEN:
                raise
            raise TrueupError(
                f"{error}; Desktop Virtualization Host Pool Contributor on the pool is enough, or"
                " give a token as avd_session_host_token"
            ) from None

    # -- session hosts --

    def hosts(self) -> list[Host]:
        return [
            host_of(row) for row in self.manager.every(f"{self.place.path}/sessionHosts", VERSION)
        ]

    def host(self, vm_id: str, resource_id: str) -> Host | None:
        """The session host that is this machine, whatever it is called; None where there is none
        (or no pool, either)."""
        # How a pool is managed never changes: it is looked at once.
        self._there = self._there or self.pool() is not None
        if not self._there:
            return None
        for host in self.hosts():
            same_id = bool(vm_id) and host.vm_id.lower() == vm_id.lower()
            path = host.resource_id.lower()
            if same_id or (bool(path) and path == resource_id.lower()):
                return host
        return None

    def sessions(self, host: Host) -> list[Session]:
        """Users' sessions on a host, disconnected ones too."""
        return [
            Session(
                str(row.get("id")),
                str(_properties(row).get("userPrincipalName") or "a user without a name"),
                str(_properties(row).get("sessionState") or "Unknown"),
            )
            for row in self.manager.every(f"{host.path}/userSessions", VERSION)
        ]

    def set_allowed(self, host: Host, *, allowed: bool) -> None:
        """Let new sessions come to a host, or not."""
        body = {"properties": {"allowNewSession": allowed}}
        self.manager.request("PATCH", host.path, {"api-version": VERSION}, body, question=True)

    def wait_until_well(
        self, vm_id: str, resource_id: str, *, seconds: float, heartbeat_seconds: float
    ) -> Host:
        """The machine's session host, when it serves users well.

        Raises:
            TrueupError: it does not after so many seconds; why.
        """
        until, last_message = self.manager.clock() + seconds, ""
        while True:
            host = self.host(vm_id, resource_id)
            wrong = ["it is not in the pool"]
            if host is not None:
                wrong = host.troubles(self.now(), heartbeat_seconds)
            if host is not None and not wrong:
                return host
            if self.manager.clock() >= until:
                name = host.name if host else "this host"
                raise TrueupError(
                    f"{name} does not serve users of the pool {self.place.name} after"
                    f" {seconds:.0f} s: {'; '.join(wrong)}"
                )
            if wrong != [last_message]:
                last_message = "; ".join(wrong)
                self.tell(f"{self.place.name}: waiting, {last_message}")
            self._pause(until)

    def empty(
        self, host: Host, *, title: str, text: str, seconds: float, signs_out: bool
    ) -> list[str]:
        """Wait until no user is on a host that takes no new ones; each is told once.

        Args:
            signs_out: end the sessions that are left when the time is over.

        Returns:
            The users who were signed out.

        Raises:
            UsersStayError: users are left, and stay.
        """
        until = self.manager.clock() + seconds
        remaining = self.wait_until_gone([host], title=title, text=text, until=until)
        if not remaining:
            return []
        named = ", ".join(sorted(f"{session.user} ({session.state})" for session in remaining))
        if not signs_out:
            raise UsersStayError(
                f"{len(remaining)} sessions are still on {host.name} after {seconds:.0f} s: {named}"
            )
        self._end(host, until)
        return sorted(session.user for session in remaining)

    def wait_until_gone(
        self, hosts: Sequence[Host], *, title: str, text: str, until: float
    ) -> list[Session]:
        """Tell the users of these hosts once, and wait until ``until`` of the manager's clock; the
        sessions that are left."""
        notified: set[str] = set()
        while True:
            remaining = [session for host in hosts for session in self.sessions(host)]
            for session in remaining:
                if session.path not in notified:
                    notified.add(session.path)
                    self._say(session, title, text)
            if not remaining or self.manager.clock() >= until:
                return remaining
            seconds = until - self.manager.clock()
            self.tell(f"{self.place.name}: {len(remaining)} sessions are left, {seconds:.0f} s")
            self._pause(until)

    def forget(self, host: Host) -> None:
        """Take a host out of the pool, whoever is on it."""
        query = {"api-version": VERSION, "force": "true"}
        self.manager.request("DELETE", host.path, query, question=True)

    def _pause(self, until: float) -> None:
        self.manager.sleep(max(0.1, min(_POLL_SECONDS, until - self.manager.clock())))

    def _say(self, session: Session, title: str, text: str) -> None:
        body = {"messageTitle": title, "messageBody": text}
        where = f"{session.path}/sendMessage"
        try:
            self.manager.request("POST", where, {"api-version": VERSION}, body)
        except rest.Refused as error:
            # They have gone meanwhile.
            if error.status != _NOT_FOUND:
                raise

    def _end(self, host: Host, began: float) -> None:
        query = {"api-version": VERSION, "force": "true"}
        while True:
            remaining = self.sessions(host)
            if not remaining:
                return
            if self.manager.clock() >= began + _SIGN_OUT_SECONDS:
                named = ", ".join(sorted(session.user for session in remaining))
                raise UsersStayError(f"{host.name}: these users could not be signed out: {named}")
            for session in remaining:
                try:
                    self.manager.request("DELETE", session.path, query)
                except rest.Refused as error:
                    if error.status != _NOT_FOUND:
                        raise
            self.manager.sleep(_POLL_SECONDS)


def _properties(row: Mapping[str, Any]) -> dict[str, Any]:
    properties = row.get("properties")
    return properties if isinstance(properties, dict) else {}
