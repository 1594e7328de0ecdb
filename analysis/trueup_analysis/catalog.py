"""Where the catalog lies."""

from __future__ import annotations

import os
from pathlib import Path

from trueup.errors import BadInput

__all__ = ["folder"]


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
    here = Path(__file__).resolve().parent
    for place in (here / "catalog", here.parents[1] / "catalog"):
        if (place / "prices.csv").is_file():
            return place
    message = "no catalog found; set TRUEUP_CATALOG or give --catalog with the folder of prices.csv"
    raise BadInput(message)
