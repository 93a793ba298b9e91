"""Sentences: why a member got its verdict, and a registration's verdict in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.judging.verdict import ControlOutcome, Estimate, Verdict, Word
from prereg.regions import Region

FEW_SEEDS = 5
"""Below so many seeds a sentence is about these models, not about models of their kind."""

_COUNTED: dict[Word, tuple[str, str]] = {
    "PASS": ("passes", "pass"),
    "FAIL": ("fails", "fail"),
    "NOT_DIAGNOSTIC": ("not diagnostic", "not diagnostic"),
    "UNDECIDABLE": ("undecidable", "undecidable"),
    "INCONCLUSIVE": ("inconclusive", "inconclusive"),
}


def sentence(verdict: Verdict) -> str:
    """The verdict in one plain sentence, the same in the command line and in the report.

    `FAIL — 3 bars and 3 primary claims: 3 pass, 1 fails, 2 not diagnostic`
    """
    deciding = [claim for claim in verdict.claims if claim.bar or claim.role == "primary"]
    bars = sum(claim.bar for claim in deciding)
    what = f"{_count(bars, 'bar')} and {_count(len(deciding) - bars, 'primary claim')}"
    words = Counter(claim.word for claim in deciding)
    counts = [
        f"{words[word]} {one if words[word] == 1 else many}"
        for word, (one, many) in _COUNTED.items()
        if words[word]
    ]
    shown = verdict.word.replace("_", " ")
    left_out = ""
    if verdict.dropped_controls:
        left_out = f"; {_count(len(verdict.dropped_controls), 'default control')} left out"
    deviations = ""
    if verdict.deviated:
        deviations = f"; {_count(len(verdict.deviations), 'deviation')} from what was frozen"
    return f"{shown} — {what}: {', '.join(counts) or 'nothing judged'}{left_out}{deviations}"


def place_of_interval(estimate: Estimate, region: Region, *, where: str) -> str:
    """An interval and where it lies: `inside`, `outside`, or across the border (`undecided`)."""
    low, high = f"{estimate.low:.4g}", f"{estimate.high:.4g}"
    if where == "inside":
        return f"the whole interval [{low}, {high}] lies in {region}"
    if where == "outside":
        return f"no part of the interval [{low}, {high}] lies in {region}"
    return f"the interval [{low}, {high}] lies partly in {region}"


def place_of_p(p: float, *, adjusted: float, limit: float) -> str:
    """A p-value and its limit."""
    relation = "at or below" if adjusted <= limit else "above"
    holm = f" (Holm-adjusted {adjusted:.4g})" if adjusted != p else ""
    return f"p = {p:.4g}{holm} is {relation} {limit:.4g}"


def all_proven(controls: Iterable[ControlOutcome], *, role: str) -> str:
    """What the controls that could have stood in the way did."""
    where = "outside" if role == "must-fail" else "inside"
    if any(control.role == role for control in controls):
        return f"every {role} control is proven {where}"
    return f"no {role} control was registered"


def broken(control: ControlOutcome) -> str:
    """A control that did the opposite of what its role says."""
    if control.role == "must-fail":
        return f"control {control.control} passes where it must fail: {_evidence(control)}"
    return f"control {control.control} fails where it must pass: {_evidence(control)}"


def unproven(control: ControlOutcome) -> str:
    """A control that was not proven to do what its role says."""
    where = "outside" if control.role == "must-fail" else "inside"
    return f"{control.role} control {control.control} is not proven {where}: {_evidence(control)}"


def over_seeds(seeds: int) -> str:
    """What a value over so many seeds is a sentence about."""
    if seeds < FEW_SEEDS:
        return f"; over {_count(seeds, 'seed')} and one reference, a sentence about these models"
    return f"; over {seeds} seeds, conditional on the one reference"


def _evidence(control: ControlOutcome) -> str:
    if control.standing == "missing":
        return "its evidence is missing"
    if control.draws is not None:
        return f"{control.draws_inside} of {_count(control.draws, 'draw')} inside"
    estimate = control.estimate or Estimate()
    if estimate.undefined is not None:
        return f"undefined, {estimate.undefined}"
    if estimate.p_value is not None:
        return f"p = {estimate.p_value:.4g}"
    return f"interval [{estimate.low:.4g}, {estimate.high:.4g}]"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
