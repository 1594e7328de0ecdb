#!/usr/bin/env python3
"""How many floating-point operations per second each GPU does in a matrix product, by PyTorch.

    gemm.py --precisions fp64,tf32,bf16,fp8 --n 16384 --n-fp64 8192 --repeats N --together
            --gpu 0:24-47 --gpu 1:24-47 ...

GPU numbers are those of the PCI order. Each GPU is measured by a process of its own that sees that
GPU alone and runs on the given CPUs; with --together all at once, which is how they share power and
cooling in a job, else one after the other. Prints one JSON line: seconds of each repeat by CUDA
events, and the largest error of a sampled block against a product in fp64 made by the CPU, in units
of that block's root mean square. It judges nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
from typing import Any, Callable

PRECISIONS = ("fp64", "tf32", "bf16", "fp8")
# Rows and columns of the sampled block.
SAMPLE = 64
# A repeat takes about so long, so that the clock's resolution and the first launch do not count.
REPEAT_SECONDS = 0.2
MOST_CALLS = 1000


def stop(message: str) -> None:
    sys.stderr.write(f"gemm: {message}\n")
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


def size(text: str) -> int:
    # fp8 wants extents that are multiples of 16.
    if not text.isdigit() or int(text) < SAMPLE or int(text) % 16:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of 16 and at least {SAMPLE}")
    return int(text)


def precisions(text: str) -> list[str]:
    names = text.split(",")
    if set(names) - set(PRECISIONS) or len(set(names)) != len(names):
        raise argparse.ArgumentTypeError(f"{text} is not some of {','.join(PRECISIONS)}")
    return names


def repeats(text: str) -> int:
    if not text.isdigit() or int(text) < 3:
        raise argparse.ArgumentTypeError(f"{text} is below 3: no median and spread without")
    return int(text)


# --- one GPU --------------------------------------------------------------------------------------


def measure(arguments: argparse.Namespace) -> None:
    try:
        import torch
    except ImportError as error:
        stop(f"{sys.executable} has no PyTorch ({error})")
    if not torch.cuda.is_available():
        stop(f"PyTorch {torch.__version__} finds no CUDA device")
    major, minor = torch.cuda.get_device_capability(0)
    results, skipped = [], []
    for precision in arguments.precisions:
        if precision == "fp8" and ((major, minor) < (8, 9) or not hasattr(torch, "float8_e4m3fn")):
            reason = (
                f"compute capability {major}.{minor} and PyTorch {torch.__version__} have no fp8"
            )
            skipped.append({"precision": precision, "why": reason})
            continue
        n = arguments.n_fp64 if precision == "fp64" else arguments.n
        results.append(one_precision(torch, precision, n, arguments.repeats))
        torch.cuda.empty_cache()
    line = {
        "name": torch.cuda.get_device_name(0),
        "capability": f"{major}.{minor}",
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "cpus": sorted(os.sched_getaffinity(0)),
        "precisions": results,
        "skipped": skipped,
    }
    print(json.dumps(line), flush=True)


def one_precision(torch: Any, precision: str, n: int, repeats_wanted: int) -> dict[str, object]:
    """Random matrices, which cost a GPU more power than zeros or ones; their seed is fixed."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    generator = torch.Generator(device="cuda").manual_seed(20261121)
    stored = {"fp64": torch.float64, "tf32": torch.float32}.get(precision, torch.bfloat16)
    a = torch.randn(n, n, device="cuda", dtype=stored, generator=generator)
    b = torch.randn(n, n, device="cuda", dtype=stored, generator=generator)
    if precision == "fp8":
        unit_scale = torch.ones((), device="cuda", dtype=torch.float32)
        # The second factor is wanted by columns.
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()

        def product() -> Any:
            output = torch._scaled_mm(
                a,
                b,
                scale_a=unit_scale,
                scale_b=unit_scale,
                out_dtype=torch.bfloat16,
                use_fast_accum=True,
            )
            # PyTorch before 2.5 returns a pair.
            return output[0] if isinstance(output, tuple) else output
    else:
        out = torch.empty(n, n, device="cuda", dtype=stored)

        def product() -> Any:
            return torch.matmul(a, b, out=out)

    for _ in range(3):
        product()
    calls = min(MOST_CALLS, max(1, round(REPEAT_SECONDS / timed(torch, product, 1))))
    seconds = [timed(torch, product, calls) for _ in range(repeats_wanted)]
    error = largest_error(torch, a, b, product(), n)
    return {"precision": precision, "n": n, "calls": calls, "seconds": seconds, "error": error}


