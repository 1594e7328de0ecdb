"""The files of a cluster's host: Slurm's configuration, MariaDB's part, and the hooks of jobs."""

from __future__ import annotations

import ast
import functools
import json
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trueup_node.health.expectations import of_size
from trueup_node.node import nccl_topology
from trueup_node.node.events import EVENTS_URL
from trueup_node.node.metadata import METADATA_URL

from .. import known_faults, systemd
from ..project import file
from ..sizes import read_sources
from ..system import catalog_of
from .rdma import expected_of
from .slurm_cluster import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trueup_node.plan import PlanInputs

    from .slurm_cluster import Cluster

SLURMCTLD_DROP_IN, SLURMD_DROP_IN = (
    f"/etc/systemd/system/{name}.service.d/trueup.conf" for name in ("slurmctld", "slurmd")
)
# StateSaveLocation.
STATE_FOLDER = "/var/spool/slurmctld"
# slurmctld writes its cluster's name at its first start and does not sync it. After a loss of power
# the file may be empty, and slurmctld 22.05 refuses to start for ever: another cluster's state.
_SLURMCTLD = f"""\
[Service]
ExecStartPre=-/usr/bin/find {STATE_FOLDER}/clustername -empty -delete
"""
_LIBEXEC = "/usr/local/libexec/trueup"
# slurmd waits 19 s for a device file of gres.conf and then ends (its log at a boot: "Waiting for
# gres.conf file /dev/nvidia0", "fatal: can't stat"). No unit of the driver says when the files of
# all GPUs are there, and udev has no device unit for them. Where nvidia-persistenced and the fabric
# manager are installed, they start first.
_DEVICES = f"{_LIBEXEC}/slurm_devices"
_DEVICE_SECONDS = 120
_GPU_UNIT = """\
[Unit]
After=nvidia-persistenced.service nvidia-fabricmanager.service
StartLimitIntervalSec=0
"""
# systemd counts ExecStartPre as part of the start, for which slurmd itself has 90 s by default.
_GPU_SERVICE = f"""\
ExecStartPre={_DEVICES} {_DEVICE_SECONDS} {{devices}}
TimeoutStartSec={_DEVICE_SECONDS + 90}
Restart=on-failure
RestartSec=10
"""
_WRITTEN = "# Written by trueup (role slurm)"
# The program by which a node judges itself, and its part of module_utils/trueup_node under a name
# of its own: a node has no controller when slurmd asks.
_HEALTH = f"{_LIBEXEC}/slurm_health"
_PACKAGE = "trueup_health"
_PROGRAM = "vm/slurm_health"
_START = f"""\
import sys

sys.path.append("{_LIBEXEC}")
from {_PACKAGE}.vm.slurm_health import main

sys.exit(main(sys.argv[1:]))
"""
_EPILOG_NAME = "90-trueup-health"
_EPILOG = f"""\
#!/bin/sh
{_WRITTEN}. What the node shows after a job; it drains the node itself.
exec {_HEALTH} --epilog
"""
# Below slurmd's limit for a HealthCheckProgram, 60 s (slurm.conf(5)).
_HEALTH_SECONDS = 50
# As AzNHC's check_ib_link_flapping.
_FLAP_HOURS = 6
# After these a record says nothing any more.
_RECORD_HOURS = 26
DATABASE = "slurm_acct_db"
DATABASE_USER = "slurm"
# Settings that slurm_conf_extra may replace. A drained node is idle too: without IDLE or ANY a node
# that judges itself is never given back.
SITE_SETTINGS = ("MpiDefault", "KillOnBadExit", "HealthCheckNodeState")
_COMMENTS = {
    "ReturnToService": (
        "# A node that was lost, for whatever reason, works again when it registers with what"
        " stands here.\n"
    ),
    "PrologFlags": "# Before the job starts, on all of its nodes.\n",
}


