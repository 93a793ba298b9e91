"""The judge: registration and evidence in, verdict out; a pure function.

For every member, the interval at its level is held against the accepted region; a PASS then needs
every must-fail control proven outside, a FAIL every must-pass control proven inside. A control that
is proven to do the opposite makes the member NOT_DIAGNOSTIC, one that is proven nothing of makes it
INCONCLUSIVE, and so does a registration that has dropped them all. Controls of the other kind are
shown and cancel nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.judging import wording
from harness.judging.controls import (
    Yardstick,
    check_form,
    control_outcome,
    estimate_of,
    standing_of,
)
from harness.judging.estimators import check_stated, describe
from harness.judging.evidence import Evidence, EvidenceRecord
from harness.judging.family import Key, Member, family_size, is_primary, members
from harness.judging.multiplicity import holm, holm_limit, member_level
from harness.judging.rare_errors import check_columns
from harness.judging.verdict import (
    JUDGE_VERSION,
    ClaimVerdict,
    ControlOutcome,
    Estimate,
    MemberVerdict,
    Verdict,
    Word,
)
from prereg.errors import Exit, IncompleteError, IntegrityError
from prereg.registration import Bar, Claim, ControlChanges, Registration

SEVERITY: tuple[Word, ...] = ("PASS", "INCONCLUSIVE", "UNDECIDABLE", "NOT_DIAGNOSTIC", "FAIL")
"""Words from best to worst; a whole takes the worst of its parts."""

_SLACK = 1e-9
"""How far rounding may carry a value beyond the range of its statistic."""

DIGITS = 9
"""Significant digits of every number in a verdict."""

_EXITS: dict[Word, Exit] = {
    "PASS": Exit.DONE,
    "FAIL": Exit.FAIL,
    "NOT_DIAGNOSTIC": Exit.NOT_DIAGNOSTIC,
    "UNDECIDABLE": Exit.UNDECIDABLE,
    "INCONCLUSIVE": Exit.INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class _Measured:
    """A member with its estimate at the deciding level."""

    member: Member
    yardstick: Yardstick
    estimate: Estimate
    adjusted: float | None = None
    """Its p-value after Holm's correction, if it is p-valued."""
    limit: float | None = None
    """Largest adjusted p that PASSes."""


def judge(registration: Registration, evidence: Evidence, *, evidence_sha256: str) -> Verdict:
    """The verdict that the frozen rules give on the evidence; the same bytes every time.

    Args:
        registration: as frozen.
        evidence: as read.
        evidence_sha256: digest of the evidence file, recorded in the verdict.

    Returns:
        The verdict, every number in it rounded to `DIGITS` significant digits after deciding.

    Raises:
        IntegrityError: if the evidence is for another registration, states a value that its sums do
            not give, or has a form that was not registered.
        IncompleteError: if the main evidence of a member is missing, or the registration was frozen
            for another version of the judge.
        InputError: if a claim has no meaning (`family.members`).
    """
    _refuse_foreign(registration, evidence)
    family = members(registration)
    records = _index(registration, evidence)
    _refuse_missing(family, records)
    level = registration.claim.decision.level
    m = family_size(registration, family)
    measured = _measure(registration, family, records=records, m=m)
    claims = tuple(
        _claim_verdict(name, measured[name], registration=registration, records=records)
        for name in family
    )
    deciding = [c.word for c in claims if c.bar or c.role == "primary"]
    verdict = Verdict(
        verdict="prebench/verdict/1",
        judge=JUDGE_VERSION,
        registration=registration.id,
        evidence=evidence_sha256,
        word=_worst(deciding),
        deviated=bool(evidence.header.deviations),
        deviations=evidence.header.deviations,
        family=m,
        level=level,
        claims=claims,
        abstained=registration.claim.abstained(),
        dropped_controls=_dropped(registration),
    )
    return Verdict.model_validate(_rounded(verdict.model_dump()))


def exit_code(verdict: Verdict) -> Exit:
    """The process exit code that speaks the verdict; DEVIATED only where it would be 0."""
    code = _EXITS[verdict.word]
    return Exit.DEVIATED if code is Exit.DONE and verdict.deviated else code


def _refuse_foreign(registration: Registration, evidence: Evidence) -> None:
    if registration.resolved.judge != JUDGE_VERSION:
        raise IncompleteError(
            f"a registration for judge {registration.resolved.judge}: not re-judged",
            expected=f"judge {JUDGE_VERSION}, the one of this version of prebench",
            fix="digests can still be verified; judge with the version it was registered with",
            code="judging.judge-version",
        )
    if evidence.header.registration != registration.id:
        raise IntegrityError(
            f"evidence for the registration {evidence.header.registration}",
            expected=f"evidence for {registration.id}",
            fix="judge the run of this registration",
            code="judging.other-registration",
        )


