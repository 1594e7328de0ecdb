"""win_command, and the programs that it can start."""

from __future__ import annotations

import ntpath
from collections.abc import Callable
from typing import Any

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import Host

# What a program does with its arguments: exit status, stdout, stderr. It raises MissingError where
# it is not on the host, and UnknownError for arguments that are not simulated.
Program = Callable[[Host, list[str]], tuple[int, str, str]]
PROGRAMS: dict[str, Program] = {}


class MissingError(Exception):
    """The program is known, and it is not on this host."""


def program(name: str) -> Callable[[Program], Program]:
    """Register a program by its name without folder and .exe."""

    def register(does: Program) -> Program:
        PROGRAMS[name.lower()] = does
        return does

    return register


@module(
    "ansible.windows.win_command",
    {
        "_raw_params": Option(),
        "cmd": Option(),
        "argv": Option("list", elements="str"),
        "chdir": Option("path", known=False),
        "creates": Option("path"),
        "removes": Option("path"),
        "stdin": Option(known=False),
        "output_encoding_override": Option(known=False),
    },
    check_mode=False,
)
def win_command(call: Call) -> dict[str, Any]:
    """Start a program and wait for it."""
    args, host = call.args, call.host
    ways = [name for name in ("_raw_params", "argv", "cmd") if args[name]]
    if len(ways) != 1:
        what = "mutually exclusive" if ways else "required: one of"
        raise FailError(f"parameters are {what}: _raw_params, argv, cmd")
    argv = args["argv"] or split(args["cmd"] or args["_raw_params"].strip())
    line = joined(argv) if args["argv"] else args["cmd"] or args["_raw_params"].strip()
    for option, wanted in (("creates", True), ("removes", False)):
        path = args[option]
        if path and (host.file(host.expanded(path)) is not None) == wanted:
            state = "exists" if wanted else "does not exist"
            skipped = f"skipped, since {path} {state}"
            return {"changed": False, "cmd": line, "rc": 0, "msg": skipped, "skipped": True}
    name = program_of(argv[0])
    if name not in PROGRAMS:
        raise UnknownError(f"program {argv[0]}")
    try:
        status, stdout, stderr = PROGRAMS[name](host, argv)
    except MissingError:
        raise FailError(
            f"Failed to run: '{line}': Exception calling \"CreateProcess\": "
            "The system cannot find the file specified",
            cmd=line,
            rc=2,
        ) from None
    host.run(line, call.user)
    result = {
        "changed": True,
        "cmd": line,
        "stdout": stdout,
        "stderr": stderr,
        "rc": status,
        "start": "2026-01-01 00:00:00.000000",
        "end": "2026-01-01 00:00:01.000000",
        "delta": "0:00:01.000000",
    }
    if status != 0:
        raise FailError("non-zero return code", **result)
    return result


def program_of(path: str) -> str:
    """A program's name without its folder and .exe."""
    name = ntpath.basename(path.strip('"')).lower()
    return name.removesuffix(".exe")


def split(line: str) -> list[str]:
    """A command line as CommandLineToArgvW splits it, but for backslashes before quotes."""
    words: list[str] = []
    word, quoted, begun = "", False, False
    for sign in line:
        if sign == '"':
            quoted, begun = not quoted, True
        elif sign in " \t" and not quoted:
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word, begun = word + sign, True
    return [*words, word] if begun else words


def joined(argv: list[str]) -> str:
    """The command line of an argv."""
    return " ".join(f'"{word}"' if " " in word or not word else word for word in argv)


@program("nvidia-smi")
def nvidia_smi(host: Host, argv: list[str]) -> tuple[int, str, str]:
    """--query-gpu with --format=csv[,noheader][,nounits], and -q."""
    if not host.gpu_driver:
        raise MissingError
    driven = [gpu for gpu in host.gpus if gpu.error_code == 0]
    if not driven:
        return 6, "No devices were found\n", ""
    options = dict(word.partition("=")[::2] for word in argv[1:])
    if list(options) == ["-q"]:
        return 0, _query(host), ""
    asked, form = options.get("--query-gpu"), options.get("--format", "")
    if asked is None or set(options) != {"--query-gpu", "--format"}:
        raise UnknownError(f"command {joined(argv)}")
    parts = form.split(",")
    if parts[0] != "csv" or set(parts[1:]) - {"noheader", "nounits"}:
        raise UnknownError(f"format {form} of nvidia-smi")
    lines = []
    head: list[str] = []
    for index, gpu in enumerate(host.gpus):
        fields = {
            "index": (str(index), ""),
            "name": (gpu.name, ""),
            "uuid": (gpu.uuid, ""),
            # As _query has it.
            "pci.bus_id": (f"0000000{index}:00:00.0", ""),
            "driver_version": (host.gpu_driver, ""),
            "memory.total": (str(gpu.memory_mib), " MiB"),
            "driver_model.current": (gpu.driver_model, ""),
            "encoder.stats.sessionCount": (str(gpu.encoder_sessions), ""),
            "encoder.stats.averageFps": (str(gpu.encoder_fps), ""),
            "encoder.stats.averageLatency": (str(gpu.encoder_latency_us), ""),
        }
        unknown = [name for name in asked.split(",") if name not in fields]
        if unknown:
            raise UnknownError(f"field {unknown[0]} of nvidia-smi")
        chosen = [fields[name] for name in asked.split(",")]
        if "noheader" not in parts:
            units = [f" [{unit.strip()}]" if unit else "" for _, unit in chosen]
            head = [", ".join(map("".join, zip(asked.split(","), units, strict=True)))]
        lines.append(
            ", ".join(text + ("" if "nounits" in parts else unit) for text, unit in chosen)
        )
    return 0, "\r\n".join([*head, *lines]) + "\r\n", ""


def _query(host: Host) -> str:
    """The blocks of ``nvidia-smi -q`` that trueup reads, in its layout."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"Driver Version                            : {host.gpu_driver}",
        f"Attached GPUs                             : {len(host.gpus)}",
    ]
    for index, gpu in enumerate(host.gpus):
        lines += [
            f"GPU 0000000{index}:00:00.0",
            f"    Product Name                          : {gpu.name}",
            "    Driver Model",
            f"        Current                           : {gpu.driver_model}",
            f"        Pending                           : {gpu.driver_model}",
            f"    GPU UUID                              : {gpu.uuid}",
            "    GPU Virtualization Mode",
            "        Virtualization Mode               : VGPU",
            "    vGPU Software Licensed Product",
            f"        Product Name                      : {gpu.product}",
            f"        License Status                    : {gpu.licence}",
            "    FB Memory Usage",
            f"        Total                             : {gpu.memory_mib} MiB",
        ]
    return "\r\n".join(lines) + "\r\n"