def files_of(
    inputs: PlanInputs, cluster: Cluster, parts: Sequence[str], version: str
) -> list[dict[str, str]]:
    """The files of a host of the cluster, as config_files takes them; a file that the host does not
    need is removed.

    Args:
        inputs: the host's options, node and data.
        parts: the host's roles in the cluster.
        version: of Slurm on the host; empty where there is none yet.
    """
    options = inputs.options
    nodes = _lines(cluster.node_lines, ", from what each node said of itself")
    files = [
        _file("/etc/slurm/slurm.conf", _slurm_conf(options, cluster)),
        _file("/etc/slurm/nodes.conf", nodes),
        _file("/etc/slurm/partitions.conf", _lines(cluster.partition_lines)),
        _file("/etc/slurm/gres.conf", _lines(cluster.gres_lines)),
        _file("/etc/slurm/topology.conf", _lines(cluster.topology_lines)),
    ]
    if "controller" in parts:
        files.append(_file(SLURMCTLD_DROP_IN, f"{_WRITTEN}.\n{_SLURMCTLD}"))
    if "accounting" in parts:
        path = inputs.data["systems"][inputs.node["package_manager"]]["database_conf"]
        files.append(_file(path, _database_conf(options["database_buffer_mib"])))
    if "compute" in parts:
        files += _of_compute(inputs, cluster, version)
    return files


def slurmdbd_conf(cluster: Cluster, password: str) -> str:
    """Of slurmdbd, which refuses to start where DbdHost is an address (slurmdbd.c of 22.05)."""
    return f"""\
{_WRITTEN}. Holds a password: for the user slurm alone.
# What this host calls itself, even where others reach it by an address: slurmdbd compares.
DbdHost={cluster.accounting_hostname}
SlurmUser=slurm
AuthType=auth/munge
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={DATABASE_USER}
StoragePass={password}
StorageLoc={DATABASE}
"""


def _database_conf(mib: int) -> str:
    return f"""\
{_WRITTEN}: what slurmdbd asks of InnoDB (slurm.schedmd.com/accounting.html, MySQL Configuration).
[mysqld]
innodb_buffer_pool_size={mib}M
innodb_lock_wait_timeout=900
innodb_log_file_size=64M
max_allowed_packet=16M
"""


def settings(options: Mapping[str, Any], cluster: Cluster) -> list[dict[str, Any]]:
    """Settings of slurm.conf, in blocks; None is not written. ``slurm_conf_extra`` is not in it."""
    how = "cgroup" if cluster.cgroups else "linux"
    hooks = {
        "Prolog": f"{_LIBEXEC}/slurm_prolog",
        "Epilog": f"{_LIBEXEC}/slurm_epilog",
        "PrologFlags": "Alloc,Contain" if cluster.cgroups else "Alloc",
        "PrologEpilogTimeout": 3 * options["hook_timeout_seconds"],
    }
    health = {
        "HealthCheckProgram": _HEALTH,
        "HealthCheckInterval": options["health_interval_seconds"],
        "HealthCheckNodeState": "IDLE",
    }
    return [
        {
            "ClusterName": options["cluster_name"],
            "SlurmctldHost": cluster.controller,
            "SlurmUser": "slurm",
            "AuthType": "auth/munge",
            "CredType": "cred/munge",
            "StateSaveLocation": STATE_FOLDER,
            "SlurmdSpoolDir": "/var/spool/slurmd",
            "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
            "SlurmdLogFile": "/var/log/slurm/slurmd.log",
            "SlurmctldTimeout": options["slurmctld_timeout_seconds"],
            "SlurmdTimeout": options["slurmd_timeout_seconds"],
            "ReturnToService": 2,
        },
        {
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": options["select"],
            "ProctrackType": "proctrack/cgroup" if cluster.cgroups else "proctrack/linuxproc",
            "TaskPlugin": cluster.task_plugin,
            "JobAcctGatherType": f"jobacct_gather/{how}",
            "MpiDefault": cluster.mpi,
            # MPI's other ranks would wait until the time limit.
            "KillOnBadExit": 1,
            "TopologyPlugin": "topology/tree" if cluster.topology_lines else None,
            "GresTypes": "gpu" if cluster.gres_lines else None,
        },
        hooks,
        health if "interval" in options["health"] else dict.fromkeys(health),
        {
            "AccountingStorageType": "accounting_storage/slurmdbd"
            if cluster.accounting
            else "accounting_storage/none",
            "AccountingStorageHost": cluster.accounting or None,
        },
    ]


def _slurm_conf(options: Mapping[str, Any], cluster: Cluster) -> str:
    """The same on every host; nodes and partitions stand in files of their own."""
    blocks = settings(options, cluster)
    extra = options["conf_extra"]
    for name in sorted(extra, key=str.lower):
        places = ((block, own) for block in blocks for own in block if own.lower() == name.lower())
        block, own_name = next(places, (blocks[-1], name))
        block[own_name] = extra[name]
    texts = [
        "".join(
            f"{_COMMENTS.get(name, '')}{name}={value}\n"
            for name, value in block.items()
            if value is not None
        )
        for block in blocks
    ]
    texts.append("Include /etc/slurm/nodes.conf\nInclude /etc/slurm/partitions.conf\n")
    head = (
        f"{_WRITTEN}: the same on every host of the cluster. Nodes and partitions stand in files of"
        " their own.\n"
    )
    return head + "\n".join(text for text in texts if text)


