"""Where the catalog lies, and its files as they are."""

from __future__ import annotations

import csv
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueup_controller.project import CATALOG
from trueup_node.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PRICE_COLUMNS: Final = (
    *("size", "region", "os", "offer", "usd_per_hour", "as_of_date", "source", "notes"),
)
METER_COLUMNS: Final = (
    *("item", "region", "unit", "from_units", "usd", "as_of_date", "source", "notes"),
)
METER_UNITS: Final = ("hour", "month", "GiB-hour", "GB-month", "GB")
# A file that a person writes is far below both.
_MOST_CHARACTERS = 2**26
_DEEPEST = 100


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
    path = folder(chosen) / name
    return path if path.is_file() else built_in() / name


# How records are made: a checkout has a Makefile, an installed trueup has none.
MEASURE: Final = (
    "run `make run`"
    if (Path(__file__).parents[2] / "site.yml").is_file()
    else "measure nodes with trueup's Ansible collection"
)


def built_in() -> Path:
    """The packaged copy, else the checkout's."""
    package = Path(__file__).resolve().parent
    places = (package / "catalog", CATALOG)
    return next(
        (directory for directory in places if (directory / "prices.csv").is_file()), places[0]
    )


def spelled_size(name: str) -> str:
    """A VM size as the built-in catalog writes it, whatever its case, with or without "Standard_",
    and with the portal's blanks for underscores; another name as it is."""
    names = {name.lower(): name for name in _sizes()}
    lower = name.strip().lower().replace(" ", "_")
    return names.get(lower) or names.get(f"standard_{lower}") or name


@cache
def _sizes() -> list[str]:
    return [row["size"] for _, row in rows(built_in() / "vm_sizes.csv", "size")]


def rows(path: Path, *columns: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file, each with its place: "prices.csv:7".

    Raises:
        BadInput: it cannot be read, its header lacks a column, or a row has not as many cells.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            if lacking := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise BadInput(f"{path}: the header lacks {', '.join(lacking)}")
            for row in reader:
                where = f"{path}:{reader.line_num}"
                # DictReader files surplus cells under the key None, and fills missing ones with it.
                if None in row or None in row.values():
                    cells = len(reader.fieldnames or ())
                    raise BadInput(
                        f"{where}: the row does not have {cells} cells, as the header has"
                    )
                yield where, row
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error


def counts(path: Path, column: str, unit: str) -> dict[str, int]:
    """A column of vm_sizes.csv, such as "gpus": whole numbers by size in lower case, 0 for an empty
    cell. Empty without such a file.

    Args:
        unit: their unit, for a message.

    Raises:
        BadInput: the file cannot be read, or is another one.
    """
    if not path.is_file():
        return {}
    by_size = {}
    for where, row in rows(path, "size", column):
        if not (row[column] or "0").isdecimal():
            raise BadInput(f"{where}: {row[column]!r} is no number of {unit}")
        by_size[row["size"].lower()] = int(row[column] or 0)
    return by_size


def text(path: Path) -> str:
    """A file that a person writes.

    Raises:
        BadInput: it is longer than any such file.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    with path.open(encoding="utf-8") as stream:
        content = stream.read(_MOST_CHARACTERS + 1)
    if len(content) > _MOST_CHARACTERS:
        raise BadInput(f"{path} is longer than {_MOST_CHARACTERS:,} characters")
    return content


def document(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        BadInput: it cannot be read, or is not YAML.
    """
    # 10 ms that many commands do not need.
    import yaml  # noqa: PLC0415

    # libyaml's, where it is there, reads in a tenth of the time; both load plain values only.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = text(path)
        _refuse_deep(path, yaml.parse(content, Loader=loader))
        return yaml.load(content, Loader=loader)  # noqa: S506 WHY: it is a safe one
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        # Also a date with a thirteenth month, and lists within lists without an end.
        raise BadInput(f"{path} is not YAML: {' '.join(str(error).split())}") from error


def _refuse_deep(path: Path, events: Iterable[Any]) -> None:
    """The loader calls itself for each list in a list, and ends the process where that is too deep;
    the parser of events does not."""
    from yaml import CollectionEndEvent, CollectionStartEvent  # noqa: PLC0415 WHY: as above

    depth = 0
    for event in events:
        depth += isinstance(event, CollectionStartEvent)
        depth -= isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            raise BadInput(f"{path} holds more than {_DEEPEST} lists or mappings within each other")


def own_prices() -> Path:
    """The user's own prices: ``TRUEUP_PRICES``, else trueup/prices.csv in the user's data folder
    (XDG_DATA_HOME)."""
    named = os.environ.get("TRUEUP_PRICES")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data, "trueup", "prices.csv")


def own_file(name: str) -> Path:
    """Another file of the user, in the folder of ``own_prices``."""
    return own_prices().with_name(name)


def contract_file(chosen: Path | None = None) -> Path | None:
    """The contract that holds: the file chosen, else that of TRUEUP_CONTRACT, else contract.yml
    beside the user's own prices if it is there."""
    named = os.environ.get("TRUEUP_CONTRACT")
    if chosen is not None or named:
        return chosen or Path(str(named))
    default = own_file("contract.yml")
    return default if default.is_file() else None
