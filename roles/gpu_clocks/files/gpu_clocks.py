"""GPU clocks at their maximum, and put back.

    gpu_clocks lock      lock each GPU's graphics and memory clocks to the highest it supports
    gpu_clocks reset     let the GPUs choose again
    gpu_clocks status    show each GPU's supported and present clocks; changes nothing
    gpu_clocks verify    renew a lock that was lost, and prove the clocks of idle GPUs under a load
    gpu_clocks load ID   keep the GPU of this bus id busy for a few seconds

Locked with `nvidia-smi -lgc` and `-lmc`, put back with their counterparts `-rgc` and `-rmc`. The
applications clocks (`-ac`, `-rac`) are another setting, which these do not touch.

It prints one JSON object. Exit status 0: done. 1: something failed, and `problems` names it and
its mend. A clock that a GPU does not let anyone lock is named under `unsupported` and is no
failure: the memory clock of some models, everything of a vGPU. An idle GPU may run slower than its
lock, so that there `lock` has nvidia-smi's word only (`at_maximum` is null). `verify` locks such a
GPU once more, which raises the clock where the lock was lost (`renewed`: by another user's -rgc, or
a driver that was loaded anew), and reads its clock while a kernel of a few seconds runs. That
kernel needs the driver alone. Where it cannot run, `unproved` says why. A GPU in use has no load
put on it. One that its power limit slows is as it should be at hard work (an H200 in bf16 products
ran at 1455 to 1545 of 1980 MHz, 2026-11-27), so that its lock cannot be told either.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import io
import json
import re
import select
import shutil
import subprocess
import sys
import time
from typing import Any

# Fields of each GPU (nvidia-smi --help-query-gpu).
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
POWER_CAP = 0x4
REASONS = {
    IDLE: "idle",
    0x2: "applications clocks",
    POWER_CAP: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
PERMISSION = 4
# How long the kernel runs, how long a GPU may take to start it, and how often clocks are read.
LOAD_SECONDS = 6
LOAD_STARTS_SECONDS = 60
RUNNING = "running"
# It waits by the GPU's own clock of nanoseconds: one instruction set for every GPU since Maxwell,
# which the driver compiles. Threads that wait keep the GPU busy and draw little power.
KERNEL = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .pred %again;
    .reg .u64 %r<4>;
    ld.param.u64 %r0, [nanoseconds];
    mov.u64 %r1, %globaltimer;
NEXT:
    mov.u64 %r2, %globaltimer;
    sub.u64 %r3, %r2, %r1;
    setp.lt.u64 %again, %r3, %r0;
    @%again bra NEXT;
    ret;
}
"""
# cuda.h: CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
MULTIPROCESSORS = 16
THREADS = 128


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
    header = [re.sub(r" \[[^[]*\]$", "", name.strip()) for name in (rows[0] if rows else [])]
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
        "power_capped": bool(bits & POWER_CAP),
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
    untold = gpu["idle"] or (clock == "graphics" and gpu["power_capped"])
    return None if untold else False


def read_gpus() -> list[dict[str, Any]]:
    """The GPUs and their clocks."""
    status, text = ask([f"--query-gpu={','.join(FIELDS)}", "--format=csv,nounits"])
    if status:
        raise Failure(f"nvidia-smi failed with status {status}: {first_line(text)}")
    return parse(text)


def change(gpu: dict[str, Any], arguments: list[str], confirmation: str) -> str | None:
    """Ask one GPU for a change; None, or why it does not support it.

    nvidia-smi ends with status 0 where a model does not support a setting, so its words count too.
    """
    status, text = ask(["-i", gpu["bus_id"], *arguments])
    if "not supported" in text.lower():
        return first_line(text)
    if status == PERMISSION or "permission" in text.lower():
        message = f"GPU {gpu['bus_id']}: nvidia-smi {arguments[0]} needs root: {first_line(text)}"
        raise Failure(message)
    if status or not re.search(confirmation, text):
        raise Failure(
            f"GPU {gpu['bus_id']}: nvidia-smi {' '.join(arguments)} failed with status {status}: "
            f"{first_line(text)}"
        )
    return None


