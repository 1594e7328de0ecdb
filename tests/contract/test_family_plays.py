"""What a node of each family gets: the lists in group_vars, the catalog, docs, and the play that
configures all of them side by side."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import forked
import plays
import pytest
import yaml
from helpers import ROLES, role_files
from machines import root_of, topology_of
from trueup_controller.family import family_lists, lost_roles
from trueup_controller.sizes import read_sizes
from trueup_node.node.identify import Observed, describe, identify, read_gpus, read_infiniband
from trueup_node.node.metadata import Metadata

ROOT = Path(__file__).parents[2]
GROUP_VARS = ROOT / "playbooks" / "group_vars"
# The catalog has them for prices; their nodes get no roles, which preflight says.
WITHOUT_LIST = {
    *("general", "nd_gb200_v6", "nd_gb300_v6", "nd_is_h100_v5", "nd_is_h200_v5", "nd_mi300x_v5"),
    *("nc_rtxpro6000_v6", "nc_t4_v3", "ncv3", "ndv2", "nv_v710_v5"),
}
# The lists of nodes without a family of their own.
UNLISTED = {"unlisted", "unlisted_gpu"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


DATA: dict[str, Any] = read(GROUP_VARS / "all.yml")
LISTS: list[dict[str, Any]] = DATA["trueup_families"]
CONFIGURED = sorted({name for lists in LISTS for name in lists["families"]} - UNLISTED)


def families() -> set[str]:
    with (ROOT / "catalog" / "vm_sizes.csv").open(encoding="utf-8", newline="") as stream:
        return {row["family"] for row in csv.DictReader(stream)}


def roles_of(family: str) -> list[str]:
    roles: list[str] = family_lists(LISTS, [family], has_gpu=False)["roles"]
    return roles


def test_the_families_of_the_catalog_without_a_list() -> None:
    assert families() - set(CONFIGURED) == WITHOUT_LIST
    assert set(CONFIGURED) - families() == set()


@pytest.mark.parametrize("family", CONFIGURED)
def test_its_roles_are_there_and_have_a_preflight(family: str) -> None:
    roles = roles_of(family)
    assert roles[0] == "hpc_limits"
    assert set(roles) - set(role_files("tasks/preflight.yml")) == set()


def test_what_is_measured_by_default_is_a_benchmark_and_on_gpus_one_of_gpus() -> None:
    sizes = read_sizes(str(ROOT / "catalog" / "vm_sizes.csv")).values()
    with_gpus = {size["family"] for size in sizes if size.get("gpus")}
    for lists in LISTS:
        if lists.get("system") == "windows":
            continue
        assert set(lists["benchmarks"]) - set(role_files("tasks/benchmark.yml")) == set()
        on_gpus = bool(with_gpus & set(lists["families"])) or "unlisted_gpu" in lists["families"]
        assert ("gpu_copy" in lists["benchmarks"]) is on_gpus
        assert ("devito" in lists["benchmarks"]) is not on_gpus


def test_what_roles_need_are_roles() -> None:
    needs = DATA["trueup_needs"]
    named = {*needs, *(role for roles in needs.values() for role in roles)}
    assert named - set(ROLES) == set()
    assert lost_roles(needs, ["gpu_driver"]).keys() >= {
        *("gpu_clocks", "nccl", "gpu_copy", "gemm", "dcgm")
    }


def test_group_vars_are_for_families_and_set_what_their_roles_have() -> None:
    strangers = []
    for path in sorted(GROUP_VARS.glob("*.yml")):
        if path.stem in {"all", "windows"}:
            continue
        assert path.stem in CONFIGURED
        prefixes = tuple(f"{role}_" for role in roles_of(path.stem))
        strangers += [
            f"{path.name}: {name}" for name in read(path) if not name.startswith(prefixes)
        ]
    assert strangers == []


def test_the_plays_of_a_cluster_are_the_data() -> None:
    plays = {
        role: play["hosts"].split(":")
        for play in read(ROOT / "playbooks" / "cluster.yml")
        # The first imports identify.yml.
        for role in play.get("roles", [])
    }
    assert plays == DATA["trueup_cluster"]


@pytest.mark.parametrize(("page", "system"), [("configure", "linux"), ("windows", "windows")])
def test_the_documented_table_is_the_data(page: str, system: str) -> None:
    """The page has a row a list: `| families | roles in order | benchmarks |`."""
    text = (ROOT / "docs" / "guides" / f"{page}.md").read_text(encoding="utf-8")
    names = r"((?:`[a-z0-9_]+`(?:, )?)+)"
    some = names.replace("+)", "*)")
    rows = re.findall(rf"^\| {names} \| {some} \| {some} \|$", text, re.MULTILINE)
    documented = [[re.findall(r"`(\w+)`", cell) for cell in row] for row in rows]
    assert documented == [
        [lists["families"], lists["roles"], lists["benchmarks"]]
        for lists in LISTS
        if not UNLISTED & set(lists["families"]) and lists.get("system", "linux") == system
    ]


# ---- the play -----------------------------------------------------------------------------------

# Stand-ins for roles write into a log on the controller: no module runs. A node's `broken` roles
# fail. The slow node waits in its first role until another family's node is done: families one
# after the other, or nodes in step, would never come to that.
LOG = """#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
    become) echo "become $2" >> log; until [ "$1" = /bin/sh ]; do shift; done; exec "$@" ;;
    wait) shift; for _ in $(seq 600); do grep -qx "$*" log && exit; sleep 0.2; done; exit 1 ;;
    *) echo "$@" >> log ;;
