"""A cluster's configuration follows from what its nodes said; what is no cluster is named."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

from helpers import parametrized
from hypothesis import given
from hypothesis import strategies as st
from role_plans import asked
from trueup_controller.plans.slurm_cluster import PARTS, Cluster, cluster_of
from trueup_controller.plans.slurm_files import settings as settings_of
from trueup_controller.plans.slurm_names import gpu_type, hostlist
from trueup_node.health.node_verdicts import slurm_down

GIB = 1024**3
HB = {
    "family": "hbv3",
    "vm_size": "Standard_HB120rs_v3",
    "cpu_model": "AMD EPYC 7V73X 64-Core Processor",
    "cpus": 120,
    "cores": 120,
    "sockets": 2,
    "memory_bytes": 448 * GIB,
    "gpus": [],
    "catalog": {"gpus": 0},
}
ND = {
    "family": "ndv4",
    "vm_size": "Standard_ND96asr_v4",
    "cpu_model": "AMD EPYC 7V12 64-Core Processor",
    "cpus": 96,
    "cores": 96,
    "sockets": 2,
    "memory_bytes": 885 * GIB,
    "gpus": [{"name": "NVIDIA A100-SXM4-40GB", "pci": f"000{n}:00:00.0"} for n in range(8)],
    "catalog": {"gpus": 8, "gpu_model": "A100"},
}
LOOK = {
    "hostname": "x",
    "cgroup": "v2",
    "cgroup_why": "",
    "may_bind": True,
    "plugins": ["cgroup_v1", "cgroup_v2", "mpi_pmix"],
    "nvml": False,
    "version": "22.05.8",
    "slurm_uid": 64030,
}


def host(
    name: str,
    node: dict[str, Any] | None = None,
    look: dict[str, Any] | None = None,
    **variables: Any,
) -> dict[str, Any]:
    facts: dict[str, Any] = {} if node is None else {"trueup_node": node}
    if look is not None:
        facts["trueup_slurm"] = {**LOOK, "hostname": name, **look}
    return {"ansible_facts": facts, **variables}


def cluster(
    parts: dict[str, list[str]], hostvars: dict[str, Any], **settings: Any
) -> dict[str, Any]:
    given = {part: parts.get(part, []) for part in PARTS}
    return asdict(cluster_of(given, replace(asked("slurm", {}, **settings), hostvars=hostvars)))


def plan(hosts: dict[str, dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """Of a head and the compute hosts given."""
    variables = {"head": host("head", HB, {}), **hosts}
    parts = {"controller": ["head"], "accounting": ["head"], "compute": list(hosts)}
    return cluster(parts, variables, **settings)


def test_nodes_that_are_alike_stand_in_one_line() -> None:
    made = plan({f"hb-{n}": host(f"hb-{n}", HB, {}) for n in (1, 2, 3)})
    memory = 448 * 1024 - 448 * 1024 * 2 // 100
    assert made["node_lines"] == [
        (
            "NodeName=hb-[1-3] Sockets=2 CoresPerSocket=60 ThreadsPerCore=1"
            f" RealMemory={memory} Feature=hbv3,Standard_HB120rs_v3,7v73x State=UNKNOWN"
        )
    ]
    share = memory // 120
    assert made["partition_lines"] == [
        f"PartitionName=hbv3 Nodes=hb-[1-3] DefMemPerCPU={share} MaxTime=INFINITE State=UP",
        (
            f"PartitionName=all Nodes=hb-[1-3] Default=YES DefMemPerCPU={share} MaxTime=INFINITE"
            " State=UP"
        ),
    ]
    assert (made["problems"], made["notes"], made["topology_lines"], made["gres_lines"]) == (
        [],
        [],
        [],
        [],
    )


def test_gpus_are_detected_where_slurm_can_and_plain_where_the_size_is_not_known() -> None:
    made = plan(
        {
            "a": host("a", ND, {"nvml": True}),
            "b": host("b", {**ND, "vm_size": None, "catalog": None}, {}),
        }
    )
    assert made["gres_lines"] == [
        "NodeName=a AutoDetect=nvml",
        "NodeName=b Name=gpu Type=a100 File=/dev/nvidia[0-7]",
    ]


@parametrized(("cpus", "cores", "sockets", "text"))
def test_cpus_are_divided_only_where_that_comes_out_even(
    cpus: int, cores: int | None, sockets: int | None, text: str
) -> None:
    node = {**HB, "cpus": cpus, "cores": cores, "sockets": sockets}
    assert f"NodeName=a {text} RealMemory" in plan({"a": host("a", node, {})})["node_lines"][0]


def test_placement_groups_are_leaves_of_a_tree() -> None:
    made = plan(
        {
            "a": host("a", HB, {}, slurm_placement_group="x"),
            "b": host("b", HB, {}, slurm_placement_group="y"),
            "c": host("c", HB, {}),
        }
    )
    assert made["topology_lines"] == [
        "SwitchName=elsewhere Nodes=c",
        "SwitchName=pg-x Nodes=a",
        "SwitchName=pg-y Nodes=b",
        "SwitchName=root Switches=elsewhere,pg-x,pg-y",
    ]
    assert ",x State" in made["node_lines"][0]


def test_a_given_tree_has_each_node_once() -> None:
    hosts = {"a": host("a", HB, {}), "b": host("b", HB, {})}
    tree = [{"switch": "s1", "hosts": ["a"]}, {"switch": "s2", "hosts": ["a", "z"]}]
    assert plan(hosts, topology=tree)["problems"] == [
        "slurm_topology: s2 has z, not of the group slurm_compute",
        "slurm_topology: b hangs on no switch(es); give it one",
    ]
    tree = [{"switch": "s1", "hosts": ["a", "b"]}, {"switch": "top", "switches": ["s1"]}]
    made = plan(hosts, topology=tree)
    assert (made["topology_lines"], made["problems"]) == (
        ["SwitchName=s1 Nodes=a,b", "SwitchName=top Switches=s1"],
        [],
    )


def test_partitions_of_ones_own() -> None:
    hosts = {"a": host("a", HB, {}), "b": host("b", ND, {})}
    given = [
        {"name": "gpu", "families": ["ndv4"], "options": {"MaxTime": "1-0"}},
        {"name": "none", "families": ["hx"]},
        {"name": "one", "hosts": ["a", "z"], "default": True},
    ]
    made = plan(hosts, partitions=given, select="CR_Core")
    assert made["partition_lines"] == [
        "PartitionName=gpu Nodes=b MaxTime=1-0 State=UP",
        "PartitionName=one Nodes=a Default=YES MaxTime=INFINITE State=UP",
    ]
    assert made["problems"] == [
        "slurm_partitions: none has no nodes",
        "slurm_partitions: one has z, not of the group slurm_compute",
    ]


def chosen(made: dict[str, Any]) -> tuple[str, ...]:
    block = settings_of(asked("slurm", {}).options, Cluster(**made))[1]
    names = ("ProctrackType", "TaskPlugin", "JobAcctGatherType", "MpiDefault")
    return tuple(block[name] for name in names)


def test_all_hosts_together_decide_what_is_used() -> None:
    both = {"a": host("a", HB, {}), "b": host("b", HB, {"cgroup": "v1"})}
    made = plan(both)
    assert chosen(made) == (
        "proctrack/cgroup",
        "task/cgroup,task/affinity",
        "jobacct_gather/cgroup",
        "pmix",
    )
    assert made["cgroup"] == {"a": "v2", "b": "v1"}
    hybrid = {"cgroup": "none", "cgroup_why": "two versions", "plugins": [], "may_bind": False}
    both["b"] = host("b", HB, hybrid)
    made = plan(both)
    assert chosen(made) == ("proctrack/linuxproc", "task/none", "jobacct_gather/linux", "none")
    assert made["notes"] == [
        (
            "no cgroups for jobs, because of b (two versions): processes are tracked by"
            " proctrack/linuxproc, and memory is not enforced"
        ),
        "jobs are not bound to CPUs: slurmd on b lacks the capability SYS_NICE",
        "MpiDefault is none: no plugin mpi_pmix on b",
    ]


def test_a_slurm_without_the_plugin_of_the_hosts_version_uses_none() -> None:
    made = plan({"a": host("a", HB, {"plugins": ["cgroup_v1", "mpi_pmix"]})})
    assert chosen(made)[0] == "proctrack/linuxproc"
    assert "its Slurm has no plugin cgroup/v2" in made["notes"][0]


def test_what_is_no_cluster_is_named() -> None:
    variables = {
        "a": host("a", HB, {}),
        "b": host("b", None),
        "c d": host("c", HB, {}),
        "e": host("e", {**HB, "memory_bytes": GIB}, {}, slurm_node_name="a"),
    }
    parts = {"controller": ["a", "b"], "accounting": ["a", "b"], "compute": ["a", "b", "c d", "e"]}
    assert cluster(parts, variables)["problems"] == [
        "the group slurm_controller has 2 hosts: a, b; give it one",
        "the group slurm_accounting has 2 hosts: a, b; give it one, or none",
        (
            "c d: 'c d' cannot be the name of a Slurm node; set slurm_node_name to letters, digits,"
            " dots, dashes and underscores"
        ),
        "e and a are both called a: set slurm_node_name",
        (
            "b is in slurm_compute and has never said what it is: run identify over it once"
            " (ansible-playbook playbooks/identify.yml)"
        ),
        "e has 1024 MiB of memory, and the system keeps 1024: it cannot be a node of the cluster",
    ]
    empty = cluster({"controller": ["a"]}, variables)["problems"]
    assert empty == ["the group slurm_compute is empty: a cluster needs nodes to run jobs"]


def unfold(text: str) -> list[str]:
    """As Slurm reads it."""
    found = []
    for prefix, inside, plain in re.findall(r"([a-z.-]*)\[([0-9,-]+)\]|([^,\[\]]+)", text):
        if plain:
            found.append(plain)
        for run in inside.split(",") if inside else []:
            first, _, last = run.partition("-")
            width = len(first) if first.startswith("0") and len(first) > 1 else 0
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{prefix}{number:0{width}d}" for number in numbers]
    return found


@given(st.lists(st.from_regex(r"[a-z]{1,2}[0-9]{0,3}", fullmatch=True), unique=True))
def test_folding_loses_no_name(names: list[str]) -> None:
    assert sorted(unfold(hostlist(names))) == sorted(names)


@parametrized(("name", "word"))
def test_gpu_types(name: str | None, word: str) -> None:
    assert gpu_type(name) == word


# The members that are read, in the form of Slurm 22.05's `scontrol --oneliner show nodes`.
SHOWN = (
    "NodeName=a Arch=x86_64 CoresPerSocket=2  State=IDLE ThreadsPerCore=1 TmpDisk=0 \n"
    "NodeName=b Arch=x86_64  State=DOWN*+NOT_RESPONDING ThreadsPerCore=1"
    " Reason=Not responding [slurm@2026-11-21T10:00:00]\n"
    "NodeName=c State=IDLE+DRAIN+INVALID_REG ThreadsPerCore=1  Reason=Low RealMemory"
    " (reported:100 < 100.00% of configured:200) [slurm@2026-11-21T10:00:00]\n"
    "NodeName=d State=IDLE+DRAIN ThreadsPerCore=1 Reason=maintenance [root@2026-11-21T10:00:00]\n"
    "NodeName=e State=MIXED-  ThreadsPerCore=1\n"
)


def test_nodes_that_take_no_jobs_are_named_with_the_reason() -> None:
    assert slurm_down(SHOWN, ["a", "b", "c", "d", "e", "f"]) == [
        "node f is not known to slurmctld: restart slurmctld",
        (
            "node b is DOWN*+NOT_RESPONDING, reason: Not responding [slurm@2026-11-21T10:00:00]:"
            " see `systemctl status slurmd munge` and /var/log/slurm/slurmd.log on b"
        ),
        (
            "node c is IDLE+DRAIN+INVALID_REG, reason: Low RealMemory (reported:100 < 100.00% of"
            " configured:200) [slurm@2026-11-21T10:00:00]: it has less than slurm.conf says"
            " (compare `slurmd -C` on it); mend that and `scontrol update nodename=c state=resume`"
        ),
    ]


def test_silence_of_the_controller_is_no_yes() -> None:
    assert slurm_down("", ["a"]) == ["node a is not known to slurmctld: restart slurmctld"]
