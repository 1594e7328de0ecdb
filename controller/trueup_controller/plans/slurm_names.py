"""Names as Slurm writes them: lists of hosts, models of GPUs and CPUs."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def hostlist(names: Iterable[str]) -> str:
    """Names as Slurm folds them: ``hb-[1-3,7]``. Leading zeros stay: ``n[08-10]``."""
    folded = []
    split = {_parts(name) for name in names}
    # 10 is a number of two digits beside 09.
    widths = {fields[:2] for fields in split if fields[1] > 0}
    parts = sorted(
        (prefix, len(digits) if (prefix, len(digits)) in widths else width, number, digits)
        for prefix, width, number, digits in split
    )
    for (prefix, width), group in groupby(parts, key=lambda fields: fields[:2]):
        same = list(group)
        numbers = [number for _, _, number, _ in same]
        several = len(same) > 1
        folded.append(prefix + (f"[{_ranges(numbers, width)}]" if several else same[0][3]))
    return ",".join(folded)


def _parts(name: str) -> tuple[str, int, int, str]:
    """The text before the number that a name ends in; the number's width, 0 for any, so that 9 and
    10 stand in one range, and -1 for no number; the number, and its digits."""
    prefix = name.rstrip("0123456789")
    digits = name[len(prefix) :]
    padded = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
    return prefix, padded if digits else -1, int(digits or 0), digits


def _ranges(numbers: Sequence[int], width: int) -> str:
    # Consecutive numbers have the same difference from their indexes.
    grouped = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in run] for _, run in grouped]
    return ",".join(
        f"{run[0]:0{width}d}" + (f"-{run[-1]:0{width}d}" if len(run) > 1 else "") for run in runs
    )


def gpu_type(name: str | None) -> str:
    """Slurm's word for a GPU model: ``a100`` of ``NVIDIA A100-SXM4-40GB``; empty where unknown."""
    for token in re.split(r"[\s_-]+", (name or "").lower()):
        if re.fullmatch(r"[a-z]{1,3}[0-9]{1,4}[a-z]{0,2}", token) and not token.startswith("hbm"):
            return token
    return ""


def cpu_word(model: str | None) -> str:
    """The model number of a CPU: ``7v73x`` of ``AMD EPYC 7V73X 64-Core Processor``."""
    for token in (model or "").lower().split():
        if re.fullmatch(r"(?=.*[0-9])[a-z]{0,2}[0-9][0-9a-z]{3,}[+]?", token):
            return token.rstrip("+")
    return ""
