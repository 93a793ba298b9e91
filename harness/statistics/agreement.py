"""Predicted against measured effects: r, its relatives, and what a single unit does to them.

For p and m, [units], both centred within their groups:

    pearson   r = sum p m / sqrt(sum p^2 sum m^2)
    spearman  r of the ranks (ties share their mean rank)
    slope     b = sum p m / sum p^2
    nrmse     e = sqrt(sum (p - m)^2 / sum m^2)
    leverage  h = max p_i^2 / sum p^2: the largest share of one unit in the slope's own weight
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


def centred(values: Array) -> Array:
    """Values minus the mean of their group, [..., units, groups]: groups are the columns."""
    return np.asarray(values - values.mean(axis=-2, keepdims=True))


def pearson(predicted: Array, measured: Array) -> Array:
    """r over all units and groups, [...]; one value for each of the leading axes.

    Args:
        predicted: [..., units, groups]
        measured: same shape, or one that broadcasts to it.

    Raises:
        UndefinedError: one of the two does not vary within any group.
    """
    p, m = centred(predicted), centred(measured)
    _insist_on_spread(predicted, p, side="predicted")
    _insist_on_spread(measured, m, side="measured")
    product = (p * m).sum((-2, -1))
    return np.asarray(product / np.sqrt((p**2).sum((-2, -1)) * (m**2).sum((-2, -1))))


def spearman(predicted: Array, measured: Array) -> float:
    """Pearson's r of the ranks of the centred values, [units, groups] each."""
    from scipy.stats import rankdata

    p, m = (rankdata(centred(side).ravel())[:, None] for side in (predicted, measured))
    return float(pearson(p, m))


def slope(predicted: Array, measured: Array) -> float:
    """Measured on predicted, [units, groups] each: 1 where the sizes are right."""
    p, m = centred(predicted), centred(measured)
    _insist_on_spread(predicted, p, side="predicted")
    return float((p * m).sum() / (p * p).sum())


def nrmse(predicted: Array, measured: Array) -> float:
    """Root of the squared error over the squared measured effects, [units, groups] each."""
    p, m = centred(predicted), centred(measured)
    _insist_on_spread(measured, m, side="measured")
    return float(np.sqrt(((p - m) ** 2).sum() / (m * m).sum()))


def leverage(predicted: Array) -> float:
    """Largest share of one unit in sum p^2, [units, groups]."""
    p = centred(predicted)
    _insist_on_spread(predicted, p, side="predicted")
    return float((p * p).max() / (p * p).sum())


def _insist_on_spread(raw: Array, spread: Array, *, side: str) -> None:
    if np.abs(spread).max() <= 64.0 * np.finfo(np.float64).eps * np.abs(raw).max():
        raise UndefinedError(f"constant input: the {side} effects do not differ within any group")
