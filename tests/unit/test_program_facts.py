"""The module program_facts: programs in PATH, by path and of a module of Lmod; Pythons."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import program_facts
import pytest
from helpers import answer_of

facts = functools.partial(answer_of, program_facts)


def test_programs_files_and_a_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = facts(
        capsys,
        programs=["sh", "no-such-program", "/no/such/path", sys.executable],
        files=[str(tmp_path), str(tmp_path / "none")],
        python=sys.executable,
        imports=["json", "no_such_module"],
    )
    assert found["programs"]["sh"].endswith("/sh")
    assert [path for path in found["programs"].values() if path is None] == [None, None]
    assert found["files"] == {str(tmp_path): True, str(tmp_path / "none"): False}
    assert found["python"]["version"] == list(sys.version_info[:3])
    assert found["python"]["missing"] == ["no_such_module"]
    assert facts(capsys, python="/no/python")["python"] is None
    shim = tmp_path / "shim"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    more = facts(capsys, pythons=["/no/python", str(shim), sys.executable])["pythons"]
    assert [one["path"] for one in more] == [sys.executable]


def test_what_a_program_mentions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = {"out": "echo ' --use_cuda=<id>'", "err": "echo --use_cuda >&2; exit 1", "no": "echo x"}
    for name, line in said.items():
        (tmp_path / name).write_text(f'#!/bin/sh\n[ "$1" = --help ] && {line}\n')
        (tmp_path / name).chmod(0o755)
    asked = {str(tmp_path / name): "--use_cuda" for name in (*said, "absent")}
    found = facts(capsys, mentions=asked)["mentions"]
    assert [found[path] for path in asked] == [True, True, False, False]


def test_folders_and_the_space_where_they_would_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = ["~/link", str(tmp_path / "no" / "such"), "no/such"]
    monkeypatch.chdir(tmp_path)
    found = facts(capsys, folders=names)["folders"]
    free = {folder.pop("free_bytes") > 0 for folder in found.values()}
    assert free == {True}
    absent = {"there": False, "link": False, "path": str(tmp_path)}
    assert found == {
        "~/link": {"there": True, "link": True, "path": str(tmp_path / "link")},
        names[1]: absent,
        "no/such": absent,
    }


def test_no_module_without_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, programs=["sh"], module={"init": "/no/init", "name": "GROMACS/1"})
    assert found["programs"] == {"sh": None}
