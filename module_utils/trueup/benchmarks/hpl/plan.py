"""The role hpl, planned: the program that solves, and a case for each layout."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence

from ...node import mpi, transactions
from ...node.gpu_places import GpuPlace, gpu_places
from ...node.topology import cpu_mask, format_cpu_list
from ...options import for_module
from ...plan import Asked, Plan, Skipped
from .case import HPCC, OPTIONS, require_memory_of_gpus

# Debian's names; its hpcc takes whichever BLAS libblas.so.3 points to, and OpenBLAS's threads are
# ten times as fast as the reference BLAS.
_PACKAGES = ("hpcc", "libopenblas0-pthread")
# mpirun starts several ranks. An HPC image has MPIs of its own, and a marker that excludes this
# package: apt would remove it, and doca-ofed with it.
_MPIRUN = "openmpi-bin"
# hpcc's other tests grow with the order (docs/hpl.md).
_MAX_N_OF_HPCC = 20000
# The script of NVIDIA's container that starts its HPL.
_NVIDIA = "hpl.sh"


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {"programs": [_program(asked)]}


def asks(asked: Asked) -> Dict[str, Any]:
    """What installing hpcc would cost the node: it needs an MPI library, which not every image's
    own UCX and MPI can stand beside."""
    return transactions.question(asked.node, _packages(asked.node)) if _may_install(asked) else {}


def plan(asked: Asked) -> Plan:
    """A case for each layout.

    Raises:
        BadInput: options that do not go together.
    """
    options = asked.options
    require_memory_of_gpus(options["gpus"], options["memory_bytes"])
    own = not options["program"]
    there = asked.found["programs"][_program(asked)] is not None
    installs = _may_install(asked) and not transactions.cost(asked.found)
    lacking = "" if there or installs else _lacking(asked)
    given = {**for_module(OPTIONS, options), "program": _program(asked)}
    if own and not options["n"] and not options["max_n"]:
        given["max_n"] = _MAX_N_OF_HPCC
    places = _places(asked)
    return Plan(
        values={"packages": _packages(asked.node) if installs else []},
        skipped=[Skipped("hpl", lacking)] if lacking else [],
        cases=[
            {**given, **_beside(asked, places, layout), **layout} for layout in options["layouts"]
        ],
    )


def _may_install(asked: Asked) -> bool:
    """Whether the role may install hpcc."""
    node = asked.node
    packaged = not asked.options["program"] and node["package_manager"] == "apt"
    return bool(packaged and node["privilege"] is not None)


def _packages(node: Mapping[str, Any]) -> List[str]:
    found = mpi.of(node)
    has_own = node.get("hpc_image") or (found and found.environment)
    return [*_PACKAGES, *([] if has_own else [_MPIRUN])]


def _places(asked: Asked) -> Sequence[GpuPlace]:
    """Those of the GPUs that are used; none without any, or where the catalog has no layout."""
    used, node = asked.options["gpus"], asked.node
    attached = len(node.get("gpus") or [])
    if not 0 < used <= attached:
        return ()
    return gpu_places(node.get("vm_size"), attached, asked.catalog("topologies.yml"))[:used]


def _beside(
    asked: Asked, places: Sequence[GpuPlace], layout: Mapping[str, Any]
) -> Dict[str, List[str]]:
    """Each rank's CPUs beside its GPU, and what NVIDIA's hpl.sh is told of them, but for what the
    user says; a layout of another binding than numa has them not."""
    own: List[str] = asked.options["arguments"]
    if not places or layout.get("binding", "numa") != "numa":
        return {"gpu_masks": [], "arguments": own}
    told = affinities(places) if os.path.basename(_program(asked)) == _NVIDIA else {}
    added = [word for name, text in told.items() if name not in own for word in (name, text)]
    return {"gpu_masks": [cpu_mask(place.share) for place in places], "arguments": [*added, *own]}


def affinities(places: Sequence[GpuPlace]) -> Dict[str, str]:
    """Options of hpl.sh, a list by rank each, as the NDv4 article has them. Adapters go by the
    names that Azure's images give them; the article's are of images before that."""
    by_rank = {
        "cpu": [format_cpu_list(place.share) for place in places],
        "mem": [str(place.numa) for place in places],
        "ucx": [place.adapter for place in places if place.adapter],
        "gpu": [str(place.number) for place in places],
    }
    return {f"--{name}-affinity": ":".join(texts) for name, texts in by_rank.items() if texts}


def _program(asked: Asked) -> str:
    return asked.options["program"] or HPCC


def _lacking(asked: Asked) -> str:
    why = "installing it needs root or sudo without a password"
    if _may_install(asked):
        why = (
            "the distribution's packages would remove or downgrade"
            f" {transactions.cost(asked.found)}: set hpl_program to a build against the node's own"
            " MPI"
        )
    if asked.options["program"]:
        why = "hpl_program names a program of the site"
    elif asked.node["package_manager"] != "apt":
        why = "no package hpcc in this distribution"
    return f"no {_program(asked)} on this node, and {why}"
