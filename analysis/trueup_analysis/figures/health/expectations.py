"""Expectations as files have them: the catalog's, and a site's own; and the catalog's faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.sizes import read_sizes, read_sources
from trueup_node.health import faults
from trueup_node.health.expectations import Expectations, of_document
from trueup_node.node.expected_parts import with_parts

from ... import catalog

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> Expectations:
    """The expectations of a file.

    Raises:
        BadInput: it cannot be read, or an entry is wrong; says which.
    """
    return of_document(catalog.document(path), str(path))


def read_catalog(chosen: Path | None = None) -> Expectations:
    """The catalog's expectations: those of expectations.yml, and of a size's parts in vm_sizes.csv.

    Args:
        chosen: the catalog's folder, as ``catalog.find`` takes it.

    Raises:
        BadInput: a file cannot be read, or an entry is wrong; says which.
    """
    sizes = str(catalog.find("vm_sizes.csv", chosen))
    published = read(catalog.find("expectations.yml", chosen))
    return with_parts(published, read_sizes(sizes), read_sources(sizes))


def read_faults(chosen: Path | None = None) -> faults.Faults:
    """The catalog's XIDs and SXids; arguments and errors as of ``read_catalog``."""
    path = catalog.find("faults/xid.yml", chosen)
    return faults.of_document(catalog.document(path), str(path))
