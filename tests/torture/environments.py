"""Cut virtual environments in half, or kill pip in their midst: the next run makes each whole.

It is Devito's, of the wheels that molecule downloads (``make molecule SCENARIOS=devito``); what a
damaged one becomes is compared with the one that was made at first, file by file.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trueup_node.errors import TrueupError
from trueup_node.node import pinned_venv
from trueup_node.node.pinned_venv import Environment

from torture import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
FILES = ROOT / "roles" / "devito" / "files"
REQUIREMENTS = ("requirements-pip.txt", "requirements-build.txt", "requirements.txt")
PYTHON = "/usr/bin/python3.11"
CACHE = Path(os.environ.get("TRUEUP_CACHE") or Path.home() / ".cache" / "trueup")
# Seconds within which pip, from nothing, is killed.
_INSTALLING = 12.0


def run(argv: Sequence[str], seconds: float | None = None) -> tuple[int, str, str]:
    """A program; killed with its children after the time, where one is given."""
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        try:
            said, complaint = started.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            said, complaint = started.communicate()
    return started.returncode, said, complaint


def ask(argv: Sequence[str]) -> tuple[int, str, str]:
    """As the module does: a program that is not there has the shell's exit status."""
    try:
        return run(argv)
    except OSError as error:
        return 127, "", str(error)


def tree(folder: Path) -> dict[str, str]:
    """What each file holds, by its path; pip compiles and lists its files anew each time."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {path.readlink()}"
        elif path.is_file() and path.suffix != ".pyc" and path.name != "RECORD":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = digest
    return found


def _packages(venv: Path) -> Path:
    return next(venv.glob("lib/python3*/site-packages"))


def _half(venv: Path, chance: random.Random) -> None:
    for path in sorted(_packages(venv).rglob("*")):
        if path.is_file() and ".dist-info" not in str(path) and chance.random() < 0.5:
            path.unlink()


def _half_of_all(venv: Path, chance: random.Random) -> None:
    for path in sorted(venv.rglob("*")):
        if (path.is_file() or path.is_symlink()) and chance.random() < 0.5:
            path.unlink()


def _link(venv: Path, _: random.Random) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/usr/bin/python-that-is-gone")


def _library(venv: Path, chance: random.Random) -> None:
    cut = chance.choice(sorted(_packages(venv).rglob("*.so")))
    os.truncate(cut, cut.stat().st_size // 2)


def _metadata(venv: Path, chance: random.Random) -> None:
    gone = chance.choice(sorted(_packages(venv).glob("*.dist-info")))
    run(["rm", "-r", str(gone)])


def _record(venv: Path, chance: random.Random) -> None:
    record = chance.choice(sorted(_packages(venv).glob("*.dist-info/RECORD")))
    record.write_bytes(bytes(record.stat().st_size))


def _configuration(venv: Path, _: random.Random) -> None:
    (venv / "pyvenv.cfg").unlink()


def _pip(venv: Path, chance: random.Random) -> None:
    files = sorted(path for path in _packages(venv).glob("pip/**/*") if path.is_file())
    for path in chance.sample(files, len(files) // 2):
        path.unlink()


# Each is done to a whole environment.
DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "half of the packages' files": _half,
    "half of everything": _half_of_all,
    "a link to no interpreter": _link,
    "a library cut in half": _library,
    "no metadata of a package": _metadata,
    "a RECORD of zeros": _record,
    "no pyvenv.cfg": _configuration,
    "half of pip": _pip,
}
KILLED = "pip killed"


def damage(count: int, seed: int) -> Tally:
    """Damage an environment in one way after the other; each must be whole after the next run."""
    tally = Tally()
    wheels = next(iter(sorted(CACHE.glob("wheels-3.11-*/devito-*.whl"))), None)
    if wheels is None or not Path(PYTHON).exists():
        tally.skipped = f"needs {PYTHON} and the wheels of `make molecule SCENARIOS=devito`"
        return tally
    chance = random.Random(seed)
    counted: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="trueup-environments-") as folder:
        wanted = Environment(
            str(Path(folder, "venv")),
            PYTHON,
            {name: (FILES / name).read_text(encoding="utf-8") for name in REQUIREMENTS},
            ("--find-links", str(wheels.parent), "--no-index"),
        )
        pinned_venv.installed(wanted, ask)
        whole = tree(Path(wanted.path))
        for number in range(count):
            how = [*DAMAGES, KILLED][number % (len(DAMAGES) + 1)]
            said = _once(wanted, how, whole, chance)
            counted.setdefault(how, []).append(said)
            if said.startswith("LOST"):
                tally.lose(f"{how} (number {number}, seed {seed}): {said}")
            else:
                tally.survived()
    tally.figures += [f"{how}: next run said {', '.join(said)}" for how, said in counted.items()]
    return tally


def _once(wanted: Environment, how: str, whole: dict[str, str], chance: random.Random) -> str:
    """What the run after the damage did; LOST and why, where the environment is not whole."""
    venv = Path(wanted.path)
    if how == KILLED:
        _half_of_all(venv, chance)
        end = chance.uniform(0.2, _INSTALLING)
        _killed(wanted, end)
    else:
        DAMAGES[how](venv, chance)
    try:
        did = pinned_venv.installed(wanted, ask)
    except TrueupError as error:
        return f"LOST: {error}"
    now = tree(venv)
    wrong = [path for path, digest in whole.items() if now.get(path) != digest]
    again = pinned_venv.due(wanted, ask)
    if wrong or again != "nothing":
        return f"LOST: {did}, then {again}; {len(wrong)} files differ, as {wrong[:3]}"
    return did


def _killed(wanted: Environment, seconds: float) -> None:
    """A run of its own that is killed, pip with it."""
    program = (
        "import subprocess, sys\n"
        "from trueup_node.node import pinned_venv as p\n"
        "def run(argv):\n"
        "    try: d = subprocess.run(argv, capture_output=True, text=True)\n"
        "    except OSError as e: return 127, '', str(e)\n"
        "    return d.returncode, d.stdout, d.stderr\n"
        f"p.installed(p.{wanted!r}, run)\n"
    )
    run(["env", f"PYTHONPATH={ROOT / 'module_utils'}", "python3", "-c", program], seconds)
