"""How verdicts, numbers, dates and plain data are put into words.

A number is printed with as many decimals as its interval deserves, and with more where rounding
would carry a printed end across a threshold: what is read never contradicts what was judged.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from harness.judging.verdict import Estimate, Word

MOST_DECIMALS = 12
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
NONE = "\N{EM DASH}"

# U+FE0E asks for the plain form: a coloured emoji would shout louder than the others.
SYMBOLS: Mapping[str, str] = {
    "PASS": "✔\ufe0e",
    "FAIL": "✘\ufe0e",
    "NOT_DIAGNOSTIC": "◇\ufe0e",
    "UNDECIDABLE": "⊘\ufe0e",
    "INCONCLUSIVE": "◐\ufe0e",
    "ABSTAINED": "\N{EN DASH}",
    "DEVIATED": "⚑\ufe0e",
}
"""One symbol for each verdict word: colour never stands alone."""

MEANINGS: Mapping[Word, str] = {
    "PASS": "the whole interval lies in the accepted region, and every must-fail control outside",
    "FAIL": "the whole interval lies outside the accepted region, every must-pass control inside",
    "NOT_DIAGNOSTIC": "a control whose answer is known does not give it, so the number cannot tell",
    "UNDECIDABLE": "there is no value to judge, or too little data for an interval",
    "INCONCLUSIVE": "the interval crosses the threshold, or a control is not settled",
}

PRIOR_ACCESS: Mapping[str, str] = {
    "nothing-run": "nothing had been run before",
    "not-opened": "results existed before, unopened",
    "none-seen": "no results seen before",
    "results-seen": "results seen before",
}

_UNPRINTABLE = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """`text` with control characters and marks that reverse the reading direction made visible.

    They are legal in a title, and could make a page read otherwise than its bytes say.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def word(name: str) -> str:
    """A verdict word as it is read: `NOT DIAGNOSTIC`."""
    return name.replace("_", " ")


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """`1 block`, `2 blocks`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}".replace(
        ",", "\u202f"
    )


def moment(at: str) -> str:
    """A ledger time (RFC 3339) to the minute, in UTC; as written where it is not a time."""
    try:
        parsed = datetime.fromisoformat(at)
    except ValueError:
        return at
    if parsed.tzinfo is None:
        return at
    return f"{parsed.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def percent(share: float) -> str:
    """A share as a percentage that is not rounded up to certainty: `99.58 %`."""
    for decimals in range(0, 7):
        text = f"{100 * share:.{decimals}f}"
        if abs(float(text) / 100 - share) <= 0.05 * (1 - share):
            break
    return f"{text}\u202f%"


def number(value: float, *, decimals: int | None = None) -> str:
    """`value` with a proper minus; six figures where the number of decimals is not given."""
    if decimals is None:
        text = f"{value:.6g}"
    elif decimals > MOST_DECIMALS:
        text = f"{value:.3e}" if value else "0"
    else:
        text = f"{value:.{decimals}f}"
    return _typeset(text)


def p_text(p: float, bounds: Iterable[float] = ()) -> str:
    """A p-value in three figures, and in more where rounding would carry it across a threshold.

    >>> p_text(0.0123456), p_text(0.050012, [0.05])
    ('0.0123', '0.05001')
    """
    thresholds = list(bounds)
    for figures in range(3, 18):
        shown = float(f"{p:.{figures}g}")
        if all((shown < b, shown > b) == (p < b, p > b) for b in thresholds):
            break
    return _typeset(f"{p:.{figures}g}")


def _typeset(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    if exponent:
        text = f"{mantissa}{TIMES}10{_superscript(int(exponent))}"
    if float(mantissa) == 0 and not exponent:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


class Printed(NamedTuple):
    """A value and its interval as text, each to the same number of decimals."""

    value: str
    interval: str


def printed(estimate: Estimate, bounds: Iterable[float | None] = ()) -> Printed:
    """An estimate in figures.

    Args:
        estimate: what is printed.
        bounds: thresholds; no printed figure lies on another side of one than the figure itself.
    """
    ends = [v for v in (estimate.low, estimate.value, estimate.high) if v is not None]
    if not ends:
        return Printed(NONE, NONE)
    places = decimals(ends, [bound for bound in bounds if bound is not None])
    # A bracket has two bounds and no value between them.
    value = "bounds" if estimate.value is None else number(estimate.value, decimals=places)
    if estimate.low is None or estimate.high is None:
        return Printed(value, "no interval")
    # A sample whose blocks all agree has an interval of no width, and is still a sample.
    if estimate.low == estimate.high == estimate.value and estimate.blocks is None:
        return Printed(number(estimate.value, decimals=places), "exact")
    low, high = (number(end, decimals=places) for end in (estimate.low, estimate.high))
    return Printed(value, f"[{low}, {high}]")


def decimals(values: Sequence[float], bounds: Sequence[float]) -> int:
    """Decimals that show two figures of the spread of `values` and keep each on its side.

    More than `MOST_DECIMALS` stands for the scientific form.
    """
    size = (max(values) - min(values)) / 2
    if not size:
        # Without a spread nothing limits the figures: as many as the number has, up to six.
        figures = f"{float(f'{values[0]:.6g}'):.{MOST_DECIMALS}f}".rstrip("0").partition(".")[2]
        size = 10.0 ** (1 - len(figures))
    start = max(0, 1 - math.floor(math.log10(size)))
    for places in range(start, MOST_DECIMALS + 1):
        if all(_same_side(v, b, places) for v in values for b in bounds):
            return places
    return MOST_DECIMALS + 1


def _same_side(value: float, bound: float, places: int) -> bool:
    shown = float(f"{value:.{places}f}")
    return (shown < bound, shown > bound) == (value < bound, value > bound)


def region(lower: float | None, upper: float | None) -> str:
    """An accepted region in words: `below 0.02`."""
    if lower is not None and upper is not None:
        return f"between {number(lower)} and {number(upper)}"
    if upper is not None:
        return f"below {number(upper)}"
    if lower is not None:
        return f"above {number(lower)}"
    return "anything"


def unit(name: str) -> str:
    """A unit as it is read; `1` is a pure number."""
    return "pure number" if name == "1" else name


def sample(estimate: Estimate, *, of: str = "block") -> str:
    """On how much data an estimate stands: `n = 256 blocks (201 effective)`."""
    if estimate.value is None and estimate.low is not None:
        return "not sampled"
    if estimate.undefined is not None and estimate.blocks is None:
        return NONE
    if estimate.blocks is None:
        exact = estimate.low is not None and estimate.low == estimate.high
        return "computed in full, not sampled" if exact else "n not stated"
    text = f"n = {counted(estimate.blocks, of)}"
    effective = estimate.effective_blocks
    if effective is not None and effective < 0.95 * estimate.blocks:
        text += f" ({effective:.0f} effective)"
    return text


def outline(value: Any, *, indent: int = 0) -> str:
    """Plain data as indented text that reads like YAML; every scalar is written as JSON."""
    pad = "  " * indent
    lines: list[str] = []
    items = (
        [(f"{key}:", item) for key, item in value.items()]
        if isinstance(value, Mapping)
        else [("-", item) for item in value]
    )
    for head, item in items:
        if isinstance(item, Mapping | list | tuple) and item:
            if head == "-" and isinstance(item, Mapping):
                lines.append(f"{pad}- " + outline(item, indent=indent + 1).lstrip())
            else:
                lines += [f"{pad}{head}", outline(item, indent=indent + 1)]
        else:
            lines.append(f"{pad}{head} {_scalar(item)}")
    return "\n".join(lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w @.:/+-]*[\w.]|[A-Za-z]", value):
        reads_alike = value.lower() not in {"null", "true", "false", "yes", "no", "on", "off"}
        if reads_alike and ": " not in value:
            return unicodedata.normalize("NFC", value)
    return json.dumps(value, ensure_ascii=False)
