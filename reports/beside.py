"""Values that stand beside a claim's own in a figure: other arms of a measurement, not judged.

They are read from the evidence of the real case, at the sites and pairs of the claim. Their
intervals hold for each value alone; the claim's own hold over its whole family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.judging import interval, members
from harness.judging.evidence import MAIN, Evidence, EvidenceRecord
from harness.judging.family import UNPOOLED, Key
from harness.judging.intervals import pooled_interval
from harness.judging.verdict import ClaimVerdict, Estimate
from prereg.registration import Registration
from prereg.resolved import FigureSpec, Series, StatisticSpec
from reports.places import p_valued
from reports.scale import figures_of

Place = tuple[str | None, str | None]
"""Site and pair of a value."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One series of a figure, as far as it was measured."""

    index: int
    """Its number in the figure, which gives it letter, shape and colour."""
    label: str
    statistic: str
    arm: str | None
    values: Mapping[Place, Estimate]
    """Value and interval at each place of the claim where there is a record."""
    pooled: bool
    """Whether each value is a mean over seeds, as the claim's own are."""
    on_axis: bool
    """Whether it has the unit of the figure's axis."""

    @property
    def letter(self) -> str:
        """The letter that marks it in drawing, legend and table."""
        return chr(ord("a") + self.index)

    @property
    def drawn(self) -> dict[Place, Estimate]:
        """The values that are drawn: in the unit of the axis, and none without its interval."""
        return {
            place: estimate
            for place, estimate in self.values.items()
            if self.on_axis and estimate.undefined is None and figures_of(estimate)
        }


def besides(
    spec: FigureSpec,
    claim: ClaimVerdict,
    *,
    registration: Registration,
    evidence: Evidence,
    level: float,
) -> tuple[Beside, ...]:
    """The series of a figure that have a record at a place of the claim, in the figure's order.

    A series that is the claim's own value is left out: it stands there already. Where the claim is
    pooled over seeds, so is every series.

    Args:
        spec: the figure.
        claim: the claim whose places count.
        registration: where units and frozen constants are read.
        evidence: what was measured.
        level: coverage of each interval.

    Raises:
        IntegrityError: a record lacks what its estimator reads.
    """
    records = {record.key: record for record in evidence.records if record.case == MAIN}
    specs = registration.resolved.statistics
    seeds = {m.site: m.seeds for m in members(registration).get(claim.name, ())}
    own = specs.get(claim.statistic)
    axis = None if own is None or p_valued(own) else own.unit
    found = []
    for index, series in enumerate(spec.beside):
        arm = _arm(series, claim, records=records)
        if (series.statistic, arm) == (claim.statistic, claim.members[0].arm):
            continue
        statistic = specs.get(series.statistic)
        values: dict[Place, Estimate] = {}
        for member in claim.members:
            pairs = seeds.get(member.site, ()) or (member.pair,)
            keys = [(series.statistic, member.site, pair, arm, MAIN) for pair in pairs]
            here = {key[2]: records.get(key) for key in keys}
            if any(here.values()):
                pooled = bool(seeds.get(member.site))
                values[member.site, member.pair] = (
                    _over_seeds(here, statistic, level=level)
                    if pooled
                    else estimate_of(records[keys[0]], statistic, level=level)
                )
        if values:
            unit = statistic.unit if statistic else None
            found.append(
                Beside(
                    index=index,
                    label=series.label,
                    statistic=series.statistic,
                    arm=arm,
                    values=values,
                    pooled=any(seeds.values()),
                    on_axis=unit is not None and unit == axis,
                )
            )
    return tuple(found)


def estimate_of(record: EvidenceRecord, spec: StatisticSpec | None, *, level: float) -> Estimate:
    """The estimate of a value of no claim; without frozen constants there is none."""
    if spec is None:
        return Estimate(undefined="the statistic was not frozen, so neither was its interval")
    return interval(record, spec.parameters, level=level)


def _over_seeds(
    records: Mapping[str | None, EvidenceRecord | None],
    spec: StatisticSpec | None,
    *,
    level: float,
) -> Estimate:
    """The mean over seeds of a value of no claim, where every seed has one that can be pooled."""
    if spec is None or spec.estimator in UNPOOLED:
        return Estimate(undefined="its interval over seeds is not defined")
    found = [record for record in records.values() if record is not None]
    if len(found) < len(records):
        missing = ", ".join(str(pair) for pair, record in records.items() if record is None)
        return Estimate(undefined=f"not measured for {missing}")
    return pooled_interval(found, spec.parameters, level=level)


def _arm(series: Series, claim: ClaimVerdict, *, records: Mapping[Key, object]) -> str | None:
    """The arm of a series: its own, else the claim's, or none where the statistic has no arms."""
    if series.arm is not None:
        return series.arm
    arm = claim.members[0].arm
    measured = {key[3] for key in records if key[0] == series.statistic}
    return arm if arm in measured else None
