"""What was measured, as plain rows: the suite's figures with their tables, and the exploratory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from harness.judging.evidence import MAIN, Evidence
from harness.judging.verdict import Estimate, Verdict
from prereg.registration import Registration
from prereg.resolved import FigureSpec, StatisticSpec
from reports import figures
from reports.beside import Beside, estimate_of
from reports.beside import Place as Where
from reports.curve import Curve, Curves
from reports.null import Nulls
from reports.panels import Panels
from reports.places import Judged, Place
from reports.svg import inline
from reports.views import ClaimRow, Figures, Source, site_of, source_of, within_of
from reports.wording import unit


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
    word: str = ""
    """Verdict; empty for what is not judged."""
    anchor: str = ""
    """The claim that the verdict is of, where the figure shows several."""
    note: str = ""
    """What has to be said behind the value."""


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
    statistics: tuple[tuple[str, StatisticSpec], ...]
    """What is shown, each with the axis that it stands on."""
    drawing: Markup | None
    alternative: str
    claim: ClaimRow | None
    """The claim that a figure by site is about."""
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
    source = source_of(registration, evidence)
    rows = []
    for spec in registration.resolved.suite.figures:
        shown = figures.shown_by(spec, registration, verdict, evidence)
        drawing = None
        if not isinstance(shown, str) and spec.id in drawings:
            drawing = inline(drawings[spec.id], name=f"figures/{spec.id}.svg")
        rows.append(_figure_row(spec, shown, by_name, source=source, drawing=drawing))
    return tuple(rows)


def _figure_row(
    spec: FigureSpec,
    shown: Panels | Curves | Nulls | str,
    claims: Mapping[str, ClaimRow],
    *,
    source: Source,
    drawing: Markup | None,
) -> FigureRow:
    known = source.registration.resolved.statistics
    axes = {"Statistic": spec.statistic}
    if spec.across is not None:
        axes = {"Upwards": spec.statistic, "To the right": spec.across}
    claim = None
    places: Iterable[PlaceRow] = ()
    if isinstance(shown, Panels):
        claim = claims[shown.claim.name]
        alternative = figures.alternative(known[spec.statistic], shown)
        places = _places(source, shown, claim)
    elif isinstance(shown, Curves):
        alternative = shown.alternative()
        places = (_curve_row(source, shown, curve) for curve in shown.all)
    elif isinstance(shown, Nulls):
        alternative = shown.alternative()
        places = _null_rows(source, shown)
    else:
        alternative = f"Not drawn: {shown}."
    return FigureRow(
        id=spec.id,
        title=spec.title,
        statistics=tuple((axis, known[id_]) for axis, id_ in axes.items() if id_ in known),
        drawing=drawing,
        alternative=alternative,
        claim=claim,
        places=tuple(places),
    )


def _curve_row(source: Source, curves: Curves, curve: Curve) -> PlaceRow:
    """Both values of every arm of a place."""
    values = tuple(
        _value_row(source, spec, curve.place, point.arm, estimate=estimate, judged=judged)
        for point in curve.points
        for spec, estimate, judged in (
            (curves.up, point.up, point.judged[1]),
            (curves.across, point.across, point.judged[0]),
        )
    )
    return _place_row(curve.place, values)


def _null_rows(source: Source, nulls: Nulls) -> Iterator[PlaceRow]:
    """The value of every place, with the draws that it stands among."""
    for null in nulls.all:
        value = _value_row(
            source, nulls.spec, null.place, null.arm, estimate=null.estimate, judged=null.judged
        )
        yield _place_row(null.place, (value,))


def _place_row(place: Place, values: tuple[ValueRow, ...]) -> PlaceRow:
    pair = "" if place.pair is None else f"pair {place.pair}"
    return PlaceRow(site=place.site or "whole model", pair=pair, values=values)


def _value_row(
    source: Source,
    spec: StatisticSpec,
    place: Place,
    arm: str | None,
    *,
    estimate: Estimate,
    judged: Judged | None,
) -> ValueRow:
    key = (spec.id, place.site, place.pair, arm, MAIN)
    return ValueRow(
        letter="",
        label=spec.title,
        statistic=spec.id,
        arm=arm,
        unit=unit(spec.unit),
        figures=source.figures(estimate, key) if estimate.undefined is None else None,
        reason=estimate.undefined or "",
        word=judged.member.word if judged else "",
        anchor=f"claim-{judged.claim.name}" if judged else "",
        note=unit(spec.unit),
    )


def _places(source: Source, panels: Panels, claim: ClaimRow) -> tuple[PlaceRow, ...]:
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
                values.append(
                    _beside_row(
                        source, one, estimate, at=(member.site, member.pair), beside=claim.unit
                    )
                )
        pair = "" if member.pair is None else f"pair {member.pair}"
        rows.append(PlaceRow(site=site_of(member), pair=pair, values=tuple(values)))
    return tuple(rows)


def _beside_row(
    source: Source, one: Beside, estimate: Estimate, *, at: Where, beside: str
) -> ValueRow:
    spec = source.registration.resolved.statistics.get(one.statistic)
    of = "seed" if one.pooled else "block"
    key = (one.statistic, *at, one.arm, MAIN)
    own = unit(spec.unit) if spec else "unit not frozen"
    return ValueRow(
        letter=one.letter,
        label=one.label,
        statistic=one.statistic,
        arm=one.arm,
        unit=own,
        figures=source.figures(estimate, key, of=of) if estimate.undefined is None else None,
        reason=estimate.undefined or "",
        note=f"{own}, not drawn" if own != beside else "" if one.on_axis else "not drawn",
    )


def exploratory_rows(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[ExploratoryRow, ...]:
    """What was measured on the real case and belongs to no claim."""
    judged = {
        (claim.statistic, m.site, m.pair, m.arm) for claim in verdict.claims for m in claim.members
    }
    source = source_of(registration, evidence)
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
                figures=source.figures(estimate, record.key)
                if estimate.undefined is None
                else None,
                reason=estimate.undefined or "",
            )
        )
    return tuple(rows)
