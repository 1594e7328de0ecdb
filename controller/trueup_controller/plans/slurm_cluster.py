"""A cluster's configuration, from the facts of its hosts: the same for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from trueup_node.node import nccl_topology
from trueup_node.node.topology import format_cpu_list

from .slurm_names import cpu_word, gpu_type, hostlist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trueup_node.plan import PlanInputs

PARTS = ("controller", "accounting", "compute", "login")
# Slurm's names of nodes, partitions, features and switches, without characters of its own syntax.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Memory that jobs do not get, the larger of the two. slurmctld refuses a node that has less than
# slurm.conf says (inval), and MemTotal differs by some MiB from boot to boot.
_SYSTEM_MIB = 1024
_SYSTEM_PERCENT = 2
_LETTERS = "letters, digits, dots, dashes and underscores"


@dataclass(frozen=True)
class Cluster:
    """The data for the files of every host: the lines of nodes.conf and so on, and settings.

    Attributes:
        names: names or addresses of the hosts that serve and compute. Each host must find them all:
            srun and slurmd on one node talk to the others themselves.
        uids: which hosts have which numeric id of the user slurm.
        cgroup: of each compute host that was looked at, the version for its jobs; empty for none.
        notes: how settings were chosen, a sentence each.
        problems: errors of the cluster's definition, a sentence each.
    """

    controller: str
    accounting: str
    accounting_hostname: str
    nodes: list[str]
    node_lines: list[str]
    partition_lines: list[str]
    topology_lines: list[str]
    gres_lines: list[str]
    names: list[str]
    uids: dict[str, list[str]]
    cgroup: dict[str, str]
    task_plugin: str
    mpi: str
    notes: list[str]
    problems: list[str]

    @property
    def cgroups(self) -> bool:
        """Whether jobs are in cgroups, which all hosts must have then."""
        return bool(self.cgroup) and all(self.cgroup.values())


class Host:
    """One host of the cluster, from its facts ``trueup_node`` (identify) and ``trueup_slurm`` (the
    role's own look at it, absent before its first)."""

    def __init__(self, host: str, variables: Mapping[str, Any]) -> None:
        facts = variables.get("ansible_facts", {})
        self.host = host
        self.node: Mapping[str, Any] = facts.get("trueup_node") or {}
        self.look: Mapping[str, Any] = facts.get("trueup_slurm") or {}
        self.name = _text(variables, "slurm_node_name") or host
        self.hostname = str(self.look.get("hostname") or self.name)
        self.address = _text(variables, "slurm_node_address")
        self.placement_group = _text(variables, "slurm_placement_group")
        self.more_features = [str(feature) for feature in variables.get("slurm_features") or []]
        self.family = str(self.node.get("family") or "unknown")
        self.cpus = int(self.node.get("cpus") or 0)
        self.memory_mib = int(self.node.get("memory_bytes") or 0) // 1024**2
        self.gpus = list(self.node.get("gpus") or [])

    @property
    def gpu_type(self) -> str:
        """By the driver, or the catalog where there is none yet; empty where neither knows."""
        row = self.node.get("catalog") or {}
        model = next((gpu["name"] for gpu in self.gpus if gpu.get("name")), row.get("gpu_model"))
        return gpu_type(model) if self.gpus else ""

    @property
    def reached_by(self) -> str:
        """An address, or a name that must be found."""
        return self.address or self.hostname

    @property
    def with_address(self) -> str:
        """As SlurmctldHost has it."""
        return f"{self.hostname}({self.address})" if self.address else self.hostname


def _text(variables: Mapping[str, Any], name: str) -> str:
    return str(variables.get(name) or "")


def cluster_of(parts: Mapping[str, Sequence[str]], inputs: PlanInputs) -> Cluster:
    """The cluster of the hosts of each of PARTS."""
    problems: list[str] = []
    notes: list[str] = []
    options = inputs.options
    hosts = {host: Host(host, inputs.hostvars[host]) for group in PARTS for host in parts[group]}
    _check_parts(parts, hosts.values(), problems)
    controllers, accounting, compute = (
        [hosts[host] for host in parts[group]] for group in ("controller", "accounting", "compute")
    )
    nodes = _identified(compute, problems)
    layouts = nccl_topology.read_layouts(inputs.catalog("topologies.yml"))
    looked = [host for host in compute if host.look]
    cgroup, task_plugin = _processes(looked, notes)
    return Cluster(
        controller="".join(host.with_address for host in controllers),
        accounting="".join(host.reached_by for host in accounting),
        accounting_hostname="".join(host.hostname for host in accounting),
        nodes=[host.name for host in nodes],
        node_lines=_node_lines(nodes),
        partition_lines=_partitions(nodes, options, problems),
        topology_lines=_topology(nodes, options["topology"], problems),
        gres_lines=_gres_lines(nodes, layouts),
        names=sorted({host.reached_by for host in (*controllers, *accounting, *compute)}),
        uids=_uids(hosts.values()),
        cgroup=cgroup,
        task_plugin=task_plugin,
        mpi=_mpi(looked, notes),
        notes=notes,
        problems=problems,
    )


def _check_parts(
    parts: Mapping[str, Sequence[str]], hosts: Iterable[Host], problems: list[str]
) -> None:
    controllers, accounting = parts["controller"], parts["accounting"]
    if len(controllers) != 1:
        problems.append(
            f"the group slurm_controller has {len(controllers)} hosts"
            f"{': ' if controllers else ''}{', '.join(controllers)}; give it one"
        )
    if len(accounting) > 1:
        problems.append(
            f"the group slurm_accounting has {len(accounting)} hosts: {', '.join(accounting)};"
            " give it one, or none"
        )
    if not parts["compute"]:
        problems.append("the group slurm_compute is empty: a cluster needs nodes to run jobs")
    names: dict[str, str] = {}
    for host in hosts:
        if not _NAME.fullmatch(host.name):
            problems.append(
                f"{host.host}: {host.name!r} cannot be the name of a Slurm node; set"
                f" slurm_node_name to {_LETTERS}"
            )
        if host.name in names:
            problems.append(
                f"{host.host} and {names[host.name]} are both called {host.name}: set"
                f" slurm_node_name"
            )
        names[host.name] = host.host
        problems += [
            f"{host.host}: {label!r} cannot be a feature or a placement group; use {_LETTERS}"
            for label in (*host.more_features, host.placement_group)
            if label and not _NAME.fullmatch(label)
        ]


def _identified(compute: Sequence[Host], problems: list[str]) -> list[Host]:
    """The compute hosts that have facts of identify."""
    for host in compute:
        if not host.node:
            problems.append(
                f"{host.host} is in slurm_compute and has never said what it is: run identify over"
                " it once (ansible-playbook playbooks/identify.yml)"
            )
            continue
        if not host.cpus:
            problems.append(f"{host.host} did not say how many CPUs it has: see lscpu on it")
        if _memory(host) < 1:
            problems.append(
                f"{host.host} has {host.memory_mib} MiB of memory, and the system keeps"
                f" {_SYSTEM_MIB}: it cannot be a node of the cluster"
            )
    return [host for host in compute if host.node]


def _memory(host: Host) -> int:
    """MiB for jobs: the memory less the system's, rounded down."""
    share = host.memory_mib * _SYSTEM_PERCENT // 100
    return host.memory_mib - max(share, _SYSTEM_MIB)


def _cpu_text(node: Mapping[str, Any]) -> str:
    """Sockets, cores and threads where they multiply to the CPUs; else the CPUs alone."""
    cpus, cores, sockets = (int(node.get(key) or 0) for key in ("cpus", "cores", "sockets"))
    if cores and sockets and cores % sockets == 0 and cpus % cores == 0:
        return f"Sockets={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore={cpus // cores}"
    return f"CPUs={cpus or 1}"


def _node_lines(nodes: Sequence[Host]) -> list[str]:
    """One line for all nodes that are alike; a node with a name or an address of its own alone."""
    lines: dict[str, list[str]] = {}
    for host in nodes:
        sizes = [host.node.get("family"), host.node.get("vm_size")]
        models = [cpu_word(host.node.get("cpu_model")), host.gpu_type]
        features = [*sizes, *models, host.placement_group, *host.more_features]
        gres = f"gpu:{host.gpu_type}:{len(host.gpus)}".replace("::", ":")
        words = [
            f"NodeHostname={host.hostname}" if host.hostname != host.name else "",
            f"NodeAddr={host.address}" if host.address else "",
            _cpu_text(host.node),
            f"RealMemory={_memory(host)}",
            f"Gres={gres}" if host.gpus else "",
            f"Feature={','.join(dict.fromkeys(filter(None, features)))}" if any(features) else "",
            "State=UNKNOWN",
        ]
        lines.setdefault(" ".join(setting for setting in words if setting), []).append(host.name)
    return _folded(lines)


def _folded(lines: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"NodeName={hostlist(names)} {words}" for words, names in lines.items()]


def _gres_lines(nodes: Sequence[Host], layouts: Mapping[str, nccl_topology.Layout]) -> list[str]:
    """GPUs with the cores of their NUMA nodes, where the catalog knows the size."""
    lines: dict[str, list[str]] = {}
    for host in nodes:
        if host.gpus and host.look.get("nvml"):
            lines.setdefault("AutoDetect=nvml", []).append(host.name)
            continue
        layout = nccl_topology.layout_of(host.node.get("vm_size") or "", dict(layouts))
        cores = layout.gpu_cores() if layout else {}
        texts = [
            f" Cores={format_cpu_list(cores[gpu])}" if gpu in cores else ""
            for gpu in range(len(host.gpus))
        ]
        kind = f" Type={host.gpu_type}" if host.gpu_type else ""
        for text, group in groupby(range(len(texts)), key=texts.__getitem__):
            first, *_, last = [*group] * 2
            files = f"{first}" if first == last else f"[{first}-{last}]"
            words = f"Name=gpu{kind} File=/dev/nvidia{files}{text}"
            lines.setdefault(words, []).append(host.name)
    return _folded(lines)


def _partitions(
    nodes: Sequence[Host], options: Mapping[str, Any], problems: list[str]
) -> list[str]:
    """One partition a family and ``all``; or the partitions of ``slurm_partitions``."""
    if not nodes:
        # Reported already.
        return []
    families = sorted({host.family for host in nodes})
    partitions = options["partitions"] or [
        *({"name": family, "families": [family]} for family in families),
        {"name": "all", "default": True},
    ]
    lines = [_partition(partition, nodes, options, problems) for partition in partitions]
    return [line for line in lines if line]


def _partition(
    partition: Mapping[str, Any],
    nodes: Sequence[Host],
    options: Mapping[str, Any],
    problems: list[str],
) -> str:
    """A line of partitions.conf; empty where no node is in it. None stands for a missing option."""
    name, hosts, families = partition["name"], partition.get("hosts"), partition.get("families")
    strangers = sorted(set(hosts or []) - {host.host for host in nodes})
    chosen = [
        host
        for host in nodes
        if (hosts is None or host.host in hosts) and (families is None or host.family in families)
    ]
    if not _NAME.fullmatch(name):
        problems.append(f"slurm_partitions: {name!r} cannot be the name of a partition")
    if strangers:
        problems.append(
            f"slurm_partitions: {name} has {', '.join(strangers)}, not of the group slurm_compute"
        )
    if not chosen:
        problems.append(f"slurm_partitions: {name} has no nodes")
    return _partition_line(partition, chosen, options) if chosen else ""


def _partition_line(
    partition: Mapping[str, Any], nodes: Sequence[Host], options: Mapping[str, Any]
) -> str:
    settings = {"MaxTime": "INFINITE", **(partition.get("options") or {})}
    if "Memory" in options["select"]:
        # A job without a memory request gets its CPUs' share, not the whole node.
        shares = (_memory(host) // (host.cpus or 1) for host in nodes)
        settings.setdefault("DefMemPerCPU", min(shares))
    words = [
        f"PartitionName={partition['name']}",
        f"Nodes={hostlist(host.name for host in nodes)}",
        *(["Default=YES"] if partition.get("default") else []),
        *(f"{key}={settings[key]}" for key in sorted(settings)),
        "State=UP",
    ]
    return " ".join(words)


def _topology(nodes: Sequence[Host], entries: Sequence[Any], problems: list[str]) -> list[str]:
    """A tree of switches: a leaf for each placement group below one root, or as given."""
    if entries:
        return _given_topology({host.host: host.name for host in nodes}, entries, problems)
    if not any(host.placement_group for host in nodes):
        return []
    leaves: dict[str, list[str]] = {}
    for host in nodes:
        leaf = f"pg-{host.placement_group}" if host.placement_group else "elsewhere"
        leaves.setdefault(leaf, []).append(host.name)
    lines = [f"SwitchName={leaf} Nodes={hostlist(leaves[leaf])}" for leaf in sorted(leaves)]
    return [*lines, f"SwitchName=root Switches={','.join(sorted(leaves))}"]


def _given_topology(
    names: Mapping[str, str], entries: Sequence[Mapping[str, Any]], problems: list[str]
) -> list[str]:
    lines: list[str] = []
    placed: list[str] = []
    for entry in entries:
        hosts, switches = entry.get("hosts") or [], entry.get("switches")
        strangers = sorted(set(hosts) - set(names))
        if strangers:
            problems.append(
                f"slurm_topology: {entry['switch']} has {', '.join(strangers)}, not of the group"
                " slurm_compute"
            )
            continue
        placed += hosts
        nodes = f"Nodes={hostlist(names[host] for host in hosts)}"
        below = f"Switches={','.join(switches)}" if switches else nodes
        lines.append(f"SwitchName={entry['switch']} {below}")
    problems += [
        f"slurm_topology: {host} hangs on {placed.count(host) or 'no'} switch(es); give it one"
        for host in names
        if placed.count(host) != 1
    ]
    return lines


def _processes(looked: Sequence[Host], notes: list[str]) -> tuple[dict[str, str], str]:
    """The version of cgroups on each host, and TaskPlugin, which slurm.conf sets once: every host
    must support it."""
    versions = {host.host: _cgroup(host.look) for host in looked}
    lacking = [f"{host} ({reason})" for host, (version, reason) in versions.items() if not version]
    by_host = {host: version for host, (version, _) in versions.items()}
    if lacking:
        notes.append(
            f"no cgroups for jobs, because of {', '.join(lacking)}: processes are tracked by"
            " proctrack/linuxproc, and memory is not enforced"
        )
    if looked and not lacking:
        return by_host, "task/cgroup,task/affinity"
    return by_host, _binding(looked, notes)


def _binding(looked: Sequence[Host], notes: list[str]) -> str:
    """TaskPlugin without cgroups."""
    unbound = [host.host for host in looked if not host.look.get("may_bind")]
    if not unbound:
        return "task/affinity"
    notes.append(
        f"jobs are not bound to CPUs: slurmd on {', '.join(unbound)} lacks the capability SYS_NICE"
    )
    return "task/none"


def _cgroup(look: Mapping[str, Any]) -> tuple[str, str]:
    """The version that Slurm can use on this host, or an empty text and why there is none."""
    version = str(look.get("cgroup"))
    if version not in {"v1", "v2"}:
        return "", str(look.get("cgroup_why") or version)
    if f"cgroup_{version}" not in look.get("plugins", []):
        return "", f"its Slurm has no plugin cgroup/{version}"
    return version, ""


def _mpi(looked: Sequence[Host], notes: list[str]) -> str:
    """The plugin pmix where every node has it."""
    lacking = [host.host for host in looked if "mpi_pmix" not in host.look.get("plugins", [])]
    if lacking:
        notes.append(f"MpiDefault is none: no plugin mpi_pmix on {', '.join(lacking)}")
    return "none" if lacking or not looked else "pmix"


def _uids(hosts: Iterable[Host]) -> dict[str, list[str]]:
    """Who has which numeric id of the user slurm; it must be one."""
    hosts_by_uid: dict[str, list[str]] = {}
    for host in hosts:
        if host.look.get("slurm_uid") is not None:
            hosts_by_uid.setdefault(str(host.look["slurm_uid"]), []).append(host.host)
    return hosts_by_uid
