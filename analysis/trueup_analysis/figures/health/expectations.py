"""The catalog's expectations.yml: what healthy nodes reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup.health.expectations import Expectations, of_document

from ... import catalog

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> Expectations:
    """The expectations of a file.

    Raises:
        BadInput: it cannot be read, or an entry is wrong; says which.
    """
    return of_document(catalog.document(path), str(path))
