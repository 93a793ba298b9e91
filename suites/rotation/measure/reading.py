"""Readings: statistics as functions of per-block sums, and the meter that takes the sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.measured import Measured
from harness.runners.measure import BlockSums, View
from harness.statistics.explained_variance import from_sums, unexplained
from harness.statistics.undefined import UndefinedError

Column = Callable[[View], Tensor]
"""What each token of a batch adds to a column, [tokens]."""

Sums = Mapping[str, float]


class Place(NamedTuple):
    """Which scalar is read."""

    statistic: str
    site: str
    arm: str | None = None

    def measured(
        self, value: Callable[[], float], columns: Mapping[str, NDArray[np.float64]] | None = None
    ) -> Measured:
        """The scalar and its columns (none: it is exact), or undefined with the reason."""
        at = partial(Measured, self.statistic, self.site, arm=self.arm)
        try:
            return at(value=value(), columns=columns)
        except UndefinedError as error:
            return at(undefined=str(error))


@dataclass(frozen=True)
class Reading:
    """A scalar, the columns that it is a function of, and the function.

    `value` is computed from whole sums apart from the judge, who recomputes it from the blocks.
    """

    place: Place
    columns: Mapping[str, Column]
    value: Callable[[Sums], float]


class ReadingMeter(BlockSums):
    """The columns of any number of readings, per block and over its tokens."""

    def __init__(self, readings: Sequence[Reading], *, blocks: int) -> None:
        super().__init__(
            blocks=blocks,
            columns=[f"{i}/{name}" for i, r in enumerate(readings) for name in r.columns],
        )
        self.readings = tuple(readings)
        self._addends = [column for r in readings for column in r.columns.values()]

    def observe(self, view: View) -> None:
        """Adds one batch."""
        if self._addends:
            columns = [column(view).double() for column in self._addends]
            self.add(view.slots, torch.stack(columns, dim=1))

    def measured(self) -> list[Measured]:
        """Every reading's value and columns."""
        sums = self.by_column()
        found = []
        for i, reading in enumerate(self.readings):
            columns = {name: sums[f"{i}/{name}"] for name in reading.columns}
            totals = {name: float(column.sum()) for name, column in columns.items()}
            found.append(reading.place.measured(partial(reading.value, totals), columns))
        return found


def ev(sums: Sums) -> float:
    """1 - residual / total."""
    return from_sums(residual=sums["residual"], total=sums["total"])


def ev_difference(sums: Sums) -> float:
    """EV_a - EV_b = residual_b / total_b - residual_a / total_a."""
    return unexplained(residual=sums["residual_b"], total=sums["total_b"]) - unexplained(
        residual=sums["residual_a"], total=sums["total_a"]
    )
