"""A null: how the draws that a value is held against are distributed; data, drawing and words.

A bar ends exactly at the real value, so that the dark bars hold the draws that do as well or
better, and no other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from harness.judging.evidence import Evidence
from harness.judging.verdict import ClaimVerdict, Estimate, Verdict
from prereg.registration import Registration
from prereg.resolved import FigureSpec, StatisticSpec
from reports import canvas
from reports.beside import estimate_of
from reports.canvas import EDGE, MAIN, QUIET, Entry, fit, line
from reports.places import (
    Draws,
    Judged,
    Place,
    claims_about,
    draws_of,
    in_order,
    judged_at,
    records_of,
    said_of,
)
from reports.scale import Scale, axis_over, step_of, ticks_between
from reports.wording import counted, number, p_text, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.5, 2.75)
"""Width and height of a panel, in inches."""
ACROSS = 3
BINS = 24
"""Bars that a panel has at most, about."""
BOTTOM = 0.56
DRAW = "#b9c2cc"
AS_WELL = "#5b6672"


@dataclass(frozen=True, slots=True)
class Null:
    """A value and the draws of its null, at one place."""

    place: Place
    arm: str | None
    estimate: Estimate
    draws: Draws | None
    judged: Judged | None

    @property
    def title(self) -> str:
        """Place and arm."""
        arm = f"arm {self.arm}" if self.arm else ""
        return ", ".join(part for part in (self.place.title, arm) if part)

    @property
    def drawn(self) -> bool:
        """Whether there are a value and draws."""
        return self.estimate.value is not None and bool(self.draws and self.draws.defined)


class Nulls(NamedTuple):
    """What a figure of kind `null` shows."""

    spec: StatisticSpec
    noun: str
    all: tuple[Null, ...]
    claims: tuple[ClaimVerdict, ...]

    @property
    def panels(self) -> tuple[Null, ...]:
        """The places with something to draw."""
        return tuple(null for null in self.all if null.drawn)

    def alternative(self) -> str:
        """What it shows, in words."""
        text = (
            f"{self.spec.title} ({unit(self.spec.unit)}) to the right, and how many {self.noun}s "
            f"have it upwards; {counted(len(self.panels), 'panel')}, the real value marked. "
        )
        text += " ".join(f"{self._found(null)}." for null in self.all) + " "
        return f"{text}{said_of(self.claims)} The table below holds every value."

    def _found(self, null: Null) -> str:
        where = f"{null.title}: " if null.title else ""
        if null.draws is None or null.estimate.value is None:
            return f"{where}no value, {null.estimate.undefined}"
        p = "" if null.draws.p is None else f", Monte-Carlo p = {p_text(null.draws.p)}"
        found = f"{number(null.estimate.value)}; {null.draws.rank(self.noun)}{p}"
        return f"{where}{found}" if where else found

    def said(self) -> Iterator[str]:
        """The reach of each null, for who cannot see it."""
        for null in self.panels:
            if null.draws is not None:
                low, high = min(null.draws.defined), max(null.draws.defined)
                where = f"{null.title} " if null.title else ""
                yield f"{where}{self.noun}s from {number(low)} to {number(high)}"

    def svg(self) -> str:
        """The drawing as the library writes it."""
        return _svg(self)


def nulls_of(
    spec: FigureSpec, registration: Registration, verdict: Verdict, evidence: Evidence
) -> Nulls | str:
    """What a null shows, or why there is nothing to show.

    Raises:
        IntegrityError: a record lacks what its estimator reads.
    """
    statistic = registration.resolved.statistics.get(spec.statistic)
    if statistic is None:
        return f"{spec.statistic} was not frozen"
    if statistic.estimator != "draws":
        return f"{statistic.id} has no draws of a null"
    records = records_of(evidence, statistic.id)
    if not records:
        return f"{statistic.id} was not measured"
    arms = [*statistic.arms, *statistic.shown_arms]
    nulls = [
        Null(
            place=place,
            arm=arm,
            estimate=estimate_of(record, statistic, level=verdict.level),
            draws=draws_of(record),
            judged=judged_at(verdict, statistic.id, place, arm),
        )
        for place in in_order((place for place, _ in records), registration)
        for (at, arm), record in sorted(
            records.items(), key=lambda item: (*_rank(item[0][1], arms),)
        )
        if at == place
    ]
    return Nulls(statistic, spec.noun, tuple(nulls), tuple(claims_about(verdict, statistic.id)))


def _rank(arm: str | None, arms: Sequence[str]) -> tuple[int, str]:
    return (arms.index(arm) if arm in arms else len(arms)), arm or ""


def bars(value: float, draws: Sequence[float], *, step: float) -> dict[int, int]:
    """Draws by bar; bar i reaches from value + i step to value + (i + 1) step.

    >>> bars(0.5, [0.1, 0.49, 0.5, 0.7], step=0.2)
    {-2: 1, -1: 1, 0: 1, 1: 1}
    """
    return dict(sorted(Counter(math.floor((draw - value) / step) for draw in draws).items()))


def _svg(nulls: Nulls) -> str:
    panels = nulls.panels
    legend = _legend(nulls)
    layout = canvas.grid(len(panels), wide=PANEL[0], tall=PANEL[1], most=ACROSS, legend=legend)
    reach = [v for null in panels for v in _reach(null)]
    step = step_of(min(reach), max(reach), most=BINS)
    counted_bars = [
        bars(_value(null), null.draws.defined if null.draws else (), step=step) for null in panels
    ]
    scale = axis_over([min(reach) - step, *reach, max(reach) + step])
    top = max(count for found in counted_bars for count in found.values())

    def paint(figure: Figure) -> None:
        for index, (null, found) in enumerate(zip(panels, counted_bars, strict=True)):
            axes = figure.add_axes(layout.box(index, bottom=BOTTOM))
            _panel(axes, null, found, scale=scale, step=step, top=top)
            left, low = layout.corner(index)
            x = (left + EDGE["left"]) / layout.width
            over = low + layout.tall - EDGE["top"]
            for up, text, size in ((0.2, null.title, 8), (0.06, _rank_line(nulls, null), 7)):
                figure.text(x, (over + up) / layout.height, fit(text, 48), fontsize=size)
            axis = fit(f"→ {nulls.spec.title} ({unit(nulls.spec.unit)})", 46)
            figure.text(x, (low + 0.16) / layout.height, axis, fontsize=8, fontweight="bold")
        canvas.heading(figure, layout, f"↑ {nulls.noun}s")
        canvas.draw_legend(figure, legend, left=layout.across * layout.wide)

    return canvas.svg(layout, paint)


def _rank_line(nulls: Nulls, null: Null) -> str:
    if null.draws is None:
        return ""
    p = "" if null.draws.p is None else f", p = {p_text(null.draws.p)}"
    return f"{null.draws.as_well} of {counted(null.draws.total, nulls.noun)} as good{p}"


def _value(null: Null) -> float:
    return 0.0 if null.estimate.value is None else null.estimate.value


def _reach(null: Null) -> list[float]:
    draws = null.draws.defined if null.draws else ()
    return [_value(null), min(draws, default=_value(null)), max(draws, default=_value(null))]


def _panel(
    axes: Axes, null: Null, found: dict[int, int], *, scale: Scale, step: float, top: int
) -> None:
    value = _value(null)
    for dark, colour in ((False, DRAW), (True, AS_WELL)):
        some = {i: count for i, count in found.items() if (i >= 0) == dark}
        axes.bar(
            [value + i * step for i in some],
            list(some.values()),
            width=step,
            align="edge",
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            zorder=2,
        )
    axes.plot([value, value], [0, 1.04 * top], color=MAIN, linewidth=1.6, zorder=3)
    axes.plot([value], [1.04 * top], "o", color=MAIN, markersize=5, zorder=4)
    left = scale.place(value) > 0.5
    text = f"real {number(float(f'{value:.4g}'))}"
    axes.annotate(
        line(text),
        (value, 1.04 * top),
        xytext=(-6 if left else 6, -2),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=7,
        color=MAIN,
        annotation_clip=False,
    )
    axes.set_xlim(scale.low, scale.high)
    axes.set_xticks(scale.ticks, [number(t, decimals=scale.decimals) for t in scale.ticks])
    axes.set_ylim(0, 1.2 * top)
    whole = [tick for tick in ticks_between(0, 1.1 * top) if tick == int(tick)]
    axes.set_yticks(whole, [number(tick, decimals=0) for tick in whole])
    axes.spines[["top", "right"]].set_visible(False)


def _legend(nulls: Nulls) -> list[Entry]:
    noun = f"{nulls.noun}s"
    return [
        Entry("real value", MAIN, "o"),
        Entry(fit(f"{noun} that do as well"), AS_WELL, "s"),
        Entry("or better", AS_WELL),
        Entry(fit(f"other {noun}"), QUIET, "s", face=DRAW),
    ]
