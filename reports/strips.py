"""One claim member as a strip: accepted region, deciding interval and controls on one axis.

Plain SVG text, so that the page that a referee reads first needs no drawing library.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from harness.judging.verdict import ClaimVerdict, ControlOutcome, MemberVerdict
from reports.scale import Scale, figures_of, region_of, span_of
from reports.wording import TIMES, clean, number, printed, region, sample, word

WIDTH = 560
MARGIN = 14
MAIN_LANE = 15
FIRST_LANE = 39
LANE = 16
LETTER = 5.7
"""Width allowed for a letter of a control's label, in pixels; a little more than is needed."""

OVERVIEW = 300
"""Width of a claim's overview."""
PITCH = 8.0
"""Height that a member has in the overview, in pixels, where there are few."""
TALLEST = 72.0
"""Height of the overview at most."""

SHAPES = {"must-pass": "○", "must-fail": TIMES, "comparator": "□"}
"""What a control is drawn as, by its role."""


@dataclass(frozen=True, slots=True)
class _Label:
    outcome: ControlOutcome
    span: tuple[float, float, float]
    text: str
    left: float
    right: float
    text_at: float
    anchor: str


def strip(claim: ClaimVerdict, member: MemberVerdict, *, scale: Scale) -> Markup:
    """The strip of one member, with its content as text alternative."""
    lanes = _lanes([c for c in member.controls if c.role in SHAPES], scale)
    absent = [c for c in member.controls if c.role in SHAPES and span_of(c) is None]
    height = FIRST_LANE + LANE * (len(lanes) + bool(absent)) - 4
    body = [_background(claim, scale, height), _main(member, scale)]
    for depth, lane in enumerate(lanes):
        body += [_control(label, FIRST_LANE + LANE * depth, scale) for label in lane]
    if absent:
        names = ", ".join(f"{c.control}: {c.standing}" for c in absent)
        y = FIRST_LANE + LANE * len(lanes)
        body.append(_text(MARGIN, y, f"no value — {names}", "start", "absent"))
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        'aria-label="{alt}">{body}</svg>'
    ).format(w=WIDTH, h=height, alt=clean(alternative(claim, member)), body=Markup("").join(body))


def overview(claim: ClaimVerdict, *, scale: Scale, words: str) -> Markup:
    """All members of a claim under each other, value and interval only; `words` counts them."""
    pitch = min(PITCH, TALLEST / max(1, len(claim.members)))
    height = round(pitch * len(claim.members) + 4)
    accepted = region_of(claim)

    def at(value: float) -> float:
        return 6 + (OVERVIEW - 12) * scale.place(value)

    left, right = at(accepted.lower), at(accepted.upper)
    body = [
        Markup('<rect class="region" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
            left, max(0.0, right - left), height
        )
    ]
    for bound in (claim.lower, claim.upper):
        if bound is not None:
            body.append(_line(at(bound), 0, at(bound), height, "bound"))
    for index, member in enumerate(claim.members):
        ends = [at(end) for end in figures_of(member.estimate)]
        y = 2 + pitch * (index + 0.5)
        if ends:
            body.append(_line(min(ends) - 1.5, y, max(ends) + 1.5, y, f"short {member.word}"))
    alt = f"{claim.name}: {words}; accepted region {region(claim.lower, claim.upper)}"
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        'aria-label="{alt}">{body}</svg>'
    ).format(w=OVERVIEW, h=height, alt=clean(alt), body=Markup("").join(body))


def axis(claim: ClaimVerdict, *, scale: Scale) -> Markup:
    """The tick labels that stand above the strips of a claim."""
    body = [
        _text(_x(scale, tick), 13, number(tick, decimals=scale.decimals), "middle", "tick")
        for tick in scale.ticks
    ]
    alt = f"axis of {claim.name}, from {number(scale.low)} to {number(scale.high)}"
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 {w} 17" width="{w}" height="17" '
        'aria-label="{alt}">{body}</svg>'
    ).format(w=WIDTH, alt=alt, body=Markup("").join(body))