esac
"""
LOGGED = (
    "{{{{ lookup('ansible.builtin.pipe', logs ~ ' {what} ' ~ inventory_hostname ~ ' {role}') }}}}"
)
ROLE = """
- name: Record role
  ansible.builtin.set_fact:
    __logged: "{logged}"
- name: Wait
  ansible.builtin.set_fact:
    __waited: "{{{{ lookup('ansible.builtin.pipe', logs ~ ' wait ' ~ waits_for) }}}}"
  when: waits_for is defined and '{role}' == 'hpc_limits'
- name: Change something
  ansible.builtin.command: {{argv: ["true"]}}
  changed_when: true
  notify: Handle {role}
  when: trueup_node.privilege == 'sudo' and '{role}' in ['hpc_limits', 'stream']
- name: Break
  ansible.builtin.fail: {{msg: it broke}}
  when: "'{role}' in broken | default([])"
"""
HANDLER = """
- name: Handle {role}
  ansible.builtin.command: {{argv: ["true"]}}
  changed_when: true
"""
ENTRY = """
- name: Record
  ansible.builtin.set_fact:
    __logged: "{logged}"
"""
PLAYS = """
- name: Preflight
  ansible.builtin.import_playbook: {root}/playbooks/preflight.yml
- name: Configure
  ansible.builtin.import_playbook: {root}/playbooks/configure.yml
  vars: {{trueup_failures_later: true}}
- name: Look at all of them
  hosts: all
  gather_facts: false
  tasks:
    - name: Record looked
      ansible.builtin.set_fact:
        __logged: "{logged}"
- name: Benchmark
  ansible.builtin.import_playbook: {root}/playbooks/benchmark.yml
