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
extends_documentation_fragment: [trueup_options.gpu_copy, trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure the copies of all GPUs
  gpu_copy_bench:
    prefix: /opt/trueup/gpu_copy
    tool: nvbandwidth
    program: /usr/local/bin/nvbandwidth
    python: /usr/bin/python3
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode and when the
    input was refused.
  returned: always
  type: dict
raw:
  description: What the program printed; null when nothing ran.
  returned: always
  type: str
command:
  description: The command line.
  returned: always
  type: list
  elements: str
environment:
  description: The variables set for it.
  returned: always
  type: dict
resumed:
  description: Which of O(earlier) stands for this case, from 0; null where it was measured.
  returned: always
  type: int
ansible_facts:
  description: The record once more, as the fact C(trueup_gpu_copy).
  returned: success
  type: dict
  contains:
    trueup_gpu_copy:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.gpu_copy import case as gpu_copy
from ansible.module_utils.trueup.benchmarks.gpu_copy.output import parse_gpu_copy
from ansible.module_utils.trueup.errors import TrueupError
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(gpu_copy.OPTIONS)}


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(),
        required_if=[
            ("tool", "nvbandwidth", ("program",)),
            ("tool", "bandwidthTest", ("program",)),
        ],
        supports_check_mode=True,
    )
    given = module.params
    bench = Bench(module, "gpu_copy", gpu_copy.OPTIONS)
    gpus = given["node"].get("gpus") or []
    try:
        topology = read_topology(allowed=os.sched_getaffinity(0))
        beside = gpu_copy.cpus_beside(gpus, given["gpu_masks"], topology)
    except TrueupError as error:
        bench.refuse(str(error))

    tool, peers = given["tool"], given["peers"]
    if tool == "bandwidthTest" or len(gpus) < 2:
        peers = "none"
    elif tool == "pytorch" and peers == "read":
        peers = "write"
    program = ["--program", given["program"]] if tool != "pytorch" else []
    placed = [f"--gpu={number}:{cpus}" for number, cpus in enumerate(beside.cpus)]
    bench.prepare(
        case=f"{tool.lower()}-g{len(gpus)}-{beside.binding}",
        command=[
            *(given["python"], os.path.join(given["prefix"], "gpu_copy.py"), "--tool", tool),
            *(*program, "--samples", str(given["samples"]), "--peers", peers, *placed),
        ],
        environment=gpu_copy.ENVIRONMENT,
        parameters={
            "tool": tool,
            "samples": given["samples"],
            "peers": peers,
            "binding": beside.binding,
        },
        gpus=len(gpus),
    )
    output = bench.run(parse_gpu_copy)
    for warning in output.warnings:
        module.warn(warning)
    bench.case.parameters.update(output.parameters)
    bench.case.software.update(output.software)
    if output.tool_version:
        bench.case.software[output.program] = output.tool_version
    wanted = {f"gpu{number}": cpus for number, cpus in enumerate(beside.cpus)}
    bench.finish(metrics=output.metrics(), invalid=gpu_copy.judge(output, wanted))


if __name__ == "__main__":
    main()
