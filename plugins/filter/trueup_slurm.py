"""Filters that write a Slurm cluster's configuration from what its nodes said of themselves."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible.errors import AnsibleFilterError
from trueup.errors import TrueupError
from trueup.node import nccl_topology
from trueup.node.topology import format_cpu_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DOCUMENTATION = r"""
name: trueup_slurm
short_description: A Slurm cluster's configuration from its nodes' facts
description:
  - C(slurm_plan) takes the hosts of each part (C(controller), C(accounting), C(compute),
    C(login)), C(hostvars) and settings, and returns what the templates of role slurm print - lines
    for nodes, partitions, GPUs and switches, what is common to the cluster (C(proctrack),
    C(task_plugin), C(jobacct_gather), C(mpi)) - with C(notes) on how that was chosen and
    C(problems), a sentence each, that keep it from being a cluster.
  - C(slurm_key_problem) says what is wrong with a munge key in base64; empty where it can be used.
  - C(slurm_node_problems) takes the output of C(scontrol --oneliner show nodes) and the names that
    must be there, and returns a sentence for each node that cannot run jobs.
"""

_MIB = 1024**2
# Slurm's names of nodes, partitions, features and switches, without what its own syntax uses.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KEY_BYTES = (32, 1024)
# States in which a node takes no jobs and will not by itself; * is appended to one that does not
# respond (scontrol(1), NODE STATES).
_BAD = ("DOWN", "FAIL", "ERROR", "UNKNOWN", "INVAL", "INVALID_REG", "NOT_RESPONDING")


@dataclass(frozen=True)
class Host:
    """One host of the cluster, as far as it has said what it is."""

    host: str
    name: str
    hostname: str
    address: str
    node: Mapping[str, Any] | None
    look: Mapping[str, Any]
    placement_group: str
    more_features: Sequence[str]

    @property
    def given_address(self) -> str:
        """What comes after the host's name in SlurmctldHost."""
        return f"({self.address})" if self.address else ""


@dataclass
class Plan:
    """What is written, and what speaks against it."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def slurm_plan(
    parts: Mapping[str, Sequence[str]], hostvars: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole of the configuration; ``settings`` are the role's variables without their prefix.

    Of each host are read ``slurm_node_name``, ``slurm_node_address``, ``slurm_placement_group`` and
    ``slurm_features`` where the inventory gives them, and the facts ``trueup_node`` (identify) and
    ``trueup_slurm`` (the role's own look at the host, absent before its first).
    """
    plan = Plan()
    names = list(dict.fromkeys(host for hosts in parts.values() for host in hosts))
    hosts = {host: _host(host, hostvars[host]) for host in names}
    _check_parts(parts, hosts, plan)
    compute = [hosts[host] for host in parts.get("compute", [])]
    known = _identified(compute, plan)
    layouts = _layouts(str(settings["topologies"])) if known else {}
    nodes = [_node(one, settings, layouts, plan) for one in known]
    partitions = _partitions(known, nodes, settings, plan)
    controllers = [hosts[host] for host in parts.get("controller", [])]
    accounting = [hosts[host] for host in parts.get("accounting", [])]
    found = (*controllers, *accounting, *compute)
    return {
        "controller": [f"{one.hostname}{one.given_address}" for one in controllers],
        "accounting": [one.address or one.hostname for one in accounting],
        "accounting_hostname": accounting[0].hostname if accounting else "",
        "nodes": [node["name"] for node in nodes],
        "node_lines": _node_lines(nodes),
        "partition_lines": partitions,
        "topology_lines": _topology(known, settings.get("topology"), plan),
        "gres_lines": _gres_lines(nodes),
        "gres_types": sorted({"gpu" for node in nodes if node["gpus"]}),
        # What the hosts that serve and compute are reached by; each host must find them all: srun
        # and slurmd on one node talk to the others themselves.
        "names": sorted({one.address or one.hostname for one in found}),
        "uids": _uids(hosts.values()),
        **_common(compute, str(settings["cgroup"]), str(settings["mpi"]), plan),
        "notes": plan.notes,
        "problems": plan.problems,
    }


def _identified(compute: Sequence[Host], plan: Plan) -> list[Host]:
    """The compute nodes that have said what they are; a problem for each other one."""
    plan.problems += [
        f"{one.host} is in slurm_compute and has never said what it is: run identify over it once"
        " (ansible-playbook playbooks/identify.yml)"
        for one in compute
        if not one.node
    ]
    return [one for one in compute if one.node]


