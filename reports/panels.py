"""The panels of a figure, drawn: the sites across, one axis for value, controls and series.

Drawn straight into SVG, text as text, without dates, so that the same verdict gives the same bytes.
No layout depends on measuring text. The drawing library is imported only when something is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.judging.verdict import ClaimVerdict, ControlOutcome, Estimate, MemberVerdict
from reports.beside import Beside
from reports.scale import Scale, figures_of, scale_of, span_of
from reports.strips import SHAPES
from reports.wording import clean, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.5, 2.75)
"""Smallest width, and height of a panel, in inches."""
SLOT = 0.1
"""Width that a value is given at a site, in inches, as long as the panel may grow."""
WIDEST = 10.5
"""Width of all panels of a row together, in inches."""
ACROSS = 3
LEGEND = 1.9
LINE = 0.165
EDGE = {"left": 0.52, "right": 0.12, "bottom": 0.62, "top": 0.56}
"""Fixed margins of a panel, in inches: no layout depends on measuring text."""
LONGEST = 26
"""Letters of a name that the legend has room for."""

INK = "#1f2933"
MAIN = "#0b4f8a"
WRONG = "#b3261e"
QUIET = "#6b7785"
REGION = "#e3f1e6"
BOUND = "#2e7d4f"

BESIDE = ("D", "P", "*", "p", ">", "h", "<", "d")
BESIDE_COLOURS = ("#9a5b00", "#6f3fa0", "#00736e", "#a83279", "#4b5320", "#3f51b5", "#7a4b3a")
"""Shapes and colours of the series beside the claim's own: of 12, no two share both."""

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


class Panels(NamedTuple):
    """What a figure shows: a judged claim by pair, and what stands beside it."""

    claim: ClaimVerdict
    by_pair: dict[str, tuple[MemberVerdict, ...]]
    controls: tuple[str, ...]
    beside: tuple[Beside, ...]
    level: float
    """Coverage of the intervals of the series beside."""

    @property
    def drawn_beside(self) -> tuple[Beside, ...]:
        """The series of which a value is drawn."""
        return tuple(one for one in self.beside if one.drawn)

    @property
    def slots(self) -> int:
        """Values that stand next to each other at a site."""
        return 1 + len(self.drawn_beside) + len(self.controls)


