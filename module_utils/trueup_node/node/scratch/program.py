"""One XFS file system over a node's local NVMe disks: made, found again, or made anew.

Azure's local disks come back empty after a deallocation. This program runs at each boot before the
mount unit (trueup-nvme-scratch.service), and where the role applies it. It leaves a file system
with the expected UUID, over all local disks as RAID 0, or on the disk itself where there is one.

    nvme_scratch [--config FILE | --settings JSON]            do it
    nvme_scratch [--config FILE | --settings JSON] --wait     the same at boot: disks may come late
    nvme_scratch [--config FILE | --settings JSON] --check    print the steps, change nothing

It prints one JSON object. Exit status 0: done, or nothing to do. 1: refused or failed, with the
reason in `problems`; a refusal has changed nothing. ``states.TABLE`` lists the disks that it may
write to.
"""

from __future__ import annotations

import argparse
import fcntl
import grp
import json
import os
import pwd
import sys
import time
from pathlib import Path
from typing import Any

from .reading import Failed, Run, read_machine, record, run_command
from .states import (
    EMPTY,
    Plan,
    Settings,
    decide,
    holds_none_of_others,
    is_our_label,
    signatures_in,
    words,
)

CONFIG = "/etc/trueup/nvme_scratch.json"
LOCK = "/run/trueup-nvme-scratch.lock"
# Where a new file system is mounted for a moment, to set the permissions of its root.
ASIDE = "/run/trueup-nvme-scratch"


def apply(settings: Settings, plan: Plan, run: Run) -> None:
    """Carry out the plan's steps."""
    for name in plan.stop:
        run("mdadm", "--stop", f"/dev/{name}")
    if plan.state == "assemble":
        _assemble(settings, plan, run)
    if plan.state == "ready":
        if plan.array:
            record(plan.array)
        if plan.steps:
            _set_permissions(settings, settings.mount_point)
    if plan.state not in ("make", "rebuild"):
        return
    for name in plan.forget:
        # Superblock by superblock, only of disks that the marker proves our own.
        run("wipefs", "--all", f"/dev/{name}")
    device = plan.device
    if not device:
        device = _create(settings, plan, run)
    # -f only on an array just made: XFS can find there only data of the lost array of this program.
    # On anything else its refusal to overwrite stays in force.
    force = [] if plan.device else ["-f"]
    run("mkfs.xfs", *force, "-q", "-m", f"uuid={settings.uuid}", f"/dev/{device}")
    _permit(settings, device, run)
    run("udevadm", "trigger", "--action=change", f"--sysname-match={device}", check=False)
    run("udevadm", "settle", "--timeout=30", check=False)


def _assemble(settings: Settings, plan: Plan, run: Run) -> None:
    """Start an array of ours whose members are all there, and make its file system if it has
    none."""
    disks = [f"/dev/{name}" for name in plan.disks]
    run("mdadm", "--assemble", f"/dev/md/{settings.array}", *disks)
    run("udevadm", "settle", "--timeout=30", check=False)
    after = decide(settings, read_machine(settings, run))
    if after.problems or after.state not in ("ready", "make") or not after.device:
        raise Failed(" ".join(after.problems) or "the assembled array does not run.")
    apply(settings, after, run)


def _create(settings: Settings, plan: Plan, run: Run) -> str:
    """Make the array, and record that it is our own; its device's name.

    Without --run, mdadm too refuses a disk with content.
    """
    run(
        "mdadm",
        "--create",
        f"/dev/md/{settings.array}",
        f"--name={settings.array}",
        # "any": the array is our own whatever the machine is called.
        "--homehost=any",
        "--metadata=1.2",
        "--level=0",
        f"--chunk={settings.chunk_kib}",
        f"--raid-devices={len(plan.disks)}",
        *(f"/dev/{name}" for name in plan.disks),
    )
    # Found by its members: the link under /dev/md waits for udev.
    for array in read_machine(settings, run).arrays:
        if is_our_label(settings, array.label) and set(array.members) == set(plan.disks):
            record(array.uuid)
            if plan.unsigned and not holds_none_of_others(settings, array.device):
                raise Failed(
                    f"{words(plan.unsigned)} had no signature, but where the data of the new"
                    f" array {array.device.name} begins there is {signatures_in(array.device)}: it"
                    f" was not overwritten. Save what is needed, then empty the array by {EMPTY}."
                )
            return array.device.name
    raise Failed(f"mdadm made the array {settings.array}, but none runs over {words(plan.disks)}")


