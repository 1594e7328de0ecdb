"""The plots: what is written in them, their colours in both themes, their size, and that they are
stable.
"""

from __future__ import annotations

import base64
import io
import itertools
import xml.etree.ElementTree as ET
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers import parametrized
from PIL import Image
from trueup_analysis.render.plots.cells import draw_matrix
from trueup_analysis.render.plots.curves import draw_lines, draw_roofline, draw_scaling
from trueup_analysis.render.plots.data import (
    Curve,
    Line,
    LinesPlot,
    MatrixPlot,
    Point,
    Reference,
    RooflinePlot,
    RowsPlot,
    ScalingPlot,
)
from trueup_analysis.render.plots.drawing import Drawing
from trueup_analysis.render.plots.palette import LINE_COLOURS, PALETTE
from trueup_analysis.render.plots.rows import draw_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SIZES = tuple(float(8 << (3 * step)) for step in range(11))  # 8 B to 8 GiB
NODE = "gpu-node-0007"
GPUS = tuple(f"GPU {number}" for number in range(8))


def sweep(peak: float) -> tuple[float, ...]:
    return tuple(peak * size / (size + (1 << 24)) for size in SIZES)


FLEET = LinesPlot(
    "message size",
    "bus bandwidth, GB/s",
    (
        Line("median of 7 nodes", SIZES, sweep(480), sweep(470), sweep(485), "usual"),
        Line(NODE, SIZES, sweep(340), role="outlier"),
    ),
    "bytes",
    references=(Reference(460, "expected at least 460 GB/s at 8 GiB", SIZES[-1]),),
)
MATRIX = MatrixPlot(
    "from",
    "to",
    "bandwidth, GB/s",
    GPUS,
    GPUS,
    tuple(
        tuple(None if a == b else 110.0 if 5 in (a, b) else 270.0 + a - b for b in range(8))
        for a in range(8)
    ),
    frozenset({"GPU 5"}),
)
ROWS = RowsPlot(
    "throughput, GB/s",
    (
        Point(6.1, 0, 5.9, 6.2, "seqread bs=1m"),
        Point(5.2, 0, 5.1, 5.3, "seqwrite bs=1m"),
        Point(2.2, 0, 2.0, 2.3, "randwrite bs=4k"),
    ),
    best=0,
    worst=2,
    references=(Reference(7, "peak 7 GB/s"), Reference(5, "expected at least 5 GB/s")),
)
SCALING = ScalingPlot(
    "cores",
    "speed-up",
    tuple(Point(2.0**n, 1.8**n, 1.7**n, 1.9**n) for n in range(6)),
    (Curve("ideal", "ideal", (1.0, 32.0), (1.0, 32.0)),),
)
ROOFLINE = RooflinePlot(
    300.0, "STREAM 300 GB/s", 3000.0, "peak 3 TFLOP/s", (Point(2.0, 400.0, 390.0, 410.0),)
)
KINDS: dict[str, Callable[..., Drawing]] = {
    "lines": partial(draw_lines, FLEET),
    "matrix": partial(draw_matrix, MATRIX),
    "rows": partial(draw_rows, ROWS),
    "scaling": partial(draw_scaling, SCALING),
    "roofline": partial(draw_roofline, ROOFLINE),
}


def drawn(draw: Callable[..., Drawing], plot: Any, **changes: Any) -> ET.Element:
    """The SVG of a plot of which some fields are others."""
    made = draw(type(plot)(**{**vars(plot), **changes}), name="p", description="d")
    return ET.fromstring(made.svg)


def texts(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter("text")]


def images(svg: ET.Element) -> list[NDArray[np.uint8]]:
    """The pixels of the images within, RGBA."""
    found = []
    for element in svg.iter("image"):
        head, _, data = element.attrib["href"].partition(",")
        assert head == "data:image/png;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        found.append(np.asarray(picture.convert("RGBA")))
    return found


def square(count: int, values: NDArray[np.float64]) -> MatrixPlot:
    names = tuple(f"gpu-node-{number:04d}" for number in range(count))
    return MatrixPlot("from", "to", "GB/s", names, names, tuple(map(tuple, values.tolist())))


# ---- every kind ----


@pytest.mark.parametrize("kind", KINDS)
def test_same_input_gives_the_same_bytes(kind: str) -> None:
    one, other = (KINDS[kind](name="a", description="d") for _ in range(2))
    assert one.svg == other.svg
    assert one.png() == other.png()
    assert one.png() == other.png()  # a second time too
    assert one.png()[:8] == b"\x89PNG\r\n\x1a\n"


