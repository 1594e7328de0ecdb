"""Asks a cloud for Azure Virtual Desktop with azure-mgmt-desktopvirtualization, unmodified: what
held.py runs. What the package parses of each answer is printed as JSON.

A pool, its groups, an application, a workspace, a token, hosts that register with it, their users'
sessions, a drained host, and the end of all of it, refused while something is in it.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from datetime import datetime, timedelta, timezone
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.identity import ManagedIdentityCredential
from azure.mgmt.desktopvirtualization import DesktopVirtualizationMgmtClient
from azure.mgmt.desktopvirtualization import models as m
from azure.mgmt.resource.resources import ResourceManagementClient

GROUP, POOL, DESK, APPS, SPACE = "cad", "nx-pool", "nx-desk", "nx-apps", "nx-space"


def post(url: str, path: str, body: Any) -> Any:
    """A call that Azure has not: an agent's, or a test's."""
    head = {"Emulated-Secret": os.environ["EMULATED_CLOUD_SECRET"]}
    asked = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), head)  # noqa: S310
    context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
    with urllib.request.urlopen(asked, context=context) as answer:  # noqa: S310
        return json.loads(answer.read() or b"null")


def code(call: Any, *given: Any, **named: Any) -> str:
    """The code of a refusal; empty where there is none."""
    try:
        call(*given, **named)
    except HttpResponseError as error:
        return str(error.error.code if error.error else error.status_code)
    return ""


def made(client: Any, subscription: str) -> dict[str, Any]:
    here = f"/subscriptions/{subscription}/resourceGroups/{GROUP}/providers"
    here += "/Microsoft.DesktopVirtualization"
    kinds = {"host_pool_type": "Pooled", "load_balancer_type": "DepthFirst"}
    pool = m.HostPool(
        location="eastus", preferred_app_group_type="Desktop", max_session_limit=5, **kinds
    )
    found = client.host_pools.create_or_update(GROUP, POOL, pool)
    said = {"pool": [found.name, found.load_balancer_type, found.max_session_limit]}
    for name, kind in ((DESK, "Desktop"), (APPS, "RemoteApp")):
        group = m.ApplicationGroup(
            location="eastus",
            host_pool_arm_path=f"{here}/hostPools/{POOL}",
            application_group_type=kind,
        )
        client.application_groups.create_or_update(GROUP, name, group)
    app = m.Application(command_line_setting="DoNotAllow", file_path="C:\\nx.exe")
    client.applications.create_or_update(GROUP, APPS, "nx", app)
    groups = [f"{here}/applicationGroups/{name}" for name in (DESK, APPS)]
    space = m.Workspace(location="eastus", application_group_references=groups)
    client.workspaces.create_or_update(GROUP, SPACE, space)
    said["groups"] = sorted(
        one.rpartition("/")[2]
        for one in client.host_pools.get(GROUP, POOL).application_group_references
    )
    said["applications"] = [one.name for one in client.applications.list(GROUP, APPS)]
    said["desktops"] = [one.friendly_name for one in client.desktops.list(GROUP, DESK)]
    said["workspaces"] = [one.name for one in client.workspaces.list_by_resource_group(GROUP)]
    return said


def registered(client: Any, url: str) -> dict[str, Any]:
    info = m.RegistrationInfoPatch(
        expiration_time=datetime.now(timezone.utc) + timedelta(hours=2),
        registration_token_operation="Update",  # noqa: S106 WHY: a word
    )
    client.host_pools.update(GROUP, POOL, m.HostPoolPatch(registration_info=info))
    token = client.host_pools.retrieve_registration_token(GROUP, POOL)
    left = (token.expiration_time - datetime.now(timezone.utc)).total_seconds()
    hidden = client.host_pools.get(GROUP, POOL).registration_info.token
    every = client.host_pools.list_registration_tokens(GROUP, POOL).value
    listed = [one.token for one in every]
    for number in range(3):
        body = {"token": token.token, "vmId": f"vm-{number}", "name": f"nx-{number}"}
        post(url, "/emulated-desktops/register", body)
    pages = client.session_hosts.list(GROUP, POOL, page_size=2).by_page()
    return {
        "token": [hidden, listed == [token.token], 7100 < left <= 7200],
        "hosts": [[one.name for one in page] for page in pages],
    }


def drained(client: Any, url: str) -> dict[str, Any]:
    users = [{"user": "ana", "leaves": True}, {"user": "bo", "state": "Disconnected"}]
    post(url, "/emulated/faults", {"kind": "session-host", "name": "nx-0", "sessions": users})
    patch = m.SessionHostPatch(allow_new_session=False)
    client.session_hosts.update(GROUP, POOL, "nx-0", session_host=patch)
    host = client.session_hosts.get(GROUP, POOL, "nx-0")
    said: dict[str, Any] = {"host": [host.allow_new_session, host.sessions, host.status]}
    beat = datetime.now(timezone.utc) - host.last_heart_beat
    said["heartbeat"] = 0 <= beat.total_seconds() < 60
    checks = host.session_host_health_check_results
    said["checks"] = [[one.health_check_name, one.health_check_result] for one in checks]
    message = m.SendMessage(message_title="Maintenance", message_body="Sign out.")
    for one in list(client.user_sessions.list(GROUP, POOL, "nx-0")):
        number = one.name.rpartition("/")[2]
        client.user_sessions.send_message(GROUP, POOL, "nx-0", number, send_message=message)
    left = list(client.user_sessions.list_by_host_pool(GROUP, POOL))
    said["left"] = [[one.user_principal_name, one.session_state] for one in left]
    said["in use"] = code(client.session_hosts.delete, GROUP, POOL, "nx-0")
    client.user_sessions.delete(GROUP, POOL, "nx-0", left[0].name.rpartition("/")[2], force=True)
    client.session_hosts.delete(GROUP, POOL, "nx-0")
    return said


def ended(client: Any) -> dict[str, Any]:
    refused = [
        code(client.host_pools.delete, GROUP, POOL),
        code(client.application_groups.delete, GROUP, DESK),
        code(client.host_pools.get, GROUP, "none-such"),
        code(
            client.host_pools.create_or_update,
            *(GROUP, "other"),
            {"location": "eastus", "properties": {"hostPoolType": "Wide"}},
        ),
    ]
    client.workspaces.delete(GROUP, SPACE)
    client.application_groups.delete(GROUP, DESK)
    client.application_groups.delete(GROUP, APPS)
    client.host_pools.delete(GROUP, POOL, force=True)
    return {"refused": refused, "pools": [one.name for one in client.host_pools.list()]}


def main() -> None:
    url, subscription = sys.argv[1:]
    credential = ManagedIdentityCredential()
    more = {"base_url": url, "credential_scopes": [f"{url}/.default"]}
    groups = ResourceManagementClient(credential, subscription, **more)
    groups.resource_groups.create_or_update(GROUP, {"location": "eastus"})
    client = DesktopVirtualizationMgmtClient(credential, subscription, **more)
    said = made(client, subscription)
    said |= registered(client, url)
    said |= drained(client, url)
    print(json.dumps(said | ended(client)))


if __name__ == "__main__":
    main()