def svg_of(panels: Panels, *, heading: str, sites: Sequence[str]) -> str:
    """The drawing as the library writes it.

    Args:
        panels: what is shown.
        heading: what stands on the vertical axis.
        sites: every site, in order of flow; those of the claim are shown.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    present = [s for s in sites if any(m.site == s for m in panels.claim.members)]
    wide = _width(panels, sites=max(1, len(present)))
    across = max(1, min(ACROSS, len(panels.by_pair), math.floor(WIDEST / wide)))
    legend = _legend_lines(panels)
    width = across * wide + LEGEND
    down = math.ceil(len(panels.by_pair) / across)
    beside = EDGE["top"] + LINE * (len(legend) + 1)
    tall = max(PANEL[1], beside / down)  # the panels reach as far down as the legend
    height = down * tall
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height))
        scale = scale_of(
            panels.claim, [e for one in panels.drawn_beside for e in one.drawn.values()]
        )
        for index, (pair, members) in enumerate(panels.by_pair.items()):
            row, column = divmod(index, across)
            box = (
                (column * wide + EDGE["left"]) / width,
                1 - ((row + 1) * tall - EDGE["bottom"]) / height,
                (wide - EDGE["left"] - EDGE["right"]) / width,
                (tall - EDGE["bottom"] - EDGE["top"]) / height,
            )
            axes = figure.add_axes(box)
            _panel(axes, scale, panels, members, present)
            axes.set_title(_line(f"pair {pair}" if pair else ""), fontsize=8, loc="left", pad=5)
        figure.text(0.008, 1 - 0.16 / height, _line(heading), fontsize=8.5, fontweight="bold")
        _legend(figure, legend, left=across * wide)
        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata=nothing)
    return buffer.getvalue().decode("utf-8")


def _width(panels: Panels, *, sites: int) -> float:
    """Width of a panel in inches: wider where much stands at each site."""
    wanted = EDGE["left"] + EDGE["right"] + SLOT * sites * (panels.slots + 1)
    return min(WIDEST, max(PANEL[0], wanted))


def _panel(
    axes: Axes,
    scale: Scale,
    panels: Panels,
    members: Sequence[MemberVerdict],
    sites: Sequence[str],
) -> None:
    claim = panels.claim
    low = scale.low if claim.lower is None else claim.lower
    high = scale.high if claim.upper is None else claim.upper
    axes.axhspan(low, high, color=REGION, linewidth=0, zorder=0)
    for bound in (claim.lower, claim.upper):
        if bound is not None:
            axes.axhline(bound, color=BOUND, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    names = list(sites) or ["whole model"]
    for edge in range(1, len(names)):
        axes.axvline(edge - 0.5, color="#d5dbe1", linewidth=0.6, zorder=0.5)
    arms = sorted({m.arm or "" for m in members})
    for member in members:
        place = float(names.index(member.site)) if member.site in names else 0.0
        place += 0.16 * (arms.index(member.arm or "") - (len(arms) - 1) / 2)
        _member(axes, scale, panels, member, place)
    axes.set_ylim(scale.low, scale.high)
    axes.set_yticks(scale.ticks, [number(t, decimals=scale.decimals) for t in scale.ticks])
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(
        range(len(names)),
        [_line(_short(name)) for name in names],
        rotation=18,
        ha="right",
        rotation_mode="anchor",
        fontsize=7,
    )
    axes.spines[["top", "right"]].set_visible(False)


def _member(axes: Axes, scale: Scale, panels: Panels, member: MemberVerdict, place: float) -> None:
    """Everything at one site: the claim's own value, the series beside it, then the controls."""
    step = 0.8 / panels.slots
    left = place - 0.4 + step / 2
    ends = figures_of(member.estimate)
    if ends:
        axes.plot([left, left], [min(ends), max(ends)], color=MAIN, linewidth=2.2, zorder=4)
        if member.estimate.value is not None:
            axes.plot([left], [member.estimate.value], "o", color=MAIN, markersize=5, zorder=5)
    series = panels.drawn_beside
    for slot, one in enumerate(series, start=1):
        estimate = one.drawn.get((member.site, member.pair))
        if estimate is not None:
            _beside(axes, scale, one, estimate, left + step * slot)
    for outcome in member.controls:
        if outcome.control in panels.controls:
            slot = panels.controls.index(outcome.control) + 1
            _control(axes, scale, outcome, left + step * (len(series) + slot), str(slot))


def _beside(axes: Axes, scale: Scale, one: Beside, estimate: Estimate, x: float) -> None:
    shape, colour = _mark(one)
    ends = figures_of(estimate)
    value = (min(ends) + max(ends)) / 2 if estimate.value is None else estimate.value
    seen = [min(max(end, scale.low), scale.high) for end in (min(ends), max(ends))]
    if seen[0] < seen[1]:
        axes.plot([x, x], seen, color=colour, linewidth=1.2, zorder=3)
    if scale.holds(value):
        axes.plot([x], [value], shape, color=colour, markersize=4.5, zorder=4)
        offset = 5 if scale.place(value) < 0.9 else -9
        _note(axes, one.letter, (x, value), up=offset, colour=colour)
        return
    # Off the axis: an arrow at the edge, the shape beside it, and where the value lies.
    above = value > scale.high
    edge, into = (scale.high, -1) if above else (scale.low, 1)
    size = scale.high - scale.low
    axes.plot([x], [edge + into * 0.025 * size], "^" if above else "v", color=colour, markersize=4)
    mark = edge + into * 0.085 * size
    axes.plot([x], [mark], shape, color=colour, markersize=4.5, zorder=4)
    text = f"{one.letter} {number(float(f'{value:.3g}'))}"
    axes.annotate(
        text,
        (x, mark),
        xytext=(2, 5 * into),
        textcoords="offset points",
        rotation=90,
        rotation_mode="anchor",
        ha="right" if above else "left",
        fontsize=5.5,
        color=colour,
    )


