"""Canonical bytes and digests: RFC 8785 JSON, sha256.

Only plain data is accepted: None, booleans, strings, integers below 2**53, finite floats, and
lists, tuples and string-keyed mappings of those. Anything else is an error at the time of writing,
never a string made up in its place.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import rfc8785

from prereg.errors import InputError

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 64
"""Nesting beyond this is refused, so that no reader runs out of stack."""
SHORT = 12
"""Hex digits of the short form of an id."""


def normalise(value: Any, *, path: str = "$", depth: int = 0) -> Any:
    """`value` as plain JSON data: strings in NFC, -0.0 as 0, tuples as lists.

    Raises:
        InputError: for NaN, infinities, integers of 2**53 and above, keys that are not strings or
            collide after normalisation, unpaired surrogates, nesting beyond `MAX_DEPTH`, and every
            type that JSON does not have.
    """
    if value is None or isinstance(value, bool):
        return value
    if depth > MAX_DEPTH:
        raise _refuse(path, f"nesting deeper than {MAX_DEPTH} levels", "flatter data")
    if isinstance(value, str):
        return _text(value, path=path)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _refuse(path, f"the integer {value}", "an integer below 2**53, or a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refuse(path, repr(value), 'a finite number, or {"undefined": "reason"}')
        return float(value) if value else 0.0
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refuse(path, f"the key {key!r}", "a string as key")
            name = _text(key, path=path)
            if name in plain:
                raise _refuse(path, f"the key {name!r} twice", "each key once (after NFC)")
            plain[name] = normalise(item, path=f"{path}.{name}", depth=depth + 1)
        return plain
    if isinstance(value, list | tuple):
        return [
            normalise(item, path=f"{path}[{i}]", depth=depth + 1) for i, item in enumerate(value)
        ]
    raise _refuse(path, f"a {type(value).__name__}", "plain JSON data")


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of `value`.

    >>> canonical({"b": 1e-3, "a": -0.0}) == canonical({"a": 0, "b": 0.001})
    True
    """
    return rfc8785.dumps(normalise(value))


def reread(value: Any) -> Any:
    """`value` as it is after writing it canonically and reading it back.

    The canonical form of a float such as 1e16 has no exponent and reads back as an integer, which
    `normalise` refuses at 2**53 and above; here it is the float again.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
        written = abs(value) < 10**21 and rfc8785.dumps(float(value)) == str(value).encode()
        return float(value) if written else value
    if isinstance(value, Mapping):
        return {key: reread(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [reread(item) for item in value]
    return value


def digest(value: Any) -> str:
    """sha256, in hex, of the canonical bytes of `value`."""
    return sha256(canonical(value))


def sha256(data: bytes) -> str:
    """sha256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def short(identifier: str) -> str:
    """The first twelve hex digits of an id."""
    return identifier[:SHORT]


def _text(value: str, *, path: str) -> str:
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _refuse(path, f"the unpaired surrogate in {value!r}", "text that UTF-8 can hold")
    return unicodedata.normalize("NFC", value)


def _refuse(path: str, found: str, expected: str) -> InputError:
    return InputError(
        f"{found} at {path}",
        expected=expected,
        fix="write the value in a form that every JSON reader reads back alike",
        code="canonical.not-plain",
    )
