"""Check the responses of a node, before anything on the controller uses them.

Every answer of a module passes ``guard`` in the worker that asked for it: before Ansible takes its
facts, before an action reads it, before it is registered, shown or recorded. An answer that does
not fit costs its node the task, and no other node anything. Figures are believed: nothing here
knows whether a node lies about its own speed.
"""

# ruff: noqa: SLF001 WHY: Ansible has its actions ask a node by these members alone.
from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import yaml
from trueup_node import record as records
from trueup_node.errors import BadInput
from trueup_node.node.identify import LINUX

from .known_faults import explained
from .project import PREFIX, short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# Of one answer, as text. A program's whole output may be in it.
MOST_BYTES = 64 << 20
# By so much a worker may grow while it reads one: several copies of it as text, and its values.
MOST_GROWTH_BYTES = 1 << 30
# Processor time between two looks at that.
_LOOK_SECONDS = 0.2
# Deeper than any module of ours or of Ansible's nests; everything on the controller walks it.
MOST_DEPTH = 40
MOST_VALUES = 1_000_000
# Of a record, as JSON. The output of its program is not in it.
MOST_RECORD_BYTES = 8 << 20
# Of a fact, as JSON: every later run reads all of them.
MOST_FACT_BYTES = 4 << 20

# By these an answer would add hosts and groups to the inventory and statistics to the run, or end
# the node's run without a failure.
_STEERING = ("add_host", "add_group", "ansible_stats", "unreachable")
_PREFIX = "trueup_"
_BENCH = "_bench"
_LEGACY = "ansible.legacy."
_STATE = "node_state"
# Answers of an asynchronous job. Its result is no answer to a case of this run.
_LATE = "async_status"
_STARTER = "async_wrapper"
_REFUSALS = "trueup-refused.jsonl"
_RETURN = re.compile(r'^RETURN = r"""\n(.*?)^"""', re.DOTALL | re.MULTILINE)

_NUMBERS = {"type": "int"}
_TEXTS = {"type": "list", "elements": "str"}
# Keys of any module, by Ansible's own code: AnsibleModule and ActionBase put them into an answer.
_COMMON: Mapping[str, Any] = {
    "changed": {"type": "bool"},
    "failed": {"type": "bool"},
    "msg": {"type": "str"},
    "rc": _NUMBERS,
    # Of the file that an answer names as its path or dest.
    **dict.fromkeys(("uid", "gid", "size"), _NUMBERS),
    **{name: {"type": "str"} for name in ("owner", "group", "mode", "state", "secontext")},
    **{
        f"{name}std{which}": {"type": "str"} for name in ("", "module_") for which in ("out", "err")
    },
    "stdout_lines": _TEXTS,
    "stderr_lines": _TEXTS,
    **{
        name: {}
        for name in (
            *("invocation", "warnings", "deprecations", "exception", "diff", "cmd"),
            *("ansible_facts", "_ansible_parsed"),
        )
    },
}
# Keys of a benchmark's answer (run/bench.py).
_OF_BENCH: Mapping[str, Any] = {
    "record": {"type": "dict"},
    "raw": {"type": "str"},
    "command": _TEXTS,
    "environment": {"type": "dict"},
    "resumed": _NUMBERS,
    "holder": {"type": "dict"},
    "output_tail": _TEXTS,
}
_KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "str": ("text", (str,)),
    "path": ("text", (str,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "list": ("a list", (list,)),
    "dict": ("an object", (dict,)),
}
# Facts that are written into files of other nodes.
_FORMS = {
    "trueup_slurm/hostname": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}"),
    "trueup_node/privilege": re.compile(r"root|sudo"),
    "trueup_node/system": re.compile(LINUX),
}


class Asked(NamedTuple):
    """The request to a node, by the controller's own task, whatever the answer says.

    Attributes:
        sender: the node's name in the inventory.
        module: the module's name, without ``ansible.legacy``.
        arguments: the module's.
        check_mode: whether nothing was to run.
    """

    sender: str
    module: str
    arguments: Mapping[str, Any]
    check_mode: bool = False


