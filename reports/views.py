"""What each section of the page shows, as plain rows: the template only lays them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from harness.judging.evidence import MAIN, Evidence, EvidenceRecord
from harness.judging.family import Key
from harness.judging.verdict import ClaimVerdict, ControlOutcome, Estimate, MemberVerdict, Verdict
from prereg.registration import Registration
from prereg.resolved import StatisticSpec
from prereg.rules import BAR_NAMES
from reports import strips
from reports.places import Draws, as_drawn, draws_of, measure_of, noun_of, p_valued
from reports.scale import scale_of
from reports.wording import (
    NONE,
    counted,
    number,
    p_text,
    percent,
    printed,
    region,
    sample,
    unit,
    word,
)

BARS = {"B": "Behavioural", "P": "Parametric", "C": "Causal", "Pr": "Predictive"}
"""Titles of the four bars."""

ROLE_WORDS = {
    "must-pass": "must pass: its interval has to lie in the accepted region",
    "must-fail": "must fail: its interval has to lie outside",
    "comparator": "comparator: shown, decides nothing",
    "not-applicable": "not applicable: it changes nothing that the statistic reads",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """An estimate as printed: no number without interval, unit and sample."""

    value: str
    interval: str
    level: str
    sample: str
    p_value: str | None


@dataclass(frozen=True, slots=True)
class BarRow:
    """One of the four bars in the header."""

    name: str
    title: str
    word: str
    reason: str


@dataclass(frozen=True, slots=True)
class ControlRow:
    """One control of one member."""

    name: str
    role: str
    shape: str
    standing: str
    behaved: bool | None
    figures: Figures
    note: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One site, pair and arm of a claim."""

    site: str
    within: str
    word: str
    reason: str
    figures: Figures | None
    strip: Markup
    controls: tuple[ControlRow, ...]