def slurm_key_problem(key: str) -> str:
    """Why a munge key in base64 cannot be used; empty where it can."""
    if not key:
        return (
            "slurm_munge_key is not set: make one with `head -c 1024 /dev/urandom | base64 -w0` and"
            " keep it in a vault"
        )
    try:
        raw = base64.b64decode("".join(str(key).split()), validate=True)
    except (ValueError, binascii.Error):
        return "slurm_munge_key is not base64: give the key as `base64 -w0 munge.key` prints it"
    least, most = _KEY_BYTES
    if not least <= len(raw) <= most:
        return (
            f"slurm_munge_key holds {len(raw)} bytes, and munge takes {least} to {most}: make one"
            " with `head -c 1024 /dev/urandom | base64 -w0`"
        )
    return ""


def slurm_node_problems(shown: str, names: Sequence[str]) -> list[str]:
    """What keeps nodes from taking jobs, by ``scontrol --oneliner show nodes``.

    A drained node that is otherwise well is somebody's decision, and no problem.
    """
    found = {}
    for line in shown.splitlines():
        values = dict(re.findall(r"(?:^|\s)(NodeName|State|Reason)=(.*?)(?=\s+[A-Za-z]+=|$)", line))
        if "NodeName" in values:
            found[values["NodeName"]] = values
    problems = [
        f"node {name} is not known to slurmctld: restart slurmctld"
        for name in names
        if name not in found
    ]
    for name in names:
        state = found.get(name, {}).get("State", "")
        words = set(re.split(r"[+]", re.sub(r"[*~#!%$@^-]+$", "", state)))
        if "*" in state or words & set(_BAD):
            reason = found[name].get("Reason", "").strip()
            problems.append(
                f"node {name} is {state}"
                + (f", reason: {reason}" if reason else "")
                + _mend(name, words, reason)
            )
    return problems


def _mend(name: str, words: set[str], reason: str) -> str:
    if "INVALID_REG" in words or "INVAL" in words or reason.startswith(("Low ", "gres/")):
        return (
            f": it has less than slurm.conf says (compare `slurmd -C` on it); mend that and"
            f" `scontrol update nodename={name} state=resume`"
        )
    return f": see `systemctl status slurmd munge` and /var/log/slurm/slurmd.log on {name}"


def hostlist(names: Iterable[str]) -> str:
    """Names as Slurm folds them: ``hb-[1-3,7]``. Leading zeros stay: ``n[08-09],n10``."""

    def split(name: str) -> tuple[str, str, int]:
        match = re.fullmatch(r"(.*?)([0-9]*)", name)
        prefix, digits = match.groups() if match else (name, "")
        # Without leading zeros numbers of any width stand in one range.
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        return prefix, digits, width

    parts = []
    ordered = sorted(set(names), key=lambda name: (*_sortable(split(name)), name))
    for (prefix, width), group in groupby(ordered, key=lambda name: _folding(split(name))):
        numbers = [split(name)[1] for name in group]
        if len(numbers) == 1:
            parts.append(prefix + numbers[0])
            continue
        parts.append(f"{prefix}[{_ranges([int(number) for number in numbers], width)}]")
    return ",".join(parts)


def _folding(parts: tuple[str, str, int]) -> tuple[str, int]:
    prefix, digits, width = parts
    # A name without a number, or a padded one of another width, stands alone.
    return (prefix, width if digits else -1)


def _sortable(parts: tuple[str, str, int]) -> tuple[str, int, int]:
    prefix, digits, width = parts
    return (prefix, width if digits else -1, int(digits or 0))


