"""The report's files, and how they are put in place."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trueup_node.errors import BadInput, TrueupError

from ..figures.terms import OWN, Terms
from ..render.html import render_html
from .page import gather

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..figures.advise.access import Advised
    from ..figures.advise.kinds import Sized
    from ..figures.compare.changes import Comparison
    from ..figures.terms import ApiPrices, ServiceLevel
    from ..load import Loaded
    from ..render.html import Page

_SUMS = "SHA256SUMS"


def write_report(
    loaded: Loaded,
    output_dir: Path,
    *,
    catalog: Path | None = None,
    terms: Terms = OWN,
    api: ApiPrices | None = None,
    level: ServiceLevel | None = None,
    advised: Advised | Sized | None = None,
    changes: Comparison | None = None,
) -> Path:
    """Write index.html, plots/*.png, tables/*.csv and SHA256SUMS into ``output_dir``.

    The same input gives the same bytes. Files of an earlier report that this one lacks go.

    Args:
        loaded: the loaded records, also when none of them is ok.
        output_dir: the folder, made when it does not exist.
        catalog: the folder of prices.csv, vm_sizes.csv and reference_results.csv; the packaged one
            when None.
        terms: how its runs are priced.
        api: prices of an API that vLLM's tokens are compared with.
        level: the service level for the loads of a vLLM server.
        advised: an advice that it begins with.
        changes: the run beside the one before.

    Returns:
        The path of index.html.

    Raises:
        BadInput: ``output_dir`` is a file, or the catalog or a choice of price cannot be used.
        TrueupError: the disk refuses.
    """
    if output_dir.exists() and not output_dir.is_dir():
        raise BadInput(f"report folder {output_dir} is a file; name a folder")
    page = gather(
        loaded,
        catalog=catalog,
        terms=terms,
        api=api,
        level=level,
        advised=advised,
        changes=changes,
        output_dir=output_dir,
    )
    try:
        _publish(files(page), output_dir)
    except OSError as error:
        message = f"report could not be written in {output_dir}: {error.strerror}"
        raise TrueupError(message) from error
    return output_dir / "index.html"


def files(page: Page) -> dict[str, bytes]:
    """The files of the report: path below its folder -> content; index.html is the last."""
    content = {f"plots/{figure.name}.png": figure.drawing.png() for figure in page.figures()}
    tables = {section.name: section.csv() for section in page.every_section()}
    content |= {f"tables/{name}.csv": table for name, table in tables.items() if table}
    content["index.html"] = render_html(page).encode()
    return content


def _publish(content: Mapping[str, bytes], folder: Path) -> None:
    """Write all files aside, then rename each into place; then remove files of an
    earlier report that this one lacks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = _earlier(folder)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    listing = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    aside = Path(tempfile.mkdtemp(prefix=".trueup-report-", dir=folder))
    try:
        for name, data in {**content, _SUMS: listing.encode()}.items():
            _write(aside / name, data)
        for name in (*content, _SUMS):
            (folder / name).parent.mkdir(exist_ok=True)
            (aside / name).replace(folder / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for name, digest in earlier.items():
        stale = folder / name
        # Changed since, it is no longer ours to remove.
        if name not in content and stale.is_file() and _digest(stale) == digest:
            stale.unlink()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _earlier(folder: Path) -> dict[str, str]:
    """Plots and tables that an earlier report in this folder lists as its own, with their
    sha256.
    """
    try:
        lines = (folder / _SUMS).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return {
        name: digest
        for name, digest in listed.items()
        if name.count("/") == 1 and name.startswith(("plots/", "tables/")) and ".." not in name
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
