"""Intervals: the estimate of one record, or of one value over several seeds, at a given level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.judging import bounds, correlations
from harness.judging.estimators import (
    FORMULAS,
    describe,
    estimate_value,
    formula_columns,
)
from harness.judging.evidence import EvidenceRecord, Undefined
from harness.judging.jackknife import (
    ATANH,
    IDENTITY,
    LOG,
    MIN_EFFECTIVE_BLOCKS,
    Array,
    Scale,
    effective_blocks,
    jackknife,
    leave_one_out,
)
from harness.judging.quantiles import median_rank
from harness.judging.verdict import Estimate
from prereg.errors import IntegrityError

MIN_COMPONENTS = 3


class _Ends(NamedTuple):
    low: float
    high: float
    effective_blocks: float | None


def interval(record: EvidenceRecord, parameters: Mapping[str, float], *, level: float) -> Estimate:
    """The value of a record with its two-sided interval, recomputed from the evidence.

    Kernels and scales are those of `bounds.py`. `exact` has zero width, `bracket` its own bounds;
    `value_minus_median` the distribution-free interval of the median of its draws, conditional on
    the evaluated samples; `draws` has a Monte-Carlo p-value instead of an interval.

    Args:
        record: one scalar of one case; not a random control.
        parameters: the estimator's frozen constants (`tau`, `c` for `rare_mean`).
        level: coverage.

    Returns:
        An estimate whose `undefined` says why there is no value or no interval: nothing evaluated,
        constant input, a denominator that is zero or not clear of it, fewer than
        `MIN_EFFECTIVE_BLOCKS` effective blocks, too few components or draws.

    Raises:
        IntegrityError: if the record lacks what its estimator reads.
        IncompleteError: for an estimator that this version of the judge does not know.
    """
    blocks = None if record.blocks is None else len(record.blocks)
    if record.estimator == "bracket" and record.undefined is None:
        low, high = _bracket(record)
        return Estimate(low=low, high=high, level=level)
    value = estimate_value(record, parameters)
    if isinstance(value, Undefined):
        return Estimate(blocks=blocks, undefined=value.undefined)
    if record.estimator == "draws":
        return Estimate(value=value, p_value=p_value(record))
    ends = _ends(record, parameters, value=value, level=level)
    if isinstance(ends, Undefined):
        return Estimate(value=value, blocks=blocks, undefined=ends.undefined)
    if not np.isfinite([ends.low, ends.high]).all():
        return Estimate(value=value, blocks=blocks, undefined="the interval has no end")
    return Estimate(
        value=value,
        low=min(ends.low, value),
        high=max(ends.high, value),
        level=level,
        blocks=blocks,
        effective_blocks=ends.effective_blocks,
    )


def pooled_interval(
    records: Sequence[EvidenceRecord], parameters: Mapping[str, float], *, level: float
) -> Estimate:
    """The mean over seeds of each seed's value, with a leave-one-seed-out jackknife-t interval.

    value = (1 / n) sum_s v_s; n - 1 degrees of freedom; on the log scale where the statistic is
    positive by construction (of 1 - EV for an explained variance), on the atanh scale for
    correlations, else on the identity, where it is Student's interval of the mean. What varies
    between the seeds' values inside one evaluation is part of their spread and needs no further
    term. The interval is conditional on the one reference that all pairs share.

    Args:
        records: one record a seed.
        parameters: the estimator's frozen constants.
        level: coverage.
    """
    values = [estimate_value(record, parameters) for record in records]
    for record, value in zip(records, values, strict=True):
        if isinstance(value, Undefined):
            return Estimate(blocks=len(records), undefined=f"{record.pair}: {value.undefined}")
    seeds = np.array(values, dtype=np.float64)
    mean = float(seeds.mean())
    if len(records) < 2:
        return Estimate(value=mean, blocks=1, undefined="one seed says nothing about the others")
    scale, sign, offset = _pooled_scale(records, seeds)
    inner = offset + sign * seeds
    centre = np.asarray(inner.mean())
    left_out = leave_one_out(inner, np.asarray(inner.sum())) / (len(inner) - 1)
    degrees = np.asarray(len(inner) - 1.0)
    ends = jackknife(centre, left_out, degrees=degrees, level=level, scale=scale)
    low, high = sorted((sign * (float(ends.low) - offset), sign * (float(ends.high) - offset)))
    if not np.isfinite([low, high]).all():
        return Estimate(value=mean, blocks=len(inner), undefined="the interval has no end")
    return Estimate(
        value=mean,
        low=min(low, mean),
        high=max(high, mean),
        level=level,
        blocks=len(inner),
        effective_blocks=float(len(inner)),
    )


def p_value(record: EvidenceRecord) -> float:
    """Monte-Carlo p-value (1 + exceedances) / (1 + draws) of a value among the draws of its null.

    A draw exceeds where it is at or above the value, or undefined: what is unknown counts against.
    """
    draws = record.draws or ()
    value = record.value if record.value is not None else -np.inf
    exceeding = sum(not isinstance(draw, float) or draw >= value for draw in draws)
    return (1 + exceeding) / (1 + len(draws))


def _ends(
    record: EvidenceRecord, parameters: Mapping[str, float], *, value: float, level: float
) -> _Ends | Undefined:
    if record.estimator == "exact":
        return _Ends(value, value, None)
    if record.estimator == "value_minus_median":
        return _median_ends(record, level=level)
    if record.estimator in correlations.CORRELATIONS:
        return _paired_ends(record, level=level)
    columns = formula_columns(record)
    formula = FORMULAS[record.estimator]
    effective = min(float(effective_blocks(columns[name])) for name in formula.denominators)
    if effective < MIN_EFFECTIVE_BLOCKS:
        return _too_few(effective)
    for name in formula.denominators:
        column = columns[name]
        ends = bounds.sum_interval_of_total(column, level=level)
        if (column < 0.0).any() and ends.low <= 0.0 <= ends.high:
            return Undefined(
                undefined=f"the denominator `{name}` is not clear of zero: its sum lies in "
                f"[{float(ends.low):.4g}, {float(ends.high):.4g}]"
            )
    if record.estimator == "rare_mean":
        _check_counts(record, columns)
    low, high = bounds.sum_bounds(record.estimator, columns, parameters=parameters, level=level)
    return _Ends(float(low), float(high), effective)


def _paired_ends(record: EvidenceRecord, *, level: float) -> _Ends | Undefined:
    data = correlations.units(record)
    effective = float(effective_blocks(data.weight.sum(axis=-1)))
    if effective < MIN_EFFECTIVE_BLOCKS:
        return _too_few(effective)
    alone = (data.weight.sum(axis=0) - data.weight <= 0.0).any(axis=0)
    if alone.any():
        name = data.names[int(np.argmax(alone))]
        return Undefined(undefined=f"the unit {name} has all its weight in one block")
    components = sorted(set(data.components))
    if len(components) < MIN_COMPONENTS:
        return Undefined(
            undefined=f"{len(components)} components: an interval needs {MIN_COMPONENTS}"
        )
    for name in components:
        reason = correlations.undefined_reason(data.without(name))
        if reason is not None:
            return Undefined(undefined=f"without the component {name}: {reason}")
    low, high = bounds.paired_bounds(record.estimator, data, level=level)
    return _Ends(float(low), float(high), effective)


def _median_ends(record: EvidenceRecord, *, level: float) -> _Ends | Undefined:
    draws = sorted(draw for draw in record.draws or () if isinstance(draw, float))
    rank = median_rank(len(draws), level=level)
    if rank == 0:
        return Undefined(undefined=f"{len(draws)} draws are too few for their median at {level:g}")
    value = record.value or 0.0
    return _Ends(value - draws[-rank], value - draws[rank - 1], None)


def _bracket(record: EvidenceRecord) -> tuple[float, float]:
    if record.bounds is None or record.bounds[0] > record.bounds[1]:
        raise IntegrityError(
            f"the bounds {record.bounds} ({describe(record)})",
            expected="a lower and an upper bound, as `bracket` reads",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.form",
        )
    return record.bounds


def _check_counts(record: EvidenceRecord, columns: Mapping[str, Array]) -> None:
    exceeding, sequences = columns["exceeding"], columns["sequences"]
    whole = (exceeding == np.rint(exceeding)) & (sequences == np.rint(sequences))
    if not (whole & (exceeding >= 0.0) & (exceeding <= sequences)).all():
        raise IntegrityError(
            f"columns `exceeding` and `sequences` that are no counts ({describe(record)})",
            expected="whole numbers, 0 <= exceeding <= sequences in every block",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.counts",
        )


def _pooled_scale(records: Sequence[EvidenceRecord], seeds: Array) -> tuple[Scale, float, float]:
    """Scale of the inner quantity offset + sign * value, whose mean over seeds is bounded."""
    estimator = records[0].estimator
    if estimator in ("pearson", "spearman"):
        return ATANH, 1.0, 0.0
    formula = FORMULAS.get(estimator)
    positive = estimator == "nrmse" or (
        formula is not None
        and all(bool(bounds.is_positive(formula, formula_columns(r))) for r in records)
    )
    sign, offset = (-1.0, 1.0) if formula is not None and formula.complement else (1.0, 0.0)
    if positive and (offset + sign * seeds > 0.0).all():
        return LOG, sign, offset
    return IDENTITY, 1.0, 0.0


def _too_few(effective: float) -> Undefined:
    return Undefined(
        undefined=f"{effective:.3g} effective blocks: below {MIN_EFFECTIVE_BLOCKS:g} an interval "
        "does not cover what it says"
    )
