"""Asking a tool: absent, failing, hanging, answering."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from helpers import parametrized
from trueup_node.node.tools import Answer, ask


class Module:
    """Stands in for an AnsibleModule."""

    def __init__(self, answer: tuple[int, str, str], tools: tuple[str, ...]) -> None:
        self.answer, self.tools = answer, tools
        self.calls: list[tuple[list[str], dict[str, Any]]] = []

    def get_bin_path(self, name: str, opt_dirs: tuple[str, ...] = ()) -> str | None:
        return f"{[*opt_dirs, '/usr/bin'][0]}/{name}" if name in self.tools else None

    def run_command(self, argv: list[str], **options: Any) -> tuple[int, str, str]:
        self.calls.append((argv, options))
        return self.answer


def asked(answer: tuple[int, str, str], *tools: str, **options: Any) -> tuple[Answer, Module]:
    module = Module(answer, tools)
    return ask(module, ["lscpu", "--json"], **options), module


def test_a_tool_that_is_not_there_is_not_run() -> None:
    answer, module = asked((0, "", ""), "timeout")
    assert (answer.absent, answer.ok, answer.note) == (
        True,
        False,
        "there is no lscpu on this node",
    )
    assert module.calls == []


@pytest.mark.parametrize("status", [124, 137])
def test_a_tool_that_hangs(status: int) -> None:
    answer, _ = asked((status, "half", ""), "lscpu", "timeout", limit_seconds=7)
    assert (answer.status, answer.absent) == (None, False)
    assert answer.note == "lscpu did not end within 7 s"


@parametrized(("output", "complaint", "said"))
def test_a_tool_that_fails_is_quoted(output: str, complaint: str, said: str) -> None:
    answer, _ = asked((2, output, complaint), "lscpu", "timeout")
    assert (answer.status, answer.note) == (2, f"lscpu failed with status 2: {said}")


def test_a_tool_that_prints_without_end_is_ended() -> None:
    class Endless(Module):
        def run_command(self, argv: list[str], **options: Any) -> tuple[int, str, str]:
            """As AnsibleModule's: to the end of both outputs."""
            with subprocess.Popen(
                ["yes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as program:
                options["before_communicate_callback"](program)
                for stream in (program.stdout, program.stderr):
                    while stream and stream.read(1 << 16):
                        continue
                status = program.wait()
            return status, "y\n", ""

    answer = ask(Endless((0, "", ""), ("nvidia-smi", "timeout")), ["nvidia-smi"])
    note = "nvidia-smi printed more than 8 MiB and was ended"
    assert answer == Answer("nvidia-smi", None, note=note)
