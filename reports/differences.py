"""Where what was published differs from what the files give: a page by line, a verdict by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RELATIVE = 1e-7
"""Relative difference up to which two machines' numbers are the same."""
NEGLIGIBLE = 1e-12
"""Absolute difference up to which they are: rounding around zero has no digits to compare."""


def first_difference(page: bytes, published: bytes) -> str:
    """The first line in which a published page is not the rendered one."""
    for number, (mine, theirs) in enumerate(
        zip(page.split(b"\n"), published.split(b"\n"), strict=False), start=1
    ):
        if mine != theirs:
            return f"line {number} is not what the files render to"
    return "it is longer or shorter than what the files render to"


def differences(published: Any, again: Any, *, at: str) -> list[str]:
    """Where two verdicts differ: words and counts exactly, numbers beyond `RELATIVE`.

    Returns:
        One sentence for each difference, naming its place.
    """
    if isinstance(published, Mapping) and isinstance(again, Mapping):
        found = [
            f"{at}.{key} is {'not published' if key in again else 'published, but not judged'}"
            for key in sorted(set(published) ^ set(again))
        ]
        for key in sorted(set(published) & set(again)):
            found += differences(published[key], again[key], at=f"{at}.{key}")
        return found
    if isinstance(published, Sequence) and not isinstance(published, str | bytes):
        if not isinstance(again, Sequence) or len(published) != len(again):
            return [f"{at} has another number of entries"]
        return [
            text
            for i, (one, other) in enumerate(zip(published, again, strict=True))
            for text in differences(one, other, at=f"{at}[{i}]")
        ]
    if isinstance(published, float) and isinstance(again, float):
        size = max(abs(published), abs(again))
        if abs(published - again) <= max(RELATIVE * size, NEGLIGIBLE):
            return []
    elif type(published) is type(again) and published == again:
        return []
    return [f"{at} is {published!r}, re-judged {again!r}"]
