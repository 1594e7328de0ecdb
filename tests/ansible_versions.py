"""An environment for each release of ansible-core that the plays run with. ``make versions`` makes
them; tests/contract/test_ansible_versions.py runs the plays in those that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Release: the first and the last Python of a controller that it supports, of which ours are used
# (docs.ansible.com, releases and maintenance: ansible-core support matrix).
PYTHONS = {"2.19": ((3, 11), (3, 13)), "2.20": ((3, 12), (3, 14)), "2.21": ((3, 12), (3, 14))}
# The libraries of the project's plugins are its own dependencies; beside them Azure's selections,
# and the build back end of the editable install.
NEEDED = ("jmespath", "hatchling", "editables")


def folder(release: str) -> Path:
    """Where the environment of a release stands."""
    return ROOT / ".cache" / f"ansible-{release}"


def missing(release: str) -> str:
    """Why there is no environment for a release; empty where one can be made."""
    first, last = (".".join(map(str, version)) for version in PYTHONS[release])
    return "" if interpreter(release) else f"ansible-core {release}: no Python {first} to {last}"


def interpreter(release: str) -> str | None:
    """A Python of this machine that a release supports: one on PATH, or of pyenv."""
    first, last = PYTHONS[release]
    names = (program(f"3.{minor}") for minor in range(last[1], first[1] - 1, -1))
    return next(filter(None, names), None)


def program(version: str) -> str | None:
    """A Python of this machine by its version, such as 3.12."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    built = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/{name}"))]
    for candidate in [*filter(None, [shutil.which(name)]), *built]:
        # A shim of pyenv's may stand for nothing.
        tried = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)
        if tried.returncode == 0:
            return candidate
    return None


def make(release: str) -> None:
    """Make the environment, unless it is there."""
    if (folder(release) / "bin" / "ansible-playbook").exists():
        return
    python = interpreter(release)
    assert python is not None
    subprocess.run([python, "-m", "venv", "--clear", str(folder(release))], check=True)
    pip = [str(folder(release) / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"ansible-core~={release}.0", *NEEDED], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--editable", str(ROOT)], check=True)


if __name__ == "__main__":
    for each in PYTHONS:
        if why := missing(each):
            print(f"skipped: {why}")
        else:
            make(each)
