"""A curve: one statistic against another, one point an arm; data, drawing and words.

The values are those of the real case, each with an interval for itself. A value of which only a
lower and an upper bound are known is drawn at the upper one, with a bar down to the lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from harness.judging.evidence import Evidence, EvidenceRecord
from harness.judging.verdict import ClaimVerdict, Estimate, Verdict
from prereg.registration import Registration
from prereg.resolved import FigureSpec, StatisticSpec
from reports import canvas
from reports.beside import estimate_of
from reports.canvas import BOUND, EDGE, INK, MAIN, QUIET, REGION, Entry, fit, line
from reports.labels import Label, placed
from reports.places import (
    Judged,
    Place,
    claims_about,
    in_order,
    judged_at,
    p_valued,
    records_of,
    said_of,
)
from reports.scale import Scale, axis_over, figures_of
from reports.wording import counted, number, percent, printed, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.3, 3.4)
"""Width and height of a panel, in inches."""
ACROSS = 2
BOTTOM = 0.56
LABEL = 6.5
"""Size of an arm's name, in points."""


@dataclass(frozen=True, slots=True)
class Point:
    """An arm's two values."""

    arm: str
    across: Estimate
    up: Estimate
    judged: tuple[Judged | None, Judged | None]
    """What is claimed about the value across, and about the value upwards."""

    @property
    def drawn(self) -> bool:
        """Whether both values exist."""
        return all(e.undefined is None and figures_of(e) for e in (self.across, self.up))

    @property
    def missing(self) -> str:
        """Why it is not drawn."""
        reasons = {"across": self.across.undefined, "upwards": self.up.undefined}
        return "; ".join(f"{axis} {reason}" for axis, reason in reasons.items() if reason)


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one place, in the order of the arms."""

    place: Place
    points: tuple[Point, ...]

    @property
    def drawn(self) -> tuple[Point, ...]:
        """The points that have both values."""
        return tuple(point for point in self.points if point.drawn)

    @property
    def pieces(self) -> list[list[Point]]:
        """Runs of neighbouring arms that are drawn: no line leads past an arm that is not."""
        runs: list[list[Point]] = [[]]
        for point in self.points:
            if point.drawn:
                runs[-1].append(point)
            elif runs[-1]:
                runs.append([])
        return [run for run in runs if len(run) > 1]


class Curves(NamedTuple):
    """What a figure of kind `curve` shows."""

    across: StatisticSpec
    up: StatisticSpec
    all: tuple[Curve, ...]
    claims: tuple[ClaimVerdict, ...]
    """The bars and claims about either statistic."""
    level: float
    """Coverage of every interval."""

    @property
    def panels(self) -> tuple[Curve, ...]:
        """The places with a point to draw."""
        return tuple(curve for curve in self.all if curve.drawn)

    def alternative(self) -> str:
        """What it shows, in words."""
        arms = ", ".join(point.arm for point in self.all[0].points)
        count = len(self.all[0].points)
        drawn = sum(len(curve.drawn) for curve in self.all)
        text = (
            f"{_named(self.up)} upwards against {_named(self.across)} to the right, "
            f"{counted(len(self.panels), 'panel')}, {counted(drawn, 'point')}: one for each of "
            f"{counted(count, 'arm')} ({arms}), joined in this order. "
        )
        shown = [e for curve in self.all for p in curve.drawn for e in (p.across, p.up)]
        if any(map(_sampled, shown)):
            text += f"Bars are {percent(self.level)} intervals, each for itself. "
        if any(map(_bracketed, shown)):
            text += (
                "A value that is only known between two bounds is drawn at the upper one, with a "
                "bar to the lower. "
            )
        lost = [
            f"{_at(curve.place)}arm {point.arm} ({point.missing})"
            for curve in self.all
            for point in curve.points
            if not point.drawn
        ]
        if lost:
            text += f"Without a point: {'; '.join(lost)}. "
        return f"{text}{said_of(self.claims)} The table below holds every value."

    def said(self) -> Iterator[str]:
        """Every point, for who cannot see it."""
        for curve in self.all:
            for point in curve.drawn:
                up, across = printed(point.up), printed(point.across)
                yield (
                    f"{_at(curve.place)}arm {point.arm} {up.value} {up.interval} upwards, "
                    f"{across.value} {across.interval} to the right"
                )

    def svg(self) -> str:
        """The drawing as the library writes it."""
        return _svg(self)


def curves_of(
    spec: FigureSpec, registration: Registration, verdict: Verdict, evidence: Evidence
) -> Curves | str:
    """What a curve shows, or why there is nothing to show.

    Raises:
        IntegrityError: a record lacks what its estimator reads.
    """
    statistics = registration.resolved.statistics
    ids = (spec.across or "", spec.statistic)
    for id_ in ids:
        if id_ not in statistics:
            return f"{id_} was not frozen"
    across, up = (statistics[id_] for id_ in ids)
    arms = up.arms + up.shown_arms
    if not arms:
        return f"{up.id} has no arms"
    found = [records_of(evidence, id_) for id_ in ids]
    for id_, records in zip(ids, found, strict=True):
        if not any(arm in arms for _, arm in records):
            return f"{id_} was not measured"
    places = in_order((place for place, arm in found[1] if arm in arms), registration)

    def estimate(which: int, place: Place, arm: str) -> Estimate:
        record: EvidenceRecord | None = found[which].get((place, arm))
        if record is None:
            return Estimate(undefined="not measured")
        return estimate_of(record, (across, up)[which], level=verdict.level)

    curves = tuple(
        Curve(
            place,
            tuple(
                Point(
                    arm=arm,
                    across=estimate(0, place, arm),
                    up=estimate(1, place, arm),
                    judged=(
                        judged_at(verdict, ids[0], place, arm),
                        judged_at(verdict, ids[1], place, arm),
                    ),
                )
                for arm in arms
            ),
        )
        for place in places
    )
    return Curves(across, up, curves, tuple(claims_about(verdict, *ids)), verdict.level)


def at(estimate: Estimate) -> float:
    """Where a value is drawn: itself, or its upper bound."""
    return max(figures_of(estimate)) if estimate.value is None else estimate.value


def _bracketed(estimate: Estimate) -> bool:
    return estimate.value is None and bool(figures_of(estimate))


def _sampled(estimate: Estimate) -> bool:
    """Whether it has an interval of some width."""
    low, high = _ends(estimate)
    return estimate.value is not None and low < high


def _named(spec: StatisticSpec) -> str:
    return f"{spec.title} ({unit(spec.unit)})"


def _at(place: Place) -> str:
    return f"{place.title}, " if place.title else ""


def _svg(curves: Curves) -> str:
    panels = curves.panels
    legend = _legend(curves)
    layout = canvas.grid(len(panels), wide=PANEL[0], tall=PANEL[1], most=ACROSS, legend=legend)
    points = [point for curve in panels for point in curve.drawn]
    scales = (
        _axis(curves, curves.across, [point.across for point in points]),
        _axis(curves, curves.up, [point.up for point in points]),
    )

    def paint(figure: Figure) -> None:
        for index, curve in enumerate(panels):
            axes = figure.add_axes(layout.box(index, bottom=BOTTOM))
            _panel(axes, curves, curve, scales)
            axes.set_title(line(curve.place.title), fontsize=8, loc="left", pad=5)
            left, low = layout.corner(index)
            figure.text(
                (left + EDGE["left"]) / layout.width,
                (low + 0.16) / layout.height,
                fit(f"→ {_named(curves.across)}", 58),
                fontsize=8,
                fontweight="bold",
            )
        canvas.heading(figure, layout, f"↑ {_named(curves.up)}")
        canvas.draw_legend(figure, legend, left=layout.across * layout.wide)

    return canvas.svg(layout, paint)


def _axis(curves: Curves, spec: StatisticSpec, estimates: Sequence[Estimate]) -> Scale:
    bounds = [b for b in _region(curves, spec) if b is not None]
    return axis_over([end for estimate in estimates for end in figures_of(estimate)], near=bounds)


def _region(curves: Curves, spec: StatisticSpec) -> tuple[float | None, float | None]:
    """The accepted region of the first claim about a statistic's value; no end without one."""
    for claim in curves.claims:
        if claim.statistic == spec.id and not p_valued(spec):
            return claim.lower, claim.upper
    return None, None


