"""win_command, and the programs that it can start."""

from __future__ import annotations

import ntpath
from collections.abc import Callable
from typing import Any

from ..arguments import Call, Option, module, once
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
        once(PROGRAMS, name.lower())
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
    status, stdout, stderr = _started(call, argv, line)
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


def _started(call: Call, argv: list[str], line: str) -> tuple[int, str, str]:
    """What a program gives, or an installer that was downloaded."""
    name, file = program_of(argv[0]), call.host.file(argv[0])
    if name not in PROGRAMS and file is not None and file.digest("sha256") in call.host.installers:
        from .packages import run_installer  # noqa: PLC0415 (it builds on this)

        return *run_installer(call.host, file, argv[0], argv[1:], line, call.user), ""
    if name not in PROGRAMS:
        raise UnknownError(f"program {argv[0]}")
    try:
        ended = PROGRAMS[name](call.host, argv)
    except MissingError:
        raise FailError(
            f"Failed to run: '{line}': Exception calling \"CreateProcess\": "
            "The system cannot find the file specified",
            cmd=line,
            rc=2,
        ) from None
    call.host.run(line, call.user)
    return ended


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
