"""A benchmark of a Windows host: the room's ``measure(bench)`` runs on the controller, and its
command on the host.

Case, record, check mode and resuming are those of run/bench.py. Requests to the host go through
``Host``, which the action ``trueup_measure`` implements with ansible.windows modules; nothing here
asks the controller for facts that only the host knows.
"""

from __future__ import annotations

import base64
import ntpath
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NoReturn, Protocol

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from trueup_node.errors import BadInput
from trueup_node.options import Option
from trueup_node.printable import failure, printable
from trueup_node.run.bench import Bench, argument_spec, carry_out
from trueup_node.run.output_buffer import SHOWN, BufferedOutput, of_ends
from trueup_node.run.process import Completed, told_cut

_DIGITS = 12
# Of an output, less than on a Linux node: the answer comes by WinRM, in parts of some 500 KiB, and
# PowerShell keeps text in two bytes a character. ffmpeg prints 17 kB for 5 sessions.
MOST_BYTES = 8 << 20


class Host(Protocol):
    """The requests of a benchmark to its host."""

    def powershell(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a fragment of desktops/, by its name.

        Raises:
            ConnectionError: it did not run to its end.
        """

    def sha256(self, path: str) -> str | None:
        """A file's checksum; None where there is no such file."""


class Ended(Exception):
    """The benchmark has its result."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


class Module:
    """The members of an AnsibleModule that Bench uses, without its process."""

    def __init__(self, params: dict[str, Any], *, check_mode: bool) -> None:
        self.params = params
        self.check_mode = check_mode
        self._warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning for the result."""
        self._warnings.append(printable(text))

    def exit_json(self, **result: Any) -> NoReturn:
        """End well."""
        raise Ended({**result, **self._said()})

    def fail_json(self, **result: Any) -> NoReturn:
        """End badly."""
        raise Ended({"failed": True, "changed": False, **failure(result), **self._said()})

    def _said(self) -> dict[str, Any]:
        return {"warnings": self._warnings} if self._warnings else {}


class WindowsBench(Bench):
    """The way of a case whose command runs on a Windows host."""

    def __init__(self, module: Module, benchmark: str, host: Host) -> None:
        super().__init__(module, benchmark)
        self._host = host

    def _digest(self) -> str | None:
        """Of the program alone, where its whole path is given: nothing else is looked at."""
        program = self.case.command[0]
        sha256 = self._host.sha256(program) if "\\" in program else None
        return sha256[:_DIGITS] if sha256 else None

    def _start(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        environment: Mapping[str, str],
        beside: Sequence[str] = (),
    ) -> Completed:
        """Run a command on the host as process.run does here."""
        parameters = {
            "Program": argv[0],
            "Arguments": subprocess.list2cmdline(argv[1:]),
            "TimeoutSeconds": int(timeout_seconds),
            "Variables": dict(environment),
            "MostBytes": MOST_BYTES,
            "ShownBytes": SHOWN,
        }
        if beside:
            more = {"Program": beside[0], "Arguments": subprocess.list2cmdline(beside[1:])}
            parameters.update({f"Beside{name}": value for name, value in more.items()})
        return completed(argv, self._host.powershell("measure", parameters), beside)

    def _alone(self, start: Callable[..., Completed], **how: Any) -> Completed:
        """The fragment keeps the host for one benchmark; ``start`` is of this machine."""
        del start
        self._begin()
        try:
            return self._start(self.case.command, **how)
        except OSError as error:
            self.fail(str(error))


def completed(
    argv: Sequence[str], result: Mapping[str, Any], beside: Sequence[str] = ()
) -> Completed:
    """How the command ended, from the result of the fragment ``measure``.

    Raises:
        ConnectionError: another benchmark holds the host.
    """
    if result.get("busy"):
        raise ConnectionError("another benchmark still runs on this host")
    sampler = (beside or [""])[0]
    unsampled = bool(beside) and result.get("beside") is None
    out, err, more = (_kept(result.get(name)) for name in ("stdout", "stderr", "beside"))
    return Completed(
        argv=tuple(argv),
        returncode=int(result["returncode"]),
        stdout=_lines(out.text),
        stderr=_lines(err.text),
        seconds=float(result["seconds"]),
        timed_out=bool(result["timed_out"]),
        warnings=(f"{sampler} cannot be run on this host",) if unsampled else (),
        beside=_lines(more.text),
        cut=told_cut(ntpath.basename(argv[0]), out, err, most=MOST_BYTES)
        + told_cut(ntpath.basename(sampler), more, most=MOST_BYTES),
    )


def _kept(output: Mapping[str, Any] | None) -> BufferedOutput:
    """An output as the fragment tells it; an empty one where there is none."""
    if output is None:
        return BufferedOutput()
    begin, end = base64.b64decode(output["begin"]), base64.b64decode(output["end"])
    return of_ends(begin, end, int(output["size"]), output["sha256"], most=MOST_BYTES)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def measured(
    benchmark: str,
    options: Sequence[Option],
    measure: Callable[[Bench], None],
    parameters: Mapping[str, Any],
    host: Host,
    *,
    check_mode: bool = False,
) -> dict[str, Any]:
    """The result of the benchmark's module, as ``run_module`` makes it.

    Args:
        benchmark: the name in records.
        options: those of its room.
        measure: its room's.
        parameters: the arguments, COMMON's included.
        host: where its command runs.
    """
    checked = ArgumentSpecValidator(argument_spec(options)).validate(dict(parameters))
    if checked.error_messages:
        raise BadInput(f"{benchmark}: {' '.join(checked.error_messages)}")
    module = Module(checked.validated_parameters, check_mode=check_mode)
    bench = WindowsBench(module, benchmark, host)
    try:
        carry_out(bench, options, measure)
    except Ended as ended:
        return ended.result
    raise BadInput(f"{benchmark}: its measure(bench) came to no end")