def documented(library: Path) -> dict[str, Mapping[str, Any]]:
    """Results of each of trueup's modules, by name, from its documentation (RETURN)."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in library.rglob("*.py")}
    matches = {name: _RETURN.search(text) for name, text in texts.items()}
    return {
        name: yaml.load(text[1], Loader=loader) if text else {}  # noqa: S506 WHY: a safe one
        for name, text in matches.items()
    }


# ---- any answer ---------------------------------------------------------------------------------


def text_problem(text: str) -> str | None:
    """Why an answer is not even read: its size."""
    if len(text) <= MOST_BYTES:
        return None
    return f"it has {len(text)} characters, more than {MOST_BYTES >> 20} MiB"


def shape_problem(response: Mapping[str, Any]) -> str | None:
    """Why no answer of any module looks like this."""
    steering = [name for name in _STEERING if name in response]
    if steering:
        return f"it has {', '.join(steering)}, which only an action of the controller may return"
    facts = response.get("ansible_facts", {})
    if not isinstance(facts, dict):
        return "its ansible_facts are no object"
    return _too_much(response)


def _too_much(value: Any) -> str | None:
    depth, count, level = 0, 0, [value]
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > MOST_DEPTH:
            return f"it is nested deeper than {MOST_DEPTH} levels"
        if count > MOST_VALUES:
            return f"it has more than {MOST_VALUES} values"
        below: list[Any] = []
        for member in level:
            if isinstance(member, dict):
                below += member.values()
            elif isinstance(member, (list, tuple)):
                below += member
        level = below
    return None


def answer_problem(
    request: Asked, response: Mapping[str, Any], returns: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Why an answer does not fit the module that was asked.

    Args:
        request: the request.
        response: one without a shape_problem.
        returns: ``documented``.
    """
    facts: Mapping[str, Any] = response.get("ansible_facts", {})
    if request.module not in returns:
        return _foreign_problem(request, response, facts)
    if response.get("_ansible_parsed") is False:
        # Ansible's own words for a module that gave no answer.
        return None
    module_spec = returns[request.module]
    records = request.module == _STATE or request.module.endswith(_BENCH)
    spec = {**module_spec, **(_OF_BENCH if records else {}), **_COMMON}
    published = {} if records else (module_spec.get("ansible_facts") or {}).get("contains", {})
    absent = [name for name, value in facts.items() if value is None]
    if absent:
        return f"{_shown(absent[0])} is nothing"
    return (
        _members_problem(response, spec, "")
        or (
            _bench_problem(request, response) if records else _members_problem(facts, published, "")
        )
        or _json(facts, MOST_FACT_BYTES, "its facts")
        or (_peer_problem(request, response) if request.module == "ssh_keys" else None)
        or (_identity_problem(request, facts) if request.module == "azure_node_facts" else None)
    )


def _foreign_problem(
    request: Asked, response: Mapping[str, Any], facts: Mapping[str, Any]
) -> str | None:
    """Values that only trueup's own modules return, in the response of another module."""
    strange = sorted(name for name in map(str, facts) if name.startswith(_PREFIX))
    if strange:
        return f"it has the fact {_shown(strange[0])}, which that module does not publish"
    record = response.get("record")
    if (
        isinstance(record, dict)
        and record.get("schema") == records.SCHEMA
        and request.module != _LATE
    ):
        return "it has a record, and that module is no benchmark"
    return None


def _members_problem(value: Mapping[str, Any], members: Mapping[str, Any], path: str) -> str | None:
    """Which member of an object has no documentation, or is not as that says."""
    unknown = [name for name in value if name not in members]
    if unknown:
        return f"{path or 'it'} has {_shown(unknown[0])}, which it never has"
    return _first(
        _misfit(value[name], members[name], f"{path}/{name}" if path else name) for name in value
    )


