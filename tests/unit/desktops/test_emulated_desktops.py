"""The emulated cloud's Azure Virtual Desktop: what it takes, refuses and says."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from emulated_cloud import SUBSCRIPTION, Cloud, Models, Reply, desktops
from helpers import parametrized

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/cad"
HERE = f"{GROUP}/providers/Microsoft.DesktopVirtualization"
POOL, HOST = f"{HERE}/hostPools/nx-pool", f"{HERE}/hostPools/nx-pool/sessionHosts/nx-1"
POOLED = {
    "hostPoolType": "Pooled",
    "loadBalancerType": "BreadthFirst",
    "preferredAppGroupType": "Desktop",
}
DESKTOP = {"hostPoolArmPath": POOL, "applicationGroupType": "Desktop"}
REMOTE = {"hostPoolArmPath": POOL, "applicationGroupType": "RemoteApp"}


class Site:
    """A cloud that holds requests against Microsoft's models, with one pool."""

    def __init__(self) -> None:
        self.cloud = Cloud()
        self.cloud.url = "https://localhost:1"
        self.cloud.validate = Models()
        self.word = self.cloud.token()
        self.ask("PUT", GROUP, {"location": "eastus"}, version="2022-09-01")
        self.ask("PUT", POOL, {"location": "eastus", "properties": POOLED})

    def ask(
        self, method: str, path: str, body: Any = None, *, version: str = "2024-04-03", **query: str
    ) -> Reply:
        asked = {"api-version": version, **query}
        return self.cloud.call(method, path, asked, body, f"Bearer {self.word}")

    def code(self, method: str, path: str, body: Any = None, **query: str) -> str:
        reply = self.ask(method, path, body, **query)
        assert self.cloud.broken == []
        return str(reply.document["error"]["code"]) if reply.status >= 400 else str(reply.status)

    def update(self, hours: float) -> str:
        ends = datetime.now(timezone.utc) + timedelta(hours=hours)
        info = {"expirationTime": ends.isoformat(), "registrationTokenOperation": "Update"}
        return self.code("PATCH", POOL, {"properties": {"registrationInfo": info}})

    def token(self) -> Any:
        return self.ask("POST", f"{POOL}/retrieveRegistrationToken").document["token"]

    def joined(self, name: str = "nx-1") -> Reply:
        self.update(2)
        body = {"token": self.token(), "vmId": f"vm-{name}", "name": name}
        return self.cloud.call("POST", desktops.BROKER, {}, body, "")


@parametrized(("hours", "code"))
def test_a_token_lives_an_hour_to_27_days(hours: float, code: str) -> None:
    assert Site().update(hours) == code


def test_a_host_registers_with_a_token_that_is_valid() -> None:
    site = Site()
    assert site.joined().status == 200
    shown = site.ask("GET", HOST).document
    assert (shown["name"], shown["properties"]["virtualMachineId"]) == ("nx-pool/nx-1", "vm-nx-1")
    assert shown["properties"]["status"] == "Available"
    assert len(shown["properties"]["lastHeartBeat"]) == len("2008-09-22T14:01:54.9571247Z")
    site.cloud.resource(POOL).state["token"]["ends"] = datetime.now(timezone.utc)
    for token in ("another", site.cloud.resource(POOL).state["token"]["token"]):
        body = {"token": token, "vmId": "vm-2", "name": "nx-2"}
        late = site.cloud.call("POST", desktops.BROKER, {}, body, "")
        assert (late.status, late.document["error"]["code"]) == (401, "INVALID_REGISTRATION_TOKEN")
    assert len(site.ask("GET", f"{POOL}/sessionHosts").document["value"]) == 1


REFUSED: list[tuple[str, str, Any, str]] = [
    ("PUT", f"{HERE}/hostPools/nx", {"properties": POOLED}, "InvalidResourceName"),
    (
        *("PUT", f"{HERE}/hostPools/two"),
        *({"properties": {**POOLED, "loadBalancerType": "Widest"}}, "InvalidRequestContent"),
    ),
    (
        *("PUT", f"{HERE}/hostPools/two"),
        *({"properties": {**POOLED, "managementType": "Standard"}}, "InvalidRequestContent"),
    ),
    (
        *("PUT", f"{HERE}/hostPools/two"),
        *({"properties": {**POOLED, "loadBalancerType": "Persistent"}}, "InvalidLoadBalancerType"),
    ),
    ("PATCH", POOL, {"properties": {"hostPoolType": "Pooled"}}, "InvalidRequestContent"),
    ("PATCH", HOST, {"properties": {"status": "Available"}}, "InvalidRequestContent"),
    ("PUT", HOST, {"properties": {}}, "InvalidResourceType"),
    ("DELETE", POOL, None, "HostPoolHasSessionHosts"),
    ("PUT", f"{HERE}/applicationGroups/one-more", {"properties": DESKTOP}, "DesktopApplication"),
    (
        *("PUT", f"{HERE}/applicationGroups/desktop/applications/nx-app"),
        *({"properties": {"commandLineSetting": "DoNotAllow"}}, "InvalidApplicationGroupType"),
    ),
    (
        *("PUT", f"{HERE}/applicationGroups/apps/applications/nx-app"),
        *({"properties": {"filePath": "C:\\nx.exe"}}, "InvalidRequestContent"),
    ),
    ("DELETE", f"{HERE}/applicationGroups/desktop", None, "ApplicationGroupInUse"),
    (
        *("PUT", f"{HERE}/workspaces/two"),
        *({"properties": {"applicationGroupReferences": [POOL]}}, "InvalidApplicationGroup"),
    ),
    ("GET", f"{HOST}/userSessions/7", None, "NotFound"),
    ("GET", f"{POOL}/scalingPlans", None, "InvalidResourceType"),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), REFUSED)
def test_what_is_refused(method: str, path: str, body: Any, code: str) -> None:
    site = Site()
    site.joined()
    for name, properties in (("desktop", DESKTOP), ("apps", REMOTE)):
        where = f"{HERE}/applicationGroups/{name}"
        assert site.code("PUT", where, {"location": "eastus", "properties": properties}) == "201"
    references = {"applicationGroupReferences": [f"{HERE}/applicationGroups/desktop"]}
    given = {"location": "eastus", "properties": references}
    assert site.code("PUT", f"{HERE}/workspaces/one", given) == "201"
    if method == "PUT" and "/applications/" not in path:
        body = {"location": "eastus", **body}
    assert site.code(method, path, body).startswith(code)
