"""The delete-one-block jackknife-t, on a scale that makes the statistic's spread even.

With theta the statistic of all blocks, theta_(i) the one without block i, and g the scale,

    var = (n - 1) / n * sum_i (g(theta_(i)) - g(theta))^2
    [low, high] = g^-1( g(theta) -+ t(level, n_eff - 1) sqrt(var) ),
    n_eff = (sum w)^2 / sum w^2,  w = the weights that carry the statistic.

Deviations are taken from g(theta), not from their mean: that adds the squared bias over n - 1 to
the variance and is therefore on the safe side. The degrees of freedom are n_eff - 1 because the
variance is a sum of n squared deviations whose sizes go with the weights: a few heavy blocks carry
it, and it is as uncertain as one of n_eff even blocks (Satterthwaite). With even weights it is
n - 1. No random number enters: two judges draw the same interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.judging.quantiles import student

Array = NDArray[np.float64]

MIN_EFFECTIVE_BLOCKS = 20.0
"""Below it the jackknife's coverage is not what it says, and there is no verdict."""


class Bounds(NamedTuple):
    """Lower and upper ends, of any one shape."""

    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Scale:
    """An increasing function g and its inverse."""

    forward: Callable[[Array], Array]
    back: Callable[[Array], Array]


def _clipped_atanh(value: Array) -> Array:
    # a correlation of exactly 1 stands at the last double below it, and stays finite
    edge = 1.0 - np.finfo(np.float64).epsneg
    return np.arctanh(np.clip(value, -edge, edge))


IDENTITY = Scale(lambda value: value, lambda value: value)
LOG = Scale(np.log, np.exp)
ATANH = Scale(_clipped_atanh, np.tanh)


def effective_blocks(weights: Array) -> Array:
    """Number of even blocks that would carry as much: (sum w)^2 / sum w^2 over the last axis.

    Args:
        weights: one weight a block, not all zero.  # [..., blocks]
    """
    return np.asarray(weights.sum(axis=-1) ** 2 / (weights**2).sum(axis=-1))


def jackknife(
    value: Array, left_out: Array, *, degrees: Array, level: float, scale: Scale
) -> Bounds:
    """Two-sided jackknife-t interval with coverage `level`; ends may overflow to infinity.

    Args:
        value: the statistic of all units.  # [...]
        left_out: the statistic without each of them.  # [..., units]
        degrees: degrees of freedom.  # [...]
        level: coverage.
        scale: where the deviations are taken; every value must lie in its domain.
    """
    units = left_out.shape[-1]
    with np.errstate(over="ignore"):
        centre = scale.forward(value)
        deviation = scale.forward(left_out) - centre[..., None]
        variance = (units - 1) / units * (deviation**2).sum(axis=-1)
        half = student(level, degrees) * np.sqrt(variance)
        return Bounds(scale.back(centre - half), scale.back(centre + half))


def leave_one_out(column: Array, total: Array) -> Array:
    """Sum of a column without each of its blocks.  # [..., blocks], [...] -> [..., blocks]"""
    return np.asarray(total[..., None] - column)
