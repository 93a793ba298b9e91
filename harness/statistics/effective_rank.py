"""Effective rank: how many directions a cloud fills, counted by entropy.

exp(H) with H = -sum_i p_i log p_i and p_i the eigenvalues of the covariance divided by their sum:
d where all are equal, 1 where one holds everything. Source: Roy and Vetterli, "The effective rank:
a measure of effective dimensionality" (2007).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


def effective_rank(covariance: Array) -> float:
    """Effective rank of a covariance, [d, d], between 1 and d.

    Eigenvalues that rounding took below zero count as zero.

    Raises:
        UndefinedError: the covariance is zero.

    >>> effective_rank(np.diag([2.0, 2.0, 0.0]))
    2.0
    """
    values = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    total = float(values.sum())
    if not total > 0:
        raise UndefinedError("the effective rank is undefined where nothing varies")
    return float(np.exp(entr(values / total).sum()))