def _index(registration: Registration, evidence: Evidence) -> dict[Key, EvidenceRecord]:
    """Records by key, each checked against its own sums, judged or not."""
    index: dict[Key, EvidenceRecord] = {}
    for record in evidence.records:
        if record.key in index:
            raise IntegrityError(
                f"two records with the key {record.key}",
                expected="one record for each statistic, site, pair, arm and case",
                fix="take the evidence file as the run wrote it, or run again",
                code="evidence.key-twice",
            )
        spec = registration.resolved.statistics.get(record.statistic)
        if spec is None:
            raise IntegrityError(
                f"evidence for {record.statistic}, which the registration does not know",
                expected=f"one of {', '.join(registration.resolved.statistics)}",
                fix="take the evidence file as the run wrote it, or run again",
                code="evidence.unknown-statistic",
            )
        _refuse_partial(registration, record, split=spec.split)
        if record.estimator == "rare_mean" and record.columns is not None:
            corpus = registration.claim.corpus
            check_columns(
                {name: np.asarray(column) for name, column in record.columns.items()},
                samples=corpus.splits[spec.split],
                block=corpus.block,
                place=describe(record),
            )
        check_stated(record, spec.parameters)
        _refuse_impossible(record, low=spec.lower, high=spec.upper)
        index[record.key] = record
    return index


