"""EESSI's needs on this node beyond files: check them, and link the GPU driver's libraries.

    eessi look|verify|link [SETTINGS]

SETTINGS is a file, or the JSON object itself.

``look`` changes nothing and prints a JSON object: ``problems`` with FUSE and the space for the
cache, a sentence each, and ``set_up``, the missing parts of autofs and the user that ``cvmfs_config
setup`` makes. ``verify`` adds the repository's answer and whether the libraries of the GPU driver
are linked. ``link`` initialises EESSI and runs its own script where the driver, the version or a
link differs from the last time; it runs at each boot. Its problem is an exit status of 1.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

Settings = Mapping[str, Any]

# Seconds. The first access to a repository mounts it and loads its catalogue over the network.
MOST_SECONDS = 300
# umask: EESSI's script refuses one that hides its links from users.
IN_EESSI = 'umask 022; . "$1" >/dev/null || exit 1; shift; exec "$@"'
MODULES = 'umask 022; . "$1" >/dev/null || exit 1; module --terse avail 2>&1'
LAST_LINES = 15


class Problem(Exception):
    """A sentence for the user."""


def run(argv: Sequence[str]) -> tuple[int, str]:
    """Exit status and both outputs of a program; 127 where there is none."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 WHY: an argv, and no shell but EESSI's own
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=MOST_SECONDS,
            check=False,
            env=environment,
        )
    except OSError as error:
        return 127, f"{argv[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return 124, f"{argv[0]} did not end within {MOST_SECONDS} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def not_set_up(settings: Settings) -> list[str]:
    """Missing steps of ``cvmfs_config setup``: autofs' map of /cvmfs, the user cvmfs."""
    etc = settings["etc"]
    maps = [f"{etc}/auto.master", *sorted(glob.glob(f"{etc}/auto.master.d/*.autofs"))]
    mount = re.escape(settings["mount"])
    line = re.compile(rf"^{mount}\s+(program:)?/etc/auto\.cvmfs", re.MULTILINE)
    missing = [] if any(line.search(text_of(path)) for path in maps) else ["autofs map"]
    if not re.search(r"^cvmfs:", text_of(f"{etc}/passwd"), re.MULTILINE):
        try:
            pwd.getpwnam("cvmfs")  # of a directory service
        except KeyError:
            missing.append("user cvmfs")
    return missing


def existing(path: str) -> str:
    """The path, or the nearest folder above it that is there."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


def cache_space(settings: Settings) -> int:
    """Bytes that the cache may have: the free space and its present size."""
    status = os.statvfs(existing(settings["cache"]))
    held = 0
    for folder, _, names in os.walk(settings["cache"]):
        for name in names:
            try:
                held += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:  # noqa: PERF203 WHY: CernVM-FS removes files while this looks
                continue
    return status.f_bavail * status.f_frsize + held


def driver_version() -> str:
    """The running GPU driver's version, or a Problem."""
    status, output = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    first = (output.strip().splitlines() or [""])[0].strip()
    if status or not re.fullmatch(r"\d+(\.\d+)+", first):
        raise Problem(
            f"nvidia-smi does not say the driver's version ({first or status}): install or"
            " start the GPU driver (role gpu_driver), and run again."
        )
    return first


def linked(settings: Settings, driver: str) -> dict[str, str]:
    return {"driver": driver, "version": settings["version"], "folder": settings["links"]}


def why_link(settings: Settings, driver: str) -> str:
    """Why the libraries have to be linked (again); empty where they are."""
    try:
        noted = json.loads(text_of(settings["state"]) or "null")
    except ValueError:
        noted = None
    if noted is None:
        return "they were not linked yet"
    for name, value in linked(settings, driver).items():
        if noted.get(name) != value:
            return f"linked for {name} {noted.get(name)}, and it is {value} now"
    return what_is_missing(settings["links"], driver)


def what_is_missing(folder: str, driver: str) -> str:
    """Differences from the links that EESSI's script makes; empty where there are none."""
    noted = text_of(os.path.join(folder, "driver_version.txt")).strip()
    if noted != driver:
        return f"{folder}/driver_version.txt says {noted or 'nothing'}"
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        return f"{folder}/libcuda.so.1 is not there or leads nowhere"
    return ""