def timed(torch: Any, product: Callable[[], Any], calls: int) -> float:
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        product()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def largest_error(torch: Any, a: Any, b: Any, product: Any, n: int) -> float:
    """Of SAMPLE rows and columns over the whole product, which the CPU makes again in fp64."""
    step = n // SAMPLE
    places = torch.arange(SAMPLE, device="cuda") * step + (
        torch.arange(SAMPLE, device="cuda") % step
    )
    # fp8 has no arithmetic of its own, and its transpose no gather: by way of float32.
    rows = a.float()[places] if a.dtype != torch.float64 else a[places]
    columns = b.float()[:, places] if b.dtype != torch.float64 else b[:, places]
    expected = rows.double().cpu() @ columns.double().cpu()
    block = product[places][:, places].double().cpu()
    error = (block - expected).abs().max() / expected.pow(2).mean().sqrt()
    value = float(error)
    # JSON has neither infinity nor NaN.
    return value if math.isfinite(value) else 1e300


# --- all GPUs -------------------------------------------------------------------------------------


def start(number: int, cpus: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    cpu_set = expanded(cpus)

    def bind_cpus() -> None:
        os.sched_setaffinity(0, cpu_set)
        # A control group may take CPUs away without a word.
        if os.sched_getaffinity(0) != cpu_set:
            raise OSError(f"only CPUs {sorted(os.sched_getaffinity(0))} may be used")

    argv = [
        *(
            sys.executable,
            os.path.abspath(__file__),
            "--measure",
            "--repeats",
            str(arguments.repeats),
        ),
        *("--precisions", ",".join(arguments.precisions), "--n", str(arguments.n)),
        *("--n-fp64", str(arguments.n_fp64)),
    ]
    environment = dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(number))
    try:
        return subprocess.Popen(  # noqa: S603 WHY: this very program
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
            preexec_fn=bind_cpus,  # noqa: PLW1509 WHY: one thread, and two system calls
        )
    except (OSError, subprocess.SubprocessError) as error:
        stop(f"GPU {number} cannot be measured on CPUs {cpus}: {error}")
        raise


def result_of(number: int, child: subprocess.Popen[bytes]) -> dict[str, object]:
    text = child.communicate()[0].decode("utf-8", "replace")
    if child.returncode:
        stop(f"the measurement of GPU {number} ended with status {child.returncode}")
    try:
        return {"gpu": number, **json.loads(text.strip().split("\n")[-1])}
    except ValueError as error:
        stop(f"the measurement of GPU {number} printed no result: {error}")
        raise


def main() -> None:
    parser = argparse.ArgumentParser(prog="gemm.py")
    parser.add_argument("--precisions", type=precisions, default=list(PRECISIONS))
    parser.add_argument("--n", type=size, default=16384)
    parser.add_argument("--n-fp64", type=size, default=8192)
    parser.add_argument("--repeats", type=repeats, default=5)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--gpu", type=gpu_cpus, action="append", default=[], metavar="N:CPUS")
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments)
        return
    numbers = [number for number, _ in arguments.gpu]
    if not numbers or len(set(numbers)) != len(numbers):
        parser.error("--gpu is needed, each GPU once")
    gpus = []
    if arguments.together:
        children = [(number, start(number, cpus, arguments)) for number, cpus in arguments.gpu]
        gpus = [result_of(number, child) for number, child in children]
    else:
        gpus = [result_of(number, start(number, cpus, arguments)) for number, cpus in arguments.gpu]
    line = {"tool": "trueup-gemm", "format": 1, "together": arguments.together, "gpus": gpus}
    text = json.dumps(line, sort_keys=True, separators=(",", ":"))
    line["sha256"] = hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
