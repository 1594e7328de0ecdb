#!/usr/bin/python
"""Ansible module: commands that change a node for a moment, and those that put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: evidence_steps
version_added: "0.9.0"
short_description: Changes a node for a moment, says what came of it, and puts it back
description:
  - Runs the steps of a row of catalog/acceptance.yml (action C(trueup_acceptance)) in their order,
    each within a time limit, until one fails. Then what puts the node back runs, in any case.
  - Nothing is begun, and no further step, while a job of Slurm or a process on a GPU runs there;
    nothing while a benchmark of trueup does.
attributes:
  check_mode:
    support: full
    description: Nothing is run.
extends_documentation_fragment: [trueup_facts, trueup_options.evidence_steps]
"""

EXAMPLES = r"""
- name: Take a link away for two seconds
  evidence_steps:
    steps:
      - {run: [ip, link, set, ib0, down], seconds: 10}
      - {run: [sleep, '2'], seconds: 10}
    restore:
      - {run: [ip, link, set, ib0, up], seconds: 10}
"""

RETURN = r"""
refused:
  description: Why nothing was begun, or why no further step was; null where all was done.
  returned: always
  type: str
steps:
  description: >-
    Of each that was started C(command), its exit C(status) (null where it did not end by itself),
    C(note) (why that is not 0; null where it is) and C(output), of both streams.
  returned: always
  type: list
  elements: dict
restored:
  description: The same, of what put the node back.
  returned: always
  type: list
  elements: dict
"""

from dataclasses import asdict

from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run import lock, steps
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "steps",
        "Commands, each with C(run), its argv, and the C(seconds) that it may take.",
        type="list",
        elements="dict",
        required=True,
    ),
    Option("restore", "The same, of which each runs.", type="list", elements="dict", required=True),
)


def main() -> None:
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    done = steps.Done(refused="check mode changes nothing")
    if not module.check_mode:
        try:
            with lock.locked(lock.node_lock(), timeout_seconds=5.0):
                done = steps.perform(
                    module.params["steps"], module.params["restore"], lambda: steps.at_work(module)
                )
        except OSError as error:  # a node that is taken among them
            done = steps.Done(refused=str(error))
    module.exit_json(changed=bool(done.steps), **asdict(done))


if __name__ == "__main__":
    main()