def _misfit(value: Any, spec: Mapping[str, Any], path: str) -> str | None:
    """Where a value is not as documented. None fits everywhere: it is not known."""
    if value is None:
        return None
    words, types = _KINDS.get(str(spec.get("type")), ("", (object,)))
    # True is an int to Python.
    is_number = int in types and isinstance(value, bool)
    if not isinstance(value, types) or is_number:
        return f"{path} is not {words}"
    form = _FORMS.get(path)
    if form is not None and not form.fullmatch(str(value)):
        return f"{path} is {_shown(value)}"
    members: Mapping[str, Any] = spec.get("contains") or {}
    if isinstance(value, list):
        each = {"type": spec.get("elements"), "contains": members}
        return _first(
            _misfit(member, each, f"{path}/{number}") for number, member in enumerate(value)
        )
    if not members or not isinstance(value, dict):
        return None
    lacking = [name for name in members if name not in value]
    if lacking:
        return f"{path} lacks {lacking[0]}"
    return _members_problem(value, members, path)


def _first(problems: Iterator[str | None]) -> str | None:
    return next((problem for problem in problems if problem), None)


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _plain(text: str) -> str:
    """For a terminal, whatever a node wrote."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _json(value: Any, most: int, subject: str) -> str | None:
    """Why a value cannot be kept as JSON of UTF-8."""
    try:
        size = len(json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8"))
    except (TypeError, ValueError) as error:
        return f"{subject} cannot be kept as JSON ({str(error)[:80]})"
    return f"{subject}: {size} bytes, more than {most >> 20} MiB" if size > most else None


# ---- benchmarks ---------------------------------------------------------------------------------


def _bench_problem(request: Asked, response: Mapping[str, Any]) -> str | None:
    record, facts = response.get("record"), response.get("ansible_facts", {})
    benchmark = _STATE if request.module == _STATE else request.module[: -len(_BENCH)]
    problem = None if record is None else record_problem(request, record, benchmark)
    if problem:
        return problem
    if facts and (record is None or facts != {f"{_PREFIX}{benchmark}": record}):
        return "its facts are not its record"
    resumed, earlier = response.get("resumed"), request.arguments.get("earlier") or []
    if resumed is not None and not 0 <= resumed < len(earlier):
        return f"it takes over record {resumed} of {len(earlier)} earlier ones"
    # The other end of a meeting, and the other nodes of a training, leave the record to the first.
    is_second = request.arguments.get("role") == "server" or request.arguments.get("node_rank")
    is_free = request.check_mode or response.get("failed") or is_second
    if record is None and resumed is None and not is_free:
        return "it measured nothing, and does not say why"
    return _holder_problem(response.get("holder") or {})


def _holder_problem(holder: Mapping[str, Any]) -> str | None:
    """``orphan_guard.gone`` looks for that process here."""
    controller = holder.get("controller") or {}
    if not isinstance(controller, dict):
        return "holder/controller is not an object"
    numbers = (controller.get(name, 0) for name in ("pid", "started"))
    if any(
        isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers
    ):
        return "holder/controller names no process"
    return None


def record_problem(request: Asked, record: records.Record, benchmark: str) -> str | None:
    """Why a record does not fit the request: its run, benchmark and nodes, by the arguments that
    the controller gave."""
    arguments = request.arguments
    node = _object(arguments.get("node"))
    alone = str(arguments.get("node_name"))
    names = _names(arguments.get("nodes")) or [alone]
    expected = {
        "run_id": arguments.get("run_id"),
        "benchmark": benchmark,
        **{name: node.get(name) for name in ("vm_size", "region", "offer")},
    }
    for name, value in expected.items():
        if record.get(name) != value:
            return f"its record has {name} {_shown(record.get(name))}, asked was {_shown(value)}"
    if not records.is_run_id(str(record["run_id"])):
        return f"its record has run_id {_shown(record['run_id'])}, which is no run's"
    if record.get("nodes") not in (names, [alone, arguments.get("peer_name")]):
        return f"its record is of nodes {_shown(record.get('nodes'))}, asked was {_shown(names)}"
    if record.get("node_count") != len(record["nodes"]):
        return f"its record has node_count {_shown(record.get('node_count'))}"
    if record.get("raw") is not None:
        return "its record names a file of raw output, which the controller alone writes"
    problem = schema_problem(record)
    if problem:
        return f"its record: {problem}"
    return _json(record, MOST_RECORD_BYTES, "its record")


def _object(text: Any) -> Mapping[str, Any]:
    """As AnsibleModule reads one."""
    parsed = json.loads(text) if isinstance(text, str) else text
    return parsed or {}


def _names(nodes: Any) -> list[str]:
    """As AnsibleModule reads a list."""
    return [name.strip() for name in nodes.split(",")] if isinstance(nodes, str) else nodes or []


def checked(record: records.Record) -> records.Record:
    """A record that the controller made from a node's response.

    Raises:
        BadInput: it breaks the schema, or cannot be kept.
    """
    problem = schema_problem(record) or _json(record, MOST_RECORD_BYTES, "the whole")
    if problem:
        raise BadInput(_plain(f"{record.get('benchmark')}: its record: {problem}"))
    return record


def schema_problem(record: Mapping[str, Any]) -> str | None:
    """The worst fault of a record by its schema."""
    problem = _schema()(record)
    if problem is None:
        return None
    path = "/".join(str(key) for key in problem.absolute_path) or "the whole"
    return f"{path}: {problem.message[:300]}"


@functools.lru_cache(maxsize=1)
def _schema() -> Callable[[Mapping[str, Any]], Any]:
    # The import takes up to a second, which a play that measures nothing does not need.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    path = Path(records.__file__).with_name("record.schema.json")
    validator = Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
    return lambda record: best_match(validator.iter_errors(record))


def preload() -> None:
    """Read the schema in the process whose forks will need it."""
    _schema()


# ---- other modules ------------------------------------------------------------------------------


def _peer_problem(request: Asked, response: Mapping[str, Any]) -> str | None:
    """The others' ssh takes the host keys of a peer for those of its names."""
    called = (response.get("peer") or {}).get("names")
    names = _names(request.arguments.get("names"))
    if response.get("peer") is None or called == names:
        return None
    return f"its peer is called {_shown(called)}, asked was {_shown(names)}"


