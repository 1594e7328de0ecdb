"""The role rdma, planned: DOCA-OFED or the inbox stack, names of devices, modules, soft-RoCE.

``infiniband`` reads the devices. They show after the drivers are installed: the role plans again if
something was installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trueup_node.node import infiniband, nccl_topology
from trueup_node.plan import (
    Convergence,
    Plan,
    PlanInputs,
    files_look,
    packages_look,
    sentences,
    unit_look,
)

from ..system import catalog_of, free_of, headers, in_image, release, short_of
from ..systemd import READING

# PCI class of an InfiniBand controller.
_INFINIBAND_CLASS = "0x020700"
# Not /var/tmp, where a user of the node could put another file after the check.
_DOWNLOADS = "/var/cache"
_SOFT_ROCE_UNIT = "trueup-soft-roce.service"
# Before 60-rdma-persistent-naming.rules of rdma-core: the first to rename wins.
_NAMING_RULES = "/etc/udev/rules.d/59-trueup-rdma-naming.rules"
_APPLY_NAMES = (
    "udevadm control --reload && udevadm trigger --action=add --subsystem-match=infiniband"
    " && udevadm settle"
)
_MODULES = "/etc/modules-load.d/trueup-rdma.conf"
_OPENIBD_DROP_IN = "/etc/systemd/system/openibd.service.d/trueup.conf"
_SOFT_ROCE_FILE = f"/etc/systemd/system/{_SOFT_ROCE_UNIT}"
_APT_PREFERENCES = "/etc/apt/preferences.d/trueup-doca-dkms"
_WRITTEN = "# Written by trueup (role rdma)"
# rdma-core ships this on Debian (azhpc-images install_doca.sh).
_DKMS = f"""\
{_WRITTEN}: the distribution's dkms, and not DOCA-OFED's.
Package: dkms
Pin: release l=DOCA-HOST*
Pin-Priority: -1
"""
_NAMING = f"""\
{_WRITTEN}: RDMA devices named by their place on the PCI bus. Before rdma-core's own rules (60-...).
# rdma_rename knows NAME_FIXED from rdma-core 34 on.
"""
_OPENIBD = f"""\
{_WRITTEN}: DOCA-OFED's service starts when the devices have their names, and again if it fails.
[Unit]
Wants=systemd-udev-settle.service
After=systemd-udev-settle.service

