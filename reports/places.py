"""What was measured on the real case, by place: what figures and tables without a claim read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from harness.judging.evidence import MAIN, Evidence, EvidenceRecord
from harness.judging.intervals import p_value
from harness.judging.verdict import ClaimVerdict, Estimate, MemberVerdict, Verdict
from prereg.registration import Registration
from prereg.resolved import StatisticSpec
from reports.wording import counted

UNJUDGED = "Not registered as a claim: shown, not judged."


class Place(NamedTuple):
    """Where a value was measured."""

    pair: str | None
    site: str | None

    @property
    def title(self) -> str:
        """`pair b, blocks.0.hook_resid_post`; empty for a whole model without a pair."""
        parts = [f"pair {self.pair}" if self.pair else "", self.site or ""]
        return ", ".join(part for part in parts if part)


class Judged(NamedTuple):
    """A value that a bar or claim is about."""

    claim: ClaimVerdict
    member: MemberVerdict


def records_of(
    evidence: Evidence, statistic: str
) -> dict[tuple[Place, str | None], EvidenceRecord]:
    """Records of the real case by place and arm; those of controls are never among them."""
    return {
        (Place(record.pair, record.site), record.arm): record
        for record in evidence.records
        if record.case == MAIN and record.statistic == statistic
    }


def in_order(places: Iterable[Place], registration: Registration) -> list[Place]:
    """Places once each: pairs as the registration lists them, then sites in order of flow."""
    pairs = list(registration.resolved.subjects.others)
    sites = list(registration.resolved.sites)

    def rank(place: Place) -> tuple[int, str, int, str]:
        return (*_rank(place.pair, pairs), *_rank(place.site, sites))

    return sorted(set(places), key=rank)


def _rank(name: str | None, known: Sequence[str]) -> tuple[int, str]:
    if name is None:
        return -1, ""
    return (known.index(name) if name in known else len(known)), name


def judged_at(verdict: Verdict, statistic: str, place: Place, arm: str | None) -> Judged | None:
    """The first bar or claim about a value; none where nothing was promised about it."""
    for claim in verdict.claims:
        for member in claim.members:
            if claim.statistic == statistic and (member.pair, member.site, member.arm) == (
                *place,
                arm,
            ):
                return Judged(claim, member)
    return None


def claims_about(verdict: Verdict, *statistics: str) -> list[ClaimVerdict]:
    """The bars and claims about any of the statistics, in their order."""
    return [claim for claim in verdict.claims if claim.statistic in statistics]


def said_of(claims: Sequence[ClaimVerdict]) -> str:
    """Whether what is shown is judged, as a sentence."""
    if not claims:
        return UNJUDGED
    names = ", ".join(claim.name for claim in claims)
    return f"Judged where {names} is about it; the rest is shown, not judged."


class Draws(NamedTuple):
    """A value among the draws of its null."""

    defined: tuple[float, ...]
    undefined: int
    as_well: int
    """Draws at or above the value, and those that are undefined: they count against it."""
    p: float | None
    """(1 + as_well) / (1 + draws), where the statistic is p-valued."""

    @property
    def total(self) -> int:
        """All draws."""
        return len(self.defined) + self.undefined

    def rank(self, noun: str = "draw") -> str:
        """`12 of 999 labellings do as well or better`."""
        text = f"{self.as_well} of {counted(self.total, noun)} do as well or better"
        if self.undefined:
            text += f" ({self.undefined} of them undefined, which counts against it)"
        return text


def draws_of(record: EvidenceRecord | None) -> Draws | None:
    """The draws that a record's own value is held against; none where it has none.

    Draws of a random control are not such: they have no value of their own.
    """
    if record is None or record.draws is None or record.value is None:
        return None
    defined = tuple(draw for draw in record.draws if isinstance(draw, float))
    undefined = len(record.draws) - len(defined)
    above = sum(draw >= record.value for draw in defined)
    p = p_value(record) if record.estimator == "draws" else None
    return Draws(defined, undefined, above + undefined, p)


def noun_of(registration: Registration, statistic: str) -> str:
    """What one draw of a statistic's null is called: as the suite's figure of it says."""
    for figure in registration.resolved.suite.figures:
        if figure.kind == "null" and figure.statistic == statistic:
            return figure.noun
    return "draw"


def p_valued(spec: StatisticSpec | None) -> bool:
    """Whether a claim about the statistic is about its Monte-Carlo p-value."""
    return spec is not None and spec.estimator == "draws"


def measure_of(spec: StatisticSpec) -> str:
    """What a claim about the statistic holds against its region: the value, or its p."""
    return f"p of {spec.title}" if p_valued(spec) else spec.title


def as_drawn(claim: ClaimVerdict, spec: StatisticSpec | None) -> ClaimVerdict:
    """The claim with each value in the unit of its region: a p-value takes its value's place."""
    if not p_valued(spec):
        return claim
    members = tuple(
        member.model_copy(
            update={
                "estimate": _as_p(member.estimate),
                "controls": tuple(
                    control.model_copy(update={"estimate": _as_p(control.estimate)})
                    if control.estimate is not None
                    else control
                    for control in member.controls
                ),
            }
        )
        for member in claim.members
    )
    return claim.model_copy(update={"members": members})


def _as_p(estimate: Estimate) -> Estimate:
    if estimate.p_value is None:
        return Estimate(undefined=estimate.undefined or "it has no p-value")
    return Estimate(value=estimate.p_value, p_value=estimate.p_value)
