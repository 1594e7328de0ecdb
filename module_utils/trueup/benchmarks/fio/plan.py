"""The role fio, planned: a case for each workload."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ...options import for_module
from ...plan import Asked, Plan, Skipped
from .case import OPTIONS


def programs(_: Asked) -> Dict[str, Any]:
    """What preflight asks the node for, as arguments of program_facts."""
    return {"programs": ["fio"]}


def plan(asked: Asked) -> Plan:
    """A case for each workload; skipped where no folder is named or fio cannot be installed."""
    options = asked.options
    refused = []
    if options["directory"] and not options["directory"].startswith("/"):
        refused.append(f"fio_directory is {options['directory']}: give a path that begins with /")
    if options["timeout_seconds"] <= options["runtime_seconds"]:
        refused.append(
            f"fio_timeout_seconds {options['timeout_seconds']} must be longer than"
            f" fio_runtime_seconds {options['runtime_seconds']}"
        )
    depths = options["iodepths"]
    if len(set(depths)) != len(depths):
        refused.append(f"fio_iodepths is {', '.join(map(str, depths))}: give each number once")
    there = asked.found["programs"]["fio"] is not None
    lacking = []
    if not options["directory"]:
        lacking.append("fio_directory is not set to a folder on the storage to measure")
    if not there and not asked.node["privilege"]:
        lacking.append(
            "no fio on this node, and installing it needs root or sudo without a password"
        )
    given = for_module(OPTIONS, options)
    return Plan(
        values={"install": not there and asked.node["privilege"] is not None},
        skipped=[Skipped("fio", why) for why in lacking],
        refused=refused,
        cases=[
            {**given, "workload": workload, "iodepth": depth}
            for workload in options["workloads"]
            for depth in _depths(options, workload)
        ],
    )


def _depths(options: Mapping[str, Any], workload: str) -> List[int]:
    """The queue depths at which a workload is measured."""
    given: List[int] = options["iodepths"] if workload.startswith("eda_") else []
    return given or [options["iodepth"]]
