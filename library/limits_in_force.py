#!/usr/bin/python
"""Ansible module: limits and kernel settings in force, as they are wanted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: limits_in_force
author: trueup contributors (@trueup)
version_added: "0.4.0"
short_description: Compares limits and kernel settings in force with those wanted, and applies them
description:
  - Reads what is in force, writes what differs where that needs no reboot, and reads it again.
  - It does not fail when something still differs; RV(differs) says what.
attributes:
  check_mode:
    support: full
    description: Nothing is written.
  diff_mode:
    support: full
    description: Expected and found.
  platform:
    support: full
    description: Linux.
    platforms: linux
extends_documentation_fragment: trueup_options.limits_in_force
"""

EXAMPLES = r"""
- name: Reclaim memory of the own NUMA node first
  limits_in_force:
    wanted:
      sysctl: {vm.zone_reclaim_mode: 1}
  become: true
"""

RETURN = r"""
differs:
  description: What is not as wanted, a sentence each.
  returned: always
  type: list
  elements: str
  sample: ["sysctl vm.zone_reclaim_mode: expected 1, found 0."]
services_on:
  description: Units of C(services_off) that run or start at boot.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.trueup_node.node import limits, tools
from ansible.module_utils.trueup_node.options import Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "wanted",
        "C(login), limits of a login by name, as ulimit shows them; C(manager), systemd's defaults"
        " by property; C(sysctl), by name; C(sunrpc_tcp_slots); C(nfs_read_ahead_kib);"
        " C(transparent_hugepages); C(services_off), units that must not run. What is absent is"
        " not looked at.",
        type="dict",
        required=True,
    ),
)


def main() -> None:
    """Compare, put in force, compare again."""
    module = AnsibleModule(argument_spec=module_spec(OPTIONS), supports_check_mode=True)
    expected_limits = module.params["wanted"]
    notes: list[str] = []

    def run(*argv: str) -> str:
        response = tools.ask(module, argv, limit_seconds=120, folders=["/sbin", "/usr/sbin"])
        notes.extend(filter(None, [response.note]))
        return response.output

    before = limits.compare(expected_limits, run)
    after = before
    if before and not module.check_mode:
        notes.extend(limits.enforce(before, run))
        after = limits.compare(expected_limits, run)
    # If the limits are as requested, notes do not matter: a container has no udev to reload.
    for note in dict.fromkeys(notes if after else []):
        module.warn(note)
    module.exit_json(
        changed=bool(before),
        differs=limits.sentences(after),
        services_on=limits.services_on(run, expected_limits.get("services_off") or []),
        diff=_diff(before),
    )


def _diff(differences: dict[str, tuple[str, str]]) -> dict[str, str]:
    lines = sorted(differences.items())
    return {
        "before": "".join(f"{name}: {actual}\n" for name, (_, actual) in lines),
        "after": "".join(f"{name}: {expected}\n" for name, (expected, _) in lines),
    }


if __name__ == "__main__":
    main()
