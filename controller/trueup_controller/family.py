"""The roles and benchmarks of a node, by its family, and those that are left out.

The lists themselves are data (playbooks/group_vars/all.yml); groups are those of the inventory, one
of which is the node's family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueup_node.errors import BadInput
from trueup_node.node.gpu_support import nvidia_gpus
from trueup_node.node.identify import LINUX, WINDOWS, is_windows
from trueup_node.node.mpi import lacking, of
from trueup_node.node.packages import verified_only

from trueup_controller.role_folders import role_files

from .desktops import preflight as windows
from .project import FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# The group of nodes that this run has identified (playbooks/identify.yml).
IDENTIFIED = "identified_by_trueup"
# The lists of a node without a family of its own, by whether it has GPUs.
_UNLISTED = {False: "unlisted", True: "unlisted_gpu"}
# The role whose hosts users are signed in to.
_SESSION_HOST = "avd_session_host"
# A machine outside Azure gets no roles, and nobody expects any.
_LOCAL = "local"
# Of a Windows host without a list of its own: the roles of Linux nodes do not run there.
_NOTHING: dict[str, Any] = {"roles": [], "benchmarks": []}
# Of a reason in run.json; the whole output stands in Ansible's.
_REASON_CHARACTERS = 300


def family_lists(
    families: Sequence[Mapping[str, Any]], groups: Collection[str], *, has_gpu: bool
) -> dict[str, Any]:
    """The lists of the families among a node's groups, each name once, in order.

    Args:
        families: objects with ``families`` (names), ``roles`` and ``benchmarks``, and ``system``
            where they are not for Linux.
        groups: the node's groups, ``windows`` among them where it is a Windows host.
        has_gpu: whether the node has GPUs, for one without a list.

    Returns:
        ``roles``, ``benchmarks``, and ``listed``: whether one of the groups has a list.

    Raises:
        BadInput: a family has two lists, or the lists for nodes without one are missing.
    """
    system = WINDOWS if WINDOWS in groups else LINUX
    by_name: dict[str, Mapping[str, Any]] = {}
    for lists in (
        family_list for family_list in families if family_list.get("system", LINUX) == system
    ):
        for name in lists["families"]:
            if name in by_name:
                raise BadInput(f"families: {name} has two lists")
            by_name[name] = lists
    unlisted = _UNLISTED[has_gpu]
    if system == LINUX and unlisted not in by_name:
        raise BadInput(f"families: there is no list {unlisted}")
    mine = [lists for name, lists in by_name.items() if name in groups]
    chosen = mine or [by_name.get(unlisted, _NOTHING)]
    return {
        "roles": _once(role for lists in chosen for role in lists["roles"]),
        "benchmarks": _once(name for lists in chosen for name in lists["benchmarks"]),
        "listed": bool(mine),
    }


def roles_of_groups(roles: Mapping[str, Collection[str]], groups: Collection[str]) -> list[str]:
    """The roles for which the node is in one of the groups, in order."""
    return [role for role, role_groups in roles.items() if set(role_groups) & set(groups)]


def groups_of(
    node: Mapping[str, Any],
    mounts: Sequence[Any],
    groups: Collection[str],
    joined: Sequence[str] = (),
) -> list[str]:
    """The groups that a node joins once it is identified: its family's, that of identified nodes,
    shared_storage where file systems are to be mounted, which Windows hosts do not get, and
    ``joined`` (trueup_join_groups)."""
    shared = bool(mounts) and WINDOWS not in groups
    return [node["family"], IDENTIFIED, *(["shared_storage"] if shared else []), *joined]


def steps(roles: Sequence[str], name: str) -> list[dict[str, str]]:
    """A loop's items for the roles that a node is given, each with the node's name and the file of
    playbooks/tasks that does it. A session host of Azure Virtual Desktop is drained before them,
    and given back after them.

    Ansible puts equal items of several nodes' loops of includes together, in the order in which it
    first meets them, which may be another node's order. No two nodes' items are equal here.
    """
    done = [(role, "configure_role.yml") for role in roles]
    if _SESSION_HOST in roles:
        drain, give_back = ((_SESSION_HOST, f"avd_{step}.yml") for step in ("drain", "give_back"))
        done = [drain, *done, give_back]
    return [{"node": name, "role": role, "tasks": tasks} for role, tasks in done]


def changes_due(plans: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a plan of a role says that the host is to be changed (its value ``changes``)."""
    return any(plan.get("changes") for plan in plans)


