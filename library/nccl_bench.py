#!/usr/bin/python
"""Ansible module: run one of nccl-tests' collectives and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_bench
short_description: Measure NCCL's collectives on one or several nodes
version_added: "0.2.0"
description:
  - Runs one of nccl-tests' programs over a range of message sizes and returns every size's bus and
    algorithm bandwidth, time and count of wrong elements as a record.
  - Wrong values give outcome C(invalid) whatever the speed. So does another transport than
    O(transports) says, another topology file than O(variables) names, and a log that cannot tell;
    NCCL's own log (C(NCCL_DEBUG=INFO)) is read for that and is always on.
  - A table without its end or with sizes missing is a failure, never a number.
  - Where the build has option C(-J), the figures are those of its JSON file, which have six
    decimals. The table is held against them; a contradiction is a failure.
extends_documentation_fragment: trueup_options.nccl
"""

EXAMPLES = r"""
- name: Measure all_reduce over NVLink
  nccl_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    operation: all_reduce
    gpus_per_node: 8
    transports: [nvlink]
    variables:
      NCCL_TOPO_FILE: ""
      CUDA_DEVICE_ORDER: PCI_BUS_ID

- name: Measure all_reduce over InfiniBand
  nccl_bench:
    operation: all_reduce
    gpus_per_node: 8
    nodes: [gpu-1, gpu-2]
    launcher: mpirun
    transports: [nvlink, ib]
    gpudirect: true
    variables:
      NCCL_TOPO_FILE: /opt/microsoft/ndv4/topo.xml
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""


import contextlib
import os
import tempfile

from ansible.module_utils.trueup_node.benchmarks.nccl import case as nccl
from ansible.module_utils.trueup_node.benchmarks.nccl import json_file
from ansible.module_utils.trueup_node.benchmarks.nccl.output import parse_nccl
from ansible.module_utils.trueup_node.node import folders, mpi, tools
from ansible.module_utils.trueup_node.run.bench import Bench, run_module
from ansible.module_utils.trueup_node.run.launcher import Launcher, joined


def _json_folder(bench: Bench, job: nccl.Job) -> str:
    """The folder for the JSON file, in which rank 0 and this node can write; empty where the build
    has no option -J or is not on this node."""
    launcher = job.launcher
    folder = launcher.directory if launcher.kind == "slurm" else tempfile.gettempdir()
    if not os.access(folder, os.W_OK | os.X_OK):
        return ""
    usage = tools.ask(bench.module, [job.program, "-h"], environment=launcher.variables(1))
    return folder if json_file.is_supported(usage.output) else ""


def measure(bench: Bench) -> None:
    parameters = bench.given
    sweep = ("bytes_from", "bytes_to", "factor", "iterations", "warmup", "cycles")
    launcher = Launcher.asked(parameters, mpi.of(parameters["node"]))
    job = nccl.Job(
        binary_dir=parameters["binary_dir"],
        operation=parameters["operation"],
        gpus_per_node=parameters["gpus_per_node"] or len(parameters["node"].get("gpus") or []),
        launcher=launcher,
        gpu_masks=tuple(parameters["gpu_masks"]),
        loopback=parameters["loopback"],
        **{name: parameters[name] for name in sweep},
    )
    job.check()
    environment = nccl.environment(
        {name: str(value) for name, value in parameters["variables"].items()}
    )

    folder = _json_folder(bench, job)

    def command(own_folder: str) -> list[str]:
        return job.command(
            environment,
            parameters["timeout_seconds"],
            json_file=os.path.join(own_folder, "report.json") if own_folder else "",
        )

    bench.prepare(
        case=job.case,
        command=command(folders.placeholder(folder, "nccl") if folder else ""),
        # nccl-tests load the MPI's libraries; variables of UCX or HCOLL from a profile or the user
        # win.
        environment=joined(
            launcher.variables(1 if launcher.kind == "local" else job.ranks), environment
        ),
        nodes=list(launcher.nodes),
        ranks=job.ranks,
        gpus=job.ranks,
        parameters={
            "operation": job.operation,
            "gpus_per_node": job.gpus_per_node,
            "launcher": launcher.kind,
            **({"loopback": True} if job.loopback else {}),
            **{name: parameters[name] for name in sweep},
        },
    )
    start = launcher.run
    with contextlib.ExitStack() as stack:
        if folder:
            own_folder = stack.enter_context(folders.own_folder(folder, "nccl"))
            bench.case.command = command(own_folder)
            path = os.path.join(own_folder, "report.json")
            start = json_file.attaching(launcher.run, path, bench.module.warn)
        output = bench.run(parse_nccl, explain=nccl.explain, start=start, gpus_alone=True)
    bench.case.software.update(nccl.software(output))
    # The requested operation stays where the output does not name it.
    bench.case.parameters.update({**output.parameters, "operation": job.operation})
    invalid = nccl.judge(
        output,
        job,
        transports=parameters["transports"],
        gpudirect=parameters["gpudirect"],
        topology_file=environment.get("NCCL_TOPO_FILE"),
    )
    bench.finish(metrics=output.metrics(), invalid=invalid)


def main() -> None:
    run_module("nccl", nccl.OPTIONS, measure)


if __name__ == "__main__":
    main()
