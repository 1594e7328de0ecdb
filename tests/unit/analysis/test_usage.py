"""The command line before a command runs: wrong usage, names of sizes, and ``trueup`` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers import parametrized


@parametrized(("argv", "sentence"))
def test_wrong_usage_is_one_sentence(call_trueup: Any, argv: list[str], sentence: str) -> None:
    done = call_trueup(*argv)
    assert (done.status, done.out, done.err) == (64, "", f"trueup: error: {sentence}\n")


@parametrized("size")
def test_a_size_is_taken_without_standard_and_in_any_case(call_trueup: Any, size: str) -> None:
    for option in (["--size", size], [f"--size={size}"]):
        done = call_trueup("topology", "show", *option)
        assert (done.status, done.out.split()[0]) == (0, "Standard_ND96asr_v4")


@parametrized(("files", "commands"))
def test_trueup_alone_shows_the_next_commands(
    call_trueup: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    files: list[str],
    commands: list[str],
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = call_trueup()
    lines = [line.split("  #")[0].strip() for line in done.out.splitlines() if "  #" in line]
    assert (done.status, lines) == (0, commands)
