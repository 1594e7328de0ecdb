"""Parser of AzNHC's health.log (Azure/azurehpc-health-checks 0.4).

``Running health checks for Standard_nd96isr_h100_v5 SKU...``, then a line a verdict::

    SUCCESS:  nhc:  Health check passed:  check_gpu_count: Expected 8 and found 8
    WARNING:  nhc:  Nearing a failure threshold:  check_gpu_bw: ...
    ERROR:  nhc:  Health check failed:  check_gpu_count: ... found 7. FaultCode: NHC2009

and ``Health checks completed with exit code: 0.``. By default nhc ends at the first failure. A
failed check names its fault code. Bandwidths in the messages are figures: of NCCL in GB/s, of an
InfiniBand device in Gbps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trueup_node.errors import ParseError
from trueup_node.reading import Line, lines_of
from trueup_node.record import Metric

from .signatures import END, LINE, START

TOOL = "aznhc"
_PASSED, _NEAR = "Health check passed", "Nearing a failure threshold"
_NAME = re.compile(r"((?:check|collect)_\w{1,64}): *(.*)")
_FAULT = re.compile(r"[Ff]ault[Cc]ode: (NHC(?:\d{4}|NA))")
_NCCL = re.compile(r"(?:test passed, |but measured )([\d.]{1,20}) GB/s")
_INFINIBAND = re.compile(r"\bIB=(\w{1,32}),.{0,80}?(?:IB BW=|but measured )([\d.]{1,20}) Gbps")
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,9})?")


@dataclass(frozen=True)
class Check:
    """One verdict.

    Attributes:
        name: of the check, with the InfiniBand device where it names one.
        message: the rest of the line without the fault code.
        fault: Azure's fault code of a failure, None where the line has none.
    """

    name: str
    passed: bool
    message: str
    fault: str | None = None

    @property
    def reason(self) -> str:
        """The sentence for a failure, with its fault code."""
        return f"{self.name}: {self.message}" + (f" ({self.fault})" if self.fault else "")


@dataclass(frozen=True)
class AznhcOutput:
    """One run of the checks.

    Attributes:
        verdicts: in the order of the log, each line once.
        near: warnings of figures near their limit.
        vm_size: the size that it ran for, as printed.
        status: its exit status; None where the log ends before it.
        unknown_lines: lines of nhc that are no verdict.
        figures: NCCL's bus bandwidth (device None) in byte/s and write bandwidths in bit/s.
    """

    verdicts: tuple[Check, ...]
    near: tuple[str, ...]
    vm_size: str | None
    status: int | None
    figures: tuple[Metric, ...]
    unknown_lines: int = 0
    tool_version: str | None = None
    node_count: int = 1
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        """The size that the checks were chosen for."""
        return {} if self.vm_size is None else {"checked_size": self.vm_size}

    @property
    def checks(self) -> dict[str, bool]:
        """By name; a check with several lines passed where all did."""
        passed: dict[str, bool] = {}
        for verdict in self.verdicts:
            passed[verdict.name] = passed.get(verdict.name, True) and verdict.passed
        return passed

    @property
    def unverified(self) -> list[str]:
        """A missing end, and lines of nhc that are not known: one may be a failure."""
        end = "no line 'Health checks completed with exit code': checks may be missing"
        unknown = f"{self.unknown_lines} lines of nhc have no form that is known"
        return [
            *([end] if self.status is None else []),
            *([unknown] if self.unknown_lines else []),
        ]

    @property
    def warnings(self) -> list[str]:
        """Figures near their limit; and that checks after a failure did not run."""
        faults = [verdict for verdict in self.verdicts if not verdict.passed]
        stopped = ["nhc ends at a failed check: the checks after it did not run"] if faults else []
        return [*(f"near its limit: {text}" for text in self.near), *stopped]

    def metrics(self) -> list[Metric]:
        """nhc_failed [1], nhc_nccl_busbw [byte/s], nhc_ib_write_bandwidth [bit/s]."""
        failed = sum(not passed for passed in self.checks.values())
        return [Metric("nhc_failed", float(failed), "1", "lower"), *self.figures]


def parse_aznhc(text: str) -> AznhcOutput:
    """Read the log of one run.

    Raises:
        ParseError: it holds no verdict or a second run, or the exit code contradicts them.
    """
    lines = lines_of(text)
    ends = [line for line in lines if END.search(line)]
    if len(ends) > 1:
        raise ends[1].error("a second run: read one at a time")
    found = [(line, match) for line in lines if (match := LINE.search(line))]
    near = [(match["message"] or "").strip() for _, match in found if match["verdict"] == _NEAR]
    verdicts = {_verdict(line, match): line for line, match in found if match["verdict"] != _NEAR}
    if not verdicts:
        raise ParseError("no line 'Health check passed' or 'Health check failed'")
    start = START.search(text)
    return AznhcOutput(
        verdicts=tuple(verdicts),
        near=tuple(dict.fromkeys(near)),
        vm_size=start["size"] if start else None,
        status=_status(ends[0], verdicts) if ends else None,
        figures=_figures(verdicts),
        unknown_lines=sum("nhc:" in line or "check_" in line for line in lines) - len(found),
        reasons={verdict.name: verdict.reason for verdict in verdicts if not verdict.passed},
    )


def _status(end: Line, verdicts: Iterable[Check]) -> int:
    """The exit code, which is 0 where no check failed."""
    match = END.search(end)
    status = int(match["status"]) if match else 0
    failed = sum(not verdict.passed for verdict in verdicts)
    if (status == 0) == bool(failed):
        raise end.error(f"{failed} checks failed, and the exit code is {status}")
    return status


def _verdict(line: Line, printed: re.Match[str]) -> Check:
    # nhc itself names no check that passed.
    message, passed = printed["message"] or "", printed["verdict"] == _PASSED
    if passed != (printed["level"] == "SUCCESS"):
        raise line.error(f"{printed['level']} does not go with '{printed['verdict']}'")
    fault = _FAULT.search(message)
    plain = _FAULT.sub("", message).strip().rstrip(".")
    match = _NAME.match(plain)
    name, rest = (match[1], match[2]) if match else ("unnamed", plain)
    device = _INFINIBAND.search(rest)
    return Check(f"{name} {device[1]}" if device else name, passed, rest, fault and fault[1])


def _figures(verdicts: Mapping[Check, Line]) -> tuple[Metric, ...]:
    """The bandwidths that messages name; of the same one twice the last."""
    figures: dict[tuple[str, str | None], Metric] = {}
    for verdict, line in verdicts.items():
        if metric := _figure(line, verdict):
            figures[metric.name, metric.device] = metric
    return tuple(figures.values())


def _figure(line: Line, verdict: Check) -> Metric | None:
    if infiniband := _INFINIBAND.search(verdict.message):
        rate = _number(line, infiniband[2]) * 1e9
        return Metric("nhc_ib_write_bandwidth", rate, "bit/s", "higher", device=infiniband[1])
    if verdict.name.startswith("check_nccl_allreduce") and (nccl := _NCCL.search(verdict.message)):
        loopback = "_loopback" if verdict.name.endswith("loopback") else ""
        rate = _number(line, nccl[1]) * 1e9
        return Metric(f"nhc_nccl{loopback}_busbw", rate, "byte/s", "higher")
    return None


def _number(line: Line, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise line.error(f"{text!r} is not a bandwidth")
    return float(text)
