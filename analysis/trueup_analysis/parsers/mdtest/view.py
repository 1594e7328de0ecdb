"""How figures of mdtest are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_node.view import Chart, View, rate

if TYPE_CHECKING:
    from trueup_node.view import Measure


def _rate(operation: str) -> Measure:
    return rate(
        f"mdtest_{operation.replace(' ', '_')}",
        operation,
        "operations/s",
    )


_FILES = tuple(map(_rate, ("file creation", "file stat", "file read", "file removal")))
_DIRECTORIES = tuple(
    map(
        _rate,
        ("directory creation", "directory stat", "directory rename", "directory removal"),
    )
)
_TREES = tuple(map(_rate, ("tree creation", "tree removal")))

VIEW = View(
    title="File system metadata (mdtest)",
    headlines=(*_FILES, *_DIRECTORIES, *_TREES),
    identity=("items",),
    apart=("items",),
    charts=(Chart("rows", _FILES, "case", "Rates of operations on files"),),
    method="MPI processes create, look up, read and remove files and directories of a tree, each"
    " phase by itself; a rate is all items over the time of the phase, the mean of the iterations."
    " The time between the phases is not in it.",
)