def _refuse_partial(registration: Registration, record: EvidenceRecord, *, split: str) -> None:
    """A record covers every registered block, and a random control every registered draw."""
    corpus = registration.claim.corpus
    blocks = -(-corpus.splits.get(split, 0) // corpus.block)
    draws = registration.resolved.suite.draws
    found = ""
    if record.blocks is not None and record.blocks != tuple(range(blocks)):
        found, expected = f"{len(record.blocks)} blocks", f"blocks 0 to {blocks - 1} of {split}"
    elif (
        record.draws is not None
        and (record.value is None or record.estimator == "value_minus_median")
        and len(record.draws) != draws
    ):
        found, expected = f"{len(record.draws)} draws", f"the registered {draws} draws"
    if found:
        raise IntegrityError(
            f"a record of {found} ({describe(record)})",
            expected=expected,
            fix="take the evidence file as the run wrote it, or run again",
            code="evidence.partial",
        )


def _refuse_impossible(record: EvidenceRecord, *, low: float | None, high: float | None) -> None:
    """No value lies outside the range of its statistic."""
    numbers = [record.value, *(record.bounds or ()), *(record.draws or ())]
    least = -math.inf if low is None else low
    most = math.inf if high is None else high
    for number in numbers:
        if isinstance(number, float) and not least - _SLACK <= number <= most + _SLACK:
            raise IntegrityError(
                f"the value {number:g} ({describe(record)})",
                expected=f"a value in [{least:g}, {most:g}]",
                fix="take the evidence file as the run wrote it, or run again",
                code="evidence.out-of-range",
            )


def _refuse_missing(
    family: Mapping[str, tuple[Member, ...]], records: Mapping[Key, EvidenceRecord]
) -> None:
    missing = [
        f"{name} ({member})"
        for name, found in family.items()
        for member in found
        if any(key not in records for key in member.evidence_keys())
    ]
    if missing:
        raise IncompleteError(
            f"no main evidence for {len(missing)} members, the first {missing[0]}",
            expected="evidence for every site and pair that was registered",
            fix="finish the run, then judge it",
            code="judging.no-evidence",
        )


def _measure(
    registration: Registration,
    family: Mapping[str, tuple[Member, ...]],
    *,
    records: Mapping[Key, EvidenceRecord],
    m: int,
) -> dict[str, list[_Measured]]:
    """Every member's estimate, and the adjusted p of those that have one."""
    judged = registration.claim.judged()
    level = registration.claim.decision.level
    measured: dict[str, list[_Measured]] = {}
    for name, found in family.items():
        deciding = member_level(level, m) if is_primary(judged[name]) else level
        measured[name] = []
        for member in found:
            yardstick = Yardstick(
                spec=registration.resolved.statistics[member.statistic],
                region=judged[name].region,
                level=level,
                pooled=bool(member.seeds),
            )
            main = [records[key] for key in member.evidence_keys()]
            for record in main:
                check_form(record, spec=yardstick.spec, random=False)
            estimate = estimate_of(main, yardstick=yardstick, level=deciding)
            measured[name].append(_Measured(member, yardstick, estimate))
    return _adjusted(measured, judged=judged, level=level, m=m)


def _adjusted(
    measured: dict[str, list[_Measured]],
    *,
    judged: Mapping[str, Bar | Claim],
    level: float,
    m: int,
) -> dict[str, list[_Measured]]:
    primary = [name for name in measured if is_primary(judged[name])]
    p_valued = [
        one for name in primary for one in measured[name] if one.yardstick.spec.estimator == "draws"
    ]
    # an undefined member stays in the family, as one that cannot be small
    p_values = [1.0 if o.estimate.p_value is None else o.estimate.p_value for o in p_valued]
    corrected = {id(one): p for one, p in zip(p_valued, holm(p_values), strict=True)}

    def with_p(one: _Measured) -> _Measured:
        p = one.estimate.p_value
        if p is None:
            return one
        in_family = id(one) in corrected
        return _Measured(
            one.member,
            one.yardstick,
            one.estimate,
            adjusted=corrected.get(id(one), p),
            limit=holm_limit(level, q=len(p_valued), m=m) if in_family else 1.0 - level,
        )

    return {name: [with_p(one) for one in found] for name, found in measured.items()}


def _claim_verdict(
    name: str,
    measured: Sequence[_Measured],
    *,
    registration: Registration,
    records: Mapping[Key, EvidenceRecord],
) -> ClaimVerdict:
    judged = registration.claim.judged()[name]
    region = judged.region
    verdicts = tuple(
        _member_verdict(one, judged, registration=registration, records=records) for one in measured
    )
    return ClaimVerdict(
        name=name,
        bar=isinstance(judged, Bar),
        role="primary" if is_primary(judged) else "secondary",
        statistic=judged.statistic,
        kind=judged.kind,
        lower=region.lower if region.lower > float("-inf") else None,
        upper=region.upper if region.upper < float("inf") else None,
        word=_worst([verdict.word for verdict in verdicts]),
        members=verdicts,
    )


def _member_verdict(
    one: _Measured,
    judged: Bar | Claim,
    *,
    registration: Registration,
    records: Mapping[Key, EvidenceRecord],
) -> MemberVerdict:
    roles = one.yardstick.spec.roles[judged.kind]
    dropped = _dropped(registration)
    controls = tuple(
        control_outcome(
            control,
            roles[control.name],
            records=[records.get(key) for key in one.member.evidence_keys(control.name)],
            yardstick=one.yardstick,
            real=one.estimate.value,
        )
        for control in registration.resolved.suite.controls
        if roles[control.name] != "not-applicable" and control.name not in dropped
    )
    word, reason = _word(one, controls, expected=frozenset(roles.values()))
    if one.member.seeds:
        reason += wording.over_seeds(len(one.member.seeds))
    return MemberVerdict(
        site=one.member.site,
        pair=one.member.pair,
        arm=one.member.arm,
        word=word,
        reason=reason,
        estimate=one.estimate,
        controls=controls,
    )


def _word(
    one: _Measured, controls: Sequence[ControlOutcome], *, expected: frozenset[str]
) -> tuple[Word, str]:
    """Word and reason; `expected` are the roles that the catalogue gives to any control."""
    estimate = one.estimate
    if estimate.undefined is not None:
        return "UNDECIDABLE", f"undefined: {estimate.undefined}"
    if one.adjusted is not None and one.limit is not None and estimate.p_value is not None:
        found = wording.place_of_p(estimate.p_value, adjusted=one.adjusted, limit=one.limit)
        where = "inside" if one.adjusted <= one.limit else "undecided"
    else:
        region = one.yardstick.region
        where = standing_of(estimate, region)
        found = wording.place_of_interval(estimate, region, where=where)
    if where == "inside":
        return _with_controls("PASS", found, controls=controls, role="must-fail", expected=expected)
    if where == "outside":
        return _with_controls("FAIL", found, controls=controls, role="must-pass", expected=expected)
    return "INCONCLUSIVE", found


def _with_controls(
    word: Word,
    found: str,
    *,
    controls: Sequence[ControlOutcome],
    role: str,
    expected: frozenset[str],
) -> tuple[Word, str]:
    """The word that stands after the controls that could take it away."""
    concerned = [control for control in controls if control.role == role]
    if not concerned and role in expected:
        return "INCONCLUSIVE", f"{found}, but no {role} control is left to prove anything"
    broken = [wording.broken(c) for c in concerned if c.behaved is False]
    if broken:
        return "NOT_DIAGNOSTIC", f"{found}, but {'; '.join(broken)}"
    unproven = [wording.unproven(c) for c in concerned if c.behaved is None]
    if unproven:
        return "INCONCLUSIVE", f"{found}, but {'; '.join(unproven)}"
    return word, f"{found}; {wording.all_proven(controls, role=role)}"


def _worst(words: Sequence[Word]) -> Word:
    return max(words, key=SEVERITY.index, default="UNDECIDABLE")


def _dropped(registration: Registration) -> dict[str, str]:
    changes = registration.claim.controls
    if not isinstance(changes, ControlChanges):
        return {}
    return {dropped.control: dropped.reason for dropped in changes.drop}


def _rounded(value: Any) -> Any:
    """`value` with every float in it rounded to `DIGITS` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_rounded(item) for item in value)
    return value