def look(settings: Settings) -> dict[str, list[str]]:
    problems = []
    if not os.path.exists(settings["fuse"]):
        problems.append(
            f"{settings['fuse']} is not there, and CernVM-FS mounts by FUSE: load the module"
            " fuse, or give a container the device."
        )
    # Before nvme_scratch has run its disks show nothing to ask.
    if not settings["scratch"] or os.path.ismount(settings["scratch"]):
        space = cache_space(settings)
        if space < settings["cache_mb"] * 1000000:
            problems.append(
                f"the cache at {settings['cache']} may have {space} bytes, and"
                f" eessi_cache_mb is {settings['cache_mb']} (10^6 bytes each): make room, lower it,"
                " or set eessi_cache_base."
            )
    return {"problems": problems, "set_up": not_set_up(settings)}


def verify(settings: Settings) -> dict[str, list[str]]:
    state = look(settings)
    problems = state["problems"]
    if state["set_up"]:
        problems.append(f"cvmfs_config setup left out {', '.join(state['set_up'])}.")
    repository = settings["repository"]
    status, output = run(["cvmfs_config", "probe", repository])
    if status:
        problems.append(
            f"cvmfs_config probe {repository} failed ({last_of(output) or status}): see"
            " `cvmfs_config chksetup`, and whether the proxies or the servers can be reached."
        )
    problems += wrong_version(settings)
    if settings["gpus"]:
        problems += wrong_links(settings)
    return state


def wrong_version(settings: Settings) -> list[str]:
    """Missing parts of the version."""
    init = settings["init"]
    if not os.path.isfile(init):
        return [
            (
                f"{init} is not there: the version {settings['version']} is not in the"
                " repository, or the repository is not mounted."
            )
        ]
    status, output = run(["bash", "-c", MODULES, "bash", init])
    # A line for each module, name/version; folders end with ":", names without version with "/".
    if status or not re.search(r"^[^\s/:]+/[^\s/]\S*$", output, re.MULTILINE):
        return [f"no modules are listed after {init} ({last_of(output) or status})."]
    return []


def wrong_links(settings: Settings) -> list[str]:
    """Why the links to the driver's libraries do not serve."""
    try:
        driver = driver_version()
    except Problem as problem:
        return [str(problem)]
    reason = why_link(settings, driver)
    return [f"the GPU driver's libraries are not linked for {driver}: {reason}."] if reason else []


def last_of(output: str) -> str:
    return " | ".join(line.strip() for line in output.strip().splitlines()[-LAST_LINES:])


def link(settings: Settings) -> dict[str, Any]:
    """Link where needed; the changes made."""
    driver = driver_version()
    reason = why_link(settings, driver)
    if not reason:
        return {"changed": False, "driver": driver, "why": ""}
    init, script = settings["init"], settings["script"]
    # --no-download: the list of libraries is that of the EESSI version and not the newest of
    # Apptainer, so that two nodes have the same links, and nodes without internet have any.
    for path in (init, script):
        if not os.path.isfile(path):
            raise Problem(f"{path} is not there: is the repository mounted?")
    status, output = run(["bash", "-c", IN_EESSI, "bash", init, script, "--no-download"])
    if status:
        raise Problem(f"{script} ended with exit status {status}: {last_of(output)}")
    missing = what_is_missing(settings["links"], driver)
    if missing:
        raise Problem(f"{script} ended well, and {missing}: {last_of(output)}")
    note(settings, driver)
    return {"changed": True, "driver": driver, "why": reason}


def note(settings: Settings, driver: str) -> None:
    os.makedirs(os.path.dirname(settings["state"]), mode=0o755, exist_ok=True)
    beside = f"{settings['state']}.part"
    with open(beside, "w", encoding="utf-8") as stream:
        json.dump(linked(settings, driver), stream)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, settings["state"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["look", "verify", "link"])
    parser.add_argument("settings", nargs="?", default="/etc/trueup/eessi.json")
    chosen = parser.parse_args()
    settings_source = chosen.settings
    try:
        settings = json.loads(
            settings_source
            if settings_source.startswith("{")
            else text_of(settings_source) or "null"
        )
        if not isinstance(settings, dict):
            raise Problem(f"{settings_source} is no JSON object")
        print(json.dumps({"look": look, "verify": verify, "link": link}[chosen.verb](settings)))
    except (Problem, OSError) as problem:
        print(f"eessi: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
