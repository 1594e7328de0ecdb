"""The role nfs_server, planned: what a list of exports becomes, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import asked, node
from trueup_controller.plans.nfs_server import asks, plan
from trueup_node.plan import Plan

NODE = node("hbv3")
EXPORT = {"path": "/srv/shared/", "clients": ["10.1.0.0/16", "10.2.0.7/32"]}
USUAL = "rw,sync,no_subtree_check,root_squash"
# As nfs-utils 2.6.2 of Debian 12 prints it.
SHOWN = "sync,wdelay,hide,no_subtree_check,sec=sys,rw,secure,root_squash,no_all_squash"


def planned(exports: list[Any], found: Any = None, /, on: Any = NODE, **options: Any) -> Plan:
    return plan(asked("nfs_server", on, found, exports=exports, **options))


def values(exports: list[Any], found: Any = None, /, on: Any = NODE, **options: Any) -> Any:
    got = planned(exports, found, on, **options)
    assert (got.refused, got.skipped) == ([], [])
    return got.as_result()


def after(*lines: str, **options: Any) -> list[str]:
    """What is said of what the server shows once the exports were made."""
    return planned([EXPORT], {"made": True, "stdout_lines": [*lines]}, **options).refused


def test_a_node_without_exports_and_a_container_are_skipped_and_asked_nothing() -> None:
    box = node("hbv3", container=True)
    for exports, on, why in (
        ([], NODE, "nfs_server_exports is empty"),
        ([EXPORT], box, "a container: the NFS server is its host kernel's"),
    ):
        got = planned(exports, None, on)
        assert [(one.what, one.why) for one in got.skipped] == [("nfs_server", why)]
        assert asks(asked("nfs_server", on, exports=exports)) == {}


def test_what_the_node_is_asked() -> None:
    before = {"programs": ("exportfs", "rpc.nfsd"), "folders": ["/srv/shared/"]}
    assert asks(asked("nfs_server", NODE, exports=[EXPORT])) == {"program_facts": before}
    (command,) = asks(asked("nfs_server", NODE, {"made": True}, exports=[EXPORT])).values()
    assert command["argv"][-1] == "cat /proc/fs/nfsd/threads && exportfs -s"


def test_the_exports_and_the_threads() -> None:
    other = {"path": "/home", "clients": ["fd00::/64"], "read_only": "yes", "root_squash": False}
    assert values([EXPORT, other], threads=8)["files"] == [
        {
            "path": "/etc/exports.d/trueup.exports",
            "content": "# Written by trueup (role nfs_server).\n"
            f"/srv/shared 10.1.0.0/16({USUAL}) 10.2.0.7/32({USUAL})\n"
            "/home fd00::/64(ro,sync,no_subtree_check,no_root_squash)\n",
        },
        {
            "path": "/etc/nfs.conf.d/trueup.conf",
            "content": "# Written by trueup (role nfs_server).\n[nfsd]\nthreads=8\n",
        },
    ]


def test_what_is_missing_is_installed_and_made() -> None:
    alma = node("hbv3", "almalinux-9")
    home = {"path": "/home", "clients": ["10.1.0.0/16"], "owner": "hpc", "mode": "0755"}
    folders = {
        "/srv/shared/": {"path": "/srv/shared"},
        "/home": {"path": "/"},
    }
    programs = {"exportfs": "/usr/sbin/exportfs", "rpc.nfsd": "/usr/sbin/rpc.nfsd"}
    found = {"programs": programs, "folders": folders}
    missing = {"path": "/home", "owner": "hpc", "group": "root", "mode": "0755"}
    got = values([EXPORT, home], found, alma)
    assert (got["packages"], got["folders"]) == ([], [missing])
    assert values([EXPORT], {"programs": {**programs, "rpc.nfsd": None}}, alma)["packages"] == [
        "nfs-utils"
    ]
    fresh = values([EXPORT])
    assert (fresh["packages"], len(fresh["folders"])) == (["nfs-kernel-server"], 1)


@pytest.mark.parametrize(
    ("exports", "message"),
    [
        (["x"], "unable to convert to dict"),
        ([{**EXPORT, "client": 1}], "nfs_server_exports.client"),
        ([{"path": "/srv"}], "missing required arguments: clients"),
    ],
)
def test_what_is_no_export_is_refused_by_its_description(exports: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked("nfs_server", NODE, exports=exports)


@pytest.mark.parametrize(
    ("exports", "message"),
    [
        ([{**EXPORT, "path": "/"}], "nfs_server_exports[0] (/): path is '/'"),
        ([{**EXPORT, "path": "srv"}], "path is 'srv'"),
        ([{**EXPORT, "clients": []}], "clients is empty: give a list of networks"),
        ([{**EXPORT, "clients": ["*"]}], "client '*' is no network"),
        ([{**EXPORT, "clients": ["10.1.0.4/16"]}], "has host bits set"),
        ([{**EXPORT, "clients": ["0.0.0.0/0"]}], "0.0.0.0/0 is every machine there is"),
        ([{**EXPORT, "clients": ["0.0.0.0/0.0.0.0"]}], "is every machine there is"),
        ([{**EXPORT, "mode": "rwx"}], "mode is 'rwx'"),
        ([EXPORT, EXPORT], "/srv/shared stands twice"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_sentence(exports: Any, message: str) -> None:
    assert [message in text for text in planned(exports).refused] == [True]


def test_no_threads_are_refused() -> None:
    assert planned([EXPORT], threads=0).refused == ["nfs_server_threads is 0: give at least 1."]


def test_what_the_server_shows_is_compared() -> None:
    shown = [f"/srv/shared  10.1.0.0/16({SHOWN})", f"/srv/shared  10.2.0.7({SHOWN})"]
    assert after("64", *shown) == []
    assert after("64", shown[0]) == [
        "/srv/shared is not exported to 10.2.0.7/32: see `exportfs -ra`."
    ]
    weaker = [line.replace("root_squash,no_all", "no_root_squash,no_all") for line in shown]
    assert ["without root_squash" in text for text in after("64", *weaker)] == [True, True]
    (fewer,) = after("8", *shown)
    assert fewer.startswith("The NFS server runs 8 threads instead of 64:")
    assert after()[-1].startswith("The NFS server runs no threads instead of 64:")
