"""The role hpl, planned: the program that solves, and a case for each layout."""

from __future__ import annotations

from typing import Any, Dict

from ...options import for_module
from ...plan import Asked, Plan, Skipped
from .case import HPCC, OPTIONS, require_memory_of_gpus

# Debian's names; its hpcc takes whichever BLAS libblas.so.3 points to, and OpenBLAS's threads are
# ten times as fast as the reference BLAS. mpirun starts several ranks.
_PACKAGES = ("hpcc", "libopenblas0-pthread", "openmpi-bin")
# hpcc's other tests grow with the order (docs/hpl.md).
_MAX_N_OF_HPCC = 20000


def programs(asked: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {"programs": [_program(asked)]}


def plan(asked: Asked) -> Plan:
    """A case for each layout.

    Raises:
        BadInput: options that do not go together.
    """
    options = asked.options
    require_memory_of_gpus(options["gpus"], options["memory_bytes"])
    own = not options["program"]
    packaged = own and asked.node["package_manager"] == "apt"
    installs = packaged and asked.node["privilege"] is not None
    there = asked.found["programs"][_program(asked)] is not None
    lacking = "" if there or installs else _lacking(asked)
    given = {**for_module(OPTIONS, options), "program": _program(asked)}
    if own and not options["n"] and not options["max_n"]:
        given["max_n"] = _MAX_N_OF_HPCC
    return Plan(
        values={"packages": list(_PACKAGES) if installs else []},
        skipped=[Skipped("hpl", lacking)] if lacking else [],
        cases=[{**given, **layout} for layout in options["layouts"]],
    )


def _program(asked: Asked) -> str:
    return asked.options["program"] or HPCC


def _lacking(asked: Asked) -> str:
    why = "installing it needs root or sudo without a password"
    if asked.options["program"]:
        why = "hpl_program names a program of the site"
    elif asked.node["package_manager"] != "apt":
        why = "no package hpcc in this distribution"
    return f"no {_program(asked)} on this node, and {why}"
