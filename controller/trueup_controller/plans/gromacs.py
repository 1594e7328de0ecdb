"""The role gromacs, planned: where the program comes from, and the layouts that are measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trueup_node.benchmarks.gromacs import case as gromacs
from trueup_node.node import transactions
from trueup_node.node.gpu_places import gpu_places, in_core_order
from trueup_node.options import ROLE, for_module, row_refusals
from trueup_node.plan import Plan, PlanInputs, Skipped

from ..sites import eessi

_MOUNT = "/cvmfs/software.eessi.io/versions"
# Debian's and Ubuntu's.
_PACKAGE = "gromacs"
_ENROOT_IMAGE = ".sqsh"
_DEFAULTS = {option.name: option.default for option in gromacs.OPTIONS if option.of != ROLE}


def programs(inputs: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts. EESSI's module is loaded; an
    image is only looked for, and its sum compared before each run."""
    options = inputs.options
    if options["source"] == "container":
        return {"programs": [_runtime(options)], "files": [options["container_image"]]}
    arguments: dict[str, Any] = {"programs": [options["program"]]}
    if options["source"] == "eessi":
        arguments["module"] = {"init": _init(inputs), "name": _module(inputs)}
    return arguments


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """The cost to the node of installing the distribution's package: it needs an MPI library, which
    not every image's own UCX and MPI can stand beside."""
    return transactions.question(inputs.node, [_PACKAGE]) if _may_install(inputs) else {}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each layout.

    Values: ``install_package``, ``files`` as config_files takes them, and ``downloads``.

    Raises:
        BadInput: options that do not go together.
    """
    options = inputs.options
    refused = _refused_of_eessi(inputs) if options["source"] == "eessi" else []
    layouts = options["layouts"] or _layouts(inputs)
    url = options["tpr_url"]
    if url and not re.fullmatch(r"(https?|file)://.*[^/]\.(tpr|zip)", url):
        refused.append(f"gromacs_tpr_url is {url}: give the address of a .tpr, or a .zip with one")
    if 0 < options["water_box"] < gromacs.LEAST_BOX_NM:
        refused.append(
            f"gromacs_water_box is {options['water_box']:g}: it must be 0, or"
            f" {gromacs.LEAST_BOX_NM:g} to 60"
        )
    refused += row_refusals(
        gromacs.OPTIONS, layouts, "gromacs_layouts", ("ranks", "threads_per_rank"), ("pme_ranks",)
    )
    if refused:
        return Plan(refused=refused)
    cases = [_case(inputs, layout) for layout in layouts]
    for case in cases:
        gromacs.settings({**_DEFAULTS, **case})
    lacking = _lacking(inputs)
    return Plan(
        values={
            "install_package": _installs(inputs),
            "files": [inputs.program("roles/gromacs/files/gromacs_driver.py")],
            "downloads": _downloads(options),
        },
        skipped=[Skipped("gromacs", lacking)] if lacking else [],
        cases=cases,
    )


def _case(inputs: PlanInputs, layout: Mapping[str, int]) -> dict[str, Any]:
    case = {**for_module(gromacs.OPTIONS, inputs.options), "tpr": _input(inputs.options)}
    case.update(water_box=_water_box(inputs), container_runtime=_runtime(inputs.options))
    environment: dict[str, str] = {}
    if inputs.options["source"] == "eessi":
        case.update(eessi_init=_init(inputs), eessi_module=_module(inputs))
        if inputs.node.get("has_rdma"):
            environment = eessi.told_on_infiniband(inputs.catalog("eessi.yml"), _version(inputs))
    if not _unused(inputs):
        size, topologies = inputs.node.get("vm_size"), inputs.catalog("topologies.yml")
        # mdrun pins rank after rank to core after core, and gives them GPUs in CUDA's order.
        environment = {**environment, **in_core_order(gpu_places(size, _gpus(inputs), topologies))}
    return {**case, "environment": {**environment, **inputs.options["environment"]}, **layout}


def _layouts(inputs: PlanInputs) -> list[dict[str, int]]:
    node, options = inputs.node, inputs.options
    return gromacs.layouts(
        node.get("cores") or 1,
        numa=len(node.get("numa") or []),
        l3_groups=len(node.get("l3_groups") or []),
        gpus=0 if _unused(inputs) else _gpus(inputs),
        pme=options["pme"],
        water_box=0.0 if _input(options) else _water_box(inputs),
    )


def _water_box(inputs: PlanInputs) -> float:
    """Edge in nm of the box that is built: the asked one, else one that fills the node."""
    gpus = 0 if _unused(inputs) else _gpus(inputs)
    edge: float = inputs.options["water_box"]
    return edge or gromacs.filling(inputs.node.get("cores") or 1, gpus)


def _input(options: Mapping[str, Any]) -> str:
    """The input file on the node; empty for water."""
    if options["tpr"] or not options["tpr_url"]:
        return str(options["tpr"])
    return f"{options['prefix']}/{options['tpr_url'].rstrip('/').rpartition('/')[2]}"


def _downloads(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """The input as get_url takes it, where it has an address."""
    if not options["tpr_url"]:
        return []
    sha256 = f"sha256:{options['tpr_sha256'].lower()}"
    return [{"url": options["tpr_url"], "dest": _input(options), "checksum": sha256}]


def _unused(inputs: PlanInputs) -> bool:
    """Whether GPUs are left alone, as the distribution's build does whatever the node has."""
    options = inputs.options
    return bool(options["nb"] == "cpu" or (options["source"], options["nb"]) == ("system", "auto"))


