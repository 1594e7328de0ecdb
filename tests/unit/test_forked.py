"""A program in a fork is run as subprocess.run would run it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import forked
import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import atexit, os, sys
print(os.getcwd(), __name__, sys.argv, sys.path[0], dict(os.environ), flush=True)
print("said", file=sys.stderr)
atexit.register(print, "at the end")
sys.exit(int(sys.argv[1]))
"""


def test_it_is_told_and_ends_as_if_it_had_been_started(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for status in ("0", "3"):
        argv = [str(program), status]
        given: dict[str, Any] = {"cwd": tmp_path, "env": {"A": "ä"}}
        done = forked.run(argv, **given)
        started = subprocess.run(argv, capture_output=True, text=True, check=False, **given)
        assert vars(done) == vars(started)
        assert (done.returncode, done.stderr) == (int(status), "said\n")
        assert done.stdout.endswith("\nat the end\n")


def test_one_that_is_killed_says_so_and_one_that_does_not_end_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert forked.run([str(program)], cwd=tmp_path, env={}).returncode == -9
    program.write_text("import time\ntime.sleep(99)\n")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([str(program)], cwd=tmp_path, env={}, timeout=0.2)


def test_nothing_of_ansible_or_ours_is_imported_before(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "import sys\n"
        "print([name for name in sys.modules if name.startswith(('ansible', 'trueup', 'plays'))])"
    )
    assert forked.run([str(program)], cwd=tmp_path, env={}).stdout == "[]\n"
