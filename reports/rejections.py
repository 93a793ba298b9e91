"""Which bar rejected which: the real case and every control against the judged bars.

A bar rejects what its verdict proves to stand outside the accepted region, and lets through what it
proves to stand inside. Where a bar has several values for a pair, its cell is the worst of them: of
a control that has to pass the first that is not inside, of every other the first that is not
outside.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.judging.evidence import Evidence
from harness.judging.judgement import SEVERITY
from harness.judging.verdict import (
    ClaimVerdict,
    ControlOutcome,
    MemberVerdict,
    Standing,
    Verdict,
)
from prereg.registration import Registration
from reports.places import measure_of, p_valued
from reports.scale import region_of
from reports.strips import SHAPES
from reports.views import (
    BARS,
    Figures,
    Source,
    control_rows,
    key_of,
    source_of,
    within_of,
)
from reports.wording import SYMBOLS, counted, region, unit, word

STATES: Mapping[Standing, str] = {
    "outside": "rejected",
    "inside": "let through",
    "undecided": "undecided",
    "undefined": "undefined",
    "missing": "not measured",
}
"""What a standing means for a bar."""

_GRAVEST: Sequence[Standing] = ("inside", "missing", "undefined", "undecided", "outside")
_GRAVEST_OF_PASSING: Sequence[Standing] = (
    "outside",
    "missing",
    "undefined",
    "undecided",
    "inside",
)
_ROLES = {"must-fail": "must fail", "must-pass": "must pass", "comparator": "comparator"}
_ORDER = ("must-fail", "comparator", "must-pass")
NOTHING = SYMBOLS["ABSTAINED"]
SHORT = 64
"""Letters of what a control puts in place; the tables below have the rest."""


@dataclass(frozen=True, slots=True)
class Column:
    """A judged bar."""

    name: str
    title: str
    accepts: str
    """What it accepts, and of what."""
    anchor: str


@dataclass(frozen=True, slots=True)
class Cell:
    """What one bar did with one case."""

    bar: str
    state: str
    """`rejected`, `let through`, ...; `not applicable` where the bar reads nothing of it."""
    symbol: str
    mood: str
    """Colour: `good`, `bad`, `open` or `quiet`."""
    role: str
    figures: Figures | None
    unit: str
    note: str
    """Which of several values it is, and where the others stand."""
    word: str = ""
    """Verdict, in the row of the real case."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case: the real one, or a control."""

    name: str
    puts: str
    """What the control puts in place, in short."""
    full: str
    cells: tuple[Cell, ...]

    def by(self, state: str) -> tuple[str, ...]:
        """The bars with a state."""
        return tuple(cell.bar for cell in self.cells if cell.state == state)

    @property
    def wanted(self) -> bool:
        """Whether a bar could reject it: it is not there only to pass."""
        return any(cell.role in {"must fail", "comparator"} for cell in self.cells)

    @property
    def sentence(self) -> str:
        """By which bars it was rejected, and what the others did."""
        rejected = self.by("rejected")
        parts = [f"rejected by {_listed(rejected)}" if rejected else "rejected by no judged bar"]
        parts += [
            f"{state} by {_listed(bars)}"
            if state != "not measured"
            else f"not measured for {_listed(bars)}"
            for state in list(STATES.values())[1:]
            if (bars := self.by(state))
        ]
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The judged bars against the cases of one pair."""

    pair: str
    """Label of the pair; empty within one model, and where every bar is pooled."""
    columns: tuple[Column, ...]
    real: Row
    controls: tuple[Row, ...]

    @property
    def told(self) -> tuple[Row, ...]:
        """The controls whose rejection is told: all that are not there only to pass."""
        return tuple(row for row in self.controls if row.wanted)

    @property
    def unrejected(self) -> tuple[str, ...]:
        """Those of them that no judged bar rejected."""
        return tuple(row.name for row in self.told if not row.by("rejected"))


def matrices(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[Matrix, ...]:
    """One table a pair; none where no bar is judged, or no control was run for one."""
    bars = tuple(claim for claim in verdict.claims if claim.bar)
    ran = any(c.standing != "missing" for bar in bars for m in bar.members for c in m.controls)
    if not ran:
        return ()
    source = source_of(registration, evidence)
    found = {m.pair: None for bar in bars for m in bar.members if m.pair is not None}
    known = [label for label in registration.resolved.subjects.others if label in found]
    pairs: list[str | None] = [*known, *(pair for pair in found if pair not in known)]
    return tuple(_matrix(bars, pair, source=source) for pair in pairs or [None])


def _matrix(bars: Sequence[ClaimVerdict], pair: str | None, *, source: Source) -> Matrix:
    # A value over all pairs stands in the table of each.
    held = [(bar, [m for m in bar.members if m.pair in {pair, None}]) for bar in bars]
    names: dict[str, None] = {}
    for _, members in held:
        names |= {c.control: None for m in members for c in m.controls if c.role in SHAPES}
    rows = [_control_row(held, name, source=source) for name in names]
    return Matrix(
        pair=pair or "",
        columns=tuple(_column(bar, members, source) for bar, members in held),
        real=Row("the real case", "", "", tuple(_real(bar, ms, source=source) for bar, ms in held)),
        controls=tuple(sorted(rows, key=_rank)),
    )


def _rank(row: Row) -> int:
    """What has to be rejected first, what has to pass last."""
    roles = {cell.role for cell in row.cells}
    return next(i for i, role in enumerate(_ORDER) if _ROLES[role] in roles)


def _column(bar: ClaimVerdict, members: Sequence[MemberVerdict], source: Source) -> Column:
    spec = source.registration.resolved.statistics[bar.statistic]
    pooled = source.registration.claim.judged()[bar.name].pool == "seeds"
    accepts = f"{measure_of(spec)} {region(bar.lower, bar.upper)}"
    return Column(
        name=bar.name,
        title=BARS.get(bar.name, bar.name),
        accepts=accepts + (", over all pairs" if pooled and members else ""),
        anchor=f"claim-{bar.name}",
    )


def _control_row(
    held: Sequence[tuple[ClaimVerdict, Sequence[MemberVerdict]]], name: str, *, source: Source
) -> Row:
    specs = {spec.name: spec for spec in source.registration.resolved.suite.controls}
    full = f"{', '.join(specs[name].replaces)}: {specs[name].by}" if name in specs else "not stated"
    named = source.registration.claim.subjects.controls.get(name)
    if named is not None:
        full = f"{named} ({full})"
    return Row(
        name=name,
        puts=named or textwrap.shorten(full, SHORT, placeholder=" …"),
        full=full,
        cells=tuple(_cell(bar, members, name, source=source) for bar, members in held),
    )


def _cell(
    bar: ClaimVerdict, members: Sequence[MemberVerdict], name: str, *, source: Source
) -> Cell:
    found = [(m, i, c) for m in members for i, c in enumerate(m.controls) if c.control == name]
    if not found:
        return _empty(bar, members)
    role = found[0][2].role
    order = _GRAVEST_OF_PASSING if role == "must-pass" else _GRAVEST
    member, index, worst = min(found, key=lambda one: order.index(one[2].standing))
    shown = control_rows(bar, member, source=source, of=_of(bar, source))[index]
    symbol, mood = _behaved(worst)
    notes = [_note([STATES[c.standing] for _, _, c in found], member)]
    if worst.estimate is not None and worst.estimate.undefined is not None:
        notes.insert(0, worst.estimate.undefined)
    return Cell(
        bar=bar.name,
        state=STATES[worst.standing],
        symbol=symbol,
        mood=mood,
        role=_ROLES.get(role, role),
        figures=shown.figures if worst.standing not in {"missing", "undefined"} else None,
        unit=_unit(bar, source),
        note="; ".join(note for note in notes if note),
    )


def _behaved(outcome: ControlOutcome) -> tuple[str, str]:
    if outcome.role not in {"must-pass", "must-fail"}:
        return SHAPES["comparator"], "quiet"
    if outcome.behaved is None:
        return SYMBOLS["INCONCLUSIVE"], "open"
    return (SYMBOLS["PASS"], "good") if outcome.behaved else (SYMBOLS["FAIL"], "bad")


def _real(bar: ClaimVerdict, members: Sequence[MemberVerdict], *, source: Source) -> Cell:
    if not members:
        return _empty(bar, members)
    worst = max(members, key=lambda m: SEVERITY.index(m.word))
    estimate = worst.estimate
    figures = None
    if estimate.undefined is None:
        bounds, of = (bar.lower, bar.upper), _of(bar, source)
        figures = source.figures(estimate, key_of(bar, worst), bounds, of=of)
    of_p = p_valued(source.registration.resolved.statistics.get(bar.statistic))
    return Cell(
        bar=bar.name,
        state=STATES[_standing(bar, worst, of_p=of_p)],
        symbol=SYMBOLS[worst.word],
        mood=worst.word,
        role="",
        figures=figures,
        unit=_unit(bar, source),
        note=_note([word(m.word) for m in members], worst),
        word=worst.word,
    )


def _standing(bar: ClaimVerdict, member: MemberVerdict, *, of_p: bool) -> Standing:
    """Where the real value stands; the verdict's word knows it before rounding."""
    settled: dict[str, Standing] = {"PASS": "inside", "FAIL": "outside", "UNDECIDABLE": "undefined"}
    if member.word in settled:
        return settled[member.word]
    low, high = member.estimate.low, member.estimate.high
    if of_p:  # a p-value is never proven outside: it passes, or nothing is shown
        return "inside" if member.word == "NOT_DIAGNOSTIC" else "undecided"
    if low is None or high is None:
        return "undefined"
    accepted = region_of(bar)
    if accepted.inside(low, high):
        return "inside"
    return "outside" if accepted.outside(low, high) else "undecided"


def _empty(bar: ClaimVerdict, members: Sequence[MemberVerdict]) -> Cell:
    reason = "not applicable" if members else "not judged for this pair"
    return Cell(bar.name, reason, NOTHING, "quiet", "", None, "", "")


def _note(states: Sequence[str], worst: MemberVerdict) -> str:
    """Of several values where the shown one is, and how many stand where."""
    if len(states) < 2:
        return ""
    counts = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    where = " · ".join(part for part in (worst.site or "", within_of(worst)) if part)
    return f"the worst of {counted(len(states), 'value')} ({counts}): {where}"


def _of(bar: ClaimVerdict, source: Source) -> str:
    return "seed" if source.registration.claim.judged()[bar.name].pool == "seeds" else "block"


def _unit(bar: ClaimVerdict, source: Source) -> str:
    spec = source.registration.resolved.statistics.get(bar.statistic)
    return unit(spec.unit) if spec else "unit not frozen"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
