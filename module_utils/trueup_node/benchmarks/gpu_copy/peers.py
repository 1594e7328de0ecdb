"""Reader of p2pBandwidthLatencyTest of the CUDA samples: matrices of bandwidth from GPU to GPU.

``P2P Connectivity Matrix`` says which GPUs reach each other. Of the matrices below it, with a row
of column numbers and a row a GPU, those with peer access in one direction are read. In the samples
since CUDA 10.1 they say ``(P2P Writes)``, where the GPU of the row writes to that of the column, or
``(P2P Reads)``; before, the GPU of the row reads from that of the column. GB/s are of 1e9 byte/s.

On the diagonal stands a copy within a GPU's memory, of which bytes read and written both count in
the samples that name the direction; older ones count them once or twice. Pairs that do not reach
each other copy through the host, and have no figure here.

Source: p2pBandwidthLatencyTest.cu of cuda-samples 12.5 and of older samples.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import List, Optional, Tuple

from ...errors import ParseError
from ...reading import Line
from .bandwidth_test import TWICE
from .result import GB, GpuCopyOutput, possible

TITLE = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
_DEVICE = re.compile(r"Device: (\d{1,3}), .+, pciBusID: .*")
_ACCESS = re.compile(r"Device=(\d{1,3}) (CAN|CANNOT) Access Peer Device=(\d{1,3})")
_CONNECTIVITY = "P2P Connectivity Matrix"
_HEADING = re.compile(
    r"Unidirectional P2P=Enabled Bandwidth(?: \(P2P (?P<method>Writes|Reads)\))? Matrix \(GB/s\)"
)
# In the order in which one is chosen; samples before CUDA 10.1 name none.
_OLD = "not named"
_METHODS = ("Writes", _OLD, "Reads")
_COLUMNS = re.compile(r"(?:D\\D|GPU|CPU)((?:\s+\d{1,3})+)")
_ROW = re.compile(r"(\d{1,3})((?:\s+(?:\d+(?:\.\d+)?|inf|nan))+)")
_BANDWIDTH = re.compile(r"\d{1,6}\.\d{2}")
_NO_CONNECTIVITY = (
    f"no {_CONNECTIVITY!r}: pairs that do not reach each other, and copy through the host, are not"
    " known"
)
_Pair = Tuple[int, int]
_Matrix = List[List[str]]


def peer_test(lines: Sequence[Line]) -> GpuCopyOutput:
    """Read the output of one run.

    Raises:
        ParseError: no matrix with peer access, a matrix that is not whole or stands twice, or
            devices, connectivity and matrices that contradict each other.
    """
    filled = [line for line in lines if line.strip()]
    connectivity: Optional[_Matrix] = None
    matrices: dict[str, tuple[Line, _Matrix]] = {}
    for at, line in enumerate(filled):
        text = line.strip()
        if text == _CONNECTIVITY:
            if connectivity is not None:
                raise line.error("a second run: read one at a time")
            connectivity = _matrix(filled[at:])
        elif match := _HEADING.fullmatch(text):
            method = match["method"] or _OLD
            if method in matrices:
                raise line.error("this matrix stands twice: read one run at a time")
            matrices[method] = (line, _matrix(filled[at:]))
            if not all(_BANDWIDTH.fullmatch(cell) for row in matrices[method][1] for cell in row):
                raise line.error("a figure below this heading has not two decimals, or is none")
    method = next((name for name in _METHODS if name in matrices), "")
    if method not in matrices:
        raise ParseError("no matrix 'Unidirectional P2P=Enabled Bandwidth': the output is cut off")
    return _output(filled, method, *matrices[method], connectivity)


def _output(
    lines: Sequence[Line],
    method: str,
    heading: Line,
    matrix: _Matrix,
    connectivity: Optional[_Matrix],
) -> GpuCopyOutput:
    gpus = len(matrix)
    devices = sum(_DEVICE.fullmatch(line.strip()) is not None for line in lines)
    if devices not in (0, gpus):
        raise heading.error(f"a matrix of {gpus} GPUs, and {devices} devices are named")
    reads = method != "Writes"
    output = GpuCopyOutput("p2pBandwidthLatencyTest", statistic="mean")
    output.peer_test = "read" if reads else "write"
    reachable = _reachable(lines, connectivity, gpus, heading)
    pairs = list(itertools.permutations(range(gpus), 2))
    for row, column in pairs if reachable is None else reachable:
        rate = possible(float(matrix[row][column]) * GB, heading, "a pair's")
        output.add("p2p", (column, row) if reads else (row, column), [rate])
    if method != _OLD:
        for gpu, cells in enumerate(matrix):
            output.add("d2d", (gpu,), [possible(float(cells[gpu]) * GB, heading, "a GPU's") / 2])
        output.warnings.append(TWICE.format(output.program))
    if reachable is None:
        output.unverified.append(_NO_CONNECTIVITY)
    else:
        output.reached([pair for pair in pairs if pair not in reachable], gpus)
    output.warnings.append(
        "bandwidths in both directions at once and without peer access, and latencies, are not"
        " reported"
    )
    return output


def _matrix(lines: Sequence[Line]) -> _Matrix:
    """The cells of the square matrix below the first of these lines, its heading."""
    columns = _COLUMNS.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    if columns is None:
        raise lines[0].error("no row 'D\\D 0 1 ...' below this heading")
    gpus = len(columns[1].split())
    if columns[1].split() != [str(gpu) for gpu in range(gpus)]:
        raise lines[1].error("the columns are not 0, 1, ...")
    matrix: _Matrix = []
    for line in lines[2 : 2 + gpus]:
        row = _ROW.fullmatch(line.strip())
        if row is None or int(row[1]) != len(matrix) or len(row[2].split()) != gpus:
            raise line.error(f"expected row {len(matrix)} of a matrix of {gpus} GPUs")
        matrix.append(row[2].split())
    if len(matrix) < gpus:
        raise lines[0].error(f"a matrix of {gpus} GPUs has {len(matrix)} rows")
    return matrix


def _reachable(
    lines: Sequence[Line], connectivity: Optional[_Matrix], gpus: int, heading: Line
) -> Optional[List[_Pair]]:
    """The pairs with peer access; None where the text does not say."""
    access = {
        (int(match[1]), int(match[3])): (match[2] == "CAN", line)
        for line in lines
        if (match := _ACCESS.fullmatch(line.strip()))
    }
    if connectivity is None:
        has_all = len(access) == gpus * (gpus - 1)
        return [pair for pair, (can, _line) in access.items() if can] if has_all else None
    if len(connectivity) != gpus:
        raise heading.error(f"a matrix of {gpus} GPUs, and one of {len(connectivity)} above")
    pairs = [
        (row, column)
        for row, cells in enumerate(connectivity)
        for column, cell in enumerate(cells)
        if row != column and cell == "1"
    ]
    for pair, (can, line) in access.items():
        if can != (pair in pairs):
            raise line.error(f"the matrix {_CONNECTIVITY!r} contradicts this line")
    return pairs
