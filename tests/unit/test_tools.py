"""Asking a tool: absent, failing, hanging, answering."""

from __future__ import annotations

from typing import Any

import pytest
from trueup.node.tools import Answer, ask


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


def test_an_answer() -> None:
    answer, module = asked((0, "{}", ""), "lscpu", "timeout")
    assert answer == Answer("lscpu", 0, "{}", "")
    assert (answer.ok, answer.absent) == (True, False)
    assert module.calls == [
        (
            ["/usr/bin/timeout", "--kill-after=5", "30", "/usr/bin/lscpu", "--json"],
            {"environ_update": {"LC_ALL": "C", "LANG": "C"}},
        )
    ]


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


def test_without_timeout_there_is_no_limit() -> None:
    answer, module = asked((124, "", ""), "lscpu")
    assert answer.status == 124
    assert module.calls[0][0] == ["/usr/bin/lscpu", "--json"]


@pytest.mark.parametrize(
    ("output", "complaint", "said"),
    [("a\nb", "", "a"), ("a", "\nc\n", "c"), ("", "", "it said nothing")],
)
def test_a_tool_that_fails_is_quoted(output: str, complaint: str, said: str) -> None:
    answer, _ = asked((2, output, complaint), "lscpu", "timeout")
    assert (answer.status, answer.note) == (2, f"lscpu failed with status 2: {said}")


def test_other_folders_are_looked_in() -> None:
    _, module = asked((0, "", ""), "lscpu", folders=["/sbin"])
    assert module.calls[0][0] == ["/sbin/lscpu", "--json"]
