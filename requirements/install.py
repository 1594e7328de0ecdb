"""Install a file of pinned requirements into this Python's environment: say meanwhile what comes,
and keep the wheels for other clones, unpacked and compiled.

    python requirements/install.py requirements/controller.txt ~/.cache/trueup/pip

pip gets the wheels: it alone knows the user's index, proxy and certificates. It keeps by itself
only what an index lets it keep, and is silent for a minute or prints three lines a package. uv
installs them, as links to what it has unpacked once: a tenth of pip's time. A wheel is checked by
its sha256 before it is unpacked, also one of the cache; what is unpacked is not checked again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
# The pin of uv, with its hashes on the lines below it.
_UV = re.compile(r"^uv==(?:.*\\\n)*.*", re.MULTILINE)
# pip's line of a package that it gets: from an index, or from a folder.
_GETS = re.compile(r"Collecting ([A-Za-z0-9._-]+)==(\S+)|Processing \S*/([^/\s]+)")
# Without the download, nothing unpacked yet: test.txt, AMD EPYC virtual machine, 2026-11-28.
_SECONDS_A_PACKAGE = 0.1
# Seconds between two lines.
_PACE = 2.0
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# Half of what pip would compile, and hardly any of it is ever imported: collections, packages' own
# tests, and Azure's clients for asyncio.
_SELDOM = r"site-packages/(ansible_collections|.*/tests|azure/.*/aio)/"
_COMPILE = (sys.executable, "-m", "compileall", "-qq", "-x", _SELDOM)
_INSTALL = (*_PIP, "install", "--no-compile")
_DOWNLOAD = (*_PIP, "download", "--progress-bar", "off", "--require-hashes")
_LINK = ("pip", "install", "--offline", "--no-config", "--python", sys.executable, "--cache-dir")


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


def run(
    command: Iterable[str],
    progress: Progress,
    present: Callable[[], set[str]] | None = None,
    *,
    tries: bool = False,
) -> bool:
    """Run pip or uv; whether it succeeded. ``present`` is asked what has come, in place of pip's
    lines. What it complains of is printed, unless it only ``tries``."""
    process = subprocess.Popen(  # noqa: S603 WHY: pip or uv itself
        [*command],
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


def share_compiled(source: Path, target: Path, *, new: bool = False) -> None:
    """Link the compiled modules of one tree into another that has those modules, or only what is
    ``new``, which has no other link. Python itself compares each with its module. Where files
    cannot be linked there are none."""
    for folder, _, names in os.walk(source):
        if not folder.endswith("/__pycache__"):
            continue
        place = target / os.path.relpath(folder, source)
        for name in names:
            path = Path(folder, name)
            if new and path.stat().st_nlink > 1:
                continue
            if not new and not (place.parent / f"{name.partition('.')[0]}.py").exists():
                continue
            place.mkdir(parents=True, exist_ok=True)
            (place / name).unlink(missing_ok=True)
            (place / name).hardlink_to(path)


def compile_modules(environment: Path, kept: Path, say: Callable[[str], None]) -> None:
    """Compile what pip would but for _SELDOM and what is ``kept``. A file that is no Python 3 is
    left as it is."""
    say("  compiling")
    # To look through what is compiled takes several processes ten times as long as one.
    workers = "1" if kept.exists() else "0"
    with contextlib.suppress(OSError):
        share_compiled(kept, environment)
    subprocess.run(  # noqa: S603 WHY: this Python
        [*_COMPILE, "-j", workers, str(environment)],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    with contextlib.suppress(OSError):
        share_compiled(environment, kept, new=True)


def install(file: Path, cache: Path, say: Callable[[str], None]) -> bool:
    """Install from the cache, which first gets what it lacks; where that fails, from pip's own
    sources. Whether it succeeded."""
    pinned = file.read_text(encoding="utf-8")
    wanted = pins(pinned)
    environment = Path(sysconfig.get_path("purelib"))
    missing = wanted - held(environment, ".dist-info")
    seconds = len(missing) * _SECONDS_A_PACKAGE
    count = f"{len(missing)} of {len(wanted)}"
    say(f"  {count} packages to install, about {seconds:.0f} s without downloads")
    progress = Progress("installed", missing, say)
    kept = ("--no-index", "-f", str(cache))

    def installs(*command: str, pins: Path = file, tries: bool = True) -> bool:
        checked = ("--require-hashes", "--requirement", str(pins))
        return run(
            [*command, *checked], progress, lambda: held(environment, ".dist-info"), tries=tries
        )

    def from_cache() -> bool:
        uv = _UV.search(pinned)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as alone:
            alone.write(f"{uv[0]}\n" if uv else "")
            alone.flush()
            if uv and installs(*_INSTALL, *kept, pins=Path(alone.name)):
                program = str(Path(sysconfig.get_path("scripts")) / "uv")
                # Where it cannot be started, pip can.
                with contextlib.suppress(OSError):
                    if installs(program, *_LINK, str(cache / "unpacked"), *kept):
                        return True
        return installs(*_INSTALL, *kept)

    if not missing - held(cache, ".whl") and from_cache():
        return True
    say(f"  what is not in {cache} is downloaded first")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            getting = Progress("fetched", wanted, say)
            run([*_DOWNLOAD, "--dest", str(cache), "--requirement", str(file)], getting)
    except OSError as error:
        say(f"  {cache} cannot be used: {error.strerror}")
        return installs(*_INSTALL, tries=False)
    return from_cache() or installs(*_INSTALL, tries=False)


def main() -> int:
    """Install what the command line names; 0 where that succeeded."""
    file, cache = Path(sys.argv[1]), Path(sys.argv[2]).expanduser()
    begun = time.monotonic()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    done = install(file, cache, say)
    if done:
        compile_modules(Path(sysconfig.get_path("purelib")), cache / "compiled", say)
        say(f"  done in {time.monotonic() - begun:.0f} s")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
