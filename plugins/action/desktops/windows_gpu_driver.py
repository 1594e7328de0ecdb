"""Install the GRID driver of a Windows host, of which the role's plan says all."""

from __future__ import annotations

import fcntl
from http.client import HTTPException
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.urls import ConnectionError as NoConnection
from ansible.module_utils.urls import open_url
from ansible.plugins.action import ActionBase
from trueup_controller import actions
from trueup_controller.desktops import authenticode, windows_gpu
from trueup_node import bounded_http
from trueup_node.errors import BadInput, TrueupError

DOCUMENTATION = r"""
name: windows_gpu_driver
short_description: Install the GRID driver of a Windows host
description:
  - Finds the address of the driver by Azure's manifest, where the plan has none, and its sha256,
    which the controller learns once of a file of Microsoft's host that nobody publishes one of.
  - The host downloads it, compares its sha256, checks the signature where the site has not given
    that sha256, and runs it. Check mode finds the address and installs nothing.
options:
  driver:
    description: What the plan of the role windows_gpu says of it.
    type: dict
    required: true
"""

_SECONDS = 600
# Seconds to the last byte, and bytes. A GRID installer has about 1 GiB, the manifest some KiB.
_DRIVER_LIMITS = (3600, 4 * 2**30)
_MANIFEST_LIMITS = (60, 2**20)


class ActionModule(ActionBase):
    """Ansible's entry."""

    _VALID_ARGS = frozenset({"driver"})

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``changed``, the driver's ``version`` and ``url``; of an installer ``exit_status``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        driver = self._task.args["driver"]
        version = str(driver["version"])
        if not driver["missing"]:
            result.update(changed=False, msg="a driver is installed")
            return result
        try:
            url = _address(driver)
            result.update(changed=True, version=version, url=url)
            if not self._task.check_mode:
                result["exit_status"] = self._install(driver, url, _sha256(driver, url), task_vars)
        except (TrueupError, OSError) as error:
            raise AnsibleActionFail(f"windows_gpu: {error}") from error
        return result

    def _install(
        self, driver: dict[str, Any], url: str, sha256: str, variables: dict[str, Any] | None
    ) -> int:
        """The exit status of the installer, which is gone from the host afterwards."""

        def do(module: str, **arguments: Any) -> dict[str, Any]:
            response = actions.ask(self, variables, module, **arguments)
            # A status is judged by the caller, which knows its meaning.
            if response.get("failed") and module != "win_command":
                raise AnsibleActionFail(f"windows_gpu: {response.get('msg')}", result=response)
            return response

        file = driver["file"]
        check = {"checksum": sha256, "checksum_algorithm": "sha256"} if sha256 else {}
        do("win_file", path=file.rpartition("\\")[0], state="directory")
        do("win_get_url", url=url, dest=file, force=not sha256, url_timeout=_SECONDS, **check)
        try:
            if not driver["sha256"]:
                script = actions.fragment("signature")
                signature = do("win_powershell", script=script, parameters={"Path": file})
                wrong = authenticode.refusals(signature.get("result"), url)
                if wrong:
                    raise AnsibleActionFail(f"windows_gpu: {' '.join(wrong)}")
            ran = do("win_command", argv=driver["installer"])
        finally:
            do("win_file", path=file, state="absent")
        status = int(ran.get("rc", -1))
        reason = windows_gpu.ended(status, driver)
        if reason:
            raise AnsibleActionFail(f"windows_gpu: {reason}", result=ran)
        return status


def _address(driver: dict[str, Any]) -> str:
    manifest = driver["manifest"]
    path = Path(manifest["path"])
    if not driver["url"] and manifest["url"] and not path.is_file():
        _download(manifest["url"], path, *_MANIFEST_LIMITS)
    return windows_gpu.address(driver)


def _sha256(driver: dict[str, Any], url: str) -> str:
    """The sha256 that the host's file must have. Hosts that are configured at a time take turns, so
    that the controller downloads a driver once."""
    taken, pin = Path(driver["taken"]), Path(driver["pin"])
    with pin.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sha256, is_to_be_taken = windows_gpu.pinned(driver, url)
        if is_to_be_taken:
            _download(url, taken, *_DRIVER_LIMITS)
            sha256, _ = windows_gpu.pinned(driver, url)
        if taken.is_file():
            pin.write_text(f"{sha256}\n", encoding="ascii")
            taken.unlink()
    return sha256


def _download(url: str, path: Path, seconds: float, most_bytes: int) -> None:
    partial_path = path.with_name(f"{path.name}.part")
    try:
        with partial_path.open("wb") as file:
            bounded_http.save(
                lambda: open_url(url, timeout=60), file, seconds, most_bytes
            ).checked()
    except (OSError, HTTPException, NoConnection) as error:
        partial_path.unlink(missing_ok=True)
        raise BadInput(
            f"the controller cannot download {url} ({error}): see its way there, or give a mirror"
            " (windows_gpu_manifest; windows_gpu_url with windows_gpu_checksums)"
        ) from error
    partial_path.replace(path)
