#!/usr/bin/python
"""Ansible module: identify the machine, its size and its parts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_node_facts
version_added: "0.1.0"
short_description: Publishes what a node is, by its own account and the catalog's
description:
  - Asks the Azure instance metadata service, lscpu, sysfs and, where there is one, nvidia-smi what
    the machine is, looks its size up in the catalog, and publishes one fact, C(trueup_node).
  - The family, one word such as V(hbv3) or V(nd_h100_v5), is what a play groups hosts by. It is
    V(unknown) for a size that the catalog lacks and V(local) off Azure; everything else is found
    out all the same.
  - It changes nothing, needs no root, and asks the metadata service once, for at most a second.
  - What could identify the machine, its owner or its network (names, ids, tags, addresses, serial
    numbers) is not published; of the machine's id a hash is. The name of Azure's physical host is.
  - Of another machine's recorded tree (O(sysfs_root)) all CPUs count, else those that this process
    may use.
extends_documentation_fragment: [trueup_facts, trueup_options.azure_node_facts]
"""

EXAMPLES = r"""
- name: Find out what each node is
  azure_node_facts:

- name: Put each node into the group of its family
  ansible.builtin.group_by:
    key: "{{ ansible_facts['trueup_node']['family'] }}"

- name: Treat a machine that has no metadata service as a size
  azure_node_facts:
    vm_size: Standard_HB120-64rs_v3
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: always
  type: dict
  contains:
    trueup_node:
      description: What the node is. A member is null when it could not be found out.
      returned: always
      type: dict
      contains:
        vm_size:
          description: The size, spelt as in the catalog where it is known.
          type: str
          sample: Standard_HB120rs_v3
        family:
          description: The catalog's family, V(unknown) or V(local).
          type: str
          sample: hbv3
        azure:
          description: Whether this is an Azure VM, by metadata or by its chassis tag.
          type: bool
        metadata_status:
          description: V(ok), V(absent) (nothing listens there) or V(unusable) (see the warnings).
          type: str
        region: {description: Azure region., type: str, sample: southcentralus}
        zone: {description: Availability zone., type: str}
        offer: {description: "What it is billed as, V(payg) or V(spot).", type: str}
        image: {description: "The marketplace image as publisher:offer:sku:version.", type: str}
        licence_type:
          description: The licence that the VM was made with, such as V(Windows_Client).
          type: str
        machine:
          description:
            - A hash that two names of one machine share. It begins with C(vm-) where it is that of
              an Azure VM's id, else with C(boot-), and changes with each boot.
          type: str
          sample: vm-3b5e7c1f0a2d4968
        physical_host:
          description:
            - Name of the physical host that the virtual machine runs on, as Hyper-V tells it; null
              where it does not.
          type: str
          sample: host-0123
        system:
          description: V(linux); V(windows) of hosts that the action C(windows_node_facts) asks.
          type: str
        os:
          description: Name and version of the operating system.
          type: str
          sample: Ubuntu 24.04.3 LTS
        distribution: {description: "The operating system's short name.", type: str, sample: ubuntu}
        distribution_version: {description: Its version., type: str, sample: "24.04"}
        package_manager:
          description: V(apt) or V(dnf), by what the system says it is like; else null.
          type: str
          sample: apt
        kernel: {description: Release of the running kernel., type: str}
        architecture: {description: Architecture as the kernel names it., type: str}
        cpu_model: {description: Name of the CPU., type: str}
        sockets: {description: Number of sockets., type: int}
        cpus: {description: Number of usable logical CPUs., type: int}
        cpu_list: {description: "The same as a list, such as C(0-119).", type: str}
        cpu_quota:
          description:
            - CPU time that the control groups of the process allow, V(none) or such as
              V(1.5 cores); null where the kernel names no groups.
          type: str
          sample: none
        cores: {description: Number of usable physical cores., type: int}
        numa:
          description: NUMA nodes that have CPUs.
          type: list
          elements: dict
          contains:
            node: {description: Number., type: int}
            cpus: {description: Its CPUs as a list such as C(0-29)., type: str}
            memory_bytes: {description: Its memory., type: int}
        l3_groups:
          description: CPUs that share an L3 cache, one list such as C(0-7) for each cache.
          type: list
          elements: str
        last_level_cache_bytes: {description: Sum of the last-level caches., type: int}
        memory_bytes: {description: Usable memory of the machine., type: int}
        gpus:
          description: NVIDIA GPUs. Name and memory are null while no driver is loaded.
          type: list
          elements: dict
          contains:
            name: {description: Name by the driver., type: str}
            pci: {description: PCI address., type: str}
            memory_bytes: {description: Memory., type: int}
        infiniband:
          description: RDMA devices.
          type: list
          elements: dict
          contains:
            device: {description: Name., type: str}
            pci: {description: PCI address., type: str}
            rate_gbps: {description: Rate of the link in Gb/s., type: float}
            state: {description: "State of port 1, such as V(ACTIVE).", type: str}
            link_layer: {description: V(InfiniBand) or V(Ethernet)., type: str}
            numa_node: {description: NUMA node that it is attached to., type: int}
        has_gpu:
          description: Whether it has NVIDIA GPUs, by what is found or by the catalog.
          type: bool
        gpu_count: {description: GPUs that are found., type: int}
        gpu_count_expected:
          description: GPUs that the size has by the catalog, or null.
          type: int
        has_rdma:
          description: Whether it has InfiniBand devices, by what is found or by the catalog.
          type: bool
        rdma_count:
          description: InfiniBand devices that are found; the Ethernet function of accelerated
            networking is none.
          type: int
        rdma_count_expected:
          description: InfiniBand devices that the size has by the catalog, or null.
          type: int
        layouts:
          description:
            - Layouts of ranks and threads that are worth measuring on this machine, made from its
              cores, NUMA nodes and L3 groups.
          type: list
          elements: dict
          contains:
            ranks: {description: MPI ranks., type: int}
            threads_per_rank: {description: Threads of each rank., type: int}
            binding: {description: "V(none), V(core), V(l3) or V(numa).", type: str}
        privilege:
          description:
            - How packages could be installed, V(root), or V(sudo) where it asks no password; null
              where neither.
          type: str
          sample: sudo
        container:
          description: Whether this is a container, whose kernel is set by its host.
          type: bool
        secure_boot:
          description: Whether Secure Boot is on; null where that could not be found out.
          type: bool
        hpc_image:
          description:
            - What an Azure HPC image says is in it, component to version; null on other images.
          type: dict
          sample: {NVIDIA: 580.126.16, HPCX: 2.25.1}
        free_bytes:
          description: Free space for an ordinary user in the file system of each path.
          type: dict
          sample: {/: 21474836480, /opt: 21474836480}
        programs:
          description: Full path of each program that roles look for, null where it is missing.
          type: dict
          sample: {gcc: /usr/bin/gcc, mpirun: null}
        mpi:
          description: The MPI that starts ranks here, or null.
          type: dict
          contains:
            path: {description: Its mpirun., type: str}
            kind:
              description:
                - V(hpcx), V(hpcx-pmix), V(openmpi), V(intel), V(mvapich), V(mpich), or empty where
                  its mpirun does not say.
              type: str
            version: {description: "As its mpirun says it, or null.", type: str}
            rebuilt:
              description: The folder of the same HPC-X built with the image's PMIx, or empty.
              type: str
            environment:
              description: What must be set to use it; empty where it is on PATH.
              type: dict
        nvme:
          description: NVMe disks.
          type: list
          elements: dict
          contains:
            device: {description: Name under C(/dev)., type: str}
            model: {description: Model., type: str}
            size_bytes: {description: Size., type: int}
            local:
              description: Whether it is one of Azure's local disks, lost at deallocation.
              type: bool
        catalog: {description: "The size's row of the catalog, or null.", type: dict}
        warnings:
          description: What a user should know, one sentence each.
          type: list
          elements: str
"""

