#!/usr/bin/python
"""Ansible module: a record of a node's facts and its state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
author: trueup contributors (@trueup)
version_added: "0.3.0"
short_description: Makes a record of a node's parts, counters and versions
description:
  - Turns what M(azure_node_facts), M(gpu_facts) and M(ib_facts) found into a record, by which
    C(trueup health) judges the node and compares it with others of its size. Itself it looks at the
    kernel log, for the lines of O(watched), and asks systemd for services and mounts that the node
    is set to start and that do not run. What is not known has no row.
  - A record has the outcome C(invalid) where one of these modules found something wrong; the
    reason says what. The module does not fail then.
attributes:
  check_mode:
    support: full
    description: Nothing is changed anyway; in check mode no record is returned.
  platform:
    support: full
    description: Any.
    platforms: posix
extends_documentation_fragment: trueup_options.node_state
"""

EXAMPLES = r"""
- name: Keep what state the node is in
  node_state:
    run_id: 20261120T091300Z-7c1e
    node_name: "{{ inventory_hostname }}"
    node: "{{ ansible_facts['trueup_node'] }}"
    gpu: "{{ ansible_facts['trueup_gpu'] | default({}) }}"
    ib: "{{ ansible_facts['trueup_rdma'] | default({}) }}"
"""

RETURN = r"""
record:
  description: The record (schema C(trueup.record/1)); null in check mode.
  returned: always
  type: dict
raw: {description: "Always null, for there is no tool's output.", returned: always, type: str}
ansible_facts:
  description: The record once more, as the fact C(trueup_node_state).
  returned: always
  type: dict
  contains:
    trueup_node_state:
      description: The record.
      type: dict
      returned: always, empty in check mode
"""

from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import boot_units, watched_log
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.redaction import redact
from ansible.module_utils.trueup_node.run.answer import AnsibleModule
from ansible.module_utils.trueup_node.run.node_state import record_of

OPTIONS = (
    Option("run_id", "Id of the run that the record belongs to.", required=True),
    Option("node_name", "The node's name in the record.", required=True),
    Option("node", "The fact C(trueup_node).", type="dict", required=True),
    Option("gpu", "The fact C(trueup_gpu). Empty where there are no GPUs to look at.", {}),
    Option("ib", "The fact C(trueup_rdma). Empty where there are no RDMA devices to look at.", {}),
    Option(
        "watched",
        "Entries of catalog/faults whose lines of the kernel log it counts; from the action.",
        {},
    ),
)


def main() -> None:
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    if module.check_mode:
        module.exit_json(changed=False, record=None, raw=None, ansible_facts={})
    watched = watched_log.WatchedLog(None)
    try:
        if parameters["watched"]:
            watched = watched_log.look(module, parameters["watched"])
    except BadInput as error:
        module.fail_json(msg=str(error))
    if watched.note:
        module.warn(watched.note)
    record = redact(record_of(parameters, watched.counts, boot_units.look(module)))
    module.exit_json(
        changed=False, record=record, raw=None, ansible_facts={"trueup_node_state": record}
    )


if __name__ == "__main__":
    main()
