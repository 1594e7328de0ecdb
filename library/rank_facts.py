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
  - It changes nothing.
options:
  ranks:
    description: Ranks of each node.
    type: int
    default: 1
  threads_per_rank:
    description: CPUs of each rank.
    type: int
    default: 1
  binding:
    description: What each rank is bound to. C(none) leaves it to the operating system.
    type: str
    choices: [none, core, l3, numa]
    default: core
  timeout_seconds:
    description: Time limit in seconds.
    type: int
    default: 120
attributes:
  check_mode:
    support: full
    description: Says the command and starts nothing.
extends_documentation_fragment: trueup_options.launcher
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
"""

RETURN = r"""
command:
  description: The command line.
  returned: always
  type: list
  elements: str
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
        - C(launcher), and of each rank C(node), C(cpus) (Cpus_allowed_list) and C(hwloc) (the
          CPU set by hwloc-bind as a list of CPUs; null where it is not installed).
      type: dict
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.errors import BadInput, ParseError
from ansible.module_utils.trueup.node.affinity import plan
from ansible.module_utils.trueup.node.topology import read_topology
from ansible.module_utils.trueup.options import module_spec
from ansible.module_utils.trueup.run import ranks
from ansible.module_utils.trueup.run.launcher import LAUNCHER, Launcher
from ansible.module_utils.trueup.run.process import Orphaned


def argument_spec() -> Dict[str, Dict[str, Any]]:
    return dict(
        module_spec(LAUNCHER),
        ranks={"type": "int", "default": 1},
        threads_per_rank={"type": "int", "default": 1},
        binding={"type": "str", "choices": ["none", "core", "l3", "numa"], "default": "core"},
        timeout_seconds={"type": "int", "default": 120},
    )


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    given = module.params
    try:
        launcher = Launcher.asked(given)
        placement = plan(
            read_topology(allowed=os.sched_getaffinity(0)),
            ranks=given["ranks"],
            threads_per_rank=given["threads_per_rank"],
            binding=given["binding"],
        )
    except BadInput as error:
        module.fail_json(msg=str(error), command=[], planned=[], output_tail=[])
    command = launcher.command(
        ranks.PROBE,
        per_node=placement.ranks,
        variables={},
        placement=placement,
        name="trueup-ranks",
        limit_seconds=given["timeout_seconds"],
    )
    common = {"changed": False, "command": command, "planned": ranks.planned(placement)}
    if module.check_mode:
        module.exit_json(ansible_facts={}, **common)
    total = placement.ranks * launcher.node_count
    tail = ""
    try:
        done = launcher.run(
            command,
            timeout_seconds=given["timeout_seconds"],
            environment=launcher.variables(total),
        )
        tail = done.tail()
        found = ranks.parse_ranks(done.stdout)
        wrong = done.failure(given["timeout_seconds"]) or ranks.judge(
            found, placement, launcher.node_count
        )
    except (OSError, Orphaned, ParseError) as error:
        found, wrong = [], str(error)
    if wrong:
        module.fail_json(
            msg=f"launcher {launcher.kind}: {wrong}", output_tail=tail.splitlines(), **common
        )
    facts = {"launcher": launcher.kind, "ranks": [rank.as_fact() for rank in found]}
    module.exit_json(ansible_facts={"trueup_ranks": facts}, **common)


if __name__ == "__main__":
    main()
