"""What this host can do for Slurm, as one JSON object. Changes nothing.

    look PLUGIN_FOLDER [NAME ...]    NAMEs are hosts that must be found by name

Run through standard input, so that it is there before anything is installed.
"""

import json
import os
import pwd
import re
import socket
import subprocess
import sys

# cgroup version 1: what Slurm's proctrack/cgroup and task/cgroup use (cgroup.conf(5)).
CONTROLLERS = ("cpuset", "devices", "freezer", "memory")
# linux/capability.h
CAP_SYS_NICE = 23
PLUGINS = {"mpi_pmix", "cgroup_v1", "cgroup_v2"}
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def mounted(mounts):
    """The controllers of version 1, and the places of version 2; each with ``rw`` or ``ro``."""
    old, unified = {}, []
    for line in mounts.splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup":
            for option in options.split(","):
                old[option] = options.split(",")[0]
        elif kind == "cgroup2":
            unified.append((place, options.split(",")[0]))
    return old, unified


def cgroup(mounts):
    """``v1``, ``v2`` or ``none``, and why it is none."""
    old, unified = mounted(mounts)
    if unified and unified[-1][0] == "/sys/fs/cgroup":
        if unified[-1][1] == "rw":
            return "v2", ""
        return "none", "cgroup version 2 is mounted read-only"
    for place, _ in unified:
        if controllers(place):
            return "none", "cgroup versions 1 and 2 share the controllers"
    there = [name for name in CONTROLLERS if name in old]
    if not there:
        return "none", "no cgroups are mounted"
    lacking = [name for name in CONTROLLERS if old.get(name) != "rw"]
    if lacking:
        return "none", "cgroup version 1, not writable: {}".format(", ".join(lacking))
    return "v1", ""


def controllers(place):
    try:
        with open(os.path.join(place, "cgroup.controllers"), encoding="ascii") as stream:
            return stream.read().split()
    except OSError:
        return []


def may_bind():
    """Whether a daemon started by root here may set the CPUs of another user's processes."""
    with open("/proc/1/status", encoding="ascii", errors="replace") as stream:
        for line in stream:
            if line.startswith("CapBnd:"):
                return bool(int(line.split()[1], 16) >> CAP_SYS_NICE & 1)
    return True


def version():
    for program in ("slurmd", "slurmctld", "slurmdbd", "scontrol"):
        try:
            shown = subprocess.run([program, "-V"], capture_output=True, check=False)  # noqa: S603 (Slurm's own)
        except OSError:
            continue
        match = re.search(rb"[0-9]+\.[0-9]+\.[0-9]+", shown.stdout)
        if match:
            return match.group().decode()
    return None


def entries(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def uid():
    try:
        return pwd.getpwnam("slurm").pw_uid
    except KeyError:
        return None


def resolves(name):
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def main(arguments):
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as stream:
        kind, why = cgroup(stream.read())
    there = {name[:-3] for name in entries(arguments[0]) if name.endswith(".so")}
    library = any("libnvidia-ml.so.1" in entries(place) for place in LIBRARIES)
    found = {
        "hostname": socket.gethostname().split(".")[0],
        "cgroup": kind,
        "cgroup_why": why,
        "may_bind": may_bind(),
        "plugins": sorted(there & PLUGINS),
        "nvml": "gpu_nvml" in there and library,
        "version": version(),
        "slurm_uid": uid(),
        "unresolved": [name for name in arguments[1:] if not resolves(name)],
    }
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
