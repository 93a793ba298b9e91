"""Bars C and Pr as scalars: predicted effects of the spec against measured ones of the model.

The unit is component x class of positions x output head (for Pr, each by two interventions). Units
are pooled after centring within (class x head); the columns are those that the judge's correlation
estimators read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray

from harness.bars.catalogue import CLASSES
from harness.bars.effects import Array, Effects
from harness.measured import Measured
from harness.statistics import agreement
from harness.statistics.undefined import UndefinedError
from harness.streams import generator

MOST_LABELLINGS = 5040
"""Where heads can be relabelled in more ways than these, as many are drawn at random."""

Formula = Callable[[Array, Array], float]

FORMULAS: dict[str, Formula] = {
    "pearson": lambda p, m: float(agreement.pearson(p, m)),
    "spearman": agreement.spearman,
    "slope": agreement.slope,
    "nrmse": agreement.nrmse,
}
"""Of mean effects, [units, groups] each."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Predicted against measured effects of one case.

    Attributes:
        predicted: of the spec.
        measured: of the model, by intervention.
        labels: for each of the spec's components, the number of the model's that stands for it.
        sign: 1 for effects on log-probabilities, -1 for losses.
        incomplete: why the prediction is not to be relied on, if it is not.
    """

    predicted: Effects
    measured: Mapping[str, Effects]
    labels: tuple[int, ...]
    sign: float = 1.0
    incomplete: str | None = None

    def scalar(self, statistic: str, formula: str) -> Measured:
        """One of `FORMULAS`, over all units."""
        return self._made(statistic, lambda: FORMULAS[formula](*self._means()), self._columns())

    def pooled(self, statistic: str) -> Measured:
        """Pearson's r with one unit a component: its mean over positions and heads."""
        sides = {"predicted": self.predicted, "measured": self._relabelled[0]}
        columns = {
            f"{side}/all/{component}": self.sign * one.sums[:, number].sum(1).mean(-1)
            for number, component in enumerate(self.predicted.components)
            for side, one in sides.items()
        }
        weight = self.predicted.weight.sum(1)
        columns |= {f"weight/all/{component}": weight for component in self.predicted.components}
        p, m = (self.sign * one.totals()[:, None] for one in sides.values())
        return self._made(statistic, lambda: FORMULAS["pearson"](p, m), columns)

    def leverage(self, statistic: str) -> Measured:
        """The largest leverage of one unit; exact."""
        return self._made(statistic, lambda: agreement.leverage(self._means()[0]), None)

    def labellings(self, statistic: str, *, kinds: Sequence[Sequence[str]], seed: int) -> Measured:
        """r, and for its draws r under every other assignment of heads within their layers.

        Args:
            statistic: its id.
            kinds: components that differ in the number of their head alone, together.
            seed: of the stream that draws assignments, where there are too many to try all.
        """
        components = self.predicted.components
        numbers = [[components.index(c) for c in kind] for kind in kinds]
        orders = _labellings(numbers, count=len(components), seed=seed)
        if self.incomplete is not None:
            return Measured(statistic, None, undefined=self.incomplete)
        if not len(orders):
            return Measured(statistic, None, undefined="no two components that can be exchanged")
        try:
            p, m = self._means()
            starts = range(0, len(m), len(components))
            whole = np.concatenate([orders + start for start in starts], axis=1)
            others = agreement.pearson(p, m[whole])
            return Measured(
                statistic,
                None,
                value=FORMULAS["pearson"](p, m),
                draws=tuple(float(r) for r in others),
            )
        except UndefinedError as error:
            return Measured(statistic, None, undefined=str(error))

    @property
    def _relabelled(self) -> list[Effects]:
        """What was measured, in the order of the spec's components."""
        chosen = list(self.labels)
        return [
            Effects(self.predicted.components, one.heads, one.sums[:, chosen], one.weight)
            for one in self.measured.values()
        ]

    def _means(self) -> tuple[Array, Array]:
        """Mean effects, [interventions x components, groups] each; groups without data left out."""
        measured = [one.means() for one in self._relabelled]
        predicted = [self.predicted.means()] * len(measured)
        p, m = (
            self.sign * np.concatenate(side).reshape(len(side) * len(side[0]), -1)
            for side in (predicted, measured)
        )
        seen = ~np.isnan(p[0])
        return p[:, seen], m[:, seen]

    def _columns(self) -> dict[str, Array]:
        """Columns of every unit that has positions."""
        columns: dict[str, Array] = {}
        several = len(self.measured) > 1
        for name, measured in zip(self.measured, self._relabelled, strict=True):
            for place, head, number in product(
                range(len(CLASSES)),
                range(len(measured.heads)),
                range(len(measured.components)),
            ):
                weight = measured.weight[:, place]
                if not weight.any():
                    continue
                component = measured.components[number]
                unit = f"{name}/{component}" if several else component
                key = f"{CLASSES[place]}.{measured.heads[head]}/{unit}"
                columns[f"predicted/{key}"] = (
                    self.sign * self.predicted.sums[:, number, place, head]
                )
                columns[f"measured/{key}"] = self.sign * measured.sums[:, number, place, head]
                columns[f"weight/{key}"] = weight
        return columns

    def _made(
        self, statistic: str, value: Callable[[], float], columns: Mapping[str, Array] | None
    ) -> Measured:
        """The scalar, or why there is none."""
        if self.incomplete is not None:
            return Measured(statistic, None, undefined=self.incomplete)
        try:
            return Measured(statistic, None, value=value(), columns=columns)
        except UndefinedError as error:
            return Measured(statistic, None, undefined=str(error))


def completeness(integral: Effects, effect: Effects) -> float:
    """Largest |integral - effect| of a component over the largest |effect|.

    By completeness an integral over the whole path is the effect of going there at once; what is
    left is the error of the quadrature. Of each component the mean over positions and heads.

    Raises:
        UndefinedError: no component has an effect, or nothing was measured.
    """
    if not effect.weight.any():
        raise UndefinedError("no sequence has another one in its block to be paired with")
    own = effect.totals()
    largest = float(np.abs(own).max())
    if largest == 0.0:
        raise UndefinedError("no component has an effect")
    return float(np.abs(integral.totals() - own).max()) / largest


def _labellings(kinds: Sequence[Sequence[int]], *, count: int, seed: int) -> NDArray[np.intp]:
    """Orders of all components in which those of a kind have changed places, [labellings, count].

    All but the own one where there are at most `MOST_LABELLINGS`; else that many at random.
    """
    kinds = [list(kind) for kind in kinds if len(kind) > 1]
    if not kinds:
        return np.empty((0, count), dtype=np.intp)
    if prod(factorial(len(kind)) for kind in kinds) <= MOST_LABELLINGS:
        chosen = list(product(*(permutations(kind) for kind in kinds)))[1:]  # the first is its own
    else:
        rng = generator(seed, "labellings")
        chosen = [
            tuple(tuple(rng.permutation(kind)) for kind in kinds) for _ in range(MOST_LABELLINGS)
        ]
    orders = np.tile(np.arange(count), (len(chosen), 1))
    for column, kind in enumerate(kinds):
        orders[:, kind] = [row[column] for row in chosen]
    return orders
