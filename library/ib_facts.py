#!/usr/bin/python
"""Ansible module: the node's RDMA devices, and their problems."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ib_facts
version_added: "0.2.0"
short_description: Publishes a node's RDMA devices and how they differ from what is expected
description:
  - Reads the RDMA devices from sysfs, compares the InfiniBand ones with what the catalog and the
    size's layout say, and publishes one fact, C(trueup_rdma).
  - The Ethernet function of accelerated networking and soft-RoCE are listed with their kind and
    are never judged as InfiniBand.
  - It changes nothing and needs no root. GUIDs and addresses are not published.
extends_documentation_fragment: [trueup_facts, trueup_options.ib_facts]
"""

EXAMPLES = r"""
- name: Look at the InfiniBand links of an NDv4
  ib_facts:
    expected:
      rate_gbps: 200
      nics: 8
      numa:
        "0101:00:00.0": 1
        "0103:00:00.0": 0
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    trueup_rdma:
      description: The RDMA devices. A member is null when the machine does not say it.
      returned: always
      type: dict
      contains:
        devices:
          description: RDMA devices in order of their names.
          type: list
          elements: dict
          contains:
            device: {description: Name., type: str, sample: mlx5_ib0}
            kind: {description: "V(infiniband), V(ethernet) or V(soft-roce).", type: str}
            pci: {description: PCI address., type: str, sample: "0101:00:00.0"}
            rate_gbps: {description: Rate of the link in Gb/s., type: float}
            state:
              description: State of port 1, such as V(ACTIVE), V(INIT) or V(DOWN).
              type: str
            physical_state:
              description: Physical state of port 1, such as V(LinkUp) or V(Polling).
              type: str
            link_layer: {description: V(InfiniBand) or V(Ethernet)., type: str}
            numa_node: {description: NUMA node that it is attached to., type: int}
            firmware: {description: Version of its firmware., type: str}
            interfaces:
              description: Network interfaces of it, such as that of IPoIB.
              type: list
              elements: str
            counters:
              description:
                - Error counters of port 1 by the kernel's names, since the driver was loaded; null
                  where the device does not have one or it cannot be read. Those of
                  C(counters) are the link's and port's, those of C(hw_counters) the adapter's.
              type: dict
              sample: {symbol_error: 0, link_downed: 0, port_rcv_errors: 0, out_of_sequence: 0}
            carrier_losses:
              description: >-
                How often its interfaces lost their carrier since they are there, which an
                administrator's C(ip link set down) counts too; null where the kernel does not say.
              type: int
        names:
          description: The persistent name for each PCI address, InfiniBand devices first.
          type: dict
          sample: {"0101:00:00.0": mlx5_ib0}
        naming_service:
          description: Whether an Azure HPC image's service names the devices.
          type: bool
        driver:
          description: The kernel driver mlx5_core.
          type: dict
          contains:
            loaded: {description: Checksum of the source of the loaded module., type: str}
            installed: {description: The same of the module that the next boot loads., type: str}
            path: {description: Where that module is., type: str}
            reboot_required:
              description: Whether another module is installed than is loaded.
              type: bool
        flaps:
          description: >-
            Of each interface of an InfiniBand device, how often it lost its carrier (C(losses))
            within C(flap_hours) and when last; null where that was not asked or is not known.
          type: list
          elements: dict
          sample:
            - device: mlx5_ib0
              interface: ib0
              losses: 0
              last: null
        agent:
          description: Azure's agent.
          type: dict
          contains:
            unit:
              description: Its unit, which distributions name differently; null without one.
              type: str
              sample: walinuxagent.service
            rdma_enabled:
              description: Whether C(OS.EnableRDMA) is y; null without its configuration.
              type: bool
        hpcx_provides_openmpi:
          description: >-
            Whether an Azure HPC image marks HPC-X as what provides Open MPI (a package of no
            content).
          type: bool
        problems:
          description: What is wrong, a sentence each with both figures and the mend.
          type: list
          elements: str
        warnings: {description: What a user should know., type: list, elements: str}
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import infiniband, link_flaps, tools
from ansible.module_utils.trueup_node.options import SYSFS_ROOT, Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "expected",
        "What the InfiniBand devices must be - C(rate_gbps) (Gb/s of one link), C(nics) (their"
        " number), C(numa) (PCI address or device name to NUMA node) and C(names) (PCI address to"
        " device name). What is absent is not judged.",
        {},
    ),
    Option(
        "names_expected",
        "Whether devices must have their persistent names; C(names) of C(expected) goes before"
        " them.",
        False,
    ),
    Option(
        "counters_judged",
        "Whether an InfiniBand device that counted errors of its link is one of the C(problems)."
        " Counters run since the driver was loaded and do not say when the errors were.",
        False,
    ),
    Option(
        "flap_hours",
        "Within how many hours a link that was lost more than once, by the system's journal, is"
        " one of the C(problems). V(0) does not look. Without root the journal may be hidden.",
        0,
        least=None,
    ),
    SYSFS_ROOT,
)

NAMING_SERVICE = "/etc/systemd/system/azure_persistent_rdma_naming.service"
WAAGENT_CONF = "/etc/waagent.conf"
# Ubuntu's package names the unit walinuxagent; everybody else's, and the agent's own setup.py,
# waagent. Where both are there, one is a link to the other.
WAAGENT_UNITS = [
    Path(folder, name)
    for name in ("walinuxagent.service", "waagent.service")
    for folder in ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
]
# Of Ubuntu's images (azhpc-images 71c56807): it provides openmpi and conflicts with DOCA's.
OPENMPI_MARKER = "/var/lib/dpkg/info/hpcx-provides-openmpi.list"


def _modinfo(module: AnsibleModule, field: str) -> str | None:
    """A field of the mlx5_core that the next boot loads; None where there is none."""
    argv = ["modinfo", "--field", field, "mlx5_core"]
    response = tools.ask(module, argv, folders=["/sbin", "/usr/sbin"])
    return response.output.strip() or None if response.ok else None


def _driver(module: AnsibleModule, sysfs_root: str) -> dict[str, str | bool | None]:
    loaded = infiniband.read_driver(sysfs_root)
    # A recorded machine's disk is not at hand.
    is_live = sysfs_root == "/sys"
    installed = _modinfo(module, "srcversion") if is_live else None
    return {
        "loaded": loaded,
        "installed": installed,
        "path": _modinfo(module, "filename") if is_live else None,
        "reboot_required": bool(loaded and installed and loaded != installed),
    }


def _waagent_conf() -> str | None:
    try:
        with open(WAAGENT_CONF, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def main() -> None:
    """Read, compare, publish."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    sysfs_root = module.params["sysfs_root"]
    try:
        expected = infiniband.Expected(module.params["expected"])
    except TrueupError as error:
        module.fail_json(msg=str(error))
    devices = infiniband.read_devices(sysfs_root)
    names = infiniband.persistent_names(devices)
    conf = _waagent_conf()
    hours = module.params["flap_hours"]
    # A recorded machine has no journal.
    flaps = link_flaps.asked(module, devices, hours) if sysfs_root == "/sys" else None
    for row in devices:
        row["carrier_losses"] = link_flaps.carrier_losses(row["interfaces"], sysfs_root)
    if module.params["names_expected"]:
        expected.names = {**names, **expected.names}
    facts: dict[str, Any] = {
        "devices": devices,
        "names": names,
        "flaps": flaps,
        "naming_service": os.path.exists(NAMING_SERVICE),
        "driver": _driver(module, sysfs_root),
        "problems": [
            *infiniband.problems(devices, expected),
            *(infiniband.counter_problems(devices) if module.params["counters_judged"] else []),
            *link_flaps.problems(flaps or [], hours),
        ],
        "warnings": infiniband.warnings_of(devices, conf),
        "agent": {
            "unit": next((unit.name for unit in WAAGENT_UNITS if unit.is_file()), None),
            "rdma_enabled": infiniband.agent_enables(conf),
        },
        "hpcx_provides_openmpi": os.path.exists(OPENMPI_MARKER),
    }
    for warning in facts["warnings"]:
        module.warn(warning)
    module.exit_json(changed=False, ansible_facts={"trueup_rdma": facts})


if __name__ == "__main__":
    main()
