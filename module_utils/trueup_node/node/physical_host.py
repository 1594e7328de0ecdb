"""The physical host of a virtual machine, as Hyper-V names it to its guest.

The host writes key-value pairs, which the guest's daemon keeps in files of fixed records: a key of
512 bytes and a value of 2,048, both ended by a NUL (Linux, tools/hv/hv_kvp_daemon.c and
include/uapi/linux/hyperv.h). Pool 3 holds the host's own.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, List, Optional, Tuple

POOL = "/var/lib/hyperv/.kvp_pool_3"
_KEY, _VALUE = 512, 2048
# The host's own pairs are about ten.
_MOST_RECORDS = 64
_NAMES = ("PhysicalHostNameFullyQualified", "PhysicalHostName")
# RFC 1123's characters, and the underscore of NetBIOS.
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def physical_host(path: str = POOL) -> Tuple[Optional[str], List[str]]:
    """The host's name, None where no such file can be read; and warnings."""
    pairs = _pairs(_content(path))
    name = next((pairs[key] for key in _NAMES if pairs.get(key)), None)
    if name is None:
        return None, []
    if _HOST.fullmatch(name) is None:
        return None, [f"{path} names a physical host that is no host name; it is not used"]
    return name, []


def _content(path: str) -> bytes:
    """The first records of a file; none of anything but a plain file, which could block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        is_plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _MOST_RECORDS * (_KEY + _VALUE)) if is_plain else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _pairs(content: bytes) -> Dict[str, str]:
    size = _KEY + _VALUE
    records = [content[start : start + size] for start in range(0, len(content), size)]
    return {_text(record[:_KEY]): _text(record[_KEY:]) for record in records if len(record) == size}


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", errors="replace").strip()
