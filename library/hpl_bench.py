#!/usr/bin/python
"""Ansible module: run High-Performance Linpack on one node and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hpl_bench
short_description: Run High-Performance Linpack (xhpl, or NVIDIA's HPL container)
version_added: "0.2.0"
description:
  - Writes HPL's input (order from the memory, grid from the ranks), runs xhpl on one or several
    nodes, or NVIDIA's HPL in its container on one node, and returns rate, time and residual as a
    record. The input is in a folder of its own, which is removed afterwards.
  - The residual decides whether the record is C(ok) or C(invalid); so do order, block size and
    grid.
  - A program that loads the reference BLAS is refused.
  - The role P(hpl#role) builds xhpl from HPL's release, or pulls the container.
extends_documentation_fragment: trueup_options.hpl
"""

EXAMPLES = r"""
- name: Measure two nodes with an xhpl of the site
  hpl_bench:
    program: /opt/hpl/bin/xhpl
    nodes: [hb-1, hb-2]
    launcher: mpirun
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

- name: Measure eight GPUs of 80 GiB with NVIDIA's HPL container
  hpl_bench:
    program: /workspace/hpl.sh
    container_image: "{{ hpl_container_image }}"
    gpus: 8
    memory_bytes: 687194767360
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import hashlib
import os
import tempfile
from typing import Dict, List, Optional, Tuple

from ansible.module_utils.trueup_node.benchmarks.hpl import case as hpl
from ansible.module_utils.trueup_node.benchmarks.hpl.output import parse_hpl
from ansible.module_utils.trueup_node.node import mpi, tools
from ansible.module_utils.trueup_node.node.affinity import Placement, plan
from ansible.module_utils.trueup_node.node.gpu_places import bound
from ansible.module_utils.trueup_node.node.memory import available_memory_bytes
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.run.bench import Bench, run_module
from ansible.module_utils.trueup_node.run.launcher import Launcher, joined

_RECORDED = ("gpus", "binding", "max_n", "memory_fraction")
# The NDv4 article's: UCX carries the messages.
_IN_CONTAINER = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "^openib,smcuda"}
_CHUNK_BYTES = 1024**2


def checked(bench: Bench, launcher: Launcher, ranks: int) -> Tuple[str, str]:
    """The program's path, and the BLAS that it loads. Check mode shows the program's name: a node
    that is not set up yet does not have it."""
    program_name = bench.given["program"]
    program = bench.module.get_bin_path(program_name) if program_name else None
    if bench.check:
        return program or program_name, ""
    mpirun = launcher.path or (launcher.mpi.path if launcher.mpi else None)
    by_slurm = launcher.kind == "slurm"
    hpl.require(program_name, program, "srun" if by_slurm else mpirun, ranks)
    # It starts the program as far as its libraries.
    variables = launcher.mpi.environment if launcher.mpi else {}
    named = [f"{name}={value}" for name, value in variables.items()]
    loads = tools.ask(bench.module, [*(["env", *named] if named else []), "ldd", str(program)])
    if loads.status is None and not loads.absent:
        bench.fail(f"{program}: {loads.note}")
    return str(program), hpl.blas_of(loads.output) or ""


def require_file(bench: Bench, container: hpl.Container) -> None:
    """Refuse a file of another sha256."""
    if container.runtime != "enroot":
        return
    digest = hashlib.sha256()
    try:
        with open(container.image, "rb") as stream:
            for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""):
                digest.update(chunk)
    except OSError as error:
        bench.refuse(f"{container.image} cannot be read: {error.strerror}")
    if digest.hexdigest() != container.sha256:
        bench.refuse(
            f"{container.image} has the sha256 {digest.hexdigest()}, expected {container.sha256}"
        )


def started(
    bench: Bench, launcher: Launcher, placement: Placement, folder: str
) -> Tuple[List[str], Dict[str, str], str]:
    """The argv of the case, its variables, and the BLAS that the program loads."""
    parameters = bench.given
    container = hpl.Container.of(parameters)
    threads, per_node = placement.threads_per_rank, placement.ranks
    variables = hpl.environment(threads, gpus=parameters["gpus"])
    if container:
        if not bench.check:
            require_file(bench, container)
        program = parameters["program"] or hpl.NVIDIA_PROGRAM
        inside = hpl.in_container(program, parameters["arguments"], ranks=per_node, folder=folder)
        variables.update(_IN_CONTAINER)
        rdma = bool(parameters["node"].get("has_rdma"))
        argv = container.argv(inside, folder=folder, variables=variables, rdma=rdma)
        return argv, variables, ""
    ranks = per_node * launcher.node_count
    path, blas = checked(bench, launcher, ranks)
    argv = launcher.command(
        hpl.rank_argv(path, parameters["arguments"], folder),
        per_node=per_node,
        variables=variables,
        placement=placement,
        name=f"trueup-hpl-{launcher.node_count}",
        limit_seconds=parameters["timeout_seconds"],
    )
    return argv, joined(launcher.variables(ranks), variables), blas


def memory_bytes(bench: Bench, nodes: int) -> Optional[int]:
    """Memory of all nodes that the matrix may take a share of."""
    each: Optional[int] = bench.given["memory_bytes"] or available_memory_bytes()
    return None if each is None else each * nodes


def measure(bench: Bench) -> None:
    parameters = bench.given
    topology = read_topology(allowed=os.sched_getaffinity(0))
    launcher = Launcher.asked(parameters, mpi.of(parameters["node"]))
    nodes = launcher.node_count
    per_node, threads = hpl.layout(
        topology, **{key: parameters[key] for key in ("ranks", "threads_per_rank", "gpus")}
    )
    placement = bound(parameters["gpu_masks"], per_node, threads) or plan(
        topology, ranks=per_node, threads_per_rank=threads, binding=parameters["binding"]
    )
    hpl.require_memory_of_gpus(parameters["gpus"], parameters["memory_bytes"])
    container = hpl.Container.of(parameters)
    nb = hpl.block(parameters["nb"], parameters["gpus"])
    order = hpl.order(
        nb=nb,
        **{key: parameters[key] for key in ("n", "max_n", "memory_fraction")},
        memory_bytes=memory_bytes(bench, nodes),
    )
    problem = hpl.Problem(order, nb, *hpl.grid(per_node * nodes))
    by_slurm = launcher.kind == "slurm"
    shared = launcher.directory if by_slurm and not bench.check else None
    with tempfile.TemporaryDirectory(prefix="trueup-hpl-", dir=shared) as folder:
        command, environment, blas = started(bench, launcher, placement, folder)
        on_nodes = f"-{nodes}nodes-{launcher.kind}" if launcher.nodes else ""
        bench.prepare(
            # The order that fits in free memory differs from one time to the next.
            momentary=() if parameters["n"] or parameters["memory_bytes"] else ("n",),
            case=f"n{order}-nb{nb}-{problem.grid}-t{threads}-{parameters['binding']}{on_nodes}",
            nodes=list(launcher.nodes),
            command=command,
            environment=environment,
            parameters={
                **{name: parameters[name] for name in _RECORDED},
                "nb": nb,
                "program": os.path.basename(parameters["program"]) or "xhpl",
                "container": container.recorded if container else "none",
                "launcher": launcher.kind,
                "n": order,
                "grid": problem.grid,
                "ranks_asked": parameters["ranks"],
                "threads_asked": parameters["threads_per_rank"],
                "n_asked": parameters["n"],
                "memory_asked": parameters["memory_bytes"],
            },
            ranks=per_node * nodes,
            threads_per_rank=threads,
            gpus=parameters["gpus"],
        )
        with open(os.path.join(folder, hpl.INPUT), "w") as stream:
            stream.write(hpl.input_file(problem))
        output = bench.run(parse_hpl, start=launcher.run, gpus_alone=parameters["gpus"] > 0)
    bench.case.software.update({"hpl": output.tool_version or "unknown"})
    if blas:
        bench.case.software["blas"] = blas
    bench.finish(metrics=output.metrics(), invalid=hpl.judge(output, problem))


def main() -> None:
    run_module("hpl", hpl.OPTIONS, measure)


if __name__ == "__main__":
    main()
