"""The role shared_storage, planned: what a list of mounts becomes, and what is refused of it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import asked, node
from trueup_controller.plans.mount_options import chosen
from trueup_controller.plans.shared_storage import asks, plan
from trueup_node.plan import Plan

NODE = node("hbv3")
NFS = {"path": "/shared", "kind": "nfs", "source": "10.1.0.4:/srv/shared"}
ANF = {"path": "/tools", "kind": "anf", "source": "10.1.1.4:/tools"}
LUSTRE = {"path": "/lustre", "kind": "amlfs", "source": "10.1.2.4@tcp:/lustrefs"}
OLD = {"path": "/old", "state": "absent"}
UNITS = "/etc/systemd/system"


def planned(
    mounts: list[Any], on: Any = NODE, found: dict[str, Any] | None = None, /, **options: Any
) -> Plan:
    return plan(asked("shared_storage", on, found, mounts=mounts, **options))


def values(mounts: list[Any], on: Any = NODE, found: Any = None, /, **options: Any) -> Any:
    got = planned(mounts, on, found, **options)
    assert (got.refused, got.skipped) == ([], [])
    return got.as_result()


def files(mounts: list[Any], **options: Any) -> dict[str, str]:
    return {one["path"]: one["content"] for one in values(mounts, **options)["files"]}


def after(mounts: list[Any], paths: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is said once the mounts were made: what differs, and what was agreed on."""
    got = planned(mounts, NODE, {"trueup_storage": paths, "made": True})
    return got.refused, got.as_result()["notes"]


def test_a_node_without_mounts_and_a_container_are_skipped_and_asked_nothing() -> None:
    box = node("hbv3", container=True)
    for mounts, on, why in (
        ([], NODE, "shared_storage_mounts is empty"),
        ([NFS], box, "a container: it has the mounts that its host gives it"),
    ):
        got = planned(mounts, on)
        assert [(one.what, one.why) for one in got.skipped] == [("shared_storage", why)]
        assert asks(asked("shared_storage", on, mounts=mounts)) == {}
    assert asks(asked("shared_storage", NODE, mounts=[{**NFS, "path": "x"}])) == {}


def test_what_the_node_is_asked() -> None:
    storage = {"paths": ["/shared", "/old"], "answer_seconds": 10}
    both = {"storage_facts": storage, "program_facts": {"programs": ["mount.nfs"]}}
    assert asks(asked("shared_storage", NODE, mounts=[NFS, OLD])) == both
    made = asked("shared_storage", NODE, {"made": True}, mounts=[NFS, OLD])
    assert asks(made) == {"storage_facts": storage}
    assert list(asks(asked("shared_storage", NODE, mounts=[LUSTRE]))) == ["storage_facts"]


def test_the_unit_of_a_mount() -> None:
    unit = """\
# Written by trueup (role shared_storage).
[Unit]
Description=Shared storage 10.1.0.4:/srv/shared
Documentation=man:nfs(5)
Wants=network-online.target
# A node that mounts what it exports itself unmounts it before its server ends: it would wait for \
it otherwise.
After=network-online.target nfs-server.service

# nofail among the options also keeps it out of what remote-fs.target, and with it every login, \
waits for
# (systemd.mount(5)).
[Mount]
What=10.1.0.4:/srv/shared
Where=/shared
Type=nfs
Options=vers=4.2,hard,noatime,_netdev,nofail
TimeoutSec=60

[Install]
WantedBy=multi-user.target
"""
    assert files([NFS]) == {f"{UNITS}/shared.mount": unit}


