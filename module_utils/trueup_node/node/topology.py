"""Which CPUs a machine has and how they share cores, L3 caches and NUMA nodes, read from sysfs.

The files and their formats are those of the Linux kernel's Documentation/ABI/stable, documents
sysfs-devices-system-cpu and sysfs-devices-node. CPU numbers are the operating system's, as
``taskset`` and ``/proc`` use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import BadInput, ParseError
from .sysfs import entries, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Cpus = tuple[int, ...]

# Linux is built for at most 8192 CPUs (NR_CPUS); a larger number is a corrupt file, and expanding
# it would fill memory.
_MAX_CPU = 8192
_WORD_BITS = 32
_L3 = 3
_SIZE_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Topology:
    """A machine's CPUs, limited to those that may be used.

    Attributes:
        cpus: usable CPU numbers, ascending.
        numa: NUMA node -> its usable CPUs. A machine that shows no nodes has one, number 0.
        l3_groups: CPUs that share one L3 cache, ascending by first CPU; empty when none is shown.
        cores: the SMT siblings of each physical core, ascending by first CPU.
        last_level_cache_bytes: sum over the distinct last-level caches of the usable CPUs; None
            when not shown.
        numa_memory_bytes: NUMA node -> its memory; empty when not shown.
    """

    cpus: Cpus
    numa: Mapping[int, Cpus]
    l3_groups: tuple[Cpus, ...]
    cores: tuple[Cpus, ...]
    last_level_cache_bytes: int | None = None
    numa_memory_bytes: Mapping[int, int] = field(default_factory=dict)


class _Cache(NamedTuple):
    level: int
    shared: Cpus
    size_bytes: int | None


def parse_cpu_list(text: str) -> Cpus:
    """The CPUs of a kernel list such as ``0-3,8``, ascending; blank text is no CPUs.

    Raises:
        ParseError: anything but numbers and rising ranges, or a number beyond Linux's limit.
    """
    cpus: set[int] = set()
    for cpu_range in text.strip().split(",") if text.strip() else ():
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", cpu_range)
        if match is None:
            raise ParseError(
                f"CPU list: {cpu_range!r} is neither a number nor a range like 0-3", 1, text
            )
        first = int(match.group(1))
        last = first if match.group(2) is None else int(match.group(2))
        if last < first or last >= _MAX_CPU:
            raise ParseError(
                f"CPU list: {cpu_range!r} must rise and stay under {_MAX_CPU}", 1, text
            )
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The kernel's list form of ``cpus``: ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cpu_mask(cpus: Iterable[int]) -> str:
    """``cpus`` as a plain hexadecimal mask, CPU 0 lowest: CPUs 24 to 47 are ``ffffff000000``.

    Raises:
        BadInput: a negative CPU number.
    """
    value = 0
    for cpu in cpus:
        if cpu < 0:
            raise BadInput(f"CPU mask: {cpu} is not a CPU number")
        value |= 1 << cpu
    return format(value, "x")


def mask_words(cpus: Iterable[int], width: int) -> str:
    """``cpus`` as the kernel and NCCL print masks: words of 32 bits, highest first.

    ``width`` is the number of CPUs that the mask covers: of 96, CPUs 24 to 47 are
    ``00000000,0000ffff,ff000000``.

    Raises:
        BadInput: a CPU number that is negative or not below ``width``.
    """
    cpu_ids = sorted(set(cpus))
    if width < 1 or (cpu_ids and cpu_ids[-1] >= width):
        raise BadInput(
            f"CPU mask: CPU {cpu_ids[-1] if cpu_ids else 0} does not fit in a width of {width} CPUs"
        )
    words = -(-width // _WORD_BITS)
    digits = cpu_mask(cpu_ids).zfill(words * 8)
    return ",".join(digits[start : start + 8] for start in range(0, len(digits), 8))


def parse_cpu_mask(text: str) -> Cpus:
    """The CPUs of a hexadecimal mask.

    It may be plain (``0x3f``, ``ffffff000000``) or in 32-bit words (``ffff,ff000000``).

    Raises:
        ParseError: not hexadecimal, a word of more than 8 digits, or more CPUs than Linux can have.
    """
    body = text.strip()
    if body[:2] in {"0x", "0X"}:
        body = body[2:]
    words = body.split(",")
    pattern = r"[0-9a-fA-F]+" if len(words) == 1 else r"[0-9a-fA-F]{1,8}"
    if not all(re.fullmatch(pattern, mask_word) for mask_word in words) or len(body) > _MAX_CPU:
        raise ParseError(
            "CPU mask: expected hexadecimal digits, in comma-separated words of 8 or in one piece",
            1,
            text,
        )
    value = int(words[0] + "".join(mask_word.zfill(8) for mask_word in words[1:]), 16)
    return tuple(bit for bit in range(value.bit_length()) if value >> bit & 1)


def read_topology(root: str = "/sys", allowed: Iterable[int] | None = None) -> Topology:
    """Read the topology of this machine.

    Args:
        root: where sysfs is mounted.
        allowed: the CPUs that may be used (``os.sched_getaffinity(0)``); None means all online.

    Raises:
        BadInput: no usable CPU.
        ParseError: a sysfs file that does not have the kernel's format.
    """
    cpu_dir = Path(root, "devices", "system", "cpu")
    permitted = None if allowed is None else set(allowed)
    online = _online(cpu_dir)
    if not online:
        online = permitted or set()
    usable = online if permitted is None else online & permitted
    if not usable:
        raise BadInput(f"no usable CPU: {len(online)} online under {cpu_dir}, none of them allowed")
    cores: set[Cpus] = set()
    groups: set[Cpus] = set()
    last_level: dict[tuple[int, Cpus], int | None] = {}
    for cpu in sorted(usable):
        folder = cpu_dir / f"cpu{cpu}"
        cores.add(_within(_siblings(folder, cpu), usable))
        caches = _caches(folder / "cache", cpu)
        groups.update(_within(cache.shared, usable) for cache in caches if cache.level == _L3)
        if caches:
            last = max(caches, key=lambda cache: cache.level)
            last_level[last.level, last.shared] = last.size_bytes
    sizes = [size for size in last_level.values() if size is not None]
    numa, memory = _numa(Path(root, "devices", "system", "node"), usable)
    return Topology(
        cpus=tuple(sorted(usable)),
        numa=numa,
        l3_groups=tuple(sorted(groups)),
        cores=tuple(sorted(cores)),
        last_level_cache_bytes=sum(sizes) if sizes else None,
        numa_memory_bytes=memory,
    )


def _online(cpu_dir: Path) -> set[int]:
    text = text_of(cpu_dir / "online")
    if text:
        return set(parse_cpu_list(text))
    return {number for number, _ in _numbered(cpu_dir, "cpu")}


def _siblings(folder: Path, cpu: int) -> Cpus:
    # core_cpus_list is the name since Linux 5.3; older kernels have thread_siblings_list.
    for name in ("core_cpus_list", "thread_siblings_list"):
        text = text_of(folder / "topology" / name)
        if text:
            return parse_cpu_list(text)
    return (cpu,)


def _caches(folder: Path, cpu: int) -> list[_Cache]:
    caches = []
    for _, path in _numbered(folder, "index"):
        level = text_of(path / "level")
        if not level.isdecimal() or text_of(path / "type") == "Instruction":
            continue
        shared = parse_cpu_list(text_of(path / "shared_cpu_list")) or (cpu,)
        caches.append(_Cache(int(level), shared, _cache_size(text_of(path / "size"))))
    return caches


def _cache_size(text: str) -> int | None:
    match = re.fullmatch(r"([0-9]+)([KMG]?)", text)
    return None if match is None else int(match.group(1)) * _SIZE_UNITS[match.group(2)]


def _numa(folder: Path, usable: set[int]) -> tuple[dict[int, Cpus], dict[int, int]]:
    nodes: dict[int, Cpus] = {}
    memory: dict[int, int] = {}
    for number, path in _numbered(folder, "node"):
        cpus = _within(parse_cpu_list(text_of(path / "cpulist")), usable)
        # A node without usable CPUs is memory only (or not ours): nothing can be placed there.
        if cpus:
            nodes[number] = cpus
        total = re.search(r"MemTotal:\s*([0-9]+) kB", text_of(path / "meminfo"))
        if total is not None:
            memory[number] = int(total.group(1)) * 1024
    return nodes or {0: tuple(sorted(usable))}, memory


def _numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    matches = (
        (re.fullmatch(re.escape(prefix) + r"([0-9]+)", path.name), path) for path in entries(folder)
    )
    return sorted((int(match.group(1)), path) for match, path in matches if match)


def _within(cpus: Cpus, usable: set[int]) -> Cpus:
    return tuple(cpu for cpu in cpus if cpu in usable)