def _panel(axes: Axes, curves: Curves, curve: Curve, scales: tuple[Scale, Scale]) -> None:
    _accepted(axes, curves, scales)
    for run in curve.pieces:
        xs, ys = [at(p.across) for p in run], [at(p.up) for p in run]
        axes.plot(xs, ys, color=QUIET, linewidth=0.9, zorder=2)
    for point in curve.drawn:
        x, y = at(point.across), at(point.up)
        low, high = _ends(point.across)
        if low < high:
            axes.plot([low, high], [y, y], color=MAIN, linewidth=1.2, zorder=3)
        low, high = _ends(point.up)
        if low < high:
            axes.plot([x, x], [low, high], color=MAIN, linewidth=1.2, zorder=3)
        face = MAIN if any(point.judged) else "white"
        axes.plot([x], [y], "o", color=MAIN, markerfacecolor=face, markersize=4.5, zorder=4)
    _name(axes, curve, scales)
    for scale, ticks, limits in (
        (scales[0], axes.set_xticks, axes.set_xlim),
        (scales[1], axes.set_yticks, axes.set_ylim),
    ):
        limits(scale.low, scale.high)
        ticks(scale.ticks, [number(t, decimals=scale.decimals) for t in scale.ticks])
    axes.spines[["top", "right"]].set_visible(False)


