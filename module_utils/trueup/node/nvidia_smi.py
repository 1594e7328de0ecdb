"""Understand ``nvidia-smi --query-gpu=... --format=csv``.

The first line names the columns, with units in brackets; the rows hold values with the same units
(``40960 MiB``). A figure that a GPU does not have is printed in brackets (``[N/A]``).
Source: ``nvidia-smi --help-query-gpu`` and the nvidia-smi manual page.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from ..errors import ParseError, refuse_long_numbers

GPU_QUERY = "name,pci.bus_id,memory.total"
_COLUMNS = ("name", "pci.bus_id", "memory.total [MiB]")
_MIB = 1024**2


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name: as the driver names it, e.g. ``NVIDIA A100-SXM4-40GB``; None when no driver says.
        pci: PCI address as sysfs writes it, with a domain of four digits: ``0001:00:00.0``.
        memory_bytes: its memory; None when the driver does not say.
    """

    name: str | None
    pci: str
    memory_bytes: int | None


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Parse the output of ``nvidia-smi --query-gpu=GPU_QUERY --format=csv``, in its order.

    Raises:
        ParseError: another header, a row of another shape, or no rows.
    """
    refuse_long_numbers(text)
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    except csv.Error as error:
        raise ParseError(f"nvidia-smi: expected a table with commas ({error})") from error
    if not rows or tuple(cell.strip() for cell in rows[0]) != _COLUMNS:
        raise ParseError(
            f"nvidia-smi: expected the columns {', '.join(_COLUMNS)}", 1, text.split("\n", 1)[0]
        )
    gpus = []
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        line = ", ".join(row)
        if len(row) != len(_COLUMNS):
            raise ParseError(
                f"nvidia-smi: expected {len(_COLUMNS)} cells, got {len(row)}", number, line
            )
        name, bus_id, memory = (cell.strip() for cell in row)
        address = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f:]+\.[0-7])", bus_id)
        size = re.fullmatch(r"([0-9]+) MiB", memory)
        if address is None or (size is None and not memory.startswith("[")):
            raise ParseError(
                "nvidia-smi: expected a PCI address and a memory size in MiB", number, line
            )
        domain = format(int(address.group(1), 16), "04x")
        gpus.append(
            Gpu(
                name=None if name.startswith("[") else name,
                pci=f"{domain}:{address.group(2).lower()}",
                memory_bytes=None if size is None else int(size.group(1)) * _MIB,
            )
        )
    if not gpus:
        raise ParseError("nvidia-smi: no GPU in its answer")
    return tuple(gpus)
