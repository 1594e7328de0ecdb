"""What no test can show is a row of catalog/acceptance.yml: a check that a person with the machine
runs by hand, or that playbooks/acceptance.yml runs.

A row that a play can settle has ``checks``. Each asks one thing (a file, a command that only reads,
a fact, the records of a benchmark) and compares it; ``settle`` says what came out, with evidence.
"""

from __future__ import annotations

import calendar
import json
import os
import re
import time
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .. import record as records
from ..errors import BadInput

FILE = "catalog/acceptance.yml"
BUNDLES = "catalog/acceptance"
SCHEMA = "trueup.acceptance/1"
PASSED, FAILED, UNMEASURED, ELSEWHERE = "passed", "failed", "not measured", "not applicable"
# The worst first.
OUTCOMES = (FAILED, UNMEASURED, ELSEWHERE, PASSED)
# How long a command may take unless its check says so, and how much of a text is evidence.
SECONDS = 30
_SHOWN = 160
# What each kind of check may say beside what it asks.
_TEXT = ("has", "lacks")
_RANGE = ("from", "to")
KINDS = {
    "file": _TEXT,
    "command": (*_TEXT, "seconds"),
    "fact": ("is", "count", *_TEXT, *_RANGE),
    "record": ("metric", "where", "message_bytes", "statistic", "best", *_RANGE),
}

Check = Mapping[str, Any]
# What came out, and the evidence in a sentence.
Finding = Tuple[str, str]


@dataclass(frozen=True)
class Row:
    """One row; the head of the file describes each member."""

    id: str
    what: str
    minutes: int
    test: str
    expected: str
    applies: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    after_reboot: bool = False
    checks: List[Check] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """What is known of a machine.

    Attributes:
        facts: ``node``, ``gpu`` and ``rdma``, the facts trueup_* of these names, and the ``run`` of
            its history; each None where nobody looked.
        files: path to its text, None where there is no such file.
        commands: argv, joined by blanks, to its output, None where it is not installed.
        programs: name to its path, None where it is not installed.
        unknown: path or argv to why it could not be asked.
        records: those of the machine, oldest first.
        rebooted: whether it was booted after a run of site.yml.
    """

    facts: Mapping[str, Any]
    files: Mapping[str, Optional[str]] = field(default_factory=dict)
    commands: Mapping[str, Optional[str]] = field(default_factory=dict)
    programs: Mapping[str, Optional[str]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    rebooted: bool = False


# ---- rows ---------------------------------------------------------------------------------------

_TYPES = {"minutes": int, "applies": dict, "checks": list, "after_reboot": bool}
_OPTIONAL = ("applies", "checks", "after_reboot", "needs")


def rows(data: Any) -> List[Row]:
    """The rows of the file, in its order.

    Raises:
        BadInput: it is not of that form, or an id stands twice.
    """
    listed = data.get("rows") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise BadInput(f"{FILE}: a mapping with a list `rows` is expected")
    found = [_row(place, item) for place, item in enumerate(listed, 1)]
    ids = [row.id for row in found]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise BadInput(f"{FILE}: the id {twice[0]} stands twice; give one of them another")
    return found


def _row(place: int, item: Any) -> Row:
    where = f"{FILE}: row {place}"
    if not isinstance(item, dict):
        raise BadInput(f"{where} is not a mapping")
    where += f" ({item.get('id', 'without id')})"
    names = [one.name for one in fields(Row)]
    unknown = sorted(set(item) - set(names))
    if unknown:
        raise BadInput(f"{where}: there is no {unknown[0]} in a row")
    for name in names:
        kind = _TYPES.get(name, str)
        wrong = not isinstance(item.get(name), kind) or item[name] == ""
        if wrong and not (name in _OPTIONAL and name not in item):
            raise BadInput(f"{where}: {name} is missing or no {kind.__name__}")
    for check in item.get("checks", []):
        _refuse_check(where, check)
    return Row(**item)


def _refuse_check(where: str, check: Any) -> None:
    """Raise BadInput for a check that asks nothing, two things, or what its kind has not."""
    kinds = [kind for kind in KINDS if isinstance(check, dict) and kind in check]
    if len(kinds) != 1:
        raise BadInput(f"{where}: a check asks one of {', '.join(KINDS)}, and {check!r} does not")
    [kind] = kinds
    unknown = sorted(set(check) - {kind, *KINDS[kind]})
    if unknown:
        raise BadInput(f"{where}: a check of a {kind} has no {unknown[0]}")
    argv = check.get("command", [""])
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv)):
        raise BadInput(f"{where}: the command {argv!r} is no list of texts")
    for pattern in (*check.get("has", []), *check.get("lacks", [])):
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise BadInput(f"{where}: {pattern!r} is no regular expression: {error}") from error
    numbers = [check[name] for name in (*_RANGE, "count", "seconds") if name in check]
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise BadInput(f"{where}: one of {numbers} is no number")
    if set(check) == {kind} and kind != "record":
        raise BadInput(f"{where}: the check of {check[kind]} compares nothing")


