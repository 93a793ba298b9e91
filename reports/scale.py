"""The one axis on which everything about a claim is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.judging.verdict import ClaimVerdict, ControlOutcome, Estimate
from prereg.regions import Region

REACH = 3.0
"""What lies further than this many core spans from the core is drawn as an arrow at the edge."""

PADDING = 0.06
SMALLEST = 1e-300
"""Steps below have too few digits left to count with."""
MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis from `low` to `high` with its tick values."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where `value` lies: 0 at the low end, 1 at the high end, clipped to the axis."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def holds(self, value: float) -> bool:
        """Whether `value` lies on the axis."""
        return self.low <= value <= self.high

    @property
    def decimals(self) -> int:
        """Decimals that tell the ticks apart."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low
        return max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0


def region_of(claim: ClaimVerdict) -> Region:
    """The accepted region of a judged claim."""
    return Region(
        -math.inf if claim.lower is None else claim.lower,
        math.inf if claim.upper is None else claim.upper,
    )


def figures_of(estimate: Estimate | None) -> list[float]:
    """Value and interval ends that exist."""
    if estimate is None:
        return []
    return [v for v in (estimate.low, estimate.value, estimate.high) if v is not None]


def span_of(outcome: ControlOutcome) -> tuple[float, float, float] | None:
    """Low end, middle and high end of what is drawn of a control; none where it has no value.

    A single value is drawn with its interval, a random control as the range and median of its
    draws.
    """
    if outcome.median is not None:
        low = outcome.median if outcome.low_draw is None else outcome.low_draw
        high = outcome.median if outcome.high_draw is None else outcome.high_draw
        return low, outcome.median, high
    ends = figures_of(outcome.estimate)
    if not ends:
        return None
    value = outcome.estimate.value if outcome.estimate else None
    return min(ends), sum(ends) / len(ends) if value is None else value, max(ends)


def scale_of(claim: ClaimVerdict, beside: Iterable[Estimate] = ()) -> Scale:
    """The axis of a claim: thresholds and intervals in full, controls as far as they are near.

    The core spans the thresholds and every main interval. Controls and the values drawn `beside`
    widen the axis up to `REACH` core spans on either side; what lies beyond would squeeze the
    deciding part into a line.
    """
    core = [bound for bound in (claim.lower, claim.upper) if bound is not None]
    for member in claim.members:
        core += figures_of(member.estimate)
    spans = [span_of(outcome) for member in claim.members for outcome in member.controls]
    points = [value for span in spans if span is not None for value in span]
    points += [value for estimate in beside for value in figures_of(estimate)]
    return axis_over(core, near=points)


def axis_over(core: Sequence[float], *, near: Iterable[float] = ()) -> Scale:
    """An axis that holds every value of `core`, and those of `near` that are near it.

    What lies further than `REACH` spans of the core from it is left off the axis.
    """
    outer = list(near)
    seeds = list(core) or outer or [0.0]
    low, high = min(seeds), max(seeds)
    size = high - low
    if size <= 1e-12 * max(1.0, abs(low), abs(high)):
        size = 0.5 * abs(high) or 1.0
    inner = [v for v in outer if low - REACH * size <= v <= high + REACH * size]
    low, high = min([low, *inner]), max([high, *inner])
    if high - low < size:
        middle = (low + high) / 2
        low, high = middle - size / 2, middle + size / 2
    pad = PADDING * (high - low)
    return Scale(low - pad, high + pad, ticks_between(low - pad, high + pad))


def step_of(low: float, high: float, *, most: int) -> float:
    """The smallest 1, 2 or 5 times a power of ten of which at most `most` span [low, high].

    >>> step_of(0.0, 1.0, most=5), step_of(0.3, 0.3, most=5)
    (0.2, 1.0)
    """
    raw = (high - low) / most
    if raw < SMALLEST:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))


def ticks_between(low: float, high: float) -> tuple[float, ...]:
    """At most `MOST_TICKS` multiples of 1, 2 or 5 times a power of ten in [low, high]."""
    step = step_of(low, high, most=MOST_TICKS - 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(i * step, 12 - math.floor(math.log10(step))) for i in range(first, last + 1))
