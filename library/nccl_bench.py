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
options:
  operation:
    description: The collective; nccl-tests' program is named after it.
    type: str
    required: true
    choices: [all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv]
  binary_dir:
    description: Folder of nccl-tests' programs, on every node.
    type: path
    default: /opt/nccl-tests/build
  bytes_from:
    description: Smallest message in bytes.
    type: int
    default: 1024
  bytes_to:
    description: Largest message in bytes. nccl-tests reduces it to what fits in the GPU's memory.
    type: int
    default: 8589934592
  factor:
    description: Each size is the one before times this.
    type: int
    default: 2
  iterations:
    description: Timed operations of each size; nccl-tests prints their mean.
    type: int
    default: 20
  warmup:
    description: Operations of each size that are not timed.
    type: int
    default: 5
  cycles:
    description: How often all sizes are gone through; from 2 on each size has median, minimum and
      maximum.
    type: int
    default: 1
  gpus_per_node:
    description: GPUs used on each node.
    type: int
    required: true
  variables:
    description:
      - Environment variables of the run, name to value; inherited ones of NCCL, UCX and MPI are
        left out. Passed to all nodes.
      - Where C(NCCL_TOPO_FILE) is among them, that file must have been loaded, or none where it is
        empty.
    type: dict
    default: {}
  transports:
    description:
      - What must have been used. C(nvlink) is between the GPUs of a node; C(ib) is InfiniBand
        between nodes, or on one node where NCCL was told to use nothing else. Empty judges nothing.
    type: list
    elements: str
    choices: [nvlink, ib]
    default: []
  gpudirect:
    description: Whether networks must have read and written GPU memory (GPUDirect RDMA).
    type: bool
    default: false
extends_documentation_fragment: [trueup_bench, trueup_launcher]
author: trueup contributors (@trueup)
"""

EXAMPLES = r"""
- name: Measure all_reduce over NVLink
  nccl_bench:
    operation: all_reduce
    gpus_per_node: 8
    transports: [nvlink]
    variables:
      NCCL_TOPO_FILE: ""
      CUDA_DEVICE_ORDER: PCI_BUS_ID
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ trueup_node }}"

- name: Measure all_reduce over InfiniBand
  nccl_bench:
    operation: all_reduce
    gpus_per_node: 8
    nodes: [gpu-1, gpu-2]
    launcher: mpirun
    launcher_path: /opt/hpcx/ompi/bin/mpirun
    transports: [nvlink, ib]
    gpudirect: true
    variables:
      NCCL_TOPO_FILE: /opt/microsoft/ndv4/topo.xml
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
  description: What nccl-tests and NCCL printed; null when nothing ran.
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
  description: The record once more, as the fact C(trueup_nccl).
  returned: success
  type: dict
  contains:
    trueup_nccl:
      description: The record.
      type: dict
      returned: when the case ran and is ok
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.benchmarks.nccl import case as nccl
from ansible.module_utils.trueup.benchmarks.nccl.output import OPERATIONS, parse_nccl
from ansible.module_utils.trueup.errors import BadInput
from ansible.module_utils.trueup.run.bench import COMMON_SPEC, Bench
from ansible.module_utils.trueup.run.launcher import LAUNCHER_SPEC, Launcher


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return dict(
        COMMON_SPEC,
        **LAUNCHER_SPEC,
        operation={"type": "str", "required": True, "choices": list(OPERATIONS)},
        binary_dir={"type": "path", "default": "/opt/nccl-tests/build"},
        bytes_from={"type": "int", "default": 1024},
        bytes_to={"type": "int", "default": 8589934592},
        factor={"type": "int", "default": 2},
        iterations={"type": "int", "default": 20},
        warmup={"type": "int", "default": 5},
        cycles={"type": "int", "default": 1},
        gpus_per_node={"type": "int", "required": True},
        variables={"type": "dict", "default": {}},
        transports={
            "type": "list",
            "elements": "str",
            "choices": list(nccl.TRANSPORTS),
            "default": [],
        },
        gpudirect={"type": "bool", "default": False},
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    bench = Bench(module, "nccl")
    sweep = ("bytes_from", "bytes_to", "factor", "iterations", "warmup", "cycles")
    try:
        launcher = Launcher.asked(given)
        job = nccl.Job(
            binary_dir=given["binary_dir"],
            operation=given["operation"],
            gpus_per_node=given["gpus_per_node"],
            launcher=launcher,
            **{name: given[name] for name in sweep},
        )
        job.check()
        environment = nccl.environment(
            {name: str(value) for name, value in given["variables"].items()}
        )
    except BadInput as error:
        bench.refuse(str(error))

    bench.prepare(
        case=job.case,
        command=job.command(environment, given["timeout_seconds"]),
        environment={
            **environment,
            **launcher.variables(1 if launcher.kind == "local" else job.ranks),
        },
        nodes=list(launcher.nodes),
        ranks=job.ranks,
        gpus=job.ranks,
        parameters={
            "operation": job.operation,
            "gpus_per_node": job.gpus_per_node,
            "launcher": launcher.kind,
            **{name: given[name] for name in sweep},
        },
    )
    output = bench.run(parse_nccl, explain=nccl.explain, launcher=launcher)
    bench.case.software.update(nccl.software(output))
    # What was asked for stays where the output does not name the operation.
    bench.case.parameters.update({**output.parameters, "operation": job.operation})
    invalid = nccl.judge(
        output,
        job,
        transports=given["transports"],
        gpudirect=given["gpudirect"],
        topology_file=environment.get("NCCL_TOPO_FILE"),
    )
    bench.finish(metrics=output.metrics(), invalid=invalid)


if __name__ == "__main__":
    main()
