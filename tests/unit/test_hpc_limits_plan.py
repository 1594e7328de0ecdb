"""The role hpc_limits, planned for the families and systems that get it."""

from __future__ import annotations

from typing import Any

import pytest
from role_plans import SYSTEMS, asked, families_of, node
from trueup_controller.plans.hpc_limits import plan

HEADER = "# Written by trueup (role hpc_limits).\n"
MANAGER = """\
[Manager]
DefaultLimitMEMLOCK=infinity
DefaultLimitSTACK=infinity
DefaultLimitNOFILE=1048576
"""
OF_ALL = {
    "/etc/systemd/system.conf.d/99-trueup.conf": MANAGER,
    "/etc/systemd/user.conf.d/99-trueup.conf": MANAGER,
}
LOGIN = "/etc/security/limits.d/99-trueup.conf"
HUGEPAGES = "/etc/tmpfiles.d/trueup-hugepages.conf"
OF_HOSTS = {
    LOGIN: """\
* - memlock unlimited
* - stack unlimited
* - nofile 1048576
root - memlock unlimited
root - stack unlimited
root - nofile 1048576
""",
    "/etc/sysctl.d/99-trueup.conf": """\
vm.zone_reclaim_mode = 1
net.ipv4.neigh.default.gc_thresh1 = 4096
net.ipv4.neigh.default.gc_thresh2 = 8192
net.ipv4.neigh.default.gc_thresh3 = 16384
""",
    "/etc/modprobe.d/trueup-sunrpc.conf": "options sunrpc tcp_slot_table_entries=128\n",
    "/etc/udev/rules.d/99-trueup-nfs-read-ahead.rules": (
        'SUBSYSTEM=="bdi", ACTION=="add", KERNEL=="0:*",'
        ' PROGRAM=="/usr/bin/grep -qw %k /proc/fs/nfsfs/volumes", ATTR{read_ahead_kb}="15380"\n'
    ),
    HUGEPAGES: "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n",
}


def values(on: dict[str, Any], **options: Any) -> dict[str, Any]:
    planned = plan(asked("hpc_limits", on, **options))
    assert planned.refused == []
    return planned.as_result()


def contents(result: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["content"].removeprefix(HEADER) for file in result["files"]}


def wanted(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = result["wanted"]
    return found


@pytest.mark.parametrize("family", families_of("hpc_limits"))
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_node_gets_the_same(family: str, system: str) -> None:
    result = values(node(family, system))
    assert contents(result) == {**OF_ALL, **OF_HOSTS}
    assert result["skipped_here"] == []
    limits = wanted(result)
    assert limits["login"] == {"memlock": "unlimited", "stack": "unlimited", "nofile": "1048576"}
    assert limits["manager"]["DefaultLimitMEMLOCK"] == "infinity"
    assert limits["transparent_hugepages"] == "always"
    assert "ufw.service" in limits["services_off"]


def test_an_image_that_applies_its_sysctl_conf_again_at_boot_does_not_win() -> None:
    """azhpc-images@8e9d055: sunrpc_tcp_settings.service, oneshot, ends with ``sysctl -p``."""
    image = {"hpc_image": {"KERNEL": "6.8.0-1030-azure"}}
    more = contents(values(node("hbv3", **image)))
    drop_in = "/etc/systemd/system/sunrpc_tcp_settings.service.d/trueup-sysctl.conf"
    assert more.pop(drop_in) == (
        "[Service]\nExecStartPost=-/usr/sbin/sysctl --load=/etc/sysctl.d/99-trueup.conf\n"
    )
    assert more == {**OF_ALL, **OF_HOSTS}
    # A container has the same file of versions and its host's kernel.
    assert contents(values(node("hbv3", container=True, **image))) == OF_ALL


def test_a_containers_kernel_and_logins_are_its_hosts() -> None:
    result = values(node("ndv4", container=True))
    assert contents(result) == OF_ALL
    assert sorted(wanted(result)) == ["manager", "services_off"]
    assert [skipped["why"] for skipped in result["skipped_here"]] == [
        "a container's limits and kernel are its host's"
    ]


def test_a_shell_counts_kib_and_systemd_bytes() -> None:
    result = values(node("hbv3"), stack="8192", nofile=4096)
    assert wanted(result)["login"] == {
        "memlock": "unlimited",
        "stack": "8192",
        "nofile": "4096",
    }
    assert wanted(result)["manager"] == {
        "DefaultLimitMEMLOCK": "infinity",
        "DefaultLimitSTACK": "8388608",
        "DefaultLimitNOFILE": "4096",
    }
    assert contents(result)[LOGIN].splitlines()[1] == "* - stack 8192"


def test_huge_pages_can_be_left_as_they_are() -> None:
    result = values(node("hbv3"), transparent_hugepages="keep")
    assert contents(result)[HUGEPAGES] == ""
    assert wanted(result)["transparent_hugepages"] == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stack": "-1"}, ["hpc_limits_stack is -1: give a number of KiB"]),
        ({"nofile": 1023}, ["hpc_limits_nofile is 1023: give 1024 to 1048576"]),
        ({"nofile": 1048577}, ["hpc_limits_nofile is 1048577"]),
        ({"nofile": 2000000, "sysctl": {"fs.nr_open": "2000000"}}, []),
        ({"services_off": ["ufw", "a.timer"]}, ["hpc_limits_services_off holds ufw: give units"]),
    ],
)
def test_wrong_values_are_refused(options: dict[str, Any], said: list[str]) -> None:
    refused = plan(asked("hpc_limits", node("hbv3"), **options)).refused
    assert [one[: len(start)] for one, start in zip(refused, said)] == said
    assert len(refused) == len(said)
