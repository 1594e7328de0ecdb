#!/usr/bin/python
"""Ansible module: start ranks as a benchmark would, and tell where each of them really is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_facts
version_added: "0.6.0"
short_description: Starts ranks on several nodes and tells where each of them really is
description:
  - Starts as many ranks as asked for with the launcher that benchmarks use, bound as they bind
    them, and has each tell its node and the CPUs that the kernel lets it use
    (C(/proc/self/status)), and hwloc's account of them where C(hwloc-bind) is installed.
  - Fails where a node does not answer, where ranks are missing or on the wrong node, and where one
    is bound to other CPUs than those planned. It takes a second or two, and is the check to run
    before hours of a large job are paid for.
  - With O(gpus) it fails too where a rank is not beside the GPU that it uses, by the PCI address of
    what C(CUDA_VISIBLE_DEVICES) names, or where two ranks of a node use the same one.
  - It changes nothing.
attributes:
  check_mode:
    support: full
    description: Says the command and starts nothing.
extends_documentation_fragment: [trueup_options.launcher, trueup_options.rank_facts]
"""

EXAMPLES = r"""
- name: See where Slurm puts 4 ranks of 30 threads on each of two nodes
  rank_facts:
    ranks: 4
    threads_per_rank: 30
    binding: numa
    nodes: [hb-1, hb-2]
    launcher: slurm
    job_directory: /shared/trueup

- name: See whether the ranks of a job on two NDv4 are beside their GPUs
  rank_facts:
    ranks: 8
    binding: gpu
    gpus: true
    gpu_masks: [ffffff000000, ffffff000000, ffffff, ffffff, ffffff000000000000000000,
                ffffff000000000000000000, ffffff000000000000, ffffff000000000000]
    node: "{{ trueup_node }}"
    nodes: [gpu-1, gpu-2]
    launcher: mpirun
"""

RETURN = r"""
command: {description: The command line., returned: always, type: list, elements: str}
planned:
  description: CPUs planned for the ranks of each node, as in C(0-3,8); empty where unbound.
  returned: always
  type: list
  elements: str
output_tail:
  description: The last lines that the ranks printed.
  returned: failure
  type: list
  elements: str
ansible_facts:
  description: The fact C(trueup_ranks).
  returned: success
  type: dict
  contains:
    trueup_ranks:
      description:
        - C(launcher), and of each rank C(node), C(cpus) (Cpus_allowed_list), C(hwloc) (the
          CPU set by hwloc-bind as a list of CPUs; null where it is not installed), C(number)
          (among the ranks of its node) and C(visible) (CUDA_VISIBLE_DEVICES; null where unset).
      type: dict
"""

import os
from typing import Any, Dict, Mapping

from ansible.module_utils.trueup_node.benchmarks.gpu_copy.case import cpus_beside
from ansible.module_utils.trueup_node.errors import BadInput, ParseError
from ansible.module_utils.trueup_node.node import mpi
from ansible.module_utils.trueup_node.node.affinity import Placement, plan
from ansible.module_utils.trueup_node.node.gpu_places import bound
from ansible.module_utils.trueup_node.node.topology import Topology, read_topology
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.redaction import redact
from ansible.module_utils.trueup_node.run import ranks
from ansible.module_utils.trueup_node.run.answer import AnsibleModule
from ansible.module_utils.trueup_node.run.launcher import LAUNCHER, Launcher
from ansible.module_utils.trueup_node.run.orphan_guard import Orphaned

OPTIONS = (
    Option(
        "node", "What M(azure_node_facts) published about the node, for its MPI and its GPUs.", {}
    ),
    Option("gpus", "Whether ranks use GPUs, one each.", False),
    Option(
        "gpu_masks",
        "Hexadecimal masks of the CPUs beside each GPU, in PCI order, as C(trueup topology show)"
        " prints them. Empty for what sysfs says.",
        [],
    ),
    Option("ranks", "Ranks of each node.", 1, least=None),
    Option("threads_per_rank", "CPUs of each rank.", 1, least=None),
    Option(
        "binding",
        "What each rank is bound to. C(none) leaves it to the operating system; C(gpu) is"
        " O(gpu_masks), as launches on GPUs are bound.",
        "core",
        choices=("none", "core", "l3", "numa", "gpu"),
    ),
    Option("timeout_seconds", "Time limit in seconds.", 120, least=None),
)

_GPU = "gpu"


def placed(parameters: Mapping[str, Any], machine: Topology) -> Placement:
    """The CPUs of a node's ranks.

    Raises:
        BadInput: they cannot be.
    """
    if parameters["binding"] != _GPU:
        layout = {name: parameters[name] for name in ("ranks", "threads_per_rank", "binding")}
        return plan(machine, **layout)
    placement = bound(parameters["gpu_masks"], parameters["ranks"], parameters["threads_per_rank"])
    if placement is None:
        raise BadInput("binding gpu needs gpu_masks, one for each rank of a node")
    return placement


def beside_gpus(parameters: Mapping[str, Any], machine: Topology) -> Dict[str, str]:
    """The CPUs beside each GPU, by its address; empty where GPUs are not asked about.

    Raises:
        BadInput: that is not known.
    """
    if not parameters["gpus"]:
        return {}
    gpus = parameters["node"].get("gpus") or []
    beside = cpus_beside(gpus, parameters["gpu_masks"], machine)
    if not beside.known:
        raise BadInput("sysfs does not say where the GPUs are: give gpu_masks")
    return {str(gpu.get("pci")): cpus for gpu, cpus in zip(gpus, beside.cpus)}


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec((*LAUNCHER, *OPTIONS)), supports_check_mode=True
    )
    parameters = module.params
    try:
        launcher = Launcher.asked(parameters, mpi.of(parameters["node"]))
        machine = read_topology(allowed=os.sched_getaffinity(0))
        placement, beside = placed(parameters, machine), beside_gpus(parameters, machine)
    except BadInput as error:
        module.fail_json(msg=str(error), command=[], planned=[], output_tail=[])
    command = launcher.command(
        ranks.GPU_PROBE if parameters["gpus"] else ranks.PROBE,
        per_node=placement.ranks,
        variables={},
        placement=placement,
        name="trueup-ranks",
        limit_seconds=parameters["timeout_seconds"],
    )
    planned = ranks.planned(placement)
    common = {"changed": False, "command": redact(command), "planned": planned}
    if module.check_mode:
        module.exit_json(ansible_facts={}, **common)
    total = placement.ranks * launcher.node_count
    tail = ""
    try:
        done = launcher.run(
            command,
            timeout_seconds=parameters["timeout_seconds"],
            environment=launcher.variables(total),
        )
        tail = done.printable().tail()
        parsed_ranks = ranks.parse_ranks(done.stdout)
        wrong = done.failure(parameters["timeout_seconds"]) or ranks.judge(
            parsed_ranks, placement, launcher.node_count
        )
        if beside and not wrong:
            wrong = ranks.judge_gpus(parsed_ranks, ranks.parse_gpus(done.stdout), beside)
    except (OSError, Orphaned, ParseError) as error:
        parsed_ranks, wrong = [], str(error)
    if wrong:
        module.fail_json(
            msg=f"launcher {launcher.kind}: {wrong}", output_tail=tail.splitlines(), **common
        )
    facts = {"launcher": launcher.kind, "ranks": [rank.as_fact() for rank in parsed_ranks]}
    module.exit_json(ansible_facts={"trueup_ranks": facts}, **common)


if __name__ == "__main__":
    main()
