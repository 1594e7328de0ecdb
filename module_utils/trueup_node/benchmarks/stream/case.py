"""The memory-bandwidth benchmark as a case: options, array size, and whether a run counts."""

from __future__ import annotations

from typing import Dict, List, Optional

from ...errors import BadInput
from ...node.affinity import Placement, omp_places
from ...node.topology import Topology
from ...options import ModuleOption, Option, RoleOption, time_limit
from .output import StreamOutput

STORES = ("streaming", "regular")

OPTIONS = (
    Option(
        "prefix",
        "Folder on the node for the compiled kernel.",
        "~/.local/share/trueup/stream",
        type="path",
        why="Yours without root; a site that shares one sets /opt/trueup/stream.",
    ),
    Option(
        "threads",
        "Threads, spread over the NUMA nodes. 0: the role takes the number that reaches the size's"
        " bandwidth, spread over its L3 caches (catalog/stream_placements.yml: HBv2, HBv3, HBv4 and"
        " HX); the module takes one on each core that may be used.",
        0,
    ),
    ModuleOption(
        "binding",
        "core: each thread on a core of its own, spread over the NUMA nodes; l3: likewise, spread"
        " over the L3 caches; none: the operating system places them.",
        "core",
        choices=("core", "l3", "none"),
    ),
    RoleOption(
        "stores",
        "Kinds of stores to measure with, a case each: streaming (past the caches, as published"
        " figures) or regular (each written line is read first, as in most applications).",
        ["streaming"],
        choices=STORES,
        filled=True,
    ),
    ModuleOption("stores", "The case's kind of stores.", "streaming", choices=STORES),
    Option(
        "array_bytes",
        "Size of one of the three arrays in bytes; 0 means four times the last-level caches, the"
        " least that counts.",
        0,
    ),
    Option("repeats", "Repeats of each kernel.", 10, why="STREAM's own default is 10.", least=3),
    time_limit(600, reason="HBv3: 3 arrays of 6 GiB, 10 repeats of 4 kernels take about 5 s."),
)

_BYTES_PER_ELEMENT = 8
_CACHE_MULTIPLE = (
    4  # STREAM's run rule: each array at least four times the sum of the last-level caches
)
_SMALLEST_ARRAY_BYTES = 128 * 1024**2  # where the machine does not show its caches
_ARRAYS = 3


def array_elements(
    *,
    requested_bytes: Optional[int],
    last_level_cache_bytes: Optional[int],
    available_bytes: Optional[int],
) -> int:
    """Elements of each of the three arrays.

    Args:
        requested_bytes: size of one array as the user wants it, or None for the smallest that
            counts.
        last_level_cache_bytes: all last-level caches of the machine together, None when not shown.
        available_bytes: memory that may be taken, None when unknown.

    Raises:
        BadInput: an array that the caches would hold, or arrays that do not fit in memory; with
            both figures.
    """
    least = max(_CACHE_MULTIPLE * (last_level_cache_bytes or 0), _SMALLEST_ARRAY_BYTES)
    size = least if requested_bytes is None else requested_bytes
    if size < least:
        raise BadInput(
            f"array_bytes {size} is below {least}, four times the last-level caches: the "
            "caches would be measured"
        )
    if available_bytes is not None and _ARRAYS * size > available_bytes:
        raise BadInput(
            f"three arrays of {size} bytes need {_ARRAYS * size / 1024**3:.1f} GiB, and "
            f"{available_bytes / 1024**3:.1f} GiB are available"
        )
    return size // _BYTES_PER_ELEMENT


def environment(placement: Placement) -> Dict[str, str]:
    """The variables that place the threads, one on each CPU of the plan."""
    cpus = [cpu for rank in placement.per_rank for cpu in rank]
    variables = {"OMP_NUM_THREADS": str(placement.ranks * placement.threads_per_rank)}
    if placement.binding != "none":
        variables.update(OMP_PLACES=omp_places(cpus), OMP_PROC_BIND="close")
    return variables


def spread(placement: Placement, topology: Topology) -> str:
    """``whole`` where every L3 cache (NUMA node, where these are not shown) has a thread, so that
    the whole machine's bandwidth is measured; else ``part``; ``unknown`` where nothing is pinned.
    """
    if placement.binding == "none":
        return "unknown"
    cpus = {cpu for rank in placement.per_rank for cpu in rank}
    domains = topology.l3_groups or tuple(topology.numa.values())
    return "whole" if all(cpus & set(domain) for domain in domains) else "part"


def judge(output: StreamOutput, placement: Placement) -> Optional[str]:
    """Why a run that ended is not a valid measurement, or None."""
    if not output.valid:
        return (
            "the arrays do not hold what the kernels must leave "
            f"(relative error {output.error or 0:.3g})"
        )
    planned: List[int] = sorted(cpu for rank in placement.per_rank for cpu in rank)
    if placement.binding != "none" and sorted(output.cpus) != planned:
        return f"threads ran on CPUs {sorted(output.cpus)} instead of {planned}"
    return None
