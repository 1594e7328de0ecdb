"""Install a file of pinned requirements into this Python's environment: say meanwhile what comes,
and keep the wheels for other clones.

    python requirements/install.py requirements/controller.txt ~/.cache/trueup/pip

pip alone is silent for a minute, or prints three lines a package. It keeps by itself only what an
index lets it keep. Every file is checked by its sha256, also one of the cache.
"""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
# pip's line of a package that it gets: from an index, or from a folder.
_GETS = re.compile(r"Collecting ([A-Za-z0-9._-]+)==(\S+)|Processing \S*/([^/\s]+)")
# Of one core, without the download: controller.txt, AMD EPYC virtual machine, 2026-11-26.
_SECONDS_A_PACKAGE = 1.2
# Seconds between two lines.
_PACE = 2.0
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# Half of what pip would compile, and hardly any of it is ever imported: collections, packages' own
# tests, and Azure's clients for asyncio.
_SELDOM = r"site-packages/(ansible_collections|.*/tests|azure/.*/aio)/"
_COMPILE = (sys.executable, "-m", "compileall", "-qq", "-j", "0", "-x", _SELDOM)
_CHECKED = ("--progress-bar", "off", "--require-hashes", "--requirement")


def package(name: str, version: str) -> str:
    """A package, its name written as all write it alike: ``rich 15.0.0``."""
    return f"{re.sub(r'[-_.]+', '-', name).lower()} {version}"


def pins(text: str) -> set[str]:
    """The packages of a file of requirements."""
    return {package(name, version) for name, version in _PIN.findall(text)}


def held(folder: Path, suffix: str) -> set[str]:
    """The packages of which a folder has a wheel (``.whl``) or an installation (``.dist-info``)."""
    parts = (path.name.removesuffix(suffix).split("-") for path in folder.glob(f"*{suffix}"))
    return {package(part[0], part[1]) for part in parts if len(part) > 1}


class Progress:
    """Says now and then what has come of what is wanted."""

    def __init__(self, verb: str, wanted: set[str], say: Callable[[str], None]) -> None:
        self._verb, self._wanted, self._say = verb, wanted, say
        self._came: set[str] = set()
        self._said_at = float("-inf")

    def came(self, packages: Iterable[str], now: float) -> None:
        """Take those that are there by now."""
        new = self._wanted.intersection(packages) - self._came
        self._came |= new
        if new and now - self._said_at >= _PACE:
            self._say(f"  {self._verb} {len(self._came)} of {len(self._wanted)}: {min(new)}")
            self._said_at = now

    def printed(self, line: str, now: float) -> None:
        """Take a line of pip's."""
        gets = _GETS.match(line)
        if gets:
            name, version, file = gets.groups()
            part = file.split("-") if file else [name, version]
            self.came({package(*part[:2])} if len(part) > 1 else set(), now)


def pip(
    arguments: Iterable[str],
    progress: Progress,
    present: Callable[[], set[str]] | None = None,
    *,
    tries: bool = False,
) -> bool:
    """Run pip; whether it succeeded. ``present`` is asked what has come, in place of pip's lines.
    What pip complains of is printed, unless it only ``tries``."""
    process = subprocess.Popen(  # noqa: S603 WHY: pip itself
        [*_PIP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if tries else None,
        text=True,
    )
    ended = threading.Event()

    def look() -> None:
        while present and not ended.wait(0.5):
            progress.came(present(), time.monotonic())

    looking = threading.Thread(target=look)
    looking.start()
    for line in process.stdout or ():
        if present is None:
            progress.printed(line, time.monotonic())
    ended.set()
    looking.join()
    return process.wait() == 0


def compile_modules(environment: Path, say: Callable[[str], None]) -> None:
    """Compile what pip would, on all cores, but for _SELDOM. A file that is no Python 3 is left as
    it is."""
    say("  compiling")
    subprocess.run(  # noqa: S603 WHY: this Python
        [*_COMPILE, str(environment)],
        stdout=subprocess.DEVNULL,
        check=False,
    )


def install(file: Path, cache: Path, say: Callable[[str], None]) -> bool:
    """Install from the cache, which first gets what it lacks; where that fails, from pip's own
    sources. Whether it succeeded."""
    wanted = pins(file.read_text(encoding="utf-8"))
    environment = Path(sysconfig.get_path("purelib"))
    missing = wanted - held(environment, ".dist-info")
    seconds = len(missing) * _SECONDS_A_PACKAGE
    say(f"  {len(missing)} of {len(wanted)} packages to install, about {seconds:.0f} s")

    def installs(*source: str, tries: bool) -> bool:
        return pip(
            ["install", "--no-compile", *source, *_CHECKED, str(file)],
            Progress("installed", missing, say),
            lambda: held(environment, ".dist-info"),
            tries=tries,
        )

    kept = ("--no-index", "-f", str(cache))
    if not missing - held(cache, ".whl") and installs(*kept, tries=True):
        return True
    say(f"  what is not in {cache} is downloaded first")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            getting = Progress("fetched", wanted, say)
            pip(["download", "--dest", str(cache), *_CHECKED, str(file)], getting)
    except OSError as error:
        say(f"  {cache} cannot be used: {error.strerror}")
        return installs(tries=False)
    return installs(*kept, tries=True) or installs(tries=False)


def main() -> int:
    """Install what the command line names; 0 where that succeeded."""
    file, cache = map(Path, sys.argv[1:])
    begun = time.monotonic()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    done = install(file, cache.expanduser(), say)
    if done:
        compile_modules(Path(sysconfig.get_path("purelib")), say)
        say(f"  done in {time.monotonic() - begun:.0f} s")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
