#!/usr/bin/env python3
"""Run a program that measures GPU copies: once for each GPU beside its NUMA node, once for all.

    gpu_copy.py --tool nvbandwidth --program PATH --samples N --peers read --gpu 0:24-47 --gpu ...
    gpu_copy.py --tool bandwidthTest --program PATH --samples N --gpu 0:24-47 ...
    gpu_copy.py --tool pytorch --samples N --peers write --gpu 0:24-47 ...

GPU numbers are those of the PCI order. A GPU's run sees that GPU alone and runs on the given CPUs,
so that its host memory lies beside it; the last run, of peers, sees all of them. The output of each
stands between two lines of ours, with its length and CRC-32.

With PyTorch this file is also the program that measures (--measure), and prints one JSON line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import zlib
from typing import Any

MARK = "[trueup-gpu-copy 1]"
WRONG_DATA = "Invalid value when checking the pattern"
# Of a PyTorch run: bytes of a copy, and copies of a repeat.
BYTES = 512 * 1024 * 1024
COPIES = 16
HELP_SECONDS = 30


def stop(message: str) -> None:
    sys.stderr.write(f"gpu_copy: {message}\n")
    sys.exit(3)


def gpu_cpus(text: str) -> tuple[int, str]:
    number, _, cpus = text.partition(":")
    if not number.isdigit() or not cpus:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 0:24-47")
    expanded(cpus)
    return int(number), cpus


def expanded(cpus: str) -> set[int]:
    numbers: set[int] = set()
    for cpu_range in cpus.split(","):
        first, _, last = cpu_range.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise argparse.ArgumentTypeError(f"{cpus!r} is not a list of CPUs like 0-3,8")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def json_option(arguments: argparse.Namespace) -> list[str]:
    """nvbandwidth's option for JSON, where the build names it in its help (since 0.5): figures with
    six digits instead of two decimals, and an end that shows that the output is whole."""
    if arguments.tool != "nvbandwidth":
        return []
    try:
        usage = subprocess.run(  # noqa: S603 WHY: the program that the user named
            [arguments.program, "-h"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=HELP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return ["-j"] if b"[ --json ]" in usage.stdout else []


def commands(arguments: argparse.Namespace, is_single: bool, as_json: list[str]) -> list[str]:
    """The command that measures one GPU, or all of them as peers."""
    if arguments.tool == "nvbandwidth":
        if is_single:
            tests = ["host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_local_copy"]
        else:
            tests = [f"device_to_device_memcpy_{arguments.peers}_ce"]
        # -d: we place it; the driver's own idea of a GPU's CPUs is often wrong in a VM.
        return [arguments.program, "-d", "-i", str(arguments.samples), *as_json, "-t", *tests]
    if arguments.tool == "bandwidthTest":
        return [arguments.program, "--csv", "--memory=pinned"]
    return [
        *(sys.executable, os.path.abspath(__file__), "--tool", "pytorch"),
        *("--samples", str(arguments.samples), "--measure", "one" if is_single else "peers"),
    ]


def section(
    name: str, gpus: list[int], cpus: str, argv: list[str], arguments: argparse.Namespace
) -> str:
    """Run one section, print it, and return its closing line."""
    environment = dict(
        os.environ,
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        CUDA_VISIBLE_DEVICES=",".join(map(str, gpus)),
    )
    cpu_set = expanded(cpus)

    def bind_cpus() -> None:
        os.sched_setaffinity(0, cpu_set)
        # A control group may take CPUs away without a word.
        if os.sched_getaffinity(0) != cpu_set:
            raise OSError(f"only CPUs {sorted(os.sched_getaffinity(0))} may be used")

    try:
        done = subprocess.run(  # noqa: S603 WHY: the program that the user named
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
            preexec_fn=bind_cpus,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        stop(f"section {name}: {argv[0]} cannot be run on CPUs {cpus}: {error}")
    text = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    body = text.rstrip("\n").split("\n")
    begin = (
        f"{MARK} begin {name} gpus={','.join(map(str, gpus))} tool={arguments.tool} cpus={cpus}"
        f" samples={arguments.samples}"
    )
    status = abs(done.returncode)
    end = f"{MARK} end {name} status={status} lines={len(body)} crc32={crc([begin, *body])}"
    print("\n".join([begin, *body, end]), flush=True)
    if status and not any(WRONG_DATA in line for line in body):
        stop(f"section {name}: {os.path.basename(argv[0])} ended with status {done.returncode}")
    return end


def crc(lines: list[str]) -> str:
    return format(zlib.crc32("\n".join(lines).encode("utf-8", "replace")) & 0xFFFFFFFF, "08x")


# --- the measurement with PyTorch -----------------------------------------------------------------


def measure(mode: str, repeats: int) -> None:
    try:
        import torch
    except ImportError as error:
        stop(f"{sys.executable} has no PyTorch ({error})")
    if not torch.cuda.is_available():
        stop(f"PyTorch {torch.__version__} finds no CUDA device")
    gpus = torch.cuda.device_count()
    tests = []
    correct = True
    if mode == "one":
        host = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
        back = torch.empty(BYTES, dtype=torch.uint8, pin_memory=True)
        # A pattern that no shifted or repeated block could pass for.
        pattern = torch.arange(BYTES // 8, dtype=torch.int64).view(torch.uint8)
        host.copy_(pattern)
        first_buffer = torch.empty(BYTES, dtype=torch.uint8, device="cuda:0")
        second_buffer = torch.empty_like(first_buffer)
        for test, target, source in (
            ("h2d", first_buffer, host),
            ("d2d", second_buffer, first_buffer),
            ("d2h", back, second_buffer),
        ):
            tests.append(entry(test, [0], timed(torch, 0, target, source, repeats)))
        correct = bool(torch.equal(back, pattern))
    else:
        for source_gpu in range(gpus):
            with torch.cuda.device(source_gpu):
                source = torch.arange(
                    BYTES // 8, dtype=torch.int64, device=f"cuda:{source_gpu}"
                ).view(torch.uint8)
            for target_gpu in range(gpus):
                if target_gpu == source_gpu:
                    continue
                pair = [source_gpu, target_gpu]
                if not torch.cuda.can_device_access_peer(source_gpu, target_gpu):
                    tests.append(entry("p2p", pair, None))
                    continue
                target = torch.empty(BYTES, dtype=torch.uint8, device=f"cuda:{target_gpu}")
                tests.append(entry("p2p", pair, timed(torch, source_gpu, target, source, repeats)))
                correct = correct and bool(torch.equal(target.cpu(), source.cpu()))
                del target
    line = {
        "tool": "trueup-gpu-copy",
        "format": 1,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "gpu_name": torch.cuda.get_device_name(0),
        "gpus": gpus,
        "correct": correct,
        "tests": tests,
    }
    text = json.dumps(line, sort_keys=True, separators=(",", ":"))
    line["sha256"] = hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
    print(json.dumps(line), flush=True)


def entry(test: str, gpus: list[int], seconds: list[float] | None) -> dict[str, object]:
    return {"test": test, "gpus": gpus, "bytes": BYTES, "copies": COPIES, "seconds": seconds}


def timed(torch: Any, gpu: int, target: Any, source: Any, repeats: int) -> list[float]:
    """Seconds of each repeat of COPIES copies, by CUDA events on the stream that copies."""
    cuda = torch.cuda
    with cuda.device(gpu):
        target.copy_(source, non_blocking=True)
        seconds = []
        for _ in range(repeats):
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            cuda.synchronize()
            begin.record()
            for _copy in range(COPIES):
                target.copy_(source, non_blocking=True)
            end.record()
            end.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3)
    cuda.synchronize()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpu_copy.py")
    parser.add_argument(
        "--tool", choices=["nvbandwidth", "bandwidthTest", "pytorch"], required=True
    )
    parser.add_argument("--program", default="")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--peers", choices=["read", "write", "none"], default="none")
    parser.add_argument("--gpu", type=gpu_cpus, action="append", default=[], metavar="N:CPUS")
    parser.add_argument("--measure", choices=["one", "peers"])
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.samples)
        return
    if not arguments.gpu or (arguments.tool != "pytorch" and not arguments.program):
        parser.error("--gpu and --program are needed")
    as_json = json_option(arguments)
    ends = [
        section(f"gpu{number}", [number], cpus, commands(arguments, True, as_json), arguments)
        for number, cpus in arguments.gpu
    ]
    if arguments.peers != "none" and arguments.tool != "bandwidthTest" and len(arguments.gpu) > 1:
        numbers = [number for number, _ in arguments.gpu]
        everywhere = ",".join(sorted({cpus for _, cpus in arguments.gpu}))
        argv = commands(arguments, False, as_json)
        ends.append(section("peers", numbers, everywhere, argv, arguments))
    print(f"{MARK} done sections={len(ends)} crc32={crc(ends)}", flush=True)


if __name__ == "__main__":
    main()
