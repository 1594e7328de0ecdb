#!/usr/bin/python
"""Ansible module: run High-Performance Linpack on one node and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hpl_bench
short_description: Run High-Performance Linpack (xhpl, NVIDIA's HPL or hpcc)
version_added: "0.2.0"
description:
  - Writes HPL's input for this machine (order from its memory, grid from its ranks), runs it in a
    folder of its own, which is removed afterwards, and returns rate, time and residual as a record.
  - The residual decides whether the record is C(ok) or C(invalid); so does the grid. hpcc runs a
    problem of its own, with exit status 0, where it cannot use the one that it was given; such a
    run is C(invalid).
  - A program that loads the reference BLAS is refused. hpcc also runs its other tests before HPL,
    and some of them take longer the larger the matrix is - minutes at an order of 6000, see
    docs/hpl.md.
  - The role P(hpl#role) installs the distribution's hpcc.
extends_documentation_fragment: trueup_options.hpl
"""

EXAMPLES = r"""
- name: Measure the node with the distribution's hpcc
  hpl_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

- name: Measure eight GPUs of 80 GiB with NVIDIA's HPL
  hpl_bench:
    program: /workspace/hpl.sh
    arguments: [--dat, HPL.dat]
    gpus: 8
    memory_bytes: 687194767360
    nb: 1024
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os
import tempfile
from typing import Tuple

from ansible.module_utils.trueup.benchmarks.hpl import case as hpl
from ansible.module_utils.trueup.benchmarks.hpl.output import parse_hpl
from ansible.module_utils.trueup.node import mpi, tools
from ansible.module_utils.trueup.node.affinity import plan
from ansible.module_utils.trueup.node.gpu_places import bound
from ansible.module_utils.trueup.node.memory import available_memory_bytes
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.run.bench import Bench, run_module

_RECORDED = ("nb", "gpus", "binding", "max_n", "memory_fraction")


def programs(bench: Bench, wanted: str, ranks: int) -> Tuple[str, str, str]:
    """Paths of the program and of mpirun, and the BLAS that it loads. A node that is not set up yet
    has none of them: check mode shows their names."""
    program, mpirun = bench.module.get_bin_path(wanted), bench.module.get_bin_path("mpirun")
    found = mpi.of(bench.given["node"])
    if found and found.environment:
        mpirun = found.path
    if bench.check:
        return program or wanted, mpirun or "mpirun", ""
    hpl.require(wanted, program, mpirun, ranks)
    # It starts the program as far as its libraries.
    loads = tools.ask(bench.module, ["ldd", program])
    if loads.status is None and not loads.absent:
        bench.fail(f"{program}: {loads.note}")
    blas = hpl.blas_of(loads.output)
    return program, mpirun or "mpirun", blas or ""


def measure(bench: Bench) -> None:
    given = bench.given
    wanted = given["program"] or hpl.HPCC
    topology = read_topology(allowed=os.sched_getaffinity(0))
    ranks, threads = hpl.layout(
        topology, **{key: given[key] for key in ("ranks", "threads_per_rank", "gpus")}
    )
    placement = bound(given["gpu_masks"], ranks, threads) or plan(
        topology, ranks=ranks, threads_per_rank=threads, binding=given["binding"]
    )
    hpl.require_memory_of_gpus(given["gpus"], given["memory_bytes"])
    order = hpl.order(
        **{key: given[key] for key in ("n", "nb", "max_n", "memory_fraction")},
        memory_bytes=given["memory_bytes"] or available_memory_bytes(),
    )
    program, mpirun, blas = programs(bench, wanted, ranks)
    found = mpi.of(given["node"])
    problem = hpl.Problem(order, given["nb"], *hpl.grid(ranks))
    with tempfile.TemporaryDirectory(prefix="trueup-hpl-") as folder:
        bench.prepare(
            # What fits in the memory that is free differs from one time to the next.
            momentary=() if given["n"] or given["memory_bytes"] else ("n",),
            case=f"n{order}-nb{given['nb']}-{problem.grid}-t{threads}-{given['binding']}",
            command=hpl.command(
                placement,
                program=program,
                arguments=given["arguments"],
                mpirun=mpirun,
                folder=folder,
            ),
            environment={
                **(found.environment if found else {}),
                **hpl.environment(placement, root=os.geteuid() == 0, gpus=given["gpus"]),
            },
            parameters={
                **{name: given[name] for name in _RECORDED},
                "program": wanted,
                "n": order,
                "grid": problem.grid,
                "ranks_asked": given["ranks"],
                "threads_asked": given["threads_per_rank"],
                "n_asked": given["n"],
                "memory_asked": given["memory_bytes"],
            },
            ranks=ranks,
            threads_per_rank=threads,
            gpus=given["gpus"],
        )
        with open(os.path.join(folder, hpl.input_name(wanted)), "w") as stream:
            stream.write(hpl.input_file(problem))
        output = bench.run(parse_hpl)
    bench.case.software.update({"hpl": output.tool_version or "unknown"})
    if blas:
        bench.case.software["blas"] = blas
    bench.finish(metrics=output.metrics(), invalid=hpl.judge(output, problem))


def main() -> None:
    run_module("hpl", hpl.OPTIONS, measure)


if __name__ == "__main__":
    main()
