"""Helpers of the actions in plugins/action: they ask a Windows host, and run one another on the
controller.
"""

# ruff: noqa: SLF001 WHY: Ansible hands an action its tools in these members alone.
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleUndefinedVariable

from .project import full_name


def ask(
    action: Any, variables: dict[str, Any] | None, module: str, /, **arguments: Any
) -> dict[str, Any]:
    """The result of a module of ansible.windows, or of the collection named; also that it failed.
    Arguments that are None are left out."""
    full_name = module if "." in module else f"ansible.windows.{module}"
    module_arguments = {name: value for name, value in arguments.items() if value is not None}
    response: dict[str, Any] = action._execute_module(
        module_name=full_name, module_args=module_arguments, task_vars=variables
    )
    return response


def node_of(action: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The node's identity, the variable ``trueup_node``; empty on a host that nothing has
    identified, where the variable is the fact that is missing."""
    try:
        return action._templar.template(variables.get("trueup_node") or {}) or {}
    except AnsibleUndefinedVariable:
        return {}


def fragment(name: str) -> str:
    """The text of a fragment of PowerShell, ``NAME.ps1`` beside this file."""
    return (Path(__file__).parent / "desktops" / f"{name}.ps1").read_text(encoding="utf-8")


@contextlib.contextmanager
def in_check_mode(action: Any, check_mode: bool) -> Iterator[None]:
    """The check mode of modules meanwhile, whatever the task's own mode is."""
    mode, action._task.check_mode = action._task.check_mode, check_mode
    try:
        yield
    finally:
        action._task.check_mode = mode


def beside(action: Any, name: str, arguments: dict[str, Any]) -> Any:
    """The action of that name for the host and task of ``action``, whose ``run`` then takes the
    task's variables."""
    loaders = action._shared_loader_obj
    task = action._task.copy()
    task.action, task.args = full_name(name), arguments
    return loaders.action_loader.get(
        full_name(name),
        task=task,
        connection=action._connection,
        play_context=action._play_context,
        loader=action._loader,
        templar=action._templar,
        shared_loader_obj=loaders,
    )


def answer_of(
    action: Any,
    name: str,
    arguments: dict[str, Any],
    variables: dict[str, Any],
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The result of a module on the node, or of the action of that name, such as windows_facts. A
    module of a collection is asked as a module, but for a command, which needs its
    ``environment``."""
    loader = action._shared_loader_obj.action_loader
    response: dict[str, Any]
    if environment is None and ("." in name or not loader.has_plugin(full_name(name))):
        response = action._execute_module(
            module_name=full_name(name), module_args=arguments, task_vars=variables
        )
        return response
    other = beside(action, name, arguments)
    if environment is not None:
        other._task.environment = [*(other._task.environment or []), dict(environment)]
    response = other.run(task_vars=variables)
    return response
