"""Shared code of all benchmark modules: their common parameters, and the way from one run to one
record.

A module hands ``run_module`` its options and a function that takes a ``Bench`` to its end: it
prepares the case, runs it through a parser and finishes. Every way out of it returns the same keys:
``record``, ``raw``, ``command``, ``environment``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable, ContextManager, NoReturn, Optional, TypeVar

from ..errors import ParseError, TrueupError
from ..node.gpu_users import gpu_users
from ..node.machine import OF_VM
from ..node.metadata import SPOT
from ..options import ModuleOption, Option, module_spec, refusals
from ..reading import BESIDE, STANDARD_ERROR, unverified
from ..record import SCHEMA, Metric, Record
from ..redaction import redact
from . import orphan_guard, process
from .answer import AnsibleModule
from .lock import Taken, locked, node_lock
from .resume import PROGRAM, program_digest, standing

Output = TypeVar("Output")
_BLOTTED = "********"
_MOST_WARNINGS = 20

# Options of every benchmark module, beside its own ``timeout_seconds``.
COMMON = (
    ModuleOption("run_id", "Id of the run that the record belongs to.", required=True),
    ModuleOption("node_name", "The node's name in the record.", required=True),
    ModuleOption("node", "What M(azure_node_facts) published about the node.", {}),
    ModuleOption(
        "earlier",
        "Of the records of the run, what must be equal for one to stand for this case; nothing is"
        " measured then. The action C(trueup_measure) gives them.",
        [],
        elements="dict",
    ),
    ModuleOption(
        "controller",
        "The process of Ansible that waits for the record, as C(trueup_measure) gives it: what runs"
        " ends with it.",
        {},
    ),
    ModuleOption(
        "preset",
        "Parameters that name the preset of the run, as C(trueup_measure) gives them.",
        {},
    ),
    ModuleOption(
        "end_holder",
        "The C(holder) of the node, as a failed module returned it, which is to be ended."
        " C(trueup_measure) gives it where the controller of that is gone.",
        {},
    ),
)

_SYSTEM_FIELDS = (
    "family",
    "os",
    "kernel",
    "image",
    "cpu_model",
    "cores",
    "cpu_list",
    "cpu_quota",
    "physical_host",
    "memory_bytes",
    "last_level_cache_bytes",
)


def utc_now() -> str:
    """The time as records write it, ``2026-11-20T09:13:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass
class Case:
    """One case of one benchmark."""

    benchmark: str
    run_id: str
    node_name: str
    node: dict[str, Any]
    # Of a case over several nodes, all of them; the one that started it first.
    nodes: list[str] = field(default_factory=list)
    case: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    preset: dict[str, Any] = field(default_factory=dict)
    ranks: int = 1
    threads_per_rank: int = 1
    gpus: int = 0
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    started_at: str = ""
    seconds: float = 0.0

    def record(
        self, outcome: str, *, reason: Optional[str] = None, metrics: Sequence[Metric] = ()
    ) -> Record:
        """The record of this case: ``outcome`` is ok, failed or invalid; the last two need a
        reason."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "benchmark": self.benchmark,
            "case": self.case,
            "outcome": outcome,
            "reason": reason,
            "nodes": list(self.nodes) or [self.node_name],
            "vm_size": self.node.get("vm_size"),
            "region": self.node.get("region"),
            "offer": self.node.get("offer"),
            "node_count": len(self.nodes) or 1,
            "ranks": self.ranks,
            "threads_per_rank": self.threads_per_rank,
            "gpus": self.gpus,
            "parameters": {**self.parameters, **self.preset},
            "command": list(self.command),
            "environment": dict(self.environment),
            "software": dict(self.software),
            "system": _system_of(self.node),
            "started_at": self.started_at or utc_now(),
            "duration_seconds": round(self.seconds, 6),
            "metrics": [metric.as_row() for metric in metrics],
            "raw": None,
        }


def _system_of(node: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        name: node[name] for name in _SYSTEM_FIELDS if isinstance(node.get(name), (str, int, float))
    }
    # Off Azure the word changes with each boot.
    machine = str(node.get("machine") or "")
    return {**fields, "machine": machine} if machine.startswith(OF_VM) else fields


def argument_spec(options: Sequence[Option]) -> dict[str, dict[str, Any]]:
    """That of a benchmark module with these options."""
    return module_spec((*COMMON, *options))


def run_module(
    benchmark: str, options: Sequence[Option], measure: Callable[[Bench], None], **more: Any
) -> None:
    """A benchmark module's ``main``.

    Args:
        benchmark: the benchmark's name in records, and of the fact ``trueup_<benchmark>``.
        options: those of the module beyond COMMON.
        measure: takes the case to its end; input that it raises an error of is refused.
        more: of AnsibleModule.
    """
    spec = argument_spec(options)
    bench = Bench(AnsibleModule(argument_spec=spec, supports_check_mode=True, **more), benchmark)
    orphan_guard.answers(bench.given["controller"])
    carry_out(bench, options, measure)


def carry_out(bench: Bench, options: Sequence[Option], measure: Callable[[Bench], None]) -> None:
    """Check the parameters, and take the case to its end."""
    wrong = refusals(options, bench.given)
    if wrong:
        bench.refuse("; ".join(wrong))
    try:
        measure(bench)
    except TrueupError as error:
        bench.refuse(str(error))


def _raw_of(done: process.Completed) -> str:
    """The outputs of a run as one text."""
    parts = [(STANDARD_ERROR, done.stderr), (BESIDE, done.beside)]
    return done.stdout + "".join(f"\n{name}\n{text}" for name, text in parts if text)


def _without_secrets(error: ParseError, parse: Callable[[str], Any], raw: str) -> ParseError:
    """The error about an output without its credentials, of which an error may show a part."""
    try:
        parse(redact(raw))
    except ParseError as hidden:
        return hidden
    return ParseError(error.message, error.line_number, redact(error.line))


class Bench:
    """One benchmark module's way through one case.

    Attributes:
        module: the AnsibleModule.
        given: its parameters, which include COMMON's.
        check: nothing is to run.
        case: the content of the record.
    """

    def __init__(self, module: Any, benchmark: str) -> None:
        self.module = module
        self.given: dict[str, Any] = module.params
        self.check: bool = module.check_mode
        self._done: Optional[process.Completed] = None
        self._holder: Optional[dict[str, Any]] = None
        self._timeout_seconds: int = module.params["timeout_seconds"]
        self.case = Case(
            benchmark=benchmark,
            run_id=module.params["run_id"],
            node_name=module.params["node_name"],
            node=module.params["node"],
            preset=module.params["preset"],
        )

    def refuse(self, reason: str) -> NoReturn:
        """End before anything ran: the input cannot be used."""
        self._fail(reason, record=None)

    def prepare(
        self,
        *,
        momentary: Sequence[str] = (),
        recorded_as: Sequence[str] = (),
        **fields: Any,
    ) -> None:
        """Set the case's fields (see Case). In check mode this ends the module with the command
        that would run; where an earlier record of the run stands for the case (run/resume.py, also
        on ``momentary``), with that.

        ``recorded_as`` is the command that the record has, where another node makes it.
        """
        for name, value in fields.items():
            setattr(self.case, name, value)
        if self._timeout_seconds < 1:
            self.refuse(f"timeout_seconds {self._timeout_seconds} is not a positive time")
        digest = self._digest()
        if digest:
            self.case.software.setdefault(PROGRAM, digest)
        case = replace(self.case, command=list(recorded_as)) if recorded_as else self.case
        taken = standing(self.given["earlier"], case.record("ok"), momentary=momentary)
        if taken is not None or self.check:
            self.leave(resumed=taken)

    def _digest(self) -> Optional[str]:
        """The digest of the command's program, as resume.program_digest gives it."""
        return program_digest(self.case.command)

    def leave(self, resumed: Optional[int] = None) -> NoReturn:
        """End without a record: nothing was to be measured, or another node has the record."""
        self._exit(None, resumed=resumed, facts={})

    def run(
        self,
        parse: Callable[[str], Output],
        *,
        explain: Optional[Callable[[str], Optional[str]]] = None,
        secrets: Optional[Mapping[str, str]] = None,
        start: Optional[Callable[..., process.Completed]] = None,
        beside: Sequence[str] = (),
        gpus_alone: bool = False,
    ) -> Output:
        """Run the command alone on the node, parse its output and pass its warnings on; end with a
        failed record where that fails.

        Args:
            parse: the tool's parser.
            explain: why a run whose exit status is not 0 failed, from its output; None where the
                output does not say.
            secrets: variables for the command that are in no record; their values are blotted out
                of its output.
            start: runs the command as process.run does, such as a launcher's ``run``.
            beside: a command that runs as long as it does; its output stands behind the command's,
                below BESIDE. ``start`` must know it.
            gpus_alone: another process that computes on the node's GPUs, of which each figure would
                be less by an unknown part, fails the case before it runs.
        """
        case = self.case
        start = start or process.run
        done = self._alone(
            self._on_idle_gpus(start) if gpus_alone else start,
            timeout_seconds=self._timeout_seconds,
            environment={**case.environment, **(secrets or {})},
            **({"beside": beside} if beside else {}),
        )
        for secret in filter(None, (secrets or {}).values()):
            done = replace(
                done,
                stdout=done.stdout.replace(secret, _BLOTTED),
                stderr=done.stderr.replace(secret, _BLOTTED),
            )
        case.seconds = done.seconds
        self._done = done
        self._warn(done.warnings)
        raw = _raw_of(done)
        failure = done.failure(self._timeout_seconds)
        if failure:
            reason = explain(redact(raw)) if explain else None
            self.fail(f"{failure}: {reason}" if reason else failure)
        try:
            output = parse(raw)
        except ParseError as error:
            self.fail(
                f"{case.benchmark} output not understood: {_without_secrets(error, parse, raw)}"
            )
        self._warn(getattr(output, "warnings", ()))
        missing = unverified(output)
        if missing:
            self.fail(f"{case.benchmark} output cannot be verified: {'; '.join(missing)}")
        return output

    def _warn(self, warnings: Sequence[str]) -> None:
        """Pass warnings on; of a flood of them the first."""
        for warning in warnings[:_MOST_WARNINGS]:
            self.module.warn(warning)
        more = len(warnings) - _MOST_WARNINGS
        if more > 0:
            self.module.warn(f"{more} more warnings about this output are not shown")

    def _on_idle_gpus(
        self, start: Callable[..., process.Completed]
    ) -> Callable[..., process.Completed]:
        """``start``, unless another process computes on the GPUs."""

        def begin(argv: Sequence[str], **how: Any) -> process.Completed:
            users = gpu_users(self.module)
            if users:
                self.fail(f"the GPUs are in use ({users}): end that, and run again")
            return start(argv, **how)

        return begin

    def _alone(self, start: Callable[..., process.Completed], **how: Any) -> process.Completed:
        """Run the command while no other benchmark runs on the node; end with a failed record where
        it cannot run."""
        self._begin()
        case, parameters = self.case, self.given
        who = {"run_id": case.run_id, "benchmark": case.benchmark, "case": case.case}
        try:
            lock = locked(
                node_lock(),
                5.0,
                {**who, "controller": parameters["controller"]},
                parameters["end_holder"],
            )
            with lock, self._evictable():
                return start(case.command, **how)
        except Taken as error:
            self._holder = error.holder
            self.fail(str(error))
        except ConnectionError as error:  # a node of several
            self.fail(str(error))
        except OSError as error:
            self.fail(f"{self.case.command[0]} cannot be run: {error.strerror or error}")
        except orphan_guard.Orphaned as error:
            self.fail(str(error))

    def _begin(self) -> None:
        self.case.started_at = utc_now()

    def _evictable(self) -> ContextManager[None]:
        """Only a spot machine is evicted; of others the metadata service is not asked meanwhile."""
        spot = self.case.node.get("offer") == SPOT
        return process.evictable(self.case.nodes) if spot else contextlib.nullcontext()

    def fail(self, reason: str) -> NoReturn:
        """End with a failed record; a case that is not prepared has none."""
        if not self.case.case:
            self.refuse(reason)
        self._end("failed", reason)

    def finish(self, *, metrics: Sequence[Metric], invalid: Optional[str] = None) -> NoReturn:
        """End with the record: ok, or invalid for the reason given."""
        if invalid:
            self._end("invalid", invalid, metrics=metrics)
        record = redact(self.case.record("ok", metrics=metrics))
        self._exit(record, resumed=None, facts={f"trueup_{self.case.benchmark}": record})

    def _exit(
        self, record: Optional[Record], *, resumed: Optional[int], facts: dict[str, Any]
    ) -> NoReturn:
        raw = None if self._done is None else redact(_raw_of(self._done))
        common = redact(self._common())
        self.module.exit_json(
            changed=False, record=record, resumed=resumed, raw=raw, ansible_facts=facts, **common
        )
        raise AssertionError("exit_json does not return")

    def _end(self, outcome: str, reason: str, *, metrics: Sequence[Metric] = ()) -> NoReturn:
        record = self.case.record(outcome, reason=reason, metrics=metrics)
        self._fail(f"{self.case.benchmark} {self.case.case}: {reason}", record=record)

    def _fail(self, message: str, *, record: Optional[Record]) -> NoReturn:
        """End with the output so far, of which the middle is left out where it is long: all of this
        is shown, too."""
        raw, tail = None, ""
        if self._done is not None:
            done = self._done.printable()
            raw = _raw_of(done)
            tail = done.tail() if record and record["outcome"] == "failed" else ""
        self.module.fail_json(
            msg=message, record=record, raw=raw, output_tail=tail.splitlines(), **self._common()
        )
        raise AssertionError("fail_json does not return")

    def _common(self) -> dict[str, Any]:
        return {
            "command": list(self.case.command),
            "environment": dict(self.case.environment),
            "holder": self._holder,
        }
