"""The plots: what is written in them, their colours in both themes, their size, and that they are
stable.
"""

from __future__ import annotations

import base64
import io
import itertools
import re
import xml.etree.ElementTree as ET
from functools import partial
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image
from trueup_analysis.render.plots import drawing
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_readers_settings_change_nothing(kind: str) -> None:
    usual = KINDS[kind](name="a", description="d")
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "savefig.transparent": True}):
        other = KINDS[kind](name="a", description="d")
        assert (other.svg, other.png()) == (usual.svg, usual.png())
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize("kind", KINDS)
def test_the_finding_is_the_alternative_text(kind: str) -> None:
    said = 'Node "7" reaches <72 %> of the others & fails.'
    svg = ET.fromstring(KINDS[kind](name="a", description=said).svg)
    assert (svg.tag, svg.attrib["role"], svg.attrib["aria-label"]) == ("svg", "img", said)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_the_plots_own(kind: str) -> None:
    svg = KINDS[kind](name="mine", description="d").svg
    ids = re.findall(r' id="([^"]*)"', svg)
    links = re.findall(r' href="#([^"]*)"|url\(#([^)]*)\)', svg)
    assert [one for one in ids if not one.startswith("mine-")] == []
    assert len(set(ids)) == len(ids)
    assert {one or other for one, other in links} <= set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_colours_are_the_pages_variables(kind: str) -> None:
    svg = KINDS[kind](name="a", description="d").svg
    assert re.findall(r"#[0-9a-fA-F]{6}\b", svg) == []
    assert set(re.findall(r"var\(--([^)]*)\)", svg)) <= set(PALETTE)
    assert "DejaVu" not in svg


@pytest.mark.parametrize("kind", KINDS)
def test_is_laid_out_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    execute = ConstrainedLayoutEngine.execute

    def counted(self: ConstrainedLayoutEngine, fig: Any) -> Any:
        calls.append(fig)
        return execute(self, fig)

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", counted)
    drawing = KINDS[kind](name="a", description="d")
    drawing.png()
    assert len(calls) == 1


def test_text_from_data_is_shown_not_obeyed() -> None:
    label = "node\x1b[31m $x$ <b>\u202e"
    svg = drawn(draw_lines, FLEET, lines=(Line(label, (8.0, 16.0), (1.0, 2.0)),))
    assert "node?[31m $x$ <b>?" in texts(svg)


def test_a_long_label_loses_its_middle() -> None:
    label = "rack-01-" + 20 * "x" + 20 * "y" + "-gpu-07"
    point = Point(1.0, 0, 1.0, 1.0, label)
    shown = next(text for text in texts(drawn(draw_rows, ROWS, points=(point,) * 3)) if "…" in text)
    assert (shown[:8], shown[-7:], len(shown)) == ("rack-01-", "-gpu-07", 33)


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


def test_lines_differ_in_colour_marker_and_dash() -> None:
    lines = tuple(Line(str(number), SIZES, sweep(100 + number)) for number in range(8))
    made = draw_lines(LinesPlot("size", "GB/s", lines, "bytes"), name="p", description="d")
    drawn_lines = made._figure.axes[0].lines
    styles = [
        (line.get_color(), line.get_marker(), str(line._dash_pattern)) for line in drawn_lines
    ]
    assert [len(set(kind)) for kind in zip(*styles, strict=True)] == [8, 8, 8]


def test_nine_lines_are_refused() -> None:
    lines = (Line("node", SIZES, sweep(1)),) * 9
    with pytest.raises(ValueError, match=r"^9 lines are too many"):
        drawn(draw_lines, FLEET, lines=lines)


def test_the_fleet_is_grey_and_the_outlier_is_not() -> None:
    made = draw_lines(FLEET, name="p", description="d")
    usual, outlier = made._figure.axes[0].lines[:2]
    light = {name: pair[0] for name, pair in PALETTE.items()}
    assert (usual.get_color(), outlier.get_color()) == (light["muted"], light["second"])
    assert outlier.get_zorder() > usual.get_zorder()
    assert outlier.get_linewidth() > usual.get_linewidth()


def test_what_is_expected_stands_at_its_size_and_in_the_legend() -> None:
    made = draw_lines(FLEET, name="p", description="d")
    expected = made._figure.axes[0].lines[2]
    xs, ys = expected.get_data()
    assert xs[1] == pytest.approx(SIZES[-1])
    assert list(ys) == [460, 460, 460]
    assert "expected at least 460 GB/s at 8 GiB" in texts(ET.fromstring(made.svg))


