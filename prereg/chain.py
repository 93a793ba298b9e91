"""The hash chain of the ledger: what a line is, and whether a sequence of lines holds.

A line is the RFC 8785 form of `{seq, prev, at, event, body, hash}`; `hash` is the sha256 of the
same line without `hash`, and `prev` the `hash` of the line before (64 zeros at genesis). So every
byte of every line is covered: by its own hash, and by the rule that there is one way to write it.
What a chain cannot show is that lines were cut off its end; a known head or a time stamp does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from prereg.canonical import canonical, reread, sha256
from prereg.errors import InputError, IntegrityError
from prereg.record import Record
from prereg.resolved import Sha256

GENESIS = "0" * 64
"""`prev` of the first line."""

Fact = TypeVar("Fact", str, int)

EventName = Literal[
    "registered",
    "amended",
    "attempt-started",
    "stage-finished",
    "attempt-finished",
    "attempt-failed",
    "attempt-aborted",
    "judged",
    "published",
    "stamped",
    "override",
]


class Entry(Record):
    """A line of the ledger."""

    seq: int = Field(ge=0, description="Number of lines before it.")
    prev: Sha256 = Field(description="Hash of the line before; zeros at genesis.")
    at: str = Field(
        description="Local clock, UTC, ISO 8601 in seconds.",
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\+00:00$",
    )
    event: EventName = Field(description="What happened.")
    body: dict[str, Any] = Field(description="Digests and small facts.")
    hash: Sha256 = Field(description="sha256 of this line without `hash`.")

    def fact(self, key: str, kind: type[Fact]) -> Fact:
        """What the body says under `key`.

        Raises:
            IntegrityError: the body has no such fact, or one of another type.
        """
        value = self.body.get(key)
        if not isinstance(value, kind):
            raise broken(
                self.seq + 1,
                f"`{self.event}` without a usable `{key}`",
                f"`{key}` as {kind.__name__}",
                kind="bad-body",
            )
        return value

    @property
    def line(self) -> bytes:
        """The line as written, newline included."""
        return canonical(self.model_dump()) + b"\n"


def entry(
    event: EventName, body: dict[str, Any], *, after: Entry | None, at: datetime | None = None
) -> Entry:
    """The entry that follows `after` (none: the first).

    Args:
        event: what happened.
        body: plain data; it has to survive being written and read.
        after: the last entry so far.
        at: time of the entry, with an offset; now by default.

    Raises:
        InputError: the event is unknown, the body is not plain data or the time has no offset.
    """
    moment = at or datetime.now(UTC)
    if moment.tzinfo is None:
        raise InputError(
            f"the time {moment.isoformat()} without an offset from UTC",
            expected="a time with an offset",
            fix="pass datetime.now(timezone.utc) or another aware time",
            code="ledger.naive-time",
        )
    unsigned = {
        "seq": after.seq + 1 if after else 0,
        "prev": after.hash if after else GENESIS,
        "at": moment.astimezone(UTC).isoformat(timespec="seconds"),
        "event": event,
        "body": body,
    }
    line = canonical(unsigned | {"hash": sha256(canonical(unsigned))})
    try:
        return _read(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"an entry `{event}` that does not read back as written ({_first(error)})",
            expected="a known event and a body of plain data",
            fix="put digests, names and small numbers in the body",
            code="ledger.bad-entry",
        ) from error


def verify_chain(lines: bytes) -> tuple[Entry, ...]:
    """The entries of a whole ledger file, every one verified.

    Raises:
        IntegrityError: a line was altered, dropped, duplicated or reordered, is not canonical, or
            the last one is torn; it names the line.
    """
    if not lines:
        return ()
    *whole, tail = lines.split(b"\n")
    if tail:
        raise broken(
            len(whole) + 1, "the last line has no end", "a newline after every line", kind="torn"
        )
    entries: list[Entry] = []
    for number, line in enumerate(whole, start=1):
        one = _line(line, number=number)
        _follows(one, entries, rest=whole[number:], number=number)
        entries.append(one)
    return tuple(entries)


def broken(number: int, found: str, expected: str, *, kind: str) -> IntegrityError:
    """The error for a ledger whose line `number` (from 1) does not hold."""
    return IntegrityError(
        f"line {number} of the ledger (seq {number - 1}): {found}",
        expected=expected,
        fix="restore the ledger from a copy; a ledger is only ever appended to, by prebench",
        code=f"ledger.{kind}",
    )


def _read(line: bytes) -> Entry:
    """The entry on a line; raises a kind of ValueError where it is not one, or not canonical."""
    plain = reread(json.loads(line))
    unsigned = {key: value for key, value in plain.items() if key != "hash"}
    if canonical(plain) != line:
        raise ValueError("not the canonical form of what it says")
    if sha256(canonical(unsigned)) != plain.get("hash"):
        raise ValueError("its content does not have the hash that it states")
    return Entry.model_validate(plain)


def _line(line: bytes, *, number: int) -> Entry:
    try:
        return _read(line)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise broken(
            number,
            f"no ledger entry ({where}: {wrong['msg']})",
            "the fields seq, prev, at, event, body, hash",
            kind="altered",
        ) from error
    except (ValueError, AttributeError, RecursionError) as error:
        raise broken(
            number,
            f"the line was altered: {_first(error)}",
            "the canonical JSON that was appended",
            kind="altered",
        ) from error


def _follows(one: Entry, before: Sequence[Entry], *, rest: Sequence[bytes], number: int) -> None:
    head = before[-1].hash if before else GENESIS
    if one.seq == len(before) and one.prev == head:
        return
    expected = f"seq {len(before)} after {head[:12]}"
    if one in before:
        kind, found = "duplicated", f"the entry of line {before.index(one) + 1} a second time"
    elif one.seq != len(before) and any(_is_next(line, head=head) for line in rest):
        kind, found = "reordered", f"seq {one.seq}, which belongs elsewhere: lines were reordered"
    elif one.seq > len(before):
        kind, found = "dropped", f"seq {one.seq}: {one.seq - len(before)} line(s) are missing"
    else:
        kind, found = "unchained", f"seq {one.seq} after {one.prev[:12]}, which is not above it"
    raise broken(number, found, expected, kind=kind)


def _is_next(line: bytes, *, head: str) -> bool:
    try:
        return _read(line).prev == head
    except (ValueError, AttributeError, RecursionError):
        return False


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
