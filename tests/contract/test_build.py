"""playbooks/tasks/build.yml with a repository of one file: a build that fails is not kept."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import plays
from helpers import parametrized

ROOT = Path(__file__).parent.parent.parent


def commit(folder: Path) -> str:
    """The commit of a new repository."""
    folder.mkdir()
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    (folder / "file").write_text("text\n")
    for argv in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *argv], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return head.stdout.strip()


@parametrized(("commands", "status", "kept"))
def test_a_build_has_its_name_when_it_is_done(
    tmp_path: Path, commands: list[list[str]], status: int, kept: bool
) -> None:
    source = tmp_path / "source"
    build: dict[str, Any] = {
        "repository": str(tmp_path / "git"),
        "commit": commit(tmp_path / "git"),
        "source": str(source),
        "made": str(source / "made"),
        "packages": [],
        "commands": commands,
        "environment": {},
    }
    tasks = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/build.yml")}]
    play = {"tasks": tasks, "vars": {"build": build, "trueup_node": {"privilege": "root"}}}
    ended, _, said = plays.counted(plays.roles(tmp_path, play))
    assert (ended, (source / "made").is_file()) == (status, kept), said
    assert source.exists() == kept