def test_a_reference_without_an_x_crosses_the_plot() -> None:
    changed = LinesPlot(**{**vars(FLEET), "references": (Reference(500, "peak 500 GB/s"),)})
    made = draw_lines(changed, name="p", description="d")
    across = made._figure.axes[0].lines[2]
    assert (list(across.get_xdata()), list(across.get_ydata())) == ([0, 1], [500, 500])
    assert "peak 500 GB/s" in texts(ET.fromstring(made.svg))


@pytest.mark.parametrize(
    ("xs", "x_scale", "expected"),
    [
        (SIZES, "bytes", ["32 B", "1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB"]),
        ((8.0, float(1 << 20), float(1 << 34)), "bytes", ["8 B", "1 MiB", "16 GiB"]),
        ((0.0, 1.0, 1024.0), "bytes", ["0 B", "1 B", "1 KiB"]),
        ((1536.0, 12288.0), "bytes", ["1.5 KiB", "12 KiB"]),
        ((1.0, 2.0, 4.0, 8.0), "log", ["1", "2", "4", "8"]),
        (tuple(2.0**n for n in range(14)), "log", ["1", "10", "100", "1,000"]),
        ((0.0, 1.0, 2.0, 3.0), "linear", ["0", "1", "2", "3"]),
        ((5.0,), "linear", ["5"]),
    ],
)
def test_ticks(xs: tuple[float, ...], x_scale: str, expected: list[str]) -> None:
    line = Line("", xs, tuple(1.0 for _ in xs))
    svg = drawn(draw_lines, FLEET, lines=(line,), x_scale=x_scale, references=())
    ticks = svg.find(".//g[@id='p-matplotlib.axis_1']")
    assert ticks is not None
    assert texts(ticks)[:-1] == expected


@pytest.mark.parametrize(
    ("ys", "y_scale", "expected"),
    [
        ((1.0, 99.0), "auto", ("linear", 0)),
        ((1.0, 101.0), "auto", ("log", None)),
        ((1.0, 101.0), "linear", ("linear", 0)),
        ((1.0, 2.0), "log", ("log", None)),
        ((0.0, 200.0), "auto", ("linear", 0)),
        ((0.0, 200.0), "log", ("linear", 0)),
        ((0.0, 0.0), "auto", ("linear", 0)),
    ],
)
def test_figures_start_at_zero_or_are_logarithmic(
    ys: tuple[float, ...], y_scale: Any, expected: tuple[str, float | None]
) -> None:
    plot = LinesPlot("nodes", "s", (Line("a", (1.0, 2.0), ys),), y_scale=y_scale)
    axes = draw_lines(plot, name="p", description="d")._figure.axes[0]
    assert (axes.get_yscale(), axes.get_ylim()[0] if expected[1] == 0 else None) == expected
    assert axes.get_ylim()[1] > max(ys)


# ---- matrices ----


def test_a_cell_has_its_value_and_its_colour() -> None:
    svg = drawn(draw_matrix, MATRIX)
    cells, bar = images(svg)
    written = texts(svg)
    assert cells.shape == (8, 8, 4)
    assert written.count("110") == 14
    assert {"263", "277", "GPU 7", "not measured", "bandwidth, GB/s", "from", "to"} <= set(written)
    # The diagonal was not measured.
    assert (cells[..., 3] == 255 * (1 - np.eye(8))).all()
    # Less is darker: the least has the first colour, the greatest the last (row 0 is at the top).
    assert (cells[5, 0].tolist(), cells[7, 0].tolist()) == (bar[0, 0].tolist(), bar[-1, 0].tolist())


def test_numbers_are_readable_on_their_cells_in_every_theme() -> None:
    values = np.linspace(10, 99, 64).reshape(8, 8)
    svg = drawn(draw_matrix, square(8, values))
    (cells, _), found = images(svg), {}
    for element in svg.iter("text"):
        colour = re.search(r"fill: ([^;]+)", element.attrib["style"])
        found[element.text] = colour.group(1) if colour else "black"
    codes = {"black": "#000000", "white": "#ffffff"}
    weak = []
    for value, cell in zip(values.ravel(), cells.reshape(-1, 4), strict=True):
        ground = "#" + bytes(cell[:3]).hex()
        if contrast(codes[found[f"{value:.1f}"]], ground) < 4.5:
            weak.append(value)
    assert weak == []
    assert set(found.values()) == {"black", "white", "var(--ink)"}


