"""Ask a tool of the node something, within a time limit, and say in a sentence why it gave nothing.

``AnsibleModule.run_command`` has no time limit, and some tools hang: nvidia-smi on a GPU that has
fallen off the bus, ibstat on an adapter that is being reset. It also has no limit on the size of
the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence

from ..reading import MOST_ANSWER_BYTES

LIMIT_SECONDS = 30
# timeout(1): ended at the limit; ended by KILL after that.
_ENDED = (124, 137)
_C_LOCALE = {"LC_ALL": "C", "LANG": "C"}


@dataclass(frozen=True)
class Answer:
    """A tool's output and status.

    Attributes:
        tool: its name.
        status: its exit status; None where it is not installed or did not end.
        output: its standard output.
        complaint: its standard error.
        note: why there is no answer, in a sentence; None where it ended with status 0.
    """

    tool: str
    status: Optional[int]
    output: str = ""
    complaint: str = ""
    note: Optional[str] = None

    @property
    def absent(self) -> bool:
        """The tool is not installed, as opposed to one that failed."""
        return self.status is None and self.note == _absent(self.tool)

    @property
    def ok(self) -> bool:
        """It ended with status 0."""
        return self.note is None


def ask(
    module: Any,
    argv: Sequence[str],
    *,
    limit_seconds: int = LIMIT_SECONDS,
    folders: Sequence[str] = (),
    environment: Optional[Mapping[str, str]] = None,
) -> Answer:
    """Run ``argv`` in the C locale for at most ``limit_seconds``.

    Args:
        module: the AnsibleModule.
        argv: the tool's name, looked for in PATH, and its arguments.
        limit_seconds: after which it is ended; without timeout(1) on the node there is no limit.
        folders: where to look for it beside PATH.
        environment: variables that it needs beside the session's.
    """
    name = argv[0]
    tool = module.get_bin_path(name, opt_dirs=list(folders))
    if tool is None:
        return Answer(name, None, note=_absent(name))
    limiter = module.get_bin_path("timeout")
    limit = [limiter, "--kill-after=5", str(limit_seconds)] if limiter else []
    outputs: List[_Output] = []
    status, output, complaint = module.run_command(
        [*limit, tool, *argv[1:]],
        environ_update={**(environment or {}), **_C_LOCALE},
        before_communicate_callback=lambda process: outputs.extend(_bounded(process)),
    )
    if any(stream.size > MOST_ANSWER_BYTES for stream in outputs):
        note = f"{name} printed more than {MOST_ANSWER_BYTES >> 20} MiB and was ended"
        return Answer(name, None, note=note)
    if limiter and status in _ENDED:
        note = f"{name} did not end within {limit_seconds} s"
        return Answer(name, None, output, complaint, note)
    if status:
        from ..redaction import redact  # noqa: PLC0415 WHY: 8 ms of patterns, needed by failures

        message = redact(complaint.strip() or output.strip())
        lines = message.splitlines() or ["it said nothing"]
        note = f"{name} failed with status {status}: {lines[0][:200]}"
        return Answer(name, status, output, complaint, note)
    return Answer(name, 0, output, complaint)


class _Output:
    """An output of a program, which ends with the program where it is too long."""

    def __init__(self, stream: Any, process: Any) -> None:
        self._stream, self._asked = stream, process
        self.size = 0
        self.fileno, self.close = stream.fileno, stream.close

    def read(self, size: int = -1) -> Optional[bytes]:
        """The next part; None where there is none now."""
        chunk: Optional[bytes] = self._stream.read(size)
        self.size += len(chunk or b"")
        if self.size <= MOST_ANSWER_BYTES:
            return chunk
        # timeout(1) hands it on, and kills a program that does not end.
        self._asked.terminate()
        return b""


def _bounded(process: Any) -> List[_Output]:
    """Both outputs of a Popen, bounded."""
    process.stdout, process.stderr = (
        _Output(process.stdout, process),
        _Output(process.stderr, process),
    )
    return [process.stdout, process.stderr]


def _absent(name: str) -> str:
    return f"there is no {name} on this node"
