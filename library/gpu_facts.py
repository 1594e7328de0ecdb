#!/usr/bin/python
"""Ansible module: is the NVIDIA driver one whole?"""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
version_added: "0.2.0"
short_description: Publishes the state of the NVIDIA driver and what disagrees in it
description:
  - Reads the loaded kernel module, asks nvidia-smi, nv-fabricmanager, systemctl and dmesg, each
    within a time limit, and publishes one fact, C(trueup_gpu), with a list of named problems.
  - What a GPU does not have, and what could not be asked, is null and never 0; C(notes) says why.
  - It changes nothing and needs no root, but a kernel that hides its log from users
    (kernel.dmesg_restrict) shows XIDs to root only.
options:
  expected:
    description:
      - What the node is to be - C(driver_version), C(gpus) (a count), C(gpu_memory_gib) (of each),
        C(fabric_manager), C(peermem), C(persistence), C(dcgm) and C(secure_boot) (booleans).
      - What is not given is not judged.
    type: dict
    default: {}
  settle_seconds:
    description:
      - How long to wait for units that are neither active nor failed. One that is inactive is
        waited for where it is expected, since it may be started by another at boot. So long
        again a slice of a GPU is waited for that has no licence yet.
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
extends_documentation_fragment: trueup_facts
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
        devices:
          description:
            - Each GPU by PCI address; null where nvidia-smi does not answer. C(name),
              C(memory_bytes), C(licence) of a slice as nvidia-smi words it, C(clocks) in MHz,
              C(temperature_celsius), C(ecc) counts, C(ecc_by_memory)
              (the same since the last reset, of its SRAM and its memory), C(row_remap),
              C(throttle_reasons) that are active (an idle GPU has C(gpu idle)), and C(nvlinks) with
              C(active), C(total) and the numbers of C(inactive) links.
          type: list
          elements: dict
          sample:
            - pci: 0001:00:00.0
              name: NVIDIA A100-SXM4-40GB
              memory_bytes: 42949672960
              licence: null
              clocks: {sm_mhz: 1410, max_sm_mhz: 1410, memory_mhz: 1215}
              temperature_celsius: 34
              ecc:
                volatile: {corrected: 0, uncorrected: 0}
                aggregate: {corrected: 2, uncorrected: 0}
              ecc_by_memory:
                sram_corrected: 0
                sram_uncorrected: 0
                dram_corrected: 0
                dram_uncorrected: 0
              row_remap: {correctable: 0, uncorrectable: 0, pending: false, failure: false}
              throttle_reasons: [gpu idle]
              nvlinks: {active: 12, total: 12, inactive: []}
        xids:
          description:
            - XIDs in the kernel log, each with C(gpu), C(xid), C(line) and C(time) as it stands
              there. Null where the log cannot be read.
          type: list
          elements: dict
        notes:
          description: What could not be asked or understood, each in a sentence.
          type: list
          elements: str
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
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trueup.errors import ParseError, TrueupError
from ansible.module_utils.trueup.node import gpu_state, nvidia_driver, tools, vgpu

# Of the driver's own version; 8 GPUs without persistence mode take some 20 s to answer.
DRIVER_SECONDS = 60


def _driver(module: AnsibleModule) -> nvidia_driver.Driver | None:
    """What nvidia-smi says; None where it is not installed."""
    answer = tools.ask(
        module,
        ["nvidia-smi", f"--query-gpu={nvidia_driver.DRIVER_QUERY}", "--format=csv"],
        limit_seconds=DRIVER_SECONDS,
    )
    if answer.absent:
        return None
    if answer.status is None:
        return nvidia_driver.Driver(version=None, gpus=None, persistent=None, error=answer.note)
    text = answer.output if answer.ok else answer.output + answer.complaint
    return nvidia_driver.parse_driver_query(answer.status, text)


def _fabric_manager(module: AnsibleModule) -> str | None:
    """The version of nv-fabricmanager; None where it is not installed."""
    answer = tools.ask(module, ["nv-fabricmanager", "--version"])
    if answer.absent:
        return None
    return nvidia_driver.parse_fabric_manager(answer.output + answer.complaint)


def _units(module: AnsibleModule, settle_seconds: int, expected: dict[str, Any]) -> dict[str, str]:
    """The units' states, once they have settled."""
    end = time.monotonic() + settle_seconds
    argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState", *nvidia_driver.UNITS]
    while True:
        units = nvidia_driver.parse_units(tools.ask(module, argv).output)
        if not nvidia_driver.unsettled(units, expected) or time.monotonic() > end:
            return units
        time.sleep(1)


