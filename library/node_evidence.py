#!/usr/bin/python
"""Ansible module: the traces of a fault on a node, in one archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_evidence
author: trueup contributors (@trueup)
version_added: "0.3.0"
short_description: Collects the traces of a fault before a reboot removes them
description:
  - Kernel logs, GPUs, NVLink and fabric, InfiniBand, disks, versions, serial numbers, UUIDs, the
    physical host and the VM's ids, and the node's newest records, as texts in one archive.
    Credentials are redacted.
  - Each program has a time limit. One that does not answer is named, and nothing more is asked of
    it. Nothing is changed and no file is left on the node.
  - The action writes the archive on the controller, below O(folder), with a description beside it.
extends_documentation_fragment: trueup_options.node_evidence
attributes:
  check_mode:
    support: full
    description: Nothing is changed on the node anyway; in check mode nothing is collected.
  platform:
    support: full
    description: Linux.
    platforms: posix
"""

EXAMPLES = r"""
- name: Collect evidence of a fault
  node_evidence:
    folder: results/evidence
  become: true
"""

RETURN = r"""
archive:
  description: The archive (tar, gzip) in base64; the action replaces it by C(path).
  returned: from the module
  type: str
path: {description: Where the action wrote the archive., returned: success, type: str}
sha256: {description: Of the archive., returned: success, type: str}
node:
  description: The physical host, and ids of the instance metadata. Null where unknown.
  returned: success
  type: dict
parts:
  description:
    - The files of the archive, each with C(source), C(seconds), C(bytes) and the C(problem) that
      kept it out or cut it.
  returned: success
  type: list
  elements: dict
"""

import base64

from ansible.module_utils.trueup_node.errors import BadInput
from ansible.module_utils.trueup_node.node import evidence
from ansible.module_utils.trueup_node.node.metadata import METADATA_URL
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("limit_seconds", "Time limit of all programs together.", 180, least=1),
    Option("node", "The fact C(trueup_node), where the node is identified.", {}),
    Option("records", "The newest records of the node; from the action.", []),
    Option("metadata_url", "Address of Azure's instance metadata service.", METADATA_URL),
    Option("folder", "Folder on the controller for the archive.", required=True),
)


def main() -> None:
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    parameters = module.params
    if module.check_mode:
        module.exit_json(changed=False, archive="", node={}, parts=[])
    try:
        collected = evidence.collect(
            parameters["node"],
            parameters["records"],
            limit_seconds=parameters["limit_seconds"],
            metadata_url=parameters["metadata_url"],
        )
    except BadInput as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        archive=base64.b64encode(collected.archive).decode(),
        node=collected.node,
        parts=[part._asdict() for part in collected.parts],
    )


if __name__ == "__main__":
    main()
