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

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import ParseError
from ...reading import Line

TITLE = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
_DEVICE = re.compile(r"Device: (\d{1,3}), .+, pciBusID: .*")
_ACCESS = re.compile(r"Device=(\d{1,3}) (CAN|CANNOT) Access Peer Device=(\d{1,3})")
_CONNECTIVITY = "P2P Connectivity Matrix"
_HEADING = re.compile(
    r"(?:(?P<one_way>Unidirectional )|Bidirectional )?P2P=(?P<access>Enabled|Disabled) "
    r"(?:Bandwidth|Latency)(?: \(P2P (?P<method>Writes|Reads)\))? Matrix \((?:GB/s|us)\)"
)
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
    chosen = next(
        (name for method in ("Writes", None, "Reads") for name in matrices if name[2] == method),
        None,
    )
    if chosen is None:
        raise ParseError("no matrix 'Unidirectional P2P=Enabled Bandwidth': the output is cut off")
    heading, matrix = matrices[chosen]
    gpus = len(matrix)
    reachable = _reachable(lines, connectivity, gpus, heading)
    reads = chosen[2] != "Writes"
    pairs = [(row, column) for row in range(gpus) for column in range(gpus) if row != column]
    return PeerBandwidths(
        gpus=gpus,
        peers={
            (column, row) if reads else (row, column): matrix[row][column]
            for row, column in pairs
            if reachable is None or (row, column) in reachable
        },
        local={gpu: matrix[gpu][gpu] for gpu in range(gpus)} if chosen[2] else {},
        unreachable=[pair for pair in pairs if reachable is not None and pair not in reachable],
        reads=reads,
        unverified=[_NO_CONNECTIVITY] if reachable is None else [],
    )


_Name = Tuple[Optional[str], str, Optional[str]]


def _matrices(
    lines: Sequence[Line],
) -> Tuple[Optional[List[List[float]]], Dict[_Name, Tuple[Line, List[List[float]]]]]:
    """The matrix of connectivity, None where there is none, and those of bandwidths with peer
    access in one direction, by their heading."""
    connectivity: Optional[List[List[float]]] = None
    matrices: Dict[_Name, Tuple[Line, List[List[float]]]] = {}
    for line in lines:
        text = line.strip()
        match = _HEADING.fullmatch(text)
        if text == _CONNECTIVITY:
            if connectivity is not None:
                raise line.error("a second run: read one at a time")
            connectivity = _matrix(lines, line)
        elif match and match["one_way"] and match["access"] == "Enabled":
            name = (match["one_way"], match["access"], match["method"])
            if name in matrices:
                raise line.error("this matrix stands twice: read one run at a time")
            matrices[name] = (line, _matrix(lines, line, _BANDWIDTH))
    return connectivity, matrices


def _matrix(
    lines: Sequence[Line], heading: Line, form: Optional[re.Pattern[str]] = None
) -> List[List[float]]:
    """The square matrix below its heading."""
    below = [line for line in lines if line.number > heading.number and line.strip()]
    columns = _COLUMNS.fullmatch(below[0].strip()) if below else None
    if columns is None:
        raise heading.error("no row 'D\\D 0 1 ...' below this heading")
    gpus = len(columns[1].split())
    if [int(number) for number in columns[1].split()] != list(range(gpus)):
        raise below[0].error("the columns are not 0, 1, ...")
    matrix: List[List[float]] = []
    for index in range(gpus):
        line = below[1 + index] if len(below) > 1 + index else heading
        row = _ROW.fullmatch(line.strip())
        if row is None or int(row[1]) != index or len(row[2].split()) != gpus:
            raise line.error(f"expected row {index} of a matrix of {gpus} GPUs")
        cells = row[2].split()
        if form and not all(map(form.fullmatch, cells)):
            raise line.error("a figure has not two decimals, or is none")
        matrix.append([float(cell) for cell in cells])
    return matrix


def _reachable(
    lines: Sequence[Line], connectivity: Optional[List[List[float]]], gpus: int, heading: Line
) -> Optional[List[_Pair]]:
    """The pairs with peer access; None where the text does not say."""
    devices = [match for line in lines if (match := _DEVICE.fullmatch(line.strip()))]
    if devices and len(devices) != gpus:
        raise heading.error(f"a matrix of {gpus} GPUs, and {len(devices)} devices are named")
    access = {
        (int(match[1]), int(match[3])): (match[2] == "CAN", line)
        for line in lines
        if (match := _ACCESS.fullmatch(line.strip()))
    }
    if connectivity is None:
        if len(access) != gpus * (gpus - 1):
            return None
        return [pair for pair, (can, _line) in access.items() if can]
    if len(connectivity) != gpus:
        raise heading.error(f"a matrix of {gpus} GPUs, and one of {len(connectivity)} above")
    pairs = [
        (row, column)
        for row in range(gpus)
        for column in range(gpus)
        if row != column and connectivity[row][column] == 1
    ]
    for pair, (can, line) in access.items():
        if can != (pair in pairs):
            raise line.error(f"the matrix {_CONNECTIVITY!r} contradicts this line")
    return pairs