def _devices(module: AnsibleModule, notes: list[str]) -> list[dict[str, Any]] | None:
    """What each GPU says of itself; a question that the driver refuses is a note."""
    tables: dict[str, dict[str, list[str]]] = {}

    def put(name: str, option: str, key: str, fields: tuple[str, ...]) -> str | None:
        argv = ["nvidia-smi", f"--{option}={','.join((key, *fields))}", "--format=csv"]
        answer = tools.ask(module, argv)
        if not answer.ok:
            return f"{name} of the GPUs: {answer.note}"
        try:
            tables[name] = gpu_state.parse_query(answer.output, fields, key)
        except ParseError as error:
            return f"{name} of the GPUs: {error}"
        return None

    said = {
        name: put(name, "query-gpu", "pci.bus_id", fields)
        for name, fields in gpu_state.QUERIES.items()
        if name != "throttle_old"
    }
    if said["throttle"]:
        # Before driver 535 the reasons have another name.
        fields = gpu_state.QUERIES["throttle_old"]
        said["throttle"] = put("throttle_old", "query-gpu", "pci.bus_id", fields)
    said["row remapping"] = put("remap", "query-remapped-rows", "gpu_bus_id", gpu_state.REMAP_QUERY)
    notes += [note for note in said.values() if note]
    links = tools.ask(module, ["nvidia-smi", "nvlink", "-s"])
    nvlinks = None
    try:
        if links.ok:
            nvlinks = gpu_state.parse_nvlinks(links.output)
        else:
            notes.append(f"NVLinks: {links.note}")
    except ParseError as error:
        notes.append(f"NVLinks: {error}")
    try:
        return gpu_state.devices(tables, nvlinks) if tables else None
    except ParseError as error:
        notes.append(str(error))
        return None


def _with_licences(
    module: AnsibleModule, devices: list[dict[str, Any]], settle_seconds: int, notes: list[str]
) -> list[dict[str, Any]]:
    """The GPUs with the licences of those that are slices, which come some time after the boot."""
    if not any(vgpu.is_virtual(gpu["name"]) for gpu in devices):
        return devices
    end = time.monotonic() + settle_seconds
    while True:
        answer = tools.ask(module, ["nvidia-smi", "-q"])
        try:
            licences = vgpu.parse_licences(answer.output) if answer.ok else {}
        except ParseError as error:
            answer = dataclasses.replace(answer, note=str(error))
            licences = {}
        if not licences:
            notes.append(f"licences of the GPUs: {answer.note}")
            return devices
        found = [{**gpu, "licence": licences.get(gpu["pci"])} for gpu in devices]
        held = [vgpu.is_licensed(gpu["licence"]) for gpu in found if gpu["licence"] is not None]
        if all(held) or time.monotonic() > end:
            return found
        time.sleep(2)


def _xids(module: AnsibleModule, notes: list[str]) -> list[dict[str, Any]] | None:
    """XIDs of the kernel log; None where it cannot be read."""
    answer = tools.ask(module, ["dmesg"])
    if not answer.ok:
        notes.append(f"XIDs are not known: {answer.note}")
        return None
    try:
        return gpu_state.parse_xids(answer.output)
    except ParseError as error:
        notes.append(f"XIDs are not known: {error}")
        return None


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
    notes: list[str] = []
    try:
        # The units first: persistence mode is what one of them sets. What is loaded last: units
        # that are still starting, and nvidia-smi, load modules.
        units = _units(module, wanted["settle_seconds"], wanted["expected"])
        driver, fabric_manager = _driver(module), _fabric_manager(module)
        found = dataclasses.replace(
            nvidia_driver.read_found(wanted["sysfs_root"], wanted["procfs_root"]),
            units=units,
            driver=driver,
            fabric_manager=fabric_manager,
        )
    except TrueupError as error:
        module.fail_json(msg=str(error))
    # A driver that does not answer one question answers none, and would hang at each.
    devices = _devices(module, notes) if driver is not None and driver.gpus else None
    devices = _with_licences(module, devices or [], wanted["settle_seconds"], notes) or devices
    xids = None
    if wanted["sysfs_root"] == "/sys":
        xids = _xids(module, notes)
    else:
        notes.append("XIDs are not known: a recorded machine has no kernel log")
    problems = nvidia_driver.find_problems(found, wanted["expected"])
    problems += gpu_state.judge(devices or [], xids)
    problems += vgpu.judge(devices or [], wanted["expected"].get("gpu_memory_gib"))
    fact = {
        "kernel_module": found.kernel_module,
        "user_space": None if driver is None else driver.version,
        "fabric_manager": found.fabric_manager,
        "modules": list(found.modules),
        "units": dict(found.units),
        "gpus_on_pci": found.gpus_on_pci,
        "gpus": None if driver is None else driver.gpus,
        "persistent": None if driver is None else driver.persistent,
        "devices": devices,
        "xids": xids,
        "notes": notes,
        "reboot_required": any(problem["reboot"] for problem in problems),
        "problems": problems,
    }
    module.exit_json(changed=False, ansible_facts={"trueup_gpu": fact})


if __name__ == "__main__":
    main()
