"""The module evidence_facts: files, commands, when the node was booted, what it is a replica of."""

from __future__ import annotations

import functools
from pathlib import Path

import evidence_facts
import pytest
from helpers import answer_of

facts = functools.partial(answer_of, evidence_facts)


def test_files_and_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"a = 1\n\xff")
    there, none, under = (str(tmp_path / name) for name in ("there", "none", "there/under"))
    commands = [
        {"argv": ["sh", "-c", "echo said; echo complained >&2; exit 3"], "seconds": 10},
        {"argv": ["no-such-program"], "seconds": 10},
        {"argv": ["sleep", "30"], "seconds": 1},
    ]
    found = facts(capsys, files=[there, none, under, str(tmp_path)], commands=commands)
    assert found["files"] == {there: "a = 1\n�", none: None, under: None, str(tmp_path): None}
    answers = list(found["commands"].values())
    assert answers[0] == "said\ncomplained\n\nexit status 3\n"
    assert answers[1] is None
    assert sorted(found["unknown"]) == sorted([str(tmp_path), "sleep 30"])
    assert "did not end within 1 s" in found["unknown"]["sleep 30"]
    assert found["changed"] is False
    programs = facts(capsys, programs=["sh", "no-such-program"])["programs"]
    assert (programs["sh"].endswith("/sh"), programs["no-such-program"]) == (True, None)
