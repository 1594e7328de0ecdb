"""The role fio, planned: a case for each workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trueup_node.benchmarks.fio.case import OPTIONS
from trueup_node.options import for_module
from trueup_node.plan import Plan, PlanInputs, Skipped


def programs(_: PlanInputs) -> dict[str, Any]:
    """Preflight queries for the node, as arguments of program_facts."""
    return {"programs": ["fio"]}


def plan(inputs: PlanInputs) -> Plan:
    """A case for each workload; skipped where no folder is named or fio cannot be installed."""
    options = inputs.options
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
    has_fio = inputs.found["programs"]["fio"] is not None
    lacking = []
    if not options["directory"]:
        lacking.append("fio_directory is not set to a folder on the storage to measure")
    if not has_fio and not inputs.node["privilege"]:
        lacking.append(
            "no fio on this node, and installing it needs root or sudo without a password"
        )
    module_options = for_module(OPTIONS, options)
    return Plan(
        values={"install": not has_fio and inputs.node["privilege"] is not None},
        skipped=[Skipped("fio", reason) for reason in lacking],
        refused=refused,
        cases=[
            {**module_options, "workload": workload, "iodepth": depth}
            for workload in options["workloads"]
            for depth in _depths(options, workload)
        ],
    )


def _depths(options: Mapping[str, Any], workload: str) -> list[int]:
    """The queue depths at which a workload is measured; 0 is the workload's own."""
    depths: list[int] = options["iodepths"] if workload.startswith("eda_") else []
    return depths or [0]
