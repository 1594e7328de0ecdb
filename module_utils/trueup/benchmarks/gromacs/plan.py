"""The role gromacs, planned: where the program comes from, and the layouts that are measured."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from ...node import eessi, transactions
from ...node.gpu_places import gpu_places, in_core_order
from ...options import for_module, row_refusals
from ...plan import Asked, Plan, Skipped, sentences
from . import case as gromacs

_MOUNT = "/cvmfs/software.eessi.io/versions"
# Debian's and Ubuntu's.
_PACKAGE = "gromacs"


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts. EESSI's module is loaded; an
    image is only looked for, and its sum compared before each run."""
    options = asked.options
    if options["source"] == "container":
        return {"programs": [options["container_runtime"]], "files": [options["container_image"]]}
    found: Dict[str, Any] = {"programs": [options["program"]]}
    if options["source"] == "eessi":
        found["module"] = {"init": _init(asked), "name": _module(asked)}
    return found


def asks(asked: Asked) -> Dict[str, Any]:
    """What installing the distribution's package would cost the node: it needs an MPI library,
    which not every image's own UCX and MPI can stand beside."""
    return transactions.question(asked.node, [_PACKAGE]) if _may_install(asked) else {}


def plan(asked: Asked) -> Plan:
    """A case for each layout.

    Values: ``install_package``, ``files`` as config_files takes them, and ``downloads``.

    Raises:
        BadInput: options that do not go together.
    """
    options = asked.options
    refused = _refused_of_eessi(asked) if options["source"] == "eessi" else []
    layouts = options["layouts"] or _layouts(asked)
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
    cases = [_case(asked, layout) for layout in layouts]
    for case in cases:
        gromacs.settings({"pme_ranks": -1, "eessi_init": "", **case})
    lacking = _lacking(asked)
    return Plan(
        values={
            "install_package": _installs(asked),
            "files": [asked.program("roles/gromacs/files/gromacs_driver.py")],
            "downloads": _downloads(options),
        },
        skipped=[Skipped("gromacs", lacking)] if lacking else [],
        cases=cases,
    )


def _case(asked: Asked, layout: Mapping[str, int]) -> Dict[str, Any]:
    case = {**for_module(gromacs.OPTIONS, asked.options), "tpr": _input(asked.options)}
    case["water_box"] = _water_box(asked)
    told: Dict[str, str] = {}
    if asked.options["source"] == "eessi":
        case.update(eessi_init=_init(asked), eessi_module=_module(asked))
        if asked.node.get("has_rdma"):
            told = eessi.told_on_infiniband(asked.catalog("eessi.yml"), _version(asked))
    if not _unused(asked):
        size, topologies = asked.node.get("vm_size"), asked.catalog("topologies.yml")
        # mdrun pins rank after rank to core after core, and gives them GPUs in CUDA's order.
        told = {**told, **in_core_order(gpu_places(size, _gpus(asked), topologies))}
    return {**case, "environment": {**told, **asked.options["environment"]}, **layout}


def _layouts(asked: Asked) -> List[Dict[str, int]]:
    node, options = asked.node, asked.options
    return gromacs.layouts(
        node.get("cores") or 1,
        numa=len(node.get("numa") or []),
        l3_groups=len(node.get("l3_groups") or []),
        gpus=0 if _unused(asked) else _gpus(asked),
        pme=options["pme"],
        water_box=0.0 if _input(options) else _water_box(asked),
    )


def _water_box(asked: Asked) -> float:
    """Edge in nm of the box that is built: the asked one, else one that fills the node."""
    gpus = 0 if _unused(asked) else _gpus(asked)
    edge: float = asked.options["water_box"]
    return edge or gromacs.filling(asked.node.get("cores") or 1, gpus)


def _input(options: Mapping[str, Any]) -> str:
    """The input file on the node; empty for water."""
    if options["tpr"] or not options["tpr_url"]:
        return str(options["tpr"])
    return f"{options['prefix']}/{options['tpr_url'].rstrip('/').rpartition('/')[2]}"


