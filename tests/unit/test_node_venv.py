"""An environment of pinned packages: what is due, and two that are at it at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from trueup_node.errors import BadInput, TrueupError
from trueup_node.node import pinned_venv
from trueup_node.node.pinned_venv import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.slow

HERE = sys.version_info[:2]


def run(argv: Sequence[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def wanted(path: Path, *pins: str, python: str = sys.executable) -> Environment:
    text = "".join(f"{pin}\n" for pin in pins)
    return Environment(str(path), python, {"requirements.txt": text} if pins else {}, ())


def make_stand_in(path: Path, version: tuple[int, int] = HERE) -> None:
    """A stand-in of an environment, whose python is a script that reports a version."""
    (path / "bin").mkdir(parents=True)
    (path / "pyvenv.cfg").touch()
    python = path / "bin" / "python"
    python.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"sys.version_info, sys.prefix = {version!r}, {str(path)!r}\n"
        f"sys.path.insert(0, {str(path / 'site')!r})\n"
        "program, sys.argv = sys.argv[2], ['-c', *sys.argv[3:]]\nexec(program)\n"
    )
    python.chmod(0o755)


def test_what_is_due(tmp_path: Path) -> None:
    make_stand_in(tmp_path / "same")
    make_stand_in(tmp_path / "other", (HERE[0], HERE[1] - 1))
    assert pinned_venv.due(wanted(tmp_path / "same"), run) == "nothing"
    assert pinned_venv.due(wanted(tmp_path / "other"), run) == "make"
    assert pinned_venv.due(wanted(tmp_path / "absent"), run) == "make"
    assert pinned_venv.due(wanted(tmp_path / "same", python="/no/python"), run) == "make"
    missing = wanted(tmp_path / "same", "trueup-no-such-thing==1")
    assert pinned_venv.due(missing, run) == "install"
    (tmp_path / "requirements.txt").write_text("trueup-no-such-thing==1\n")
    assert pinned_venv.due(missing, run) == "install"
    # What is installed stands there in another file than the one that is wanted now.
    present = wanted(tmp_path / "same", "pytest==" + pytest.__version__)
    assert pinned_venv.due(present, run) == "install"
    (tmp_path / "requirements.txt").write_text(f"pytest=={pytest.__version__}\n")
    assert pinned_venv.due(present, run) == "nothing"


def make_package(venv: Path) -> Path:
    """A package in the stand-in, as pip leaves one; its metadata."""
    metadata = venv / "site" / "some_thing-1.0.dist-info"
    metadata.mkdir(parents=True)
    files = {
        "thing.py": "answer = 42\n",
        f"{metadata.name}/METADATA": "Metadata-Version: 2.1\nName: some.thing\nVersion: 1.0\n",
        f"{metadata.name}/INSTALLER": "pip\n",
    }
    rows = []
    for name, text in files.items():
        (venv / "site" / name).write_text(text)
        rows.append(f"{name},sha256=x,{len(text)}\n")
    rows += ["__pycache__/thing.cpython-311.pyc,sha256=x,99\n", f"{metadata.name}/RECORD,,\n"]
    (metadata / "RECORD").write_text("".join(rows))
    return metadata


DAMAGES: dict[str, Callable[[Path], object]] = {
    "file gone": lambda folder: (folder.parent / "thing.py").unlink(),
    "file cut": lambda folder: (folder.parent / "thing.py").write_text("answer = 4\n"),
    "no RECORD": lambda folder: (folder / "RECORD").unlink(),
    "RECORD of zeros": lambda folder: (folder / "RECORD").write_bytes(bytes(99)),
    "no METADATA": lambda folder: (folder / "METADATA").unlink(),
    "pip killed": lambda folder: (folder / "RECORD").write_text("thing.py,sha256=x,12\n"),
    "two versions": lambda folder: shutil.copytree(
        folder, folder.with_name("some_thing-0.9.dist-info")
    ),
}


@pytest.mark.parametrize("how", [None, *DAMAGES])
def test_what_is_there_in_part_is_installed_again(tmp_path: Path, how: str | None) -> None:
    """pip takes a package for installed whose metadata is there, so that goes first."""
    make_stand_in(tmp_path / "venv")
    metadata = make_package(tmp_path / "venv")
    one = wanted(tmp_path / "venv", "some-thing==1.0", "some-thing==1.0")
    (tmp_path / "requirements.txt").write_text("some-thing==1.0\nsome-thing==1.0\n")
    if how is None:
        assert pinned_venv.due(one, run) == "nothing"
        return
    DAMAGES[how](metadata)
    assert pinned_venv.due(one, run) == "install"
    known = []

    def pip(argv: Sequence[str]) -> tuple[int, str, str]:
        if "pip" not in argv:
            return run(argv)
        known.append(list(metadata.parent.glob("*.dist-info")))
        for path in metadata.parent.iterdir():
            path.unlink()
        make_package(tmp_path / "venv")
        return 0, "", ""

    assert pinned_venv.installed(one, pip) == "install"
    assert known == [[]]


def test_an_interrupted_emptying_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "venv" / "lib").mkdir(parents=True)
    assert pinned_venv.due(wanted(tmp_path / "venv"), run) == "make"


def test_what_was_not_known_to_be_on_the_disk_is_made_again(tmp_path: Path) -> None:
    """The power goes while pip installs: packages are there, and nobody knows what is in them."""
    path, asked = tmp_path / "venv", []

    def lost(argv: Sequence[str]) -> tuple[int, str, str]:
        asked.append(argv[0])
        if "venv" in argv:
            make_stand_in(path)
            return 0, "", ""
        return (1, "", "no power") if "sync" in argv else run(argv)

    with pytest.raises(TrueupError, match="no power"):
        pinned_venv.installed(wanted(path), lost)
    assert asked[-1] == "sync"
    assert pinned_venv.due(wanted(path), run) == "make"

    def made(argv: Sequence[str]) -> tuple[int, str, str]:
        return (0, "", "") if "venv" in argv else run(argv)

    assert pinned_venv.installed(wanted(path), made) == "make"
    assert pinned_venv.due(wanted(path), run) == "nothing"


@pytest.mark.parametrize("taken", ["thesis.tex", "link", "file"])
def test_what_others_own_is_refused(tmp_path: Path, taken: str) -> None:
    path = tmp_path / "venv"
    if taken == "link":
        make_stand_in(tmp_path / "theirs")
        path.symlink_to(tmp_path / "theirs")
        sentence = f"{path} is a link to {tmp_path}/theirs, whose owner wants it unchanged"
    elif taken == "file":
        path.touch()
        sentence = f"{path} holds something else than a virtual environment"
    else:
        path.mkdir()
        (path / taken).touch()
        sentence = f"{path} holds something else than a virtual environment"
    with pytest.raises(BadInput) as refused:
        pinned_venv.installed(wanted(path), run)
    assert str(refused.value)[: len(sentence)] == sentence
    assert not Path(f"{path}.lock").exists()


def test_two_at_once_make_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first, and finds what it made."""
    monkeypatch.setattr(pinned_venv, "_POLL_SECONDS", 0.01)
    path, made, begun, go_on = tmp_path / "venv", [], threading.Event(), threading.Event()

    def slow(argv: Sequence[str]) -> tuple[int, str, str]:
        if "venv" not in argv:
            return run(argv)
        made.append(argv)
        begun.set()
        assert go_on.wait(60)
        make_stand_in(path)
        return 0, "", ""

    program = (
        "import sys; sys.path.insert(0, {folder!r})\n"
        "from trueup_node.node import pinned_venv as p\nimport subprocess\n"
        "def run(argv):\n"
        "    try: d = subprocess.run(argv, capture_output=True, text=True)\n"
        "    except OSError as e: return 127, '', str(e)\n"
        "    assert 'venv' not in argv, 'made twice'\n"
        "    return d.returncode, d.stdout, d.stderr\n"
        "p._POLL_SECONDS = 0.01\n"
        "print(p.due(p.Environment({path!r}, sys.executable, {{}}, ()), run), flush=True)\n"
        "print(p.installed(p.Environment({path!r}, sys.executable, {{}}, ()), run))\n"
    )
    first = threading.Thread(target=pinned_venv.installed, args=(wanted(path), slow))
    first.start()
    assert begun.wait(60)
    folder = str(Path(pinned_venv.__file__).parents[2])
    text = program.format(folder=folder, path=str(path))
    # Locks are of processes, as those of two nodes.
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == b"make\n"
        go_on.set()
        assert second.stdout.read() == b"nothing\n"
    first.join()
    assert second.returncode == 0
    assert len(made) == 1


