"""How figures look, and how they become files: the same values give the same bytes.

Figures are drawn 360 points wide: text then stays readable on a phone, and two fit
side by side on a screen. Ink, paper and grid have colours of their own, which become
CSS variables when a figure stands in a page, so that it follows light and dark mode.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedapp.files import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.0
INK, MUTED, GRID, PAPER = "#1f2329", "#59616b", "#d3d9e0", "#fffffe"
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--paper"}

MAIN, WORST, TAIL = "#2f7dd1", "#d9480f", "#b97f00"
"""The method's mean, its worst client, its bottom 20 %."""

GROUPS = (
    "#4477aa",
    "#d9653b",
    "#3f9142",
    "#a38d1f",
    "#8d5fb0",
    "#2f93b0",
    "#c9557f",
    "#9c6b3f",
    "#4a967b",
)
"""Colours of groups, used again from the start when there are more."""

STYLE: dict[Any, object] = {
    # A name of a client is not a formula, whatever it holds.
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedapp",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.borderaxespad": 0,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.2,
    "hatch.linewidth": 0.6,
}


@dataclass(frozen=True)
class Drawn:
    """A figure as text and pixels, with what a reader needs who cannot see it."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    png: bytes


def canvas(
    height: float, *, rows: Sequence[float] = (1.0,), share: bool = True
) -> "tuple[Figure, list[Axes]]":
    """Return a figure ``height`` inches high, with panels of these relative heights.

    ``share``: the panels have one x axis.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = figure.subplots(
        len(rows), 1, sharex=share, squeeze=False, height_ratios=list(rows)
    )
    return figure, [line[0] for line in grid]


def side_by_side(height: float) -> "tuple[Figure, list[Axes]]":
    """Return a figure ``height`` inches high with two panels beside each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(1, 2))


def files_of(figure: "Figure") -> tuple[str, bytes]:
    """Return a figure as SVG and as PNG, without dates."""
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", dpi=200)
    return svg.getvalue(), png.getvalue()


def save(folder: Path, drawn: Drawn) -> None:
    """Write a figure into ``folder`` as SVG and PNG."""
    write_text(folder / f"{drawn.name}.svg", drawn.svg)
    with replacing(folder / f"{drawn.name}.png") as temporary:
        temporary.write_bytes(drawn.png)


def inline(svg: str, *, name: str) -> str:
    """Return an SVG file's text as an element of a page, ids made its own."""
    text = svg[svg.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"\b(id=\")", rf"\1{name}-", text)
    text = re.sub(r"(href=\"#|url\(#)", rf"\1{name}-", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    # Without a fixed size the figure takes the width of its place; the page names
    # the namespaces that a file of its own must.
    head, _, rest = text.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    return f'<svg {box[0]} aria-hidden="true" focusable="false">{rest}'
