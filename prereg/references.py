"""References to registrations and attempts: `<id>`, a unique prefix of it, `<id>/<attempt>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from prereg.canonical import short
from prereg.errors import InputError
from prereg.near import nearest

MIN_PREFIX = 6
"""Hex digits that a prefix needs."""

_FORM = re.compile(r"(?P<prefix>[0-9a-fA-F]+)(/(?P<attempt>[0-9]{1,9}))?")


class Reference(NamedTuple):
    """A registration by its full id, and one of its attempts if the reference names one."""

    registration: str
    attempt: int | None


def resolve(reference: str, *, known: Sequence[str]) -> Reference:
    """What `reference` stands for among the `known` full ids.

    Raises:
        InputError: it is not of that form, too short, unknown or ambiguous.
    """
    form = _FORM.fullmatch(reference.strip())
    prefix = form["prefix"].lower() if form else ""
    if form is None or not MIN_PREFIX <= len(prefix) <= 64:
        raise _refuse(f"the reference {reference!r}", known, word=reference)
    matches = [identifier for identifier in known if identifier.startswith(prefix)]
    if not matches:
        raise _refuse(f"no registration {reference}", known, word=prefix)
    if len(matches) > 1:
        raise InputError(
            f"{reference} is the beginning of {len(matches)} ids",
            expected="the beginning of one",
            fix="write more of it: " + ", ".join(identifier[:20] for identifier in matches),
            code="reference.ambiguous",
        )
    return Reference(matches[0], int(form["attempt"]) if form["attempt"] else None)


def _refuse(found: str, known: Sequence[str], *, word: str) -> InputError:
    hint = nearest(word.partition("/")[0][:12], [short(identifier) for identifier in known])
    return InputError(
        found,
        expected=f"a registered id, {MIN_PREFIX} or more digits of its beginning, or ID/ATTEMPT",
        fix=f"{hint}; `prebench log` lists them" if known else "`prebench register FILE` makes one",
        code="reference.unknown",
    )
