#!/usr/bin/python
"""Ansible module: run Devito's own benchmark in one layout and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: devito_bench
short_description: Run Devito's forward-operator benchmark in one layout
version_added: "0.1.0"
description:
  - Runs the acoustic forward operator of Devito's own C(benchmarks/user/benchmark.py) in one layout
    of ranks and
    threads and returns what it measured as a record.
  - Run time, flop rate, point rate and operational intensity come unrounded, with median, minimum
    and maximum of
    the repeats. Compilation and autotuning are not part of the time; the tuning time and the block
    shape found are
    recorded.
  - Bad input is refused before anything runs. A run that is killed, runs out of memory or out of
    time gives a
    record with outcome C(failed); one whose result differs from that of other layouts, C(invalid).
  - Over several nodes (O(nodes)) the ranks are started by O(launcher), and the record also says how
    much of the time went into the exchange of halos.
  - Needs what the role P(devito#role) installs, on every node at the same path.
extends_documentation_fragment: [trueup_options.devito, trueup_bench, trueup_launcher]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure 4 ranks of 30 threads, one on each NUMA node
  devito_bench:
    prefix: /opt/trueup/devito
    shape: 512x512x512
    ranks: 4
    threads_per_rank: 30
    binding: numa
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

- name: Measure the same layout on two nodes of a Slurm cluster
  devito_bench:
    prefix: /opt/trueup/devito
    shape: 512x512x512
    ranks: 4
    threads_per_rank: 30
    binding: numa
    nodes: [hb-1, hb-2]
    launcher: slurm
    job_directory: /shared/trueup
    job_options: [--partition=hbv3]
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
  description: What the tool printed, both outputs; null when nothing ran.
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
  description: The record once more, as the fact C(trueup_devito).
  returned: success
  type: dict
  contains:
    trueup_devito:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.devito import case as devito
from ansible.module_utils.trueup.benchmarks.devito.output import parse_devito
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node.affinity import plan
from ansible.module_utils.trueup.node.memory import available_memory_bytes
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench
from ansible.module_utils.trueup.run.launcher import LAUNCHER_SPEC, Launcher


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return {**COMMON_SPEC, **LAUNCHER_SPEC, **module_spec(devito.OPTIONS)}


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "devito", devito.OPTIONS)
    try:
        problem = devito.Problem.parse(
            **{key: given[key] for key in ("model", "shape", "space_order", "tn_ms", "nbl")}
        )
        launcher = Launcher.asked(given)
        nodes = launcher.node_count
        placement = plan(
            read_topology(allowed=os.sched_getaffinity(0)),
            ranks=given["ranks"],
            threads_per_rank=given["threads_per_rank"],
            binding=given["binding"],
        )
        devito.require_memory(problem, placement.ranks, available_memory_bytes(), nodes)
    except BadInput as error:
        bench.refuse(str(error))

    jit_dir = os.path.join(given["prefix"], "jit", devito.jit_key())
    ranks = placement.ranks * nodes
    variables = devito.environment(
        ranks=ranks,
        threads_per_rank=placement.threads_per_rank,
        mpi_mode=given["mpi_mode"],
        jit_dir=jit_dir,
    )
    case = devito.case_name(
        problem, placement, given["mpi_mode"], node_count=nodes, launcher=launcher.kind
    )
    bench.prepare(
        case=case,
        nodes=list(launcher.nodes),
        command=launcher.command(
            devito.program(
                problem,
                placement,
                python=os.path.join(given["prefix"], "venv", "bin", "python"),
                driver=os.path.join(given["prefix"], "devito_driver.py"),
                repeats=given["repeats"],
                autotune=given["autotune"],
            ),
            per_node=placement.ranks,
            variables=variables,
            placement=placement,
            binds_itself=True,
            name=f"trueup-devito-{nodes}",
            limit_seconds=given["timeout_seconds"],
        ),
        environment={**variables, **launcher.variables(ranks)},
        parameters=dict(
            problem.parameters(),
            layout=f"{placement.ranks}x{placement.threads_per_rank}",
            binding=placement.binding,
            mpi=given["mpi_mode"] if ranks > 1 else "off",
            launcher=launcher.kind,
            language="openmp",
            repeats=given["repeats"],
            autotune=given["autotune"],
            scaling=given["scaling"],
        ),
        ranks=ranks,
        threads_per_rank=placement.threads_per_rank,
    )
    try:
        os.makedirs(jit_dir, exist_ok=True)
    except OSError as error:
        bench.refuse(f"{jit_dir} cannot be made: {error.strerror}; set prefix to a folder of yours")
    output = bench.run(parse_devito, explain=devito.explain, launcher=launcher)
    bench.case.software.update(output.software)
    bench.case.parameters["block_shape"] = "x".join(str(size) for size in output.tuned.values())
    fraction = devito.roofline_fraction(output, given["memory_bandwidth"], given["peak_flops"])
    bench.finish(
        metrics=output.metrics() + ([fraction] if fraction else []),
        invalid=devito.judge(
            output,
            placement,
            repeats=given["repeats"],
            reference_norms={name: float(norm) for name, norm in given["reference_norms"].items()},
            tolerance=given["norm_tolerance"],
            node_count=nodes,
        ),
    )


if __name__ == "__main__":
    main()
