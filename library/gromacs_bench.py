#!/usr/bin/python
"""Ansible module: measure GROMACS' mdrun and return a record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gromacs_bench
short_description: Measure molecular dynamics with GROMACS
version_added: "0.2.0"
description:
  - Runs mdrun of GROMACS for a number of steps and returns steps/s and ns/day as a record. The
    first part of the steps is not timed (O(reset_step)).
  - The input is a C(.tpr) file, whose sha256 is checked, or a box of SPC water that is built with
    GROMACS' own programs and brought to 300 K. Building is not part of the time measured.
  - The run is in a new folder below O(directory), which is removed at the end.
  - A run of other ranks, threads or steps than asked for, of which a part ran on the CPU that was
    to be on a GPU, whose constraints did not hold, or whose conserved energy drifts more than
    O(drift_allowed), gives a record with outcome C(invalid).
  - One node; the role P(gromacs#role) installs what it needs.
extends_documentation_fragment: trueup_options.gromacs
"""

EXAMPLES = r"""
- name: Measure a box of water on 2 ranks of 4 threads
  gromacs_bench:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
    prefix: /opt/trueup/gromacs
    water_box: 6
    ranks: 2
    threads_per_rank: 4

- name: Measure an input on two GPUs with the GROMACS of EESSI
  gromacs_bench:
    prefix: /opt/trueup/gromacs
    source: eessi
    eessi_init: /cvmfs/software.eessi.io/versions/2023.06/init/lmod/bash
    eessi_module: GROMACS/2024.4-foss-2023b-CUDA-12.4.0
    tpr: /mnt/resource_nvme/benchPEP-h.tpr
    tpr_sha256: "{{ benchpep_sha256 }}"
    ranks: 2
    pme_ranks: 1
    threads_per_rank: 12
    nb: gpu
    pme: gpu
    bonded: gpu
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"
"""

RETURN = r"""
record: {description: "The record of the case (more in the notes)", type: dict, returned: always}
"""

import os
import sys
import tempfile
from typing import Any, Dict, Optional

from ansible.module_utils.trueup_node.benchmarks.gromacs import case as gromacs
from ansible.module_utils.trueup_node.benchmarks.gromacs.output import parse_log
from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import folders, mpi
from ansible.module_utils.trueup_node.run.bench import Bench, run_module


def beside_path(parameters: Dict[str, Any]) -> Optional[mpi.Mpi]:
    """The node's MPI where it is on no PATH and the program is the node's: EESSI and images have
    their own."""
    node_mpi = mpi.of(parameters["node"])
    asked_for = parameters["source"] == "system" and parameters["mpirun"] == "mpirun"
    return node_mpi if asked_for and node_mpi and node_mpi.environment else None


def variables(parameters: Dict[str, Any]) -> Dict[str, str]:
    """Variables of the program: the MPI's and the user's, and leave for root to use mpirun."""
    node_mpi = beside_path(parameters)
    environment = dict(node_mpi.environment) if node_mpi else {}
    environment.update({str(name): str(value) for name, value in parameters["environment"].items()})
    if os.geteuid() == 0 and parameters["ranks"] > 1:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return environment


def prepare(bench: Bench, chosen: gromacs.Settings, folder: str) -> None:
    """Set the case; in check mode this ends the module."""
    parameters = bench.given
    node_mpi = beside_path(parameters)
    bench.prepare(
        case=chosen.case,
        command=gromacs.command(
            chosen,
            python=sys.executable,
            driver=os.path.join(parameters["prefix"], "gromacs_driver.py"),
            program=parameters["program"],
            mpirun=node_mpi.path if node_mpi else parameters["mpirun"],
            folder=folder,
            variables=sorted(variables(parameters)),
        ),
        environment=variables(parameters),
        parameters=dict(
            chosen.parameters(),
            program=parameters["program"],
            drift_allowed=parameters["drift_allowed"],
        ),
        software=chosen.software(),
        ranks=chosen.ranks,
        threads_per_rank=chosen.threads,
    )


def measure(bench: Bench) -> None:
    parameters = bench.given
    directory = parameters["directory"] or tempfile.gettempdir()
    chosen = gromacs.settings(parameters, cpus=len(os.sched_getaffinity(0)))
    if bench.check:
        prepare(bench, chosen, folders.placeholder(directory, "gromacs"))
    folders.require_folder(directory)
    for path in filter(None, (*chosen.eessi[:1], *chosen.image[1:2])):
        if not os.path.isfile(path):
            raise BadInput(f"{path} is not a file on this node: is EESSI mounted, the image there?")
    if chosen.tpr and not os.path.isfile(chosen.tpr):
        raise BadInput(f"{chosen.tpr} is not a file on this node: copy it there, or set tpr")
    with folders.own_folder(directory, "gromacs") as folder:
        prepare(bench, chosen, folder)
        output = bench.run(parse_log, explain=gromacs.why_failed)
    bench.case.gpus = output.gpus
    bench.case.software["gromacs"] = output.tool_version or "unknown"
    bench.case.parameters.update(
        atoms=output.atoms,
        dt_ps=output.dt_ps,
        pme_ranks=output.pme_ranks,
        steps_timed=output.steps_timed,
        tpr_sha256=output.driver.get("tpr_sha256", ""),
        mdrun=output.driver.get("mdrun", ""),
        **output.build,
        **output.offload,
    )
    bench.finish(
        metrics=output.metrics(),
        invalid=gromacs.judge(output, chosen, drift_allowed=parameters["drift_allowed"]),
    )


def main() -> None:
    run_module("gromacs", gromacs.OPTIONS, measure)


if __name__ == "__main__":
    main()
