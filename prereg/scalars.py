"""Unquoted words as values: YAML 1.2's core schema, less what readers disagree about.

Refused, with what to write instead: NaN and infinities, integers of 2**53 and above, numbers that a
64-bit float cannot hold, leading zeros (octal to some readers) and other bases.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from prereg.canonical import MAX_INTEGER

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Refused(NamedTuple):
    """Why a plain scalar has no value here: found, expected, what to write."""

    found: str
    expected: str
    fix: str


def scalar(word: str) -> str | int | float | bool | Refused | None:
    """The value of an unquoted word by YAML 1.2's core schema.

    >>> scalar("1e-3"), scalar("no"), scalar("~"), scalar("12")
    (0.001, 'no', None, 12)
    """
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return _integer(word)
    if _NUMBER.fullmatch(word):
        return _number(word)
    if _NOT_FINITE.fullmatch(word):
        return Refused(word, "a finite number", "write a number, or leave the field out")
    if _BASED.fullmatch(word):
        return Refused(
            f"the number {word} in another base", "a decimal number", f"write {int(word, 0)}"
        )
    return word


def _integer(word: str) -> int | Refused:
    digits = word.lstrip("+-")
    if len(digits) > 1 and digits.startswith("0"):
        return Refused(
            f"the number {word} with leading zeros, which some readers take as octal",
            "a decimal number",
            f"write {digits.lstrip('0') or '0'}, or put it in quotes if it is text",
        )
    if len(digits) > len(str(MAX_INTEGER)) or abs(int(word)) > MAX_INTEGER:
        return Refused(
            f"the integer {_cut(word)}",
            "an integer below 2**53, which every JSON reader reads back alike",
            "write a smaller integer, or put it in quotes if it is a name",
        )
    return int(word)


def _number(word: str) -> float | Refused:
    value = float(word)
    if math.isinf(value):
        return Refused(f"the number {_cut(word)}", "a number below 1.8e308", "write a smaller one")
    if value == 0 and re.search("[1-9]", word.lower().partition("e")[0]):
        return Refused(f"the number {_cut(word)}", "0, or a number above 5e-324", "write 0")
    return value


def _cut(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}..."