def _permit(settings: Settings, device: str, run: Run) -> None:
    """Set owner and mode of the new file system's root."""
    os.makedirs(ASIDE, mode=0o700, exist_ok=True)
    run("mount", "-t", "xfs", f"/dev/{device}", ASIDE)
    try:
        _set_permissions(settings, ASIDE)
    finally:
        run("umount", ASIDE)
    os.rmdir(ASIDE)


def _set_permissions(settings: Settings, path: str) -> None:
    os.chown(path, pwd.getpwnam(settings.owner).pw_uid, grp.getgrnam(settings.group).gr_gid)
    os.chmod(path, int(settings.mode, 8))


def decide_when_settled(settings: Settings, run: Run, wait_seconds: int) -> Plan:
    """The plan once all disks are there, or when the time is over: disks may come late at boot.

    A complete array needs no waiting. With a disk too few nothing is made before the time is over.
    """
    run("udevadm", "settle", "--timeout=30", check=False)
    deadline = time.monotonic() + wait_seconds
    while True:
        plan = decide(settings, read_machine(settings, run))
        is_complete = plan.state in ("ready", "assemble", "kept")
        counted = settings.expected_disks is not None and not plan.problems
        enough = counted and len(plan.disks) >= (settings.expected_disks or 0)
        if is_complete or enough or time.monotonic() >= deadline:
            return plan
        time.sleep(1)


def read_settings(text: str) -> Settings:
    """The configuration, complete and nothing else."""
    try:
        values: dict[str, Any] = json.loads(text)
        values["models"] = tuple(values["models"])
        settings = Settings(**values)
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"the configuration cannot be read: {error}") from error
    if not settings.models or not all(settings.models):
        message = "the configuration chooses no model, or an empty one, which every disk would have"
        raise Failed(message)
    return settings


def outcome(
    settings_source: str | Path, *, check: bool = False, wait: bool = False
) -> dict[str, Any]:
    """The outcome: ``state``, ``disks``, ``device``, whether it is ``mounted``, the due ``steps``,
    and ``problems``; with problems nothing was done.

    Args:
        settings_source: a configuration as JSON, or the file that holds it.
        check: change nothing.
        wait: give the disks time to appear.
    """
    plan, problems = Plan("failed"), []
    try:
        settings = read_settings(
            settings_source
            if isinstance(settings_source, str)
            else settings_source.read_text("utf-8")
        )
        with open(LOCK, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if check:
                # It may be that mdadm is not installed yet.
                machine = read_machine(settings, run_command, needs_mdadm=False)
                plan = decide(settings, machine)
            else:
                seconds = settings.wait_seconds if wait else 0
                plan = decide_when_settled(settings, run_command, seconds)
                if plan.state == "none":
                    models = ", ".join(settings.models)
                    raise Failed(f"there is no disk of the model(s) {models}, so nothing to mount")
                if not plan.problems:
                    apply(settings, plan, run_command)
        problems = list(plan.problems)
    except (Failed, OSError, KeyError) as error:
        problems = [str(error)]
    return {
        "state": "failed" if problems and not plan.problems else plan.state,
        "disks": plan.disks,
        "device": plan.device,
        "mounted": plan.mounted,
        "steps": plan.steps,
        "problems": problems,
    }


def main(argv: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default=CONFIG, type=Path)
    parser.add_argument("--settings", help="the configuration itself, as JSON")
    parser.add_argument("--check", action="store_true", help="say what would be done")
    parser.add_argument("--wait", action="store_true", help="give the disks time to appear")
    options = parser.parse_args(argv)
    result = outcome(options.settings or options.config, check=options.check, wait=options.wait)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stderr.write("".join(f"{problem}\n" for problem in result["problems"]))
    return 1 if result["problems"] else 0
