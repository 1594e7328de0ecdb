"""The role nvme_scratch, planned: the program that makes the file system, its settings, units."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from typing import Any

from trueup_node.node.mounts import unit_name
from trueup_node.plan import (
    Convergence,
    Look,
    Plan,
    PlanInputs,
    Skipped,
    files_look,
    sentences,
    unit_look,
)

from ..system import catalog_of, others
from ..systemd import RESTRICTED

# Namespace of Ansible's filter to_uuid: the file system's UUID stays the same over releases.
_NAMESPACE = uuid.UUID("361E6D51-FAEC-444A-9079-341386DA8E2E")
_PROGRAM = "/usr/local/libexec/trueup/nvme_scratch"
# The room scratch goes to the node under a name of its own: at boot there is no controller.
_PACKAGE = "trueup_scratch"
_FOLDER, _ = os.path.split(_PROGRAM)
_START = f"""\
import sys

sys.path.append("{_FOLDER}")
from {_PACKAGE}.program import main

sys.exit(main(sys.argv[1:]))
"""
# How long making the file system may take: mkfs.xfs first discards every block of every disk.
_MAKE_SECONDS = 900
# noatime: reading a file writes nothing. nofail: a node without its disks still boots, and
# local-fs.target does not wait for the mount (systemd.mount(5)).
_MOUNT_OPTIONS = "noatime,nofail"
_ROOT = {
    # What goes to one disk before the next: mdadm's own default.
    "chunk_kib": 512,
    "owner": "root",
    "group": "root",
    # As /tmp: every user may write and nobody remove another's files. Azure's script sets 777.
    "mode": "1777",
}
_WRITTEN = "# Written by trueup (role nvme_scratch).\n"
_SERVICE = f"""\
{_WRITTEN}[Unit]
Description=Make or find the scratch file system over the local NVMe disks
Documentation=file://{_PROGRAM}

# No RemainAfterExit: each start of the mount unit runs it again, so that what is mounted was looked at just before.
[Service]
Type=oneshot
ExecStart={_PROGRAM} --wait
TimeoutStartSec={_MAKE_SECONDS}
{RESTRICTED}"""  # noqa: E501 WHY: a line of the file
_MOUNT = """\
{written}[Unit]
Description=Scratch file system over the local NVMe disks
Requires=trueup-nvme-scratch.service
After=trueup-nvme-scratch.service

[Mount]
What={device}
Where={mount_point}
Type=xfs
Options={options}

[Install]
WantedBy=multi-user.target
"""
# systemd.mount(5): a mount waits for its device, and gives up after 90 s unless the device's unit
# says otherwise.
_DEVICE = f"""\
{_WRITTEN}# The mount may wait for the device as long as trueup-nvme-scratch.service may take to make it; when that fails, the
# mount fails at once.
[Unit]
JobRunningTimeoutSec={_MAKE_SECONDS}
"""  # noqa: E501 WHY: a line of the file


def plan(inputs: PlanInputs) -> Plan:
    """The scratch file system of a node; skipped in a container and where there is no local disk.

    Values: ``disks``, ``packages`` that are missing, ``files`` as config_files takes them, the
    ``program`` that makes it, the ``settings`` of it and of scratch_facts, and the mount's
    ``unit``.
    """
    node, options = inputs.node, inputs.options
    models = ", ".join(options["models"])
    disks = [
        disk["device"]
        for disk in node["nvme"]
        if disk["model"] and disk["model"].startswith(tuple(options["models"]))
    ]
    expected = catalog_of(node).get("nvme_disks")
    refused = _refused(inputs, disks, expected)
    if refused:
        return Plan(refused=refused)
    why_not = ""
    if node["container"]:
        why_not = "a container: its disks belong to its host"
    elif not disks:
        why_not = f"no local NVMe disk of the model(s) {models}"
    if why_not:
        return Plan(skipped=[Skipped("nvme_scratch", why_not)])
    settings = _settings(options, len(disks) if expected is None else expected)
    has_programs = all(node["programs"].get(name) for name in ("mdadm", "mkfs.xfs"))
    return Plan(
        values={
            "disks": disks,
            "packages": [] if has_programs else ["mdadm", "xfsprogs"],
            "files": _files(inputs, settings),
            "program": _PROGRAM,
            "settings": settings,
            "unit": unit_name(options["mount_point"]),
        }
    )


def convergence(planned: Mapping[str, Any], _: Mapping[str, Any]) -> Convergence:
    """Whether the file system is there and mounted."""

    def unmade(response: Mapping[str, Any]) -> bool:
        scratch = response["ansible_facts"]["trueup_scratch"]
        return bool(scratch["steps"]) or scratch["state"] != "ready" or not scratch["mounted"]

    disks = Look("scratch_facts", {"settings": planned["settings"]}, unmade)
    unit = unit_look(unit=planned["unit"], enabled=True)
    return Convergence(
        [disks, files_look(planned["files"]), unit], has_work=bool(planned["packages"])
    )


def _settings(options: Any, disks: int) -> dict[str, Any]:
    """The program's settings. Where the catalog does not know the number of disks, it is their
    present number, so that a boot knows when all have appeared."""
    names = (
        *("models", "mount_point", "fewer_disks_allowed", "existing", "wait_seconds"),
        "wipe_unsigned",
    )
    return {
        **{name: options[name] for name in names},
        **_ROOT,
        # The same from one mount point on every node and after every deallocation: the mount unit
        # stays true.
        "uuid": str(uuid.uuid5(_NAMESPACE, options["mount_point"])),
        "array": "trueup-scratch",
        "expected_disks": disks,
    }


def _files(inputs: PlanInputs, settings: dict[str, Any]) -> list[dict[str, str]]:
    device = f"/dev/disk/by-uuid/{settings['uuid']}"
    where = inputs.options["mount_point"]
    mount = _MOUNT.format(
        written=_WRITTEN,
        device=device,
        mount_point=where,
        options=_MOUNT_OPTIONS,
    )
    units = "/etc/systemd/system"
    return [
        *(
            {
                "path": f"{_FOLDER}/{_PACKAGE}/{name}.py",
                "source": f"module_utils/trueup_node/node/scratch/{name}.py",
            }
            for name in ("__init__", "states", "reading", "program")
        ),
        {"path": _PROGRAM, "mode": "0755", "content": f"#!{inputs.python} -I\n{_START}"},
        {
            "path": "/etc/trueup/nvme_scratch.json",
            "content": json.dumps(settings, indent=4, sort_keys=True) + "\n",
        },
        {"path": f"{units}/trueup-nvme-scratch.service", "content": _SERVICE},
        {"path": f"{units}/{unit_name(where)}", "content": mount},
        {"path": f"{units}/{unit_name(device, 'device')}.d/trueup.conf", "content": _DEVICE},
    ]


def _refused(inputs: PlanInputs, disks: list[str], expected: int | None) -> list[str]:
    node, options = inputs.node, inputs.options
    where, models = options["mount_point"], options["models"]
    may_lack = node["container"] or options["fewer_disks_allowed"]
    wrong = {
        f"nvme_scratch_mount_point is {where}: give an absolute path of letters, digits, - and"
        " _.": others("(/[A-Za-z0-9_-]+)+", [where]),
        "nvme_scratch_models is empty or holds an empty name, which every disk has: name the"
        " models.": not models or not all(models),
        f"{node['vm_size']} has {expected} local NVMe disks and this machine shows none of the"
        f" model(s) {', '.join(models)}: redeploy the VM, or set"
        " nvme_scratch_fewer_disks_allowed.": expected and not disks and not may_lack,
    }
    return sentences(wrong)
