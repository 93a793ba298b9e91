"""Where the names of points stand: beside them, inside the panel, as far as they can apart.

Widths follow from the number of letters: nothing is measured, so that every machine places alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

LETTER = 0.62
"""Width of a letter, as a share of the size of the type; a little more than is needed."""
GAP = 4.5
"""Points between a point and its name."""
MARK = 3.0
"""Half the width of a point's mark."""
DIGITS = 6
"""Rounding before lengths are compared, far above that of any machine."""


class Label(NamedTuple):
    """A name and its point; in points from the panel's lower left corner."""

    text: str
    x: float
    y: float


class Spot(NamedTuple):
    """Where a name starts (or ends, or is centred), from its point."""

    right: float
    up: float
    anchor: Literal["left", "center", "right"]


class _Box(NamedTuple):
    left: float
    low: float
    right: float
    high: float

    def meets(self, other: _Box) -> bool:
        apart = (
            self.right <= other.left
            or other.right <= self.left
            or self.high <= other.low
            or other.high <= self.low
        )
        return not apart


def placed(labels: Sequence[Label], *, wide: float, tall: float, size: float) -> list[Spot]:
    """A spot for each name, in order: the first of eight that is free, else the least crowded.

    Args:
        labels: names with their points.
        wide: width of the panel, in points.
        tall: height of the panel, in points.
        size: size of the type, in points.
    """
    marks = [_Box(x - MARK, y - MARK, x + MARK, y + MARK) for _, x, y in labels]
    taken: list[_Box] = []
    spots = []
    for index, label in enumerate(labels):
        blocked = [*taken, *(mark for i, mark in enumerate(marks) if i != index)]

        def cost(spot: Spot, label: Label = label, blocked: list[_Box] = blocked) -> int:
            box = _box(label, spot, size)
            out = box.left < 0 or box.right > wide or box.low < 0 or box.high > tall
            return sum(box.meets(other) for other in blocked) + 2 * out

        spot = min(_spots(size), key=cost)  # the first of equals
        taken.append(_box(label, spot, size))
        spots.append(spot)
    return spots


def _spots(size: float) -> list[Spot]:
    middle, above, below = -0.35 * size, GAP, -GAP - 0.7 * size
    return [
        Spot(GAP, GAP / 2, "left"),
        Spot(-GAP, GAP / 2, "right"),
        Spot(GAP, below / 2 - 1, "left"),
        Spot(-GAP, below / 2 - 1, "right"),
        Spot(0.0, above, "center"),
        Spot(0.0, below, "center"),
        Spot(2 * GAP, middle, "left"),
        Spot(-2 * GAP, middle, "right"),
    ]


def _box(label: Label, spot: Spot, size: float) -> _Box:
    width = LETTER * size * len(label.text)
    start = {"left": 0.0, "center": -width / 2, "right": -width}[spot.anchor]
    left, low = label.x + spot.right + start, label.y + spot.up
    ends = (left, low - 0.2 * size, left + width, low + 0.8 * size)
    return _Box(*(round(end, DIGITS) for end in ends))
