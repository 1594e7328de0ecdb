"""The role hf_model with a stand-in of the command hf: once, as a user, the token in a file."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plays
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "4711-is-the-token-of-the-test"
# It keeps how it was called; without a token that it can read it refuses the gated model.
STAND_IN = """#!/bin/sh
# stand-in of hf
echo "$(id -un) $(cat "$HF_TOKEN_PATH" 2>/dev/null | wc -c) $*" >> "$HF_HOME/calls"
echo "$HF_ENDPOINT" > "$HF_HOME/hub"
flock --nonblock "$HF_HOME/.trueup-download" true && touch "$HF_HOME/unlocked"
[ "$7" != gated/model ] || [ -s "$HF_TOKEN_PATH" ] || { echo 'GatedRepoError' >&2; exit 1; }
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the role runs as root")


class Node:
    """A folder of this machine that stands for a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.cache.mkdir()
        os.chown(self.cache, pwd.getpwnam("daemon").pw_uid, -1)
        # As on a fresh node, its folder is not there.
        self.token = folder / "keys" / "token"
        self.program = folder / "hf"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)

    def run(self, *options: str, **variables: Any) -> tuple[int, int, str]:
        """Exit status, how many tasks changed something, and all that was said."""
        download = {
            "name": "some/model",
            "revision": "abc",
            "cache": str(self.cache),
            "complete": str(self.folder / "complete" / "some--model@abc"),
            "program": str(self.program),
            "user": "daemon",
            "hub": "",
            **variables.pop("download", {}),
        }
        given = {"hf_model_download": download, "hf_model_token_file": str(self.token), **variables}
        play = {"roles": ["hf_model"], "vars": given}
        return plays.counted(plays.roles(self.folder, play, "-vvv", "--diff", *options))

    def calls(self) -> list[str]:
        kept = self.cache / "calls"
        return kept.read_text().splitlines() if kept.exists() else []


@pytest.fixture
def node() -> Iterator[Node]:
    # Not below pytest's folder, which every start of a pytest makes root's alone again.
    with tempfile.TemporaryDirectory(prefix="trueup-hf-") as folder:
        Path(folder).chmod(0o755)
        yield Node(Path(folder))


def test_a_model_is_downloaded_once_as_its_user(node: Node) -> None:
    status, _, said = node.run("--check")
    assert (status, node.calls()) == (0, []), said
    status, _, said = node.run()
    assert status == 0, said
    download = "download --quiet --exclude original/* --revision abc some/model"
    assert node.calls() == [f"daemon 0 {download}"]
    # Nodes that share the cache wait for each other by a lock on a file there.
    assert [(node.cache / name).exists() for name in (".trueup-download", "unlocked")] == [
        True,
        False,
    ]
    assert node.run()[:2] == (0, 0)
    assert node.run("--check")[:2] == (0, 0)
    assert len(node.calls()) == 1


def test_a_mirror_of_the_hub_is_asked_in_its_place(node: Node) -> None:
    assert node.run()[0] == 0
    asked = node.cache / "hub"
    assert asked.read_text() == "https://huggingface.co\n"
    other = str(node.folder / "complete" / "other")
    mirror = {"hub": "https://mirror.example/hf", "complete": other}
    assert node.run(download=mirror)[0] == 0
    assert asked.read_text() == "https://mirror.example/hf\n"


def test_the_token_is_in_a_file_of_the_users_alone(node: Node) -> None:
    status, _, said = node.run(hf_model_token=TOKEN)
    assert status == 0, said
    assert TOKEN not in said
    kept = node.token.stat()
    assert stat.S_IMODE(kept.st_mode) == 0o600
    assert pwd.getpwuid(kept.st_uid).pw_name == "daemon"
    assert node.calls()[0].startswith(f"daemon {len(TOKEN)} ")
    assert node.run(hf_model_token=TOKEN)[:2] == (0, 0)
    # Taken away, it is gone from the node.
    assert node.run()[:2] == (0, 1)
    assert node.token.exists() is False


def test_a_model_that_is_refused_is_not_taken_for_complete(node: Node) -> None:
    complete = node.folder / "complete" / "gated"
    gated = {"name": "gated/model", "complete": str(complete)}
    status, _, said = node.run(download=gated)
    assert status != 0
    assert "GatedRepoError" in said
    assert complete.exists() is False
    assert node.run(hf_model_token=TOKEN, download=gated)[0] == 0
    assert complete.exists() is True