def _accepted(axes: Axes, curves: Curves, scales: tuple[Scale, Scale]) -> None:
    for spec, scale, span, edge in (
        (curves.across, scales[0], axes.axvspan, axes.axvline),
        (curves.up, scales[1], axes.axhspan, axes.axhline),
    ):
        lower, upper = _region(curves, spec)
        if lower is None and upper is None:
            continue
        low = scale.low if lower is None else lower
        high = scale.high if upper is None else upper
        span(low, high, color=REGION, linewidth=0, zorder=0)
        for bound in (lower, upper):
            if bound is not None and scale.holds(bound):
                edge(bound, color=BOUND, linewidth=1, linestyle=(0, (4, 2)), zorder=1)


def _ends(estimate: Estimate) -> tuple[float, float]:
    ends = figures_of(estimate)
    return min(ends), max(ends)


def _name(axes: Axes, curve: Curve, scales: tuple[Scale, Scale]) -> None:
    """The arms' names beside their points, where they do not cover each other."""
    wide = (PANEL[0] - EDGE["left"] - EDGE["right"]) * 72
    tall = (PANEL[1] - BOTTOM - EDGE["top"]) * 72
    labels = [
        Label(
            fit(point.arm, 22),
            x=scales[0].place(at(point.across)) * wide,
            y=scales[1].place(at(point.up)) * tall,
        )
        for point in curve.drawn
    ]
    spots = placed(labels, wide=wide, tall=tall, size=LABEL)
    for point, label, spot in zip(curve.drawn, labels, spots, strict=True):
        axes.annotate(
            label.text,
            (at(point.across), at(point.up)),
            xytext=(spot.right, spot.up),
            textcoords="offset points",
            ha=spot.anchor,
            fontsize=LABEL,
            color=INK,
            annotation_clip=False,
        )


def _legend(curves: Curves) -> list[Entry]:
    points = [point for curve in curves.panels for point in curve.drawn]
    lines = []
    if any(any(point.judged) for point in points):
        lines.append(Entry("an arm that is judged", MAIN, "o"))
    if not all(any(point.judged) for point in points):
        lines.append(Entry("an arm, not judged", MAIN, "o", face="white"))
    if any(bound is not None for s in (curves.across, curves.up) for bound in _region(curves, s)):
        lines.append(Entry("accepted region", BOUND, "s"))
    shown = [e for point in points for e in (point.across, point.up)]
    if any(map(_sampled, shown)):
        lines.append(Entry(f"bars: {percent(curves.level)} intervals", INK))
    if any(map(_bracketed, shown)):
        lines.append(Entry("bars down: to a lower bound", INK))
    lines.append(Entry("the line joins arms in order", QUIET))
    return lines