def test_an_automount_has_a_unit_more() -> None:
    got = files([{**LUSTRE, "path": "/mnt/lustre-1/", "automount": "yes"}], mount_timeout_seconds=9)
    mount, automount = got.values()
    assert list(got) == [f"{UNITS}/mnt-lustre\\x2d1.{kind}" for kind in ("mount", "automount")]
    assert "\nDocumentation=man:mount.lustre(8)\n" in mount
    assert mount.endswith(
        "Where=/mnt/lustre-1\nType=lustre\nOptions=noatime,flock,_netdev,nofail\nTimeoutSec=9\n"
    )
    assert automount.endswith(
        "\n[Automount]\nWhere=/mnt/lustre-1\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def test_the_articles_options_are_those_of_anf_with_the_profile_eda() -> None:
    got = set(chosen("anf", "eda", []))
    article = "nocto,actimeo=600,hard,rsize=262144,wsize=262144,vers=3,tcp,noatime,nconnect=8"
    assert got == set(article.split(",")) | {"_netdev", "nofail"}


@pytest.mark.parametrize(
    ("kind", "profile", "own", "options"),
    [
        ("nfs", "default", "", "vers=4.2,hard,noatime,_netdev,nofail"),
        (
            *("anf", "default", ""),
            "vers=3,tcp,hard,rsize=262144,wsize=262144,noatime,nconnect=8,_netdev,nofail",
        ),
        ("amlfs", "default", "", "noatime,flock,_netdev,nofail"),
        (
            *("anf", "default", "soft nfsvers=4.1 nconnect=2 relatime ro"),
            "tcp,rsize=262144,wsize=262144,_netdev,nofail,soft,nfsvers=4.1,nconnect=2,relatime,ro",
        ),
        ("nfs", "default", "nofail", "vers=4.2,hard,noatime,_netdev,nofail"),
        ("nfs", "eda", "cto", "vers=4.2,hard,noatime,actimeo=600,_netdev,nofail,cto"),
    ],
)
def test_the_users_option_takes_the_place_of_the_roles(
    kind: str, profile: str, own: str, options: str
) -> None:
    assert ",".join(chosen(kind, profile, own.split())) == options


def test_clients_are_installed_for_what_is_mounted() -> None:
    got = values([NFS, ANF])
    assert (got["packages"], got["pins"]) == (["nfs-common"], [])
    assert values([NFS], node("hbv3", "almalinux-9"))["packages"] == ["nfs-utils"]
    there = {"programs": {"mount.nfs": "/usr/sbin/mount.nfs"}}
    assert values([NFS], NODE, there)["packages"] == []
    assert values([OLD])["packages"] == []


@pytest.mark.parametrize(
    ("system", "kernel", "pin", "source"),
    [
        (
            *("ubuntu-24.04", "6.8.0-1030-azure"),
            ("amlfs-lustre-client-2.17.0-24-gf517bc4", "6.8.0-1030-azure"),
            {"url": "https://packages.microsoft.com/repos/amlfs-noble/", "suite": "noble"},
        ),
        (
            *("almalinux-9", "5.14.0-570.12.1.el9_6.x86_64"),
            ("amlfs-lustre-client-2.15.8_39_g2d32b59", "5.14.0.570.12.1.el9.6-1"),
            {"url": "https://packages.microsoft.com/yumrepos/amlfs-el9/"},
        ),
    ],
)
def test_the_lustre_client_is_that_of_the_kernel(
    system: str, kernel: str, pin: tuple[str, str], source: dict[str, str]
) -> None:
    got = values([LUSTRE], node("hbv3", system, kernel=kernel))
    assert (got["packages"], got["pins"]) == ([], [{"name": pin[0], "version": pin[1]}])
    assert got["repository"] == {
        "name": "amlfs",
        "key_url": "https://packages.microsoft.com/keys/microsoft.asc",
        "key_fingerprint": "BC528686B50D79E339D3721CEB3E94ADBE1229CF",
        **({"components": "main"} if "suite" in source else {}),
        **source,
    }
    present = values([LUSTRE], node("hbv3", system), lustre_client="present")
    assert (present["repository"], present["pins"]) == ({}, [])


def test_the_lustre_client_of_an_image_is_kept() -> None:
    """azhpc-images@8e9d055 has packages of dkms, whose names differ from those that are pinned."""
    image = node("hbv3", "ubuntu-22.04", hpc_image={"LUSTRE": "2.15.8-35-gdf4872c"})
    assert values([LUSTRE], image)["pins"] == []
    assert len(values([LUSTRE], image, lustre_client="install")["pins"]) == 1
    without = node("hbv3", "ubuntu-22.04", hpc_image={"HPCX": "2.25.1"})
    assert len(values([LUSTRE], without)["pins"]) == 1


def test_a_list_that_can_be_mounted_is_not_refused() -> None:
    v6 = {**NFS, "path": "/v6", "source": "[fd00::4]:/srv"}
    assert len(values([NFS, ANF, LUSTRE, v6, OLD])["files"]) == 4


@pytest.mark.parametrize(
    ("mounts", "message"),
    [
        (["/shared"], "unable to convert to dict"),
        ([{**NFS, "pth": 1}], "shared_storage_mounts.pth"),
        ([{"kind": "nfs", "source": "a:/b"}], "missing required arguments: path"),
        ([{**NFS, "kind": "smb"}], "kind must be one of: nfs, anf, amlfs, got: smb"),
        ([{**NFS, "state": "gone"}], "state must be one of: mounted, absent, got: gone"),
        ([{**NFS, "profile": "fast"}], "profile must be one of: default, eda, got: fast"),
        ([{**NFS, "automount": "maybe"}], "is not a valid boolean"),
    ],
)
def test_what_is_no_mount_is_refused_by_its_description(mounts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked("shared_storage", NODE, mounts=mounts)


@pytest.mark.parametrize(
    ("mounts", "message"),
    [
        ([{**NFS, "path": "shared"}], "[0] (shared): path is 'shared': give an absolute path"),
        ([{**NFS, "path": "/a/../b"}], "path is '/a/../b'"),
        ([{**NFS, "path": "/a/."}], "path is '/a/.'"),
        ([{**NFS, "path": "/a b"}], "path is '/a b'"),
        ([{**NFS, "path": "/"}], "path is '/'"),
        ([NFS, {"path": "/x"}], "shared_storage_mounts[1] (/x): it has no kind: give nfs, anf"),
        ([{**NFS, "source": "/srv/shared"}], "source is '/srv/shared': give host:/export"),
        ([{**NFS, "source": "a:/b c"}], "source is 'a:/b c'"),
        ([{"path": "/x", "kind": "nfs"}], "source is None"),
        ([{**LUSTRE, "source": "10.1.2.4:/x"}], "give host@tcp:/lustrefs"),
        ([{**LUSTRE, "profile": "eda"}], "profile is 'eda', which is for nfs and anf"),
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
def test_what_cannot_be_mounted_is_refused_in_one_sentence(mounts: Any, message: str) -> None:
    assert [message in text for text in planned(mounts).refused] == [True]


@pytest.mark.parametrize("name", ["mount_timeout_seconds", "answer_seconds"])
def test_a_time_limit_is_a_second_or_more(name: str) -> None:
    (text,) = planned([NFS], **{name: 0}).refused
    assert text.endswith("must be at least 1.")


def test_an_old_kernel_has_no_nconnect() -> None:
    old = node("hbv3", kernel="4.18.0-553.el8.x86_64")
    (text,) = planned([ANF], old).refused
    assert text.startswith(
        "/tools: nconnect needs a kernel of 5.3 or newer, and this is 4.18.0-553"
    )
    assert planned([NFS, {**ANF, "options": ["nconnect=1"]}], old).refused == []
    assert planned([ANF], node("hbv3", kernel="5.3.0")).refused == []
    assert planned([ANF], node("hbv3", kernel=None)).refused == []


def test_the_lustre_client_is_for_certain_systems() -> None:
    debian = node("hbv3", "debian-12")
    (no_client,) = planned([LUSTRE], debian).refused
    assert "no Managed Lustre client for debian-12 (it has them for el-9, ubuntu-22" in no_client
    assert planned([LUSTRE], node("hbv3", architecture="aarch64")).refused == [
        "/lustre: the pinned Lustre client is for x86_64, and this is aarch64."
    ]
    assert planned([LUSTRE], debian, lustre_client="present").refused == []
    assert planned([NFS], debian).refused == []


def found(**changed: Any) -> dict[str, Any]:
    """What storage_facts says of a mount that is as it was asked for."""
    shown = (
        "rw noatime vers=4.2 rsize=1048576 wsize=1048576 namlen=255 hard proto=tcp timeo=600"
        " retrans=2 sec=sys clientaddr=10.1.0.9 local_lock=none addr=10.1.0.4"
    )
    mount = {"kind": "nfs4", "source": NFS["source"], "options": shown.split()}
    units = {"shared.mount": files([NFS])[f"{UNITS}/shared.mount"]}
    base = {"mount": mount, "answers": True, "kind": None, "empty": None, "units": units}
    return {**base, **changed}


NOTHING = found(mount=None, answers=None, kind="missing", units={})
BOTH = {"shared.mount": "", "shared.automount": ""}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (NOTHING, ""),
        (found(), ""),
        (found(mount={"kind": "nfs4", "source": "10.9.9.9:/x", "options": []}), ""),
        ({**NOTHING, "kind": "folder", "empty": True}, ""),
        ({**NOTHING, "kind": "folder", "empty": False}, "/shared holds files, which a mount would"),
        ({**NOTHING, "kind": "other"}, "/shared is there and no folder"),
        ({**NOTHING, "kind": "silent"}, "/shared does not say what it is"),
        (
            found(mount={"kind": "ext4", "source": "/dev/sdb", "options": []}, units={}),
            "/shared: /dev/sdb (ext4) is mounted there already",
        ),
    ],
)
def test_what_is_in_the_way_is_named(state: dict[str, Any], message: str) -> None:
    refused = planned([NFS], NODE, {"trueup_storage": {"/shared": state}}).refused
    assert [message in text for text in refused] == ([True] if message else [])


def test_units_are_stopped_and_started_in_order() -> None:
    def units(mounts: list[Any], **there: Any) -> tuple[Any, Any]:
        got = values(mounts, NODE, {"trueup_storage": {"/shared": found(**there)}})
        return got["stops"], got["starts"]

    gone = [{"path": "/shared", "state": "absent"}]
    assert units(gone, units=BOTH) == (["shared.automount", "shared.mount"], [])
    assert units(gone, units={}, mount=None) == ([], [])
    started = {"unit": "shared.mount", "state": "started", "enabled": True}
    assert units([NFS]) == ([], [started])
    assert units([NFS], units=BOTH) == (["shared.automount"], [started])
    auto = {"unit": "shared.automount", "state": "started", "enabled": True}
    # What is mounted by other options is mounted anew; what is not waits for its first use.
    waits = {"unit": "shared.mount", "state": "as_found", "enabled": False}
    assert units([{**NFS, "automount": True}]) == ([], [waits, auto])


def with_options(text: str) -> dict[str, Any]:
    return found(mount={"kind": "nfs", "source": NFS["source"], "options": text.split()})


def test_a_mount_as_asked_for_has_no_difference() -> None:
    assert after([NFS], {"/shared": found()}) == ([], [])
    eda = {**NFS, "kind": "anf", "profile": "eda"}
    shown = (
        "rw noatime vers=3 rsize=262144 wsize=262144 namlen=255 acregmin=600 acregmax=600"
        " acdirmin=600 acdirmax=600 hard nocto proto=tcp nconnect=8 mountvers=3"
    )
    assert after([eda], {"/shared": with_options(shown)}) == ([], [])


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
    (problem,), notes = after([NFS], {"/shared": state})
    assert message in problem
    assert notes == []


def test_what_was_negotiated_is_said_and_other_connections_are_a_problem() -> None:
    shown = "rw noatime vers=3 rsize=65536 wsize=262144 hard proto=tcp"
    (wrong,), notes = after([{**NFS, "kind": "anf"}], {"/shared": with_options(shown)})
    assert notes == ["/shared: asked for rsize=262144, rsize=65536 was agreed on with 10.1.0.4."]
    assert "asked for nconnect=8, in force is nconnect=1" in wrong
    one = {**NFS, "options": ["nconnect=1", "actimeo=30"]}
    (wrong,), _ = after([one], {"/shared": found()})
    sentence = "actimeo=30, in force is acregmin=3,acregmax=60,acdirmin=30,acdirmax=60;"
    assert sentence in wrong


def test_what_the_kernel_does_not_show_at_its_default_is_in_force() -> None:
    """As nfs_show_mount_options of fs/nfs/super.c leaves them out."""
    own = [*("actimeo=60", "lookupcache=positive", "rdirplus", "async", "sharecache", "nofsc")]
    shown = "rw noatime vers=4.2 rsize=1 wsize=1 acregmin=60 acdirmin=60 hard lookupcache=pos"
    assert after([{**NFS, "options": own}], {"/shared": with_options(shown)}) == ([], [])
    usual = ["acregmin=3", "acdirmax=60", "lookupcache=all"]
    assert after([{**NFS, "options": usual}], {"/shared": found()}) == ([], [])
    (wrong,), _ = after([{**NFS, "options": ["lookupcache=none"]}], {"/shared": found()})
    assert "asked for lookupcache=none, in force is lookupcache=all" in wrong


def test_an_absent_mount_that_is_still_there_is_named() -> None:
    entry = {"path": "/shared", "state": "absent"}
    assert after([entry], {"/shared": NOTHING}) == ([], [])
    (problem,), _ = after([entry], {"/shared": found()})
    assert "is still mounted from 10.1.0.4:/srv/shared: a program uses it" in problem
    (problem,), _ = after([entry], {"/shared": found(units={})})
    assert "10.1.0.4:/srv/shared: by something else than this role" in problem


def test_without_what_was_found_nothing_is_in_the_way_and_nothing_is_mounted() -> None:
    got = values([NFS, OLD])
    assert (got["stops"], len(got["starts"])) == ([], 1)
    (problem,), notes = after([NFS, OLD], {})
    assert (problem.startswith("/shared is not mounted"), notes) == (True, [])
