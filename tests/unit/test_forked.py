"""A program in a fork is run as subprocess.run would run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from helpers import ROOT

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


def test_ansible_is_there_for_settings_that_come_again_and_for_no_others(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "import json, sys\n"
        "before = sorted({name.split('.')[0] for name in sys.modules} & {'ansible', 'trueup'})\n"
        "from ansible import constants as C\n"
        "print(json.dumps([before, C.DEFAULT_FORKS, C.DEFAULT_LOCAL_TMP]))"
    )
    told = []
    for forks in (7, 7, 7, 8):
        env = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_FORKS": str(forks)}
        done = forked.run([str(program)], cwd=tmp_path, env={**env, "HOME": str(tmp_path)})
        told.append(json.loads(done.stdout))
    assert [one[:2] for one in told] == [[[], 7], [["ansible"], 7], [["ansible"], 7], [[], 8]]
    folders = [Path(folder) for _, _, folder in told]
    assert (len(set(folders)), [folder for folder in folders if folder.exists()]) == (4, [])
    assert list(folders[0].parent.iterdir()) == []


def test_nothing_of_ansible_or_ours_is_imported_before(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "import sys\n"
        "print([name for name in sys.modules if name.startswith(('ansible', 'trueup', 'plays'))])"
    )
    assert forked.run([str(program)], cwd=tmp_path, env={}).stdout == "[]\n"
