"""The role pinned_venv: fresh, again, in check mode, with another Python, and where others own the
place. What is installed is a wheel of three files, so that nothing is fetched."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import plays
import pytest
import yaml

WHEEL = "trueup_nothing-1.0-py3-none-any.whl"
# What the environment says of itself.
THIS = f"1.0 {sys.version_info[0]}.{sys.version_info[1]}"


def make_wheel(folder: Path) -> str:
    """A wheel with nothing in it; its sha256."""
    info = "trueup_nothing-1.0.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: trueup-nothing\nVersion: 1.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


@pytest.fixture(name="play")
def _play(tmp_path: Path) -> Path:
    """A play of a role that installs the wheel."""
    files, tasks = tmp_path / "roles/user/files", tmp_path / "roles/user/tasks"
    files.mkdir(parents=True)
    tasks.mkdir()
    digest = make_wheel(tmp_path)
    (files / "requirements.txt").write_text(f"trueup-nothing==1.0 --hash=sha256:{digest}\n")
    variables = {
        "pinned_venv_environment": {
            "path": str(tmp_path / "made" / "venv"),
            "python": "{{ python }}",
            "to_install": {},
            "requirements": [str(files / "requirements.txt")],
            "find_links": str(tmp_path),
            "no_index": True,
        }
    }
    task = {"ansible.builtin.include_role": {"name": "pinned_venv"}, "vars": variables}
    (tasks / "main.yml").write_text(yaml.safe_dump([task]))
    return tmp_path / "play.yml"


def run(play: Path, *options: str, python: str = sys.executable) -> tuple[int, int, str]:
    """Exit status, how many tasks said changed, and all that was said."""
    path = {"ANSIBLE_ROLES_PATH": f"{play.parent / 'roles'}:{plays.ROLES_PATH}"}
    given = ("-e", f"python={python}")
    user = {"gather_facts": True, "roles": ["user"]}
    return plays.counted(plays.roles(play.parent, user, *given, *options, env=path))


def installed(play: Path) -> str:
    """What the environment says it has, and its Python."""
    program = (
        "import importlib.metadata as m, sys; "
        "print(m.version('trueup-nothing'), '%d.%d' % sys.version_info[:2])"
    )
    python = play.parent / "made/venv/bin/python"
    done = subprocess.run(
        [str(python), "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_fresh_again_and_in_check_mode(play: Path) -> None:
    """Of the Python of the tests; what is damaged afterwards is mended."""
    status, changed, said = run(play, "--check")
    assert (status, (play.parent / "made").exists()) == (0, False), said
    assert changed == 1
    status, changed, said = run(play)
    assert (status, changed, installed(play)) == (0, 1, THIS), said
    for options in ((), ("--check",)):
        status, changed, said = run(play, *options)
        assert (status, changed) == (0, 0), said
    (play.parent / "made/venv/bin/python").unlink()
    status, changed, said = run(play, "--check")
    assert (status, changed) == (0, 1), said
    status, changed, said = run(play)
    assert (status, changed, installed(play)) == (0, 1, THIS), said


def test_what_others_own_is_refused_in_one_sentence(tmp_path: Path, play: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "venv").symlink_to(tmp_path / "theirs")
    status, changed, said = run(play)
    assert (status, changed) == (2, 0)
    assert "made/venv is a link to" in said
    assert list((tmp_path / "theirs").iterdir()) == []


def test_two_nodes_share_a_folder(tmp_path: Path, play: Path) -> None:
    """Both at once: one makes the environment, and the other finds it."""
    inventory = tmp_path / "nodes"
    inventory.write_text("one ansible_connection=local\ntwo ansible_connection=local\n")
    status, _, said = run(play, "-i", str(inventory))
    assert (status, installed(play)) == (0, THIS), said
    assert said.count("changed: [") == 1, said