def lock(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Lock all clocks that can be locked; the GPUs as they run afterwards."""
    for gpu in gpus:
        gpu["locked_mhz"], gpu["unsupported"] = {}, {}
        for clock, (option, _, clock_label) in CLOCKS.items():
            highest = gpu[clock]["max_mhz"]
            if highest is None:
                gpu["unsupported"][clock] = "no maximum is known"
                continue
            try:
                confirmation = rf"{clock_label} clocks set to .*\b{highest}\b"
                refusal = change(gpu, [option, f"{highest},{highest}"], confirmation)
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
    for seconds_left in range(SETTLE_SECONDS, -1, -1):
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
        if not slow or seconds_left == 0:
            break
        time.sleep(1)
    for gpu, clock in slow:
        reason = ", ".join(gpu["reasons"]) or "nvidia-smi names no reason"
        problems.append(
            f"GPU {gpu['bus_id']}: the {clock} clock runs at {gpu[clock]['current_mhz']} MHz, "
            f"locked to {gpu['locked_mhz'][clock]} MHz ({reason}): "
            "see `nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`."
        )
    return gpus


def reset(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Undo the lock on every GPU."""
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
    """Name the clocks that do not run at their maximum though the GPU is busy."""
    for gpu in gpus:
        clock = gpu["graphics"]
        if clock["at_maximum"] is False:
            problems.append(
                f"GPU {gpu['bus_id']}: the graphics clock runs at {clock['current_mhz']} MHz, its "
                f"maximum is {clock['max_mhz']} MHz ({', '.join(gpu['reasons']) or 'not locked'})."
            )
    return gpus


def verify(gpus: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """Renew the lock of clocks below their maximum, and prove those of idle GPUs under a load."""
    slow = {gpu["bus_id"] for gpu in gpus if gpu["graphics"]["at_maximum"] is not True}
    if slow:
        gpus = lock([gpu for gpu in gpus if gpu["bus_id"] in slow], problems)
    for gpu in gpus:
        gpu["renewed"] = gpu["bus_id"] in slow and gpu["graphics"]["at_maximum"] is True
    doubtful = [gpu for gpu in gpus if gpu["graphics"]["at_maximum"] is None]
    refusals = prove_under_load([gpu["bus_id"] for gpu in doubtful if may_load(gpu)], problems)
    for gpu in doubtful:
        gpu["unproved"] = refusals.get(gpu["bus_id"], why_not_loaded(gpu))
    return gpus


def may_load(gpu: dict[str, Any]) -> bool:
    """Whether a GPU idles whole, at a clock that it tells."""
    is_known = None not in (gpu["graphics"]["max_mhz"], gpu["graphics"]["current_mhz"])
    return bool(gpu["idle"] and not gpu["mig"] and is_known)


def why_not_loaded(gpu: dict[str, Any]) -> str:
    """Why no load was put on a GPU; empty where one was."""
    if may_load(gpu):
        return ""
    if gpu["mig"]:
        return "it is in MIG mode"
    return "its power limit slows it" if gpu["power_capped"] else "it does not tell its clock"


def prove_under_load(bus_ids: list[str], problems: list[str]) -> dict[str, str]:
    """Read the clocks of these GPUs while each runs the kernel; why one is not proved."""
    argv = [sys.executable, "-I", __file__, "load"]
    loads = {
        # No shell, and the addresses are nvidia-smi's.
        bus_id: subprocess.Popen(  # noqa: S603
            [*argv, bus_id], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for bus_id in bus_ids
    }
    refusals: dict[str, str] = {}
    try:
        for bus_id, load_of in loads.items():
            status_line = first_words(load_of)
            if status_line != RUNNING:
                refusals[bus_id] = f"no kernel ran on it: {status_line}"
        running = [bus_id for bus_id in loads if bus_id not in refusals]
        slow = slow_under_load(running)
        problems += slow.values()
        refusals.update(dict.fromkeys(slow, "it is slow under load"))
    finally:
        for load_of in loads.values():
            load_of.kill()
            load_of.wait()
    return refusals


def first_words(load_of: subprocess.Popen[str]) -> str:
    """The first line of a load, once it says one."""
    output = load_of.stdout
    if output is None or not select.select([output], [], [], LOAD_STARTS_SECONDS)[0]:
        return f"it did not start within {LOAD_STARTS_SECONDS} s"
    return output.readline().strip()[:200] or "it said nothing"


def slow_under_load(bus_ids: list[str]) -> dict[str, str]:
    """A problem for each of these GPUs whose clock does not reach its maximum while it is busy. The
    kernel draws little power (168 of an H200's 700 W, 2026-11-27), so that a limit is one too."""
    slow: dict[str, str] = {}
    for seconds_left in range(LOAD_SECONDS - 2, -1, -1):
        slow = {
            gpu["bus_id"]: f"GPU {gpu['bus_id']}: under load the graphics clock runs at"
            f" {gpu['graphics']['current_mhz']} MHz, its maximum is {gpu['graphics']['max_mhz']}"
            f" MHz ({', '.join(gpu['reasons']) or 'no reason named'}): see"
            " `nvidia-smi -q -d CLOCK,PERFORMANCE,POWER`."
            for gpu in (read_gpus() if bus_ids else [])
            if gpu["bus_id"] in bus_ids and gpu["graphics"]["at_maximum"] is not True
        }
        if not slow or seconds_left == 0:
            break
        time.sleep(1)
    return slow


def load(bus_id: str) -> str:
    """Keep a GPU busy for some seconds, and say when it is; why it cannot, or nothing.

    The functions are those of CUDA's driver API, which libcuda.so.1 of the driver has.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"libcuda.so.1 of the driver cannot be loaded: {error}"
    device, processors = ctypes.c_int(), ctypes.c_int()
    context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    wait = ctypes.c_uint64(LOAD_SECONDS * 1_000_000_000)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(wait), ctypes.c_void_p))
    by = ctypes.byref
    steps: list[tuple[str, tuple[Any, ...]]] = [
        ("cuInit", (0,)),
        ("cuDeviceGetByPCIBusId", (by(device), bus_id.encode())),
        ("cuDeviceGetAttribute", (by(processors), MULTIPROCESSORS, device)),
        ("cuDevicePrimaryCtxRetain", (by(context), device)),
        ("cuCtxSetCurrent", (context,)),
        ("cuModuleLoadData", (by(module), KERNEL)),
        ("cuModuleGetFunction", (by(kernel), module, b"spin")),
    ]
    for name, call_arguments in steps:
        status = getattr(cuda, name)(*call_arguments)
        if status:
            return f"{name} of CUDA's driver failed with status {status}"
    size = (max(1, processors.value), 1, 1, THREADS, 1, 1)
    status = cuda.cuLaunchKernel(kernel, *size, 0, None, arguments, None)
    if status:
        return f"cuLaunchKernel of CUDA's driver failed with status {status}"
    print(RUNNING, flush=True)
    cuda.cuCtxSynchronize()
    return ""


def why_unproved(gpu: dict[str, Any]) -> str:
    """Why a GPU does not count as at its maximum; empty where it does. Actions that put no load on
    it have its clock alone."""
    if "unproved" in gpu:
        return str(gpu["unproved"])
    at_maximum = gpu["graphics"]["at_maximum"]
    if at_maximum is None:
        return why_not_loaded(gpu) or "it is idle"
    return "" if at_maximum else "it runs slower"


def said_of(gpus: list[dict[str, Any]]) -> str:
    """The result, a sentence for a reader."""
    reasons = {gpu["bus_id"]: why_unproved(gpu) for gpu in gpus}
    unproved = [f"{bus_id} ({reason})" for bus_id, reason in reasons.items() if reason]
    renewed = [gpu["bus_id"] for gpu in gpus if gpu.get("renewed")]
    parts = [f"gpu_clocks: {len(gpus) - len(unproved)} of {len(gpus)} GPUs at their maximum"]
    parts += [f"lock renewed: {', '.join(renewed)}"] if renewed else []
    parts += [f"not proved: {', '.join(unproved)}"] if unproved else []
    return "; ".join(parts)


ACTIONS = {"lock": lock, "reset": reset, "status": status, "verify": verify}


def main(arguments: list[str] | None = None) -> int:
    """Run the action, print its report, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="gpu_clocks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("action", choices=sorted([*ACTIONS, "load"]))
    parser.add_argument("bus_id", nargs="?", default="")
    options = parser.parse_args(arguments)
    action: str = options.action
    if action == "load":
        refusal = load(options.bus_id)
        print(refusal, end="")
        return 1 if refusal else 0
    problems: list[str] = []
    gpus: list[dict[str, Any]] = []
    try:
        gpus = ACTIONS[action](read_gpus(), problems)
    except Failure as failure:
        problems.append(str(failure))
    renewed = [gpu["bus_id"] for gpu in gpus if gpu.get("renewed")]
    report = {"action": action, "gpus": gpus, "problems": problems, "renewed": renewed}
    print(json.dumps({**report, "said": said_of(gpus)}, indent=2))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
