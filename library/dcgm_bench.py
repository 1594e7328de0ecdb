#!/usr/bin/python
"""Ansible module: run NVIDIA's DCGM diagnostic on the node's GPUs and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm_bench
short_description: Run the DCGM diagnostic (dcgmi diag) or thermal stress on a node's GPUs
version_added: "0.5.0"
description:
  - Runs C(dcgmi diag) of one level, or its test C(diagnostic) alone, on all GPUs at once, and
    returns its figures as a record. With O(stress_seconds) C(dcgmproftester) loads the GPUs
    instead.
  - A failed test gives a record with outcome C(invalid), which names GPU and reason. So does a GPU
    on which every test of the hardware was skipped.
  - No other process may compute on the GPUs. DCGM's host engine must run (C(nvidia-dcgm)).
extends_documentation_fragment: trueup_options.dcgm
"""

EXAMPLES = r"""
- name: Run level 2 of the diagnostic
  dcgm_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    level: 2
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

from ansible.module_utils.trueup_node.benchmarks.dcgm import case as dcgm
from ansible.module_utils.trueup_node.benchmarks.dcgm.output import explain, parse_dcgm
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def measure(bench: Bench) -> None:
    parameters, gpus = bench.given, bench.given["node"].get("gpus") or []
    test = dcgm.test_of(parameters)
    bench.prepare(
        case="{test}-{test_seconds}s".format(**test) if "test" in test else f"level{test['level']}",
        command=dcgm.command(parameters),
        environment={"LC_ALL": "C"},
        parameters=test,
        gpus=len(gpus),
    )
    output = bench.run(parse_dcgm, explain=explain, start=dcgm.start, gpus_alone=True)
    if output.tool_version:
        bench.case.software["dcgm"] = output.tool_version
    bench.finish(metrics=output.metrics(), invalid=dcgm.judge(output, len(gpus), parameters))


def main() -> None:
    run_module("dcgm", dcgm.OPTIONS, measure)


if __name__ == "__main__":
    main()