def test_one_that_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_venv, "_locked", lambda _: False)
    monkeypatch.setattr(pinned_venv, "_POLL_SECONDS", 0.0)
    with pytest.raises(TrueupError) as late:
        pinned_venv.installed(wanted(tmp_path / "venv"), run, 0.0)
    assert f"it holds {tmp_path}/venv.lock" in str(late.value)


def test_a_program_that_fails_says_what_it_said(tmp_path: Path) -> None:
    broken = wanted(tmp_path / "venv", python="/no/python")
    with pytest.raises(TrueupError) as failed:
        pinned_venv.installed(broken, run)
    assert str(failed.value) == (
        f"exit status 127 of /no/python -m venv --clear {tmp_path}/venv:"
        " [Errno 2] No such file or directory: '/no/python'"
    )


def test_a_download_that_broke_off_is_not_called_tampered_with_alone() -> None:
    said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."
    with pytest.raises(TrueupError, match=r"broke off is told so too: run again$"):
        pinned_venv._done(lambda _: (1, "", said), ["pip"])


# pip 26.0.1 and an address that refuses; pip's own words but for the object's number.
REFUSED = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object \
at 0x1>: Failed to establish a new connection: [Errno 111] Connection refused')': /six/
ERROR: Could not find a version that satisfies the requirement six==1.17.0 (from versions: none)
"""


def test_an_index_that_cannot_be_read_is_the_cause() -> None:
    with pytest.raises(TrueupError) as failed:
        pinned_venv._done(lambda _: (1, "", REFUSED), ["pip"])
    said = str(failed.value)
    assert said.startswith(
        "this node cannot read the package index ([Errno 111] Connection refused)"
    )
    assert "Retrying" not in said
    with pytest.raises(TrueupError, match=r"answers with an error is told so too: "):
        pinned_venv._done(lambda _: (1, "", REFUSED.splitlines()[-1]), ["pip"])
