"""The panels of a figure, drawn: the sites across, one axis for value, controls and series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from harness.judging.verdict import ClaimVerdict, ControlOutcome, Estimate, MemberVerdict
from reports import canvas
from reports.beside import Beside
from reports.canvas import BOUND, EDGE, INK, MAIN, QUIET, REGION, WIDEST, WRONG, Entry, fit, line
from reports.scale import Scale, figures_of, scale_of, span_of
from reports.strips import SHAPES
from reports.wording import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.5, 2.75)
"""Smallest width, and height of a panel, in inches."""
SLOT = 0.1
"""Width that a value is given at a site, in inches, as long as the panel may grow."""
ACROSS = 3

BESIDE = ("D", "P", "*", "p", ">", "h", "<", "d")
BESIDE_COLOURS = ("#9a5b00", "#6f3fa0", "#00736e", "#a83279", "#4b5320", "#3f51b5", "#7a4b3a")
"""Shapes and colours of the series beside the claim's own: of 12, no two share both."""


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
    present = [s for s in sites if any(m.site == s for m in panels.claim.members)]
    legend = _legend_lines(panels)
    layout = canvas.grid(
        len(panels.by_pair),
        wide=_width(panels, sites=max(1, len(present))),
        tall=PANEL[1],
        most=ACROSS,
        legend=legend,
    )
    scale = scale_of(panels.claim, [e for one in panels.drawn_beside for e in one.drawn.values()])

    def paint(figure: Figure) -> None:
        for index, (pair, members) in enumerate(panels.by_pair.items()):
            axes = figure.add_axes(layout.box(index))
            _panel(axes, scale, panels, members, present)
            axes.set_title(line(f"pair {pair}" if pair else ""), fontsize=8, loc="left", pad=5)
        canvas.heading(figure, layout, heading)
        canvas.draw_legend(figure, legend, left=layout.across * layout.wide)

    return canvas.svg(layout, paint)


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
        [line(canvas.short(name)) for name in names],
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
        canvas.note(axes, one.letter, (x, value), up=offset, colour=colour)
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
    canvas.note(axes, label, (x, seen[1]), up=offset, colour=colour, bold=wrong)


def _legend_lines(panels: Panels) -> list[Entry]:
    arm = panels.claim.members[0].arm
    lines = [
        Entry(fit(f"value, interval{f' ({arm})' if arm else ''}"), MAIN, "o"),
        Entry("accepted region", BOUND, "s"),
    ]
    if panels.drawn_beside:
        lines.append(Entry(f"beside, not judged ({percent(panels.level)}):", INK))
        for one in panels.drawn_beside:
            shape, colour = _mark(one)
            lines.append(Entry(f"{one.letter} {fit(one.label)}", colour, shape))
    roles = {c.control: c.role for m in panels.claim.members for c in m.controls}
    if panels.controls:
        lines.append(Entry("controls:", INK))
    lines += [
        Entry(f"{i} {SHAPES[roles[name]]} {fit(name)}", QUIET)
        for i, name in enumerate(panels.controls, start=1)
    ]
    passing, failing, comparing = (
        SHAPES[role] for role in ("must-pass", "must-fail", "comparator")
    )
    lines.append(Entry(f"{passing} must pass, {failing} must fail,", INK))
    lines.append(Entry(f"{comparing} comparator, ▵▿ off the axis", INK))
    return lines


def _mark(one: Beside) -> tuple[str, str]:
    """Shape and colour of a series."""
    return BESIDE[one.index % len(BESIDE)], BESIDE_COLOURS[one.index % len(BESIDE_COLOURS)]
