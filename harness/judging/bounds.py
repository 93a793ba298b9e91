"""Interval kernels: columns in, ends out; any number of replicates along leading axes at once.

Scales, chosen by what the columns make certain and never by the value alone: where no block sum of
numerator or denominator is negative, the ratio is positive by construction and its interval is
taken on the log scale (of 1 - EV for an explained variance); otherwise on the identity. A ratio
that merely came out positive stays on the identity: its logarithm would exclude 0 by fiat.
Correlations are taken on the atanh scale, slopes on the identity. Exact zeros (the model against
itself) have no logarithm and no spread: the identity gives them an interval of zero width.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from harness.judging import correlations, rare_errors
from harness.judging.correlations import Units
from harness.judging.estimators import FORMULAS, Formula, ratio_of, total
from harness.judging.jackknife import (
    ATANH,
    IDENTITY,
    LOG,
    Array,
    Bounds,
    Scale,
    block_jackknife,
    effective_blocks,
    jackknife,
    leave_one_out,
)
from harness.judging.quantiles import student
from prereg.resolved import Estimator

_BODY = ratio_of("body", "positions")
_CAPPED = ratio_of("capped", "positions")


def sum_bounds(
    estimator: Estimator,
    columns: Mapping[str, Array],
    *,
    parameters: Mapping[str, float],
    level: float,
) -> Bounds:
    """Two-sided interval of an estimator that has a `Formula`.

    `ratio_fieller`: `fieller_bounds`. `rare_mean`: as derived in `rare_errors`. All others:
    jackknife-t.

    Args:
        estimator: a key of `FORMULAS`.
        columns: its columns.  # each [..., blocks]
        parameters: `tau` and `c` for `rare_mean`.
        level: coverage.
    """
    if estimator == "ratio_fieller":
        return fieller_bounds(columns["numerator"], columns["denominator"], level=level)
    if estimator == "rare_mean":
        tau, ceiling = rare_errors.constants(parameters)
        return _rare_bounds(columns, tau=tau, ceiling=ceiling, level=level)
    formula = FORMULAS[estimator]
    inner = _inner_bounds(formula, columns, level=level)
    if formula.complement:
        return Bounds(formula.value(inner.high), formula.value(inner.low))
    return inner


def _rare_bounds(
    columns: Mapping[str, Array], *, tau: float, ceiling: float, level: float
) -> Bounds:
    """The interval of `rare_mean`; every error that is spent here is derived in `rare_errors`."""
    side = (1.0 - level) / 2.0
    body_high = _inner_bounds(_BODY, columns, level=1.0 - side).high
    high = body_high + rare_errors.tail_upper(columns, ceiling=ceiling, error=side / 2.0)
    body_low = _inner_bounds(_BODY, columns, level=1.0 - side / 2.0).low
    rare = body_low + rare_errors.tail_lower(columns, tau=tau, error=side / 4.0)
    capped = _inner_bounds(_CAPPED, columns, level=1.0 - side).low
    common = rare_errors.large_errors_are_common(columns)
    return Bounds(np.where(common, np.maximum(rare, capped), rare), high)


def fieller_bounds(numerator: Array, denominator: Array, *, level: float) -> Bounds:
    """Fieller's interval of a ratio of sums, infinite where the denominator is not clear of zero.

    The values r with (N - r D)^2 <= t^2 var(N - r D), with the jackknife covariances of the sums
    N and D, var(N) = n / (n - 1) sum_i (N_i - mean)^2, and t as for the jackknife-t of D.

    Args:
        numerator: per-block sums.  # [..., blocks]
        denominator: per-block sums.  # [..., blocks]
        level: coverage.
    """
    t2 = student(level, effective_blocks(denominator) - 1.0) ** 2
    N, D = total(numerator), total(denominator)
    a = D * D - t2 * _covariance(denominator, denominator)
    b = N * D - t2 * _covariance(numerator, denominator)
    c = N * N - t2 * _covariance(numerator, numerator)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(np.maximum(b * b - a * c, 0.0)) / a
        centre = b / a
    bounded = a > 0.0
    return Bounds(
        np.where(bounded, centre - half, -np.inf), np.where(bounded, centre + half, np.inf)
    )


def sum_interval_of_total(column: Array, *, level: float) -> Bounds:
    """Jackknife-t interval of the sum of a column: is a denominator clear of zero?"""
    half = student(level, effective_blocks(column) - 1.0) * np.sqrt(_covariance(column, column))
    return Bounds(total(column) - half, total(column) + half)


def paired_bounds(estimator: Estimator, data: Units, *, level: float) -> Bounds:
    """The wider, on either side, of a block jackknife-t and a delete-one-component jackknife-t.

    Blocks stand for the samples, components for the parts of the model: an r over few components is
    no better known than its few components allow, however many samples there are. The component
    jackknife has (number of components) - 1 degrees of freedom.
    """
    value = correlations.statistic(estimator, *data.means(), groups=data.groups)
    by_block = correlations.statistic(estimator, *data.means_left_out(), groups=data.groups)
    parts = [data.without(name) for name in sorted(set(data.components))]
    by_component = np.stack(
        [correlations.statistic(estimator, *part.means(), groups=part.groups) for part in parts],
        axis=-1,
    )
    scale = _paired_scale(estimator, min(value.min(), by_block.min(), by_component.min()))
    blocks = block_jackknife(
        value,
        by_block,
        degrees=effective_blocks(data.weight.sum(axis=-1)) - 1.0,
        level=level,
        scale=scale,
    )
    components = jackknife(
        value, by_component, degrees=np.asarray(len(parts) - 1.0), level=level, scale=scale
    )
    return Bounds(np.fmin(blocks.low, components.low), np.fmax(blocks.high, components.high))


def is_positive(formula: Formula, columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Whether no block sum is negative, so that the ratio is positive by construction.  # [...]"""
    names = (*formula.numerators, *formula.denominators)
    signs = np.stack([(columns[name] >= 0.0).all(axis=-1) for name in names])
    return np.asarray(signs.all(axis=0) & bool(formula.numerators))


def _inner_bounds(formula: Formula, columns: Mapping[str, Array], *, level: float) -> Bounds:
    used = {name: columns[name] for name in formula.columns}
    sums = {name: total(column) for name, column in used.items()}
    value = formula.inner(sums)
    left_out = formula.inner(
        {name: leave_one_out(column, sums[name]) for name, column in used.items()}
    )
    carried = [effective_blocks(columns[name]) for name in formula.denominators]
    degrees = np.minimum.reduce(carried) - 1.0
    plain = block_jackknife(value, left_out, degrees=degrees, level=level, scale=IDENTITY)
    positive = is_positive(formula, columns) & (value > 0.0) & (left_out > 0.0).all(axis=-1)
    logarithmic = block_jackknife(
        np.where(positive, value, 1.0),
        np.where(positive[..., None], left_out, 1.0),
        degrees=degrees,
        level=level,
        scale=LOG,
    )
    return Bounds(
        np.where(positive, logarithmic.low, plain.low),
        np.where(positive, logarithmic.high, plain.high),
    )


def _paired_scale(estimator: Estimator, smallest: float) -> Scale:
    if estimator in ("pearson", "spearman"):
        return ATANH
    return LOG if estimator == "nrmse" and smallest > 0.0 else IDENTITY


def _covariance(first: Array, second: Array) -> Array:
    n = first.shape[-1]
    a = first - first.mean(axis=-1, keepdims=True)
    b = second - second.mean(axis=-1, keepdims=True)
    return np.asarray(n / (n - 1) * (a * b).sum(axis=-1))