def chosen(
    names: Iterable[str], run_tags: Collection[str], skip_tags: Collection[str], *steps: str
) -> list[str]:
    """Those of the roles that the tags of a run mean.

    Args:
        names: roles.
        run_tags: tags of ``--tags``, ``all`` where nothing is given.
        skip_tags: tags of ``--skip-tags``.
        steps: the tags that mean all of the roles here: install, configure, verify, benchmark.
    """
    everything = not {"all", "tagged", "always", *steps}.isdisjoint(run_tags)
    return [name for name in names if (everything or name in run_tags) and name not in skip_tags]


def checked(
    roles: Sequence[str],
    benchmarks: Sequence[str],
    health: Sequence[str],
    run_tags: Collection[str],
    skip_tags: Collection[str],
) -> dict[str, list[str]]:
    """The ``roles`` and ``benchmarks`` whose preflight a run needs: those of the steps and roles
    that its tags mean. A role that is measured too is a benchmark.

    Args:
        roles: of the node's family and of the cluster.
        benchmarks: those to measure.
        health: those of the health check.
        run_tags, skip_tags: as ``chosen`` takes them.
    """
    steps = ("install", "configure", "verify")
    meant = [
        *chosen(benchmarks, run_tags, skip_tags, *steps, "benchmark"),
        *(chosen(health, run_tags, skip_tags, "health") if "health" not in skip_tags else ()),
    ]
    measured = {*benchmarks, *health}
    mine = chosen(roles, run_tags, skip_tags, *steps)
    return {
        "roles": [role for role in mine if role not in measured],
        "benchmarks": _once([*(role for role in mine if role in measured), *meant]),
    }


def benchmark_names(roles: str) -> list[str]:
    """The benchmarks in a folder of roles: those with an entry point of that name."""
    return list(role_files(FOLDER / roles, "tasks/benchmark.yml"))


def benchmark_roles(
    node: Mapping[str, Any], benchmarks: Sequence[str], family_roles: Sequence[str]
) -> list[str]:
    """The roles of benchmarks that the family's roles have not brought, and before them a compiler
    where the node has none."""
    built = bool(benchmarks) and not is_windows(node)
    compiler = ["compiler"] if built and node["programs"]["gcc"] is None else []
    return [*compiler, *(name for name in benchmarks if name not in family_roles)]


def lost_roles(needs: Mapping[str, Sequence[str]], failed: Sequence[str]) -> dict[str, str]:
    """Each role that cannot be had to the failed role that it is or needs, directly or not."""
    lost = {role: role for role in failed}
    has_changed = True
    while has_changed:
        has_changed = False
        for role, needed in needs.items():
            missing = [name for name in needed if name in lost]
            if missing and role not in lost:
                lost[role] = lost[missing[0]]
                has_changed = True
    return lost


def skipped_on_node(lost: Mapping[str, str], names: Iterable[str]) -> list[dict[str, str]]:
    """Those of the names that are lost, each with the reason."""
    return [
        {
            "what": name,
            "why": "the role failed" if lost[name] == name else f"role {lost[name]} failed",
        }
        for name in _once(names)
        if name in lost
    ]


def health_benchmarks(node: Mapping[str, Any]) -> list[str]:
    """The benchmarks of the health check: those with expectations for the node's size, none without
    a size. They do not run on Windows, whose health is the state of its parts."""
    if not node["catalog"] or is_windows(node):
        return []
    gpus, nics = node["gpu_count_expected"] or 0, node["rdma_count_expected"] or 0
    short = _arithmetic(node["catalog"], gpus)
    return [
        *([short] if gpus else []),
        *(["gpu_copy", "nccl"] if gpus > 1 else []),
        *(["ib"] if nics else []),
        *([short] if not gpus else []),
    ]


def short_check(size: Mapping[str, Any] | None) -> list[str]:
    """The benchmark of a size's short check, beside the state of the node's parts.

    Args:
        size: its row of the catalog; None where it has none.
    """
    return [_arithmetic(size, nvidia_gpus(size) or 0)] if size else []


def _arithmetic(size: Mapping[str, Any], gpus: int) -> str:
    if not gpus:
        return "stream"
    # DCGM's diagnostic does not run on virtual GPUs.
    return "gemm" if size.get("family") == "nv_a10_v5" else "dcgm"