def _ranges(numbers: list[int], width: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(
        f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs
    )


def gpu_type(name: str | None) -> str:
    """Slurm's word for a GPU model: ``a100`` of ``NVIDIA A100-SXM4-40GB``; empty where unknown."""
    for word in re.split(r"[\s_-]+", (name or "").lower()):
        if re.fullmatch(r"[a-z]{1,3}[0-9]{1,4}[a-z]{0,2}", word) and not word.startswith("hbm"):
            return word
    return ""


def cpu_word(model: str | None) -> str:
    """The model number of a CPU: ``7v73x`` of ``AMD EPYC 7V73X 64-Core Processor``."""
    for word in (model or "").lower().split():
        if re.fullmatch(r"(?=.*[0-9])[a-z]{0,2}[0-9][0-9a-z]{3,}[+]?", word):
            return word.rstrip("+")
    return ""


def _host(host: str, variables: Mapping[str, Any]) -> Host:
    facts = variables.get("ansible_facts", {})
    look = facts.get("trueup_slurm") or {}
    name = str(variables.get("slurm_node_name") or host)
    return Host(
        host=host,
        name=name,
        hostname=str(look.get("hostname") or name),
        address=str(variables.get("slurm_node_address") or ""),
        node=facts.get("trueup_node"),
        look=look,
        placement_group=str(variables.get("slurm_placement_group") or ""),
        more_features=list(variables.get("slurm_features") or []),
    )


def _check_parts(parts: Mapping[str, Sequence[str]], hosts: Mapping[str, Host], plan: Plan) -> None:
    controllers, accounting = parts.get("controller", []), parts.get("accounting", [])
    if len(controllers) != 1:
        plan.problems.append(
            f"the group slurm_controller has {len(controllers)} hosts"
            f"{': ' if controllers else ''}{', '.join(controllers)}; give it one"
        )
    if len(accounting) > 1:
        plan.problems.append(
            f"the group slurm_accounting has {len(accounting)} hosts: {', '.join(accounting)};"
            " give it one, or none"
        )
    if not parts.get("compute"):
        plan.problems.append("the group slurm_compute is empty: a cluster needs nodes to run jobs")
    names: dict[str, str] = {}
    for one in hosts.values():
        if not _NAME.fullmatch(one.name):
            plan.problems.append(
                f"{one.host}: {one.name!r} cannot be the name of a Slurm node; set slurm_node_name"
                " to letters, digits, dots, dashes and underscores"
            )
        if one.name in names:
            plan.problems.append(
                f"{one.host} and {names[one.name]} are both called {one.name}: set slurm_node_name"
            )
        names[one.name] = one.host
        for word in (*one.more_features, one.placement_group):
            if word and not _NAME.fullmatch(str(word)):
                plan.problems.append(
                    f"{one.host}: {word!r} cannot be a feature or a placement group; use letters,"
                    " digits, dots, dashes and underscores"
                )


def _node(
    one: Host,
    settings: Mapping[str, Any],
    layouts: Mapping[str, nccl_topology.Layout],
    plan: Plan,
) -> dict[str, Any]:
    """One node: its place in the lines of nodes.conf and gres.conf."""
    node = dict(one.node or {})
    catalog = node.get("catalog") or {}
    gpus = list(node.get("gpus") or [])
    model = next((gpu["name"] for gpu in gpus if gpu.get("name")), None)
    kind = gpu_type(model or catalog.get("gpu_model")) if gpus else ""
    memory = _memory(node, settings)
    cpus = node.get("cpus")
    if not cpus:
        plan.problems.append(f"{one.host} did not say how many CPUs it has: see lscpu on it")
    if memory < 1:
        plan.problems.append(
            f"{one.host} has {(node.get('memory_bytes') or 0) // _MIB} MiB of memory, of which"
            f" slurm_memory_reserve_mib keeps {settings['memory_reserve_mib']}: keep less"
        )
    features = [
        node.get("family"),
        node.get("vm_size"),
        cpu_word(node.get("cpu_model")),
        kind,
        one.placement_group,
        *one.more_features,
    ]
    return {
        "host": one.host,
        "name": one.name,
        "family": str(node.get("family") or "unknown"),
        "cpus": cpus or 1,
        "memory": memory,
        "cpu_text": _cpu_text(node),
        "features": [str(word) for word in dict.fromkeys(features) if word],
        "hostname": one.hostname,
        "address": one.address,
        "gpus": len(gpus),
        "gpu_type": kind,
        "gpu_cores": _gpu_cores(node.get("vm_size"), len(gpus), layouts),
        "nvml": bool(one.look.get("nvml")),
    }


def _memory(node: Mapping[str, Any], settings: Mapping[str, Any]) -> int:
    """MiB for jobs: what is there less the reserve, rounded down."""
    mib = int(node.get("memory_bytes") or 0) // _MIB
    share = mib * int(settings["memory_reserve_percent"]) // 100
    return mib - max(share, int(settings["memory_reserve_mib"]))


def _cpu_text(node: Mapping[str, Any]) -> str:
    """Sockets, cores and threads where they multiply to the CPUs; else the CPUs alone."""
    cpus, cores, sockets = (int(node.get(key) or 0) for key in ("cpus", "cores", "sockets"))
    if cores and sockets and cores % sockets == 0 and cpus % cores == 0:
        return f"Sockets={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore={cpus // cores}"
    return f"CPUs={cpus or 1}"


def _node_lines(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for all nodes that are alike; a node with a name or an address of its own alone."""
    lines: dict[str, list[str]] = {}
    for node in nodes:
        gres = f"gpu:{node['gpu_type']}:{node['gpus']}".replace("::", ":")
        words = [
            f"NodeHostname={node['hostname']}" if node["hostname"] != node["name"] else "",
            f"NodeAddr={node['address']}" if node["address"] else "",
            node["cpu_text"],
            f"RealMemory={node['memory']}",
            f"Gres={gres}" if node["gpus"] else "",
            f"Feature={','.join(node['features'])}" if node["features"] else "",
            "State=UNKNOWN",
        ]
        lines.setdefault(" ".join(word for word in words if word), []).append(node["name"])
    return [f"NodeName={hostlist(names)} {words}" for words, names in lines.items()]


def _gres_lines(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: dict[str, list[str]] = {}
    for node in nodes:
        kind = f" Type={node['gpu_type']}" if node["gpu_type"] else ""
        if node["gpus"] and node["nvml"]:
            lines.setdefault("AutoDetect=nvml", []).append(node["name"])
            continue
        for cores, numbers in groupby(range(node["gpus"]), key=lambda gpu: node["gpu_cores"][gpu]):
            files = [int(number) for number in numbers]
            text = f"{files[0]}" if len(files) == 1 else f"[{files[0]}-{files[-1]}]"
            words = f"Name=gpu{kind} File=/dev/nvidia{text}" + (f" Cores={cores}" if cores else "")
            lines.setdefault(words, []).append(node["name"])
    return [f"NodeName={hostlist(names)} {words}" for words, names in lines.items()]


def _gpu_cores(
    size: str | None, gpus: int, layouts: Mapping[str, nccl_topology.Layout]
) -> list[str]:
    """For each GPU by number the cores of its NUMA node, where the catalog knows the size."""
    layout = nccl_topology.layout_of(size, layouts) if size else None
    cores = {
        pair.number: format_cpu_list(numa.cores)
        for numa in (layout.numa if layout else ())
        for bridge in numa.bridges
        for pair in bridge.pairs
    }
    return [cores.get(gpu, "") for gpu in range(gpus)]


def _partitions(
    hosts: Sequence[Host],
    nodes: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    plan: Plan,
) -> list[str]:
    """One partition a family and ``all``; or those that ``slurm_partitions`` names."""
    if not nodes:
        # Which is told already.
        return []
    given = list(settings.get("partitions") or [])
    if not given:
        families = sorted({node["family"] for node in nodes})
        given = [{"name": family, "families": [family]} for family in families]
        given.append({"name": "all", "default": True})
    by_host = {one.host for one in hosts}
    lines = []
    for partition in given:
        name = str(partition.get("name", ""))
        strangers = sorted(set(partition.get("hosts", [])) - by_host)
        chosen = [
            node
            for node in nodes
            if node["host"] in partition.get("hosts", [node["host"]])
            and node["family"] in partition.get("families", [node["family"]])
        ]
        if not _NAME.fullmatch(name):
            plan.problems.append(f"slurm_partitions: {name!r} cannot be the name of a partition")
        if strangers:
            plan.problems.append(
                f"slurm_partitions: {name} has {', '.join(strangers)}, not of the group"
                " slurm_compute"
            )
        if not chosen:
            plan.problems.append(f"slurm_partitions: {name} has no nodes")
            continue
        options = {**settings.get("partition_options", {}), **partition.get("options", {})}
        if "Memory" in str(settings["select"]):
            # A job that does not say what it needs gets its CPUs' share, not the whole node.
            share = min(int(node["memory"]) // int(node["cpus"]) for node in chosen)
            options.setdefault("DefMemPerCPU", share)
        words = [
            f"PartitionName={name}",
            f"Nodes={hostlist(node['name'] for node in chosen)}",
            *(["Default=YES"] if partition.get("default") else []),
            *(f"{key}={options[key]}" for key in sorted(options)),
            "State=UP",
        ]
        lines.append(" ".join(words))
    return lines


def _topology(hosts: Sequence[Host], given: Any, plan: Plan) -> list[str]:
    """A tree of switches: a leaf for each placement group below one root, or as given."""
    if given:
        return _given_topology(hosts, given, plan)
    groups = sorted({one.placement_group for one in hosts} - {""})
    if not groups:
        return []
    leaves: dict[str, list[str]] = {}
    for one in hosts:
        leaf = f"pg-{one.placement_group}" if one.placement_group else "elsewhere"
        leaves.setdefault(leaf, []).append(one.name)
    lines = [f"SwitchName={leaf} Nodes={hostlist(leaves[leaf])}" for leaf in sorted(leaves)]
    return [*lines, f"SwitchName=root Switches={','.join(sorted(leaves))}"]


def _given_topology(hosts: Sequence[Host], given: Any, plan: Plan) -> list[str]:
    by_host = {one.host: one.name for one in hosts}
    lines, placed = [], []
    for entry in given:
        strangers = sorted(set(entry.get("hosts", [])) - set(by_host))
        if strangers:
            plan.problems.append(
                f"slurm_topology: {entry.get('switch')} has {', '.join(strangers)}, not of the"
                " group slurm_compute"
            )
            continue
        placed += entry.get("hosts", [])
        below = (
            f"Switches={','.join(entry['switches'])}"
            if entry.get("switches")
            else f"Nodes={hostlist(by_host[host] for host in entry.get('hosts', []))}"
        )
        lines.append(f"SwitchName={entry.get('switch')} {below}")
    plan.problems += [
        f"slurm_topology: {host} hangs on {placed.count(host) or 'no'} switch(es); give it one"
        for host in by_host
        if placed.count(host) != 1
    ]
    return lines


def _common(compute: Sequence[Host], cgroup: str, mpi: str, plan: Plan) -> dict[str, Any]:
    """What slurm.conf says once for all nodes, so it is what every one of them can do."""
    looked = [one for one in compute if one.look]
    versions = {one.host: _cgroup(one.look, cgroup) for one in looked}
    lacking = [f"{host} ({why})" for host, (version, why) in versions.items() if not version]
    cgroups = bool(looked) and not lacking
    if lacking and cgroup != "none":
        plan.notes.append(
            f"no cgroups for jobs, because of {', '.join(lacking)}: processes are tracked by"
            " proctrack/linuxproc, and memory is not enforced"
        )
    bound = [one for one in looked if not one.look.get("may_bind")]
    if bound and not cgroups:
        plan.notes.append(
            f"jobs are not bound to CPUs: slurmd on {', '.join(one.host for one in bound)} lacks"
            " the capability SYS_NICE"
        )
    affinity = "task/none" if bound else "task/affinity"
    return {
        "cgroups": cgroups,
        "cgroup": {host: version for host, (version, _) in versions.items()},
        "proctrack": "proctrack/cgroup" if cgroups else "proctrack/linuxproc",
        "task_plugin": "task/cgroup,task/affinity" if cgroups else affinity,
        "jobacct_gather": "jobacct_gather/cgroup" if cgroups else "jobacct_gather/linux",
        "mpi": _mpi_default(looked, plan) if mpi == "auto" else mpi,
    }


def _mpi_default(looked: Sequence[Host], plan: Plan) -> str:
    """pmix where every node that was looked at has the plugin."""
    lacking = [one.host for one in looked if "mpi_pmix" not in one.look.get("plugins", [])]
    if lacking:
        plan.notes.append(f"MpiDefault is none: no plugin mpi_pmix on {', '.join(lacking)}")
    return "none" if lacking or not looked else "pmix"


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


def _uids(hosts: Iterable[Host]) -> dict[str, list[str]]:
    """Who has which numeric id of the user slurm; it must be one."""
    found: dict[str, list[str]] = {}
    for one in hosts:
        if one.look.get("slurm_uid") is not None:
            found.setdefault(str(one.look["slurm_uid"]), []).append(one.host)
    return found


def _layouts(path: str) -> dict[str, nccl_topology.Layout]:
    try:
        return nccl_topology.read_layouts(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TrueupError) as error:
        message = f"catalog {path} cannot be read: {error}"
        raise AnsibleFilterError(message) from error


class FilterModule:
    """Ansible's entry."""

    def filters(self) -> dict[str, Any]:
        """Name to function."""
        return {
            "slurm_key_problem": slurm_key_problem,
            "slurm_node_problems": slurm_node_problems,
            "slurm_plan": slurm_plan,
        }
