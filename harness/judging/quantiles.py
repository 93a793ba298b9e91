"""Quantiles of the few distributions that decide: Student's t, the binomial, and the median's."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def student(level: float, degrees: ArrayLike) -> NDArray[np.float64]:
    """Half-width, in standard errors, of a two-sided t interval with coverage `level`.

    t with P(|T| <= t) = level, T of Student's distribution with `degrees` of freedom (any shape).

    >>> round(float(student(0.95, 4)), 3)
    2.776
    """
    from scipy.special import stdtrit  # costs more to import than the rest of a light verb

    return np.asarray(
        stdtrit(np.asarray(degrees, np.float64), (1.0 + level) / 2.0), dtype=np.float64
    )


def binomial_lower(count: ArrayLike, total: ArrayLike, *, error: float) -> NDArray[np.float64]:
    """Clopper-Pearson lower limit of a share: it exceeds the true one with chance <= `error`.

    The `error` quantile of Beta(count, total - count + 1); 0 where `count` is 0.
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(total, np.float64))
    limit = betaincinv(np.maximum(k, 1.0), n - np.maximum(k, 1.0) + 1.0, error)
    return np.where(k > 0, limit, 0.0)


def binomial_upper(count: ArrayLike, total: ArrayLike, *, error: float) -> NDArray[np.float64]:
    """Clopper-Pearson upper limit of a share: the true one exceeds it with chance <= `error`.

    The 1 - `error` quantile of Beta(count + 1, total - count); 1 where `count` is `total`.

    >>> round(float(binomial_upper(0, 32, error=0.05)), 3)
    0.089
    """
    k, n = np.asarray(count, np.float64), np.asarray(total, np.float64)
    return 1.0 - binomial_lower(n - k, n, error=error)


def median_rank(total: int, *, level: float) -> int:
    """Rank j such that [x_(j), x_(total + 1 - j)] covers the median with chance >= `level`.

    Distribution-free: the number of draws below the median is Binomial(total, 1/2), so j is the
    largest rank with P(Binomial <= j - 1) <= (1 - level) / 2. 0 if `total` draws are too few.

    >>> median_rank(32, level=0.95), median_rank(5, level=0.95)
    (10, 0)
    """
    from scipy.special import bdtr

    below = bdtr(np.arange(total, dtype=np.float64), total, 0.5)
    return int(np.count_nonzero(below <= (1.0 - level) / 2.0))
