"""Slices of a GPU: whether they are licensed, and whether they have the memory of their size.

An unlicensed slice computes at full speed for a while after the boot and is throttled then, which
looks like a slow GPU. Source of the format: ``nvidia-smi -q`` of drivers 470 to 570; of the states,
NVIDIA's Virtual GPU Client Licensing User Guide.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import ParseError
from ..reading import lines_of
from .nvidia_smi import address_of

_GIB = 1024**3
# The part of its nominal memory that a slice may lack: an A10-8Q shows 7.82 GiB.
_TOLERANCE = 0.1
# An A10-24Q is the whole of an A10, and virtual all the same; an A100-SXM4-40GB is not.
_PROFILE = re.compile(r"-([0-9]+)[ABCQ]$")
_LICENCE_ON_LINUX = (
    "see `journalctl -u nvidia-gridd`, and that /etc/nvidia/gridd.conf sets no FeatureType and no"
    " server"
)
_NEW_HOST = "deallocate the VM and start it again, so that it comes to another host, and report it"


def is_virtual(name: Optional[str]) -> bool:
    """Whether nvidia-smi's name of a GPU ends with the profile of a slice, as ``NVIDIA A10-8Q``."""
    return bool(name and _PROFILE.search(name))


def parse_licences(text: str) -> Dict[str, Optional[str]]:
    """PCI address to the state of its licence, such as ``Licensed (Expiry: N/A)``, from
    ``nvidia-smi -q``; None where a GPU has no such block, as whole ones have none.

    Raises:
        ParseError: no GPU, one twice, or a block without its state.
    """
    licences: Dict[str, Optional[str]] = {}
    address, heading = None, None
    for line in lines_of(text):
        label, _, value = (field.strip() for field in line.partition(" : "))
        gpu = re.match(r"GPU ([0-9A-Fa-f:.]+)\s*$", line)
        if gpu:
            address = address_of(gpu.group(1))
            if address is None or address in licences:
                raise line.error("nvidia-smi -q: expected a PCI address, each GPU once")
            licences[address] = None
        elif address and label == "vGPU Software Licensed Product":
            heading = line
            continue
        elif address and heading and label == "License Status":
            licences[address], heading = value, None
        if heading and _inset(line) <= _inset(heading):
            break
    if heading:
        raise heading.error("nvidia-smi -q: expected a License Status")
    if not licences:
        raise ParseError("nvidia-smi -q: no GPU in its answer")
    return licences


def _inset(line: str) -> int:
    return len(line) - len(line.lstrip())


def is_licensed(state: Optional[str]) -> bool:
    """Whether a licence is held; ``Unlicensed (Unrestricted)`` is the time before throttling."""
    return bool(re.match(r"Licensed\b", state or ""))


def judge(
    devices: Sequence[Mapping[str, Any]],
    gib: Optional[float],
    licence_is_told_by: str = _LICENCE_ON_LINUX,
) -> List[Dict[str, Any]]:
    """Problems of the slices among gpu_facts' ``devices``: ``name``, ``message`` and whether a
    ``reboot`` fixes it.

    Args:
        devices: with ``pci``, ``name``, ``memory_bytes`` and ``licence``.
        gib: memory that each is to have; None is not judged.
        licence_is_told_by: where to look for why there is no licence.
    """
    problems: List[Dict[str, Any]] = []
    for gpu in devices:
        if gpu["licence"] is not None and not is_licensed(gpu["licence"]):
            problems.append(
                _problem(
                    "gpu_unlicensed",
                    f"GPU {gpu['pci']} ({gpu['name']}) is {gpu['licence']}, expected is Licensed:"
                    " it is throttled some time after the boot. A licence comes with Azure's"
                    f" drivers: {licence_is_told_by}.",
                )
            )
        profile, memory = _PROFILE.search(gpu["name"] or ""), gpu["memory_bytes"]
        if gib and profile and int(profile.group(1)) != gib:
            problems.append(
                _problem(
                    "gpu_profile",
                    f"GPU {gpu['pci']} ({gpu['name']}) is a slice of {profile.group(1)} GiB,"
                    f" expected of this size are {gib:g}: {_NEW_HOST}.",
                )
            )
        if gib and memory is not None and memory < (1 - _TOLERANCE) * gib * _GIB:
            problems.append(
                _problem(
                    "gpu_memory_short",
                    f"GPU {gpu['pci']} ({gpu['name']}) shows {memory / _GIB:.2f} GiB, expected of"
                    f" this size are {gib:g}: {_NEW_HOST}.",
                )
            )
    return problems


def _problem(name: str, message: str) -> Dict[str, Any]:
    return {"name": name, "message": message, "reboot": False}
