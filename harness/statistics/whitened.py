"""Explained variance that gives every principal component the same weight.

R^2_p = 1 - sum_t ((x_A - x~_B).e_p)^2 / sum_t ((x_A - mean).e_p)^2 for the unit vectors e_p,
p = 1..K, and the value is their mean over p. With e_p the reference's principal components that
hold 99 % of its variance, a few dominant directions do not decide it, as they decide a pooled
explained variance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


def whitened_r2(predicted: ArrayLike, actual: ArrayLike, basis: ArrayLike) -> float:
    """Mean R^2 of `predicted` against `actual`, both [tokens, d], over the columns of `basis`.

    Args:
        predicted: x~_B.
        actual: x_A; the mean is its own.
        basis: e_p, [d, K].

    Raises:
        ValueError: the shapes of the states differ.
        UndefinedError: K = 0, or `actual` does not vary along one of the e_p.

    >>> whitened_r2([[1.0, 1.0], [1.0, 3.0]], [[0.0, 1.0], [2.0, 3.0]], np.eye(2))
    0.5
    """
    x_hat, x = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if x_hat.shape != x.shape:
        raise ValueError(f"expected two arrays of one shape, got {x_hat.shape} and {x.shape}")
    e = np.asarray(basis, np.float64)
    residuals = np.square((x - x_hat) @ e).sum(0)
    totals = np.square((x - x.mean(0)) @ e).sum(0)
    return 1.0 - float(axis_weights(totals) @ residuals)


def axis_weights(totals: ArrayLike) -> Array:
    """w_p = 1 / (K totals_p), so that the value is 1 - sum_p w_p residual_p, [K].

    With the weights held fixed the value is linear in the residuals, and so a sum over blocks.

    Args:
        totals: sum_t ((x_A - mean).e_p)^2, [K].

    Raises:
        UndefinedError: K = 0, or a total is not positive.
    """
    t = np.asarray(totals, np.float64)
    if not len(t):
        raise UndefinedError("whitened R^2 is undefined without any principal component")
    if not bool((t > 0).all()):
        raise UndefinedError("whitened R^2 is undefined where the target does not vary on an axis")
    return np.asarray(1.0 / (len(t) * t))
