"""The role hpc_limits, planned: drop-ins for limits and kernel settings, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup_node.plan import (
    Convergence,
    Look,
    Plan,
    PlanInputs,
    Skipped,
    files_look,
    sentences,
)

from ..system import others

_HEADER = "# Written by trueup (role hpc_limits).\n"
_SYSCTL = "/etc/sysctl.d/99-trueup.conf"
# Azure's HPC images apply /etc/sysctl.conf once more at boot, after systemd-sysctl has applied ours
# (azhpc-images@8e9d055 hpc-tuning.sh: a oneshot service that ends with `sysctl -p`).
_SYSCTL_DROP_IN = "/etc/systemd/system/sunrpc_tcp_settings.service.d/trueup-sysctl.conf"
_SYSCTL_AGAIN = f"[Service]\nExecStartPost=-/usr/sbin/sysctl --load={_SYSCTL}\n"
# The kernel's fs.nr_open where nobody sets it.
_NR_OPEN = 1048576
# Values of Azure's HPC images (hpc-tuning.sh). RDMA registers memory by locking it, without a
# limit.
_MEMLOCK = "unlimited"
# Requests to an NFS server in flight at once, from the start; the kernel starts with 2.
_SUNRPC_TCP_SLOTS = 128
# The kernel's 128 is too little for one fast stream.
_NFS_READ_AHEAD_KIB = 15380


def plan(inputs: PlanInputs) -> Plan:
    """The limits of a node; a container's kernel and logins are its host's.

    Values: ``files`` as config_files takes them, and ``wanted``, the limits for limits_in_force.
    """
    refused = _refused(inputs.options)
    if refused:
        return Plan(refused=refused)
    container = inputs.node["container"]
    limits = _of_all(inputs.options)
    contents = {
        "/etc/systemd/system.conf.d/99-trueup.conf": _manager(limits["manager"]),
        "/etc/systemd/user.conf.d/99-trueup.conf": _manager(limits["manager"]),
    }
    if not container:
        limits.update(_of_hosts(inputs.options))
        contents.update(_files_of_hosts(inputs.options, limits["login"]))
        if inputs.node["hpc_image"] is not None:
            contents[_SYSCTL_DROP_IN] = _SYSCTL_AGAIN
    left_out = Skipped(
        "limits of logins, sysctl, sunrpc, NFS read-ahead and transparent huge pages",
        "a container's limits and kernel are its host's",
    )
    return Plan(
        values={
            "files": [{"path": path, "content": _HEADER + text} for path, text in contents.items()],
            "wanted": limits,
        },
        skipped=[left_out] if container else [],
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the limits are in force."""
    enforced = Look(
        "limits_in_force",
        {"wanted": planned["wanted"]},
        lambda response: response["differs"] or response["services_on"],
    )
    return Convergence([files_look(planned["files"]), enforced])


def _of_all(options: Any) -> dict[str, Any]:
    """Limits that must be in force everywhere."""
    return {
        "manager": {
            "DefaultLimitMEMLOCK": _in_bytes(_MEMLOCK),
            "DefaultLimitSTACK": _in_bytes(options["stack"]),
            "DefaultLimitNOFILE": str(options["nofile"]),
        },
        "services_off": options["services_off"],
    }


def _in_bytes(limit: str) -> str:
    """A limit of KiB, as a shell's ulimit has it, for systemd."""
    return "infinity" if limit == "unlimited" else str(int(limit) * 1024)


def _of_hosts(options: Any) -> dict[str, Any]:
    """Limits that must be in force where the kernel is the node's own."""
    hugepages = options["transparent_hugepages"]
    return {
        "login": {
            "memlock": _MEMLOCK,
            **{name: str(options[name]) for name in ("stack", "nofile")},
        },
        "sysctl": options["sysctl"],
        "sunrpc_tcp_slots": _SUNRPC_TCP_SLOTS,
        "nfs_read_ahead_kib": _NFS_READ_AHEAD_KIB,
        "transparent_hugepages": "" if hugepages == "keep" else hugepages,
    }


def _manager(limits: dict[str, str]) -> str:
    return "[Manager]\n" + "".join(f"{name}={value}\n" for name, value in limits.items())


def _files_of_hosts(options: Any, login: dict[str, str]) -> dict[str, str]:
    hugepages = options["transparent_hugepages"]
    return {
        # A * does not mean root.
        "/etc/security/limits.d/99-trueup.conf": "".join(
            f"{who} - {name} {value}\n" for who in ("*", "root") for name, value in login.items()
        ),
        # 99-trueup comes after 99-sysctl.conf, which is the site's or the image's /etc/sysctl.conf.
        _SYSCTL: "".join(f"{name} = {value}\n" for name, value in options["sysctl"].items()),
        "/etc/modprobe.d/trueup-sunrpc.conf": (
            f"options sunrpc tcp_slot_table_entries={_SUNRPC_TCP_SLOTS}\n"
        ),
        # An NFS mount has an anonymous device, which the kernel lists with the mounts of NFS.
        # nfs-utils' own rule (99-nfs.rules) writes its default of 128 KiB: this comes after it.
        "/etc/udev/rules.d/99-trueup-nfs-read-ahead.rules": (
            'SUBSYSTEM=="bdi", ACTION=="add", KERNEL=="0:*",'
            ' PROGRAM=="/usr/bin/grep -qw %k /proc/fs/nfsfs/volumes",'
            f' ATTR{{read_ahead_kb}}="{_NFS_READ_AHEAD_KIB}"\n'
        ),
        "/etc/tmpfiles.d/trueup-hugepages.conf": ""
        if hugepages == "keep"
        else f"w /sys/kernel/mm/transparent_hugepage/enabled - - - - {hugepages}\n",
    }


def _refused(options: Any) -> list[str]:
    stack, nofile = options["stack"], options["nofile"]
    units = others(r".*[.](service|socket|timer)", options["services_off"])
    # The kernel refuses more than fs.nr_open, and a login whose limit cannot be set is refused.
    most = int(options["sysctl"].get("fs.nr_open", _NR_OPEN))
    wrong = {
        f"hpc_limits_stack is {stack}: give a number of KiB or unlimited.": others(
            "unlimited|[0-9]+", [str(stack)]
        ),
        f"hpc_limits_nofile is {nofile}: give 1024 to {_NR_OPEN}, or raise fs.nr_open in"
        " hpc_limits_sysctl. Past fs.nr_open no one could log in.": not 1024 <= nofile <= most,
        f"hpc_limits_services_off holds {units}: give units with their ending, as in"
        " ufw.service.": units,
    }
    return sentences(wrong)
