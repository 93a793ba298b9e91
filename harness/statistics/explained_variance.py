"""Explained variance, from sums.

EV = 1 - sum |x - x^|^2 / sum |x - mean|^2, pooled over all tokens and dimensions, with the mean per
dimension over the evaluated tokens. The mean predictor scores 0, a perfect one 1, nothing more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.statistics.undefined import UndefinedError


def explained_variance(predicted: ArrayLike, actual: ArrayLike) -> float:
    """EV of `predicted` against `actual`, both [tokens, d].

    Raises:
        ValueError: the shapes differ.
        UndefinedError: `actual` does not vary.

    >>> explained_variance([[1.0], [1.0]], [[0.0], [2.0]])
    0.0
    """
    x_hat, x = np.asarray(predicted, np.float64), np.asarray(actual, np.float64)
    if x_hat.shape != x.shape:
        raise ValueError(f"expected two arrays of one shape, got {x_hat.shape} and {x.shape}")
    residual = float(np.square(x - x_hat).sum())
    total = float(np.square(x - x.mean(0)).sum())
    return from_sums(residual=residual, total=total)


def from_sums(*, residual: float, total: float) -> float:
    """EV from the summed squared residual and the summed squared deviation from the mean."""
    return 1.0 - unexplained(residual=residual, total=total)


def unexplained(*, residual: float, total: float) -> float:
    """1 - EV, without the rounding of 1.

    Raises:
        UndefinedError: the target does not vary.
    """
    if not total > 0:
        raise UndefinedError("explained variance is undefined where the target does not vary")
    return residual / total
