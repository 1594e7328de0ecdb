"""From a tool's own output to a record: for a log that no run of trueup made."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trueup_node.errors import BadInput
from trueup_node.record import SCHEMA
from trueup_node.suggest import did_you_mean

from ..parsers.serving.schema import engine_of
from ..read import STANDARD_INPUT, nodes_of, slug
from ..rooms import view_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from trueup_node.record import Record

    from ..read import Reading
    from .sizes import Sizes

# Of a record's ``system``: the file that it was read from, the name of that among other logs, the
# fields that options gave, the machines that the log names, and which of its runs it is.
ORIGIN: Final = "imported_from"
LABEL: Final = "imported_as"
FROM_OPTIONS: Final = "from_options"
HOSTS: Final = "hosts_in_log"
RUN: Final = "run_in_log"
# The parameter of a log that does not say its work. It is the log's own, so that no other is equal.
UNKNOWN_WORK: Final = "work"
_COUNTS: Final = ("node_count", "ranks", "threads_per_rank", "gpus")
_SILENT: Final = frozenset({"", "unknown", "none"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,9})?")
# A folder that is called after a machine: node01, hpc-vm-000017, ip-0A000004.
_NODE: Final = re.compile(
    r"(?:[A-Za-z0-9-]*(?:node|host|vm|compute|worker|gpu|cpu|hpc|server|machine)|ip|cn|nid)"
    r"[A-Za-z]?[._-]?[A-Za-z0-9-]*\d+(?:\.[A-Za-z0-9.-]+)?"
)
# Names of no machine in particular: of every machine, and of a container.
_NAMELESS: Final = re.compile(r"localhost.*|[0-9a-f]{12}")
_LONGEST_CASE: Final = 80


class Provenance(NamedTuple):
    """The user's options on logs.

    Attributes:
        size: a size of the catalog.
        node_count: how many nodes each log ran on; None where only the log may say.
        nodes: names of the nodes; empty where the log or its path names them.
        gpus: how many GPUs each log ran on, of all nodes; None where only the log may say.
        model, engine, precision, label: of the work; empty where only the log may say. A label is
            the user's own name of it: logs of one label are of equal work.
    """

    size: str
    node_count: int | None = None
    nodes: Sequence[str] = ()
    region: str | None = None
    offer: str | None = None
    gpus: int | None = None
    model: str = ""
    engine: str = ""
    precision: str = ""
    label: str = ""

    def work(self) -> dict[str, str]:
        """The options on the work, as parameters."""
        options = {
            "model": self.model,
            "engine": engine_of(self.engine),
            "precision": self.precision,
            "label": self.label,
        }
        return {name: value for name, value in options.items() if value}


def size_of(name: str, sizes: Sizes) -> str:
    """A size as Azure writes it.

    Raises:
        BadInput: the catalog has none of that name.
    """
    catalog_name = sizes.name(name)
    if catalog_name is None:
        raise BadInput(f"no VM size {name!r} in the catalog{did_you_mean(name, sizes.names())}")
    return catalog_name


def record(
    reading: Reading, log_options: Provenance, *, run_id: str, label: str, started_at: str
) -> Record:
    """The record of one log. It is ok only where the reading is. A fact that neither log nor user
    states is null.

    Args:
        label: its name among other logs: the name of its node.
        started_at: UTC, as records write it.
    """
    outcome, reason = reading.outcome()
    counts = reading.resources
    node_count = log_options.node_count or len(log_options.nodes) or counts.get("nodes")
    parameters = parameters_of(reading, log_options)
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "benchmark": reading.tool,
        "case": case_of(reading.tool, parameters),
        "outcome": outcome,
        "reason": reason,
        "nodes": nodes_of(label, node_count, log_options.nodes or hosts_of(reading, node_count)),
        "vm_size": log_options.size,
        "region": log_options.region,
        "offer": log_options.offer,
        "node_count": node_count,
        "ranks": counts.get("ranks"),
        "threads_per_rank": counts.get("threads"),
        "gpus": counts.get("gpus", log_options.gpus),
        "parameters": parameters,
        "command": [],
        "environment": {},
        "software": {reading.tool: reading.tool_version} if reading.tool_version else {},
        "system": {LABEL: label, **_origin(reading, log_options)},
        "started_at": started_at,
        "duration_seconds": None,
        "metrics": reading.rows,
        "raw": None,
    }


def hosts_of(reading: Reading, node_count: int | None) -> list[str]:
    """The names of several nodes by the log; empty where it does not name that many."""
    hosts = reading.hosts
    return hosts if len(hosts) == node_count and len(hosts) > 1 else []


def parameters_of(reading: Reading, log_options: Provenance) -> dict[str, str | float]:
    """What the log and the options say of the work, numbers as numbers. Where they do not say which
    work it is, a parameter makes it unequal to that of any other figures."""
    parameters = {
        **{name: _typed(name, text) for name, text in reading.parameters.items()},
        **log_options.work(),
    }
    if not is_work_known(reading.tool, parameters):
        digest = hashlib.sha256(repr(reading.rows).encode()).hexdigest()
        parameters[UNKNOWN_WORK] = f"unknown-{digest[:8]}"
    return parameters


def is_work_known(benchmark: str, parameters: Mapping[str, object]) -> bool:
    """Whether the parameters say which work of the tool it is."""
    view = view_of(benchmark)
    if view is None or not view.identity or not _is_silent(parameters.get("label")):
        return True
    return any(not _is_silent(parameters.get(name)) for name in view.identity) and not any(
        _is_silent(parameters.get(name)) for name in view.required
    )


def _is_silent(value: object) -> bool:
    return value is None or str(value).lower() in _SILENT


def _typed(name: str, text: str) -> str | float:
    """A parameter as a number where it is one; a version is none."""
    if "version" in name or not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def case_of(benchmark: str, parameters: Mapping[str, str | float]) -> str:
    """The name of a case: of its work, so that equal work has one name whatever its file's is.
    Numbers stand behind their names."""
    view = view_of(benchmark)
    apart = () if view is None else (*view.identity, *view.apart)
    names = dict.fromkeys(("label", *apart, "engine", "precision", UNKNOWN_WORK))
    words = {}
    for name in names:
        value = parameters.get(name)
        if not _is_silent(value) and value != "inf":
            words[value if isinstance(value, str) else f"{name}{value:.15g}"] = True
    case = slug("-".join(words).replace("/", "-")) if words else benchmark
    if len(case) > _LONGEST_CASE:
        return f"{case[: _LONGEST_CASE - 9]}-{hashlib.sha256(case.encode()).hexdigest()[:8]}"
    return case


def _origin(reading: Reading, log_options: Provenance) -> dict[str, str]:
    """Where the log is, and which fields are not from it."""
    options = {
        "node_count": log_options.node_count or log_options.nodes,
        "nodes": log_options.nodes,
        "vm_size": log_options.size,
        "region": log_options.region,
        "offer": log_options.offer,
        "gpus": log_options.gpus,
        **log_options.work(),
    }
    piped = reading.source == STANDARD_INPUT
    return {
        ORIGIN: origin_of(reading.source),
        FROM_OPTIONS: " ".join(name for name, value in options.items() if value),
        "started_at_from": "time of the import" if piped else "time of the file",
        **({HOSTS: " ".join(reading.hosts)} if reading.hosts else {}),
        **({} if reading.run is None else {RUN: str(reading.run)}),
    }


def unknown(record: Record) -> list[str]:
    """Counts, and the work, that neither the log nor an option says."""
    work = [UNKNOWN_WORK] if UNKNOWN_WORK in record["parameters"] else []
    return [*(name for name in _COUNTS if record[name] is None), *work]


def origin_of(source: str) -> str:
    """The file of a log whatever the folder that it is named from."""
    return source if source == STANDARD_INPUT else str(Path(source).absolute())


class Place(NamedTuple):
    """Where a log is, and the machines that it names."""

    source: str
    hosts: Sequence[str] = ()


def labels(logs: Sequence[Place], earlier: Sequence[tuple[str, str]]) -> list[str]:
    """The label of each log, which is the name of its node: the machine that a run of a file of
    several machines names; else the folder that is called after a machine; else the one host that
    the log names, where no other log of that name has it; else the file's name, and of equal names
    the part of the path in which the logs differ. No two logs have one label by their files' names.

    Args:
        logs: each once.
        earlier: file and label of each log that the run holds.
    """
    origins = [origin_of(log.source) for log in logs]
    by_origin = {origin: label for origin, label in earlier if origin != STANDARD_INPUT}
    files = _by_name({*by_origin, *origins})
    folders = _by_name({folder for path in (*by_origin, *origins) if (folder := _folder_of(path))})
    hosts = {
        origin: (slug(origin), _host_of(log)) for origin, log in zip(origins, logs, strict=True)
    }
    held = ((slug(origin), label) for origin, label in by_origin.items())
    times = Counter([*hosts.values(), *held])
    fleets = _fleets(logs)
    taken = {label for _, label in earlier}
    label_list = []
    for origin, log in zip(origins, logs, strict=True):
        host = _host_of(log)
        if origin in fleets:
            label = host
        elif origin in by_origin:
            label = by_origin[origin]
        elif folder := _folder_of(origin):
            label = _of_folder(folder, folders)
        elif host and (times[slug(origin), host] == 1 or origin == STANDARD_INPUT):
            label = host
        else:
            label = _untaken(_differing(origin, files), taken)
            taken.add(label)
        label_list.append(label)
        if origin != STANDARD_INPUT:
            # The runs of one log are of one node.
            by_origin[origin] = label
    return label_list


def _of_folder(folder: str, folders: dict[str, list[tuple[str, ...]]]) -> str:
    """The label of a log by its folder among others."""
    differing, name = _differing(folder, folders), slug(folder)
    return name if differing == name else f"{differing}-{name}"


def _fleets(logs: Sequence[Place]) -> set[str]:
    """The files whose runs each name a machine, and different ones."""
    hosts: dict[str, set[str]] = {}
    for log in logs:
        hosts.setdefault(origin_of(log.source), set()).add(_host_of(log))
    return {origin for origin, names in hosts.items() if len(names) > 1 and "" not in names}


def _untaken(name: str, taken: Container[str]) -> str:
    """A name that is not taken."""
    label, number = name, 1
    while label in taken:
        number += 1
        label = f"{name}-{number}"
    return label


def _folder_of(origin: str) -> str:
    """The path down to the innermost folder that is called after a machine; empty without one."""
    for folder in Path(origin).parents:
        if _NODE.fullmatch(folder.name):
            return str(folder)
    return ""


def _host_of(log: Place) -> str:
    """The only machine that a log names, without its domain; empty where that says nothing."""
    if len(log.hosts) != 1 or _NAMELESS.fullmatch(log.hosts[0]):
        return ""
    return slug(log.hosts[0].partition(".")[0])


def _by_name(paths: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    """The parts of paths by the last of them."""
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        by_name.setdefault(slug(path), []).append(Path(path).parts)
    return by_name


def _differing(path: str, by_name: Mapping[str, Sequence[tuple[str, ...]]]) -> str:
    """The name of a path among others; of equal names, the folders in which the paths differ."""
    mine = Path(path).parts
    other_parts = [parts for parts in by_name[slug(path)] if parts != mine]
    if not other_parts:
        return slug(path)
    if all(len(parts) == len(mine) for parts in other_parts):
        at = [
            position
            for position, segment in enumerate(mine)
            if any(o[position] != segment for o in other_parts)
        ]
        return slug("-".join(mine[position] for position in at))
    begin = min(_equal(mine, parts) for parts in other_parts)
    end = min(_equal(mine[::-1], parts[::-1]) for parts in other_parts)
    return slug("-".join(mine[begin : len(mine) - end]) or path)


def _equal(parts: Sequence[str], other: Sequence[str]) -> int:
    """How many parts are equal from the beginning."""
    pairs = enumerate(zip(parts, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(parts), len(other)))