def _file(path: str, content: str, mode: str = "0644") -> dict[str, str]:
    """Absent where the content is empty."""
    if not content:
        return {"path": path, "state": "absent"}
    return {"path": path, "content": content, "mode": mode}


def _lines(of: Sequence[str], whence: str = "") -> str:
    return "\n".join([f"{_WRITTEN}{whence}.", *of, ""]) if of else ""


def _of_compute(inputs: PlanInputs, cluster: Cluster, version: str) -> list[dict[str, str]]:
    """slurmd's, and the hooks around jobs."""
    devices = [f"/dev/nvidia{number}" for number in range(len(inputs.node["gpus"]))]
    files = [
        _file("/etc/slurm/cgroup.conf", _cgroup_conf(inputs, cluster, version)),
        _file(_DEVICES, _script(inputs, "devices") if devices else "", "0755"),
        _file(SLURMD_DROP_IN, _slurmd_drop_in(inputs.options["slurmd_environment"], devices)),
        {"path": "/var/spool/slurmd", "state": "directory"},
        {"path": "/etc/slurm/prolog.d", "state": "directory"},
        {"path": "/etc/slurm/epilog.d", "state": "directory"},
    ]
    clocks = _script(inputs, "gpu_clocks") if inputs.node["gpus"] else ""
    hooks = {
        f"{_LIBEXEC}/slurm_prolog": _hook(inputs, "prolog.d"),
        f"{_LIBEXEC}/slurm_epilog": _hook(inputs, "epilog.d"),
        "/etc/slurm/prolog.d/10-trueup-health": _health(inputs),
        "/etc/slurm/epilog.d/10-trueup-gpu-clocks": clocks,
    }
    files += [_file(path, text, "0755") for path, text in hooks.items()]
    return files + _own_health(inputs)


def _slurmd_drop_in(environment: Mapping[str, Any], devices: Sequence[str]) -> str:
    """slurmd's variables; on a node with GPUs it starts once their files are there."""
    service = f"[Service]\n{systemd.environment(environment)}\n"
    if not devices:
        return f"{_WRITTEN}.\n{service}"
    waiting = _GPU_SERVICE.format(devices=" ".join(devices))
    return f"{_WRITTEN}.\n{_GPU_UNIT}\n{service}{waiting}"


def _own_health(inputs: PlanInputs) -> list[dict[str, str]]:
    """The program by which the node judges itself, its settings, and the hook after a job."""
    when = inputs.options["health"]
    hook = _file(f"/etc/slurm/epilog.d/{_EPILOG_NAME}", _EPILOG if "epilog" in when else "", "0755")
    if not when:
        return [hook, _file(_HEALTH, ""), _file("/etc/trueup/slurm_health.json", "")]
    room = [
        {
            "path": f"{_LIBEXEC}/{_PACKAGE}/{name}.py",
            "source": f"module_utils/trueup_node/{name}.py",
        }
        for name in health_files()
    ]
    settings = json.dumps(_health_settings(inputs), indent=1, sort_keys=True) + "\n"
    program = f"#!{inputs.python} -I\n{_WRITTEN}.\n{_START}"
    return [
        *room,
        _file("/etc/trueup/slurm_health.json", settings),
        _file(_HEALTH, program, "0755"),
        hook,
    ]


