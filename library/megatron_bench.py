#!/usr/bin/python
"""Ansible module: train a model for some iterations and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: megatron_bench
short_description: Train a GPT for some iterations and measure step time and TFLOP/s per GPU
version_added: "0.5.0"
description:
  - Runs Megatron-LM's or Megatron-DeepSpeed's C(pretrain_gpt.py), or C(gpt_driver.py), a small GPT
    of ours in plain PyTorch that also runs without GPUs, and returns step time, samples and tokens
    per second, and TFLOP/s per GPU as a record.
  - C(train_flops_article) is counted by 96 B s l h^2 (1 + s/(6h) + V/(16lh)), which includes
    recomputed activations, whether or not O(recompute) is set; C(train_flops_megatron) by
    72 B s l h^2 (1 + s/(6h) + V/(12lh)), without. What Megatron itself prints is
    C(train_flops_printed). Without GPUs they are rates of each process.
  - The first quarter of the iterations, 2 to 4 of them, is warm-up and in no time or rate.
  - A run whose loss is not finite or does not fall, that skipped iterations, or that ran on another
    device than O(backend) is for, gives a record with outcome C(invalid); one that ends early or at
    its time limit, C(failed). The loss falls when the mean of its last quarter is below that of its
    first by more than three standard errors, and with C(gpt_driver) by a hundredth at least.
  - O(launcher=local) starts torchrun on this node; over several nodes the module is then run on all
    of them at the same time. The first of O(nodes) returns the record; the others return
    RV(record=none). With O(launcher=mpirun) and O(launcher=slurm) it is run on one node alone,
    which starts the processes of all. A record calls its launcher C(torchrun), C(mpirun) or
    C(slurm).
  - With these two RANK, LOCAL_RANK and WORLD_SIZE come from Open MPI's or Slurm's variables, and
    O(prefix) is the same on all nodes. A run of C(gpt_driver) whose processes were on another
    number of hosts is C(invalid).
  - Needs what the role P(training#role) installs.
extends_documentation_fragment: trueup_options.megatron
"""

EXAMPLES = r"""
- name: Train a tiny GPT in two processes
  megatron_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/training
    processes: 2

- name: Train over two nodes by a Slurm job
  megatron_bench:
    prefix: /opt/trueup/training
    nodes: [node-1, node-2]
    launcher: slurm
    job_directory: /shared/jobs
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os
from dataclasses import replace
from typing import Any, Dict, Optional

from ansible.module_utils.trueup_node.benchmarks.megatron import case as megatron
from ansible.module_utils.trueup_node.benchmarks.megatron.output import parse_megatron
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import mpi
from ansible.module_utils.trueup_node.run.bench import Bench, run_module
from ansible.module_utils.trueup_node.run.launcher import Launcher, joined


def _launcher(parameters: Dict[str, Any]) -> Optional[Launcher]:
    """The launcher of the processes; None is torchrun, on each node by itself."""
    if parameters["launcher"] == "local":
        return None
    # Slurm would choose a node by itself; this node's own mpirun needs no name for it.
    alone = [parameters["node_name"]] if parameters["launcher"] == "slurm" else []
    # Processes that Slurm starts use no MPI.
    node_mpi = mpi.of(parameters["node"]) if parameters["launcher"] == "mpirun" else None
    return Launcher.asked(dict(parameters, nodes=parameters["nodes"] or alone), node_mpi)


def measure(bench: Bench) -> None:
    parameters = bench.given
    run = megatron.asked(dict(parameters, nodes=parameters["nodes"] or [parameters["node_name"]]))
    launcher = _launcher(parameters)
    variables = megatron.environment(run, parameters["interface"], parameters["variables"])
    config = parameters["deepspeed_config"] or ""
    # That of the first node is in the record.
    first, command = (
        megatron.command(
            node_run,
            launcher=launcher,
            variables=variables,
            limit_seconds=parameters["timeout_seconds"],
            prefix=parameters["prefix"],
            deepspeed_config=config,
            data=parameters["data"],
            arguments=parameters["arguments"],
            gpu_masks=parameters["gpu_masks"],
        )
        for node_run in (replace(run, node_rank=0), run)
    )
    if run.deepspeed and not bench.check and not os.path.isfile(config):
        raise BadInput(f"deepspeed_config {config} is not a file on this node")
    bench.prepare(
        case=megatron.case_name(run),
        command=command,
        recorded_as=first,
        # Variables of UCX or HCOLL from a profile or the user win.
        environment=joined(launcher.variables(run.world_size) if launcher else {}, variables),
        parameters=megatron.parameters(run),
        nodes=list(run.nodes),
        ranks=run.world_size,
        threads_per_rank=max(1, run.threads),
        gpus=run.world_size if run.backend == "nccl" else 0,
    )
    # torchrun on the other nodes would wait for one that does not come.
    start = (launcher or Launcher(absent=tuple(parameters["absent"]))).run
    if run.node_rank > 0:
        bench.run(str, start=start)  # the first node prints, and makes the record
        bench.leave()
    output = bench.run(
        parse_megatron,
        explain=lambda text: megatron.explain(text) or megatron.last_checkpoint(run),
        start=start,
    )
    bench.case.threads_per_rank = int(output.parameters.get("threads", bench.case.threads_per_rank))
    bench.case.software.update(output.software)
    bench.finish(
        metrics=output.metrics() + megatron.rates(run, output), invalid=megatron.judge(run, output)
    )


def main() -> None:
    run_module("megatron", megatron.OPTIONS, measure)


if __name__ == "__main__":
    main()
