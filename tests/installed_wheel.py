"""The packages of ``make dist`` as a user installs them: ``make versions``.

twine checks both, and the wheel goes into an empty environment of each Python from 3.11 on that is
on this machine. There a log is read, and another becomes a record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ansible_versions

ROOT = ansible_versions.ROOT
DATA = ROOT / "tests" / "data" / "nccl"
FIRST, LAST = 11, 15
# A log of two nodes whose NCCL used sockets.
FAILING = ("read", str(DATA / "sockets_h100_real.txt"), "--size", "Standard_ND96isr_H100_v5")


def environment(python: str, folder: Path, *packages: str) -> Path:
    """The programs of a new environment with these packages."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--quiet", *packages], check=True)
    return folder / "bin"


def checked(packages: list[Path]) -> None:
    """Have twine check descriptions and metadata."""
    programs = ROOT / ".cache" / "twine" / "bin"
    if not (programs / "twine").exists():
        environment(sys.executable, programs.parent, "twine")
    subprocess.run([programs / "twine", "check", "--strict", *packages], check=True)


def faults(python: str, wheel: Path, folder: Path) -> list[str]:
    """The answers of an installed trueup that are wrong."""
    programs = environment(python, folder / "env", str(wheel))
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [programs / words[0], *words[1:]],
            cwd=folder,
            env=plain,
            capture_output=True,
            text=True,
            check=False,
        )

    read = run("trueup", *FAILING)
    empty = run("trueup", "list")
    imported = run("trueup", "import", str(DATA / "infiniband.txt"))
    listed = run("trueup", "list", "--format", "json")
    planned = run("trueup", "dryrun", "--inventory", "hosts.yml")
    api = run("python", "-c", "import trueup; print(len(trueup.load('results').records()))")
    answers = {
        "the verdict of a log": (read.returncode, read.stdout[:6]) == (1, "FAIL: "),
        "no advice to run make": "make run" not in empty.stdout + empty.stderr,
        "import": imported.returncode == 0,
        "list": listed.returncode == 0 and len(json.loads(listed.stdout)) > 0,
        "roles are in a checkout": "the wheel has none: use a checkout" in planned.stderr,
        "the Python API": (api.returncode, api.stdout) == (0, "1\n"),
    }
    output = "\n".join(each.stderr for each in (read, empty, imported, listed, api))
    wrong = [name for name, is_right in answers.items() if not is_right]
    return [*wrong, output] if wrong or "Traceback" in output else []


def main() -> int:
    """1 if an installed trueup gives a wrong answer, or no Python is here."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        packages = sorted(Path(folder).iterdir())
        checked(packages)
        [wheel] = [path for path in packages if path.suffix == ".whl"]
        for minor in range(FIRST, LAST + 1):
            version = f"3.{minor}"
            python = ansible_versions.program(version)
            if python is None:
                print(f"skipped: no Python {version}")
                continue
            with tempfile.TemporaryDirectory() as place:
                wrong = faults(python, wheel, Path(place))
            print(f"Python {version}: {'; '.join(wrong) or 'passed'}", flush=True)
            results.append(not wrong)
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
