"""What the outputs of dcgmi diag and dcgmproftester are told by."""

from __future__ import annotations

import re

from ...reading import Signature

LOAD = "TensorEngineActive"
# A rate of dcgmproftester: the GPU's number, the slice's, and gflops.
LOAD_RATE = (
    r"Worker ([0-9]{1,4}):([0-9]{1,4}) ?\[1004\]: TensorEngineActive: {1,2}generated \?\?\?,"
    r" dcgm [^()\n]{1,200} \(([0-9]{1,12}\.?[0-9]{0,9}(?:e[+-]?[0-9]{1,2})?) gflops\)\.?"
)
_OUTPUT = re.compile(
    r'"DCGM (?:GPU )?Diagnostic"\s{0,9}:|^\s{0,9}\| Diagnostic {1,40}\| Result {1,60}\|'
    rf"|^\s{{0,9}}{LOAD_RATE}",
    re.MULTILINE,
)
SIGNATURE = Signature(
    marks=("DCGM GPU Diagnostic", "DCGM Diagnostic", "| Diagnostic ", LOAD),
    forms=((_OUTPUT,),),
    run=(r"\s*Successfully ran diagnostic", r"$^"),
)
