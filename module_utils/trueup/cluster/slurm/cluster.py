"""A cluster's configuration, from what its hosts said of themselves: the same for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ...node import nccl_topology
from ...node.topology import format_cpu_list
from .names import cpu_word, gpu_type, hostlist

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...plan import Asked

PARTS = ("controller", "accounting", "compute", "login")
# Slurm's names of nodes, partitions, features and switches, without what its own syntax uses.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LETTERS = "letters, digits, dots, dashes and underscores"


@dataclass(frozen=True)
class Cluster:
    """What the files of every host are made of: the lines of nodes.conf and so on, and settings.

    Attributes:
        names: what the hosts that serve and compute are reached by. Each host must find them all:
            srun and slurmd on one node talk to the others themselves.
        uids: which hosts have which numeric id of the user slurm.
        cgroup: of each compute host that was looked at, the version for its jobs; empty for none.
        notes: how settings were chosen, a sentence each.
        problems: what keeps it from being a cluster, a sentence each.
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
    """One host of the cluster, as far as it has said what it is: by the facts ``trueup_node``
    (identify) and ``trueup_slurm`` (the role's own look at it, absent before its first)."""

    def __init__(self, host: str, variables: Mapping[str, Any]) -> None:
        facts = variables.get("ansible_facts", {})
        self.host = host
        self.node: Mapping[str, Any] = facts.get("trueup_node") or {}
        self.look: Mapping[str, Any] = facts.get("trueup_slurm") or {}
        self.name = _text(variables, "slurm_node_name") or host
        self.hostname = str(self.look.get("hostname") or self.name)
        self.address = _text(variables, "slurm_node_address")
        self.placement_group = _text(variables, "slurm_placement_group")
        self.more_features = [str(word) for word in variables.get("slurm_features") or []]
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