def _control(axes: Axes, scale: Scale, outcome: ControlOutcome, x: float, label: str) -> None:
    span = span_of(outcome)
    if span is None:
        return
    wrong = outcome.behaved is False
    colour = WRONG if wrong else QUIET
    seen = [min(max(value, scale.low), scale.high) for value in span]
    axes.plot([x, x], [seen[0], seen[2]], color=colour, linewidth=0.8, zorder=2)
    marker = {"must-pass": "o", "must-fail": "x", "comparator": "s"}[outcome.role]
    if span[0] > scale.high or span[2] < scale.low:
        marker = "^" if span[0] > scale.high else "v"
    axes.plot([x], [seen[1]], marker, color=colour, markerfacecolor="white", markersize=4, zorder=3)
    offset = 4 if scale.place(seen[1]) < 0.9 else -9
    _note(axes, label, (x, seen[1]), up=offset, colour=colour, bold=wrong)


def _note(
    axes: Axes, text: str, at: tuple[float, float], *, up: int, colour: str, bold: bool = False
) -> None:
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


class _Entry(NamedTuple):
    text: str
    colour: str
    marker: str | None = None


def _legend_lines(panels: Panels) -> list[_Entry]:
    arm = panels.claim.members[0].arm
    lines = [
        _Entry(_fit(f"value, interval{f' ({arm})' if arm else ''}"), MAIN, "o"),
        _Entry("accepted region", BOUND, "s"),
    ]
    if panels.drawn_beside:
        lines.append(_Entry(f"beside, not judged ({percent(panels.level)}):", INK))
        for one in panels.drawn_beside:
            shape, colour = _mark(one)
            lines.append(_Entry(f"{one.letter} {_fit(one.label)}", colour, shape))
    roles = {c.control: c.role for m in panels.claim.members for c in m.controls}
    if panels.controls:
        lines.append(_Entry("controls:", INK))
    lines += [
        _Entry(f"{i} {SHAPES[roles[name]]} {_fit(name)}", QUIET)
        for i, name in enumerate(panels.controls, start=1)
    ]
    passing, failing, comparing = (
        SHAPES[role] for role in ("must-pass", "must-fail", "comparator")
    )
    lines.append(_Entry(f"{passing} must pass, {failing} must fail,", INK))
    lines.append(_Entry(f"{comparing} comparator, ▵▿ off the axis", INK))
    return lines


def _legend(figure: Figure, lines: Sequence[_Entry], *, left: float) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    for index, (text, colour, marker) in enumerate(lines):
        y = 1 - (EDGE["top"] + 0.05 + LINE * index) / height
        x = left + 0.1
        if marker is not None:
            at = [(x + 0.05) / width], [y + 0.035 / height]
            shown = Line2D(*at, marker=marker, color=colour, markersize=4.5, linestyle="none")
            figure.add_artist(shown)
            x += 0.16
        figure.text(x / width, y, text, fontsize=6.8, color=colour, va="baseline")


def _mark(one: Beside) -> tuple[str, str]:
    """Shape and colour of a series."""
    return BESIDE[one.index % len(BESIDE)], BESIDE_COLOURS[one.index % len(BESIDE_COLOURS)]


def _fit(text: str) -> str:
    """A name as far as the legend has room; letters and numbers tell the rest apart."""
    text = _line(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _line(text: str) -> str:
    """`text` on one line: several lines would be laid out by measuring them."""
    return " ".join(clean(text).split())


def _short(site: str) -> str:
    """A site's name without what all sites share."""
    return site.replace("blocks.", "").replace("hook_", "")
