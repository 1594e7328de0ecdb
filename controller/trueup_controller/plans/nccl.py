"""The role nccl, planned: a node's NCCL files and settings, and the collectives to measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trueup_node.benchmarks.nccl import case as nccl
from trueup_node.node.gpu_places import gpu_places
from trueup_node.options import for_module
from trueup_node.plan import (
    Convergence,
    Now,
    Plan,
    PlanInputs,
    Skipped,
    files_look,
    packages_look,
)

from .. import launch_nodes as together
from ..system import catalog_of
from .nccl_setup import Setup


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """Queries for the node: its libraries, builds and topology file."""
    setup = Setup.of(inputs)
    files = {
        f"{kind}_{name}": getattr(shipped, name)
        for kind, shipped in setup.shipped().items()
        for name in ("file", "link")
    }
    return {"nccl_facts": {"builds": setup.builds(), **files}}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each collective and number of nodes. ``inputs.found`` is the result of nccl_facts.

    Values: ``kept`` (the image's NCCL is used), ``repository`` and ``packages``, the builds in
    ``to_build``, ``files`` as config_files takes them, and the errors in ``wrong``. run.json keeps
    ``topology``, and Ansible prints ``warnings``.
    """
    setup = Setup.of(inputs)
    unlike = together.unlike(inputs.options["nodes"], inputs.hostvars)
    refused = [
        *setup.refused(),
        *([f"nccl_nodes: {unlike}."] if unlike else []),
        *_refused_counts(inputs.options),
    ]
    if refused:
        return Plan(refused=refused)
    values: dict[str, Any] = {
        "kept": setup.kept,
        "repository": setup.repository(),
        "packages": setup.packages(),
        "topology": setup.chosen(inputs.found),
        "warnings": setup.warnings(inputs.found),
        "to_build": setup.to_build(inputs.found),
        "files": setup.files(inputs.found),
        "wrong": setup.wrong(inputs.found),
        # A skip is of the benchmark alone: the family's NCCL is installed all the same.
        "is_converged": False,
    }
    return Plan(values=values, skipped=_skipped(inputs), cases=_cases(inputs, setup))


