#!/usr/bin/python
"""Ansible module: measure GEMM on GPUs with PyTorch and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gemm_bench
short_description: Measure GEMM on GPUs (fp64, tf32, bf16, fp8)
version_added: "0.3.0"
description:
  - Runs trueup's PyTorch program, installed by the role P(gemm#role), in a process for each GPU on
    the CPUs of its NUMA node, and returns the rates of each precision as a record.
  - A sampled block of each product is compared with one that the CPU makes in fp64; an error beyond
    what the precision's rounding explains gives a record with outcome C(invalid).
extends_documentation_fragment: trueup_options.gemm
"""

EXAMPLES = r"""
- name: Measure GEMM on all GPUs at once
  gemm_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/gemm
    python: /opt/pytorch/bin/python
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os

from ansible.module_utils.trueup_node.benchmarks.gemm import case as gemm
from ansible.module_utils.trueup_node.benchmarks.gemm.output import PROGRAM, parse_gemm
from ansible.module_utils.trueup_node.benchmarks.gpu_copy import case as gpu_copy
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def measure(bench: Bench) -> None:
    parameters = bench.given
    gpus = parameters["node"].get("gpus") or []
    precisions = [name for name in gemm.PRECISIONS if name in parameters["precisions"]]
    topology = read_topology(allowed=os.sched_getaffinity(0))
    beside = gpu_copy.cpus_beside(gpus, parameters["gpu_masks"], topology)

    at_once = parameters["gpus_at_once"]
    placed = [f"--gpu={number}:{cpus}" for number, cpus in enumerate(beside.cpus)]
    bench.prepare(
        case=f"n{parameters['n']}-g{len(gpus)}-{at_once}-{beside.binding}",
        command=[
            *(parameters["python"], os.path.join(parameters["prefix"], "gemm.py")),
            *("--precisions", ",".join(precisions), "--n", str(parameters["n"])),
            *("--n-fp64", str(parameters["n_fp64"]), "--repeats", str(parameters["repeats"])),
            *((["--together"] if at_once == "all" else []) + placed),
        ],
        environment=gpu_copy.ENVIRONMENT,
        parameters={
            **{name: parameters[name] for name in ("n", "n_fp64", "repeats", "gpus_at_once")},
            "program": PROGRAM,
            "precisions": ",".join(precisions),
            "binding": beside.binding,
        },
        gpus=len(gpus),
    )
    output = bench.run(parse_gemm, gpus_alone=True)
    bench.case.parameters["gpu_name"] = output.gpus[0].name
    bench.case.software.update(output.software)
    bench.finish(metrics=output.metrics(), invalid=gemm.judge(output, beside.cpus))


def main() -> None:
    run_module("gemm", gemm.OPTIONS, measure)


if __name__ == "__main__":
    main()
