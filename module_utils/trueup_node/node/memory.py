"""How much memory a benchmark may take on this machine."""

from __future__ import annotations

from typing import List, Optional


def available_memory_bytes(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> Optional[int]:
    """Memory for a new process, bytes: the kernel's MemAvailable, or the room in its control group
    if that is less."""
    candidates: List[int] = []
    try:
        with open(f"{proc}/meminfo", encoding="ascii") as stream:
            candidates += [
                int(line.split()[1]) * 1024 for line in stream if line.startswith("MemAvailable:")
            ]
    except (OSError, ValueError):
        pass
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            with open(f"{cgroup}/{limit_name}", encoding="ascii") as stream:
                limit = int(stream.read())  # the word "max" is no limit and no number
            with open(f"{cgroup}/{used_name}", encoding="ascii") as stream:
                candidates.append(max(0, limit - int(stream.read())))
        except (OSError, ValueError):
            continue
    return min(candidates) if candidates else None
