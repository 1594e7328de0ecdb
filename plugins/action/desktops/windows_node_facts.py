"""Identify a Windows host: its metadata, its system and its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from trueup_controller import actions
from trueup_controller.desktops import answers, identify
from trueup_controller.project import CATALOG
from trueup_controller.sizes import read_sizes
from trueup_node.errors import TrueupError
from trueup_node.node import metadata as imds
from trueup_node.node.nvidia_smi import GPU_QUERY, Gpu, parse_nvidia_smi

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = r"""
name: windows_node_facts
short_description: Publishes what a Windows host is, by its own account and the catalog's
description:
  - Asks the host with modules of ansible.windows (C(setup), C(win_uri) for the instance metadata
    service, C(win_reg_stat), C(win_command) for nvidia-smi), and publishes the fact
    C(trueup_node), whose keys are those of M(azure_node_facts). It changes nothing.
  - M(azure_node_facts) runs it on hosts that are in the group C(windows).
options:
  vm_size:
    description: The size given by hand. It wins over what metadata says, with a warning.
    type: str
    default: ""
  metadata_url:
    description: Where the instance metadata service answers the host.
    type: str
"""

_SIZES = CATALOG / "vm_sizes.csv"
_NVIDIA_SMI = ["nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv"]
# For the whole answer, as trueup_node.node.metadata waits on a node.
_METADATA_SECONDS = 10


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"vm_size", "metadata_url"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The fact ``trueup_node``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        options = self._task.args

        def ask(module: str, **arguments: Any) -> dict[str, Any]:
            return actions.ask(self, variables, module, **arguments)

        try:
            facts = _good(ask("setup", gather_subset=identify.SUBSETS), "setup")["ansible_facts"]
        except OSError as error:
            # Of requests: the host took the connection, and does not answer.
            message = f"the host does not answer PowerShell remoting: {error}"
            raise AnsibleConnectionFailure(message) from error
        release = answers.registry_key(
            _good(ask("win_reg_stat", path=identify.CURRENT_VERSION), "win_reg_stat")
        )
        url = options.get("metadata_url") or imds.METADATA_URL
        came = ask(
            "win_uri",
            url=url,
            headers={"Metadata": "true"},
            use_proxy=False,
            follow_redirects="none",
            return_content=True,
            url_timeout=_METADATA_SECONDS,
        )
        try:
            node = identify.describe(
                _metadata(came),
                facts,
                (release or {}).get("values") or {},
                self._gpus(ask),
                given_size=str(options.get("vm_size") or "").strip() or None,
                catalog=read_sizes(str(_SIZES)),
            )
        except TrueupError as error:
            raise AnsibleActionFail(str(error)) from error
        result.update(changed=False, ansible_facts={"trueup_node": node})
        return result

    def _gpus(self, ask: Callable[..., dict[str, Any]]) -> tuple[Gpu, ...]:
        """The GPUs by nvidia-smi; none without a driver, which the roles install."""
        # In check mode win_command runs nothing, and this changes nothing.
        with actions.in_check_mode(self, check_mode=False):
            response = ask("win_command", argv=_NVIDIA_SMI)
        return gpus_of(response)


def _good(response: dict[str, Any], module: str) -> dict[str, Any]:
    if response.get("failed"):
        raise AnsibleActionFail(f"{module}: {response.get('msg')}", result=response)
    return response


def _metadata(came: dict[str, Any]) -> imds.Metadata:
    """The metadata by win_uri; without a status nothing answered."""
    if not came.get("failed"):
        return imds.of_body(str(came.get("content") or ""))
    status = came.get("status_code")
    if status is None:
        return imds.Metadata("absent", "nothing listens at the metadata address")
    return imds.Metadata("unusable", f"status {status}")


def gpus_of(response: dict[str, Any]) -> tuple[Gpu, ...]:
    """The GPUs by a host's nvidia-smi, run by win_command."""
    if response.get("failed") or response.get("rc") != 0:
        return ()
    return parse_nvidia_smi(str(response["stdout"]).replace("\r\n", "\n"))
