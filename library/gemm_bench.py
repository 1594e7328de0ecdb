#!/usr/bin/python
"""Ansible module: measure matrix products on GPUs with PyTorch and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gemm_bench
short_description: Measure matrix products on GPUs (fp64, tf32, bf16, fp8)
version_added: "0.3.0"
description:
  - Runs trueup's PyTorch program, installed by the role P(gemm#role), in a process for each GPU on
    the CPUs of its NUMA node, and returns the rates of each precision as a record.
  - A sampled block of each product is compared with one that the CPU makes in fp64; an error beyond
    what the precision's rounding explains gives a record with outcome C(invalid).
extends_documentation_fragment: [trueup_options.gemm, trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure the matrix products of all GPUs at once
  gemm_bench:
    prefix: /opt/trueup/gemm
    python: /opt/pytorch/bin/python
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
  description: The record once more, as the fact C(trueup_gemm).
  returned: success
  type: dict
  contains:
    trueup_gemm:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.gemm import case as gemm
from ansible.module_utils.trueup.benchmarks.gemm.output import parse_gemm
from ansible.module_utils.trueup.benchmarks.gpu_copy import case as gpu_copy
from ansible.module_utils.trueup.errors import TrueupError
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **module_spec(gemm.OPTIONS)}


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "gemm", gemm.OPTIONS)
    gpus = given["node"].get("gpus") or []
    precisions = [name for name in gemm.PRECISIONS if name in given["precisions"]]
    try:
        topology = read_topology(allowed=os.sched_getaffinity(0))
        beside = gpu_copy.cpus_beside(gpus, given["gpu_masks"], topology)
    except TrueupError as error:
        bench.refuse(str(error))

    at_once = given["gpus_at_once"]
    placed = [f"--gpu={number}:{cpus}" for number, cpus in enumerate(beside.cpus)]
    bench.prepare(
        case=f"n{given['n']}-g{len(gpus)}-{at_once}-{beside.binding}",
        command=[
            *(given["python"], os.path.join(given["prefix"], "gemm.py")),
            *("--precisions", ",".join(precisions), "--n", str(given["n"])),
            *("--n-fp64", str(given["n_fp64"]), "--repeats", str(given["repeats"])),
            *((["--together"] if at_once == "all" else []) + placed),
        ],
        environment=gpu_copy.ENVIRONMENT,
        parameters={
            "precisions": ",".join(precisions),
            "n": given["n"],
            "n_fp64": given["n_fp64"],
            "repeats": given["repeats"],
            "gpus_at_once": at_once,
            "binding": beside.binding,
        },
        gpus=len(gpus),
    )
    output = bench.run(parse_gemm)
    for warning in output.warnings:
        module.warn(warning)
    bench.case.parameters["gpu_name"] = output.gpus[0].name
    bench.case.software.update(output.software)
    bench.finish(metrics=output.metrics(), invalid=gemm.judge(output, beside.cpus))


if __name__ == "__main__":
    main()
