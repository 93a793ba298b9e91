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
SHORT = 12
"""Hex digits of the short form of an id."""


def normalise(value: Any, *, path: str = "$") -> Any:
    """`value` as plain JSON data: strings in NFC, -0.0 as 0, tuples as lists.

    Raises:
        InputError: for NaN, infinities, integers of 2**53 and above, keys that are not strings or
            collide after normalisation, and every type that JSON does not have.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise _refuse(path, f"the integer {value}", "an integer below 2**53, or a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refuse(path, repr(value), 'a finite number, or {"undefined": "reason"}')
        return value + 0.0 if value else 0.0
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise _refuse(path, f"the key {key!r}", "a string as key")
            name = unicodedata.normalize("NFC", key)
            if name in plain:
                raise _refuse(path, f"the key {name!r} twice", "each key once (after NFC)")
            plain[name] = normalise(item, path=f"{path}.{name}")
        return plain
    if isinstance(value, list | tuple):
        return [normalise(item, path=f"{path}[{i}]") for i, item in enumerate(value)]
    raise _refuse(path, f"a {type(value).__name__}", "plain JSON data")


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of `value`.

    >>> canonical({"b": 1e-3, "a": -0.0}) == canonical({"a": 0, "b": 0.001})
    True
    """
    return rfc8785.dumps(normalise(value))


def digest(value: Any) -> str:
    """sha256, in hex, of the canonical bytes of `value`."""
    return sha256(canonical(value))


def sha256(data: bytes) -> str:
    """sha256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def short(identifier: str) -> str:
    """The first twelve hex digits of an id."""
    return identifier[:SHORT]


def _refuse(path: str, found: str, expected: str) -> InputError:
    return InputError(
        f"{found} at {path}",
        expected=expected,
        fix="write the value in a form that every JSON reader reads back alike",
        code="canonical.not-plain",
    )
