#!/usr/bin/python
"""Ansible module: the contents of a node's scratch disks, and the steps that are due."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_facts
version_added: "0.4.0"
short_description: Publishes what local NVMe disks hold and what role nvme_scratch would do
description:
  - Looks at the local NVMe disks as the program of role C(nvme_scratch) does at boot, and publishes
    one fact, C(trueup_scratch). It needs root.
  - It fails where a disk holds something that is not the role's, and names it.
extends_documentation_fragment: [trueup_facts, trueup_options.scratch_facts]
"""

EXAMPLES = r"""
- name: Check the disks
  scratch_facts:
    settings: "{{ lookup('ansible.builtin.file', 'nvme_scratch.json') | from_json }}"
  become: true
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    trueup_scratch:
      description: The disks, and what is to be done.
      returned: always
      type: dict
      contains:
        state:
          description: V(none), V(make), V(rebuild), V(assemble), V(ready) or V(kept).
          type: str
        disks: {description: Names of the disks that it is about., type: list, elements: str}
        device:
          description: Name of the device that has or gets the file system; empty for a new array.
          type: str
        mounted: {description: Whether the file system is mounted at its place., type: bool}
        steps:
          description: What is to be done. In check mode the module is changed where there is any.
          type: list
          elements: str
"""

import json

from ansible.module_utils.trueup_node.node.scratch.program import outcome
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "settings",
        "The configuration of the program, as C(/etc/trueup/nvme_scratch.json) has it.",
        type="dict",
        required=True,
    ),
)


def main() -> None:
    """Look and publish."""
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    scratch = outcome(json.dumps(module.params["settings"]), check=True)
    problems = scratch.pop("problems")
    if problems:
        module.fail_json(msg=" ".join(problems))
    # Due steps are a change of the role, which in check mode nothing else tells.
    changed = module.check_mode and bool(scratch["steps"])
    module.exit_json(changed=changed, ansible_facts={"trueup_scratch": scratch})


if __name__ == "__main__":
    main()