# ---- a row on a machine -------------------------------------------------------------------------


def misfit(row: Row, node: Mapping[str, Any]) -> Optional[str]:
    """Why a row is not for this machine; None where it is."""
    for name, wanted in row.applies.items():
        there = node.get(name)
        if isinstance(wanted, bool):
            if bool(there) != wanted:
                return f"this node has {'no' if wanted else 'a'} {name}"
        elif str(there) not in map(str, wanted):
            return f"{name} is {there}, and not {' or '.join(map(str, wanted))}"
    return None


def asks(listed: Sequence[Row], node: Mapping[str, Any]) -> Dict[str, Any]:
    """What the node itself is asked for the rows that fit it: ``files``, ``programs``, and
    ``commands`` with ``argv`` and ``seconds``."""
    fitting = [row for row in listed if row.checks and misfit(row, node) is None]
    checks = [check for row in fitting for check in row.checks]
    commands = {
        _joined(check): {"argv": check["command"], "seconds": check.get("seconds", SECONDS)}
        for check in checks
        if "command" in check
    }
    files = sorted({check["file"] for check in checks if "file" in check})
    programs = sorted({row.needs for row in fitting if row.needs})
    return {"files": files, "programs": programs, "commands": list(commands.values())}


def settle(row: Row, known: Known) -> Dict[str, Any]:
    """What came out for a row that has checks: ``row``, ``outcome`` and ``evidence``, a sentence
    for each check."""
    why = misfit(row, known.facts["node"])
    if why is None and row.needs and not known.programs.get(row.needs):
        why = f"{row.needs} is not installed"
    if why is not None:
        found = [(ELSEWHERE, why)]
    elif row.after_reboot and not known.rebooted:
        found = [(UNMEASURED, "not rebooted since site.yml ran: reboot, then repeat this")]
    else:
        found = [_ASKED[_kind(check)](check, known) for check in row.checks]
    worst = next(word for word in OUTCOMES if word in dict(found))
    return {"row": row.id, "outcome": worst, "evidence": [text for _, text in found]}


def to_measure(listed: Sequence[Row], settled: Sequence[Mapping[str, Any]]) -> List[str]:
    """The benchmarks of which a row had no record."""
    lacking = {one["row"] for one in settled if one["outcome"] == UNMEASURED}
    checks = [check for row in listed if row.id in lacking for check in row.checks]
    return list(dict.fromkeys(check["record"] for check in checks if "record" in check))


def _kind(check: Check) -> str:
    return next(kind for kind in KINDS if kind in check)


def _joined(check: Check) -> str:
    return " ".join(check["command"])


