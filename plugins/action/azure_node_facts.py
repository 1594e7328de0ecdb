"""Identify a node by what the plays' variables say of it; what a task gives itself goes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from trueup import benchmarks
from trueup.node.sizes import read_sizes

_SIZES = Path(benchmarks.__file__).parents[3] / "catalog" / "vm_sizes.csv"
# The module's options and the variables that say them.
_VARIABLES = {
    "vm_size": "trueup_vm_size",
    "metadata_url": "trueup_metadata_url",
    "sysfs_root": "trueup_sysfs_root",
    "procfs_root": "trueup_procfs_root",
    "mpi": "trueup_mpi",
    "hcoll": "hpcx_hcoll",
    "families": "trueup_families",
}


class ActionModule(ActionBase):
    """Ansible's entry."""

    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the module azure_node_facts returns."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        given = {
            option: self._templar.template(variables[name])
            for option, name in _VARIABLES.items()
            if name in variables
        }
        # As text: the module's own form of it takes longer for each node.
        whole = {"vm_size": "", "catalog": json.dumps(read_sizes(str(_SIZES)))}
        # A variable without a value says nothing.
        whole.update({option: value for option, value in given.items() if value is not None})
        arguments = {**whole, **self._task.args}
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result
