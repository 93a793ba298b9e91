"""What all drawings share: paper, type, colours, legend, and how one becomes SVG text.

Drawn straight into SVG, text as text, without dates, so that the same verdict gives the same bytes.
No layout depends on measuring text. The drawing library is imported only when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.wording import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND = 1.9
"""Width of the legend, in inches."""
LINE = 0.165
"""Height of a line of the legend, in inches."""
EDGE = {"left": 0.52, "right": 0.12, "bottom": 0.62, "top": 0.56}
"""Fixed margins of a panel, in inches: no layout depends on measuring text."""
LONGEST = 26
"""Letters of a name that the legend has room for."""
WIDEST = 10.5
"""Width of all panels of a row together, in inches."""

INK = "#1f2933"
MAIN = "#0b4f8a"
WRONG = "#b3261e"
QUIET = "#6b7785"
REGION = "#e3f1e6"
BOUND = "#2e7d4f"

_SETTINGS: Mapping[str, Any] = {
    "svg.hashsalt": "prebench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.usetex": False,
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": QUIET,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class Entry(NamedTuple):
    """A line of the legend."""

    text: str
    colour: str
    marker: str | None = None
    face: str | None = None
    """Colour inside the mark, where it is another."""


class Grid(NamedTuple):
    """Panels of one size in rows, and the legend at their right; inches."""

    panels: int
    across: int
    wide: float
    tall: float

    @property
    def width(self) -> float:
        """Width of the drawing."""
        return self.across * self.wide + LEGEND

    @property
    def height(self) -> float:
        """Height of the drawing."""
        return -(-self.panels // self.across) * self.tall

    def corner(self, index: int) -> tuple[float, float]:
        """Left and lower edge of a panel with its margins."""
        row, column = divmod(index, self.across)
        return column * self.wide, self.height - (row + 1) * self.tall

    def box(self, index: int, *, bottom: float | None = None) -> tuple[float, float, float, float]:
        """Where a panel's axes lie, as shares of the drawing: left, bottom, width, height."""
        left, low = self.corner(index)
        below = EDGE["bottom"] if bottom is None else bottom
        return (
            (left + EDGE["left"]) / self.width,
            (low + below) / self.height,
            (self.wide - EDGE["left"] - EDGE["right"]) / self.width,
            (self.tall - below - EDGE["top"]) / self.height,
        )


def grid(panels: int, *, wide: float, tall: float, most: int, legend: Sequence[Entry]) -> Grid:
    """At most `most` panels a row, which reach as far down as the legend does."""
    across = max(1, min(most, panels, int(WIDEST / wide)))
    down = -(-panels // across)
    beside = EDGE["top"] + LINE * (len(legend) + 1)
    return Grid(panels, across, wide, max(tall, beside / down))


def svg(layout: Grid, paint: Callable[[Figure], None]) -> str:
    """The drawing that `paint` makes on an empty figure, as the library writes it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        figure = Figure(figsize=(layout.width, layout.height))
        paint(figure)
        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata=nothing)
    return buffer.getvalue().decode("utf-8")


def heading(figure: Figure, layout: Grid, text: str) -> None:
    """What stands above all panels."""
    figure.text(0.008, 1 - 0.16 / layout.height, line(text), fontsize=8.5, fontweight="bold")


def draw_legend(figure: Figure, lines: Sequence[Entry], *, left: float) -> None:
    """The legend, its left edge at `left` inches."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    for index, (text, colour, marker, face) in enumerate(lines):
        y = 1 - (EDGE["top"] + 0.05 + LINE * index) / height
        x = left + 0.1
        if marker is not None:
            at = [(x + 0.05) / width], [y + 0.035 / height]
            shown = Line2D(*at, marker=marker, color=colour, markersize=4.5, linestyle="none")
            if face is not None:
                shown.set_markerfacecolor(face)
            figure.add_artist(shown)
            x += 0.16
        figure.text(x / width, y, text, fontsize=6.8, color=colour, va="baseline")


def note(
    axes: Axes, text: str, at: tuple[float, float], *, up: int, colour: str, bold: bool = False
) -> None:
    """A short text above (or below) a point."""
    axes.annotate(
        text,
        at,
        xytext=(0, up),
        textcoords="offset points",
        ha="center",
        fontsize=5.5,
        fontweight="bold" if bold else "normal",
        color=colour,
        annotation_clip=False,
    )


def fit(text: str, letters: int = LONGEST) -> str:
    """A name as far as there is room; letters and numbers tell the rest apart."""
    text = line(text)
    return text if len(text) <= letters else text[: letters - 1].rstrip() + "…"


def line(text: str) -> str:
    """`text` on one line: several lines would be laid out by measuring them."""
    return " ".join(clean(text).split())


def short(site: str) -> str:
    """A site's name without what all sites share."""
    return site.replace("blocks.", "").replace("hook_", "")