def _identity_problem(request: Asked, facts: Mapping[str, Any]) -> str | None:
    """Why a node's identity contradicts the catalog of sizes: its family is a group that it joins,
    and the row of its size is the controller's own."""
    node = facts.get("trueup_node")
    if node is None:
        return None
    size, given_size = node["vm_size"], str(request.arguments.get("vm_size") or "").strip()
    if given_size and str(size).lower() != given_size.lower():
        return f"vm_size is {_shown(size)}, and {given_size} was given by hand"
    row = _object(request.arguments.get("catalog")).get(size)
    families = {"unknown", "local"} if row is None else {row["family"]}
    if node["family"] not in families:
        return f"family is {_shown(node['family'])}, and not {' or '.join(sorted(families))}"
    if node["catalog"] != row:
        return f"catalog is not the row of {_shown(size)}"
    return None


# ---- the guard ----------------------------------------------------------------------------------


class _Unfit(Exception):
    """An answer that is not even handed to who asked."""


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """While the block lasts, this process may grow by MOST_GROWTH_BYTES: a connection reads without
    end where the node sends without end. To read takes processor time, which rings a timer.

    Raises:
        _Unfit: it grew more.
    """
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
        yield
        return
    most = _resident_bytes() + MOST_GROWTH_BYTES

    def look(_number: int, _frame: Any) -> None:
        if _resident_bytes() > most:
            raise _Unfit(f"it takes more than {MOST_GROWTH_BYTES >> 20} MiB to read")

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _LOOK_SECONDS, _LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def guard(
    base: Any, returns: Mapping[str, Mapping[str, Any]], refuse: Callable[[str, str], NoReturn]
) -> None:
    """Have every answer that an action of Ansible gets from a node pass here.

    Args:
        base: Ansible's ActionBase.
        returns: ``documented``.
        refuse: takes the sender and the reason, and raises an error of the task.
    """
    if hasattr(base, "trueup_guarded"):
        return
    base.trueup_guarded = True
    execute, parse = base._execute_module, base._parse_returned_data
    parameters = inspect.signature(execute)

    def parsed(self: Any, res: Any, *more: Any) -> Any:
        problem = text_problem(res.get("stdout") or "")
        if problem:
            raise _Unfit(problem)
        try:
            response = parse(self, res, *more)
        except RecursionError:
            raise _Unfit(f"it is nested deeper than {MOST_DEPTH} levels") from None
        # An object since ansible-core 2.21.
        as_result = getattr(response, "as_result_dict", None)
        problem = shape_problem(as_result() if as_result else response)
        if problem:
            raise _Unfit(problem)
        return response

    def executed(self: Any, *positional: Any, **named: Any) -> Any:
        bound = parameters.bind(self, *positional, **named).arguments
        name = short_name(str(bound.get("module_name") or self._task.action))
        variables, arguments = bound.get("task_vars") or {}, bound.get("module_args")
        request = Asked(
            sender=str(self._task.delegate_to or variables.get("inventory_hostname") or "a node"),
            # The starter of an asynchronous job answers for it.
            module=_STARTER if bound.get("wrap_async") else name.removeprefix(_LEGACY),
            arguments=dict(self._task.args if arguments is None else arguments),
            check_mode=bool(self._task.check_mode),
        )
        try:
            with _bounded():
                response = execute(self, *positional, **named)
            problem = answer_problem(request, _of_node(self, response), returns)
        except _Unfit as error:
            problem = str(error)
        if problem:
            refuse(request.sender, _plain(f"answer of {request.module}: {problem}"))
        return explained(response)

    base._execute_module, base._parse_returned_data = executed, parsed


