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
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line

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


class PeerBandwidths(NamedTuple):
    """Bandwidths of one run in GB/s.

    Attributes:
        gpus: how many GPUs were measured.
        peers: by the GPU that the data come from and the one that they go to.
        local: bytes read and written within a GPU's memory, by GPU; empty where the program may
            have counted them once.
        unreachable: pairs without peer access.
        reads: whether the GPU that received the data started the copy.
        unverified: facts that the text lacks.
    """

    gpus: int
    peers: Dict[_Pair, float]
    local: Dict[int, float]
    unreachable: List[_Pair]
    reads: bool
    unverified: List[str]


def peer_bandwidths(lines: Sequence[Line]) -> PeerBandwidths:
    """Read the output of one run.

    Raises:
        ParseError: no matrix with peer access, a matrix that is not whole or stands twice, or
            devices, connectivity and matrices that contradict each other.
    """
    connectivity, matrices = _matrices(lines)
    method = next((name for name in _METHODS if name in matrices), "")
    if method not in matrices:
        raise ParseError("no matrix 'Unidirectional P2P=Enabled Bandwidth': the output is cut off")
    heading, matrix = matrices[method]
    gpus = len(matrix)
    _check_devices(lines, gpus, heading)
    reachable = _reachable(lines, connectivity, gpus, heading)
    pairs = list(itertools.permutations(range(gpus), 2))
    measured = pairs if reachable is None else reachable
    reads = method != "Writes"
    return PeerBandwidths(
        gpus=gpus,
        peers={_from_to(pair, reads=reads): matrix[pair[0]][pair[1]] for pair in measured},
        local=dict(enumerate(row[gpu] for gpu, row in enumerate(matrix) if method != _OLD)),
        unreachable=[pair for pair in pairs if pair not in measured],
        reads=reads,
        unverified=[_NO_CONNECTIVITY] if reachable is None else [],
    )


_Matrix = List[List[float]]


def _from_to(pair: _Pair, *, reads: bool) -> _Pair:
    """The GPU that the data come from and the one that they go to, of a row and a column."""
    row, column = pair
    return (column, row) if reads else (row, column)


def _matrices(
    lines: Sequence[Line],
) -> Tuple[Optional[_Matrix], Dict[str, Tuple[Line, _Matrix]]]:
    """The matrix of connectivity, None where there is none, and those of bandwidths with peer
    access in one direction, by their method."""
    connectivity: Optional[_Matrix] = None
    matrices: Dict[str, Tuple[Line, _Matrix]] = {}
    for line in lines:
        text = line.strip()
        if text == _CONNECTIVITY:
            if connectivity is not None:
                raise line.error("a second run: read one at a time")
            connectivity = _matrix(lines, line)
        elif match := _HEADING.fullmatch(text):
            method = match["method"] or _OLD
            if method in matrices:
                raise line.error("this matrix stands twice: read one run at a time")
            matrices[method] = (line, _matrix(lines, line))
            if not all(map(_BANDWIDTH.fullmatch, _cells(lines, line, len(matrices[method][1])))):
                raise line.error("a figure below this heading has not two decimals, or is none")
    return connectivity, matrices


def _below(lines: Sequence[Line], heading: Line) -> List[Line]:
    return [line for line in lines if line.number > heading.number and line.strip()]


def _cells(lines: Sequence[Line], heading: Line, gpus: int) -> List[str]:
    """The figures of a matrix as printed."""
    rows = _below(lines, heading)[1 : 1 + gpus]
    return [cell for row in rows for cell in row.split()[1:]]


def _matrix(lines: Sequence[Line], heading: Line) -> _Matrix:
    """The square matrix below its heading."""
    below = _below(lines, heading)
    columns = _COLUMNS.fullmatch(below[0].strip()) if below else None
    if columns is None:
        raise heading.error("no row 'D\\D 0 1 ...' below this heading")
    gpus = len(columns[1].split())
    if columns[1].split() != [str(gpu) for gpu in range(gpus)]:
        raise below[0].error("the columns are not 0, 1, ...")
    matrix: _Matrix = []
    for index, line in enumerate([*below[1 : 1 + gpus], *[heading] * gpus][:gpus]):
        row = _ROW.fullmatch(line.strip())
        if row is None or int(row[1]) != index or len(row[2].split()) != gpus:
            raise line.error(f"expected row {index} of a matrix of {gpus} GPUs")
        matrix.append([float(cell) for cell in row[2].split()])
    return matrix


def _check_devices(lines: Sequence[Line], gpus: int, heading: Line) -> None:
    devices = sum(_DEVICE.fullmatch(line.strip()) is not None for line in lines)
    if devices not in (0, gpus):
        raise heading.error(f"a matrix of {gpus} GPUs, and {devices} devices are named")


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
        if row != column and cell == 1
    ]
    for pair, (can, line) in access.items():
        if can != (pair in pairs):
            raise line.error(f"the matrix {_CONNECTIVITY!r} contradicts this line")
    return pairs
