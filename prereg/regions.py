"""Accepted regions: the part of the line in which a statistic has to lie."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """The open interval (lower, upper); an open end is infinite.

    An interval is *inside* when all of it lies in the region and *outside* when none of it does;
    a threshold itself belongs to the outside.
    """

    lower: float = -math.inf
    upper: float = math.inf

    def contains(self, value: float) -> bool:
        """Whether a single value lies in the region."""
        return self.lower < value < self.upper

    def inside(self, low: float, high: float) -> bool:
        """Whether the whole closed interval [low, high] lies in the region."""
        return self.lower < low and high < self.upper

    def outside(self, low: float, high: float) -> bool:
        """Whether the closed interval [low, high] and the region have nothing in common."""
        return high <= self.lower or low >= self.upper

    def __str__(self) -> str:
        if math.isinf(self.lower):
            return f"< {self.upper:g}"
        if math.isinf(self.upper):
            return f"> {self.lower:g}"
        return f"between {self.lower:g} and {self.upper:g}"
