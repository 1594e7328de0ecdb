"""The run's NFS server: cloud-init mounts its data disks (``node_nfs``), and Ansible gets its
variables. The role nfs_server exports the mount, and shared_storage mounts it on nodes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from trueup_node.vm import node_nfs

from . import cloud_init

if TYPE_CHECKING:
    from .parameters import Parameters

# Its name in the group, and in the network's DNS.
SERVER = "nfs"
SOURCE = f"{SERVER}:{node_nfs.FOLDER}"
_PROGRAM = "/opt/trueup/nfs.py"
_UNIT = "trueup-nfs.service"
_SERVICE = """\
[Unit]
Description=trueup: mount the data disks of the NFS server
After=local-fs.target srv-shared.mount
Before=nfs-server.service

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 {program} {disks}

[Install]
WantedBy=multi-user.target
"""


def ready(parameters: Parameters) -> str:
    """Command that succeeds on the server once its disks are mounted, and else prints why not."""
    return f"sudo -n python3 {_PROGRAM} {parameters.storage.server_disks}"


def custom_data(parameters: Parameters) -> str:
    """The cloud-init document of the server."""
    service = _SERVICE.format(program=_PROGRAM, disks=parameters.storage.server_disks)
    files = {_PROGRAM: inspect.getsource(node_nfs), f"/etc/systemd/system/{_UNIT}": service}
    return cloud_init.document(files, f"enable {_UNIT}", f"start {_UNIT}")


def variables(parameters: Parameters) -> dict[str, Any]:
    """Ansible's variables of the server, which is no node that is measured."""
    return {
        "nfs_server_exports": [{"path": node_nfs.FOLDER, "clients": [parameters.network]}],
        "shared_storage_mounts": [],
        "trueup_benchmarks": [],
        "trueup_health_benchmarks": [],
    }
