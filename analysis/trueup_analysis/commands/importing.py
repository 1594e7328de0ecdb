"""``trueup import``: logs become the records of a run."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from trueup_node.errors import BadInput

from ..read import STANDARD_INPUT, Output, files_of, nodes_of, outputs_of
from .interface import CatalogOption, examples, flag, once_each, option, raise_all, say, say_refused
from .records import RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trueup_node.record import Record

    from ..figures.imported import Provenance

app = typer.Typer()
AUTO = "auto"
_NOT_COMPARED = "; such logs are compared with no other (--model or --label says it)"
_COPY = "same text as {}: they count as two nodes; if one is a copy, remove its record"
_UTC = "%Y-%m-%dT%H:%M:%SZ"


@app.command(
    "import",
    epilog=examples(
        "trueup import nccl.log --size Standard_ND96isr_H100_v5 --nodes 2",
        "trueup import logs/ --size Standard_ND96isr_H100_v5       # all below it",
        "trueup import runs/*/ --size auto         # the size that each log names",
        "trueup import 'node*/nccl.log' --size Standard_ND96isr_H100_v5 --nodes 1",
        "trueup import load*.txt --size Standard_ND96isr_H200_v5 --model llama",
        "trueup cost                     # and report, health, scaling, list",
    ),
)
def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG",
            help="Outputs of tools, folders of them, or patterns in quotes; - is standard input.",
        ),
    ],
    *,
    size: Annotated[
        str,
        option("SIZE", "Their VM size; auto: the one that each log names, or whose GPU it names."),
    ] = AUTO,
    node_count: Annotated[
        int | None,
        option("N", "Nodes that each of them ran on; else as many as it says.", "--nodes", min=1),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Name of a node, once for each; else the folder that is called after a machine"
            " (node01/nccl.log), the hosts that the log names, or the log's name and what tells its"
            " path from the others'.",
            "--node",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        option(
            "N", "GPUs that each of them ran on, of all its nodes; else as the log says.", min=0
        ),
    ] = None,
    model: Annotated[str, option("NAME", "The model, where the log does not say it.")] = "",
    engine: Annotated[str, option("NAME", "The serving engine: vllm, sglang, ...")] = "",
    precision: Annotated[str, option("NAME", "The precision: bf16, fp8, ...")] = "",
    label: Annotated[
        str, option("TEXT", "Your name for the work: logs of one label are compared.")
    ] = "",
    region: Annotated[str | None, option("REGION", "Azure region, for the price.")] = None,
    offer: Annotated[str | None, option("OFFER", "payg, spot, ...; else payg.")] = None,
    tool: Annotated[
        str | None,
        option("NAME", "Which tool wrote them (nccl, stream, ...); else found out.", "--benchmark"),
    ] = None,
    new_run: Annotated[
        bool,
        flag("--new-run", "Begin a new run, also where the last run is one of imported logs."),
    ] = False,
    results: Annotated[Path, option("FOLDER", "Where the run is written.")] = RESULTS,
    catalog: CatalogOption = None,
) -> None:
    """Turn tools' own outputs into records, so that list, cost, report, health and scaling work on
    them. Logs that are imported one after the other are one run. A log's time is that of its file.
    A fact that neither a log nor an option gives is unknown, and logs of unknown work (no model,
    no problem size) are never compared. A log that cannot be read, or that contradicts an option,
    the size or itself (A100s for a size without GPUs, one host for --nodes 4) is named, and the
    others are imported (exit status 1). Figures that could not be verified, or whose check failed,
    are never an ok record. A log that is too short to judge is a record that no table counts."""
    from ..catalog import folder
    from ..figures import topology
    from ..figures.contradictions import contradictions, size_of_log
    from ..figures.imported import Provenance, size_of
    from ..figures.prices import read_all, refuse_unknown
    from ..figures.sizes import read_sizes
    from ..figures.terms import Terms

    refuse_unknown(read_all(catalog), Terms(region=region, offer=offer))
    sizes = read_sizes(folder(catalog))
    layouts = topology.read(folder(catalog) / "topologies.yml")
    options = Provenance(
        AUTO if size == AUTO else size_of(size, sizes),
        node_count,
        tuple(nodes or ()),
        region,
        offer,
        gpus,
        *(text.strip() for text in (model, engine, precision, label)),
    )
    nodes_of("", node_count or len(options.nodes) or None, options.nodes)
    names, refused = files_of(files)
    read, reasons = outputs_of(_each_once(names), tool)
    refused += reasons
    outputs = []
    for output in read:
        try:
            log_options = options
            if size == AUTO:
                log_size = size_of_log(output.reading, output.text, options, sizes, layouts)
                log_options = options._replace(size=log_size)
            wrong = list(contradictions(output.reading, output.text, log_options, sizes, layouts))
        except BadInput as error:
            wrong = [str(error)]
        if wrong:
            refused.append(f"{output.reading.source} is not imported: {'; '.join(wrong)}")
        else:
            outputs.append((output, log_options))
    if not outputs:
        raise_all(refused)
    failed = bool(refused)
    for line in _imported(results, outputs, folder(catalog), new_run=new_run):
        say(line.text)
        failed |= line.failed
    say_refused(refused, len(outputs) + len(refused), "imported")
    if failed:
        raise typer.Exit(1)


def _each_once(files: Sequence[str]) -> list[str]:
    """The files, each once whatever it is called."""
    by_path: dict[str, str] = {}
    for name in files:
        path = name if name == "-" else os.path.realpath(name)
        if path in by_path:
            say(f"note: {name} is the same file as {by_path[path]}, and counts once.")
        by_path.setdefault(path, name)
    return list(by_path.values())


class _Line(NamedTuple):
    """A message on an import, and whether the exit status must not be 0."""

    text: str
    failed: bool = False


def _imported(
    results: Path, outputs: Sequence[tuple[Output, Provenance]], catalog: Path, *, new_run: bool
) -> Iterator[_Line]:
    """Write the records of some outputs, each with its options; messages on each, and on all."""
    from trueup_node import record as records

    from ..figures import imported, too_short
    from ..units import plural

    results.mkdir(parents=True, exist_ok=True)
    with records.counting(str(results)):
        before = list(_earlier(results))
        manifest = (None if new_run else _last_import(results)) or _new_manifest(results)
        run_id = manifest["run_id"]
        labels = imported.labels(
            [imported.Place(item.reading.source, item.reading.hosts) for item, _ in outputs],
            [(earlier.origin, earlier.label) for earlier in before if earlier.run_id == run_id],
        )
        written: list[Record] = []
        warnings: list[tuple[str, str]] = []
        for (output, options), label in zip(outputs, labels, strict=True):
            source = output.reading.source
            record = imported.record(
                output.reading, options, run_id=run_id, label=label, started_at=_time_of(source)
            )
            record = too_short.marked(record, catalog)
            log = _log_of(record, hashlib.sha256(records.written_form(output.text)).hexdigest())
            if (same := next(filter(log.is_same, before), None)) is not None:
                yield _already(source, same, log)
                continue
            if not written:
                records.write_manifest(str(results), {**manifest, "finished_at": None})
            path = records.write_record(str(results), record, raw=output.text)
            copied = [_COPY.format(first.origin) for first in before if log.is_copy(first)]
            before.append(log._replace(path=path))
            written.append(record)
            texts = (*copied[:1], *output.reading.warnings)
            warnings += [(output.reading.title, text) for text in texts]
            yield from _told(output, record)
        if written:
            _end(results, manifest, written)
    yield from (_Line(f"warning: {text}") for text in once_each(warnings))
    yield from _unknown(written)
    if written:
        yield _Line(f"{plural(len(written), 'record')} written into {results / run_id}.")
    else:
        yield _Line("No record is new: nothing written.")


def _unknown(written: Sequence[Record]) -> Iterator[_Line]:
    """Notes on facts that neither logs nor options say."""
    from ..figures import imported
    from ..units import plural

    lacking = Counter(name for record in written for name in imported.unknown(record))
    for name, count in lacking.items():
        more = _NOT_COMPARED if name == imported.UNKNOWN_WORK else ""
        logs = plural(count, "log")
        yield _Line(f"note: {name} of {logs} is unknown: no log or option says it{more}.")


class _Log(NamedTuple):
    """An imported log.

    Attributes:
        origin: its file.
        sha256: of its text.
        run: its number among the runs of the text; None of the only one.
        options: the user's options for it.
        path: its record; empty where none is written.
    """

    run_id: str
    benchmark: str
    origin: str
    label: str
    nodes: tuple[str, ...]
    sha256: str
    options: dict[str, Any]
    run: str | None = None
    path: str = ""

    def is_same(self, other: _Log) -> bool:
        """Whether both are one log: of one text, and from one file or of the same nodes. Equal
        texts in two files are two nodes; standard input names none."""
        mine = (self.benchmark, self.sha256, self.run)
        if mine != (other.benchmark, other.sha256, other.run):
            return False
        nameless = STANDARD_INPUT in {self.origin, other.origin}
        is_named = "nodes" in {**self.options, **other.options}
        return (
            self.origin == other.origin or self.nodes == other.nodes or (nameless and not is_named)
        )

    def is_copy(self, other: _Log) -> bool:
        """Whether both have one text and come from different files."""
        return self.sha256 == other.sha256 and self.origin != other.origin


def _log_of(record: Record, sha256: str, path: str = "") -> _Log:
    from ..figures.imported import FROM_OPTIONS, LABEL, ORIGIN, RUN

    system, nodes = record["system"], tuple(record["nodes"])
    facts = {**record["parameters"], **record}
    options = {name: facts[name] for name in str(system[FROM_OPTIONS]).split()}
    names = (str(record["run_id"]), record["benchmark"], system[ORIGIN], system[LABEL])
    return _Log(*names, nodes, sha256, options, system.get(RUN), path)


def _earlier(results: Path) -> Iterator[_Log]:
    """The logs that were imported into the folder before."""
    from trueup_node import record as records

    for run_id in records.run_counts(str(results)):
        if records.manifest_of(str(results), run_id).get("playbook") != records.IMPORT:
            continue
        for path, record, _ in records.read_records(str(results / run_id)):
            # A record of an older release, or one that was changed, is no log's.
            with suppress(KeyError, TypeError):
                if record is not None:
                    yield _log_of(record, record["raw"]["sha256"], path)


def _last_import(results: Path) -> dict[str, Any] | None:
    """The manifest of the last run of the folder, where that is one of imported logs."""
    from trueup_node import record as records

    *_, last = ("", *records.run_counts(str(results)))
    manifest = records.manifest_of(str(results), last) if last else {}
    return manifest if manifest.get("playbook") == records.IMPORT else None


def _new_manifest(results: Path) -> dict[str, Any]:
    from trueup_node import record as records

    count = records.next_count(str(results))
    return records.new_manifest(records.run_of(str(results)), count, records.IMPORT, _now())


def _end(results: Path, manifest: dict[str, Any], written: Sequence[Record]) -> None:
    """Note the nodes of the records in the run's manifest."""
    from trueup_node import record as records

    nodes = sorted(
        {*manifest["expected"], *(name for record in written for name in record["nodes"])}
    )
    hosts = {name: {"failed": 0, "unreachable": 0} for name in nodes}
    done = {**manifest, "finished_at": _now(), "expected": nodes, "hosts": hosts}
    records.write_manifest(str(results), done)


def _already(source: str, same: _Log, log: _Log) -> _Line:
    """The message on a log that is recorded; other options would make it a second record."""
    where = f"{source} is already recorded in {same.path}"
    if same.options == log.options:
        return _Line(f"note: {where}, and counts once.")
    options = ", ".join(f"{name} {value}" for name, value in same.options.items())
    return _Line(
        f"trueup: error: {where} with {options}; remove that file to import it anew.", failed=True
    )


def _told(output: Output, record: Record) -> Iterator[_Line]:
    """Messages on the outcome of a log that was written."""
    from trueup_node.record import TOO_SHORT

    source = output.reading.source
    if record["outcome"] == TOO_SHORT:
        yield _Line(f"warning: {source}: {record['reason']}; no table counts it.")
    elif record["outcome"] != "ok":
        yield _Line(f"{source}: imported as {record['outcome']}: {record['reason']}", failed=True)


def _now() -> str:
    return time.strftime(_UTC, time.gmtime())


def _time_of(source: str) -> str:
    """When the file was last written, which is when the tool ended; now of a pipe."""
    path = Path(source)
    moment = path.stat().st_mtime if path.is_file() else time.time()
    return time.strftime(_UTC, time.gmtime(moment))
