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

ROOT = Path(__file__).parent.parent.parent
WHEEL = "trueup_nothing-1.0-py3-none-any.whl"
LOOK = yaml.safe_load((ROOT / "roles/pinned_venv/vars/main.yml").read_text())
CHECK = LOOK["__pinned_venv_check"]


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
            "requirements": ["requirements.txt"],
            "find_links": str(tmp_path),
            "no_index": True,
        }
    }
    task = {"ansible.builtin.include_role": {"name": "pinned_venv"}, "vars": variables}
    (tasks / "main.yml").write_text(yaml.safe_dump([task]))
    return tmp_path / "play.yml"


def run(play: Path, *options: str, python: str = sys.executable) -> tuple[int, int, str]:
    """Exit status, how many tasks said changed, and all that was said."""
    path = {"ANSIBLE_ROLES_PATH": f"{play.parent / 'roles'}:{ROOT / 'roles'}"}
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
    this = f"1.0 {sys.version_info[0]}.{sys.version_info[1]}"
    status, changed, said = run(play, "--check")
    assert (status, (play.parent / "made").exists()) == (0, False), said
    assert changed == 4
    status, changed, said = run(play)
    assert (status, changed, installed(play)) == (0, 4, this), said
    for options in ((), ("--check",)):
        status, changed, said = run(play, *options)
        assert (status, changed) == (0, 0), said
    (play.parent / "made/venv/bin/python").unlink()
    status, changed, said = run(play, "--check")
    assert (status, changed) == (0, 2), said
    status, changed, said = run(play)
    assert (status, changed, installed(play)) == (0, 2, this), said


def look(path: Path, *pins: str, python: str = sys.executable) -> str:
    """What the role would do."""
    done = subprocess.run(
        [python, "-c", LOOK["__pinned_venv_look"], str(path), "-c", CHECK, *pins],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def make_environment(path: Path, version: tuple[int, int]) -> None:
    """A stand-in of an environment, whose python is a script that reports a version."""
    (path / "bin").mkdir(parents=True)
    (path / "pyvenv.cfg").touch()
    python = path / "bin" / "python"
    python.write_text(
        f"#!{sys.executable}\nimport sys\nsys.version_info = {version!r}\n"
        "program, sys.argv = sys.argv[2], ['-c', *sys.argv[3:]]\nexec(program)\n"
    )
    python.chmod(0o755)


def test_an_environment_of_another_python_is_made_again(tmp_path: Path) -> None:
    here = sys.version_info[:2]
    make_environment(tmp_path / "same", here)
    make_environment(tmp_path / "other", (here[0], here[1] - 1))
    assert look(tmp_path / "same") == "nothing"
    assert look(tmp_path / "same", "trueup-no-such-thing==1") == "install"
    assert look(tmp_path / "other") == "make"
    assert look(tmp_path / "absent") == "make"


def test_what_others_own_is_refused_in_one_sentence(tmp_path: Path, play: Path) -> None:
    make_environment(tmp_path / "theirs", sys.version_info[:2])
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    said = look(tmp_path / "link")
    assert said == (
        f"{tmp_path}/link is a link to {tmp_path}/theirs, whose owner wants it unchanged:"
        " remove the link"
    )
    (tmp_path / "folder").mkdir()
    assert look(tmp_path / "folder") == "make"
    (tmp_path / "folder" / "thesis.tex").touch()
    assert "holds something else than a virtual environment" in look(tmp_path / "folder")
    assert "holds something else" in look(tmp_path / "folder" / "thesis.tex")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "venv").symlink_to(tmp_path / "theirs")
    status, changed, said = run(play)
    assert (status, changed) == (2, 0)
    assert "made/venv is a link to" in said
