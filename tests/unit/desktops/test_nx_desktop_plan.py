"""The role nx_desktop, planned. Keys and the article's figures are typed in from the project's
facts on Windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from trueup_controller.desktops.nx_desktop import asks, plan
from trueup_node.plan import PlanInputs

ENVIRONMENT = r"HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
PRODUCT = (
    r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall"
    r"\{11111111-2222-3333-4444-555555555555}"
)
RECORD = r"HKLM:\SOFTWARE\trueup\nx_desktop"
SHA256 = "0123456789abcdef" * 4
HOST = {
    "system": "windows",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
NX = {
    "url": "https://mirror.example/nx2506.zip",
    "sha256": SHA256.upper(),
    "setup": r"nx2506\SiemensNX.msi",
    "arguments": ["/qn"],
    "product": "{11111111-2222-3333-4444-555555555555}",
    "version": "2506.4",
    "environment": {"LICENCE_SERVER": "28000@licences"},
    "reboot_allowed": False,
}
# Members of nx_desktop_installer.
INSTALLER = ("setup", "arguments", "product", "version", "prodct")


def key(**values: Any) -> dict[str, Any]:
    types = {str: "REG_SZ", list: "REG_MULTI_SZ"}
    return {
        "values": {
            name: {"type": types[type(data)], "data": data} for name, data in values.items()
        },
        "keys": [],
    }


def asked(
    found: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    *,
    verify: bool = False,
    **options: Any,
) -> PlanInputs:
    values = {**NX, **options}
    values["installer"] = {name: values.pop(name) for name in INSTALLER if name in values}
    return PlanInputs(
        options=values,
        node=HOST,
        found={"registry": found or {}, **({"verify": True} if verify else {})},
        variables=variables or {},
    )


def test_nothing_is_declared() -> None:
    one = asked(url="")
    assert asks(one) == {}
    made = plan(one)
    assert (made.values["package"], made.values["changes"], made.refused) == ({}, False, [])
    assert [skipped.what for skipped in made.skipped] == ["nx_desktop"]
    assert "set nx_desktop_url" in made.skipped[0].why


def test_a_host_without_nx() -> None:
    one = asked()
    assert asks(one) == {"windows_facts": {"registry": [PRODUCT, ENVIRONMENT, RECORD]}}
    made = plan(one)
    assert (made.refused, made.values["changes"], made.values["warnings"]) == ([], True, [])
    assert made.values["package"] == {
        "install": True,
        "record": RECORD,
        "name": "NX 2506.4",
        "url": "https://mirror.example/nx2506.zip",
        "sha256": SHA256,
        "folder": r"C:\Program Files\trueup\nx_desktop\0123456789ab",
        "setup": r"nx2506\SiemensNX.msi",
        "arguments": ["/qn"],
    }
    assert made.values["settings"]["registry"] == [
        {
            "path": RECORD,
            "name": "Environment",
            "type": "multistring",
            "data": ["LICENCE_SERVER"],
            "state": "present",
        },
        {
            "path": ENVIRONMENT,
            "name": "LICENCE_SERVER",
            "type": "string",
            "data": "28000@licences",
            "state": "present",
        },
    ]


@pytest.mark.parametrize(
    ("installed", "due"),
    [
        ("2506.4", False),
        ("2506.4000.1.2", False),
        ("2506.10", False),
        ("2512", False),
        ("2506.3.9", True),
        ("2506", True),
        ("", True),
        ("unknown", True),
    ],
)
def test_versions_are_compared_part_by_part(installed: str, due: bool) -> None:
    made = plan(asked({PRODUCT: key(DisplayVersion=installed)}))
    assert (made.values["package"]["install"], made.values["changes"]) == (due, due)


def test_variables_that_are_as_declared_are_left_alone() -> None:
    found = {
        PRODUCT: key(DisplayVersion="2506.4"),
        ENVIRONMENT: key(licence_server="28000@licences", Path=r"C:\Windows"),
        RECORD: key(Environment=["LICENCE_SERVER"]),
    }
    assert plan(asked(found)).values["settings"] == {"registry": []}
    # What is no longer declared goes, and then the note of it; what others wrote stays.
    assert plan(asked(found, environment={})).values["settings"]["registry"] == [
        {"path": ENVIRONMENT, "name": "LICENCE_SERVER", "state": "absent"},
        {
            "path": RECORD,
            "name": "Environment",
            "type": "multistring",
            "data": [],
            "state": "present",
        },
    ]
    again = {**found, ENVIRONMENT: key(Path=r"C:\Windows"), RECORD: key(Environment=[])}
    assert plan(asked(again, environment={})).values["settings"] == {"registry": []}


def test_what_did_not_come_out_is_refused() -> None:
    first, second = plan(asked(verify=True)).refused
    assert "correct product or version of nx_desktop_installer" in first
    assert "something else writes the variables" in second
    in_check_mode = plan(asked(None, {"ansible_check_mode": True}, verify=True))
    assert in_check_mode.refused == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sha256": "1234"}, "nx_desktop_sha256 is no SHA-256"),
        ({"product": ""}, "nx_desktop_installer.product is no name of a key"),
        ({"product": r"..\Run"}, "nx_desktop_installer.product is no name of a key"),
        ({"version": "2506a"}, "nx_desktop_installer.version is no version"),
        ({"version": "1.2.3.4.5"}, "nx_desktop_installer.version is no version"),
        ({"version": 2506}, "nx_desktop_installer.version is 2506: it must be a text."),
        ({"prodct": "x"}, "nx_desktop_installer.prodct is not known: did you mean product?"),
        ({"environment": {"A B": "1"}}, "names of variables have letters"),
        ({"environment": {"Path": "C:\\nx"}}, "Path is Windows' own"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    one = asked(**options)
    [refused] = plan(one).refused
    assert (sentence in refused, asks(one)) == (True, {})


def test_a_linux_node_is_refused() -> None:
    node = {"system": "linux", "os": "Ubuntu 24.04"}
    [refused] = plan(replace(asked(), node=node)).refused
    assert refused == "nx_desktop: Ubuntu 24.04 is no Windows, which NX of this role is for."


@pytest.mark.parametrize(
    ("node", "sessions", "warning"),
    [
        ({"vm_size": "Standard_NV6ads_A10_v5"}, 5, "not on Standard_NV6ads_A10_v5"),
        ({"os": "Windows 11 Enterprise 25H2"}, 5, "has one session"),
        ({}, 8, "8 sessions a host; NX was tested with 5"),
    ],
)
def test_what_was_not_tested_is_warned_of(
    node: dict[str, Any], sessions: int, warning: str
) -> None:
    variables = {"avd_session_host_pool_properties": {"maxSessionLimit": sessions}}
    made = plan(replace(asked(None, variables), node={**HOST, **node}))
    [said] = made.values["warnings"]
    assert warning in said