[Service]
Restart=on-failure
RestartSec=5
"""
_SOFT_ROCE_SAID = (
    ": soft-RoCE is the kernel's emulation of RDMA; `rdma link add` does not outlast a boot.\n"
)
_SOFT_ROCE = """\
[Unit]
Description=Soft-RoCE device rxe0 on {interface}
BindsTo=sys-subsystem-net-devices-{unit}.device
After=sys-subsystem-net-devices-{unit}.device

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=/usr/bin/env modprobe rdma_rxe
ExecStartPre=/usr/bin/env ip link set dev {interface} up
# One that is there already is made anew.
ExecStartPre=-/usr/bin/env rdma link delete rxe0
ExecStart=/usr/bin/env rdma link add rxe0 type rxe netdev {interface}
ExecStop=/usr/bin/env rdma link delete rxe0
{restricted}
# By the interface, not by a target: a boot in which it comes late (after 90 s) still starts this.
[Install]
WantedBy=sys-subsystem-net-devices-{unit}.device
"""


def asks(inputs: PlanInputs) -> dict[str, Any]:
    """The question to the node: its devices."""
    layouts = nccl_topology.read_layouts(inputs.catalog("topologies.yml"))
    return {
        "ib_facts": {
            "expected": expected_of(inputs.node, layouts),
            "names_expected": inputs.options["persistent_names"],
            "sysfs_root": inputs.variables.get("trueup_sysfs_root"),
        }
    }


def plan(inputs: PlanInputs) -> Plan:
    """The stack of a node. ``inputs.found["trueup_rdma"]`` is the result of ib_facts.

    Values: ``kept`` (an image's stack is verified and not installed), ``installs_doca``, ``doca``
    (the pinned release for this system), ``pins`` and whether they are ``held`` as vendor_packages
    takes them, ``build_packages``, ``package_file`` (doca-host's), ``files`` as config_files takes
    them and of those the ``preferences`` that apt must have before, the files that are ``applied``
    by a command and the ``units``, both as service_current takes them, whether Azure's agent needs
    its setting for InfiniBand and ``agent_lacks`` it, whether ``reboot_required`` is so, and
    ``wrong``: the problems of the devices, a sentence each.
    """
    node, options = inputs.node, inputs.options
    keeps_image = options["from_image"] == "keep" and bool(in_image(node, "DOCA", "OFED"))
    installs_doca = options["stack"] == "doca_ofed" and not keeps_image
    doca = options["doca_hosts"].get(release(node), {})
    refused = _refused(inputs, doca if installs_doca else None)
    if refused:
        return Plan(refused=refused)
    package_file = f"{_DOWNLOADS}/trueup-{doca.get('url', '').rpartition('/')[2]}"
    agent_unit, agent = _agent(inputs)
    dkms = ["dkms"] if node["package_manager"] == "apt" else []
    files = _files(inputs, installs_doca=installs_doca)
    return Plan(
        values={
            "kept": keeps_image,
            "installs_doca": installs_doca,
            "doca": doca,
            "pins": [] if keeps_image else _pins(inputs, doca),
            "held": options["stack"] == "doca_ofed",
            "build_packages": [] if node["container"] else [*dkms, headers(node)],
            "package_file": package_file,
            "files": [*files, {"path": package_file, "state": "absent"}],
            "preferences": [file for file in files if file["path"] == _APT_PREFERENCES],
            "applied": [] if node["container"] else _applied(options["modules"]),
            "units": _units(inputs, agent_unit, installs_doca=installs_doca),
            "agent_lacks": bool(agent_unit) and not agent["rdma_enabled"],
            "reboot_required": inputs.found["trueup_rdma"]["driver"]["reboot_required"],
            "wrong": _wrong(inputs, installs_doca=installs_doca),
        }
    )


def convergence(planned: Mapping[str, Any], variables: Mapping[str, Any]) -> Convergence:
    """Whether the stack is installed, and the devices are as expected."""
    pins = packages_look(
        variables["trueup_node"], planned["pins"], held=planned["held"], replace_held=True
    )
    applied = [
        unit_look(name=module["name"], reloaded=module["files"], command=module["command"])
        for module in planned["applied"]
    ]
    return Convergence(
        [
            *([] if planned["kept"] else [pins]),
            files_look(planned["files"]),
            *applied,
            *(unit_look(**unit) for unit in planned["units"]),
        ],
        has_work=planned["agent_lacks"] or bool(planned["wrong"]),
    )


def expected_of(
    node: Mapping[str, Any], layouts: Mapping[str, nccl_topology.Layout]
) -> dict[str, Any]:
    """The expected InfiniBand devices of the node, as ib_facts takes them; empty for a size of
    neither catalog. Rate and number are those of the size's row, NUMA nodes those of its layout."""
    row = catalog_of(node)
    expected: dict[str, Any] = {
        name: row[column]
        for name, column in (("rate_gbps", "rdma_gbps_per_nic"), ("nics", "rdma_nics"))
        if row.get(column) is not None
    }
    layout = nccl_topology.layout_of(node.get("vm_size") or "", dict(layouts))
    if layout is not None:
        places = layout.places().items()
        expected["numa"] = {
            device: where[1] for device, where in places if where[0] == _INFINIBAND_CLASS
        }
    return expected


def _applied(modules: list[str]) -> list[dict[str, Any]]:
    """Names of devices and modules: now, as a boot does it."""
    load = {"name": "rdma-modules", "files": [_MODULES], "command": ["modprobe", "--all", *modules]}
    names = {"name": "rdma-names", "files": [_NAMING_RULES], "command": ["sh", "-c", _APPLY_NAMES]}
    return [names, *([load] if modules else [])]


def _units(inputs: PlanInputs, agent_unit: str, *, installs_doca: bool) -> list[dict[str, Any]]:
    """The units. The agent looks for its setting when it starts. DOCA-OFED's modules are loaded
    from the next boot on: now, those that the installation loaded are right or a reboot is needed.
    """
    agent = {"unit": agent_unit, "state": "as_found", "files": ["/etc/waagent.conf"]}
    openibd = {"unit": "openibd.service", "state": "as_found", "enabled": True, "files": []}
    soft_roce = {
        "unit": _SOFT_ROCE_UNIT,
        "state": "started",
        "enabled": True,
        "files": [_SOFT_ROCE_FILE],
    }
    # A container has its host's kernel.
    has_soft_roce = inputs.options["soft_roce_interface"] and not inputs.node["container"]
    units = ((agent, agent_unit), (openibd, installs_doca), (soft_roce, has_soft_roce))
    return [unit for unit, is_wanted in units if is_wanted]


def _agent(inputs: PlanInputs) -> tuple[str, Mapping[str, Any]]:
    """The unit of Azure's agent, empty where it need not give addresses to InfiniBand, and its
    facts."""
    rdma_facts = inputs.found["trueup_rdma"]
    # A recorded node's result may be older than this question.
    agent = rdma_facts.get("agent", {})
    has_infiniband = infiniband.has_infiniband(rdma_facts["devices"])
    is_supported = agent.get("rdma_enabled") is not None
    return (agent.get("unit") or "") if has_infiniband and is_supported else "", agent


def _pins(inputs: PlanInputs, doca: Mapping[str, str]) -> list[dict[str, str]]:
    """The packages. ``*``: doca-host fixes the whole set of versions by its sha256."""
    if inputs.options["stack"] == "inbox":
        names = inputs.data["inbox"][inputs.node["package_manager"]]
        return [{"name": name, "version": "*"} for name in names]
    pins = {"doca-host": doca.get("host_version", ""), "doca-ofed": doca.get("ofed_version", "")}
    if "library_version" in doca:
        pins.update(dict.fromkeys(inputs.data["libraries"], doca["library_version"]))
    return [{"name": name, "version": version} for name, version in pins.items()]


def _files(inputs: PlanInputs, *, installs_doca: bool) -> list[dict[str, str]]:
    """The role's files: there when wanted, otherwise removed."""
    options, rdma_facts = inputs.options, inputs.found["trueup_rdma"]
    names: Mapping[str, str] = rdma_facts["names"]
    interface = options["soft_roce_interface"]
    contents: dict[str, str] = {}
    if options["persistent_names"] and names and not rdma_facts["naming_service"]:
        contents[_NAMING_RULES] = _NAMING + "".join(
            f'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="{address}",'
            f' PROGRAM="rdma_rename %k NAME_FIXED {name}"\n'
            for address, name in names.items()
        )
    if options["modules"]:
        contents[_MODULES] = "\n".join([f"{_WRITTEN}.", *options["modules"], ""])
    if installs_doca:
        contents[_OPENIBD_DROP_IN] = _OPENIBD
        if inputs.node["package_manager"] == "apt":
            contents[_APT_PREFERENCES] = _DKMS
    if interface:
        unit = interface.replace("-", "\\x2d")
        service = _SOFT_ROCE.format(interface=interface, unit=unit, restricted=READING)
        contents[_SOFT_ROCE_FILE] = _WRITTEN + _SOFT_ROCE_SAID + service
    return [
        {"path": path, "content": contents[path]}
        if path in contents
        else {"path": path, "state": "absent"}
        for path in (_NAMING_RULES, _MODULES, _OPENIBD_DROP_IN, _APT_PREFERENCES, _SOFT_ROCE_FILE)
    ]


def _wrong(inputs: PlanInputs, *, installs_doca: bool) -> list[str]:
    """Problems in the end, a sentence each."""
    rdma_facts = inputs.found["trueup_rdma"]
    driver = rdma_facts["driver"]
    wrong = list(rdma_facts["problems"])
    path = driver["path"] or ""
    if driver["reboot_required"]:
        wrong.append(
            "rdma_reboot_required: the node runs another mlx5_core than the one that is installed"
            f" ({path}): reboot it and run again, or set rdma_reboot_allowed."
        )
    # The inbox driver lies below kernel/drivers; DOCA-OFED's below updates, extra or weak-updates.
    if installs_doca and "/kernel/drivers/" in path:
        wrong.append(
            f"DOCA-OFED is installed, and the kernel {inputs.node['kernel']} would load its own"
            f" driver {path}: the modules were not built; see `dkms status` and"
            " /var/lib/dkms/*/*/build/make.log (kernels of Enterprise Linux 9.8 need a patch to"
            " DOCA 3.2: boot an older kernel or set rdma_stack=inbox)."
        )
    interface = inputs.options["soft_roce_interface"]
    active = [
        name
        for device in rdma_facts["devices"]
        if device["kind"] == "soft-roce" and device["state"] == "ACTIVE"
        for name in device["interfaces"]
    ]
    if interface and not inputs.node["container"] and interface not in active:
        wrong.append(
            f"soft-RoCE: no active device on {interface}: see `systemctl status {_SOFT_ROCE_UNIT}`;"
            " the kernel needs the module rdma_rxe (the cloud kernel of Debian lacks it)."
        )
    return wrong


def _refused(inputs: PlanInputs, doca: Any) -> list[str]:
    """Problems that prevent the installation; ``doca`` is None where DOCA-OFED is not used."""
    node, interface = inputs.node, inputs.options["soft_roce_interface"]
    wrong = {
        f"rdma: rdma_soft_roce_interface is {interface}: give the name of a network interface.": (
            interface and not re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", interface)
        ),
        f"rdma: {node['os']} has neither apt nor dnf.": (
            node["package_manager"] not in inputs.data["inbox"]
        ),
    }
    if doca is not None:
        marked = inputs.found.get("trueup_rdma", {}).get("hpcx_provides_openmpi")
        wrong[
            "rdma: this image marks HPC-X as its Open MPI (package hpcx-provides-openmpi), and"
            " DOCA-OFED brings one of its own, for which apt would remove the mark: set"
            " rdma_from_image=keep, or remove that package yourself."
        ] = marked
    return [*([] if doca is None else _refused_of_doca(inputs, doca)), *sentences(wrong)]


def _refused_of_doca(inputs: PlanInputs, doca: Mapping[str, str]) -> list[str]:
    node, options = inputs.node, inputs.options
    needed = {"/": options["free_bytes"]}
    of_x86 = re.search("amd64|x86_64", doca.get("url", ""))
    wrong = {
        f"rdma: no DOCA-OFED is pinned for {release(node)} (pinned:"
        f" {', '.join(sorted(options['doca_hosts']))}): add it to rdma_doca_hosts, or set"
        " rdma_stack=inbox.": not doca,
        f"rdma: {node['architecture']} has no DOCA-OFED in rdma_doca_hosts, whose packages are for"
        " x86_64: set rdma_doca_hosts or rdma_stack=inbox.": (
            node["architecture"] != "x86_64" and of_x86
        ),
        "rdma: Secure Boot is on, and the kernel modules of DOCA-OFED, built on this node, carry no"
        " signature that it accepts: deploy the VM without Secure Boot, or set"
        " rdma_stack=inbox.": node["secure_boot"] and not node["container"],
        f"rdma: {free_of(node, '/')} bytes are free below / and DOCA-OFED needs {needed['/']}: make"
        " room, or set rdma_free_bytes where it is installed already.": short_of(node, needed),
    }
    return sentences(wrong)
