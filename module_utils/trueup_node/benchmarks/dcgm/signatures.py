"""What the outputs of dcgmi diag and dcgmproftester are told by."""

from __future__ import annotations

import re

LOAD = "TensorEngineActive"
# A rate of dcgmproftester: the GPU's number, the slice's, and gflops.
LOAD_RATE = (
    r"Worker ([0-9]{1,4}):([0-9]{1,4}) ?\[1004\]: TensorEngineActive: {1,2}generated \?\?\?,"
    r" dcgm [^()\n]{1,200} \(([0-9]{1,12}\.?[0-9]{0,9}(?:e[+-]?[0-9]{1,2})?) gflops\)\.?"
)
MARKS = ("DCGM GPU Diagnostic", "DCGM Diagnostic", "| Diagnostic ", LOAD)
RUN = (r"\s*Successfully ran diagnostic", r"$^")
_OUTPUT = re.compile(
    r'"DCGM (?:GPU )?Diagnostic"\s{0,9}:|^\s{0,9}\| Diagnostic {1,40}\| Result {1,60}\|'
    rf"|^\s{{0,9}}{LOAD_RATE}",
    re.MULTILINE,
)


def recognises(text: str) -> bool:
    """Whether dcgmi diag printed it, as JSON or as a table, or dcgmproftester."""
    return _OUTPUT.search(text) is not None