# ---- what earlier runs left ---------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """Of one host.

    Attributes:
        records: its records, oldest first.
        run: how many tasks of its newest run of site.yml were ``changed``, ``failed`` and
            ``unreachable``, and whether it began ``after_boot``; None before the second run.
        rebooted: whether the machine was booted after a run of site.yml had ended.
    """

    records: List[Mapping[str, Any]]
    run: Optional[Mapping[str, Any]]
    rebooted: bool


def history(results: str, host: str, booted_at: Optional[int]) -> History:
    """What the folder of results has of a host; what cannot be read is left out.

    Args:
        results: the folder.
        host: its name in the inventory.
        booted_at: when it was booted, in seconds since 1970; None where that is not known.
    """
    mine: List[Mapping[str, Any]] = []
    runs = []
    for run in records.run_counts(results):
        folder = os.path.join(results, run)
        kept = (record for _, record, _ in records.read_records(folder) if record)
        of_host = [{**record, "run_id": run} for record in kept if _is_of(record, host)]
        mine += sorted(of_host, key=lambda record: str(record["started_at"]))
        runs += _run_of(os.path.join(folder, "run.json"), host, booted_at)
    return History(
        mine,
        runs[-1] if len(runs) > 1 else None,
        any(run["before_boot"] for run in runs),
    )


def _is_of(record: Mapping[str, Any], host: str) -> bool:
    """Whether it is a record of the host, and its members can be looked at."""
    shapes = {"nodes": list, "metrics": list, "parameters": dict}
    usable = all(isinstance(record[name], kind) for name, kind in shapes.items())
    return (
        usable
        and all(isinstance(row, dict) for row in record["metrics"])
        and host in record["nodes"]
    )


def _run_of(path: str, host: str, booted_at: Optional[int]) -> List[Dict[str, Any]]:
    """What a manifest says of the host, where it is of a run of site.yml, or nothing."""
    try:
        with open(path, encoding="utf-8") as stream:
            manifest = json.load(stream)
        if manifest["playbook"] != "site.yml":
            return []
        counts = manifest["hosts"][host]
        found = {name: int(counts.get(name, 0)) for name in ("changed", "failed", "unreachable")}
        begun, ended = _seconds(manifest["started_at"]), _seconds(manifest["finished_at"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    # What is not known is neither before nor after.
    boot = float("nan") if booted_at is None else booted_at
    return [{**found, "after_boot": begun > boot, "before_boot": ended < boot}]


def _seconds(utc: str) -> int:
    """A manifest's time, in seconds since 1970."""
    return calendar.timegm(time.strptime(utc, "%Y-%m-%dT%H:%M:%SZ"))


# ---- the kinds of checks ------------------------------------------------------------------------


def _file(check: Check, known: Known) -> Finding:
    return _text(check, check["file"], known.files, known, "there is no such file")


def _command(check: Check, known: Known) -> Finding:
    return _text(check, _joined(check), known.commands, known, "it is not installed")


def _text(
    check: Check, name: str, texts: Mapping[str, Optional[str]], known: Known, absent: str
) -> Finding:
    if name in known.unknown or name not in texts:
        return UNMEASURED, f"{name}: {known.unknown.get(name, 'not asked')}"
    text = texts[name]
    if text is None:
        return FAILED, f"{name}: {absent}"
    return _compared(check, name, text)


def _fact(check: Check, known: Known) -> Finding:
    path = check["fact"]
    root, _, rest = path.partition(".")
    if known.facts.get(root) is None:
        return UNMEASURED, f"{path}: {_UNKNOWN.get(root, 'not known')}"
    values = list(_walk(known.facts[root], rest.split(".")))
    if "count" in check:
        state = PASSED if len(values) == check["count"] else FAILED
        return state, f"{path}: {len(values)} found, {check['count']} expected"
    found = [_compared(check, path, value) for value in values]
    wrong = [one for one in found if one[0] != PASSED]
    return (wrong or found or [(FAILED, f"{path}: there is none")])[0]


_UNKNOWN = {
    "gpu": "this node has no GPU to ask",
    "rdma": "this node has no adapter to ask",
    "run": "run site.yml twice first",
}