"""
# Node: the machine and size that it is, and what is wrong with it.
NODES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "hb-slow": (
        "hb120rs_v3",
        "Standard_HB120rs_v3",
        {"waits_for": "configure nd-well nccl", "privilege": "sudo"},
    ),
    "nd-well": ("nd96asr_v4", "Standard_ND96asr_v4", {}),
    "nd-driver": ("nd96asr_v4", "Standard_ND96asr_v4", {"broken": ["gpu_driver"]}),
    "nv-all": ("nv36ads_a10_v5", "Standard_NV36ads_A10_v5", {"broken": ["gpu_grid"]}),
    "v2-unlisted": ("nd40rs_v2", "Standard_ND40rs_v2", {}),
    "lab-stream": ("lab_2core", None, {"broken": ["stream"]}),
}


def node_of(machine: str, size: str | None) -> dict[str, Any]:
    """The fact ``trueup_node`` of a described machine."""
    sysfs = str(root_of(machine) / "sys")
    identity = identify(
        Metadata("absent"),
        given_size=size,
        catalog=read_sizes(str(ROOT / "catalog" / "vm_sizes.csv")),
        azure_chassis=False,
    )
    shown = Observed(
        topology=topology_of(machine),
        lscpu=None,
        gpus=read_gpus(sysfs),
        infiniband=read_infiniband(sysfs),
        nvme=[],
        memory_bytes=None,
        os_release={"ID": "ubuntu", "VERSION_ID": "24.04"},
        kernel="6.8.0",
        architecture="x86_64",
        privilege="root",
        programs={"gcc": "/usr/bin/gcc"},
    )
    return describe(identity, shown)


@pytest.fixture(scope="module", name="ran")
def _ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, list[str]], Any]:
    """Exit status, what was done on each node ("configure rdma"), and run.json."""
    folder = tmp_path_factory.mktemp("families")
    every = {role for lists in LISTS for role in (*lists["roles"], *lists["benchmarks"])}
    for role in every:
        tasks = folder / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        entries = {"main": ("configure", ROLE), "preflight": ("preflight", ENTRY)}
        for name, (what, text) in {**entries, "benchmark": ("measure", ENTRY)}.items():
            logged = LOGGED.format(what=what, role=role)
            (tasks / f"{name}.yml").write_text(text.format(logged=logged, role=role))
        (tasks.parent / "handlers").mkdir()
        (tasks.parent / "handlers" / "main.yml").write_text(HANDLER.format(role=role))
    hosts = {}
    for name, (machine, size, about) in NODES.items():
        node = {**node_of(machine, size), "privilege": about.get("privilege", "root")}
        hosts[name] = {"trueup_node": node, "ansible_become_exe": f"{folder}/logs become {name}"}
        hosts[name] |= about
    groups = {host["trueup_node"]["family"]: {"hosts": {}} for host in hosts.values()}
    for name, host in hosts.items():
        groups[host["trueup_node"]["family"]]["hosts"][name] = {}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    variables = {**local, "logs": str(folder / "logs")}
    (folder / "logs").write_text(LOG)
    (folder / "logs").chmod(0o755)
    (folder / "hosts.json").write_text(
        json.dumps({"all": {"hosts": hosts, "children": groups, "vars": variables}})
    )
    logged = LOGGED.format(what="look", role="")
    (folder / "plays.yml").write_text(PLAYS.format(root=ROOT, logged=logged))
    done = plays.playbook(
        folder,
        *("--inventory", str(folder / "hosts.json"), str(folder / "plays.yml")),
        env={
            "ANSIBLE_ROLES_PATH": str(folder / "roles"),
            # The tests may run as root.
            "ANSIBLE_BECOME_ALLOW_SAME_USER": "1",
            # A node waits for another.
            forked.ALL_IN_FORKS: "yes",
        },
    )
    print(done.stdout, done.stderr)
    begun: dict[str, list[str]] = {name: [] for name in NODES}
    for line in (folder / "log").read_text().splitlines():
        what, name, role = (*line.split(), "")[:3]
        begun[name].append(f"{what} {role}".strip())
    [manifest] = (folder / "results").glob("*/run.json")
    return done.returncode, begun, json.loads(manifest.read_text())


def of(begun: list[str], what: str) -> list[str]:
    return [line.removeprefix(f"{what} ") for line in begun if line.startswith(f"{what} ")]


def test_each_node_gets_its_list_whatever_becomes_of_the_others(ran: Any) -> None:
    _, begun, _ = ran
    nd, hb = (family_lists(LISTS, [name], has_gpu=False) for name in ("ndv4", "hbv3"))
    assert of(begun["nd-well"], "configure") == [*(*nd["roles"], "gpu_copy", "gemm", "dcgm", "ib")]
    assert sorted(of(begun["nd-well"], "measure")) == sorted(nd["benchmarks"])
    # Its first role ended after another family's last: they were configured side by side.
    assert of(begun["hb-slow"], "configure") == [*hb["roles"], *hb["benchmarks"]]
    # Whose results come first decides which benchmark all that have it measure first.
    assert sorted(of(begun["hb-slow"], "measure")) == sorted(hb["benchmarks"])


def test_a_role_that_fails_takes_what_needs_it_and_no_more(ran: Any) -> None:
    _, begun, _ = ran
    assert of(begun["nd-driver"], "configure") == [
        *("hpc_limits", "nvme_scratch", "rdma", "gpu_driver", "hpcx", "ib")
    ]
    assert of(begun["nd-driver"], "measure") == ["ib"]
    assert of(begun["nv-all"], "configure") == ["hpc_limits", "gpu_grid"]
    assert of(begun["nv-all"], "measure") == []
    assert of(begun["lab-stream"], "configure") == ["stream", "devito"]
    assert of(begun["lab-stream"], "measure") == ["devito"]


def test_roles_of_the_family_become_root_and_benchmarks_do_not(ran: Any) -> None:
    _, begun, _ = ran
    assert {name: lines.count("become") for name, lines in begun.items() if "become" in lines} == {
        "hb-slow": 2
    }


def test_every_node_is_looked_at_afterwards(ran: Any) -> None:
    _, begun, _ = ran
    assert [name for name in NODES if "look" not in begun[name]] == []


def test_a_node_of_a_family_without_a_list_is_measured_on_its_gpus(ran: Any) -> None:
    _, begun, _ = ran
    unlisted = family_lists(LISTS, [], has_gpu=True)["benchmarks"]
    assert of(begun["v2-unlisted"], "configure") == unlisted
    assert sorted(of(begun["v2-unlisted"], "measure")) == sorted(unlisted)


def test_the_run_ends_with_what_failed_by_name(ran: Any) -> None:
    status, _, manifest = ran
    assert status == 2
    assert manifest["failed_in"] == {
        "lab-stream": "stream",
        "nd-driver": "gpu_driver",
        "nv-all": "gpu_grid",
    }
    assert {(item["node"], item["what"], item["why"]) for item in manifest["skipped"]} == {
        ("nd-driver", "gpu_driver", "the role failed"),
        *(("nd-driver", name, "role gpu_driver failed") for name in ("gpu_clocks", "nccl")),
        *(("nd-driver", name, "role gpu_driver failed") for name in ("gpu_copy", "gemm", "dcgm")),
        ("nv-all", "gpu_grid", "the role failed"),
        *(("nv-all", name, "role gpu_grid failed") for name in ("gpu_copy", "gemm")),
        ("lab-stream", "stream", "the role failed"),
        ("v2-unlisted", "configure", "no list of roles for the family ndv2 (trueup_families)"),
    }
