"""How well features are read off states by a linear map: R^2 on tokens that it was not fitted on.

R^2 = 1 - sum |y - y^|^2 / sum |y - mean|^2 over the evaluated tokens and the coordinates of a
feature y, with y^ = (x - mu_x) R + mu_y, where R, mu_x and mu_y are the least-squares ones of the
fitted tokens and mean is that of the evaluated ones. It can be negative. No invertible change of
basis of the states x changes it, as long as it does not stretch directions across `RESOLUTION`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.gauge.fit import Moments
from harness.statistics.explained_variance import from_sums
from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]

RESOLUTION = 1e-12
"""Share of the mean squared length below which the variance along a direction counts as nothing.

A millionth of the length is what single precision, in which models run, resolves. Of sums of
squares in fp64 such a variance is known to three digits; below it, what is read is rounding.
"""


def coefficients(fit: Moments) -> Array:
    """R, [d, k]: the least-squares map of centred x to centred y, zero where x does not vary.

    Args:
        fit: sums over the fitted tokens, with x as the other and y as the reference.
    """
    values, vectors = np.linalg.eigh(fit.covariance_other)
    kept = values > RESOLUTION * float(np.trace(fit.gram_other)) / fit.tokens
    basis = vectors[:, kept]
    return np.asarray(basis @ ((basis.T @ fit.centred_cross) / (values[kept, None] * fit.tokens)))


def held_out_r2(
    fit: Moments, evaluate: Moments, *, features: Sequence[slice]
) -> tuple[float | None, ...]:
    """R^2 of every feature; None for one that does not vary on the evaluated tokens.

    Args:
        fit: sums over the fitted tokens, with x as the other and y as the reference.
        evaluate: the same over the evaluated ones.
        features: for each, the columns of y that are its coordinates.
    """
    R = coefficients(fit)
    # mean of y - y^ over the evaluated tokens
    bias = evaluate.mean_reference - fit.mean_reference
    bias = bias - (evaluate.mean_other - fit.mean_other) @ R
    spread = evaluate.covariance_reference.diagonal()
    explained = 2 * (R * evaluate.centred_cross).sum(0) / evaluate.tokens
    explained = explained - (R * (evaluate.covariance_other @ R)).sum(0)
    residual = spread - explained + np.square(bias)
    return tuple(_r2(float(residual[c].sum()), float(spread[c].sum())) for c in features)


def _r2(residual: float, total: float) -> float | None:
    try:
        # rounding alone takes a sum of squares below zero
        return from_sums(residual=max(residual, 0.0), total=total)
    except UndefinedError:
        return None
