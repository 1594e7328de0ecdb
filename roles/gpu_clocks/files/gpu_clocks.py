"""GPU clocks at their maximum, and put back.

    gpu_clocks lock      lock each GPU's graphics and memory clocks to the highest it supports
    gpu_clocks reset     let the GPUs choose again
    gpu_clocks status    say what each GPU supports and runs at; changes nothing

Locked with `nvidia-smi -lgc` and `-lmc`, put back with their counterparts `-rgc` and `-rmc`. The
applications clocks (`-ac`, `-rac`) are another setting, which these do not touch.

It prints one JSON object. Exit status 0: done. 1: something failed, and `problems` says what and
its mend. A clock that a GPU does not let anyone lock is named under `unsupported` and is no
failure: the memory clock of some models, everything of a vGPU. An idle GPU may run slower than its
lock, so that there the lock is proved by nvidia-smi's word only (`at_maximum` is null).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from typing import Any

# What is asked of each GPU (nvidia-smi --help-query-gpu).
FIELDS = (
    "index",
    "pci.bus_id",
    "mig.mode.current",
    "clocks.max.graphics",
    "clocks.max.memory",
    "clocks.current.graphics",
    "clocks.current.memory",
    "clocks_event_reasons.active",
)
# The pairs: lock and put back. The word is how nvidia-smi names the clock in its answer.
CLOCKS = {"graphics": ("-lgc", "-rgc", "GPU"), "memory": ("-lmc", "-rmc", "Memory")}
# nvidia-smi hangs on a GPU that has fallen off the bus.
LIMIT_SECONDS = 60
# Clocks go in steps of 15 MHz on the GPUs of these families.
STEP_MHZ = 15
# How long a clock may take to follow.
SETTLE_SECONDS = 10
# Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*).
IDLE = 0x1
REASONS = {
    IDLE: "idle",
    0x2: "applications clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
PERMISSION = 4


class Failure(Exception):
    """Something that cannot go on; the message is one sentence for the user."""


def ask(arguments: list[str]) -> tuple[int, str]:
    """Run nvidia-smi; its exit status and all that it printed."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        message = "nvidia-smi is not installed: install the driver (role gpu_driver or gpu_grid)."
        raise Failure(message)
    try:
        # No shell, and all arguments are made here.
        done = subprocess.run(  # noqa: S603
            [tool, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(
            f"nvidia-smi {' '.join(arguments)} did not end within {LIMIT_SECONDS} s: a GPU may "
            "have fallen off the bus (see `dmesg | grep -i xid`)."
        ) from error
    return done.returncode, done.stdout


def first_line(text: str) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else "it said nothing"


def mhz(text: str) -> int | None:
    """A clock in MHz; None where the GPU does not say it (``[N/A]``, ``[Not Supported]``)."""
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    if re.fullmatch(r"\[?(N/A|Not Supported|Unknown Error)\]?", text):
        return None
    raise Failure(f"nvidia-smi gave {text!r} where a clock in MHz was expected.")


def parse(text: str) -> list[dict[str, Any]]:
    """The answer to the query, a GPU a row; columns are found by their names."""
    rows = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if row]
    header = [re.sub(r" \[.*\]$", "", name.strip()) for name in (rows[0] if rows else [])]
    if sorted(header) != sorted(FIELDS):
        message = f"nvidia-smi's answer has not the columns that were asked for: {first_line(text)}"
        raise Failure(message)
    gpus = []
    for row in rows[1:]:
        if len(row) != len(header):
            message = f"nvidia-smi's answer has a row of another length: {', '.join(row)[:200]}"
            raise Failure(message)
        gpus.append(gpu_of(dict(zip(header, (cell.strip() for cell in row)))))
    if not gpus:
        raise Failure("nvidia-smi shows no GPU: see `lspci -d 10de:` and `dmesg | grep -i nvidia`.")
    return gpus


def gpu_of(cells: dict[str, str]) -> dict[str, Any]:
    """A row of the answer."""
    mask = re.fullmatch(r"0x([0-9a-fA-F]+)", cells["clocks_event_reasons.active"])
    bits = int(mask.group(1), 16) if mask else 0
    gpu: dict[str, Any] = {
        "index": cells["index"],
        "bus_id": cells["pci.bus_id"],
        "mig": cells["mig.mode.current"] == "Enabled",
        "idle": bool(bits & IDLE),
        "reasons": [name for bit, name in REASONS.items() if bits & bit],
    }
    for clock in CLOCKS:
        gpu[clock] = {
            "max_mhz": mhz(cells[f"clocks.max.{clock}"]),
            "current_mhz": mhz(cells[f"clocks.current.{clock}"]),
        }
        gpu[clock]["at_maximum"] = at_maximum(gpu, clock)
    return gpu


def at_maximum(gpu: dict[str, Any], clock: str) -> bool | None:
    """Whether a clock runs at its maximum, to a step; None where that cannot be told."""
    highest, current = gpu[clock]["max_mhz"], gpu[clock]["current_mhz"]
    if highest is None or current is None:
        return None
    if current >= highest - STEP_MHZ:
        return True
    return None if gpu["idle"] else False


def read_gpus() -> list[dict[str, Any]]:
    """The GPUs and their clocks."""
    status, text = ask([f"--query-gpu={','.join(FIELDS)}", "--format=csv,nounits"])
    if status:
        raise Failure(f"nvidia-smi failed with status {status}: {first_line(text)}")
    return parse(text)


def change(gpu: dict[str, Any], arguments: list[str], said: str) -> str | None:
    """Ask one GPU for a change; None, or why it does not support it.

    nvidia-smi ends with status 0 where a model does not support a setting, so its words count too.
    """
    status, text = ask(["-i", gpu["bus_id"], *arguments])
    if "not supported" in text.lower():
        return first_line(text)
    if status == PERMISSION or "permission" in text.lower():
        message = f"GPU {gpu['bus_id']}: nvidia-smi {arguments[0]} needs root: {first_line(text)}"
        raise Failure(message)
    if status or not re.search(said, text):
        raise Failure(
            f"GPU {gpu['bus_id']}: nvidia-smi {' '.join(arguments)} failed with status {status}: "
            f"{first_line(text)}"
        )
    return None


def lock(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Lock what can be locked; the GPUs as they run afterwards."""
    for gpu in gpus:
        gpu["locked_mhz"], gpu["unsupported"] = {}, {}
        for clock, (option, _, word) in CLOCKS.items():
            highest = gpu[clock]["max_mhz"]
            if highest is None:
                gpu["unsupported"][clock] = "no maximum is known"
                continue
            try:
                said = rf"{word} clocks set to .*\b{highest}\b"
                refusal = change(gpu, [option, f"{highest},{highest}"], said)
            except Failure as failure:
                problems.append(str(failure))
                continue
            if refusal is None:
                gpu["locked_mhz"][clock] = highest
            else:
                gpu["unsupported"][clock] = refusal
    return prove(gpus, problems)


def prove(before: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Read the clocks back until those that were locked have followed."""
    for left in range(SETTLE_SECONDS, -1, -1):
        gpus = read_gpus()
        by_place = {gpu["bus_id"]: gpu for gpu in gpus}
        slow = []
        for old in before:
            gpu = by_place.get(old["bus_id"])
            if gpu is None:
                problems.append(f"GPU {old['bus_id']}: nvidia-smi does not show it any more.")
                continue
            gpu["locked_mhz"], gpu["unsupported"] = old["locked_mhz"], old["unsupported"]
            slow += [
                (gpu, clock) for clock in gpu["locked_mhz"] if gpu[clock]["at_maximum"] is False
            ]
        if not slow or left == 0:
            break
        time.sleep(1)
    for gpu, clock in slow:
        why = ", ".join(gpu["reasons"]) or "nvidia-smi names no reason"
        problems.append(
            f"GPU {gpu['bus_id']}: the {clock} clock runs at {gpu[clock]['current_mhz']} MHz, "
            f"locked to {gpu['locked_mhz'][clock]} MHz ({why}): "
            "see `nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`."
        )
    return gpus


def reset(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Put back what lock changes, on every GPU."""
    for gpu in gpus:
        gpu["unsupported"] = {}
        for clock, (_, option, _) in CLOCKS.items():
            try:
                refusal = change(gpu, [option], r"All done\.")
            except Failure as failure:
                problems.append(str(failure))
                continue
            if refusal is not None:
                gpu["unsupported"][clock] = refusal
    return gpus


def status(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Name what does not run at its maximum though it is busy."""
    for gpu in gpus:
        clock = gpu["graphics"]
        if clock["at_maximum"] is False:
            problems.append(
                f"GPU {gpu['bus_id']}: the graphics clock runs at {clock['current_mhz']} MHz, its "
                f"maximum is {clock['max_mhz']} MHz ({', '.join(gpu['reasons']) or 'not locked'})."
            )
    return gpus


ACTIONS = {"lock": lock, "reset": reset, "status": status}


def main(arguments: list[str] | None = None) -> int:
    """Do it, print what came of it, and return the exit status."""
    parser = argparse.ArgumentParser(prog="gpu_clocks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("action", choices=sorted(ACTIONS))
    action = parser.parse_args(arguments).action
    problems: list[str] = []
    gpus: list[dict[str, Any]] = []
    try:
        gpus = ACTIONS[action](read_gpus(), problems)
    except Failure as failure:
        problems.append(str(failure))
    print(json.dumps({"action": action, "gpus": gpus, "problems": problems}, indent=2))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