def _walk(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a path of names and numbers, of which ``*`` is every item of a list; None for
    what is not there."""
    if not path:
        yield value
    elif path[0] == "*":
        for item in value if isinstance(value, list) else [None]:
            yield from _walk(item, path[1:])
    elif isinstance(value, list):
        place = int(path[0]) if path[0].isdigit() else len(value)
        yield from _walk(value[place] if place < len(value) else None, path[1:])
    else:
        yield from _walk(value.get(path[0]) if isinstance(value, Mapping) else None, path[1:])


def _compared(check: Check, name: str, value: Any) -> Finding:
    """A value, and whether it is as the check wants it."""
    text = "" if value is None else str(value)
    shown = f"{name}: {text.strip()[:_SHOWN] or value!r}"
    if "is" in check and value != check["is"]:
        return FAILED, f"{shown}, expected {check['is']}"
    for pattern in check.get("has", []):
        if not re.search(pattern, text, re.MULTILINE):
            return FAILED, f"{shown}: nothing like {pattern}"
    for pattern in check.get("lacks", []):
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return FAILED, f"{name}: {found[0][:_SHOWN]} stands there"
    if set(_RANGE) & set(check):
        return _in_range(check, name, value)
    return PASSED, shown


def _in_range(check: Check, name: str, value: Any) -> Finding:
    low, high = check.get("from", float("-inf")), check.get("to", float("inf"))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return FAILED, f"{name}: {value} is no number"
    limits = " ".join(f"{word} {check[word]:g}" for word in _RANGE if word in check)
    state = PASSED if low <= value <= high else FAILED
    return state, f"{name}: {value:g}, expected {limits}"


def _record(check: Check, known: Known) -> Finding:
    """The newest run's records of a benchmark: all are ok, and so is the figure of each, or of the
    best."""
    name = check["record"]
    found = [one for one in known.records if one["benchmark"] == name and _meant(check, one)]
    if not found:
        return UNMEASURED, f"no record of {name}{_where(check)}: measure it"
    newest = [one for one in found if one["run_id"] == found[-1]["run_id"]]
    for one in newest:
        if one["outcome"] != "ok":
            return FAILED, f"{name} {one['case']} is {one['outcome']}: {one.get('reason')}"
    said = f"run {newest[0]['run_id']}, {name}{_where(check)}"
    if "metric" not in check:
        return PASSED, f"{said}: {len(newest)} ok"
    return _judged(check, said, [value for one in newest for value in _figures(check, one)])


def _judged(check: Check, said: str, values: List[Any]) -> Finding:
    """The first figure that is out of range; with ``best`` the highest alone is looked at."""
    if not values:
        return FAILED, f"{said}: no figure {check['metric']}"
    numbers = [value for value in values if isinstance(value, (int, float))]
    chosen = [max(numbers)] if check.get("best") and numbers else values
    found = [_in_range(check, f"{said}: {check['metric']}", value) for value in chosen]
    return next((one for one in found if one[0] != PASSED), found[0])


def _meant(check: Check, record: Mapping[str, Any]) -> bool:
    """Whether a record has what ``where`` names: members, parameters or software by pattern."""
    there = {**record, **(record.get("software") or {}), **record["parameters"]}
    wanted = check.get("where", {}).items()
    return all(re.fullmatch(str(pattern), str(there.get(key))) for key, pattern in wanted)


def _where(check: Check) -> str:
    return "".join(f" {key}={value}" for key, value in check.get("where", {}).items())


def _figures(check: Check, record: Mapping[str, Any]) -> Iterator[Any]:
    for row in record["metrics"]:
        of_size = check.get("message_bytes") in (None, row.get("message_bytes"))
        statistic = row.get("statistic") in (None, "single", check.get("statistic", "median"))
        if row.get("name") == check["metric"] and of_size and statistic:
            yield row.get("value")


_ASKED = {"file": _file, "command": _command, "fact": _fact, "record": _record}


# ---- bundles that came back ---------------------------------------------------------------------

Bundle = Dict[str, Any]


def bundle(text: str, name: str) -> Bundle:
    """What playbooks/acceptance.yml wrote.

    Raises:
        BadInput: it is not that.
    """
    try:
        read = json.loads(text)
        fine = read["schema"] == SCHEMA and isinstance(read["date"], str)
        for machine in read["machines"]:
            for one in machine["rows"]:
                fine = fine and isinstance(one["row"], str) and one["outcome"] in OUTCOMES
    except (ValueError, LookupError, TypeError):
        fine = False
    if not fine:
        raise BadInput(f"{name} is no bundle of {SCHEMA}: put what `make acceptance` wrote there")
    return dict(read)


def came_back(row: str, bundles: Sequence[Bundle]) -> List[str]:
    """What bundles say of a row, the newest of each machine: one line each, a replica as such."""
    found = {}
    for one in sorted(bundles, key=lambda one: str(one["date"])):
        for machine in one["machines"]:
            what = f"replica {machine['replica']}" if machine.get("replica") else machine["vm_size"]
            for result in machine["rows"]:
                if result["row"] == row and result["outcome"] in (PASSED, FAILED):
                    where = f"{what}, {machine['os']}"
                    found[where] = f"{result['outcome']} {one['date']} ({where})"
    return list(found.values())
