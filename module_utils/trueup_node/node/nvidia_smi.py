"""Understand ``nvidia-smi --query-gpu=... --format=csv``.

The first line names the columns, with units in brackets; the rows hold values with the same units
(``40960 MiB``). A figure that a GPU does not have is printed in brackets (``[N/A]``).
Source: ``nvidia-smi --help-query-gpu`` and the nvidia-smi manual page.
"""

from __future__ import annotations

import csv
import io
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ParseError
from ..reading import Line, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GPU_QUERY = "name,pci.bus_id,memory.total"
_COLUMNS = ("name", "pci.bus_id", "memory.total [MiB]")
_MIB = 1024**2
# GDDR6 with ECC switched on or off differs by a sixteenth.
_UNLIKE = 1.25


class Gpu(NamedTuple):
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
        ParseError: another header, a row of another shape, no rows, a GPU twice, or GPUs of one
            name that differ much in memory.
    """
    gpus: list[Gpu] = []
    widths = set()
    for (name, bus_id, memory), line in rows_of(text, _COLUMNS):
        widths.add(len(bus_id))
        address = address_of(bus_id)
        size = re.fullmatch(r"([0-9]{1,9}) MiB", memory)
        if address is None or len(widths) > 1 or (size is None and not memory.startswith("[")):
            raise line.error("nvidia-smi: expected a PCI address and a memory size in MiB")
        if any(gpu.pci == address for gpu in gpus):
            raise line.error(f"nvidia-smi: the GPU at {address} stands twice")
        gpus.append(
            Gpu(
                name=None if name.startswith("[") else name,
                pci=address,
                memory_bytes=None if size is None else int(size.group(1)) * _MIB,
            )
        )
    _refuse_unlike(gpus)
    return tuple(gpus)


def _refuse_unlike(gpus: Sequence[Gpu]) -> None:
    sizes: dict[str, list[int]] = {}
    for gpu in gpus:
        if gpu.name is not None and gpu.memory_bytes is not None:
            sizes.setdefault(gpu.name, []).append(gpu.memory_bytes)
    for name, memory_sizes in sizes.items():
        if max(memory_sizes) > _UNLIKE * min(memory_sizes):
            raise ParseError(
                f"nvidia-smi: GPUs called {name} have from {min(memory_sizes) // _MIB} to"
                f" {max(memory_sizes) // _MIB} MiB"
            )


def rows_of(
    text: str, columns: Sequence[str], same: Callable[[str, str], bool] = operator.eq
) -> list[tuple[list[str], Line]]:
    """The cells of each row, and the row; ``same`` says whether a column may be called so.

    Raises:
        ParseError: no such table, a row with more or fewer cells, or no row.
    """
    lines = lines_of(text)
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    except csv.Error as error:
        raise ParseError(f"nvidia-smi: expected a table with commas ({error})") from error
    head = [cell.strip() for cell in rows[0]] if rows else []
    if len(head) != len(columns) or not all(map(same, head, columns)):
        first = next(iter(lines), Line("", 1))
        raise first.error(f"nvidia-smi: expected the columns {', '.join(columns)}")
    numbered_rows = [
        ([cell.strip() for cell in row], Line(", ".join(row), number))
        for number, row in enumerate(rows[1:], start=2)
        if row
    ]
    for cells, line in numbered_rows:
        if len(cells) != len(columns):
            raise line.error(f"nvidia-smi: expected {len(columns)} cells, got {len(cells)}")
    if not numbered_rows:
        raise ParseError("nvidia-smi: no GPU in its answer")
    return numbered_rows


def address_of(text: str) -> str | None:
    """A PCI address as sysfs writes it, with a domain of four digits; None for another text."""
    match = re.fullmatch(r"((?:[0-9A-Fa-f]{4}){1,2}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", text)
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}" if match else None
