#!/usr/bin/python
"""Ansible module: run Devito's own benchmark in one layout and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: devito_bench
short_description: Run Devito's forward-operator benchmark in one layout
version_added: "0.1.0"
description:
  - Runs the acoustic forward operator of Devito's own C(benchmarks/user/benchmark.py) in one layout
    of ranks and threads and returns what it measured as a record.
  - Run time, flop rate, point rate and operational intensity come unrounded, with median, minimum
    and maximum of the repeats. Compilation and autotuning are not part of the time; the tuning time
    and the block shape found are recorded, and kept for later runs of the same case.
  - A result that differs from that of other layouts gives a record with outcome C(invalid).
  - Over several nodes (O(nodes)) the ranks are started by O(launcher), and the record also says how
    much of the time went into the exchange of halos.
  - Needs what the role P(devito#role) installs, on every node at the same path.
extends_documentation_fragment: trueup_options.devito
"""

EXAMPLES = r"""
- name: Measure 4 ranks of 30 threads, one on each NUMA node
  devito_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/devito
    shape: 512x512x512
    ranks: 4
    threads_per_rank: 30
    binding: numa

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
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os

from ansible.module_utils.trueup_node.benchmarks.devito import case as devito
from ansible.module_utils.trueup_node.benchmarks.devito.output import parse_devito
from ansible.module_utils.trueup_node.node import mpi
from ansible.module_utils.trueup_node.node.affinity import plan
from ansible.module_utils.trueup_node.node.memory import available_memory_bytes
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module
from ansible.module_utils.trueup_node.run.launcher import Launcher


def measure(bench: Bench) -> None:
    parameters = bench.given
    problem = devito.Problem.parse(
        **{key: parameters[key] for key in ("model", "shape", "space_order", "tn_ms", "nbl")}
    )
    launcher = Launcher.asked(parameters, mpi.of(parameters["node"]))
    nodes = launcher.node_count
    placement = plan(
        read_topology(allowed=os.sched_getaffinity(0)),
        ranks=parameters["ranks"],
        threads_per_rank=parameters["threads_per_rank"],
        binding=parameters["binding"],
    )
    devito.require_memory(problem, placement.ranks, available_memory_bytes(), nodes)

    jit_dir = os.path.join(parameters["prefix"], "jit", devito.jit_key())
    ranks = placement.ranks * nodes
    variables = devito.environment(
        ranks=ranks,
        threads_per_rank=placement.threads_per_rank,
        mpi_mode=parameters["mpi_mode"],
        jit_dir=jit_dir,
    )
    if launcher.mpi:
        # Devito compiles the exchanges between ranks with mpicc.
        variables.update(launcher.mpi.before(os.environ.get("PATH", os.defpath)))
    case = devito.case_name(
        problem, placement, parameters["mpi_mode"], node_count=nodes, launcher=launcher.kind
    )
    bench.prepare(
        case=case,
        nodes=list(launcher.nodes),
        command=launcher.command(
            devito.program(
                problem,
                placement,
                python=parameters["program"]
                or os.path.join(parameters["prefix"], "venv", "bin", "python"),
                driver=os.path.join(parameters["prefix"], "devito_driver.py"),
                repeats=parameters["repeats"],
                autotune=parameters["autotune"],
                jit_dir=jit_dir,
                tuning=parameters["tuning"],
            ),
            per_node=placement.ranks,
            variables=variables,
            placement=placement,
            binds_itself=True,
            name=f"trueup-devito-{nodes}",
            limit_seconds=parameters["timeout_seconds"],
        ),
        environment={**variables, **launcher.variables(ranks)},
        parameters=dict(
            problem.parameters(),
            layout=f"{placement.ranks}x{placement.threads_per_rank}",
            binding=placement.binding,
            mpi=parameters["mpi_mode"] if ranks > 1 else "off",
            launcher=launcher.kind,
            language="openmp",
            repeats=parameters["repeats"],
            autotune=parameters["autotune"],
            scaling=parameters["scaling"],
            **({"sized_by": parameters["sized_by"]} if parameters["sized_by"] else {}),
        ),
        ranks=ranks,
        threads_per_rank=placement.threads_per_rank,
    )
    try:
        os.makedirs(jit_dir, exist_ok=True)
    except OSError as error:
        bench.refuse(f"{jit_dir} cannot be made: {error.strerror}; set prefix to a folder of yours")
    output = bench.run(parse_devito, explain=devito.explain, start=launcher.run)
    bench.case.software.update(output.software)
    bench.case.parameters["block_shape"] = "x".join(str(size) for size in output.tuned.values())
    if output.tuning.found_at:
        bench.case.parameters["tuning"] = "reused" if output.tuning.reused else "found"
        bench.case.parameters["tuned_at"] = output.tuning.found_at
    fraction = devito.roofline_fraction(
        output, parameters["memory_bandwidth"], parameters["peak_flops"]
    )
    bench.finish(
        metrics=output.metrics() + ([fraction] if fraction else []),
        invalid=devito.judge(
            output,
            placement,
            repeats=parameters["repeats"],
            reference_norms={
                name: float(norm) for name, norm in parameters["reference_norms"].items()
            },
            tolerance=parameters["norm_tolerance"],
            node_count=nodes,
        ),
    )


def main() -> None:
    run_module("devito", devito.OPTIONS, measure)


if __name__ == "__main__":
    main()
