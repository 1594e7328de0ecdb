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
options:
  prefix:
    description: Folder on the node where the role put its driver.
    type: path
    required: true
  source:
    description: Where the program comes from - V(system) is what the node has, V(eessi) a module of
      EESSI, V(container) an image.
    type: str
    choices: [system, eessi, container]
    default: system
  eessi_init:
    description: EESSI's file to source, C(init/lmod/bash) of a version.
    type: path
  eessi_module:
    description: Module to load, name and version.
    type: str
  container_runtime:
    description: What runs the image.
    type: str
    choices: [apptainer, enroot]
    default: apptainer
  container_image:
    description: Image on the node. Needs O(container_sha256).
    type: path
  container_sha256:
    description: Its sha256; another file is refused.
    type: str
  program:
    description: GROMACS' program, C(gmx) or C(gmx_mpi), by name or as an absolute path.
    type: str
    default: gmx
  mpirun:
    description: Launcher for a program that was built with an MPI library.
    type: str
    default: mpirun
  environment:
    description: Variables for the program, such as UCX_TLS; they stand in the record.
    type: dict
    default: {}
  directory:
    description: Existing folder for the files of the run; empty means the system's for temporary
      files.
    type: path
    default: ""
  tpr:
    description: Input file on the node. Needs O(tpr_sha256).
    type: path
  tpr_sha256:
    description: Its sha256; another file is refused.
    type: str
  water_box:
    description: Edge in nm of a box of water to build; 0 means that O(tpr) is given. 2.5 nm are
      about 1500 atoms, 10 nm about 100000.
    type: float
    default: 0.0
  ranks:
    description: MPI ranks, or thread-MPI ranks where the program was built with that.
    type: int
    default: 1
  pme_ranks:
    description: Of the ranks, how many do PME alone; V(-1) leaves it to mdrun. PME on a GPU with
      more than one rank wants V(1).
    type: int
    default: -1
  threads_per_rank:
    description: OpenMP threads of each rank.
    type: int
    default: 1
  nb:
    description: Where short-ranged interactions are computed.
    type: str
    choices: [auto, cpu, gpu]
    default: auto
  pme:
    description: Where long-ranged electrostatics are computed.
    type: str
    choices: [auto, cpu, gpu]
    default: auto
  bonded:
    description: Where bonded interactions are computed.
    type: str
    choices: [auto, cpu, gpu]
    default: auto
  update:
    description: Where positions are updated and constrained.
    type: str
    choices: [auto, cpu, gpu]
    default: auto
  steps:
    description: Steps to do, whatever the input says.
    type: int
    default: 10000
  reset_step:
    description: Step from which time is counted; -1 means half of O(steps).
    type: int
    default: -1
  pin:
    description: Whether mdrun pins its threads to cores.
    type: str
    choices: ["on", "off", auto]
    default: "on"
  tune_pme:
    description: Let mdrun shift work between PME and short-ranged interactions during the run, as
      it does by itself. The work then depends on the run, and O(reset_step) must be after the
      tuning.
    type: bool
    default: false
  drift_allowed:
    description: Drift of the conserved energy above which a run is invalid, in kJ/mol/ps per atom.
      0.005 is what GROMACS' pair-list buffer is chosen for.
    type: float
    default: 0.005
extends_documentation_fragment: [trueup_bench]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure a box of water on 2 ranks of 4 threads
  gromacs_bench:
    prefix: /opt/trueup/gromacs
    water_box: 6
    ranks: 2
    threads_per_rank: 4
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

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
record:
  description: The record of the case (schema C(trueup.record/1)); null in check mode and when the
    input was refused.
  returned: always
  type: dict
raw:
  description: The log of mdrun; null when nothing ran.
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
  description: The record once more, as the fact C(trueup_gromacs).
  returned: success
  type: dict
  contains:
    trueup_gromacs:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

import os
import sys
import tempfile
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.gromacs import case as gromacs
from ansible.module_utils.trueup.benchmarks.gromacs.output import parse_gromacs
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.node import folders
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench


def argument_spec() -> Dict[str, Dict[str, Any]]:
    places = ["auto", "cpu", "gpu"]
    return dict(
        COMMON_SPEC,
        prefix={"type": "path", "required": True},
        source={"type": "str", "choices": list(gromacs.SOURCES), "default": "system"},
        eessi_init={"type": "path"},
        eessi_module={"type": "str"},
        container_runtime={
            "type": "str",
            "choices": list(gromacs.RUNTIMES),
            "default": "apptainer",
        },
        container_image={"type": "path"},
        container_sha256={"type": "str"},
        program={"type": "str", "default": "gmx"},
        mpirun={"type": "str", "default": "mpirun"},
        environment={"type": "dict", "default": {}},
        directory={"type": "path", "default": ""},
        tpr={"type": "path"},
        tpr_sha256={"type": "str"},
        water_box={"type": "float", "default": 0.0},
        ranks={"type": "int", "default": 1},
        pme_ranks={"type": "int", "default": -1},
        threads_per_rank={"type": "int", "default": 1},
        steps={"type": "int", "default": 10000},
        reset_step={"type": "int", "default": -1},
        pin={"type": "str", "choices": ["on", "off", "auto"], "default": "on"},
        tune_pme={"type": "bool", "default": False},
        drift_allowed={"type": "float", "default": 0.005},
        **{name: {"type": "str", "choices": places, "default": "auto"} for name in gromacs.OFFLOAD},
    )


def variables(given: Dict[str, Any]) -> Dict[str, str]:
    """What is set for the program: the user's variables, and leave for root to use mpirun."""
    found = {str(name): str(value) for name, value in given["environment"].items()}
    if os.geteuid() == 0 and given["ranks"] > 1:
        found.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return found


def prepare(bench: Bench, chosen: gromacs.Settings, given: Dict[str, Any], folder: str) -> None:
    """Set the case; in check mode this ends the module."""
    bench.prepare(
        case=chosen.case,
        command=gromacs.command(
            chosen,
            python=sys.executable,
            driver=os.path.join(given["prefix"], "gromacs_driver.py"),
            program=given["program"],
            mpirun=given["mpirun"],
            folder=folder,
            variables=sorted(variables(given)),
        ),
        environment=variables(given),
        parameters=dict(
            chosen.parameters(),
            program=given["program"],
            drift_allowed=given["drift_allowed"],
        ),
        software=chosen.software(),
        ranks=chosen.ranks,
        threads_per_rank=chosen.threads,
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "gromacs")
    directory = given["directory"] or tempfile.gettempdir()
    try:
        chosen = gromacs.settings(given, cpus=len(os.sched_getaffinity(0)))
        if module.check_mode:
            prepare(bench, chosen, given, folders.placeholder(directory, "gromacs"))
        folders.require_folder(directory)
        for path in filter(None, (*chosen.eessi[:1], *chosen.image[1:2])):
            if not os.path.isfile(path):
                raise BadInput(
                    f"{path} is not a file on this node: is EESSI mounted, the image there?"
                )
        if chosen.tpr and not os.path.isfile(chosen.tpr):
            raise BadInput(f"{chosen.tpr} is not a file on this node: copy it there, or set tpr")
        with folders.own_folder(directory, "gromacs") as folder:
            prepare(bench, chosen, given, folder)
            output = bench.run(parse_gromacs, explain=gromacs.why_failed)
    except BadInput as error:
        bench.refuse(str(error))
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
        invalid=gromacs.judge(output, chosen, drift_allowed=given["drift_allowed"]),
    )


if __name__ == "__main__":
    main()
