"""The role avd_session_host, planned. Names of Azure's and Windows' are typed in from the project's
facts on Windows (Azure Virtual Desktop)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from role_plans import asked
from test_avd_session_host import PROPERTIES
from trueup_controller.desktops.avd_session_host import asks, plan

AGENT = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"
ENTRA = r"HKLM:\SYSTEM\CurrentControlSet\Control\CloudDomainJoin\JoinInfo"
DOMAIN = r"HKLM:\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters"
HOST = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
JOINED = {"values": {}, "keys": ["0123456789ABCDEF"]}
OF_DOMAIN = {"values": {"Domain": {"type": "REG_SZ", "data": "cad.example"}}, "keys": []}
STARTED = {"state": "started", "start_mode": "auto"}
REGISTERED = {"values": {"IsRegistered": {"type": "REG_DWORD", "data": 1}}, "keys": []}
ID = "11111111-2222-3333-4444-555555555555"
APPS = [{"name": "nx", "path": r"C:\nx\ugraf.exe"}]


def found(
    agent: Any = None, service: Any = None, entra: Any = JOINED, domain: Any = None
) -> dict[str, Any]:
    return {
        "registry": {AGENT: agent, ENTRA: entra, DOMAIN: domain},
        "services": {"RDAgentBootLoader": service},
    }


def planned(there: dict[str, Any] | None = None, /, token: str = "", **options: Any) -> Any:
    given = {"pool": "nx-pool", **options}
    ask = asked("avd_session_host", HOST, there or found(), **given)
    return plan(replace(ask, secrets={"token": token}))


def values(there: dict[str, Any] | None = None, /, **options: Any) -> dict[str, Any]:
    done = planned(there, **options)
    assert done.refused == []
    return dict(done.as_result())


def test_without_a_pool_the_role_is_skipped_by_name_and_asks_nothing() -> None:
    ask = asked("avd_session_host", HOST)
    assert asks(ask) == {}
    done = plan(ask)
    [skip] = done.skipped
    assert (skip.what, skip.why) == (
        "avd_session_host",
        "no host pool is named: set avd_session_host_pool",
    )
    assert (done.values["packages"], done.values["changes"]) == ([], False)


def test_what_the_host_is_asked() -> None:
    ask = asked("avd_session_host", HOST, pool="nx-pool")
    assert asks(ask) == {
        "windows_facts": {"registry": [AGENT, ENTRA, DOMAIN], "services": ["RDAgentBootLoader"]}
    }


def test_what_a_fresh_host_gets() -> None:
    result = values()
    assert result["pool"] == PROPERTIES
    start = "https://query.prod.cms.rt.microsoft.com/cms/api/am/binary/"
    assert [(one["name"], one["url"]) for one in result["packages"]] == [
        ("agent", f"{start}RWrmXv"),
        ("boot_loader", f"{start}RWrxrH"),
    ]
    assert (result["joined"], result["registered"], result["changes"]) == ("entra", False, False)


def test_what_is_installed_is_not_installed_again() -> None:
    assert values(found(REGISTERED, STARTED))["packages"] == []
    assert values(found(REGISTERED, STARTED))["registered"] is True
    half = values(found({"values": {}, "keys": []}))["packages"]
    assert [one["name"] for one in half] == ["boot_loader"]


def test_groups_and_applications_in_azures_names() -> None:
    groups = [
        {"name": "nx-desk", "type": "Desktop", "friendly_name": "NX"},
        {"name": "nx-apps", "type": "RemoteApp", "applications": APPS},
    ]
    desk, apps = values(groups=groups, workspace="nx-space")["groups"]
    assert desk == {
        "name": "nx-desk",
        "properties": {"applicationGroupType": "Desktop", "friendlyName": "NX"},
        "applications": [],
    }
    assert apps["applications"] == [
        {
            "name": "nx",
            "properties": {
                "applicationType": "InBuilt",
                "friendlyName": "nx",
                "filePath": r"C:\nx\ugraf.exe",
                "commandLineSetting": "DoNotAllow",
                "commandLineArguments": "",
                "showInPortal": True,
            },
        }
    ]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"pool": "nx"}, "avd_session_host_pool is 'nx': give 3 to 64 letters"),
        (
            {"pool_properties": {"loadBalancerType": "Persistent"}},
            "Persistent is that of Personal pools",
        ),
        (
            {"pool_properties": {"hostPoolType": "Personal"}},
            "avd_session_host_pool_properties.loadBalancerType is BreadthFirst",
        ),
        (
            {"pool_properties": {"maxSesionLimit": 5}},
            "avd_session_host_pool_properties.maxSesionLimit is not known: did you mean maxSession",
        ),
        (
            {"pool_properties": {"hostPoolType": "pooled"}},
            "avd_session_host_pool_properties.hostPoolType is 'pooled': it must be one of Pooled",
        ),
        ({"token_hours": 649}, "a token is good for 1 to 648 hours"),
        ({"token_hours": 0}, "a token is good for 1 to 648 hours"),
        (
            {"pool_properties": {"maxSessionLimit": 0}},
            "avd_session_host_pool_properties.maxSessionLimit is 0: it must be 1 or more.",
        ),
        (
            {"pool_properties": {"customRdpProperty": ""}},
            "neither targetisaadjoined:i:1 nor enablerdsaadauth:i:1",
        ),
        ({"azure": "none"}, "give a registration token (avd_session_host_token)"),
        ({"agent_sha256": "abc"}, "avd_session_host_agent_sha256 is 'abc'"),
        ({"boot_loader_url": "http://mirror/b.msi"}, "avd_session_host_boot_loader_url is 'http"),
        ({"workspace": "nx-space"}, "avd_session_host_workspace is given without"),
        ({"users": [{"id": ID}]}, "avd_session_host_users are given without"),
        (
            {"groups": [{"name": "one", "type": "Desktop"}], "users": [{"id": "ana@cad.example"}]},
            "'ana@cad.example' is no object id",
        ),
        ({"groups": [{"name": "one", "type": "RemoteApp"}]}, "has no applications: give some"),
        (
            {"groups": [{"name": "one", "type": "Desktop", "applications": APPS}]},
            "is a desktop and has applications",
        ),
        (
            {"groups": [{"name": "one", "type": "Desktop"}, {"name": "two", "type": "Desktop"}]},
            "has the desktop groups one, two: a host pool has one",
        ),
        (
            {
                "groups": [
                    {"name": "one", "type": "Desktop"},
                    {"name": "ONE", "type": "RemoteApp", "applications": APPS},
                ]
            },
            "one of them twice",
        ),
        ({"groups": [{"name": "a/b", "type": "Desktop"}]}, "the group 'a/b'"),
    ],
)
def test_what_is_refused(options: dict[str, Any], part: str) -> None:
    refused = planned(None, **options).refused
    assert [one for one in refused if part in one] != []


@pytest.mark.parametrize(
    "options",
    [
        {"pool_properties": {"hostPoolType": "Personal", "loadBalancerType": "Persistent"}},
        {"pool_properties": {"loadBalancerType": "DepthFirst"}},
        {"pool_properties": {"customRdpProperty": "audiomode:i:0;EnableRdsAadAuth:i:1"}},
        {"agent_url": "http://mirror/a.msi", "agent_sha256": "A" * 64},
        {"token_hours": 648},
        {"azure": "none", "token": "x"},
    ],
)
def test_what_is_taken(options: dict[str, Any]) -> None:
    assert planned(None, **options).refused == []


def test_a_host_that_is_joined_to_nothing_is_refused() -> None:
    [text] = planned(found(entra=None)).refused
    assert text.startswith("avd_session_host: this host is joined neither to Entra ID nor to a")
    # JoinInfo is there, and empty, on a host that left.
    assert planned(found(entra={"values": {}, "keys": []})).refused == [text]
    of_domain = planned(
        found(entra=None, domain=OF_DOMAIN), pool_properties={"customRdpProperty": ""}
    )
    assert (of_domain.refused, of_domain.values["joined"]) == ([], "domain")


def test_another_system_is_refused() -> None:
    options = {"pool": "nx-pool"}
    server = {**HOST, "os": "Windows Server 2022 Datacenter"}
    [text] = plan(asked("avd_session_host", server, found(), **options)).refused
    assert "RDS-RD-Server" in text
    linux = asked("avd_session_host", {**HOST, "system": "linux"}, **options)
    [text] = plan(linux).refused
    assert (asks(linux), "runs no Windows" in text) == ({}, True)


def test_a_token_is_in_no_value() -> None:
    assert "s3cret" not in str(values(None, token="s3cret"))
