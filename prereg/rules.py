"""Rules that tie several fields of a hypothesis file together.

Each is a function of plain data that returns what is wrong, so that the records apply it when they
are built, and the reader of a file can apply it beside other problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

BAR_NAMES = ("B", "P", "C", "Pr")
REGIONS = ("below", "above", "between", "equivalent_to")
_EXAMPLES = "`below: 0.02`, `above: 0.5`, `between: [0, 1]`, or `equivalent_to: 0` + `margin: 0.1`"


class Fault(NamedTuple):
    """A broken rule: what was found, what was expected, what to write."""

    found: str
    expected: str
    fix: str


def insist(fault: Fault | None) -> None:
    """Raise what pydantic turns into a validation error, where there is a fault."""
    if fault is not None:
        message = "{found}; expected {expected}: {fix}"
        raise PydanticCustomError("rule", message, fault._asdict())


def region_fault(given: Mapping[str, Any]) -> Fault | None:
    """What is wrong with the threshold of a bar or claim, given its fields."""
    named = [name for name in REGIONS if given.get(name) is not None]
    if not named:
        return Fault("no threshold", "one accepted region", f"add one of {_EXAMPLES}")
    if len(named) > 1:
        return Fault(
            "the thresholds " + " and ".join(f"`{name}`" for name in named),
            "one accepted region",
            "keep one of them (a range with two ends is `between: [low, high]`)",
        )
    if given.get("equivalent_to") is not None and given.get("margin") is None:
        return Fault("`equivalent_to` without `margin`", "both", "add `margin: 0.1` beside it")
    if given.get("margin") is not None and given.get("equivalent_to") is None:
        return Fault(
            f"`margin` beside `{named[0]}`",
            "`margin` only beside `equivalent_to`",
            f"remove `margin`, or write `equivalent_to` for `{named[0]}`",
        )
    return _between_fault(given.get("between"))


def _between_fault(between: Any) -> Fault | None:
    numbers = isinstance(between, list | tuple) and len(between) == 2
    if not numbers or any(isinstance(end, bool | str | None) for end in between):
        return None
    low, high = between
    if isinstance(low, int | float) and isinstance(high, int | float) and not low < high:
        return Fault(
            f"`between: [{low:g}, {high:g}]`",
            "the lower end first, and a smaller one",
            f"write `between: [{high:g}, {low:g}]`" if high < low else "write two different ends",
        )
    return None


def mode_fault(given: Mapping[str, Any]) -> Fault | None:
    """What is wrong with the mode of `subjects`, given its fields."""
    mode, others = given.get("mode", "pair"), given.get("others")
    if mode == "pair" and not others:
        return Fault(
            "no model in `others`",
            "at least one model to compare the reference with",
            "add `others: {b: zoo:NAME}` (or `mode: within`, where the suite has it)",
        )
    if mode == "within" and others:
        return Fault(
            "models in `others` beside `mode: within`",
            "the reference alone",
            "remove `others`, or write `mode: pair`",
        )
    return None


def names_fault(names: Sequence[str]) -> Fault | None:
    """What is wrong with the ids of the claims."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    bars = sorted(set(names) & set(BAR_NAMES))
    if twice:
        return Fault(
            "more than one claim called " + ", ".join(f"`{name}`" for name in twice),
            "every claim id once",
            "rename all but one of them",
        )
    if bars:
        return Fault(
            "a claim called " + ", ".join(f"`{name}`" for name in bars),
            "ids other than the names of the bars",
            "rename the claim",
        )
    return None
