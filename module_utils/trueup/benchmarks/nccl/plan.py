"""The role nccl, planned: what a node is given of NCCL, and the collectives that are measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping

from ...node.gpu_places import gpu_places
from ...node.nccl_setup import Setup
from ...node.system import catalog_of
from ...options import for_module
from ...plan import Asked, Now, Plan, Settled, Skipped, files_look, packages_look
from ...run import nodes as together
from ...run.launcher import pmix
from . import case as nccl


def asks(asked: Asked) -> Dict[str, Any]:
    """What the node is asked for: its libraries, builds and topology file."""
    setup = Setup.of(asked)
    files = {
        f"{what}_{name}": getattr(shipped, name)
        for what, shipped in setup.shipped().items()
        for name in ("file", "link")
    }
    return {"nccl_facts": {"builds": setup.builds(), **files}}


def plan(asked: Asked) -> Plan:
    """A case for each collective and number of nodes. ``asked.found`` is what nccl_facts says.

    Values: ``kept`` (the image's NCCL is used), ``repository`` and ``packages``, what is
    ``to_build``, ``files`` as config_files takes them, and what is ``wrong``. ``topology`` is what
    run.json keeps, and ``warnings`` what Ansible prints.
    """
    setup = Setup.of(asked)
    unlike = together.unlike(asked.options["nodes"], asked.hostvars)
    refused = [
        *setup.refused(asked.found),
        *([f"nccl_nodes: {unlike}."] if unlike else []),
        *_refused_counts(asked.options),
    ]
    if refused:
        return Plan(refused=refused)
    values: Dict[str, Any] = {
        "kept": setup.kept,
        "repository": setup.repository(),
        "packages": asked.options["packages"][asked.node["package_manager"]],
        "topology": setup.chosen(asked.found),
        "warnings": setup.warnings(asked.found),
        "to_build": setup.to_build(asked.found),
        "files": setup.files(asked.found),
        "wrong": setup.wrong(asked.found),
    }
    return Plan(values=values, skipped=_skipped(asked), cases=_cases(asked, setup))


def settled(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Settled:
    """Whether NCCL is installed, built and told what it is to be told."""
    installed = packages_look(
        variables["trueup_node"],
        planned["packages"],
        repository=planned["repository"],
        downgrade_allowed=False,
        replace_held=False,
    )
    return Settled(
        [*([] if planned["kept"] else [installed]), files_look(planned["files"])],
        owed=bool(planned["to_build"] or planned["wrong"]),
        stats={"trueup_nccl_topology": planned["topology"]},
    )


def completed(case: Mapping[str, Any], now: Now) -> Dict[str, Any]:
    """The case with those of its nodes that the play has lost or left out meanwhile."""
    return {**case, "absent": together.absent(case["nodes"], now.hosts, now.hostvars)}


def _gpus(asked: Asked) -> int:
    """GPUs used on each node."""
    return asked.options["gpus_per_node"] or _attached(asked)


def _attached(asked: Asked) -> int:
    in_catalog: int = catalog_of(asked.node).get("gpus") or 0
    return len(asked.node["gpus"] or []) or in_catalog


def _masks(asked: Asked) -> List[str]:
    """The CPUs of each rank of a node: those beside its GPU, where the catalog has a layout."""
    size, layouts = asked.node["vm_size"], asked.catalog("topologies.yml")
    masks = [place.mask for place in gpu_places(size, _attached(asked), layouts)]
    return masks[: _gpus(asked)]


def _skipped(asked: Asked) -> List[Skipped]:
    """The benchmark only: what a node's family gets of NCCL is configured all the same."""
    measured = [name for key in ("plan", "health_plan") for name in _planned(asked, key)]
    nodes, gpus = asked.options["nodes"], _gpus(asked)
    why = ""
    if gpus == 0:
        why = "no GPU on this node"
    elif gpus == 1 and len(nodes) < 2:
        why = "one GPU has nobody to talk to; nccl_nodes can name several nodes"
    elif nodes and asked.host != nodes[0]:
        why = f"measured from {nodes[0]}, the first of nccl_nodes"
    return [Skipped("nccl", why)] if why and "nccl" in measured else []


def _planned(asked: Asked, key: str) -> List[str]:
    names: List[str] = asked.variables.get(f"trueup_{key}", [])
    return names


def _refused_counts(options: Mapping[str, Any]) -> List[str]:
    counts, most = options["node_counts"], len(options["nodes"])
    if all(1 <= count <= most for count in counts) and len(set(counts)) == len(counts):
        return []
    text = ", ".join(map(str, counts))
    return [
        f"nccl_node_counts is {text}, nccl_nodes names {most}: give each number once, up to it."
    ]


def _cases(asked: Asked, setup: Setup) -> List[Dict[str, Any]]:
    counts = asked.options["node_counts"]
    on_each = [_on_first(asked, count) for count in counts] or [asked]
    return [case for on_some in on_each for case in _cases_of(on_some, setup)]


def _on_first(asked: Asked, count: int) -> Asked:
    """The question for the first nodes alone; one node needs no name."""
    nodes = asked.options["nodes"][:count] if count > 1 else []
    return replace(asked, options={**asked.options, "nodes": nodes})


def _cases_of(asked: Asked, setup: Setup) -> List[Dict[str, Any]]:
    options = asked.options
    launcher = options["launcher"]
    transports = _transports(asked, setup)
    by_size = options["transport_expected"] == "by_size"
    cases = [
        {
            **for_module(nccl.OPTIONS, options),
            "operation": operation,
            "gpus_per_node": _gpus(asked),
            "gpu_masks": _masks(asked) if launcher != "local" else [],
            "nodes": options["nodes"],
            "hosts": together.hosts(options["nodes"], asked.hostvars),
            "launcher": launcher,
            "launcher_arguments": pmix(launcher, options["launcher_arguments"], asked.node),
            "job_directory": options["job_directory"] or None,
            "job_options": options["job_options"],
            "variables": setup.variables(
                "multi_node" if _several(asked) else "single_node", "collective_test"
            ),
            "transports": transports,
            "gpudirect": by_size and "ib" in transports,
        }
        for operation in options["operations"]
    ]
    return cases + ([_over_ib(cases[0])] if cases and _is_looped(asked, setup) else [])


# NVLink and the host's memory off, the adapters whatever their distance: AzNHC's
# azure_nccl_allreduce_ib_loopback.nhc.
_LOOPBACK = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_GDR_LEVEL": "5"}
# The sizes that have floors are 4 GiB and more; at 18 GB/s three of them take over a minute.
_LOOPBACK_FROM = 4 * 1024**3


def _is_looped(asked: Asked, setup: Setup) -> bool:
    """Whether one node's GPUs are also measured over its adapters alone."""
    by_size = setup.layout is not None and setup.layout.ib_loopback
    chosen = {"by_size": by_size, "always": True, "never": False}[asked.options["ib_loopback"]]
    return chosen and setup.rdma and not _several(asked) and _gpus(asked) > 1


def _over_ib(case: Mapping[str, Any]) -> Dict[str, Any]:
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


def _transports(asked: Asked, setup: Setup) -> List[str]:
    """What NCCL's log must show."""
    expected = asked.options["transport_expected"]
    if expected != "by_size":
        return [] if expected == "any" else [expected]
    switched = catalog_of(asked.node).get("gpu_fabric") == "nvswitch"
    found = ["nvlink"] if switched and _gpus(asked) > 1 else []
    return [*found, *(["ib"] if setup.rdma and _several(asked) else [])]


def _several(asked: Asked) -> bool:
    return len(asked.options["nodes"]) > 1
