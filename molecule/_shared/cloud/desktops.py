"""Azure Virtual Desktop of the emulated cloud: host pools, the hosts that registered there and
their users' sessions, application groups, applications, desktops, workspaces, tokens.

Shapes are those of azure-mgmt-desktopvirtualization 2.0.0 (2024-04-03), against whose models every
request is held; what else is refused is said in docs/dev/stand_ins.md. A host comes into a pool by
``register`` alone, as the agent on a machine does it, and never by Azure Resource Manager.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from .replies import Refused, Reply, refusal, unknown
from .resources import Provider, Resource, at

if TYPE_CHECKING:
    from .cloud import Cloud
    from .resources import Call, Document

NAMESPACE = "Microsoft.DesktopVirtualization"
POOL, GROUP = f"{NAMESPACE}/hostPools", f"{NAMESPACE}/applicationGroups"
HOST = f"{POOL}/sessionHosts"
SESSION = f"{HOST}/userSessions"
# Where an agent registers: POST {token, vmId, name}. Microsoft's own protocol is another one.
BROKER = "/emulated-desktops/register"
# The version in which a pool says how its hosts are managed.
MANAGED = "2025-10-10"
PAGE = 100
_NAME = re.compile(r"[A-Za-z0-9@.\-_ ]{3,64}")
_SHORTEST, _LONGEST = timedelta(hours=1), timedelta(days=27)
_INVALID, _WELL = "INVALID_REGISTRATION_TOKEN", "HealthCheckSucceeded"
_HOST_SETTINGS = {"status", "checks", "heartbeat_age_seconds", "sessions", "allow_new_session"}
_SESSION = {"user", "state", "leaves"}


def stamp(moment: datetime) -> str:
    """A time as the service writes it: seven digits of a second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0Z"


def time_of(text: Any) -> datetime:
    """A time of a request.

    Raises:
        Refused: it is none, or has no zone.
    """
    shorter = re.sub(r"(\.\d{6})\d+", r"\1", str(text)).replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(shorter)
    except ValueError:
        moment = datetime.min  # noqa: DTZ901 WHY: it has no zone
    if moment.tzinfo is None:
        raise Refused(400, "InvalidRequestContent", f"'{text}' is no time with a zone.")
    return moment


class _Kept(Provider):
    """What is made within the call, and shows no provisioningState."""

    seconds = 0.0
    at_once = True

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        if not _NAME.fullmatch(asked.name):
            said = f"'{asked.name}' is no name: 3 to 64 letters, digits, blanks and @.-_ are one."
            raise Refused(400, "InvalidResourceName", said)

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        return {"objectId": str(uuid.uuid5(uuid.NAMESPACE_URL, resource.key))}

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = super().view(cloud, resource)
        found["properties"].pop("provisioningState")
        return found


