"""Actions of ours that run one another on the controller; what plugins/action has in common."""

# ruff: noqa: SLF001 WHY: Ansible hands an action what it works with in these members alone.
from __future__ import annotations

from typing import Any, Dict


def beside(action: Any, name: str, arguments: Dict[str, Any]) -> Any:
    """The action of that name for the host and task of ``action``, whose ``run`` then takes the
    task's variables."""
    loaders = action._shared_loader_obj
    task = action._task.copy()
    task.action, task.args = name, arguments
    return loaders.action_loader.get(
        name,
        task=task,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=loaders,
    )
