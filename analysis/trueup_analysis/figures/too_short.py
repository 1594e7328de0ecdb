"""Cases that ended too early for their figures to stand for the machine.

The share of the peak is asked of benchmarks with ``timed`` alone, whose work has the size that the
user chose, and whose peak is of the whole machine that they fill: HPL and training. STREAM,
gpu_copy and ib measure bandwidth and gemm repeats its products for a fifth of a second, so that a
low rate is a fault, which health must judge. Devito measures parts of a node too, and no size
states a peak for GROMACS, NCCL, fio or vLLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trueup_node.cases import of_record
from trueup_node.record import TOO_SHORT

from ..rooms import view_of
from .sizes import read_sizes

if TYPE_CHECKING:
    from pathlib import Path

    from trueup_node.cases import Case
    from trueup_node.record import Record
    from trueup_node.view import Timed, View

# In less, the start, a step of the clock or another process is a visible share.
LEAST_SECONDS: Final = 1.0
LEAST_SHARE_OF_PEAK: Final = 0.01


def marked(record: Record, catalog: Path) -> Record:
    """A record with outcome too_short and the reason, where its case ran well, and its timed span
    is shorter than a second or its rate is under 1 % of the peak of its size. Any other record is
    returned unchanged.

    Args:
        catalog: the folder with vm_sizes.csv.

    Raises:
        BadInput: the catalog cannot be read.
    """
    view = view_of(record["benchmark"])
    if record["outcome"] != "ok" or view is None or view.timed is None:
        return record
    case = of_record(record)
    reason = _too_brief(case, view.timed) or _too_idle(case, view, catalog)
    if reason is None:
        return record
    return {**record, "outcome": TOO_SHORT, "reason": f"too short to judge: {reason}"}


def _too_brief(case: Case, timed: Timed) -> str | None:
    value = case.plain(timed.metric)
    divisor = case.plain(timed.divided_by) if timed.divided_by else 1.0
    if value is None or not divisor:
        return None
    count = (case.repeats(timed.metric) or 1) if timed.summed else 1
    span = value * count / divisor
    if span >= LEAST_SECONDS:
        return None
    return f"{span:.3g} s were timed, and a figure needs at least {LEAST_SECONDS:g} s"


def _too_idle(case: Case, view: View, catalog: Path) -> str | None:
    measures = [measure for measure in (*view.headlines, *view.figures) if measure.peak is not None]
    sizes = read_sizes(catalog) if measures else None
    for measure in measures:
        value = case.plain(measure.metric)
        peak = sizes.peak(case, measure.peak) if sizes else None
        if value is not None and peak and value / peak < LEAST_SHARE_OF_PEAK:
            return (
                f"the {measure.label} is {value / peak:.2%} of the peak of {case.vm_size}, less"
                f" than {LEAST_SHARE_OF_PEAK:.0%}: take a larger problem; if the share stays so"
                " low, the machine is at fault"
            )
    return None
