#!/usr/bin/python
"""Ansible module: is the NVIDIA driver one whole?"""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
author: trueup contributors
version_added: "0.2.0"
short_description: Publishes the state of the NVIDIA driver and what disagrees in it
description:
  - Reads the loaded kernel module, asks nvidia-smi, nv-fabricmanager and systemctl, and publishes
    one fact, C(trueup_gpu), with a list of named problems.
  - It changes nothing and needs no root.
options:
  expected:
    description:
      - What the node is to be - C(driver_version), C(gpus) (a count), C(fabric_manager),
        C(peermem), C(persistence), C(dcgm) and C(secure_boot) (booleans).
      - What is not given is not judged.
    type: dict
    default: {}
  settle_seconds:
    description:
      - How long to wait for units that are starting.
    type: int
    default: 30
  sysfs_root:
    description:
      - Where to read modules and GPUs from. Anything but V(/sys) is another machine's recorded
        tree.
    type: path
    default: /sys
  procfs_root:
    description:
      - Where to read the loaded driver's version from.
    type: path
    default: /proc
attributes:
  check_mode:
    support: full
    description: It only reads.
  diff_mode:
    support: none
    description: It only reads.
  facts:
    support: full
    description: Returns the fact C(trueup_gpu).
  platform:
    support: full
    description: Linux.
    platforms: linux
"""

EXAMPLES = r"""
- name: See whether the driver is whole
  gpu_facts:
    expected:
      driver_version: 580.126.16
      fabric_manager: true
      peermem: true
      gpus: 8

- name: Refuse what disagrees
  ansible.builtin.assert:
    that: ansible_facts['trueup_gpu']['problems'] | length == 0
    fail_msg: "{{ ansible_facts['trueup_gpu']['problems'] | map(attribute='message') | join(' ') }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    trueup_gpu:
      description: The driver's state. A member is null when it is absent or could not be found out.
      returned: always
      type: dict
      contains:
        kernel_module:
          description: Version of the loaded kernel module nvidia.
          type: str
          sample: 580.126.16
        user_space:
          description: Version of the user-space libraries, as nvidia-smi says.
          type: str
        fabric_manager:
          description: Version of nv-fabricmanager.
          type: str
        modules:
          description: Which of nvidia, nvidia_uvm, nvidia_peermem, gdrdrv and nouveau are loaded.
          type: list
          elements: str
        units:
          description: The state of NVIDIA's units that are installed.
          type: dict
        gpus_on_pci:
          description: How many NVIDIA GPUs the PCI bus shows.
          type: int
        gpus:
          description: How many GPUs nvidia-smi shows.
          type: int
        persistent:
          description: How many GPUs have persistence mode on.
          type: int
        reboot_required:
          description: Whether a problem is mended by a reboot.
          type: bool
        problems:
          description: What disagrees, each with C(name), C(message) and C(reboot).
          type: list
          elements: dict
"""

import dataclasses
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup import gpu_driver
from ansible.module_utils.trueup.errors import TrueupError

C_LOCALE = {"LC_ALL": "C", "LANG": "C"}


def _driver(module: AnsibleModule) -> gpu_driver.Driver | None:
    """What nvidia-smi says; None where it is not installed."""
    tool = module.get_bin_path("nvidia-smi")
    if tool is None:
        return None
    argv = [tool, f"--query-gpu={gpu_driver.DRIVER_QUERY}", "--format=csv"]
    status, out, error = module.run_command(argv, environ_update=C_LOCALE)
    return gpu_driver.parse_driver_query(status, out if status == 0 else out + error)


def _fabric_manager(module: AnsibleModule) -> str | None:
    """The version of nv-fabricmanager; None where it is not installed."""
    tool = module.get_bin_path("nv-fabricmanager")
    if tool is None:
        return None
    _, out, error = module.run_command([tool, "--version"], environ_update=C_LOCALE)
    return gpu_driver.parse_fabric_manager(out + error)


def _units(module: AnsibleModule, settle_seconds: int) -> dict[str, str]:
    """The units' states, once none is starting."""
    tool = module.get_bin_path("systemctl")
    if tool is None:
        return {}
    end = time.monotonic() + settle_seconds
    argv = [tool, "show", "--property=Id,LoadState,ActiveState", *gpu_driver.UNITS]
    while True:
        units = gpu_driver.parse_units(module.run_command(argv, environ_update=C_LOCALE)[1])
        if "activating" not in units.values() or time.monotonic() > end:
            return units
        time.sleep(1)


def main() -> None:
    """Ask everything once, and publish the fact."""
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "dict", "default": {}},
            "settle_seconds": {"type": "int", "default": 30},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "procfs_root": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        # The units first: persistence mode is what one of them sets. What is loaded last: units
        # that are still starting, and nvidia-smi, load modules.
        units = _units(module, wanted["settle_seconds"])
        driver, fabric_manager = _driver(module), _fabric_manager(module)
        found = dataclasses.replace(
            gpu_driver.read_found(wanted["sysfs_root"], wanted["procfs_root"]),
            units=units,
            driver=driver,
            fabric_manager=fabric_manager,
        )
    except TrueupError as error:
        module.fail_json(msg=str(error))
    problems = gpu_driver.find_problems(found, wanted["expected"])
    fact = {
        "kernel_module": found.kernel_module,
        "user_space": None if driver is None else driver.version,
        "fabric_manager": found.fabric_manager,
        "modules": list(found.modules),
        "units": dict(found.units),
        "gpus_on_pci": found.gpus_on_pci,
        "gpus": None if driver is None else driver.gpus,
        "persistent": None if driver is None else driver.persistent,
        "reboot_required": any(problem["reboot"] for problem in problems),
        "problems": problems,
    }
    module.exit_json(changed=False, ansible_facts={"trueup_gpu": fact})


if __name__ == "__main__":
    main()
