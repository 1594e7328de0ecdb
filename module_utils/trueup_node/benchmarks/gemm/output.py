"""The JSON line of trueup's matrix-product program (roles/gemm/files/gemm.py).

For each GPU and precision it holds the size n, the products of a repeat, the seconds of each
repeat, and the largest error of a sampled block. A product of n x n matrices counts 2 n^3
operations. A checksum over the line's content shows any damage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line, decoded, digest, lines_of
from ...record import Metric, summarise
from .signatures import OUR_TOOL

TOOL = "gemm"
# By whom the products are computed: figures of other programs are other figures.
PROGRAM = "pytorch"
# The largest error of 4096 sampled elements, in units of their root mean square, for factors of
# normally distributed numbers. An H100 and an H200 gave the same for n 1024 to 32768 (2026-11-27,
# PyTorch 2.11): fp64 7e-15 to 3.4e-14, tf32 1.2e-3, bf16 1.1e-2 (its result is rounded to bf16).
# Three times that is allowed, for fp64 the error of another order of summing. The sums of fp8 have
# fewer bits, and its error grows with n: 1.0e-2 at 1024, 2.5e-2 at 16384, 3.8e-2 at 32768, 6.1e-2
# at 65536.
LARGEST_ERROR = {"fp64": 1e-12, "tf32": 4e-3, "bf16": 4e-2, "fp8": 7e-2}
_FP8_GROWS_FROM = 16384

_FORMAT = 1
# 100 Pflop/s: no GPU does a tenth of it at these precisions.
_MOST = 1e17
_MOST_N = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One GPU's figures.

    Attributes:
        number: in PCI order.
        rates: precision to its rate in flop/s, one a repeat.
        errors: precision to the largest error, see LARGEST_ERROR.
        sizes: precision to n.
        cpus: the CPUs that its process ran on.
        skipped: precision to why this GPU has none.
    """

    number: int
    name: str
    rates: Mapping[str, Tuple[float, ...]]
    errors: Mapping[str, float]
    sizes: Mapping[str, int]
    cpus: Tuple[int, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GemmOutput:
    """Every GPU's figures, and whether they were measured at the same time."""

    gpus: Tuple[Gpu, ...]
    together: bool
    software: Mapping[str, str]
    tool_version: Optional[str] = None
    # The program is one process.
    node_count: ClassVar[int] = 1

    @property
    def gpu_count(self) -> int:
        """GPUs that were measured."""
        return len(self.gpus)

    @property
    def parameters(self) -> Dict[str, str]:
        """The program, the GPU's name, the sizes, and whether all GPUs ran at once."""
        parameters = {
            "program": PROGRAM,
            "gpus_at_once": "all" if self.together else "one",
            "gpu_name": self.gpus[0].name,
        }
        parameters.update((f"n_{name}", str(n)) for name, n in self.gpus[0].sizes.items())
        return parameters

    @property
    def checks(self) -> Dict[str, bool]:
        """For each precision, whether every GPU's sampled block is within its bound."""
        return {
            f"{name}_correct": all(
                gpu.errors[name] <= largest_error(name, gpu.sizes[name]) for gpu in self.gpus
            )
            for name in self.gpus[0].rates
        }

    @property
    def warnings(self) -> List[str]:
        """Precisions that were not measured, and why; each reason once."""
        warnings = [
            f"{name} is skipped: {reason}"
            for gpu in self.gpus
            for name, reason in gpu.skipped.items()
        ]
        return list(dict.fromkeys(warnings))

    def metrics(self) -> List[Metric]:
        """For each precision: median, min and max of each GPU, and the slowest GPU's median."""
        rows: List[Metric] = []
        for name in self.gpus[0].rates:
            medians = []
            for gpu in self.gpus:
                gpu_metrics = summarise(
                    f"gemm_{name}", gpu.rates[name], "flop/s", "higher", device=f"gpu{gpu.number}"
                )
                medians.append(gpu_metrics[0].value)
                rows += gpu_metrics
            least = min(medians)
            rows.append(
                Metric(f"gemm_{name}", least, "flop/s", "higher", statistic="min", n=len(medians))
            )
        return rows


def largest_error(precision: str, n: int) -> float:
    """The bound of a right product of n x n matrices."""
    grown = math.sqrt(max(1.0, n / _FP8_GROWS_FROM)) if precision == "fp8" else 1.0
    return LARGEST_ERROR[precision] * grown


def parse_gemm(text: str) -> GemmOutput:
    """Read the output of one run.

    Raises:
        ParseError: no line of the program or several, a wrong checksum, or a figure that is
            missing, stands twice or cannot be.
    """
    begin = f'{{"tool": "{OUR_TOOL}"'
    result_lines = [line for line in lines_of(text) if line.startswith(begin)]
    if not result_lines:
        raise ParseError(f"no line {begin} ...}}")
    if len(result_lines) > 1:
        raise result_lines[1].error(f"several lines {begin} ...}}")
    line = result_lines[0]
    data = decoded(line, "", "the line", version=_FORMAT, role="gemm")
    if data.pop("sha256", None) != digest(data)[:16]:
        raise line.error("the checksum is not that of the line's content: it is damaged")
    try:
        gpus = tuple(_gpu(gpu, line) for gpu in data["gpus"])
        _check_alike(gpus, line)
        software = {name: str(data["gpus"][0][name]) for name in ("torch", "cuda")}
        return GemmOutput(
            gpus=gpus,
            together=data["together"] is True,
            software=software,
            tool_version=f"{OUR_TOOL} {_FORMAT} (torch {software['torch']})",
        )
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise line.error(f"the line lacks or spoils {error}") from None


def _check_alike(gpus: Sequence[Gpu], line: Line) -> None:
    if not gpus or len({gpu.number for gpu in gpus}) != len(gpus):
        raise line.error("no GPU, or one that stands twice")
    if len({(tuple(gpu.rates), tuple(gpu.sizes.values())) for gpu in gpus}) != 1:
        raise line.error("the GPUs were not measured alike")
    if not gpus[0].rates:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in gpus[0].skipped.items())
        raise line.error("no precision was measured" + (f": {reasons}" if reasons else ""))