def _gpus(inputs: PlanInputs) -> int:
    return len(inputs.node.get("gpus") or [])


def _runtime(options: Mapping[str, Any]) -> str:
    """What runs the container image."""
    return "enroot" if options["container_image"].endswith(_ENROOT_IMAGE) else "apptainer"


def _version(inputs: PlanInputs) -> str:
    """EESSI's version, which the role eessi mounts."""
    catalog = inputs.catalog("eessi.yml")
    return str(inputs.variables.get("eessi_version", eessi.default_version(catalog)))


def _init(inputs: PlanInputs) -> str:
    """EESSI's file to source."""
    return f"{_MOUNT}/{_version(inputs)}/init/lmod/bash"


def _module(inputs: PlanInputs) -> str:
    """EESSI's module; empty where none is named and the catalog knows none."""
    if inputs.options["eessi_module"]:
        return str(inputs.options["eessi_module"])
    modules = eessi.gromacs_modules(inputs.catalog("eessi.yml"), _version(inputs), inputs.node)
    return modules[0] if modules else ""


def _refused_of_eessi(inputs: PlanInputs) -> list[str]:
    """Where there is no module."""
    if _module(inputs):
        return []
    unknown = f"of EESSI {_version(inputs)} catalog/eessi.yml knows no module for this node"
    return [f"{unknown}: set gromacs_eessi_module"]


def _found(inputs: PlanInputs) -> str | None:
    options = inputs.options
    if options["source"] != "container":
        path: str | None = inputs.found["programs"][options["program"]]
        return path
    has_files = all(inputs.found["files"].values())
    runtime: str | None = inputs.found["programs"][_runtime(options)]
    return runtime if has_files else None


def _may_install(inputs: PlanInputs) -> bool:
    """Whether the role may install the distribution's package, which has ``gmx``."""
    options, node = inputs.options, inputs.node
    packaged = options["program"] == "gmx" and node.get("package_manager") == "apt"
    return bool(packaged and options["source"] == "system" and node.get("privilege") is not None)


def _installs(inputs: PlanInputs) -> bool:
    """Whether the role installs it."""
    return _found(inputs) is None and _may_install(inputs) and not transactions.cost(inputs.found)


def _lacking(inputs: PlanInputs) -> str:
    options = inputs.options
    program = options["program"]
    if _found(inputs) is not None:
        return ""
    if options["source"] == "eessi":
        # It is not there yet in the preflight of the run that mounts it.
        if "eessi" in inputs.variables.get("trueup_cluster_roles", []):
            return ""
        return (
            f"the module {_module(inputs)} cannot be loaded from {_init(inputs)}: give the node the"
            " role eessi"
        )
    if options["source"] == "container":
        return f"{_runtime(options)} or {options['container_image']} is not on this node"
    if program != "gmx" or inputs.node.get("package_manager") != "apt":
        return (
            f"no {program} on this node, and no package of its distribution that has it: set"
            " gromacs_program to one, such as EESSI's or a build of yours"
        )
    if not _may_install(inputs):
        return "no gmx on this node, and installing it needs root or sudo without a password"
    lost = transactions.cost(inputs.found)
    if not lost:
        return ""
    return (
        f"no gmx on this node, and the distribution's package would remove or downgrade {lost}: set"
        " gromacs_source to eessi (the role eessi mounts its builds) or container, or"
        " gromacs_program to a build against the node's own MPI"
    )
