"""Which directions of a rotation the data determine.

R maps B to A, so a direction v of A is R v in B's frame (a column; as a row v R^T). A right
singular vector v of the centred cross-moment C = A_B^T A_A of all the data is stable if the
rotations R_1 and R_2, fitted on two halves of it apart, carry v to one place: (R_1 v).(R_2 v) is
at least 0.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.gauge.fit import svd
from harness.statistics.identity_share import polar
from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


def stable_directions(
    whole: Array, halves: tuple[Array, Array], *, agreement: float = 0.9, relative: float = 1e-6
) -> int:
    """Number of right singular vectors v_i of `whole` with (R_1 v_i).(R_2 v_i) >= `agreement`.

    Directions without data do not count: their singular value is at most `relative` of the largest,
    and the rotations of the halves are arbitrary there. Two arbitrary completions of m dimensions
    agree by chance: always or never with probability 1/2 each for m = 1 (only the sign is free),
    with .14 a direction for m = 2, .05 for m = 3, and hardly beyond. What noise above the cut-off
    adds in the last one or two dimensions is such chance, so a count that reaches d means little
    more than d - 1.

    Args:
        whole: C, [d, d], other by reference.
        halves: the same of two halves of the data; R_h is the polar factor of each.
        agreement: least inner product of the two images.
        relative: cut-off of a singular value, as a share of the largest.
    """
    _, values, vt = svd(whole)
    first, second = (polar(half) @ vt.T for half in halves)  # columns: R_h v_i
    products = (first * second).sum(0)
    return int(np.count_nonzero((products >= agreement) & (values > relative * values[0])))


def smallest_gap(singular_values: Array, k: int) -> float:
    """min_{i <= k} (s_i - s_{i+1}) / s_1, over the first k values, descending; k + 1 may not exist.

    Where it is small, the directions themselves turn easily into one another.

    Raises:
        ValueError: there are fewer than k values.
        UndefinedError: k = 0, all values are zero, or there is but one value.

    >>> smallest_gap(np.array([4.0, 3.0, 1.0]), 2)
    0.25
    """
    s = np.asarray(singular_values, np.float64)
    if not 0 <= k <= len(s):
        raise ValueError(f"expected k between 0 and {len(s)}, got {k}")
    if k == 0:
        raise UndefinedError("the smallest gap is undefined where no direction is stable")
    gaps = -np.diff(s[: k + 1])
    if not len(gaps) or not s[0] > 0:
        raise UndefinedError("the smallest gap is undefined without two values, one of them not 0")
    return float(gaps.min() / s[0])
