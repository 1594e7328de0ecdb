"""The collection held against Ansible's own tools: ``make sanity``.

``ansible-test sanity`` runs with each supported ansible-core, its `import` test also with each
Python of a node that is here; antsibull-docs renders every page. Environments stay in .cache.

    python tests/collection_sanity.py [--only 2.21] [--test pylint]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import ansible_versions
from ansible_versions import PYTHONS, ROOT

PLACE = Path("ansible_collections/trueup/azure_hpc")
HOME = ROOT / ".cache" / "sanity" / "home"
# Of a sanity test: why it cannot run here.
SKIPPED = {"pslint": "needs PowerShell, which no package index has"}
# Environments of ansible-test that import the collection's own code.
_IMPORTING = ("sanity.import.plugin", "sanity.pylint")
NODE_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
# ansible-test downloads a script that installs pip; the index has pip itself.
_GET_PIP = '''"""Install pip from the package index."""
import subprocess, sys
packages = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", "-q", *packages]).returncode)
'''
_TEST = re.compile(r'^Running sanity test "([\w-]+)"( on Python [\d.]+)?', re.MULTILINE)


def unpacked(folder: Path) -> Path:
    """The collection, built from the checkout and installed below a folder."""
    subprocess.run([sys.executable, ROOT / "collection" / "build.py", folder], check=True)
    [archive] = folder.glob("*.tar.gz")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    subprocess.run(
        [galaxy, "collection", "install", archive, "-p", folder, "--offline", "--no-deps"],
        check=True,
        capture_output=True,
    )
    return folder / PLACE


def prepared(release: str) -> None:
    """The home folder of ansible-test: the user's settings of pip, and the script for pip."""
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for name in (".config", ".cache"):
        if not (HOME / name).exists():
            (HOME / name).symlink_to(Path.home() / name)
    [source] = ansible_versions.folder(release).glob(
        "lib/*/site-packages/ansible_test/_internal/python_requirements.py"
    )
    for version in re.findall(r"pip='([\d.]+)'", source.read_text(encoding="utf-8")):
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(_GET_PIP)


def sanity(release: str, collection: Path, python: str, *words: str) -> tuple[int, str]:
    """Status and output of ``ansible-test sanity`` with a Python such as 3.12."""
    programs = ansible_versions.folder(release) / "bin"
    path = [programs, *(python_folder(minor) for minor in NODE_PYTHONS if python_folder(minor))]
    outside = [name for name in os.environ["PATH"].split(":") if "/.pyenv/" not in name]
    done = subprocess.run(
        [programs / "ansible-test", "sanity", "--python", python, "--color", "no", *words],
        cwd=collection,
        env={"PATH": ":".join([*map(str, path), *outside]), "HOME": str(HOME), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def python_folder(minor: str) -> Path | None:
    """The folder of a Python of this machine."""
    program = ansible_versions.program(minor)
    return Path(program).parent if program else None


def with_libraries(release: str, collection: Path, python: str) -> None:
    """Put the libraries of requirements.txt into the environments that import the collection."""
    sanity(release, collection, python, "--prime-venvs", "--test", "import", "--test", "pylint")
    for name in _IMPORTING:
        for program in (HOME / ".ansible/test/venv" / name / python).glob("*/bin/python"):
            pip = [sys.executable, "-m", "pip", "--python", program, "install", "--quiet"]
            subprocess.run([*pip, "-r", collection / "requirements.txt"], check=True)


def held(release: str, collection: Path, tests: Iterable[str]) -> bool:
    """Whether all tests of a release passed; prints each failure and a line of the tests."""
    environment = ansible_versions.folder(release)
    [library] = environment.glob("lib/python3.*")
    own = library.name.removeprefix("python")
    prepared(release)
    first, last = PYTHONS[release]
    # Of the controller, which has the libraries, every Python that is here imports its plugins.
    of_controller = [f"3.{minor}" for minor in range(first[1], last[1] + 1)]
    for minor in {own, *filter(python_folder, of_controller)}:
        with_libraries(release, collection, minor)
    chosen = [word for test in tests for word in ("--test", test)]
    chosen = chosen or [word for test in SKIPPED for word in ("--skip-test", test)]
    runs = [(own, chosen)]
    if not tests:
        here = [minor for minor in NODE_PYTHONS if minor != own and python_folder(minor)]
        runs += [(minor, ["--test", "import", "--test", "compile"]) for minor in here]
    passed = True
    for python, words in runs:
        status, output = sanity(release, collection, python, *words)
        names = [name for name, _ in _TEST.findall(output)]
        result = "passed" if status == 0 else "FAILED"
        print(f"ansible-core {release}, Python {python}: {len(names)} tests {result}", flush=True)
        print(f"  {' '.join(names)}", flush=True)
        if status:
            print(output, flush=True)
            passed = False
    return passed


def rendered(collection: Path) -> bool:
    """Whether antsibull-docs renders every page; it has an environment of its own."""
    environment = ROOT / ".cache" / "antsibull"
    program = environment / "bin" / "antsibull-docs"
    newest = max(PYTHONS, key=lambda release: [*map(int, release.split("."))])
    if not program.exists():
        python = ansible_versions.interpreter(newest) or sys.executable
        subprocess.run([python, "-m", "venv", "--clear", environment], check=True)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "antsibull-docs", f"ansible-core~={newest}.0"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(program, "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"),
                *("--dest-dir", folder, ".".join(PLACE.parts[1:])),
            ],
            env={
                **os.environ,
                "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
                "ANSIBLE_COLLECTIONS_PATH": str(collection.parents[2]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        pages = len(list(Path(folder).glob("*.rst")))
    result = f"{pages} pages" if done.returncode == 0 else f"FAILED\n{done.stdout}"
    print(f"antsibull-docs: {result}", flush=True)
    return done.returncode == 0


def main() -> int:
    """1 if a test fails, or a release has no Python here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*PYTHONS], help="a release of ansible-core")
    parser.add_argument("--test", action="append", default=[], help="a sanity test by name")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        collection = unpacked(Path(folder))
        results = [] if asked.only or asked.test else [rendered(collection)]
        for test, reason in SKIPPED.items():
            print(f"skipped: {test}: {reason}")
        for release in [asked.only] if asked.only else PYTHONS:
            if reason := ansible_versions.missing(release):
                print(f"skipped: {reason}")
            else:
                ansible_versions.make(release)
                results.append(held(release, collection, asked.test))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