def cluster_of(parts: Mapping[str, Sequence[str]], asked: Asked) -> Cluster:
    """The cluster of the hosts of each of PARTS."""
    problems: list[str] = []
    notes: list[str] = []
    options = asked.options
    hosts = {host: Host(host, asked.hostvars[host]) for part in PARTS for host in parts[part]}
    _check_parts(parts, hosts.values(), problems)
    controllers, accounting, compute = (
        [hosts[host] for host in parts[part]] for part in ("controller", "accounting", "compute")
    )
    nodes = _identified(compute, options, problems)
    layouts = nccl_topology.read_layouts(asked.catalog("topologies.yml"))
    looked = [one for one in compute if one.look]
    cgroup, task_plugin = _processes(looked, options["cgroup"], notes)
    return Cluster(
        controller="".join(one.with_address for one in controllers),
        accounting="".join(one.reached_by for one in accounting),
        accounting_hostname="".join(one.hostname for one in accounting),
        nodes=[one.name for one in nodes],
        node_lines=_node_lines(nodes, options),
        partition_lines=_partitions(nodes, options, problems),
        topology_lines=_topology(nodes, options["topology"], problems),
        gres_lines=_gres_lines(nodes, layouts),
        names=sorted({one.reached_by for one in (*controllers, *accounting, *compute)}),
        uids=_uids(hosts.values()),
        cgroup=cgroup,
        task_plugin=task_plugin,
        mpi=_mpi(looked, options["mpi"], notes),
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
    for one in hosts:
        if not _NAME.fullmatch(one.name):
            problems.append(
                f"{one.host}: {one.name!r} cannot be the name of a Slurm node; set slurm_node_name"
                f" to {_LETTERS}"
            )
        if one.name in names:
            problems.append(
                f"{one.host} and {names[one.name]} are both called {one.name}: set slurm_node_name"
            )
        names[one.name] = one.host
        problems += [
            f"{one.host}: {word!r} cannot be a feature or a placement group; use {_LETTERS}"
            for word in (*one.more_features, one.placement_group)
            if word and not _NAME.fullmatch(word)
        ]


def _identified(
    compute: Sequence[Host], options: Mapping[str, Any], problems: list[str]
) -> list[Host]:
    """The compute hosts that have said what they are."""
    for one in compute:
        if not one.node:
            problems.append(
                f"{one.host} is in slurm_compute and has never said what it is: run identify over"
                " it once (ansible-playbook playbooks/identify.yml)"
            )
            continue
        if not one.cpus:
            problems.append(f"{one.host} did not say how many CPUs it has: see lscpu on it")
        if _memory(one, options) < 1:
            problems.append(
                f"{one.host} has {one.memory_mib} MiB of memory, of which slurm_memory_reserve_mib"
                f" keeps {options['memory_reserve_mib']}: keep less"
            )
    return [one for one in compute if one.node]


def _memory(one: Host, options: Mapping[str, Any]) -> int:
    """MiB for jobs: what is there less the reserve, rounded down."""
    share = one.memory_mib * options["memory_reserve_percent"] // 100
    return int(one.memory_mib - max(share, options["memory_reserve_mib"]))


def _cpu_text(node: Mapping[str, Any]) -> str:
    """Sockets, cores and threads where they multiply to the CPUs; else the CPUs alone."""
    cpus, cores, sockets = (int(node.get(key) or 0) for key in ("cpus", "cores", "sockets"))
    if cores and sockets and cores % sockets == 0 and cpus % cores == 0:
        return f"Sockets={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore={cpus // cores}"
    return f"CPUs={cpus or 1}"


def _node_lines(nodes: Sequence[Host], options: Mapping[str, Any]) -> list[str]:
    """One line for all nodes that are alike; a node with a name or an address of its own alone."""
    lines: dict[str, list[str]] = {}
    for one in nodes:
        sizes = [one.node.get("family"), one.node.get("vm_size")]
        models = [cpu_word(one.node.get("cpu_model")), one.gpu_type]
        features = [*sizes, *models, one.placement_group, *one.more_features]
        gres = f"gpu:{one.gpu_type}:{len(one.gpus)}".replace("::", ":")
        words = [
            f"NodeHostname={one.hostname}" if one.hostname != one.name else "",
            f"NodeAddr={one.address}" if one.address else "",
            _cpu_text(one.node),
            f"RealMemory={_memory(one, options)}",
            f"Gres={gres}" if one.gpus else "",
            f"Feature={','.join(dict.fromkeys(filter(None, features)))}" if any(features) else "",
            "State=UNKNOWN",
        ]
        lines.setdefault(" ".join(word for word in words if word), []).append(one.name)
    return _folded(lines)


def _folded(lines: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"NodeName={hostlist(names)} {words}" for words, names in lines.items()]


def _gres_lines(nodes: Sequence[Host], layouts: Mapping[str, nccl_topology.Layout]) -> list[str]:
    """GPUs with the cores of their NUMA nodes, where the catalog knows the size."""
    lines: dict[str, list[str]] = {}
    for one in nodes:
        if one.gpus and one.look.get("nvml"):
            lines.setdefault("AutoDetect=nvml", []).append(one.name)
            continue
        layout = nccl_topology.layout_of(one.node.get("vm_size") or "", dict(layouts))
        cores = layout.gpu_cores() if layout else {}
        texts = [
            f" Cores={format_cpu_list(cores[gpu])}" if gpu in cores else ""
            for gpu in range(len(one.gpus))
        ]
        kind = f" Type={one.gpu_type}" if one.gpu_type else ""
        for text, group in groupby(range(len(texts)), key=texts.__getitem__):
            first, *_, last = [*group] * 2
            files = f"{first}" if first == last else f"[{first}-{last}]"
            words = f"Name=gpu{kind} File=/dev/nvidia{files}{text}"
            lines.setdefault(words, []).append(one.name)
    return _folded(lines)


def _partitions(
    nodes: Sequence[Host], options: Mapping[str, Any], problems: list[str]
) -> list[str]:
    """One partition a family and ``all``; or those that ``slurm_partitions`` names."""
    if not nodes:
        # Which is told already.
        return []
    families = sorted({one.family for one in nodes})
    given = options["partitions"] or [
        *({"name": family, "families": [family]} for family in families),
        {"name": "all", "default": True},
    ]
    lines = [_partition(partition, nodes, options, problems) for partition in given]
    return [line for line in lines if line]


def _partition(
    given: Mapping[str, Any], nodes: Sequence[Host], options: Mapping[str, Any], problems: list[str]
) -> str:
    """A line of partitions.conf; empty where no node is in it. What is None was not given."""
    name, hosts, families = given["name"], given.get("hosts"), given.get("families")
    strangers = sorted(set(hosts or []) - {one.host for one in nodes})
    chosen = [
        one
        for one in nodes
        if (hosts is None or one.host in hosts) and (families is None or one.family in families)
    ]
    if not _NAME.fullmatch(name):
        problems.append(f"slurm_partitions: {name!r} cannot be the name of a partition")
    if strangers:
        problems.append(
            f"slurm_partitions: {name} has {', '.join(strangers)}, not of the group slurm_compute"
        )
    if not chosen:
        problems.append(f"slurm_partitions: {name} has no nodes")
    return _partition_line(given, chosen, options) if chosen else ""


def _partition_line(
    given: Mapping[str, Any], nodes: Sequence[Host], options: Mapping[str, Any]
) -> str:
    settings = {**options["partition_options"], **(given.get("options") or {})}
    if "Memory" in options["select"]:
        # A job that does not say what it needs gets its CPUs' share, not the whole node.
        shares = (_memory(one, options) // (one.cpus or 1) for one in nodes)
        settings.setdefault("DefMemPerCPU", min(shares))
    words = [
        f"PartitionName={given['name']}",
        f"Nodes={hostlist(one.name for one in nodes)}",
        *(["Default=YES"] if given.get("default") else []),
        *(f"{key}={settings[key]}" for key in sorted(settings)),
        "State=UP",
    ]
    return " ".join(words)


def _topology(nodes: Sequence[Host], given: Sequence[Any], problems: list[str]) -> list[str]:
    """A tree of switches: a leaf for each placement group below one root, or as given."""
    if given:
        return _given_topology({one.host: one.name for one in nodes}, given, problems)
    if not any(one.placement_group for one in nodes):
        return []
    leaves: dict[str, list[str]] = {}
    for one in nodes:
        leaf = f"pg-{one.placement_group}" if one.placement_group else "elsewhere"
        leaves.setdefault(leaf, []).append(one.name)
    lines = [f"SwitchName={leaf} Nodes={hostlist(leaves[leaf])}" for leaf in sorted(leaves)]
    return [*lines, f"SwitchName=root Switches={','.join(sorted(leaves))}"]


def _given_topology(
    names: Mapping[str, str], given: Sequence[Mapping[str, Any]], problems: list[str]
) -> list[str]:
    lines: list[str] = []
    placed: list[str] = []
    for entry in given:
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


def _processes(looked: Sequence[Host], wanted: str, notes: list[str]) -> tuple[dict[str, str], str]:
    """The version of cgroups on each host, and TaskPlugin: slurm.conf says once what every one of
    them can do."""
    versions = {one.host: _cgroup(one.look, wanted) for one in looked}
    lacking = [f"{host} ({why})" for host, (version, why) in versions.items() if not version]
    by_host = {host: version for host, (version, _) in versions.items()}
    if lacking and wanted != "none":
        notes.append(
            f"no cgroups for jobs, because of {', '.join(lacking)}: processes are tracked by"
            " proctrack/linuxproc, and memory is not enforced"
        )
    if looked and not lacking:
        return by_host, "task/cgroup,task/affinity"
    return by_host, _binding(looked, notes)


def _binding(looked: Sequence[Host], notes: list[str]) -> str:
    """TaskPlugin without cgroups."""
    unbound = [one.host for one in looked if not one.look.get("may_bind")]
    if not unbound:
        return "task/affinity"
    notes.append(
        f"jobs are not bound to CPUs: slurmd on {', '.join(unbound)} lacks the capability SYS_NICE"
    )
    return "task/none"


def _cgroup(look: Mapping[str, Any], wanted: str) -> tuple[str, str]:
    """The version that Slurm can use on this host, or an empty text and why there is none."""
    here = str(look.get("cgroup"))
    if wanted != "auto":
        return ("", "slurm_cgroup") if wanted == "none" else (wanted, "")
    if here not in {"v1", "v2"}:
        return "", str(look.get("cgroup_why") or here)
    if f"cgroup_{here}" not in look.get("plugins", []):
        return "", f"its Slurm has no plugin cgroup/{here}"
    return here, ""


def _mpi(looked: Sequence[Host], wanted: str, notes: list[str]) -> str:
    """As wanted; ``auto`` is pmix where every node has the plugin."""
    if wanted != "auto":
        return wanted
    lacking = [one.host for one in looked if "mpi_pmix" not in one.look.get("plugins", [])]
    if lacking:
        notes.append(f"MpiDefault is none: no plugin mpi_pmix on {', '.join(lacking)}")
    return "none" if lacking or not looked else "pmix"


def _uids(hosts: Iterable[Host]) -> dict[str, list[str]]:
    """Who has which numeric id of the user slurm; it must be one."""
    found: dict[str, list[str]] = {}
    for one in hosts:
        if one.look.get("slurm_uid") is not None:
            found.setdefault(str(one.look["slurm_uid"]), []).append(one.host)
    return found