import os
import platform
from typing import TYPE_CHECKING

from ansible.module_utils.trueup_node.errors import TrueupError
from ansible.module_utils.trueup_node.node import identify, mpi, tools
from ansible.module_utils.trueup_node.node import metadata as imds
from ansible.module_utils.trueup_node.node.cpu_quota import cpu_quota
from ansible.module_utils.trueup_node.node.lscpu import parse_lscpu
from ansible.module_utils.trueup_node.node.machine import machine_word
from ansible.module_utils.trueup_node.node.nvidia_smi import GPU_QUERY, parse_nvidia_smi
from ansible.module_utils.trueup_node.node.physical_host import physical_host
from ansible.module_utils.trueup_node.node.topology import read_topology
from ansible.module_utils.trueup_node.options import PROCFS_ROOT, SYSFS_ROOT, Option, module_spec
from ansible.module_utils.trueup_node.run.answer import AnsibleModule

OPTIONS = (
    Option(
        "vm_size",
        "The size given by hand, in any case. It wins over what metadata says, with a warning."
        " Empty means that it was not given.",
        "",
    ),
    Option("catalog", "The catalog of VM sizes, as the filter C(trueup_sizes) returns it.", {}),
    Option(
        "metadata_url",
        "Where the instance metadata service answers. Neither proxies nor redirects are followed.",
        imds.METADATA_URL,
    ),
    SYSFS_ROOT,
    PROCFS_ROOT,
    Option(
        "mpi",
        "The MPI that is wanted, V(hpcx), V(hpcx-pmix), V(openmpi), V(intel) or V(mvapich), or the"
        " path of an mpirun. Empty means that of the family, else that on PATH, else the preferred"
        " Open MPI that is found.",
        "",
    ),
    Option(
        "mpi_must_be",
        "Whether an O(mpi) that this node has not is an error, and not a warning.",
        False,
    ),
    Option(
        "families",
        "Objects with C(families), names of families, and C(mpi), the kind of MPI that they"
        " prefer.",
        [],
        elements="dict",
    ),
    Option(
        "hcoll",
        "Open MPI's collectives through HCOLL, as the variable C(hpcx_hcoll) of the role C(hpcx).",
        mpi.BY_GPUS,
        choices=(mpi.BY_GPUS, mpi.HCOLL_USED, "unused"),
    ),
)

