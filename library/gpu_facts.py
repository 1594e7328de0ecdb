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
  - The node returns the XIDs of its kernel log. The controller judges them
    (catalog/faults/xid.yml) and adds those that fail the node to the problems.
  - What a GPU does not have, and what could not be asked, is null and never 0; C(notes) says why.
  - It changes nothing and needs no root, but a kernel that hides its log from users
    (kernel.dmesg_restrict) shows XIDs to root only.
extends_documentation_fragment: [trueup_facts, trueup_options.gpu_facts]
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
        fabric_manager: {description: Version of nv-fabricmanager., type: str}
        modules:
          description: Which of nvidia, nvidia_uvm, nvidia_peermem, gdrdrv and nouveau are loaded.
          type: list
          elements: str
        units: {description: "The state of NVIDIA's units that are installed.", type: dict}
        gpus_on_pci: {description: How many NVIDIA GPUs the PCI bus shows., type: int}
        gpus: {description: How many GPUs nvidia-smi shows., type: int}
        persistent: {description: How many GPUs have persistence mode on., type: int}
        devices:
          description:
            - Each GPU by PCI address; null where nvidia-smi does not answer. C(name),
              C(memory_bytes), C(licence) of a slice as nvidia-smi words it, C(clocks) in MHz,
              C(temperature_celsius), C(ecc) counts, C(ecc_by_memory)
              (the same since the last reset, of its SRAM and its memory), C(row_remap),
              C(throttle_reasons) that are active (an idle GPU has C(gpu idle)), C(nvlinks) with
              C(active), C(total) and the numbers of C(inactive) links, and C(fabric), the
              registration with the NVSwitches of several GPUs, with C(state), C(status) and
              C(health) in the words of nvidia-smi (null where it shows N/A, as of an A100).
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
              fabric: null
        xids:
          description:
            - XIDs and SXids in the kernel log since boot. One row for equal ones of a device, with
              C(kind) (C(xid), or C(sxid) of an NVSwitch), C(device) (PCI address), C(code),
              C(count), the first C(line), its C(time) as the log writes it, C(age_seconds) of the
              last line, C(fatal) as the line says, C(action) that XID 154 asks for,
              C(before_reset), and the C(severity) that catalog/faults/xid.yml gives it (C(fail),
              C(warn) or C(info)). Null where the log cannot be read.
          type: list
          elements: dict
          sample:
            - kind: xid
              device: 0001:00:00.0
              code: 79
              count: 2
              time: "812.5"
              line: "[  812.5] NVRM: Xid (PCI:0001:00:00): 79, GPU has fallen off the bus."
              age_seconds: 3600.0
              fatal: null
              action: null
              before_reset: false
              severity: fail
        notes:
          description: What could not be asked or understood, each in a sentence.
          type: list
          elements: str
        reboot_required: {description: Whether a problem is mended by a reboot., type: bool}
        problems:
          description: What disagrees, each with C(name), C(message) and C(reboot).
          type: list
          elements: dict
"""

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import gpu_look
from ansible.module_utils.trueup_node.options import PROCFS_ROOT, SYSFS_ROOT, Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "expected",
        "What the node is to be - C(driver_version), C(gpus) (a count), C(gpu_memory_gib) (of"
        " each), C(fabric_manager), C(peermem), C(persistence), C(dcgm) and C(secure_boot)"
        " (booleans). What is not given is not judged.",
        {},
    ),
    Option(
        "settle_seconds",
        "How long to wait for units that are neither active nor failed. One that is inactive is"
        " waited for where it is expected, since it may be started by another at boot. So long"
        " again a slice of a GPU is waited for that has no licence yet.",
        30,
        least=None,
    ),
    SYSFS_ROOT,
    PROCFS_ROOT,
)


def main() -> None:
    """Ask everything once, and publish the fact."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    try:
        is_recorded = module.params["sysfs_root"] != "/sys"
        fact = gpu_look.look(module, **module.params, has_log=not is_recorded)
    except TrueupError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, ansible_facts={"trueup_gpu": fact})


if __name__ == "__main__":
    main()
