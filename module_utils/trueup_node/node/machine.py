"""The word by which two inventory names are seen to be one machine.

On Azure it follows from the VM's id, which stays the same for the VM's life, elsewhere from the
kernel's id of its boot: clones of an image share ``/etc/machine-id``, and only root may read DMI's
product uuid. Containers on one machine share both ids, and are nodes of their own in a lab, so the
PID namespace belongs to it; outside containers that is the same number everywhere. Ids are not
published: the word is a part of their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Optional

from .sysfs import text_of

# Words that follow from the id of an Azure VM. Others change with each boot.
OF_VM = "vm-"
_OF_BOOT = "boot-"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGITS = 16


def machine_word(vm_id: Optional[str], procfs_root: str = "/proc") -> Optional[str]:
    """The machine's word; None where neither id is known.

    Args:
        vm_id: ``vmId`` of Azure's instance metadata, in any case.
        procfs_root: where the machine's procfs stands.
    """
    vm, boot = (
        (text or "").strip().lower()
        for text in (vm_id, text_of(Path(procfs_root, "sys/kernel/random/boot_id")))
    )
    for kind, uuid in ((OF_VM, vm), (_OF_BOOT, boot)):
        if _UUID.fullmatch(uuid):
            text = f"trueup {kind} {uuid} {_pid_namespace(procfs_root)}"
            return kind + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return None


def _pid_namespace(procfs_root: str) -> str:
    """Such as ``pid:[4026531836]``; empty where the kernel has none."""
    try:
        return os.readlink(Path(procfs_root, "self", "ns", "pid"))
    except OSError:
        return ""
