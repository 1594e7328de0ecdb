"""The GPUs of a Windows host, its driver and its licence, as fact trueup_gpu."""

from __future__ import annotations

import functools
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from trueup_controller import actions
from trueup_controller.desktops import gpu
from trueup_node.errors import TrueupError

DOCUMENTATION = r"""
name: windows_gpu_facts
short_description: The state of the NVIDIA driver of a Windows host, and what disagrees in it
description:
  - Asks Windows' device manager and nvidia-smi with modules of ansible.windows, and publishes the
    fact C(trueup_gpu) in the shape that M(gpu_facts) gives it, with C(adapters) (C(device),
    C(name), C(error_code)), C(booted) and C(asked_at) (UTC), C(verdict) (all that is wrong, for a
    reader) and C(driver_model) of each device.
  - It changes nothing. What the host does not have is null. nvidia-smi has no time limit there.
options:
  expected:
    description:
      - What the host is to be - C(driver_version), C(gpus) (a count), C(gpu_memory_gib) (of each)
        and C(booted_after) (a time). What is not given is not judged.
      - Where C(changes) is true, check mode judges nothing, for nothing was changed.
    type: dict
    default: {}
  settle_seconds:
    description: How long to wait for nvidia-smi, and for the licence of a slice of a GPU.
    type: int
    default: 30
"""


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"expected", "settle_seconds"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fact ``trueup_gpu``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        expected = dict(self._task.args.get("expected") or {})
        ask = functools.partial(self._ask, task_vars)
        try:
            # win_command runs nothing in check mode, and all that is run here is a question.
            with actions.in_check_mode(self, check_mode=False):
                response = ask("win_powershell", script=actions.fragment("devices"), depth=4)
                settle = int(self._task.args.get("settle_seconds", 30))
                fact = gpu.look(_Host(ask), response.get("result"), expected, settle)
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from error
        if self._task.check_mode and expected.get("changes"):
            fact.update(problems=[], reboot_required=False, verdict="")
        result.update(changed=False, ansible_facts={"trueup_gpu": fact})
        return result

    def _ask(
        self, variables: dict[str, Any] | None, module: str, **arguments: Any
    ) -> dict[str, Any]:
        response = actions.ask(self, variables, module, **arguments)
        # That a program fails is an answer of it; a host that is gone has none.
        if response.get("unreachable") or (response.get("failed") and "rc" not in response):
            raise AnsibleActionFail(f"{module}: {response.get('msg')}", result=response)
        return response


class _Host:
    """Runs the commands of ``tools.ask``: nvidia-smi of the host, where there is one."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask
        self._program: str | None = None

    def get_bin_path(self, name: str, opt_dirs: Any = None) -> str | None:
        """The path of nvidia-smi; None for programs that no Windows host has."""
        del opt_dirs
        if name == "nvidia-smi" and self._program is None:
            for path in gpu.PROGRAMS:
                stat: dict[str, Any] = self._ask("win_stat", path=path, get_checksum=False)
                if stat["stat"]["exists"]:
                    self._program = path
                    break
        return self._program if name == "nvidia-smi" else None

    def run_command(self, argv: list[str], **_options: Any) -> tuple[int, str, str]:
        """Exit status, standard output and standard error."""
        response: dict[str, Any] = self._ask("win_command", argv=argv)
        complaint = response.get("stderr") or (
            "" if "stdout" in response else response.get("msg", "")
        )
        return int(response.get("rc", 1)), response.get("stdout", ""), str(complaint)
