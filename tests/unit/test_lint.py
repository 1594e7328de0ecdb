"""What a syntax check says in a fork is what ansible-lint's own process would have said."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import lint
import pytest

if TYPE_CHECKING:
    from pathlib import Path

PLAY = "- name: Play\n  hosts: localhost\n  tasks:\n    - name: Task\n      {module}:\n"


@pytest.mark.parametrize(
    ("module", "status"), [("ansible.builtin.ping", 0), ("ansible.builtin.pong", 4)]
)
def test_it_is_the_same_check(
    module: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lint.ROOT)
    play = tmp_path / "play.yml"
    play.write_text(PLAY.format(module=module))
    argv = ["ansible-playbook", "--syntax-check", "-vv", str(play)]
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    path = f"{lint._PLAYBOOK.parent}:{env['PATH']}"
    started = subprocess.run(
        argv, env={**env, "PATH": path}, capture_output=True, text=True, check=False
    )
    # The second has Ansible before it is forked.
    for _ in range(2):
        forked = lint._Forking.run(argv, env={**env, "PATH": path})
        assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)
        assert forked.returncode == started.returncode == status
