"""Controls: where the same statistic stands on cases whose answer is known.

A single-valued control stands by its interval at the registered level. A random control is a
distribution, and stands by one-sided 95 % Clopper-Pearson limits of the share of its draws inside
the accepted region:

    outside   upper limit <= .10
    inside    lower limit >= .90      (must-fail: already where the lower limit > .10)
    undecided in between

An undefined draw is worth nothing to any proof: it counts as inside where *outside* is to be proven
and as outside where *inside* is. So it can turn a proof into *undecided*, never the reverse.
Evidence that is missing is `missing`: it proves nothing either.

Where the claim is about a p-value, the p-value is what is held against the region: a single-valued
control by the Clopper-Pearson limits of its p, a random control by the p-values that are its draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from harness.judging.estimators import describe
from harness.judging.evidence import EvidenceRecord
from harness.judging.intervals import interval, pooled_interval
from harness.judging.quantiles import binomial_lower, binomial_upper
from harness.judging.verdict import ControlOutcome, Estimate, Standing
from prereg.errors import IntegrityError
from prereg.regions import Region
from prereg.resolved import ControlRole, ControlSpec, StatisticSpec

LIMIT_ERROR = 0.05
"""Error of each one-sided Clopper-Pearson limit; the same at every registered level."""
FEW = 0.10
"""Share of draws inside the region up to which a random control is outside."""
MOST = 0.90
"""Share of draws inside the region from which a random control is inside."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What a control's evidence is held against."""

    spec: StatisticSpec
    region: Region
    level: float
    """Level of controls: that of the registration."""
    pooled: bool
    """Whether a value is the mean over seeds."""


def control_outcome(
    control: ControlSpec,
    role: ControlRole,
    *,
    records: Sequence[EvidenceRecord | None],
    yardstick: Yardstick,
    real: float | None,
) -> ControlOutcome:
    """How one control behaved for one member.

    Args:
        control: which control.
        role: what the catalogue expects of it.
        records: its evidence: one record, or one a seed; none where it is missing.
        yardstick: statistic, region and level.
        real: value of the member, to rank among the draws.

    Raises:
        IntegrityError: if the evidence has another form than the control or the estimator.
    """
    found = [record for record in records if record is not None]
    if len(found) < len(records):
        return ControlOutcome(control=control.name, role=role, standing="missing", behaved=None)
    for record in found:
        check_form(record, spec=yardstick.spec, random=control.random)
    if control.random and all(record.undefined is None for record in found):
        draws = _pooled_draws(found)
        if yardstick.spec.estimator == "draws":
            _check_p_values(draws, place=describe(found[0]))
        return _random_outcome(control, role, draws=draws, yardstick=yardstick, real=real)
    estimate = estimate_of(found, yardstick=yardstick, level=yardstick.level)
    if estimate.p_value is None:
        standing = standing_of(estimate, yardstick.region)
    else:
        standing = _p_standing(found[0], yardstick=yardstick)
    return ControlOutcome(
        control=control.name,
        role=role,
        standing=standing,
        behaved=behaved(role, standing),
        estimate=estimate,
    )


def estimate_of(
    records: Sequence[EvidenceRecord], *, yardstick: Yardstick, level: float
) -> Estimate:
    """The estimate of a member: of its one record, or of the mean over its seeds."""
    for record in records:
        if record.undefined is not None:
            where = f"{record.pair}: " if yardstick.pooled else ""
            return Estimate(undefined=where + record.undefined)
    parameters = yardstick.spec.parameters
    if yardstick.pooled:
        return pooled_interval(records, parameters, level=level)
    return interval(records[0], parameters, level=level)


def standing_of(estimate: Estimate, region: Region) -> Standing:
    """Where an interval stands against a region."""
    if estimate.low is None or estimate.high is None:
        return "undefined"
    if region.inside(estimate.low, estimate.high):
        return "inside"
    return "outside" if region.outside(estimate.low, estimate.high) else "undecided"


