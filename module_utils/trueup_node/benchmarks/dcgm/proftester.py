"""Output of NVIDIA's dcgmproftester with the load of field 1004, products of fp16 matrices on the
tensor cores: a rate of each GPU and second, and at the end whether each GPU passed.

Sources: dcgmproftester/PhysicalGpu.cpp and DcgmProfTester.cpp of DCGM 3.3.9, 4.2.3 and 4.6.0. Its
gflops are 10^9 operations a second, printed with 3 digits.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line
from ...record import Metric, summarise
from .signatures import LOAD, LOAD_RATE

PROGRAM = "dcgmproftester"
FIELD = 1004
FIELD_NAME = f"TestField {FIELD}"
RATE = "dcgm_stress_rate"
_RATE = re.compile(LOAD_RATE)
_VERDICT = re.compile(rf"GPU ([0-9]{{1,4}}), {FIELD_NAME} test(?:ing)? (PASSED|FAILED)\.")
_ALL_PASSED = "All Tests Passed."
_GIGA = 1e9
# Parts of the time that are compared: the first and the last tenth.
_PARTS = 10


class Load(NamedTuple):
    """The load of one GPU.

    Attributes:
        gpu: the GPU's number.
        passed: the verdict of dcgmproftester.
        rates: flop/s of each second but the first, which contains the start.
    """

    gpu: int
    passed: bool
    rates: Tuple[float, ...]

    def metrics(self) -> List[Metric]:
        """``dcgm_stress_rate``, and ``dcgm_stress_retained``: the rate of the last tenth of the
        time as a share of the first tenth's. It falls where heat or power slows the GPU."""
        device = f"gpu{self.gpu}"
        if not self.rates:
            return []
        rows = summarise(RATE, self.rates, "flop/s", "higher", device=device)
        part = len(self.rates) // _PARTS
        begin = sum(self.rates[:part])
        if begin:
            share = sum(self.rates[-part:]) / begin
            rows.append(Metric("dcgm_stress_retained", share, "1", "higher", device=device))
        return rows


def loads_in(lines: Sequence[Line]) -> List[Load]:
    """The load of each GPU by its number.

    Raises:
        ParseError: a rate is not understood or of a slice of a GPU, a GPU has rates and no verdict,
            the last line contradicts the verdicts or is missing, or a second run follows.
    """
    rates: Dict[int, List[float]] = {}
    verdicts: Dict[int, bool] = {}
    for line in lines:
        rate, verdict = _RATE.fullmatch(line.strip()), _VERDICT.fullmatch(line.strip())
        if rate:
            if verdicts:
                raise line.error("a second run follows: read each by itself")
            if int(rate[2]):
                raise line.error("the rate of a slice of a GPU (MIG), which is not read")
            rates.setdefault(int(rate[1]), []).append(float(rate[3]) * _GIGA)
        elif verdict:
            gpu = int(verdict[1])
            verdicts[gpu] = verdicts.get(gpu, True) and verdict[2] == "PASSED"
        elif LOAD in line:
            raise line.error("dcgmproftester: a rate that is not understood")
    lacking = sorted(rates.keys() - verdicts.keys())
    if lacking or not verdicts:
        gpus = ", ".join(f"GPU {gpu}" for gpu in lacking) or "any GPU"
        raise ParseError(f"dcgmproftester: no verdict on {gpus}: the output is cut off")
    if all(verdicts.values()) != any(line.strip() == _ALL_PASSED for line in lines):
        raise ParseError(
            f"dcgmproftester: the line {_ALL_PASSED!r} and the verdicts on the GPUs disagree, or"
            " the output is cut off"
        )
    return [
        Load(gpu, passed, tuple(rates.get(gpu, ())[1:])) for gpu, passed in sorted(verdicts.items())
    ]