def _downloads(options: Mapping[str, Any]) -> List[Dict[str, str]]:
    """The input as get_url takes it, where it has an address."""
    if not options["tpr_url"]:
        return []
    sha256 = f"sha256:{options['tpr_sha256'].lower()}"
    return [{"url": options["tpr_url"], "dest": _input(options), "checksum": sha256}]


def _unused(asked: Asked) -> bool:
    """Whether GPUs are left alone, as the distribution's build does whatever the node has."""
    options = asked.options
    return bool(options["nb"] == "cpu" or (options["source"], options["nb"]) == ("system", "auto"))


def _gpus(asked: Asked) -> int:
    return len(asked.node.get("gpus") or [])


def _version(asked: Asked) -> str:
    """EESSI's version: asked for, else the one that is mounted."""
    catalog = asked.catalog("eessi.yml")
    given: str = asked.options["eessi_version"]
    return given or str(asked.variables.get("eessi_version", eessi.default_version(catalog)))


def _init(asked: Asked) -> str:
    """EESSI's file to source."""
    return f"{_MOUNT}/{_version(asked)}/init/lmod/bash"


def _module(asked: Asked) -> str:
    """EESSI's module; empty where none is named and the catalog knows none."""
    if asked.options["eessi_module"]:
        return str(asked.options["eessi_module"])
    found = eessi.gromacs_modules(asked.catalog("eessi.yml"), _version(asked), asked.node)
    return found[0] if found else ""


def _refused_of_eessi(asked: Asked) -> List[str]:
    """Where there is no module, or the role eessi links the GPU's libraries for another version."""
    version, versions = _version(asked), asked.catalog("eessi.yml")["versions"]
    mounted = str(asked.variables.get("eessi_version", version))
    links = {versions.get(one, {}).get("gpu_links") for one in (version, mounted)}
    wrong = {
        f"of EESSI {version} catalog/eessi.yml knows no module for this node: set"
        " gromacs_eessi_module": not _module(asked),
        f"gromacs_eessi_version is {version}, and eessi_version {mounted}: the libraries of the GPU"
        f" driver are linked where {mounted} looks for them: leave gromacs_eessi_version empty": (
            len(links) > 1 and _gpus(asked) and not _unused(asked)
        ),
    }
    return sentences(wrong)


def _found(asked: Asked) -> Optional[str]:
    options = asked.options
    if options["source"] != "container":
        path: Optional[str] = asked.found["programs"][options["program"]]
        return path
    there = all(asked.found["files"].values())
    runtime: Optional[str] = asked.found["programs"][options["container_runtime"]]
    return runtime if there else None


def _may_install(asked: Asked) -> bool:
    """Whether the role may install the distribution's package, which has ``gmx``."""
    options, node = asked.options, asked.node
    packaged = options["program"] == "gmx" and node.get("package_manager") == "apt"
    return bool(packaged and options["source"] == "system" and node.get("privilege") is not None)


def _installs(asked: Asked) -> bool:
    """Whether the role installs it."""
    return _found(asked) is None and _may_install(asked) and not transactions.cost(asked.found)


def _lacking(asked: Asked) -> str:
    options = asked.options
    program = options["program"]
    if _found(asked) is not None:
        return ""
    if options["source"] == "eessi":
        # It is not there yet in the preflight of the run that mounts it.
        if "eessi" in asked.variables.get("trueup_cluster_roles", []):
            return ""
        return (
            f"the module {_module(asked)} cannot be loaded from {_init(asked)}: give the node the"
            " role eessi"
        )
    if options["source"] == "container":
        return f"{options['container_runtime']} or {options['container_image']} is not on this node"
    if program != "gmx" or asked.node.get("package_manager") != "apt":
        return (
            f"no {program} on this node, and no package of its distribution that has it: set"
            " gromacs_program to one, such as EESSI's or a build of yours"
        )
    if not _may_install(asked):
        return "no gmx on this node, and installing it needs root or sudo without a password"
    lost = transactions.cost(asked.found)
    if not lost:
        return ""
    return (
        f"no gmx on this node, and the distribution's package would remove or downgrade {lost}: set"
        " gromacs_source to eessi (the role eessi mounts its builds) or container, or"
        " gromacs_program to a build against the node's own MPI"
    )
