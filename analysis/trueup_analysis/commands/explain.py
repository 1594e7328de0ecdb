"""``trueup explain``: the faults in a log, and the next steps."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from trueup_node.errors import BadInput

from .. import decoding
from ..read import STANDARD_INPUT, files_of
from .interface import Common, Format, errors_end_with, examples, say_refused, taking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.health.dictionary import Dictionary

    from ..figures.explain import Explanation

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup explain /var/log/kern.log",
        "journalctl -k | trueup explain -",
        "trueup explain results/evidence/20261130T092327Z-h100-0017.tar.gz",
        "trueup explain nccl.log slurm-1234.out --format json",
    ),
)
@taking(common=Common)
def explain(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Logs of any program, folders and tar archives of them, or patterns in quotes;"
            " - is standard input, as without any.",
            show_default=False,
        ),
    ] = None,
    *,
    common: Common,
) -> None:
    """The known faults in logs (kernel, journal, NCCL, vLLM, Slurm, waagent, mpirun, ...): causes
    before their consequences, device and node, the next check and the fix. Exit status: 0 nothing
    found; 1 a fault found; 2 no fault found, and a file could not be read or lines that look like
    errors match nothing."""
    from ..sheets import explain as explain_sheets

    # 1 would say that a fault was found.
    with errors_end_with(2):
        explained, refused = _explained(files or ["-"], common)
    say_refused(refused, len(explained) + len(refused))
    if any(explain_sheets.is_fault(fault) for item in explained for fault in item.faults):
        raise typer.Exit(1)
    if refused or any(item.unknown_lines for item in explained):
        raise typer.Exit(2)


def _explained(files: Sequence[str], common: Common) -> tuple[list[Explanation], list[str]]:
    """Explain each file and write the sheets; a sentence on each file that cannot be read."""
    from ..figures.explain import read_dictionary
    from ..sheets import explain as explain_sheets

    entries = read_dictionary(common.catalog)
    names, refused = files_of(files)
    results = [result for name in names for result in _each(name, entries)]
    explained = [result for result in results if not isinstance(result, str)]
    refused += [result for result in results if isinstance(result, str)]
    if explained:
        people = common.format_ is Format.table
        sheets = explain_sheets.for_people if people else explain_sheets.explanations
        common.write(sheets(explained))
    return explained, refused


def _each(name: str, entries: Dictionary) -> Iterator[Explanation | str]:
    """A file, or each one in a tar archive, explained, or a sentence on why it cannot be read."""
    source = STANDARD_INPUT if name == "-" else name
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            for path, file in decoding.files(stream, source):
                yield _one(file, path, entries)
    except BadInput as error:
        yield str(error)
    except OSError as error:
        yield f"{source} cannot be read: {error.strerror or error}"


def _one(stream: IO[bytes], source: str, entries: Dictionary) -> Explanation | str:
    from ..figures.explain import explain as explained

    try:
        return explained(decoding.plain_chunks(stream, source), source, entries)
    except BadInput as error:
        return str(error)
