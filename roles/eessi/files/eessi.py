"""What EESSI needs on this node beyond files: look at it, and link the GPU driver's libraries.

    eessi look|verify|link --settings JSON | --settings-file PATH

``look`` changes nothing and prints a JSON object: what is missing of autofs and the user that
``cvmfs_config setup`` makes, how much the cache may take, and whether the libraries of the GPU
driver have to be linked. ``verify`` adds what the repository answers. ``link`` initialises EESSI
and runs its own script where the driver, the version or a link is not that of the last time; it
runs at each boot. A problem is a sentence in ``problems``, and an exit status of 1 from ``link``.
"""

import argparse
import glob
import json
import os
import pwd
import re
import subprocess
import sys

# Seconds. The first access to a repository mounts it and loads its catalogue over the network.
MOST_SECONDS = 300
SCRIPT = "scripts/gpu_support/nvidia/link_nvidia_host_libraries.sh"
# umask: EESSI's script refuses one that hides its links from users.
IN_EESSI = 'umask 022; . "$1" >/dev/null || exit 1; shift; exec "$@"'
MODULES = 'umask 022; . "$1" >/dev/null || exit 1; module --terse avail 2>&1'
LAST_LINES = 15


class Problem(Exception):
    """A sentence for the user."""


def run(argv):
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


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def not_set_up(settings):
    """What ``cvmfs_config setup`` has not done: autofs' map of /cvmfs, the user cvmfs."""
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


def existing(path):
    """The path, or the nearest folder above it that is there."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


def cache_space(settings):
    """Bytes that the cache may have: what is free, and what it has already."""
    status = os.statvfs(existing(settings["cache"]))
    held = 0
    for folder, _, names in os.walk(settings["cache"]):
        for name in names:
            try:
                held += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:  # noqa: PERF203 WHY: CernVM-FS removes files while this looks
                continue
    return status.f_bavail * status.f_frsize + held


def driver_version():
    """The running GPU driver's version, or a Problem."""
    status, said = run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    first = (said.strip().splitlines() or [""])[0].strip()
    if status or not re.fullmatch(r"\d+(\.\d+)+", first):
        raise Problem(
            f"eessi: nvidia-smi does not say the driver's version ({first or status}): install or"
            " start the GPU driver (role gpu_driver), and run again."
        )
    return first


def why_link(settings, driver):
    """Why the libraries have to be linked (again); empty where they are."""
    wanted = {"driver": driver, "version": settings["version"], "folder": settings["links"]}
    try:
        noted = json.loads(text_of(settings["state"]) or "null")
    except ValueError:
        noted = None
    if noted is None:
        return "they were not linked yet"
    for name, value in wanted.items():
        if noted.get(name) != value:
            return f"linked for {name} {noted.get(name)}, and it is {value} now"
    return what_is_missing(settings["links"], driver)


def what_is_missing(folder, driver):
    """What is not as EESSI's script leaves it; empty where all is."""
    noted = text_of(os.path.join(folder, "driver_version.txt")).strip()
    if noted != driver:
        return f"{folder}/driver_version.txt says {noted or 'nothing'}"
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        return f"{folder}/libcuda.so.1 is not there or leads nowhere"
    return ""


def look(settings):
    found = {
        "problems": [],
        "set_up": not_set_up(settings),
        "free_bytes": cache_space(settings),
        "scratch_mounted": not settings["scratch"] or os.path.ismount(settings["scratch"]),
        "gpu": {},
    }
    if not os.path.exists(settings["fuse"]):
        found["problems"].append(
            f"eessi: {settings['fuse']} is not there, and CernVM-FS mounts by FUSE: load the module"
            " fuse, or give a container the device."
        )
    return found


def verify(settings):
    found = look(settings)
    init = init_of(settings)
    if not os.path.isfile(init):
        found["problems"].append(
            f"eessi: {init} is not there: the version {settings['version']} is not in the"
            " repository, or the repository is not mounted."
        )
        return found
    status, said = run(["bash", "-c", MODULES, "bash", init])
    # A line for each module, name/version; folders end with ":", names without version with "/".
    found["modules"] = len(re.findall(r"^[^\s/:]+/[^\s/]\S*$", said, re.MULTILINE))
    if status or not found["modules"]:
        found["problems"].append(
            f"eessi: no modules are listed after {init} ({last_of(said) or status})."
        )
    if settings["gpus"]:
        try:
            driver = driver_version()
            found["gpu"] = {"driver": driver, "why": why_link(settings, driver)}
        except Problem as problem:
            found["problems"].append(str(problem))
        if found["gpu"].get("why"):
            found["problems"].append(
                "eessi: the GPU driver's libraries are not linked for"
                f" {found['gpu']['driver']}: {found['gpu']['why']}."
            )
    return found


def init_of(settings):
    return os.path.join(version_folder(settings), "init/lmod/bash")


def version_folder(settings):
    return os.path.join(settings["mount"], settings["repository"], "versions", settings["version"])


def last_of(said):
    return " | ".join(line.strip() for line in said.strip().splitlines()[-LAST_LINES:])


def link(settings):
    """Link where needed; what was done."""
    if not settings["gpus"]:
        return {"changed": False, "why": "this node has no GPU"}
    driver = driver_version()
    why = why_link(settings, driver)
    if not why:
        return {"changed": False, "driver": driver, "why": ""}
    init, script = init_of(settings), os.path.join(version_folder(settings), SCRIPT)
    for path in (init, script):
        if not os.path.isfile(path):
            raise Problem(f"eessi: {path} is not there: is the repository mounted?")
    options = [] if settings["download"] else ["--no-download"]
    status, said = run(["bash", "-c", IN_EESSI, "bash", init, script, *options])
    if status:
        raise Problem(f"eessi: {SCRIPT} ended with exit status {status}: {last_of(said)}")
    missing = what_is_missing(settings["links"], driver)
    if missing:
        raise Problem(f"eessi: {SCRIPT} ended well, and {missing}: {last_of(said)}")
    note(settings, driver)
    return {"changed": True, "driver": driver, "why": why}


def note(settings, driver):
    done = {"driver": driver, "version": settings["version"], "folder": settings["links"]}
    os.makedirs(os.path.dirname(settings["state"]), mode=0o755, exist_ok=True)
    beside = f"{settings['state']}.part"
    with open(beside, "w", encoding="utf-8") as stream:
        json.dump(done, stream)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, settings["state"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["look", "verify", "link"])
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--settings", help="a JSON object")
    given.add_argument("--settings-file")
    chosen = parser.parse_args()
    settings = json.loads(chosen.settings or text_of(chosen.settings_file) or "null")
    if not isinstance(settings, dict):
        print(f"eessi: {chosen.settings_file} is no JSON object", file=sys.stderr)
        return 2
    try:
        print(json.dumps({"look": look, "verify": verify, "link": link}[chosen.verb](settings)))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"eessi: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
