"""Identify a Windows host: the fact ``trueup_node``, with the keys of a Linux node.

A member that Windows does not give over PSRP, or that has no meaning there, is None or empty.
Nothing that identifies the machine or its owner is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trueup_node.node import identify
from trueup_node.node.machine import machine_word
from trueup_node.node.metadata import Metadata
from trueup_node.node.nvidia_smi import Gpu

# Subsets that ansible.windows.setup gathers.
SUBSETS = ["!all", "!min", "distribution", "memory", "processor"]
# Where Windows says which release of it this is.
CURRENT_VERSION = "HKLM:\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion"
_ADMINISTRATOR = "administrator"
_MIB = 1024**2


def describe(
    metadata: Metadata,
    facts: Mapping[str, Any],
    release: Mapping[str, Any],
    gpus: Sequence[Gpu],
    *,
    given_size: str | None,
    catalog: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The fact ``trueup_node`` of a Windows host.

    Args:
        metadata: the metadata service's answer to the host.
        facts: the result of ansible.windows.setup for ``SUBSETS``.
        release: the values of ``CURRENT_VERSION``, as windows_facts gives them.
        gpus: GPUs from nvidia-smi; none without a driver.
        given_size: the size given by hand, if any.
        catalog: size, as Azure spells it, to its row.
    """
    identity = identify.identify(
        metadata, given_size=given_size, catalog=catalog, azure_chassis=False
    )
    build = str(facts.get("ansible_distribution_version") or "")
    cpus, packages = facts.get("ansible_processor_vcpus"), facts.get("ansible_processor_count")
    each = facts.get("ansible_processor_cores")
    # An administrator alone is told the name of the system (setup.ps1 of ansible.windows 3.3.0).
    caption = facts.get("ansible_distribution")
    warnings = []
    expected = (identity.catalog or {}).get("vcpus")
    if cpus is not None and expected is not None and cpus != expected:
        warnings.append(f"{identity.vm_size} has {expected} vCPUs, this machine shows {cpus}")
    if identity.vm_size is None and metadata.status != "ok":
        warnings.append(
            "the instance metadata service does not say the size, without which nothing is"
            " configured: give it as trueup_vm_size"
        )
    observed = identify.Observed(
        topology=None,
        lscpu=None,
        gpus=gpus,
        infiniband=[],
        nvme=[],
        memory_bytes=_bytes(facts.get("ansible_memtotal_mb")),
        os_release={
            "PRETTY_NAME": _name(caption, release),
            "ID": identify.WINDOWS,
            "VERSION_ID": ".".join(build.split(".")[:3]),
        },
        kernel=_kernel(build, release),
        architecture="x86_64",
        privilege=None if caption is None else _ADMINISTRATOR,
        # This runs on the controller, whose procfs is another machine's.
        machine=machine_word(metadata.vm_id, procfs_root=""),
        warnings=warnings,
    )
    return {
        **identify.describe(identity, observed),
        "system": identify.WINDOWS,
        "cpu_model": _cpu_model(facts.get("ansible_processor") or []),
        "sockets": packages,
        "cpus": cpus,
        "cores": each * packages if each and packages else None,
        # Nobody looks for disks.
        "nvme": None,
        "mpi": None,
    }


def _bytes(mebibytes: int | None) -> int | None:
    return None if mebibytes is None else mebibytes * _MIB


def _cpu_model(processors: Sequence[str]) -> str | None:
    """The name of the first: the fact holds number, vendor and name of each."""
    name = str(processors[2] or "").strip() if len(processors) > 2 else ""
    return name or None


def _name(caption: str | None, release: Mapping[str, Any]) -> str:
    """Such as ``Windows 11 Enterprise multi-session 25H2``. The registry's own ProductName says
    Windows 10 of Windows 11 too."""
    words = str(caption or _value(release, "EditionID") or "Windows").replace("Microsoft ", "")
    display_version = _value(release, "DisplayVersion")
    return f"{words.strip()} {display_version}" if display_version else words.strip()


def _kernel(build: str, release: Mapping[str, Any]) -> str:
    """The build with its update: ``10.0.26200.6584``. Windows says 0 for the last number."""
    update = _value(release, "UBR")
    return ".".join([*build.split(".")[:3], str(update)]) if update is not None else build


def _value(release: Mapping[str, Any], name: str) -> Any:
    return (release.get(name) or {}).get("data")
