#!/usr/bin/python
"""Ansible module: a host's facts for Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_facts
version_added: "0.4.0"
short_description: Publishes what a host can do for Slurm
description:
  - Publishes one fact, C(trueup_slurm), by which role C(slurm) writes the configuration of the
    whole cluster. Slurm need not be installed.
extends_documentation_fragment: [trueup_facts, trueup_options.slurm_facts]
"""

EXAMPLES = r"""
- name: Check Slurm's capabilities of this host
  slurm_facts:
    plugins: /usr/lib/x86_64-linux-gnu/slurm-wlm
    names: [hb-1, hb-2]
"""

RETURN = r"""
unresolved:
  description: Those of O(names) that are not known by name here.
  returned: always
  type: list
  elements: str
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    trueup_slurm:
      description: The host.
      returned: always
      type: dict
      contains:
        hostname: {description: "Its own name, without domain.", type: str}
        cgroup: {description: "Version that Slurm can use, V(v1) or V(v2), or V(none).", type: str}
        cgroup_why: {description: Why it can use none., type: str}
        may_bind:
          description: Whether a daemon may set the CPUs of another user's processes.
          type: bool
        plugins:
          description: Which of C(mpi_pmix), C(cgroup_v1) and C(cgroup_v2) there are.
          type: list
          elements: str
        nvml: {description: Whether Slurm can find NVIDIA GPUs by itself., type: bool}
        version: {description: "Slurm's version; null where there is none.", type: str}
        slurm_uid: {description: Id of the user slurm; null where there is none., type: int}
"""

from ansible.module_utils.trueup_node.node import slurm_probe
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option("plugins", "Folder of Slurm's plugins.", type="path", required=True),
    Option("names", "Hosts that must be found by name.", []),
)


def main() -> None:
    """Look and publish."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    module.exit_json(
        changed=False,
        unresolved=slurm_probe.unresolved(parameters["names"]),
        ansible_facts={"trueup_slurm": slurm_probe.look(module, parameters["plugins"])},
    )


if __name__ == "__main__":
    main()
