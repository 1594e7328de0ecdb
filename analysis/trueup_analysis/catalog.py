"""Where the catalog lies."""

from __future__ import annotations

import os
from pathlib import Path

from trueup.errors import BadInput


def folder(chosen: Path | None = None) -> Path:
    """The catalog's folder: ``chosen``, else ``TRUEUP_CATALOG``, else the packaged copy, else the
    checkout's.

    Raises:
        BadInput: the folder named by the user holds no prices.csv, or none of the places does.
    """
    named = chosen or (
        Path(os.environ["TRUEUP_CATALOG"]) if "TRUEUP_CATALOG" in os.environ else None
    )
    if named is not None:
        if not (named / "prices.csv").is_file():
            message = f"catalog folder {named} holds no prices.csv; name the folder that holds it"
            raise BadInput(message)
        return named
    if (_built_in() / "prices.csv").is_file():
        return _built_in()
    message = "no catalog found; set TRUEUP_CATALOG or give --catalog with the folder of prices.csv"
    raise BadInput(message)


def find(name: str, chosen: Path | None = None) -> Path:
    """A file of the catalog: the chosen folder's, else the built-in one, since a site may bring
    only its own prices.

    Raises:
        BadInput: as ``folder``.
    """
    own = folder(chosen) / name
    return own if own.is_file() else _built_in() / name


def _built_in() -> Path:
    here = Path(__file__).resolve().parent
    places = (here / "catalog", here.parents[1] / "catalog")
    return next((place for place in places if (place / "prices.csv").is_file()), places[0])