def convergence(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Convergence:
    """Whether NCCL is installed, built and configured."""
    installed = packages_look(
        variables["trueup_node"],
        planned["packages"],
        repository=planned["repository"],
        downgrade_allowed=False,
        replace_held=False,
    )
    return Convergence(
        [*([] if planned["kept"] else [installed]), files_look(planned["files"])],
        has_work=bool(planned["to_build"] or planned["wrong"]),
        stats={"trueup_nccl_topology": planned["topology"]},
    )


def completed(case: Mapping[str, Any], now: Now) -> dict[str, Any]:
    """The case with those of its nodes that the play has lost or left out meanwhile."""
    return {**case, "absent": together.absent(case["nodes"], now.hosts, now.hostvars)}


def _gpus(inputs: PlanInputs) -> int:
    """GPUs used on each node."""
    return inputs.options["gpus_per_node"] or _attached(inputs)


def _attached(inputs: PlanInputs) -> int:
    in_catalog: int = catalog_of(inputs.node).get("gpus") or 0
    return len(inputs.node["gpus"] or []) or in_catalog


def _masks(inputs: PlanInputs) -> list[str]:
    """The CPUs of each rank of a node: those beside its GPU, where the catalog has a layout."""
    size, layouts = inputs.node["vm_size"], inputs.catalog("topologies.yml")
    masks = [gpu.mask for gpu in gpu_places(size, _attached(inputs), layouts)]
    return masks[: _gpus(inputs)]


def _skipped(inputs: PlanInputs) -> list[Skipped]:
    """Skips of the benchmark only: a node's family gets its NCCL settings all the same."""
    measured = [name for key in ("plan", "health_plan") for name in _planned(inputs, key)]
    nodes, gpus = inputs.options["nodes"], _gpus(inputs)
    reason = ""
    if gpus == 0:
        reason = "no GPU on this node"
    elif gpus == 1 and len(nodes) < 2:
        reason = "one GPU has nobody to talk to; nccl_nodes can name several nodes"
    elif nodes and inputs.host != nodes[0]:
        reason = f"measured from {nodes[0]}, the first of nccl_nodes"
    return [Skipped("nccl", reason)] if reason and "nccl" in measured else []


def _planned(inputs: PlanInputs, key: str) -> list[str]:
    names: list[str] = inputs.variables.get(f"trueup_{key}", [])
    return names


def _refused_counts(options: Mapping[str, Any]) -> list[str]:
    counts, most = options["node_counts"], len(options["nodes"])
    if all(1 <= count <= most for count in counts) and len(set(counts)) == len(counts):
        return []
    text = ", ".join(map(str, counts))
    return [
        f"nccl_node_counts is {text}, nccl_nodes names {most}: give each number once, up to it."
    ]


def _cases(inputs: PlanInputs, setup: Setup) -> list[dict[str, Any]]:
    counts = inputs.options["node_counts"]
    on_each = [_on_first(inputs, count) for count in counts] or [inputs]
    return [case for on_some in on_each for case in _cases_of(on_some, setup)]


def _on_first(inputs: PlanInputs, count: int) -> PlanInputs:
    """The question for the first nodes alone; one node needs no name."""
    nodes = inputs.options["nodes"][:count] if count > 1 else []
    return replace(inputs, options={**inputs.options, "nodes": nodes})


def _cases_of(inputs: PlanInputs, setup: Setup) -> list[dict[str, Any]]:
    options = inputs.options
    launcher = options["launcher"]
    transports = _transports(inputs, setup)
    by_size = options["transport_expected"] == "by_size"
    cases = [
        {
            **for_module(nccl.OPTIONS, options),
            "operation": operation,
            "gpus_per_node": _gpus(inputs),
            "gpu_masks": _masks(inputs) if launcher != "local" else [],
            "nodes": options["nodes"],
            "hosts": together.hosts(options["nodes"], inputs.hostvars),
            "launcher": launcher,
            "launcher_arguments": together.launcher_arguments(launcher, inputs),
            **together.slurm_job(inputs.variables),
            "variables": setup.variables(
                "multi_node" if _several(inputs) else "single_node", "collective_test"
            ),
            "transports": transports,
            "gpudirect": by_size and "ib" in transports,
        }
        for operation in options["operations"]
    ]
    return cases + ([_over_ib(cases[0])] if cases and _is_looped(inputs, setup) else [])


# NVLink and the host's memory off, the adapters whatever their distance: AzNHC's
# azure_nccl_allreduce_ib_loopback.nhc.
_LOOPBACK = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_GDR_LEVEL": "5"}
# The sizes that have floors are 4 GiB and more; at 18 GB/s three of them take over a minute.
_LOOPBACK_FROM = 4 * 1024**3


def _is_looped(inputs: PlanInputs, setup: Setup) -> bool:
    """Whether one node's GPUs are also measured over its adapters alone."""
    by_size = setup.layout is not None and setup.layout.ib_loopback
    chosen = {"by_size": by_size, "always": True, "never": False}[inputs.options["ib_loopback"]]
    return chosen and setup.rdma and not _several(inputs) and _gpus(inputs) > 1


def _over_ib(case: Mapping[str, Any]) -> dict[str, Any]:
    """A node's all-reduce over its adapters: the case of them all, since each GPU has one."""
    return {
        **case,
        "operation": "all_reduce",
        "loopback": True,
        "bytes_from": min(max(case["bytes_from"], _LOOPBACK_FROM), case["bytes_to"]),
        "variables": {**case["variables"], **_LOOPBACK},
        "transports": ["ib"],
        "gpudirect": True,
    }


def _transports(inputs: PlanInputs, setup: Setup) -> list[str]:
    """The transports that NCCL's log must show."""
    expected = inputs.options["transport_expected"]
    if expected != "by_size":
        return [] if expected == "any" else [expected]
    switched = catalog_of(inputs.node).get("gpu_fabric") == "nvswitch"
    within_node = ["nvlink"] if switched and _gpus(inputs) > 1 else []
    return [*within_node, *(["ib"] if setup.rdma and _several(inputs) else [])]


def _several(inputs: PlanInputs) -> bool:
    return len(inputs.options["nodes"]) > 1