class HostPool(_Kept):
    kind = POOL
    rank = 7
    held = (409, "HostPoolInUse")
    defaults = {
        "validationEnvironment": False,
        "startVMOnConnect": False,
        "publicNetworkAccess": "Enabled",
        "maxSessionLimit": 999999,
    }
    fixed = (("properties", "hostPoolType"),)

    def alone(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        personal = asked.properties.get("hostPoolType") == "Personal"
        if personal != (asked.properties.get("loadBalancerType") == "Persistent"):
            said = "loadBalancerType is Persistent of a personal host pool, and of no other one."
            raise Refused(400, "InvalidLoadBalancerType", said)
        info = asked.properties.get("registrationInfo") or {}
        if info.get("registrationTokenOperation") != "Update":
            return
        if before and before.state.get("management") == "Automated":
            said = "A host pool with a session host configuration gives no registration token."
            raise Refused(400, "RegistrationTokenNotSupported", said)
        left = time_of(info.get("expirationTime")) - datetime.now(timezone.utc)
        if not _SHORTEST - timedelta(minutes=1) <= left <= _LONGEST:
            said = "expirationTime must lie between 1 hour and 27 days from now."
            raise Refused(400, "InvalidExpirationTime", said)

    def make(self, cloud: Cloud, made: Resource, before: Document | None) -> None:
        with cloud.lock:
            info = made.properties.pop("registrationInfo", None) or {}
            if info.get("registrationTokenOperation") == "Update":
                ends = time_of(info["expirationTime"])
                made.state["token"] = {"token": token_of(made, ends), "ends": ends}
            elif info.get("registrationTokenOperation") == "Delete":
                made.state.pop("token", None)

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        words = ("expirationTime", "token", "registrationTokenOperation")
        groups = [one.id for one in cloud.users(resource.id) if one.kind == GROUP]
        return {
            **super().add(cloud, resource),
            "applicationGroupReferences": groups,
            "registrationInfo": dict.fromkeys(words),
        }

    def dated(self, resource: Resource, document: Document, version: str) -> None:
        """What only a newer version says."""
        if version == MANAGED:
            kept = resource.state.get("management", "Standard")
            document["properties"]["managementType"] = kept

    def leave(self, cloud: Cloud, gone: Resource, query: dict[str, str]) -> None:
        if gone.state.get("hosts") and query.get("force", "").lower() != "true":
            said = f"The host pool {gone.name} still has session hosts."
            raise Refused(409, "HostPoolHasSessionHosts", said)

    # -- what is below it --

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        words = [word.lower() for word in call.words]
        if call.method == "POST" and words in (
            ["retrieveregistrationtoken"],
            ["listregistrationtokens"],
        ):
            return self._tokens(resource, many=words[0].startswith("list"))
        hosts = resource.state.setdefault("hosts", {})
        if words == ["usersessions"] and call.method == "GET":
            every = [_session(resource, host, one) for host in hosts.values() for one in host["in"]]
            return _page(cloud, resource, call, every)
        if words[0] != "sessionhosts":
            return None
        if len(words) == 1:
            every = [host_view(cloud, resource, host) for host in hosts.values()]
            return _page(cloud, resource, call, every) if call.method == "GET" else None
        host = hosts.get(words[1])
        if host is None:
            said = f"The session host '{call.words[1]}' is not in the host pool '{resource.name}'."
            raise Refused(404, "NotFound", said)
        if len(words) == 2:
            return self._host(cloud, resource, host, call)
        return self._sessions(cloud, resource, host, call) if words[2] == "usersessions" else None

    def _tokens(self, resource: Resource, *, many: bool) -> Document:
        kept = resource.state.get("token")
        valid = kept if kept and kept["ends"] > datetime.now(timezone.utc) else None
        said = {
            "expirationTime": stamp(valid["ends"]) if valid else None,
            "token": valid["token"] if valid else None,
        }
        if many:
            return {"value": [said] if valid else []}
        return {**said, "registrationTokenOperation": "Update" if valid else None}

    def _host(self, cloud: Cloud, resource: Resource, host: Document, call: Call) -> Any:
        if call.method == "PATCH":
            cloud.validate(f"{HOST}:patch", call.body, call.query["api-version"])
            given = (call.body or {}).get("properties") or {}
            host["allow"] = given.get("allowNewSession", host["allow"])
            for name in ("assignedUser", "friendlyName"):
                host["more"][name] = given.get(name, host["more"].get(name))
        elif call.method == "DELETE":
            if host["in"] and call.query.get("force", "").lower() != "true":
                said = f"Users are on the session host {host['name']}."
                raise Refused(409, "SessionHostHasUserSessions", said)
            resource.state["hosts"].pop(host["name"].lower())
            return Reply(200, None)
        elif call.method != "GET":
            return None
        return host_view(cloud, resource, host)

    def _sessions(self, cloud: Cloud, resource: Resource, host: Document, call: Call) -> Any:
        if len(call.words) == 3:
            every = [_session(resource, host, one) for one in host["in"]]
            return _page(cloud, resource, call, every) if call.method == "GET" else None
        one = next((one for one in host["in"] if one["id"] == call.words[3]), None)
        if one is None:
            said = f"There is no session {call.words[3]} on {host['name']}."
            raise Refused(404, "NotFound", said)
        rest = [word.lower() for word in call.words[4:]]
        if call.method == "GET" and not rest:
            return _session(resource, host, one)
        if call.method == "DELETE" and not rest:
            host["in"].remove(one)
        elif (call.method, rest) == ("POST", ["disconnect"]):
            one["state"] = "Disconnected"
        elif (call.method, rest) == ("POST", ["sendmessage"]):
            cloud.validate(f"{SESSION}:sendMessage", call.body or {}, call.query["api-version"])
            host["messages"].append({"user": one["user"], **call.body})
            if one["leaves"]:
                host["in"].remove(one)
        else:
            return None
        return Reply(200, None)


def token_of(pool: Resource, ends: datetime) -> str:
    """A registration token: three parts as those of a JWT, of which none is signed."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    body = {"RegistrationId": str(uuid.uuid4()), "Pool": pool.name, "exp": int(ends.timestamp())}
    return f"{part({'alg': 'none'})}.{part(body)}.{secrets.token_urlsafe(32)}"


def _page(cloud: Cloud, resource: Resource, call: Call, every: list[Document]) -> Document:
    wrong = unknown(call.query, {"api-version", "pageSize", "initialSkip", "isDescending"})
    if wrong:
        raise Refused(400, "InvalidQueryParameter", wrong)
    skip, size = int(call.query.get("initialSkip", 0)), int(call.query.get("pageSize", PAGE))
    found: Document = {"value": every[skip : skip + size]}
    if len(every) > skip + size:
        version = call.query["api-version"]
        where = f"{cloud.url}{resource.id}/{'/'.join(call.words)}?api-version={version}"
        found["nextLink"] = f"{where}&initialSkip={skip + size}&pageSize={size}"
    return found


def _session(pool: Resource, host: Document, one: Document) -> Document:
    return {
        "id": f"{pool.id}/sessionHosts/{host['name']}/userSessions/{one['id']}",
        "name": f"{pool.name}/{host['name']}/{one['id']}",
        "type": SESSION,
        "properties": {
            "userPrincipalName": one["user"],
            "applicationType": "Desktop",
            "sessionState": one["state"],
            "createTime": one["since"],
        },
    }


def host_view(cloud: Cloud, pool: Resource, host: Document) -> Document:
    """A session host: Available while its machine runs, unless a test said otherwise."""
    machine = _machine(cloud, host["vmId"])
    runs = machine is None or machine.state.get("power") == "running"
    age = host["age"] if host["age"] is not None or runs else 86400.0
    beat = datetime.now(timezone.utc) - timedelta(seconds=age or 0.0)
    checks = {"DomainJoinedCheck": _WELL, **host["checks"]}
    properties = {
        **host["more"],
        "objectId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{pool.id}/{host['name']}")),
        "lastHeartBeat": stamp(beat),
        "sessions": len(host["in"]),
        "agentVersion": "1.0.0.0",
        "allowNewSession": host["allow"],
        "virtualMachineId": host["vmId"],
        "resourceId": machine.id if machine else host["resourceId"],
        "status": host["status"] or ("Available" if runs else "Shutdown"),
        "updateState": "Succeeded",
        "sessionHostHealthCheckResults": [
            {
                "healthCheckName": name,
                "healthCheckResult": result,
                "additionalFailureDetails": {
                    "message": ""
                    if result == "HealthCheckSucceeded"
                    else f"{name}: as a test said",
                    "errorCode": 0,
                    "lastHealthCheckDateTime": stamp(beat),
                },
            }
            for name, result in checks.items()
        ],
    }
    name = host["name"]
    head = {"id": f"{pool.id}/sessionHosts/{name}", "name": f"{pool.name}/{name}", "type": HOST}
    return {**head, "properties": properties}


def _machine(cloud: Cloud, vm_id: str) -> Resource | None:
    every = cloud.resources.values()
    return next((one for one in every if one.state.get("vmId") == vm_id), None)


def register(cloud: Cloud, body: Any) -> Reply:
    """An agent registers its host: ``token``, ``vmId``, ``name``, and for a machine that this cloud
    has not made ``resourceId``."""
    wrong = unknown(body, {"token", "vmId", "name", "resourceId"})
    if wrong or not all(isinstance(body.get(key), str) for key in ("token", "vmId", "name")):
        return refusal(400, "INVALID_FORM", wrong or "token, vmId and name are texts.")
    for pool in cloud.of_kind(POOL):
        kept = pool.state.get("token")
        if kept is None or kept["token"] != body["token"]:
            continue
        if kept["ends"] <= datetime.now(timezone.utc):
            return refusal(401, _INVALID, "The registration token has expired.")
        hosts = pool.state.setdefault("hosts", {})
        host = hosts.setdefault(body["name"].lower(), {"name": body["name"], "allow": True})
        host.update(vmId=body["vmId"], resourceId=body.get("resourceId", ""))
        for name, value in (("in", []), ("messages", []), ("checks", {}), ("more", {})):
            host.setdefault(name, value)
        for name in ("status", "age"):
            host.setdefault(name, None)
        return Reply(200, {"hostPool": pool.id, "name": host["name"]})
    return refusal(401, _INVALID, "The registration token is not one of a host pool.")


def set_host(cloud: Cloud, name: str, **said: Any) -> Document:
    """Let a session host be what a test needs.

    Args:
        name: of the host, in whichever pool.
        said: ``status`` (None: what its machine says), ``checks`` (name to result),
            ``heartbeat_age_seconds``, ``allow_new_session``, ``sessions`` (each ``user``,
            ``state``, and whether the user ``leaves`` when told to).

    Raises:
        Refused: there is none, or it has no such setting.
    """
    found = [pool.state.get("hosts", {}).get(name.lower()) for pool in cloud.of_kind(POOL)]
    host = next((one for one in found if one), None)
    wrong = unknown(said, _HOST_SETTINGS) or ("" if host else f"no session host {name}")
    if wrong or host is None:
        raise Refused(400, "UnknownFault", wrong)
    keys = {"heartbeat_age_seconds": "age", "allow_new_session": "allow"}
    for key, value in said.items():
        if key != "sessions":
            host[keys.get(key, key)] = value
            continue
        strange = [unknown(one, _SESSION) for one in value]
        if any(strange):
            raise Refused(400, "UnknownFault", "; ".join(strange))
        host["in"] = [
            {"state": "Active", "leaves": False, "since": stamp(datetime.now(timezone.utc)), **one}
            | {"id": str(number)}
            for number, one in enumerate(value, 2)
        ]
    return dict(host)


def automate(cloud: Cloud, pool: str) -> None:
    """Let a pool's hosts be managed by a session host configuration."""
    cloud.resource(pool).state["management"] = "Automated"


class ApplicationGroup(_Kept):
    kind = GROUP
    rank = 6
    held = (409, "ApplicationGroupInUse")
    fixed = (("properties", "hostPoolArmPath"), ("properties", "applicationGroupType"))

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        super().check(cloud, asked, before)
        pool = cloud.resource(str(asked.properties["hostPoolArmPath"]))
        if pool.kind != POOL or pool.location != asked.location:
            said = f"{pool.id} is no host pool in {asked.location}."
            raise Refused(400, "InvalidHostPool", said)
        if asked.properties["applicationGroupType"] != "Desktop":
            return
        for one in cloud.users(pool.id):
            desktop = at(one.body, "properties", "applicationGroupType") == "Desktop"
            if one.kind == GROUP and desktop and one.key != asked.key:
                said = f"The host pool {pool.name} has the desktop application group {one.name}."
                raise Refused(409, "DesktopApplicationGroupExists", said)

    def add(self, cloud: Cloud, resource: Resource) -> Document:
        spaces = [one.id for one in cloud.users(resource.id) if one.kind == Workspace.kind]
        return {**super().add(cloud, resource), "workspaceArmPath": spaces[0] if spaces else None}

    def act(self, cloud: Cloud, resource: Resource, call: Call) -> Any:
        """Its desktop, which is there with a group of that type."""
        words = [word.lower() for word in call.words]
        if words[0] != "desktops" or len(words) > 2:
            return None
        if resource.properties["applicationGroupType"] != "Desktop":
            return {"value": []} if len(words) == 1 and call.method == "GET" else None
        kept = resource.state.setdefault("desktop", {"friendlyName": "SessionDesktop"})
        if len(words) == 2 and words[1] != "sessiondesktop":
            raise Refused(404, "NotFound", f"There is no desktop {call.words[1]}.")
        if call.method == "PATCH" and len(words) == 2:
            cloud.validate(f"{GROUP}/desktops:patch", call.body, call.query["api-version"])
            kept.update(call.body.get("properties") or {})
        elif call.method != "GET":
            return None
        found = {
            "id": f"{resource.id}/desktops/SessionDesktop",
            "name": f"{resource.name}/SessionDesktop",
            "type": f"{GROUP}/desktops",
            "properties": dict(kept),
        }
        return found if len(words) == 2 else {"value": [found]}


class Application(_Kept):
    kind = f"{GROUP}/applications"
    regional = False
    rank = 5

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        group = cloud.resource(asked.id.rsplit("/", 2)[0])
        if group.properties["applicationGroupType"] != "RemoteApp":
            said = f"{group.name} is a desktop application group, which has no applications."
            raise Refused(400, "InvalidApplicationGroupType", said)
        kind = asked.properties.get("applicationType", "InBuilt")
        if kind == "InBuilt" and not asked.properties.get("filePath"):
            raise Refused(400, "InvalidRequestContent", "An application needs a filePath.")

    def view(self, cloud: Cloud, resource: Resource) -> Document:
        found = super().view(cloud, resource)
        found["name"] = "/".join(resource.id.split("/")[-3::2])
        return found


class Workspace(_Kept):
    kind = f"{NAMESPACE}/workspaces"
    rank = 5
    defaults = {"publicNetworkAccess": "Enabled"}

    def check(self, cloud: Cloud, asked: Resource, before: Resource | None) -> None:
        super().check(cloud, asked, before)
        for path in asked.properties.get("applicationGroupReferences") or []:
            group = cloud.resource(path)
            if group.kind != GROUP:
                raise Refused(400, "InvalidApplicationGroup", f"{path} is no application group.")
            for one in cloud.users(path):
                if one.kind == self.kind and one.key != asked.key:
                    said = f"{group.name} is in the workspace {one.name}."
                    raise Refused(409, "ApplicationGroupInWorkspace", said)


PROVIDERS = (HostPool(), ApplicationGroup(), Application(), Workspace())