@functools.lru_cache(maxsize=1)
def health_files() -> list[str]:
    """The files of module_utils/trueup_node that the program imports, without ``.py``."""
    folder, names, waiting = file("module_utils/trueup_node"), set[str](), [_PROGRAM]
    while waiting:
        name = waiting.pop()
        path = folder / f"{name}.py"
        if name in names or not path.is_file():
            continue
        names.add(name)
        parent = PurePosixPath(name).parent
        waiting.append(str(parent / "__init__"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                steps = [parent, *parent.parents][node.level - 1]
                module = steps / (node.module or "").replace(".", "/")
                waiting += [str(module), *(str(module / alias.name) for alias in node.names)]
    return sorted(names)


def _health_settings(inputs: PlanInputs) -> dict[str, Any]:
    """As ``node_health`` describes them."""
    options, size = inputs.options, inputs.node["vm_size"]
    layouts = nccl_topology.read_layouts(inputs.catalog("topologies.yml"))
    gpus, _ = _devices(inputs.node)
    return {
        "node": Host(inputs.host, inputs.hostvars[inputs.host]).name,
        "record_name": inputs.host,
        "vm_size": size,
        "expectations": of_size(inputs.catalog("expectations.yml"), size or ""),
        "size_row": _size_row(inputs),
        "faults": {**inputs.catalog("faults/xid.yml"), "watched": known_faults.watched()},
        "gpu": {"gpus": gpus},
        "rdma": expected_of(inputs.node, layouts),
        "flap_hours": _FLAP_HOURS,
        "events": [METADATA_URL, EVENTS_URL] if "events" in options["health"] else [],
        "programs": ["/etc/slurm/prolog.d/10-trueup-health"],
        "epilog_name": _EPILOG_NAME,
        "records": options["health_records"],
        "record_hours": _RECORD_HOURS,
        "drains": "drain_unmeasured" in options["health"],
        "seconds": _HEALTH_SECONDS,
        "epilog_seconds": options["hook_timeout_seconds"] - 2,
    }


def _size_row(inputs: PlanInputs) -> dict[str, Any]:
    """The size's row of the catalog with its source; empty for a size that the catalog lacks."""
    row, path = catalog_of(inputs.node), inputs.project / "catalog" / "vm_sizes.csv"
    return {**row, "source": read_sources(str(path))[inputs.node["vm_size"]]} if row else {}


def _cgroup_conf(inputs: PlanInputs, cluster: Cluster, version: str) -> str:
    """For the cgroup version of this host."""
    memory = "yes" if "Memory" in inputs.options["select"] else "no"
    lines = ["CgroupPlugin=disabled"]
    if cluster.cgroups:
        lines = [
            f"CgroupPlugin=cgroup/{cluster.cgroup[inputs.host]}",
            "ConstrainCores=yes",
            "ConstrainDevices=yes",
            f"ConstrainRAMSpace={memory}",
        ]
    # Slurm 23.11 has a word for no cgroups at all; older ones do without where no plugin asks.
    elif [int(number) for number in (version or "0").split(".")] < [23, 11]:
        return ""
    return _lines(lines, ", for the cgroup version of this host")


def _script(inputs: PlanInputs, name: str) -> str:
    return inputs.text(f"roles/slurm/files/{name}.sh")


def _hook(inputs: PlanInputs, folder: str) -> str:
    """The script that runs the programs of a folder."""
    seconds = str(inputs.options["hook_timeout_seconds"])
    return _script(inputs, "hook").replace("@FOLDER@", folder).replace("@SECONDS@", seconds)


def _health(inputs: PlanInputs) -> str:
    """The check before each job, of the hardware that the node's size has or that identify found:
    the paragraphs of the script that this node needs."""
    head, gpus, links, folder, mounted, writable, end = _script(inputs, "health").split("\n\n")
    gpu_count, link_count = _devices(inputs.node)
    configured = inputs.options["scratch"]
    scratch = configured or _nvme_scratch(inputs)
    paragraphs = [
        head,
        gpus.replace("@GPUS@", str(gpu_count)) if gpu_count else "",
        links.replace("@LINKS@", str(link_count)) if link_count else "",
        folder.replace("@SCRATCH@", shlex.quote(scratch)) if scratch else "",
        mounted if scratch and not configured else "",
        writable if scratch else "",
        end,
    ]
    return "\n".join(text for text in paragraphs if text)


def _devices(node: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of GPUs and InfiniBand links."""
    row = catalog_of(node)
    ports = [port for port in node["infiniband"] if port["link_layer"] == "InfiniBand"]
    return row.get("gpus") or len(node["gpus"]), row.get("rdma_nics") or len(ports)


def _nvme_scratch(inputs: PlanInputs) -> str:
    """Where role nvme_scratch mounts the local disks of this node; empty where it does not."""
    has = "nvme_scratch" in inputs.variables.get("trueup_family_roles", [])
    if not has or not any(disk["local"] for disk in inputs.node["nvme"]):
        return ""
    point = inputs.hostvars[inputs.host].get("nvme_scratch_mount_point")
    return str(point or "/mnt/resource_nvme")
