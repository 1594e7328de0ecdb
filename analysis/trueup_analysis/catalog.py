"""Where the catalog lies, and its files as they are."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from trueup.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

# libyaml's, where it is there, reads in a tenth of the time; both load plain values only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    if (built_in() / "prices.csv").is_file():
        return built_in()
    message = "no catalog found; set TRUEUP_CATALOG or give --catalog with the folder of prices.csv"
    raise BadInput(message)


def find(name: str, chosen: Path | None = None) -> Path:
    """A file of the catalog: the chosen folder's, else the built-in one, since a site may bring
    only its own prices.

    Raises:
        BadInput: as ``folder``.
    """
    own = folder(chosen) / name
    return own if own.is_file() else built_in() / name


def built_in() -> Path:
    """The packaged copy, else the checkout's."""
    here = Path(__file__).resolve().parent
    places = (here / "catalog", here.parents[1] / "catalog")
    return next((place for place in places if (place / "prices.csv").is_file()), places[0])


def rows(path: Path, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its place: "prices.csv:7".

    Raises:
        BadInput: it cannot be read, or its header lacks a column.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            if lacking := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise BadInput(f"{path}: the header lacks {', '.join(lacking)}")
            for row in reader:
                yield f"{path}:{reader.line_num}", row
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def document(path: Path) -> Any:
    """What a YAML file holds.

    Raises:
        BadInput: it cannot be read, or is not YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 WHY: it is a safe one
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        # Also a date with a thirteenth month, and lists within lists without an end.
        raise BadInput(f"{path} is not YAML: {' '.join(str(error).split())}") from error
