"""What each section of the page shows, as plain rows: the template only lays them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from harness.judging.evidence import MAIN, Evidence, EvidenceRecord
from harness.judging.verdict import ClaimVerdict, ControlOutcome, Estimate, MemberVerdict, Verdict
from prereg.registration import Registration
from prereg.resolved import StatisticSpec
from prereg.rules import BAR_NAMES
from reports import figures, strips
from reports.beside import Beside, estimate_of
from reports.panels import Panels
from reports.scale import scale_of
from reports.svg import inline
from reports.wording import counted, number, percent, printed, region, sample, unit, word

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


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A value that a figure shows: the claim's own, or one beside it."""

    letter: str
    label: str
    statistic: str
    arm: str | None
    unit: str
    figures: Figures | None
    reason: str
    word: str
    """Verdict; empty for what is not judged."""


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """All values that a figure shows at one site and pair."""

    site: str
    pair: str
    values: tuple[ValueRow, ...]


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure of the suite, or why it was not drawn."""

    id: str
    title: str
    statistic: StatisticSpec | None
    drawing: Markup | None
    alternative: str
    claim: ClaimRow | None
    places: tuple[PlaceRow, ...]


@dataclass(frozen=True, slots=True)
class ExploratoryRow:
    """A measured value that nothing was promised about."""

    statistic: str
    title: str
    site: str
    within: str
    unit: str
    figures: Figures | None
    reason: str


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
    estimate: Estimate, bounds: Iterable[float | None] = (), *, of: str = "block"
) -> Figures:
    """An estimate as printed; `of` says what its sample consists of."""
    text = printed(estimate, bounds)
    return Figures(
        value=text.value if estimate.undefined is None else f"undefined: {estimate.undefined}",
        interval=text.interval,
        level="" if estimate.level is None else percent(estimate.level),
        sample=sample(estimate, of=of),
        p_value=None if estimate.p_value is None else number(float(f"{estimate.p_value:.3g}")),
    )


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


def claim_rows(registration: Registration, verdict: Verdict) -> tuple[ClaimRow, ...]:
    """Every judged bar and claim."""
    return tuple(_claim_row(registration, claim) for claim in verdict.claims)


def _claim_row(registration: Registration, claim: ClaimVerdict) -> ClaimRow:
    scale = scale_of(claim)
    bounds = (claim.lower, claim.upper)
    spec = registration.resolved.statistics[claim.statistic]
    of = "seed" if registration.claim.judged()[claim.name].pool == "seeds" else "block"
    members = tuple(
        MemberRow(
            site=site_of(member),
            within=within_of(member),
            word=member.word,
            reason=member.reason,
            figures=(
                figures_of(member.estimate, bounds, of=of)
                if member.estimate.undefined is None
                else None
            ),
            strip=strips.strip(claim, member, scale=scale),
            controls=tuple(_control_row(c, bounds, of=of) for c in member.controls),
        )
        for member in claim.members
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
        unit=unit(spec.unit),
        region=region(*bounds),
        word=claim.word,
        words=words,
        misbehaved=_misbehaved(claim),
        overview=strips.overview(claim, scale=scale, words=words),
        axis=strips.axis(claim, scale=scale),
        members=members,
        controls=_summaries(registration, claim),
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
    outcome: ControlOutcome, bounds: tuple[float | None, float | None], *, of: str
) -> ControlRow:
    note = ""
    if outcome.median is not None:
        spread = Estimate(value=outcome.median, low=outcome.low_draw, high=outcome.high_draw)
        text = printed(spread, bounds)
        figures = Figures(
            value=f"median {text.value}",
            interval=f"{text.interval}, the range of the draws",
            level="",
            sample=f"n = {counted(outcome.draws or 0, 'draw')}",
            p_value=None,
        )
        note = f"{outcome.draws_inside or 0} of {outcome.draws or 0} draws inside"
        if outcome.rank is not None:
            note += f"; {outcome.rank} at or above the real value"
    else:
        estimate = outcome.estimate or Estimate(undefined=outcome.standing)
        figures = figures_of(estimate, bounds, of=of)
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


def figure_rows(
    registration: Registration,
    verdict: Verdict,
    claims: tuple[ClaimRow, ...],
    *,
    evidence: Evidence,
    drawings: Mapping[str, bytes],
) -> tuple[FigureRow, ...]:
    """The suite's figures in its order, each with the values that it was drawn from."""
    by_name = {claim.name: claim for claim in claims}
    rows = []
    for spec in registration.resolved.suite.figures:
        statistic = registration.resolved.statistics.get(spec.statistic)
        panels = figures.panels_of(spec, registration, verdict, evidence)
        drawn = panels is not None and statistic is not None and spec.id in drawings
        claim = by_name[panels.claim.name] if panels is not None else None
        rows.append(
            FigureRow(
                id=spec.id,
                title=spec.title,
                statistic=statistic,
                drawing=inline(drawings[spec.id], name=f"figures/{spec.id}.svg") if drawn else None,
                alternative=(
                    figures.alternative(statistic, panels)
                    if panels is not None and statistic is not None
                    else f"Not drawn: no claim is about {spec.statistic}."
                ),
                claim=claim,
                places=_places(registration, panels, claim) if panels and claim else (),
            )
        )
    return tuple(rows)


def _places(registration: Registration, panels: Panels, claim: ClaimRow) -> tuple[PlaceRow, ...]:
    rows = []
    for member, shown in zip(panels.claim.members, claim.members, strict=True):
        values = [
            ValueRow(
                letter="",
                label=claim.title,
                statistic=claim.statistic.id,
                arm=member.arm,
                unit=claim.unit,
                figures=shown.figures,
                reason=member.estimate.undefined or "",
                word=member.word,
            )
        ]
        for one in panels.beside:
            estimate = one.values.get((member.site, member.pair))
            if estimate is not None:
                values.append(_beside_row(registration, one, estimate))
        pair = "" if member.pair is None else f"pair {member.pair}"
        rows.append(PlaceRow(site=site_of(member), pair=pair, values=tuple(values)))
    return tuple(rows)


def _beside_row(registration: Registration, one: Beside, estimate: Estimate) -> ValueRow:
    spec = registration.resolved.statistics.get(one.statistic)
    of = "seed" if one.pooled else "block"
    return ValueRow(
        letter=one.letter,
        label=one.label,
        statistic=one.statistic,
        arm=one.arm,
        unit=unit(spec.unit) if spec else "unit not frozen",
        figures=figures_of(estimate, of=of) if estimate.undefined is None else None,
        reason=estimate.undefined or "",
        word="",
    )


def exploratory_rows(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[ExploratoryRow, ...]:
    """What was measured on the real case and belongs to no claim."""
    judged = {
        (claim.statistic, m.site, m.pair, m.arm) for claim in verdict.claims for m in claim.members
    }
    rows = []
    for record in evidence.records:
        key = (record.statistic, record.site, record.pair, record.arm)
        if record.case != MAIN or key in judged:
            continue
        spec = registration.resolved.statistics.get(record.statistic)
        estimate = estimate_of(record, spec, level=verdict.level)
        rows.append(
            ExploratoryRow(
                statistic=record.statistic,
                title=spec.title if spec else record.statistic,
                site=site_of(record),
                within=within_of(record),
                unit=unit(spec.unit) if spec else "unit not frozen",
                figures=figures_of(estimate) if estimate.undefined is None else None,
                reason=estimate.undefined or "",
            )
        )
    return tuple(rows)


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
