"""A finished plot: SVG that follows the theme of the page, and PNG."""

from __future__ import annotations

import base64
import io
import re

# The tree holds matplotlib's own output alone: no text from outside is parsed as XML.
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image

from .palette import LIGHT, PALETTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes

    from .data import Value

_WIDTH_INCHES: Final = 5.6
# The radius of a mark in the SVG's own coordinates.
_MARK: Final = 6
_PNG_DPI: Final = 160
# 72 dots an inch make a point of the drawing a pixel of the SVG's own coordinates.
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "trueup",
    "svg.fonttype": "none",
    "svg.id": None,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.labelcolor": LIGHT["ink"],
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 10,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.handlelength": 3,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
}
_CELLS_SMOOTHED_FROM: Final = 200**2
# Colours that are the same in the dark, as those of the cells are. They are names: a colour with a
# hash belongs to a theme.
_FIXED: Final = {"#ffffff": "white", "#808080": "grey"}


@dataclass
class Drawing:
    """A finished plot: ``svg`` to be put inline into HTML, ``png()`` to be written to a file."""

    svg: str
    _figure: Figure | None = field(repr=False, compare=False)
    _png: bytes = field(default=b"", repr=False, compare=False)

    def png(self) -> bytes:
        """The same plot, in its light colours, as a PNG file; made when first asked for."""
        if self._figure is not None:
            pixels = io.BytesIO()
            with _styled():
                self._figure.set_dpi(_PNG_DPI)
                self._figure.set_facecolor(LIGHT["paper"])
                canvas: Any = FigureCanvasAgg(self._figure)
                # Without a version in it, the same numbers give the same file whatever drew it.
                canvas.print_png(pixels, metadata={"Software": None})
            self._png = pixels.getvalue()
            self._figure = None
        return self._png


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context():
        # A reader's own matplotlibrc must not change the look of the report.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def draw(
    paint: Callable[[Axes], Sequence[Value]], *, name: str, description: str, height_inches: float
) -> Drawing:
    """A drawing of what ``paint`` puts on the axes, and its figures in words at their places."""
    with _styled():
        figure = Figure(figsize=(_WIDTH_INCHES, height_inches), dpi=72)
        canvas: Any = FigureCanvasSVG(figure)
        axes = figure.subplots()
        values = paint(axes)
        # Laid out once for both files: savefig would do it again for each, and draw twice.
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
        figure.set_layout_engine("none")
        marks = _marks(axes, values, figure.bbox.height)
        vector = io.BytesIO()
        canvas.print_svg(vector, metadata={"Date": None})
    svg = _themed(vector.getvalue().decode("utf-8"), marks, name=name, description=description)
    return Drawing(svg, figure)


def _marks(axes: Axes, values: Sequence[Value], height: float) -> ET.Element:
    """A transparent mark with a title for each figure: a circle, or the rectangle of a cell."""
    group = ET.Element("g", {"class": "values"})
    for value in values:
        x, y = axes.transData.transform((value.x, value.y))
        place = {"cx": f"{x:.1f}", "cy": f"{height - y:.1f}", "r": f"{_MARK:g}"}
        if value.width:
            ends = [
                axes.transData.transform(
                    (value.x + sign * value.width / 2, value.y + sign * value.height / 2)
                )
                for sign in (-1, 1)
            ]
            left, right = sorted(end[0] for end in ends)
            bottom, top = sorted(end[1] for end in ends)
            place = {
                "x": f"{left:.1f}",
                "y": f"{height - top:.1f}",
                "width": f"{right - left:.1f}",
                "height": f"{top - bottom:.1f}",
            }
        mark = ET.SubElement(group, "rect" if value.width else "circle", place)
        # Without the page's style it must not cover the drawing.
        mark.set("fill-opacity", "0")
        ET.SubElement(mark, "title").text = value.text
    return group


def _themed(svg: str, marks: ET.Element, *, name: str, description: str) -> str:
    """Matplotlib's SVG as a part of an HTML page: no ids twice on a page, no metadata, colours by
    CSS variables.
    """
    tree = ET.fromstring(svg)  # noqa: S314 - matplotlib wrote it
    for element in tree.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            _local(key): _restyled(_local(key), value, prefix=name)
            for key, value in element.attrib.items()
        }
        if element.tag == "image":
            _repack(element)
    # Its stylesheet would apply to the whole page; report.css has the rule for plots alone.
    for defs in tree.findall("defs"):
        for style in defs.findall("style"):
            defs.remove(style)
    for metadata in tree.findall("metadata"):
        tree.remove(metadata)
    tree.attrib = {"viewBox": tree.attrib["viewBox"], "role": "img", "aria-label": description}
    if len(marks):
        tree.append(marks)
    return ET.tostring(tree, encoding="unicode").strip()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _restyled(key: str, value: str, *, prefix: str) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return f"#{prefix}-{value.removeprefix('#')}" if value.startswith("#") else value
    value = re.sub(r"url\(#", f"url(#{prefix}-", value)
    for code, colour_name in _FIXED.items():
        value = value.replace(code, colour_name)
    if key != "style":
        return value
    for colour, (light, _dark) in PALETTE.items():
        value = value.replace(light, f"var(--{colour})")
    # The page's own font is meant, not the one that the text was measured with.
    return re.sub(r"font(-family)?: [^;]*'DejaVu Sans'[^;]*;? ?", _font_size, value)


def _font_size(match: re.Match[str]) -> str:
    size = re.search(r"(?<![0-9.])([0-9.]+px)", match.group(0))
    return f"font-size: {size.group(1)}; " if size else ""


def _repack(image: ET.Element) -> None:
    """The image of a matrix with its few colours as a palette: the same pixels in a quarter of the
    bytes.
    """
    encoded = image.attrib["href"].partition(",")[2]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA"))
    colours, numbers = np.unique(pixels.view(np.uint32), return_inverse=True)
    table = colours.view(np.uint8).reshape(-1, 4)
    packed = Image.fromarray(numbers.reshape(pixels.shape[:2]).astype(np.uint8))
    packed.putpalette(table[:, :3].tobytes())
    target = io.BytesIO()
    packed.save(target, "png", transparency=table[:, 3].tobytes())
    image.attrib["href"] = "data:image/png;base64," + base64.b64encode(target.getvalue()).decode()
    if pixels.shape[0] * pixels.shape[1] > _CELLS_SMOOTHED_FROM:
        # There a screen has fewer pixels than cells, and must average rather than leave cells out.
        del image.attrib["style"]
