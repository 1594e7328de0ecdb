"""The documentation that all benchmark modules share, of the parameters in bench.COMMON_SPEC."""

from __future__ import annotations


class ModuleDocFragment:
    """Ansible's entry: ``extends_documentation_fragment: [trueup_bench]``."""

    DOCUMENTATION = r"""
options:
  run_id:
    description: Id of the run that the record belongs to.
    type: str
    required: true
  node_name:
    description: The node's name in the record.
    type: str
    required: true
  node:
    description: What M(azure_node_facts) published about the node.
    type: dict
    default: {}
  timeout_seconds:
    description: Time limit of the whole case; what still runs then is ended.
    type: int
    default: 1800
  earlier:
    description:
      - Of the records of the run, what must be equal for one to stand for this case; nothing is
        measured then. The action C(trueup_measure) gives them.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    support: full
    description: Returns the command that would run, and runs nothing.
"""
