"""Expectations as files have them: the catalog's, and a site's own; and the catalog's faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup_controller.sizes import read_sizes, read_sources
from trueup_node.errors import BadInput
from trueup_node.health import faults
from trueup_node.health.expectations import Expectations, of_document
from trueup_node.node.expected_parts import with_parts
from trueup_node.suggest import did_you_mean

from ... import catalog

if TYPE_CHECKING:
    from pathlib import Path

    from ...load import Loaded


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


def for_size(
    size: str | None, chosen: Path | None = None, site_file: Path | None = None
) -> Expectations:
    """The catalog's expectations; a site's own file overrides those of the same figures.

    Raises:
        BadInput: a file cannot be read, or holds nothing of that size.
    """
    expected = read_catalog(chosen)
    if site_file is not None:
        expected = expected.with_own(read(site_file))
    if size is not None and not expected.knows(size):
        spelled = map(catalog.spelled_size, expected.sizes)
        hint = did_you_mean(size, spelled) or "; `trueup sizes` lists the sizes"
        raise BadInput(f"size {size} has no expectations{hint}")
    return expected


def at_sizes(
    loaded: Loaded, chosen: Path | None = None, *, also_own: bool = False
) -> Expectations | None:
    """The catalog's expectations where any figure was measured at several message sizes: of these
    the judged one counts.

    Args:
        also_own: whether a catalog that is not the built-in one is read in any case, so that its
            errors are reported.
    """
    sized = bool(loaded.figures["message_bytes"].notna().any())
    is_site_catalog = also_own and catalog.folder(chosen) != catalog.built_in()
    return read_catalog(chosen) if sized or is_site_catalog else None


def read_faults(chosen: Path | None = None) -> faults.Faults:
    """XIDs, SXids and watched entries of the catalog; arguments, errors as of ``read_catalog``."""
    path = catalog.find("faults/xid.yml", chosen)
    others = sorted(other for other in path.parent.glob("*.yml") if other != path)
    watched = faults.watched_of(map(catalog.document, others))
    return faults.of_document({**catalog.document(path), "watched": watched}, str(path))
