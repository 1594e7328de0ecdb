#!/usr/bin/python
"""Ansible module: measure copies from, to and between GPUs and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_copy_bench
short_description: Measure copies from, to and between GPUs
version_added: "0.3.0"
description:
  - Runs nvbandwidth, bandwidthTest of the CUDA samples, or a PyTorch program of trueup's own, once
    for each GPU on the CPUs of its NUMA node and once for all GPUs as peers, and returns a record.
  - Figures are host to device, device to host, within a device's memory, and from each GPU to each
    other one, each with the least of the node.
  - A test that the machine cannot have (waived) gives a warning and no figure; copied data that
    differ from what was sent give a record with outcome C(invalid).
extends_documentation_fragment: trueup_options.gpu_copy
"""

EXAMPLES = r"""
- name: Measure the copies of all GPUs
  gpu_copy_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/gpu_copy
    tool: nvbandwidth
    program: /usr/local/bin/nvbandwidth
    python: /usr/bin/python3
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os
from typing import Any, Dict, Mapping

from ansible.module_utils.trueup_node.benchmarks.gpu_copy import case as gpu_copy
from ansible.module_utils.trueup_node.benchmarks.gpu_copy.output import parse_gpu_copy
from ansible.module_utils.trueup_node.node import mpi
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module
from ansible.module_utils.trueup_node.run.launcher import joined


def _of_mpi(parameters: Dict[str, Any]) -> Mapping[str, str]:
    """An nvbandwidth that is not ours may be built with the node's MPI, as that of Azure's images
    for GB200 is, and does not start without its libraries."""
    ours = str(parameters["program"] or "").startswith(parameters["prefix"])
    node_mpi = (
        mpi.of(parameters["node"]) if parameters["tool"] == "nvbandwidth" and not ours else None
    )
    return node_mpi.environment if node_mpi else {}


def measure(bench: Bench) -> None:
    parameters = bench.given
    gpus = parameters["node"].get("gpus") or []
    topology = read_topology(allowed=os.sched_getaffinity(0))
    beside = gpu_copy.cpus_beside(gpus, parameters["gpu_masks"], topology)

    tool, peers = parameters["tool"], parameters["peers"]
    if tool == "bandwidthTest" or len(gpus) < 2:
        peers = "none"
    elif tool == "pytorch" and peers == "read":
        peers = "write"
    program = ["--program", parameters["program"]] if tool != "pytorch" else []
    placed = [f"--gpu={number}:{cpus}" for number, cpus in enumerate(beside.cpus)]
    bench.prepare(
        case=f"{tool.lower()}-g{len(gpus)}-{beside.binding}",
        command=[
            *(
                parameters["python"],
                os.path.join(parameters["prefix"], "gpu_copy.py"),
                "--tool",
                tool,
            ),
            *(*program, "--samples", str(parameters["samples"]), "--peers", peers, *placed),
        ],
        environment=joined(_of_mpi(parameters), gpu_copy.ENVIRONMENT),
        parameters={
            "tool": tool,
            "samples": parameters["samples"],
            "peers": peers,
            "binding": beside.binding,
        },
        gpus=len(gpus),
    )
    output = bench.run(parse_gpu_copy, gpus_alone=True)
    bench.case.parameters.update(output.parameters)
    bench.case.software.update(output.software)
    if output.tool_version:
        bench.case.software[output.program] = output.tool_version
    expected_cpus = {f"gpu{number}": cpus for number, cpus in enumerate(beside.cpus)}
    bench.finish(metrics=output.metrics(), invalid=gpu_copy.judge(output, expected_cpus))


def main() -> None:
    needed = [("tool", tool, ("program",)) for tool in ("nvbandwidth", "bandwidthTest")]
    run_module("gpu_copy", gpu_copy.OPTIONS, measure, required_if=needed)


if __name__ == "__main__":
    main()
