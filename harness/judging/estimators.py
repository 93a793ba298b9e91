"""Values: each estimator's statistic, recomputed from the columns of an evidence record.

Columns hold one number a block; `sum` runs over blocks. Names are used exactly.

- `mean`: columns `total`, `weight`; value = sum total / sum weight.
- `ratio`, `ratio_fieller`: `numerator`, `denominator`; value = sum numerator / sum denominator.
- `one_minus_ratio`: `residual`, `total`; value = 1 - sum residual / sum total.
- `difference`: `residual_a`, `total_a`, `residual_b`, `total_b`; value = (1 - sum residual_a /
  sum total_a) - (1 - sum residual_b / sum total_b).
- `rare_mean`: `body`, `tail`, `capped`, `positions`, `sequences`, `exceeding`, `largest`,
  `shortest` (`rare_errors.py`); value = (sum body + sum tail) / sum positions.
- `pearson`, `spearman`, `slope`, `nrmse`: `predicted/G/U`, `measured/G/U`, `weight/G/U` for every
  unit U of group G (`correlations.py`).
- `exact`: a value, of zero width. `bracket`: bounds, and no point. `draws`: a value and the draws
  of its null. `value_minus_median`: a value and draws; value - median of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from harness.judging import correlations
from harness.judging.evidence import EvidenceRecord, Undefined
from harness.judging.jackknife import Array
from prereg.errors import IncompleteError, IntegrityError
from prereg.resolved import Estimator

STATED_TOLERANCE = 1e-9
"""Largest difference between stated and recomputed value, relative to the terms of the value."""

Sums = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Formula:
    """A statistic as an elementwise function of column sums.

    The value is `inner`, or 1 - `inner` where `complement` is set. `numerators` names the columns
    whose block sums, if none of them is negative, make `inner` positive by construction.
    """

    columns: tuple[str, ...]
    numerators: tuple[str, ...]
    denominators: tuple[str, ...]
    inner: Callable[[Sums], Array]
    complement: bool = False

    def value(self, inner: Array) -> Array:
        """The statistic, from the inner quantity."""
        return 1.0 - inner if self.complement else inner


def ratio_of(numerator: str, denominator: str, *, complement: bool = False) -> Formula:
    """The quotient of two column sums, or one minus it."""
    return Formula(
        columns=(numerator, denominator),
        numerators=(numerator,),
        denominators=(denominator,),
        inner=lambda sums: sums[numerator] / sums[denominator],
        complement=complement,
    )


FORMULAS: dict[Estimator, Formula] = {
    "mean": ratio_of("total", "weight"),
    "ratio": ratio_of("numerator", "denominator"),
    "ratio_fieller": ratio_of("numerator", "denominator"),
    "one_minus_ratio": ratio_of("residual", "total", complement=True),
    "difference": Formula(
        columns=("residual_a", "total_a", "residual_b", "total_b"),
        numerators=(),
        denominators=("total_a", "total_b"),
        inner=lambda s: s["residual_b"] / s["total_b"] - s["residual_a"] / s["total_a"],
    ),
    "rare_mean": Formula(
        columns=(
            *("body", "tail", "capped", "positions"),
            *("sequences", "exceeding", "largest", "shortest"),
        ),
        numerators=("body", "tail"),
        denominators=("positions",),
        inner=lambda sums: (sums["body"] + sums["tail"]) / sums["positions"],
    ),
}


def estimate_value(record: EvidenceRecord, parameters: Mapping[str, float]) -> float | Undefined:
    """The statistic of a record, recomputed from its column sums (formulae: this module).

    Args:
        record: one scalar of one case.
        parameters: the estimator's frozen constants. No value depends on them; intervals do.

    Raises:
        IntegrityError: if the record lacks what its estimator reads.
        IncompleteError: for an estimator that this version of the judge does not know.
    """
    if record.undefined is not None:
        return Undefined(undefined=record.undefined)
    if record.estimator == "bracket":
        return Undefined(undefined="a bracket has two bounds and no point between them")
    if record.estimator in ("exact", "draws", "value_minus_median"):
        return _value_without_columns(record)
    if record.estimator in correlations.CORRELATIONS:
        return correlations.paired_value(record.estimator, correlations.units(record))
    return _formula_value(record)


def check_stated(record: EvidenceRecord, parameters: Mapping[str, float]) -> None:
    """Refuse a record whose stated value is not the one that its columns give.

    Raises:
        IntegrityError: if the two differ by more than `STATED_TOLERANCE` times the size of the
            terms that the value is a sum of (so that a value near 0 is not held to rounding).
    """
    if record.columns is None or record.value is None:
        return
    value = estimate_value(record, parameters)
    if isinstance(value, Undefined):
        found = f"the value {record.value!r}, where the columns give none: {value.undefined}"
    elif abs(value - record.value) <= STATED_TOLERANCE * _magnitude(record):
        return
    else:
        found = f"the value {record.value!r}, where the columns give {value!r}"
    raise IntegrityError(
        f"{found} ({describe(record)})",
        expected=f"agreement to {STATED_TOLERANCE:g} of the terms of the value",
        fix="take the evidence file as the run wrote it, or run again",
        code="evidence.stated-value",
    )


def describe(record: EvidenceRecord) -> str:
    """The key of a record as a phrase."""
    return ", ".join(part for part in record.key if part is not None)


def formula_columns(record: EvidenceRecord) -> dict[str, Array]:
    """The columns of a record with a `Formula`, as arrays.  # each [blocks]

    Raises:
        IncompleteError: for an estimator that this version of the judge does not know.
        IntegrityError: if the columns are not exactly those of the estimator.
    """
    formula = FORMULAS.get(record.estimator)
    if formula is None:
        raise IncompleteError(
            f"the estimator `{record.estimator}` ({describe(record)})",
            expected=f"one that this judge knows: {', '.join(sorted(FORMULAS))}, ...",
            fix="judge with a version of prebench that has the estimator",
            code="judging.estimator",
        )
    found = record.columns or {}
    if set(found) != set(formula.columns):
        raise IntegrityError(
            f"the columns {sorted(found)} ({describe(record)})",
            expected=f"the columns of `{record.estimator}`: {sorted(formula.columns)}",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.columns",
        )
    return {name: np.asarray(found[name], dtype=np.float64) for name in formula.columns}


def total(column: Array) -> Array:
    """Sum over blocks; of a single record exactly rounded, so that no machine sums differently.

    # [..., blocks] -> [...]
    """
    if column.ndim > 1:
        return np.asarray(column.sum(axis=-1))
    try:
        return np.asarray(math.fsum(column))
    except OverflowError:
        raise IntegrityError(
            "a column whose sum overflows",
            expected="sums below 1e308",
            fix="run again: no statistic of this size was measured",
            code="evidence.overflow",
        ) from None


def _formula_value(record: EvidenceRecord) -> float | Undefined:
    columns = formula_columns(record)
    formula = FORMULAS[record.estimator]
    if not record.blocks:
        return Undefined(undefined="no block was evaluated")
    sums = {name: total(column) for name, column in columns.items()}
    for name in formula.denominators:
        if sums[name] == 0.0:
            return Undefined(undefined=f"`{name}` sums to zero: there is nothing to divide by")
    return float(formula.value(formula.inner(sums)))


def _value_without_columns(record: EvidenceRecord) -> float | Undefined:
    needs_draws = record.estimator != "exact"
    if record.value is None or (record.draws is not None) != needs_draws:
        form = "a value and the draws it is held against" if needs_draws else "a value alone"
        raise IntegrityError(
            f"a record of another form ({describe(record)})",
            expected=f"{form}, as `{record.estimator}` reads",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.form",
        )
    if record.estimator != "value_minus_median":
        return record.value
    draws = [draw for draw in record.draws or () if isinstance(draw, float)]
    missing = len(record.draws or ()) - len(draws)
    if missing or not draws:
        return Undefined(undefined=f"{missing} of {missing + len(draws)} draws are undefined")
    return record.value - median(draws)


def _magnitude(record: EvidenceRecord) -> float:
    """Size of the terms that the value is a sum of; at least that of the stated value."""
    stated = abs(record.value or 0.0)
    if record.estimator in correlations.CORRELATIONS:
        return max(1.0, stated)
    columns = formula_columns(record)
    formula = FORMULAS[record.estimator]
    sizes = {name: total(np.abs(column)) for name, column in columns.items()}
    if record.estimator == "difference":
        sizes["residual_a"] = -sizes["residual_a"]  # the two terms must not cancel here
    inner = abs(float(formula.inner(sizes)))
    return max(stated, inner + 1.0 if formula.complement else inner)