# Programs that roles look for before they install them.
PROGRAMS = ("gcc", "mdadm", "mkfs.xfs", "mpirun")

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Parsed = TypeVar("Parsed")


def _ask(
    module: AnsibleModule, argv: list[str], parse: Callable[[str], Parsed], warnings: list[str]
) -> Parsed | None:
    """A tool's output, parsed; None where there is none, and with a warning where it fails."""
    response = tools.ask(module, argv)
    if response.absent:
        return None
    if response.note is not None:
        warnings.append(response.note)
        return None
    try:
        return parse(response.output)
    except TrueupError as error:
        warnings.append(str(error))
        return None


def _mpi(
    module: AnsibleModule,
    on_path: str | None,
    hpc_image: dict[str, str] | None,
    warnings: list[str],
    family: str = "",
) -> mpi.Mpi | None:
    """The MPI of this node; one of a folder that cannot say its version is warned of and not
    taken."""
    requested = module.params["mpi"].strip()
    installed = mpi.find(on_path, environ=os.environ, hpc_image=hpc_image)
    chosen = mpi.choose(installed, requested, mpi.preferred(module.params["families"], family))
    if requested and not chosen:
        warnings.append(mpi.refusal(installed, requested))
    for candidate in chosen:
        response = tools.ask(
            module, [candidate.path, "--version"], environment=candidate.environment
        )
        if response.ok or not candidate.environment:
            return candidate.saying(response.output)
        warnings.append(f"MPI: {response.note}; it is not used")
    return None


def _privilege(module: AnsibleModule) -> str | None:
    """How packages could be installed here: as root, through sudo without a password, or not."""
    if os.geteuid() == 0:
        return "root"
    return "sudo" if tools.ask(module, ["sudo", "-n", "true"]).ok else None


def main() -> None:
    """Read, look up, publish."""
    module = AnsibleModule(
        argument_spec=module_spec(OPTIONS),
        supports_check_mode=True,
    )
    parameters = module.params
    sysfs, warnings = parameters["sysfs_root"], []
    try:
        metadata = imds.ask(parameters["metadata_url"])
    except TrueupError as error:
        module.fail_json(msg=str(error))
    topology = None
    if module.get_bin_path("lscpu") is None:
        warnings.append("lscpu is not installed, so the CPU's name is not known")
    try:
        topology = read_topology(sysfs, os.sched_getaffinity(0) if sysfs == "/sys" else None)
    except TrueupError as error:
        warnings.append(f"the CPU topology could not be read: {error}")
    lscpu = _ask(module, ["lscpu", "--json"], parse_lscpu, warnings)
    query = ["nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv"]
    on_bus = identify.read_gpus(sysfs)
    messages: list[str] = []
    gpus = _ask(module, query, parse_nvidia_smi, messages)
    # Azure's HPC images have the driver on sizes without a GPU too, where nvidia-smi can but fail.
    warnings += [text for text in messages if on_bus or " failed with status " not in text]
    identity = identify.identify(
        metadata,
        given_size=parameters["vm_size"].strip() or None,
        catalog=parameters["catalog"],
        azure_chassis=identify.is_azure_chassis(sysfs),
    )
    hpc_image = identify.read_hpc_image()
    host, host_warnings = physical_host()
    warnings += host_warnings
    programs = {name: module.get_bin_path(name) for name in PROGRAMS}
    observed = identify.Observed(
        topology=topology,
        lscpu=lscpu,
        gpus=on_bus if gpus is None else gpus,
        infiniband=identify.read_infiniband(sysfs),
        nvme=identify.read_nvme(sysfs),
        memory_bytes=identify.read_memory_bytes(parameters["procfs_root"]),
        os_release=identify.read_os_release(),
        kernel=platform.release(),
        architecture=platform.machine(),
        privilege=_privilege(module),
        # systemd(1) writes this file where it runs in a container.
        container=os.path.exists("/run/systemd/container"),
        secure_boot=identify.read_secure_boot(sysfs),
        hpc_image=hpc_image,
        free_bytes=identify.read_free_bytes(),
        programs=programs,
        mpi=_mpi(module, programs["mpirun"], hpc_image, warnings, identity.family),
        machine=machine_word(metadata.vm_id, parameters["procfs_root"]),
        physical_host=host,
        cpu_quota=cpu_quota(parameters["procfs_root"], sysfs),
        hcoll=parameters["hcoll"],
        warnings=warnings,
    )
    node = identify.describe(identity, observed)
    if parameters["mpi_must_be"] and parameters["mpi"].strip() and node["mpi"] is None:
        module.fail_json(msg=f"{mpi.lacking(node)}.")
    # Data is not sent back: the controller would keep it once for each node.
    sent_parameters = {
        name: parameters[name] for name in parameters if name not in ("catalog", "families")
    }
    module.exit_json(
        changed=False,
        ansible_facts={"trueup_node": node},
        invocation={"module_args": sent_parameters},
    )


if __name__ == "__main__":
    main()
