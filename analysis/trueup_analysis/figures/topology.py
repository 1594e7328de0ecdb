"""The catalog's layouts of GPUs and adapters; the rules are trueup.nccl_topology's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup.errors import BadInput
from trueup.node.nccl_topology import Layout, layout_of, read_layouts, reason_without
from trueup.suggest import nearest

from .. import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read(path: Path, size: str = "") -> dict[str, Layout]:
    """The layouts of topologies.yml by name.

    Raises:
        BadInput: the file cannot be read, a layout is wrong, or ``size`` is to have no file.
    """
    document = catalog.document(path)
    layouts = read_layouts(document)
    reason = reason_without(document, size)
    if reason:
        message = f"{size} is to have no topology file: {reason}; unset NCCL_TOPO_FILE there"
        raise BadInput(message)
    return layouts


def layout_for(size: str, layouts: Mapping[str, Layout]) -> Layout:
    """The layout of a size.

    Raises:
        BadInput: the catalog has none; says which sizes it has.
    """
    layout = layout_of(size, layouts)
    if layout is not None:
        return layout
    sizes = [layout_size for item in layouts.values() for layout_size in item.sizes]
    near = nearest(size, sizes)
    hint = "" if near is None else f"did you mean {near}? "
    message = f"no topology is known for size {size}; {hint}It is for {', '.join(sizes)}"
    raise BadInput(message)
