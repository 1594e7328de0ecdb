"""Parser of ``nvidia-smi topo -m`` (drivers 384 to 580).

A matrix of GPUs and network adapters, with the cores and NUMA nodes near each GPU::

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV18    NODE    0-47            0               N/A
    GPU1    NV18     X      SYS     48-95           1               N/A
    NIC0    NODE    SYS      X

It is symmetric. Older drivers cut the names of adapters to seven characters or leave them out, and
newer ones print columns from the seventeenth on without a blank between them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trueup_node.errors import ParseError
from trueup_node.reading import Line
from trueup_node.record import Metric

from ...labelled import Labelled, short_lines
from .signatures import LINK

TOOL = "topo"
_HEADER = re.compile(r"\s*GPU0(?:\s.*|(?:GPU|NIC|mlx).*)?")
_GPU = re.compile(r"GPU\d{1,3}(?!\d| NUMA)")
_ADAPTER = re.compile(r"NIC\d{1,3}|(?!GPU|CPU|NUMA)[A-Za-z][A-Za-z\d]*_[A-Za-z]{0,6}\d{0,3}")
_ROW = re.compile(r"\s*(?P<name>[A-Za-z]\w{2,15})\s+(?P<cells>\S.*?)\s*")
_CELL = re.compile(rf"\s*({LINK})(?![A-Z]*/)")
_CORES = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?){0,40}")
_LEGEND = re.compile(r"\s*(?P<nic>NIC\d{1,3}): (?P<name>\w+)\s*")
_LINKS = re.compile(r"NV(\d{1,3})")
# From near to far.
_NEAR: Final = ("PSB", "PIX", "PXB", "PHB", "NODE", "SOC", "SYS")


class _Row(NamedTuple):
    """A device's connections, and the text behind them."""

    line: Line
    name: str
    links: list[str]
    rest: list[str]


def parse_topo(text: str) -> Labelled:
    """Read one matrix.

    Raises:
        ParseError: there is none or a second one, rows are missing, or it is not symmetric.
    """
    lines = short_lines(text)
    headers = [line for line in lines if _HEADER.fullmatch(line)]
    heads = [line for line in headers if not re.match(r"\s*GPU0\s+X\b", line) and "GPU0" in line]
    if not heads:
        raise ParseError("no header 'GPU0 GPU1 ...' above the rows")
    if len(heads) > 1:
        raise heads[1].error("a second matrix: read one at a time")
    gpus = _GPU.findall(heads[0])
    if gpus != [f"GPU{number}" for number in range(len(gpus))]:
        raise heads[0].error("the GPUs of the header are not numbered one after the other")
    rows = _rows(lines[heads[0].number :], len(gpus))
    if [row.name for row in rows if row.name.startswith("GPU")] != gpus:
        raise heads[0].error(f"the rows below are not those of {len(gpus)} GPUs in their order")
    _check(rows)
    names = _adapters(heads[0], lines, len(rows[0].links) - len(gpus))
    return Labelled(
        rows=tuple(_metrics(rows[: len(gpus)])),
        parameters=_parameters(rows[: len(gpus)], names),
        node_count=1,
        gpu_count=len(gpus),
    )


def _rows(below: list[Line], gpus: int) -> list[_Row]:
    rows: list[_Row] = []
    for line in below:
        match = _ROW.fullmatch(line)
        is_unnamed = rows and _CELL.match(line) is not None
        if not is_unnamed and (match is None or not _CELL.match(match["cells"])):
            if rows and line.strip():
                break
            continue
        name, cells = ("", str(line)) if is_unnamed or match is None else match.groups()
        links: list[str] = []
        while cell := _CELL.match(cells):
            links.append(cell[1])
            cells = cells[cell.end() :]
        rows.append(_Row(line, name, links, cells.split()))
    if len(rows) < gpus:
        raise ParseError(f"{len(rows)} rows stand below the header, and it has {gpus} GPUs")
    return rows


def _check(rows: list[_Row]) -> None:
    """Compare each connection with that of the other direction.

    Raises:
        ParseError: two rows contradict each other, or have different lengths.
    """
    if len(rows) > len(rows[0].links):
        raise rows[-1].line.error("there are more rows than columns")
    for row in rows:
        if len(row.links) != len(rows[0].links):
            raise row.line.error(
                f"{len(row.links)} connections, and the first row has {len(rows[0].links)}"
            )
    for number, row in enumerate(rows):
        if number < len(row.links) and row.links[number] != "X":
            raise row.line.error(f"the device's connection to itself is {row.links[number]}, not X")
        for other, link in enumerate(row.links[: len(rows)]):
            if other != number and link != rows[other].links[number]:
                back = rows[other].links[number]
                raise row.line.error(f"{row.name} to {rows[other].name} is {link}, and back {back}")


def _adapters(header: Line, lines: list[Line], count: int) -> list[str]:
    """The names of the adapters, by the legend; numbered where the driver prints one name for
    several or none."""
    legend = {match["nic"]: match["name"] for match in map(_LEGEND.fullmatch, lines) if match}
    names = [legend.get(name, name) for name in _ADAPTER.findall(header)]
    if len(names) == count and len(set(names)) == count:
        return names
    return [f"adapter{number}" for number in range(count)]


def _metrics(rows: list[_Row]) -> list[Metric]:
    """topo_nvlinks of each pair, topo_gpu_nvlinks of each GPU, and topo_gpus."""
    metrics = [Metric("topo_gpus", float(len(rows)), "1", "none")]
    links = [
        [int(match[1]) if (match := _LINKS.fullmatch(link)) else 0 for link in row.links]
        for row in rows
    ]
    for number, counts in enumerate(links):
        others = [other for other in range(len(rows)) if other != number]
        if others:
            most = max(counts[other] for other in others)
            metrics.append(
                Metric("topo_gpu_nvlinks", float(most), "1", "higher", device=f"gpu{number}")
            )
        metrics += [
            Metric(
                "topo_nvlinks",
                float(counts[other]),
                "1",
                "higher",
                device=f"gpu{number}>gpu{other}",
            )
            for other in others
        ]
    return metrics


def _parameters(rows: list[_Row], adapters: list[str]) -> dict[str, str]:
    """The cores, NUMA nodes and nearest adapters of each GPU."""
    parameters = {"program": "nvidia-smi"}
    for number, row in enumerate(rows):
        cores, numa, *_ = [*row.rest, "", ""]
        if _CORES.fullmatch(cores):
            parameters[f"gpu{number}_cores"] = cores
            if _CORES.fullmatch(numa):
                parameters[f"gpu{number}_numa"] = numa
        if near := _nearest(row.links[len(rows) :], adapters):
            parameters[f"gpu{number}_near"] = near
    return parameters


def _nearest(links: list[str], adapters: list[str]) -> str:
    """The adapters that are nearest to a GPU, and how they are connected."""
    for link in _NEAR:
        near = [name for name, kind in zip(adapters, links, strict=True) if kind == link]
        if near:
            return f"{link}: {' '.join(near)}"
    return ""