def share_standing(role: ControlRole, *, inside: int, undefined: int, draws: int) -> Standing:
    """Where a random control stands, from the number of its draws inside the region.

    >>> share_standing("must-fail", inside=0, undefined=0, draws=32)
    'outside'
    >>> share_standing("must-pass", inside=31, undefined=1, draws=32)
    'undecided'
    """
    if draws == undefined:
        return "undefined"
    upper = float(binomial_upper(inside + undefined, draws, error=LIMIT_ERROR))
    lower = float(binomial_lower(inside, draws, error=LIMIT_ERROR))
    if upper <= FEW:
        return "outside"
    if lower > FEW if role == "must-fail" else lower >= MOST:
        return "inside"
    return "undecided"


def behaved(role: ControlRole, standing: Standing) -> bool | None:
    """Whether a control did what its role says; none if it has none, or nothing is proven."""
    if role not in ("must-pass", "must-fail") or standing not in ("inside", "outside"):
        return None
    return (role == "must-pass") == (standing == "inside")


def check_form(record: EvidenceRecord, *, spec: StatisticSpec, random: bool) -> None:
    """Refuse a record that does not have the form of its statistic, or of a random control.

    Draws of a random control may carry the statistic's estimator or `draws`.
    """
    if record.undefined is not None:
        return
    only_draws = record.draws is not None and record.value is None
    estimators = {spec.estimator, "draws"} if random else {spec.estimator}
    if only_draws != random or record.estimator not in estimators:
        form = "draws without a value" if random else "a single value"
        raise IntegrityError(
            f"a record of another form ({describe(record)}, `{record.estimator}`)",
            expected=f"{form}, `{spec.estimator}`, as it was registered",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.form",
        )


def _random_outcome(
    control: ControlSpec,
    role: ControlRole,
    *,
    draws: Sequence[float | None],
    yardstick: Yardstick,
    real: float | None,
) -> ControlOutcome:
    defined = [draw for draw in draws if draw is not None]
    inside = sum(yardstick.region.contains(draw) for draw in defined)
    standing = share_standing(
        role, inside=inside, undefined=len(draws) - len(defined), draws=len(draws)
    )
    return ControlOutcome(
        control=control.name,
        role=role,
        standing=standing,
        behaved=behaved(role, standing),
        draws=len(draws),
        draws_inside=inside,
        median=median(defined) if defined else None,
        low_draw=min(defined, default=None),
        high_draw=max(defined, default=None),
        rank=None if real is None else sum(draw >= real for draw in defined),
    )


def _pooled_draws(records: Sequence[EvidenceRecord]) -> list[float | None]:
    """Draws of one record, or the means over seeds of equally numbered draws."""
    by_seed = [record.draws or () for record in records]
    lengths = sorted({len(draws) for draws in by_seed})
    if len(lengths) > 1:
        raise IntegrityError(
            f"{lengths[0]} draws for one seed and {lengths[-1]} for another "
            f"({describe(records[0])})",
            expected="as many draws for every seed",
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.draws",
        )
    pooled: list[float | None] = []
    for row in zip(*by_seed, strict=True):
        numbers = [draw for draw in row if isinstance(draw, float)]
        pooled.append(fmean(numbers) if len(numbers) == len(row) else None)
    return pooled


def _check_p_values(draws: Sequence[float | None], *, place: str) -> None:
    odd = [draw for draw in draws if draw is not None and not 0.0 <= draw <= 1.0]
    if odd:
        raise IntegrityError(
            f"the draw {odd[0]!r}, which is no p-value ({place})",
            expected="for a p-valued statistic, the p-value of each draw of a random control",
            fix="correct the measurement of the suite, then run again",
            code="evidence.p-value",
        )


def _p_standing(record: EvidenceRecord, *, yardstick: Yardstick) -> Standing:
    """Where the p-value of a control stands: Clopper-Pearson limits of P(draw >= value)."""
    draws, value = record.draws or (), record.value
    numbers = [draw for draw in draws if isinstance(draw, float)]
    at_or_above = sum(value is None or draw >= value for draw in numbers)
    undefined = len(draws) - len(numbers)
    error = (1.0 - yardstick.level) / 2.0
    low = float(binomial_lower(at_or_above, len(draws), error=error))
    high = float(binomial_upper(at_or_above + undefined, len(draws), error=error))
    return standing_of(Estimate(low=low, high=high), yardstick.region)