def test_text_from_data_is_shown_not_obeyed() -> None:
    label = "node\x1b[31m $x$ <b>\u202e"
    svg = drawn(draw_lines, FLEET, lines=(Line(label, (8.0, 16.0), (1.0, 2.0)),))
    assert "node?[31m $x$ <b>?" in texts(svg)


# ---- colours ----

# Machado, Oliveira, Fernandes (2009), severity 1: linear RGB as seen without a kind of cone.
_SEEN = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Ottosson (2020), A perceptual color space for image processing.
_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2."""
    low, high = sorted(float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(colour: str, cones: str) -> NDArray[np.float64]:
    seen = np.clip(np.array(_SEEN[cones]) @ linear(colour), 0, 1)
    return np.array(_LAB) @ np.cbrt(np.array(_LMS) @ seen)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_lines_stand_out_from_the_page(theme: int) -> None:
    names = [*LINE_COLOURS, "muted", "ink"]
    paper = PALETTE["paper"][theme]
    assert [name for name in names if contrast(PALETTE[name][theme], paper) < 3] == []
    assert len(set(LINE_COLOURS)) == 8


@pytest.mark.parametrize("cones", _SEEN)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_lines_differ_for_the_colour_blind(theme: int, cones: str) -> None:
    seen = {n: oklab(PALETTE[n][theme], cones) for n in (*LINE_COLOURS, "muted")}
    alike = [
        pair
        for pair in itertools.combinations(seen, 2)
        if np.linalg.norm(seen[pair[0]] - seen[pair[1]]) < 0.05
    ]
    assert alike == []


# ---- lines ----


def test_nine_lines_are_refused() -> None:
    lines = (Line("node", SIZES, sweep(1)),) * 9
    with pytest.raises(ValueError, match=r"^9 lines are too many"):
        drawn(draw_lines, FLEET, lines=lines)


def test_a_reference_without_an_x_crosses_the_plot() -> None:
    changed = LinesPlot(**{**vars(FLEET), "references": (Reference(500, "peak 500 GB/s"),)})
    made = draw_lines(changed, name="p", description="d")
    across = made._figure.axes[0].lines[2]
    assert (list(across.get_xdata()), list(across.get_ydata())) == ([0, 1], [500, 500])
    assert "peak 500 GB/s" in texts(ET.fromstring(made.svg))


# ---- matrices ----


@pytest.mark.parametrize("value", [0.0, -3.0, 5.0])
def test_a_matrix_of_one_value(value: float) -> None:
    cells, _ = images(drawn(draw_matrix, square(2, np.full((2, 2), value))))
    assert len({tuple(cell) for cell in cells.reshape(-1, 4).tolist()}) == 1


@parametrized(("values", "message"))
def test_a_matrix_that_is_none(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(draw_matrix, MATRIX, row_labels=GPUS[:2], column_labels=GPUS[:2], values=values)


# ---- rows ----


def test_25_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^25 rows are too many"):
        drawn(draw_rows, ROWS, points=ROWS.points[:1] * 25)


# --- values in words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawing", "texts"),
    [
        (
            draw_lines(FLEET, name="values", description="d"),
            ["median of 7 nodes, 8 B: ", f"{NODE}, 8 GiB: 339.3 GB/s"],
        ),
        (
            draw_rows(ROWS, name="values", description="d"),
            ["seqread bs=1m: 6.100 GB/s", "randwrite bs=4k: 2.200 GB/s"],
        ),
        (
            draw_matrix(MATRIX, name="values", description="d"),
            ["from GPU 0, to GPU 1: 269.0 GB/s", "from GPU 7, to GPU 6: 271.0 GB/s"],
        ),
    ],
    ids=["lines", "rows", "matrix"],
)
def test_each_figure_of_a_drawing_is_in_words_at_its_place(
    drawing: Drawing, texts: list[str]
) -> None:
    tree = ET.fromstring(drawing.svg)
    *_, width, height = map(float, tree.attrib["viewBox"].split())
    marks = list(tree.findall("g[@class='values']/*"))
    words = [str(mark.findtext("title")) for mark in marks]
    assert (words[0].startswith(texts[0]), words[-1]) == (True, texts[1])
    places = [
        (float(mark.get("cx") or mark.get("x") or -1), float(mark.get("cy") or mark.get("y") or -1))
        for mark in marks
    ]
    assert [(x, y) for x, y in places if not (0 <= x <= width and 0 <= y <= height)] == []
    # A figure that is drawn higher up is the greater one.
    if texts[0].startswith("median"):
        last = len(SIZES) - 1
        assert places[last][1] < places[-1][1]
