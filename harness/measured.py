"""What measuring one case yields, and how it becomes evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.corpora.catalogue import Corpus
from harness.judging.evidence import EvidenceRecord, Undefined
from harness.suite import Wanted
from prereg.resolved import StatisticSpec


@dataclass(frozen=True)
class Measured:
    """One scalar of one case.

    Exactly one of `value`, `bounds` and `undefined` is given. `columns` are per-block sums,
    [blocks] each, of which `value` is the statistic's own function, computed apart from the
    judge's; `draws` are what `value` is held against, where its estimator reads some.
    """

    statistic: str
    site: str | None
    value: float | None = None
    columns: Mapping[str, NDArray[np.float64]] | None = None
    undefined: str | None = None
    arm: str | None = None
    draws: tuple[float, ...] | None = None
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Context:
    """What a suite's `measure` is given beside the cases."""

    corpus: Corpus
    block_size: int
    plan: Any  # the suite's own subclass of Plan
    wanted: Wanted | tuple[Wanted, ...]  # for all cases, or for each; the rest may be left out
    seed: int  # root of the streams of what a statistic itself draws
    trainer_options: Mapping[str, Any]
    memory: dict[Any, Any] = field(default_factory=dict)
    """What measuring keeps between the calls of one attempt, by what it is a function of."""

    def wanted_of(self, case: int) -> Wanted:
        """What is to be measured of the case of that number."""
        return self.wanted[case] if isinstance(self.wanted, tuple) else self.wanted


def record(found: Measured, *, spec: StatisticSpec, pair: str | None, case: str) -> EvidenceRecord:
    """The evidence of a case that is measured once."""
    columns = found.columns if found.undefined is None else None
    return EvidenceRecord(
        statistic=found.statistic,
        site=found.site,
        pair=pair,
        arm=found.arm,
        case=case,
        estimator=spec.estimator,
        value=found.value,
        blocks=None if columns is None else tuple(range(len(next(iter(columns.values()))))),
        columns=None
        if columns is None
        else {name: tuple(float(x) for x in column) for name, column in columns.items()},
        draws=found.draws,
        bounds=found.bounds,
        undefined=found.undefined,
    )


def draws_record(
    found: Sequence[Measured], *, spec: StatisticSpec, pair: str | None, case: str
) -> EvidenceRecord:
    """The evidence of a random control: one scalar a draw, all of one statistic, site and arm."""
    first = found[0]
    return EvidenceRecord(
        statistic=first.statistic,
        site=first.site,
        pair=pair,
        arm=first.arm,
        case=case,
        estimator=spec.estimator,
        draws=tuple(
            Undefined(undefined=draw.undefined or "no value") if draw.value is None else draw.value
            for draw in found
        ),
    )