@pytest.mark.parametrize(("count", "numbers"), [(16, 256), (17, 0)])
def test_numbers_stand_where_there_is_room(count: int, numbers: int) -> None:
    svg = drawn(draw_matrix, square(count, np.full((count, count), 77.0)))
    assert texts(svg).count("77.0") == numbers


def test_noise_does_not_look_like_a_fault() -> None:
    values = np.full((4, 4), 100.0)
    values[1, 2] = 99.0
    cells, bar = images(drawn(draw_matrix, square(4, values)))
    place = [tuple(colour) for colour in bar[:, 0].tolist()].index(tuple(cells[1, 2].tolist()))
    # 1 % is a twentieth of the colours.
    assert place / len(bar) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("value", [0.0, -3.0, 5.0])
def test_a_matrix_of_one_value(value: float) -> None:
    cells, _ = images(drawn(draw_matrix, square(2, np.full((2, 2), value))))
    assert len({tuple(cell) for cell in cells.reshape(-1, 4).tolist()}) == 1


def test_labels_are_thinned_but_the_marked_one_stays() -> None:
    plot = square(600, np.ones((600, 600)))
    svg = drawn(draw_matrix, plot, marked=frozenset({"gpu-node-0217"}))
    rows = svg.find(".//g[@id='p-matplotlib.axis_2']")
    assert rows is not None
    written = {e.text: e.attrib["style"] for e in rows.iter("text") if "node" in (e.text or "")}
    assert (len(written) <= 25, "gpu-node-0000" in written) == (True, True)
    assert [label for label, style in written.items() if "--second" in style] == ["gpu-node-0217"]
    assert {"gpu-node-0200", "gpu-node-0225"} & set(written) == set()


def test_600_nodes_are_a_small_picture() -> None:
    # The worst for its size: nothing repeats.
    values = np.random.default_rng(1).uniform(1, 50, (600, 600))
    values[7, 8] = np.nan
    plot = square(600, values)
    made = draw_matrix(plot, name="p", description="d")
    (cells, _) = images(ET.fromstring(made.svg))
    assert len(made.svg) < 300_000
    assert (cells.shape, cells[7, 8, 3], cells[8, 7, 3]) == ((600, 600, 4), 0, 255)


def test_pixels_are_those_that_matplotlib_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).uniform(1, 50, (40, 40))
    packed = images(drawn(draw_matrix, square(40, values)))
    monkeypatch.setattr(drawing, "_repack", lambda image: None)
    svg = drawn(draw_matrix, square(40, values))
    for element in svg.iter("image"):
        element.attrib["href"] = element.attrib["href"].replace("\n", "").replace(" ", "")
    plain = images(svg)
    assert [one.tolist() for one in packed] == [one.tolist() for one in plain]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (((1.0,),), "not 2 rows of 2"),
        (((1.0, 2.0), (1.0,)), "not 2 rows of 2"),
        (((None, None), (None, None)), "none of 2 x 2 pairs was measured"),
    ],
)
def test_a_matrix_that_is_none(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(draw_matrix, MATRIX, row_labels=GPUS[:2], column_labels=GPUS[:2], values=values)


# ---- rows ----


def test_rows_show_the_best_the_worst_and_what_they_are_held_against() -> None:
    made = draw_rows(ROWS, name="p", description="d")
    lines = made._figure.axes[0].lines
    light = {name: pair[0] for name, pair in PALETTE.items()}
    dots = [(line.get_color(), line.get_marker()) for line in lines[1:6:2]]
    assert dots == [(light["accent"], "D"), (light["muted"], "o"), (light["second"], "X")]
    assert [line.get_xdata()[0] for line in lines[6:]] == [7, 5]
    written = texts(ET.fromstring(made.svg))
    assert written[-4:] == ["best", "worst", "peak 7 GB/s", "expected at least 5 GB/s"]
    labels = [point.label for point in ROWS.points]
    assert [text for text in written if text in labels] == labels


def test_rows_without_marks_have_no_legend() -> None:
    svg = drawn(draw_rows, ROWS, best=None, worst=None, references=())
    assert svg.find(".//g[@id='p-legend_1']") is None


def test_25_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^25 rows are too many"):
        drawn(draw_rows, ROWS, points=ROWS.points[:1] * 25)