def require_callback(base: type) -> None:
    """Refuse to measure in a project that has the collection and not its callback, which alone
    writes records.

    Raises:
        BadInput: its setting.
    """
    if PREFIX and not hasattr(base, "trueup_guarded"):
        name = f"{PREFIX}trueup_records"
        raise BadInput(
            f"no record would be written: set callbacks_enabled = {name} in [defaults] of"
            f" ansible.cfg, or ANSIBLE_CALLBACKS_ENABLED={name}"
        )


def _of_node(action: Any, response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer without the Python that Ansible looked for and chose itself: it adds that fact to
    the first answer of a host, in place of whatever the node called so."""
    added = action._discovered_interpreter_key
    facts = response.get("ansible_facts")
    if not added or not isinstance(facts, dict):
        return response
    return {**response, "ansible_facts": {key: facts[key] for key in facts if key != added}}


# ---- refusals -----------------------------------------------------------------------------------


def note(folder: str, sender: str, sentence: str) -> None:
    """Keep a refusal in a folder of the controller that ends with the run: whatever becomes of the
    task, the run knows it."""
    line = json.dumps({"node": sender, "why": sentence}) + "\n"
    path = os.path.join(folder, _REFUSALS)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def noted(folder: str) -> dict[str, list[str]]:
    """The refusals so far, by node."""
    try:
        lines = Path(folder, _REFUSALS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    by_node: dict[str, list[str]] = {}
    for line in lines:
        # A full disk may have cut it: the task has failed all the same.
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            reasons = by_node.setdefault(entry["node"], [])
            if entry["why"] not in reasons:
                reasons.append(entry["why"])
    return by_node
