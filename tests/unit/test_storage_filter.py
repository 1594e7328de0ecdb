"""What a list of mounts or exports becomes, and what is refused of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from trueup_storage import (
    FilterModule,
    export_differences,
    export_lines,
    export_problems,
    storage_differences,
    storage_mounts,
    storage_obstacles,
    storage_problems,
    storage_starts,
    storage_stops,
)

ROLE = Path(__file__).parent.parent.parent / "roles" / "shared_storage"
PACKAGES = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())[
    "shared_storage_lustre_packages"
]
NODE = {"kernel": "6.1.0-56-amd64", "architecture": "x86_64"}
NFS = {"path": "/shared", "kind": "nfs", "source": "10.1.0.4:/srv/shared"}
ANF = {"path": "/tools", "kind": "anf", "source": "10.1.1.4:/tools"}
LUSTRE = {"path": "/lustre", "kind": "amlfs", "source": "10.1.2.4@tcp:/lustrefs"}


def options(entry: dict[str, Any]) -> str:
    (mount,) = storage_mounts([entry])
    return ",".join(mount["options"])


def problems(entries: Any, node: Any = None, **lustre: Any) -> str:
    table = {"release": "ubuntu-24.04", "packages": PACKAGES, "installs": True, **lustre}
    return " ".join(storage_problems(entries, {**NODE, **(node or {})}, table))


def test_the_articles_options_are_those_of_anf_with_the_profile_eda() -> None:
    got = set(options({**ANF, "profile": "eda"}).split(","))
    article = "nocto,actimeo=600,hard,rsize=262144,wsize=262144,vers=3,tcp,noatime,nconnect=8"
    assert got == set(article.split(",")) | {"_netdev", "nofail"}


def test_the_default_believes_no_attribute_longer_than_nfs_does() -> None:
    assert options(NFS) == "vers=4.2,hard,noatime,_netdev,nofail"
    assert options(ANF) == (
        "vers=3,tcp,hard,rsize=262144,wsize=262144,noatime,nconnect=8,_netdev,nofail"
    )
    assert options(LUSTRE) == "noatime,flock,_netdev,nofail"


def test_the_users_option_takes_the_place_of_the_roles() -> None:
    own = ["soft", "nfsvers=4.1", "nconnect=2", "relatime", "ro"]
    assert options({**ANF, "options": own}) == (
        "tcp,rsize=262144,wsize=262144,_netdev,nofail,soft,nfsvers=4.1,nconnect=2,relatime,ro"
    )
    assert "nocto" not in options({**ANF, "profile": "eda", "options": ["cto"]})
    assert options({**NFS, "options": ["nofail"]}) == "vers=4.2,hard,noatime,_netdev,nofail"


def test_a_mount_has_its_units_and_server() -> None:
    (mount,) = storage_mounts([{**LUSTRE, "path": "/mnt/lustre-1/", "automount": True}])
    assert {key: mount[key] for key in ("path", "unit", "automount_unit", "type", "server")} == {
        "path": "/mnt/lustre-1",
        "unit": "mnt-lustre\\x2d1.mount",
        "automount_unit": "mnt-lustre\\x2d1.automount",
        "type": "lustre",
        "server": "10.1.2.4",
    }
    assert storage_mounts([{"path": "/old", "state": "absent"}]) == [
        {
            "path": "/old",
            "state": "absent",
            "unit": "old.mount",
            "automount_unit": "old.automount",
            "automount": False,
        }
    ]


def test_a_list_that_can_be_mounted_is_not_refused() -> None:
    v6 = {**NFS, "path": "/v6", "source": "[fd00::4]:/srv"}
    assert problems([NFS, ANF, LUSTRE, v6, {"path": "/old", "state": "absent"}]) == ""
    assert problems([]) == ""


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "shared_storage_mounts is not a list"),
        (["/shared"], "shared_storage_mounts is not a list"),
        ([{**NFS, "pth": 1}], "shared_storage_mounts[0] (/shared): there is no key pth"),
        ([{**NFS, "path": "shared"}], "path is 'shared': give an absolute path"),
        ([{**NFS, "path": "/a/../b"}], "path is '/a/../b'"),
        ([{**NFS, "path": "/a b"}], "path is '/a b'"),
        ([{**NFS, "path": "/"}], "path is '/'"),
        ([{"kind": "nfs", "source": "a:/b"}], "path is ''"),
        ([{**NFS, "kind": "smb"}], "kind is 'smb': give nfs, anf, amlfs"),
        ([{**NFS, "state": "gone"}], "state is 'gone': give mounted or absent"),
        ([{**NFS, "source": "/srv/shared"}], "source is '/srv/shared': give host:/export"),
        ([{**NFS, "source": "a:/b c"}], "source is 'a:/b c'"),
        ([{**LUSTRE, "source": "10.1.2.4:/x"}], "give host@tcp:/lustrefs"),
        ([{**NFS, "profile": "fast"}], "profile is 'fast': give default or eda"),
        ([{**LUSTRE, "profile": "eda"}], "eda is for nfs and anf"),
        ([{**NFS, "options": "ro"}], "options is not a list"),
        ([{**NFS, "options": ["ro,rw"]}], "'ro,rw' is no mount option"),
        ([{**NFS, "options": ["nconect=8"]}], "nfs(5) knows no mount option nconect"),
        ([{**NFS, "options": ["nconnect=32"]}], "nconnect is 1 to 16"),
        ([{**NFS, "options": ["ro", "ro"]}], "the option ro stands twice"),
        ([{**NFS, "options": ["hard", "soft"]}], "hard and soft exclude each other"),
        ([{**LUSTRE, "options": ["nconnect=8"]}], "mount.lustre(8) knows no mount option nconnect"),
        ([NFS, {**ANF, "path": "/shared/"}], "/shared stands twice"),
        ([NFS, {**ANF, "path": "/shared/t"}], "/shared/t lies below /shared, which hides it"),
        (
            [{**ANF, "path": "/b", "options": ["nconnect=4"]}, {**ANF, "path": "/c"}],
            "/b asks 10.1.1.4 for 4 connections (nconnect) and /c for 8",
        ),
    ],
)
def test_what_cannot_be_mounted_is_refused(entries: Any, message: str) -> None:
    assert message in problems(entries)


def test_an_old_kernel_has_no_nconnect() -> None:
    old = {"kernel": "4.18.0-553.el8.x86_64"}
    assert "/tools: nconnect needs a kernel of 5.3 or newer, and this is 4.18" in problems(
        [ANF], old
    )
    assert problems([NFS, {**ANF, "options": ["nconnect=1"]}], old) == ""
    assert problems([ANF], {"kernel": "5.3.0"}) == ""


def test_the_lustre_client_is_for_certain_systems() -> None:
    assert "no Managed Lustre client for debian-12" in problems([LUSTRE], release="debian-12")
    assert "is for x86_64, and this is aarch64" in problems([LUSTRE], {"architecture": "aarch64"})
    assert problems([LUSTRE], release="debian-12", installs=False) == ""
    assert problems([NFS], release="debian-12") == ""


def found(**changed: Any) -> dict[str, Any]:
    """What storage_facts says of a mount that is as it was asked for."""
    shown = (
        "rw noatime vers=4.2 rsize=1048576 wsize=1048576 namlen=255 hard proto=tcp timeo=600"
        " retrans=2 sec=sys clientaddr=10.1.0.9 local_lock=none addr=10.1.0.4"
    )
    mount = {"kind": "nfs4", "source": NFS["source"], "options": shown.split()}
    base = {"mount": mount, "answers": True, "kind": None, "empty": None, "ours": True}
    return {**base, "automount": False, **changed}


NOTHING = found(mount=None, answers=None, kind="missing", ours=False)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (NOTHING, ""),
        (found(), ""),
        ({**NOTHING, "kind": "folder", "empty": True}, ""),
        ({**NOTHING, "kind": "folder", "empty": False}, "/shared holds files, which a mount would"),
        ({**NOTHING, "kind": "other"}, "/shared is there and no folder"),
        ({**NOTHING, "kind": "silent"}, "/shared does not say what it is"),
        (
            found(mount={"kind": "ext4", "source": "/dev/sdb", "options": []}, ours=False),
            "/shared: /dev/sdb (ext4) is mounted there already",
        ),
    ],
)
def test_what_is_in_the_way_is_named(state: dict[str, Any], message: str) -> None:
    got = storage_obstacles(storage_mounts([NFS]), {"/shared": state})
    assert [message in text for text in got] == ([True] if message else [])


def differences(entry: dict[str, Any], state: dict[str, Any]) -> tuple[list[str], list[str]]:
    got = storage_differences(storage_mounts([entry]), {entry["path"]: state})
    return got["problems"], got["notes"]


def with_options(text: str) -> dict[str, Any]:
    mount = {"kind": "nfs", "source": NFS["source"], "options": text.split()}
    return found(mount=mount)


def test_a_mount_as_asked_for_has_no_difference() -> None:
    assert differences(NFS, found()) == ([], [])
    eda = {**NFS, "kind": "anf", "profile": "eda"}
    shown = (
        "rw noatime vers=3 rsize=262144 wsize=262144 namlen=255 acregmin=600 acregmax=600"
        " acdirmin=600 acdirmax=600 hard nocto proto=tcp nconnect=8 mountvers=3"
    )
    assert differences(eda, with_options(shown)) == ([], [])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (NOTHING, "/shared is not mounted: the server 10.1.0.4 did not give"),
        (found(answers=False), "/shared: the server 10.1.0.4 does not answer any more"),
        (
            found(mount={"kind": "nfs4", "source": "10.1.0.5:/x", "options": []}),
            "/shared is mounted from 10.1.0.5:/x",
        ),
        (
            found(mount={"kind": "autofs", "source": "systemd-1", "options": []}, answers=False),
            "/shared is not mounted",
        ),
        (with_options("vers=4.1 hard noatime"), "asked for vers=4.2, in force is vers=4.1"),
        (with_options("vers=4.2 soft noatime"), "asked for hard, in force is no hard"),
        (with_options("vers=4.2 hard relatime"), "asked for noatime, in force is no noatime"),
    ],
)
def test_a_difference_is_named(state: dict[str, Any], message: str) -> None:
    (problem,), notes = differences(NFS, state)
    assert message in problem
    assert notes == []


def test_what_was_negotiated_is_said_and_other_connections_are_a_problem() -> None:
    shown = "rw noatime vers=3 rsize=65536 wsize=262144 hard proto=tcp"
    wrong, notes = differences({**NFS, "kind": "anf"}, with_options(shown))
    assert notes == ["/shared: asked for rsize=262144, rsize=65536 was agreed on with 10.1.0.4."]
    assert len(wrong) == 1
    assert "asked for nconnect=8, in force is nconnect=1" in wrong[0]
    one = {**NFS, "options": ["nconnect=1", "actimeo=30"]}
    wrong, _ = differences(one, found())
    in_force = "actimeo=30, in force is acregmin=3,acregmax=60,acdirmin=30,acdirmax=60;"
    assert [in_force in text for text in wrong] == [True]


def test_what_the_kernel_does_not_show_at_its_default_is_in_force() -> None:
    """As nfs_show_mount_options of fs/nfs/super.c leaves them out."""
    own = [*("actimeo=60", "lookupcache=positive", "rdirplus", "async", "sharecache", "nofsc")]
    shown = "rw noatime vers=4.2 rsize=1 wsize=1 acregmin=60 acdirmin=60 hard lookupcache=pos"
    assert differences({**NFS, "options": own}, with_options(shown)) == ([], [])
    usual = ["acregmin=3", "acdirmax=60", "lookupcache=all"]
    assert differences({**NFS, "options": usual}, found()) == ([], [])
    (wrong,), _ = differences({**NFS, "options": ["lookupcache=none"]}, found())
    assert "asked for lookupcache=none, in force is lookupcache=all" in wrong


def test_an_absent_mount_that_is_still_there_is_named() -> None:
    entry = {"path": "/shared", "state": "absent"}
    assert differences(entry, NOTHING) == ([], [])
    (problem,), _ = differences(entry, found())
    assert "is still mounted from 10.1.0.4:/srv/shared: a program uses it" in problem
    (problem,), _ = differences(entry, found(ours=False))
    assert "10.1.0.4:/srv/shared: by something else than this role" in problem


def test_units_are_stopped_and_started_in_order() -> None:
    gone = storage_mounts([{"path": "/shared", "state": "absent"}])
    assert storage_stops(gone, {"/shared": found(automount=True)}) == [
        "shared.automount",
        "shared.mount",
    ]
    assert storage_stops(gone, {"/shared": found(ours=False)}) == []
    plain, auto = storage_mounts([NFS, {**ANF, "automount": "true"}])
    assert storage_stops([plain], {"/shared": found(automount=True)}) == ["shared.automount"]
    assert storage_starts([plain, auto], []) == [
        {"unit": "shared.mount", "state": "started", "enabled": True},
        {"unit": "tools.automount", "state": "started", "enabled": True},
    ]
    assert storage_starts([plain, auto], ["shared.mount", "tools.mount"]) == [
        {"unit": "shared.mount", "state": "restarted", "enabled": True},
        {"unit": "tools.mount", "state": "stopped", "enabled": False},
        {"unit": "tools.automount", "state": "started", "enabled": True},
    ]


EXPORT = {"path": "/srv/shared/", "clients": ["10.1.0.0/16", "10.2.0.7/32"]}


def test_an_exports_line() -> None:
    usual = "rw,sync,no_subtree_check,root_squash"
    assert export_lines([EXPORT]) == [f"/srv/shared 10.1.0.0/16({usual}) 10.2.0.7/32({usual})"]
    other = {**EXPORT, "clients": ["fd00::/64"], "read_only": "yes", "root_squash": False}
    assert export_lines([other]) == [
        "/srv/shared fd00::/64(ro,sync,no_subtree_check,no_root_squash)"
    ]


@pytest.mark.parametrize(
    ("exports", "message"),
    [
        ("x", "nfs_server_exports is not a list"),
        ([{**EXPORT, "client": 1}], "nfs_server_exports[0] (/srv/shared/): there is no key client"),
        ([{**EXPORT, "path": "/"}], "path is '/'"),
        ([{**EXPORT, "path": "srv"}], "path is 'srv'"),
        ([{**EXPORT, "clients": []}], "clients is []: give a list of networks"),
        ([{**EXPORT, "clients": ["*"]}], "client '*' is no network"),
        ([{**EXPORT, "clients": ["10.1.0.4/16"]}], "has host bits set"),
        ([{**EXPORT, "clients": ["0.0.0.0/0"]}], "0.0.0.0/0 is every machine there is"),
        ([{**EXPORT, "clients": ["0.0.0.0/0.0.0.0"]}], "is every machine there is"),
        ([{**EXPORT, "mode": "rwx"}], "mode is 'rwx'"),
        ([EXPORT, EXPORT], "/srv/shared stands twice"),
    ],
)
def test_what_cannot_be_exported_is_refused(exports: Any, message: str) -> None:
    assert message in " ".join(export_problems(exports))


def test_what_the_server_shows_is_compared() -> None:
    # As nfs-utils 2.6.2 of Debian 12 prints it.
    rest = "sync,wdelay,hide,no_subtree_check,sec=sys,rw,secure,root_squash,no_all_squash"
    shown = f"/srv/shared  10.1.0.0/16({rest})\n/srv/shared  10.2.0.7({rest})\n"
    assert export_problems([EXPORT]) == []
    assert export_differences([EXPORT], shown) == []
    (lost,) = export_differences([EXPORT], shown.splitlines()[0])
    assert re.match(r"/srv/shared is not exported to 10\.2\.0\.7/32", lost)
    weaker = shown.replace("root_squash,no_all", "no_root_squash,no_all")
    assert len(export_differences([EXPORT], weaker)) == 2
    assert "without root_squash" in export_differences([EXPORT], weaker)[0]


def test_a_list_that_no_preflight_has_seen_gives_a_sentence() -> None:
    with pytest.raises(AnsibleFilterError, match="storage_mounts: 'path'"):
        FilterModule().filters()["storage_mounts"]([{}])