@dataclass(frozen=True, slots=True)
class ControlSummary:
    """One control over all members of a claim."""

    name: str
    replaces: str
    by: str
    role: str
    expected: str
    standings: str
    behaved: str
    wrong: bool


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A bar or claim with everything that is shown of it."""

    name: str
    anchor: str
    bar: bool
    title: str
    role: str
    kind: str
    statistic: StatisticSpec
    measure: str
    """What is held against the region: the statistic, or its p."""
    unit: str
    region: str
    word: str
    words: str
    """How many of its values have which verdict."""
    misbehaved: str
    """What its controls did, counted."""
    overview: Markup
    axis: Markup
    members: tuple[MemberRow, ...]
    controls: tuple[ControlSummary, ...]


def site_of(member: MemberVerdict | EvidenceRecord) -> str:
    """The site of a value; statistics of weights have none."""
    return member.site or "whole model"


def within_of(member: MemberVerdict | EvidenceRecord) -> str:
    """Pair and arm of a value, as far as there are any."""
    parts = []
    if member.pair is not None:
        parts.append(f"pair {member.pair}")
    if member.arm is not None:
        parts.append(f"arm {member.arm}")
    return " · ".join(parts)


def figures_of(
    estimate: Estimate,
    bounds: Iterable[float | None] = (),
    *,
    of: str = "block",
    draws: Draws | None = None,
    noun: str = "draw",
) -> Figures:
    """An estimate as printed.

    Args:
        estimate: what is printed.
        bounds: thresholds of its claim; of its p, where it has one.
        of: what its sample consists of.
        draws: the null that its value is held against, if it is.
        noun: what a draw of that null is called.
    """
    thresholds = [bound for bound in bounds if bound is not None]
    p = estimate.p_value
    text = printed(estimate, () if p is not None else thresholds)
    bracket = estimate.value is None and estimate.low is not None
    on = sample(estimate, of=of)
    if draws is not None:
        on = f"n = {counted(draws.total, noun)}"
        on += "" if p is None else f", {draws.as_well} of them as well or better"
    return Figures(
        value=text.value if estimate.undefined is None else f"undefined: {estimate.undefined}",
        interval=text.interval,
        # Bounds hold, at whatever level an interval beside them does.
        level="" if estimate.level is None or bracket else percent(estimate.level),
        sample=on,
        p_value=None if p is None else p_text(p, thresholds),
    )


@dataclass(frozen=True, slots=True)
class Source:
    """The evidence behind a verdict, for what the verdict does not repeat."""

    registration: Registration
    records: Mapping[Key, EvidenceRecord] = field(repr=False)

    def figures(
        self,
        estimate: Estimate,
        key: Key,
        bounds: Iterable[float | None] = (),
        *,
        of: str = "block",
    ) -> Figures:
        """An estimate as printed, with the draws of the record that it was made from."""
        draws, noun = draws_of(self.records.get(key)), noun_of(self.registration, key[0])
        return figures_of(estimate, bounds, of=of, draws=draws, noun=noun)


def source_of(registration: Registration, evidence: Evidence) -> Source:
    """The records by key."""
    return Source(registration, {record.key: record for record in evidence.records})


def bar_rows(verdict: Verdict) -> tuple[BarRow, ...]:
    """The four bars, judged or abstained, in their order."""
    judged = {claim.name: claim for claim in verdict.claims if claim.bar}
    rows = []
    for name in BAR_NAMES:
        if name in judged:
            rows.append(BarRow(name, BARS[name], judged[name].word, ""))
        else:
            reason = verdict.abstained.get(name, "not in the verdict")
            rows.append(BarRow(name, BARS[name], "ABSTAINED", reason))
    return tuple(rows)


def claim_rows(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[ClaimRow, ...]:
    """Every judged bar and claim."""
    source = source_of(registration, evidence)
    return tuple(_claim_row(registration, claim, source=source) for claim in verdict.claims)


def _claim_row(registration: Registration, claim: ClaimVerdict, *, source: Source) -> ClaimRow:
    spec = registration.resolved.statistics[claim.statistic]
    drawn = as_drawn(claim, spec)
    scale = scale_of(drawn)
    bounds = (claim.lower, claim.upper)
    of = "seed" if registration.claim.judged()[claim.name].pool == "seeds" else "block"
    members = tuple(
        MemberRow(
            site=site_of(member),
            within=within_of(member),
            word=member.word,
            reason=member.reason,
            figures=(
                source.figures(member.estimate, key_of(claim, member), bounds, of=of)
                if member.estimate.undefined is None
                else None
            ),
            strip=strips.strip(drawn, shown, scale=scale),
            controls=control_rows(claim, member, source=source, of=of),
        )
        for member, shown in zip(claim.members, drawn.members, strict=True)
    )
    words = _counts([member.word for member in claim.members])
    return ClaimRow(
        name=claim.name,
        anchor=f"claim-{claim.name}",
        bar=claim.bar,
        title=f"{BARS.get(claim.name, claim.name)} bar" if claim.bar else claim.name,
        role=claim.role,
        kind=claim.kind,
        statistic=spec,
        measure=measure_of(spec),
        unit=unit(spec.unit),
        region=region(*bounds),
        word=claim.word,
        words=words,
        misbehaved=_misbehaved(claim),
        overview=strips.overview(drawn, scale=scale, words=words),
        axis=strips.axis(drawn, scale=scale),
        members=members,
        controls=_summaries(registration, claim),
    )


def key_of(claim: ClaimVerdict, member: MemberVerdict, case: str = MAIN) -> Key:
    """The key of the record behind a value that is not pooled."""
    return (claim.statistic, member.site, member.pair, member.arm, case)


def control_rows(
    claim: ClaimVerdict, member: MemberVerdict, *, source: Source, of: str
) -> tuple[ControlRow, ...]:
    """Every control of a member, as printed."""
    return tuple(
        _control_row(
            claim, outcome, source=source, of=of, key=key_of(claim, member, outcome.control)
        )
        for outcome in member.controls
    )


def _counts(names: Iterable[str]) -> str:
    """`5 PASS, 1 FAIL`, in the order of first appearance."""
    return ", ".join(f"{count} {word(name)}" for name, count in Counter(names).items())


def _misbehaved(claim: ClaimVerdict) -> str:
    outcomes = [
        c for m in claim.members for c in m.controls if c.role in {"must-pass", "must-fail"}
    ]
    wrong = Counter(c.control for c in outcomes if c.behaved is False)
    total = Counter(c.control for c in outcomes)
    unsettled = sum(c.behaved is None for c in outcomes)
    if not outcomes:
        return "no control is expected to do anything"
    parts = [f"{sum(c.behaved is True for c in outcomes)} of {len(outcomes)} as expected"]
    parts += [f"✘\ufe0e {name} not ({count} of {total[name]})" for name, count in wrong.items()]
    return "; ".join([*parts, f"{unsettled} not settled"] if unsettled else parts)


def _control_row(
    claim: ClaimVerdict, outcome: ControlOutcome, *, source: Source, of: str, key: Key
) -> ControlRow:
    bounds = (claim.lower, claim.upper)
    note = ""
    if outcome.median is not None:
        spread = Estimate(value=outcome.median, low=outcome.low_draw, high=outcome.high_draw)
        text = printed(spread, bounds)
        of_p = p_valued(source.registration.resolved.statistics.get(claim.statistic))
        figures = Figures(
            value=f"median {'p ' if of_p else ''}{text.value}",
            interval=f"{text.interval}, the range of the draws",
            level="",
            sample=f"n = {counted(outcome.draws or 0, 'draw')}",
            p_value=None,
        )
        note = f"{outcome.draws_inside or 0} of {outcome.draws or 0} draws inside"
        # Draws that are p-values have no rank beside a value that is none.
        if outcome.rank is not None and not of_p:
            note += f"; {outcome.rank} at or above the real value"
    elif outcome.estimate is not None:
        figures = source.figures(outcome.estimate, key, bounds, of=of)
    else:
        missing = outcome.standing == "missing"
        figures = Figures("not measured" if missing else "undefined", NONE, "", NONE, None)
        if outcome.draws is not None:
            note = f"every one of {counted(outcome.draws, 'draw')} is undefined"
    return ControlRow(
        name=outcome.control,
        role=outcome.role,
        shape=strips.SHAPES.get(outcome.role, ""),
        standing=outcome.standing,
        behaved=outcome.behaved,
        figures=figures,
        note=note,
    )


def _summaries(registration: Registration, claim: ClaimVerdict) -> tuple[ControlSummary, ...]:
    specs = {spec.name: spec for spec in registration.resolved.suite.controls}
    outcomes: dict[str, list[ControlOutcome]] = {}
    for member in claim.members:
        for outcome in member.controls:
            outcomes.setdefault(outcome.control, []).append(outcome)
    rows = []
    for name, found in outcomes.items():
        spec = specs.get(name)
        counts = Counter(outcome.standing for outcome in found)
        wrong = sum(outcome.behaved is False for outcome in found)
        rows.append(
            ControlSummary(
                name=name,
                replaces=", ".join(spec.replaces) if spec else "not stated",
                by=spec.by if spec else "not stated",
                role=found[0].role,
                expected=ROLE_WORDS[found[0].role],
                standings=", ".join(f"{standing} {n}" for standing, n in counts.items()),
                behaved=_behaved(found),
                wrong=wrong > 0,
            )
        )
    return tuple(rows)


def _behaved(found: Sequence[ControlOutcome]) -> str:
    if found[0].role not in {"must-pass", "must-fail"}:
        return "nothing expected"
    text = f"{sum(outcome.behaved is True for outcome in found)} of {len(found)}"
    open_ones = sum(outcome.behaved is None for outcome in found)
    return f"{text}, {open_ones} not settled" if open_ones else text


def leaves(value: Any, *, name: str = "") -> list[tuple[str, str]]:
    """Plain data as (dotted name, text) rows, in the order of its keys."""
    if isinstance(value, Mapping):
        return [
            row
            for key, item in value.items()
            for row in leaves(item, name=f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, list | tuple) and any(isinstance(i, Mapping | list) for i in value):
        return [row for i, item in enumerate(value) for row in leaves(item, name=f"{name}[{i}]")]
    if isinstance(value, list | tuple):
        return [(name, ", ".join(_text(item) for item in value) or "none")]
    return [(name, _text(value))]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return str(value)
