"""The delete-one jackknife-t, on a scale that makes the statistic's spread even.

With theta the statistic of all n units, theta_(i) the one without unit i, g the scale, and q the
quantile of Student's t with as many degrees of freedom as there are effective units less one,

    d_i = g(theta_(i)) - g(theta)        var = (n - 1) / n * sum_i d_i^2
    [low, high] = g^-1( g(theta) -+ q sqrt(var) ).

Deviations are taken from g(theta), not from their mean: that adds the squared bias over n - 1 to
the variance and is therefore on the safe side.

Blocks: n_eff = (sum w)^2 / sum w^2 of the weights w that carry the statistic. The variance is a sum
of n squared deviations whose sizes go with the weights, a few heavy blocks carry it, and it is as
uncertain as one of n_eff even blocks (Satterthwaite); with even weights n_eff = n. Losses are
skewed, and then q is too small on one side: the ends become g(theta) - sqrt(var) h(+-q), where h
inverts Hall's cubic (P. Hall, J. R. Statist. Soc. B 54 (1992) 221), kappa the skewness of theta,

    T + kappa T^2 / 3 + kappa^2 T^3 / 27 + kappa / 6 = q,
    kappa = sum_i e_i^3 / (sum_i e_i^2)^(3/2),   e_i = mean_j d_j - d_i,
    h(q) = 3 y / (x^2 + x + 1),   y = q - kappa / 6,   x = (1 + kappa y)^(1/3).

Measured on losses of 20 blocks of 16 log-normal sequences with sigma 1.5, identity scale: coverage
at nominal .95 rises from .89 to .92, at .993 from .956 to .980; it costs nothing on even data.
No random number enters: two judges draw the same interval.
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

    For few units: seeds, components.

    Args:
        value: the statistic of all units.  # [...]
        left_out: the statistic without each of them.  # [..., units]
        degrees: degrees of freedom.  # [...]
        level: coverage.
        scale: where the deviations are taken; every value must lie in its domain.
    """
    with np.errstate(over="ignore"):
        centre, _, error = _spread(value, left_out, scale)
        half = student(level, degrees) * error
        return Bounds(scale.back(centre - half), scale.back(centre + half))


def block_jackknife(
    value: Array, left_out: Array, *, degrees: Array, level: float, scale: Scale
) -> Bounds:
    """The same with Hall's correction for skewness, for the many blocks of an evaluation."""
    with np.errstate(over="ignore"):
        centre, deviation, error = _spread(value, left_out, scale)
        influence = deviation.mean(axis=-1, keepdims=True) - deviation
        size = np.sqrt((influence**2).sum(axis=-1))
        relative = influence / np.where(size > 0.0, size, 1.0)[..., None]
        kappa = (relative**3).sum(axis=-1)
        quantile = student(level, degrees)
        return Bounds(
            scale.back(centre - error * _hall(quantile, kappa)),
            scale.back(centre - error * _hall(-quantile, kappa)),
        )


def _spread(value: Array, left_out: Array, scale: Scale) -> tuple[Array, Array, Array]:
    """g(theta), the deviations d, and sqrt(var)."""
    units = left_out.shape[-1]
    centre = scale.forward(value)
    deviation = scale.forward(left_out) - centre[..., None]
    return centre, deviation, np.sqrt((units - 1) / units * (deviation**2).sum(axis=-1))


def _hall(quantile: Array, kappa: Array) -> Array:
    """h: the inverse of Hall's cubic, in a form that has no cancellation where kappa is 0."""
    y = quantile - kappa / 6.0
    x = np.cbrt(1.0 + kappa * y)
    return np.asarray(3.0 * y / (x * x + x + 1.0))


def leave_one_out(column: Array, total: Array) -> Array:
    """Sum of a column without each of its blocks.  # [..., blocks], [...] -> [..., blocks]"""
    return np.asarray(total[..., None] - column)
