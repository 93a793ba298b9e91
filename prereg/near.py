"""What a misspelt name was probably meant to be, as the part of a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from prereg.errors import InputError

SHOWN = 12
"""Names listed before the rest is only counted."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name closest to `word`, letter case aside; none where nothing is close.

    >>> closest("Bellow", ["above", "below"])
    'below'
    """
    names = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: a close match, or the list of known names.

    >>> nearest("bellow", ["below", "above"])
    'did you mean `below`?'
    >>> nearest("zzz", ["below", "above"])
    'known: `above`, `below`'
    >>> nearest("zzz", [])
    'none are known here'
    """
    names = sorted(set(known))
    match = closest(word, names)
    if match is not None:
        return f"did you mean `{match}`?"
    if not names:
        return "none are known here"
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "known: " + ", ".join(f"`{name}`" for name in names[:SHOWN]) + rest


def unknown(found: str, name: str, known: Sequence[str], *, code: str) -> InputError:
    """The error for a name that is none of `known`.

    Args:
        found: what was written, as a sentence about it.
        name: the name itself.
        known: every name that would do, in the order in which they are listed.
        code: code of the error.
    """
    return InputError(
        found, expected=f"one of {', '.join(known)}", fix=nearest(name, known), code=code
    )