def node_problems(
    node: Mapping[str, Any],
    *,
    name: str,
    roles: Sequence[str],
    benchmarks: Sequence[str],
    known_benchmarks: Sequence[str],
    mpi: str = "",
    cluster: Sequence[str] = (),
) -> list[str]:
    """Why the node cannot be configured or measured as planned, a sentence each with the fix.

    Args:
        node: the fact ``trueup_node``.
        name: its name in the inventory.
        roles: the roles that need root.
        benchmarks: those to measure.
        known_benchmarks: all benchmarks.
        mpi: the MPI that the user names (trueup_mpi).
        cluster: those of the roles that its groups bring.
    """
    if is_windows(node):
        return _strange(benchmarks, known_benchmarks) + windows.problems(node, name, roles, cluster)
    problems = []
    # The role hpcx brings that kind, and fails where it is not there in the end.
    coming = "hpcx" in roles and (mpi == "hpcx" or mpi.startswith("/opt/hpcx"))
    if mpi and not coming and of(node) is None:
        problems.append(f"{lacking(node)}.")
    problems += _strange(benchmarks, known_benchmarks)
    if roles and node["privilege"] is None:
        problems.append(
            f"Configuring a node ({', '.join(roles)}) needs root, and {name}, of the family"
            f" {node['family']}, gives neither root nor sudo without a password: connect as such a"
            " user (ansible_user)."
        )
    # Azure's image has all that a role needs: it is compared. Of a bare system nothing would be.
    if roles and verified_only(node) and not node.get("hpc_image"):
        problems.append(
            f"{node['os']}: its packages cannot be managed by this release of Ansible (Python 3.6"
            " of its dnf): use Enterprise Linux 9, or Azure's HPC image."
        )
    return problems


def _strange(benchmarks: Sequence[str], known_benchmarks: Sequence[str]) -> list[str]:
    strange = [benchmark for benchmark in benchmarks if benchmark not in known_benchmarks]
    if not strange:
        return []
    names = f"{', '.join(strange)}: no benchmark of that name"
    return [f"{names}; trueup_benchmarks may hold {', '.join(known_benchmarks)}."]


def not_for_windows(
    families: Sequence[Mapping[str, Any]], benchmarks: Sequence[str]
) -> list[dict[str, str]]:
    """The benchmarks that no family's list of Windows hosts names, each with the reason."""
    of_windows = {
        name for lists in families if lists.get("system") == WINDOWS for name in lists["benchmarks"]
    }
    return [
        {"what": name, "why": "it does not run on Windows"}
        for name in _once(benchmarks)
        if name not in of_windows
    ]


def node_warnings(node: Mapping[str, Any], roles: Sequence[str]) -> list[str]:
    """Warnings for the reader about a node that can be configured."""
    if is_windows(node):
        return windows.warnings(node)
    if not (roles and verified_only(node) and node.get("hpc_image")):
        return []
    text = (
        f"{node['os']}: its packages are compared and none is installed (Python 3.6 of its dnf); a"
        " role that lacks one fails and names it"
    )
    return [text]


def skips(
    plans: Iterable[Mapping[str, Any]], node: Mapping[str, Any], lists: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Items that the plans of roles skip, and the node's family where it has no list."""
    skipped = [item for plan in plans for item in plan.get("skipped_here", [])]
    return [*skipped, *without_list(node, lists)]


def skips_of(plan: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    """Items of a plan that skip all of ``name``, and not a part of it."""
    return [item for item in plan.get("skipped_here", []) if item["what"] == name]


def failed_benchmark(result: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    """A failed benchmark, as an item of the skipped ones, with the first line of the reason.

    Args:
        result: the failed task's result.
    """
    lines = str(result.get("msg") or "").strip().splitlines() or ["its task does not say why"]
    return [{"what": name, "why": f"failed: {lines[0][:_REASON_CHARACTERS]}"}]


def skip_lines(skipped: Iterable[Mapping[str, str]]) -> list[str]:
    """A line for each, for a reader."""
    return [f"skipped: {item['what']}: {item['why']}" for item in skipped]


def without(names: Iterable[str], skipped: Iterable[Mapping[str, str]]) -> list[str]:
    """The names that are not skipped."""
    left_out = {item["what"] for item in skipped}
    return [name for name in names if name not in left_out]


def without_list(node: Mapping[str, Any], lists: Mapping[str, Any]) -> list[dict[str, str]]:
    """The skipped steps of a node whose family has no list; none on a Linux machine outside
    Azure."""
    if lists["listed"] or (node["family"] == _LOCAL and not is_windows(node)):
        return []
    reason = f"no list of roles for the family {node['family']} (trueup_families)"
    return [{"what": "configure", "why": reason}]


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
