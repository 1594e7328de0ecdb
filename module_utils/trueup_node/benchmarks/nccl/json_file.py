"""The JSON file of nccl-tests' option -J, as a module asks for it.

Format: NVIDIA/nccl-tests@a0b82b2 src/util.cu and common.cu. Rank 0 writes one line into a new file:
the figures with six decimals, and the whole environment of the process, credentials included. The
table is printed as well.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, Callable, Optional

from ...reading import MOST_BYTES
from ...run.process import Completed
from .report import FILE_MARK

_ENVIRONMENT = '"env":'


def is_supported(usage: str) -> bool:
    """Whether the build has the option, by the text of its -h."""
    return "[-J,--output_file " in usage


def attaching(
    start: Callable[..., Completed], path: str, warn: Callable[[str], None]
) -> Callable[..., Completed]:
    """``start``, and the file of the run below its standard output.

    Args:
        start: runs the command.
        path: the file that the command names.
        warn: takes a sentence where the file of a finished run cannot be used.
    """

    def run(*argv: Any, **how: Any) -> Completed:
        done = start(*argv, **how)
        text = _without_environment(_content(path))
        if text:
            return replace(done, stdout=f"{done.stdout}\n{FILE_MARK}\n{text}\n")
        if done.returncode == 0 and not done.reason:
            warn(
                f"nccl-tests left no JSON file that can be read at {path} on this node: the"
                " figures are those of its table, with fewer digits"
            )
        return done

    return run


def _content(path: str) -> str:
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return ""
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _without_environment(text: str) -> Optional[str]:
    """The JSON without the variables of the process; None where it is damaged. The digits of all
    figures stay."""
    try:
        json.loads(text)
        # In a string the quotation mark has a backslash before it.
        begin = text.index(_ENVIRONMENT) + len(_ENVIRONMENT)
        _, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return None if "\n" in text else f"{text[:begin]}[]{text[end:]}"
