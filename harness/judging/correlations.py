"""Predicted against measured: correlations over units that are pooled after centring.

Columns `predicted/G/U`, `measured/G/U`, `weight/G/U` hold, for unit U of group G, per-block sums.
The mean of a unit is its sum over its weight; both means are centred within their group and pooled,
which gives p and m, one number a unit, every unit counting once:

    pearson   r     = sum p m / sqrt(sum p^2 sum m^2)
    spearman  rho   = pearson of the ranks of p and of m (ties share their mean rank)
    slope     b     = sum p m / sum p^2           (measured on predicted: 1 if the sizes are right)
    nrmse     e     = sqrt(sum (p - m)^2 / sum m^2)

The last path part of U is the unit's component: units of one component share its weights and are no
independent witnesses, which is why intervals also delete one component at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.judging.evidence import EvidenceRecord, Undefined
from harness.judging.jackknife import Array
from prereg.errors import IntegrityError
from prereg.resolved import Estimator

CORRELATIONS: tuple[Estimator, ...] = ("pearson", "spearman", "slope", "nrmse")
ROUNDING = 64.0 * np.finfo(np.float64).eps
"""Spread, relative to the largest mean, below which an input is constant up to rounding."""


@dataclass(frozen=True, slots=True)
class Units:
    """The columns of a correlation, units sorted by group."""

    groups: NDArray[np.intp]
    """Index of each unit's group, ascending.  # [units]"""
    components: tuple[str, ...]
    """Component of each unit."""
    names: tuple[str, ...]
    """`G/U` of each unit."""
    predicted: Array
    """Per-block sums.  # [..., blocks, units]"""
    measured: Array
    """Per-block sums.  # [..., blocks, units]"""
    weight: Array
    """Per-block sums.  # [..., blocks, units]"""

    def without(self, component: str) -> Units:
        """The units of all other components."""
        kept = np.array([name != component for name in self.components])
        return Units(
            groups=self.groups[kept],
            components=tuple(name for name in self.components if name != component),
            names=tuple(n for n, keep in zip(self.names, kept, strict=True) if keep),
            predicted=self.predicted[..., kept],
            measured=self.measured[..., kept],
            weight=self.weight[..., kept],
        )

    def means(self) -> tuple[Array, Array]:
        """Mean of every unit, predicted and measured, over all blocks.  # [..., units] each"""
        weight = self.weight.sum(axis=-2)
        return self.predicted.sum(axis=-2) / weight, self.measured.sum(axis=-2) / weight

    def means_left_out(self) -> tuple[Array, Array]:
        """The same without each block.  # [..., blocks, units] each"""
        weight = self.weight.sum(axis=-2, keepdims=True) - self.weight
        return (
            (self.predicted.sum(axis=-2, keepdims=True) - self.predicted) / weight,
            (self.measured.sum(axis=-2, keepdims=True) - self.measured) / weight,
        )


def units(record: EvidenceRecord) -> Units:
    """The units of a record.

    Raises:
        IntegrityError: if a column has another name, or a unit lacks one of its three columns.
    """
    columns = record.columns or {}
    split = {name: name.split("/") for name in columns}
    names = sorted({"/".join(parts[1:]) for parts in split.values()})
    wanted = {f"{kind}/{n}" for kind in ("predicted", "measured", "weight") for n in names}
    if wanted != set(columns) or any(len(parts) < 3 for parts in split.values()):
        odd = sorted(wanted ^ set(columns)) or sorted(columns)
        raise IntegrityError(
            f"the columns {odd[:3]} are missing or too many in `{record.estimator}`",
            expected="predicted/G/U, measured/G/U and weight/G/U for every unit",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.columns",
        )
    names.sort(key=lambda name: name.split("/"))
    groups = [name.split("/")[0] for name in names]
    order = {group: index for index, group in enumerate(dict.fromkeys(groups))}
    sums = {
        kind: _stack([columns[f"{kind}/{name}"] for name in names], len(record.blocks or ()))
        for kind in ("predicted", "measured", "weight")
    }
    return Units(
        groups=np.array([order[group] for group in groups], dtype=np.intp),
        components=tuple(name.split("/")[-1] for name in names),
        names=tuple(names),
        **sums,
    )


def paired_value(estimator: Estimator, data: Units) -> float | Undefined:
    """The statistic over all units and blocks of one record, or why there is none."""
    reason = undefined_reason(data)
    if reason is not None:
        return Undefined(undefined=reason)
    return float(statistic(estimator, *data.means(), groups=data.groups))


def undefined_reason(data: Units) -> str | None:
    """Why one record has no statistic: no block, a unit without weight, a constant input."""
    if not data.names or data.weight.shape[-2] == 0:
        return "no block was evaluated"
    empty = data.weight.sum(axis=-2) <= 0.0
    if empty.any():
        return f"the unit {data.names[int(np.argmax(empty))]} has no weight"
    for side, mean in zip(("predicted", "measured"), data.means(), strict=True):
        spread = np.abs(_centred(mean, data.groups)).max()
        if spread <= ROUNDING * np.abs(mean).max():
            return f"constant input: the {side} effects do not differ within any group"
    return None


def statistic(
    estimator: Estimator, predicted: Array, measured: Array, *, groups: NDArray[np.intp]
) -> Array:
    """The statistic of unit means (formulae: this module); units along the last axis.

    Args:
        estimator: which of `CORRELATIONS`.
        predicted: mean of every unit.  # [..., units]
        measured: mean of every unit.  # [..., units]
        groups: ascending index of each unit's group.  # [units]
    """
    p, m = _centred(predicted, groups), _centred(measured, groups)
    if estimator == "spearman":
        p, m = _ranks(p), _ranks(m)
        p, m = p - p.mean(axis=-1, keepdims=True), m - m.mean(axis=-1, keepdims=True)
    pp, mm, pm = (p * p).sum(axis=-1), (m * m).sum(axis=-1), (p * m).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # the caller looks at finiteness
        if estimator == "slope":
            return np.asarray(pm / pp)
        if estimator == "nrmse":
            return np.asarray(np.sqrt(((p - m) ** 2).sum(axis=-1) / mm))
        return np.asarray(np.clip(pm / np.sqrt(pp * mm), -1.0, 1.0))


def _stack(columns: Sequence[Sequence[float]], blocks: int) -> Array:
    return np.asarray(columns, dtype=np.float64).reshape(len(columns), blocks).T


def _centred(means: Array, groups: NDArray[np.intp]) -> Array:
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(starts, append=len(groups))
    centres = np.add.reduceat(means, starts, axis=-1) / sizes
    return np.asarray(means - np.repeat(centres, sizes, axis=-1))


def _ranks(values: Array) -> Array:
    """Ranks from 0 along the last axis; ties share the mean of their ranks."""
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    rises = np.ones(values.shape, dtype=bool)
    rises[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = np.ones(values.shape, dtype=bool)
    ends[..., :-1] = rises[..., 1:]
    first = np.maximum.accumulate(np.where(rises, place, 0), axis=-1)
    reverse = np.where(ends, place, values.shape[-1])[..., ::-1]
    last = np.minimum.accumulate(reverse, axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2.0, axis=-1)
    return ranks