def _gpu(data: Mapping[str, Any], line: Line) -> Gpu:
    rates: Dict[str, Tuple[float, ...]] = {}
    errors: Dict[str, float] = {}
    sizes: Dict[str, int] = {}
    for row in data["precisions"]:
        name = str(row["precision"])
        if name not in LARGEST_ERROR or name in rates:
            raise line.error(f"precision {name} is not known, or stands twice")
        rates[name], errors[name], sizes[name] = (
            _rates(name, row, line),
            float(row["error"]),
            row["n"],
        )
        if not (math.isfinite(errors[name]) and errors[name] >= 0):
            raise line.error(f"{name}: error {row['error']!r} is not one")
    return Gpu(
        number=int(data["gpu"]),
        name=str(data["name"]),
        rates=rates,
        errors=errors,
        sizes=sizes,
        cpus=tuple(int(cpu) for cpu in data["cpus"]),
        skipped={str(row["precision"]): str(row["why"]) for row in data["skipped"]},
    )


def _rates(name: str, row: Mapping[str, Any], line: Line) -> Tuple[float, ...]:
    n, calls = row["n"], row["calls"]
    if not (type(n) is int and 0 < n < _MOST_N and type(calls) is int and calls > 0):
        raise line.error(f"{name}: n {n!r} or calls {calls!r} cannot be")
    seconds = [float(value) for value in row["seconds"]]
    if len(seconds) < 3 or not all(math.isfinite(value) and value > 0 for value in seconds):
        raise line.error(f"{name}: fewer than 3 repeats, or a time that is not positive")
    rates = tuple(2.0 * n**3 * calls / value for value in seconds)
    if max(rates) > _MOST:
        raise line.error(f"{name}: {max(rates):.3g} flop/s cannot be")
    return rates