def alternative(claim: ClaimVerdict, member: MemberVerdict) -> str:
    """What a strip shows, in words."""
    bounds = (claim.lower, claim.upper)
    figures = printed(member.estimate, bounds)
    estimate = member.estimate
    if estimate.undefined is not None:
        value = f"no value ({estimate.undefined})"
    elif estimate.p_value is not None:
        value = f"p = {figures.value}"
    elif estimate.value is None:
        value = f"bounds {figures.interval}"
    else:
        value = f"value {figures.value}, interval {figures.interval}, {sample(estimate)}"
    controls = "; ".join(
        f"{c.control} ({c.role}) {c.standing}" for c in member.controls if c.role in SHAPES
    )
    return (
        f"{word(member.word)}: {value}; accepted region {region(*bounds)}. "
        f"Controls: {controls or 'none'}."
    )


def _x(scale: Scale, value: float) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * scale.place(value)


def _background(claim: ClaimVerdict, scale: Scale, height: int) -> Markup:
    accepted = region_of(claim)
    left, right = _x(scale, accepted.lower), _x(scale, accepted.upper)
    parts = [
        Markup('<rect class="region" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
            left, max(0.0, right - left), height
        )
    ]
    for tick in scale.ticks:
        parts.append(_line(_x(scale, tick), 0, _x(scale, tick), height, "grid"))
    for bound in (claim.lower, claim.upper):
        if bound is not None:
            parts.append(_line(_x(scale, bound), 0, _x(scale, bound), height, "bound"))
    return Markup("").join(parts)


def _main(member: MemberVerdict, scale: Scale) -> Markup:
    estimate, y = member.estimate, MAIN_LANE
    ends = figures_of(estimate)
    if not ends:
        return _text(MARGIN, y + 4, "no value: the reason stands at the right", "start", "absent")
    parts = []
    low, high = _x(scale, min(ends)), _x(scale, max(ends))
    if estimate.low is not None and estimate.high is not None:
        parts.append(_line(low, y, high, y, "interval"))
        parts += [_line(end, y - 6, end, y + 6, "interval") for end in (low, high)]
    if estimate.value is not None:
        parts.append(
            Markup('<circle class="value" cx="{:.1f}" cy="{}" r="3.8"/>').format(
                _x(scale, estimate.value), y
            )
        )
    return Markup("").join(parts)


def _lanes(outcomes: list[ControlOutcome], scale: Scale) -> list[list[_Label]]:
    """Controls in as few rows as their labels allow, from left to right."""
    labels = [_label(outcome, span, scale) for outcome in outcomes if (span := span_of(outcome))]
    lanes: list[list[_Label]] = []
    for label in sorted(labels, key=lambda label: (label.left, label.outcome.control)):
        for lane in lanes:
            if lane[-1].right + 6 <= label.left:
                lane.append(label)
                break
        else:
            lanes.append([label])
    return lanes


def _label(outcome: ControlOutcome, span: tuple[float, float, float], scale: Scale) -> _Label:
    text = clean(outcome.control)
    if outcome.behaved is False:
        text += f": {outcome.standing}"
    if span[0] > scale.high:
        text += f" at {number(float(f'{span[1]:.3g}'))} →"
    elif span[2] < scale.low:
        text = f"← {text} at {number(float(f'{span[1]:.3g}'))}"
    low, high = _x(scale, span[0]), _x(scale, span[2])
    width = LETTER * len(text) + 10
    if high + width <= WIDTH:
        return _Label(outcome, span, text, low - 6, high + width, high + 9, "start")
    return _Label(outcome, span, text, low - width, high + 6, low - 9, "end")


def _control(label: _Label, y: int, scale: Scale) -> Markup:
    outcome, (low, middle, high) = label.outcome, label.span
    x, left, right = (_x(scale, value) for value in (middle, low, high))
    wrong = " wrong" if outcome.behaved is False else ""
    parts = [_line(left, y, right, y, f"range {outcome.role}{wrong}")] if right - left > 1 else []
    kind = f"mark {outcome.role}{wrong}"
    if outcome.role == "must-pass":
        parts.append(Markup('<circle class="{}" cx="{:.1f}" cy="{}" r="4"/>').format(kind, x, y))
    elif outcome.role == "must-fail":
        parts += [
            _line(x - 4, y - 4, x + 4, y + 4, kind),
            _line(x - 4, y + 4, x + 4, y - 4, kind),
        ]
    else:
        parts.append(
            Markup('<rect class="{}" x="{:.1f}" y="{}" width="7" height="7"/>').format(
                kind, x - 3.5, y - 3.5
            )
        )
    parts.append(_text(label.text_at, y + 4, label.text, label.anchor, f"label{wrong}"))
    return Markup("").join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, x1, y1, x2, y2
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, escape(clean(text))
    )
