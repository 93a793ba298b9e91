"""What the ledger says about one registration: when, how often, and what happened since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from prereg.chain import Entry
from prereg.errors import IntegrityError
from prereg.record import Record
from prereg.registration import Decision

AttemptState = Literal["finished", "failed", "aborted", "running"]


class AttemptFact(Record):
    """One attempt to run the registration."""

    attempt: int = Field(description="Number, from 1.")
    state: AttemptState = Field(description="How it ended.")
    started: str = Field(description="When it was entered in the ledger.")
    ended: str | None = Field(None, description="When its end was entered.")
    note: str = Field("", description="Reason or error, where the ledger has one.")
    deviations: tuple[str, ...] = Field((), description="What differed from what was frozen.")
    stages: int = Field(0, description="Stages that it finished.")
    reused: tuple[int, ...] = Field((), description="Attempt of each stage that it took over.")

    @property
    def taken_over(self) -> str:
        """`7 of 7 stages measured by attempt 1`; empty where it measured everything itself."""
        if not self.reused:
            return ""
        by = ", ".join(str(number) for number in sorted(set(self.reused)))
        return f"{len(self.reused)} of {self.stages} stages measured by attempt {by}"


class LinkFact(Record):
    """An amendment: which registration it leads to or comes from."""

    direction: Literal["amends", "amended by"] = Field(description="Seen from this registration.")
    registration: str = Field(description="Id of the other registration.")
    at: str = Field(description="When it was entered.")
    reason: str = Field(description="Why.")


class EventFact(Record):
    """Any other ledger line about the registration."""

    event: str = Field(description="Event.")
    at: str = Field(description="When it was entered.")
    note: str = Field(description="What it says.")


class OtherFact(Record):
    """Another registration in the same ledger: what else was tried here."""

    registration: str = Field(description="Its id.")
    at: str = Field(description="When it was entered.")
    attempts: int = Field(description="Attempts to run it.")
    words: tuple[str, ...] = Field(description="Verdicts on its attempts, in order.")
    published: bool = Field(description="Whether it was published.")


class LedgerFacts(Record):
    """All that the page takes from the ledger."""

    registered_at: str = Field(description="When the registration was entered, by a local clock.")
    registered_line: int = Field(description="Line of the ledger, from 1.")
    registered_hash: str = Field(description="Hash of that line.")
    attempts: tuple[AttemptFact, ...] = Field(description="Every attempt, in order.")
    amendments: tuple[LinkFact, ...] = Field(description="Amendments, in both directions.")
    events: tuple[EventFact, ...] = Field(description="Overrides and stamps.")
    others: tuple[OtherFact, ...] = Field((), description="Other registrations, in order.")
    stamped: bool = Field(description="Whether a time stamp was entered after the registration.")

    def counted(self, attempt: int) -> str:
        """`attempt 3 of 4 (1 failed, 1 aborted)`."""
        ends = [
            f"{n} {state}" for state in ("failed", "aborted", "running") if (n := self._n(state))
        ]
        total = f"attempt {attempt} of {len(self.attempts)}"
        return f"{total} ({', '.join(ends)})" if ends else total

    def decides(self, attempt: int, rule: Decision) -> bool:
        """Whether `attempt` is the one that the registration's decision rule takes."""
        finished = [fact.attempt for fact in self.attempts if fact.state == "finished"]
        return attempt == rule.takes(finished)

    def _n(self, state: AttemptState) -> int:
        return sum(fact.state == state for fact in self.attempts)


def facts_of(lines: Sequence[Entry], registration: str) -> LedgerFacts:
    """The facts about `registration` in a ledger whose chain was checked before.

    Raises:
        IntegrityError: where the ledger has no `registered` line for it, or an attempt ends that
            never started.
    """
    registered: Entry | None = None
    attempts: dict[int, AttemptFact] = {}
    links: list[LinkFact] = []
    events: list[EventFact] = []
    for line in lines:
        body = line.body
        if line.event == "amended":
            links += _link(line, registration)
            continue
        if _text(body, "registration") != registration:
            continue
        if line.event == "registered" and registered is None:
            registered = line
        elif line.event.startswith("attempt-"):
            _attempt(attempts, line)
        elif line.event == "stage-finished":
            _stage(attempts, line)
        elif line.event == "override":
            events.append(EventFact(event=line.event, at=line.at, note=_note(body)))
    if registered is None:
        raise IntegrityError(
            f"the ledger has no `registered` line for {registration}",
            expected="the registration in the ledger that comes with it",
            fix="publish from the workspace in which it was registered",
            code="report.not-registered",
        )
    stamps = [line for line in lines if line.event == "stamped" and line.seq > registered.seq]
    events += [EventFact(event="stamped", at=line.at, note=_note(line.body)) for line in stamps]
    return LedgerFacts(
        registered_at=registered.at,
        registered_line=list(lines).index(registered) + 1,
        registered_hash=registered.hash,
        attempts=_in_order(attempts, registered),
        amendments=tuple(links),
        events=tuple(events),
        others=_others(lines, registration),
        stamped=bool(stamps),
    )


def _in_order(attempts: Mapping[int, AttemptFact], registered: Entry) -> tuple[AttemptFact, ...]:
    if sorted(attempts) != list(range(1, len(attempts) + 1)):
        raise _broken(
            registered, f"attempts numbered {sorted(attempts)}", "every number from 1, without gaps"
        )
    return tuple(attempts[number] for number in sorted(attempts))


def _others(lines: Sequence[Entry], registration: str) -> tuple[OtherFact, ...]:
    registered = [
        (other, line.at)
        for line in lines
        if line.event == "registered" and (other := _text(line.body, "registration"))
    ]

    def count(other: str, event: str) -> int:
        return sum(
            line.event == event and _text(line.body, "registration") == other for line in lines
        )

    return tuple(
        OtherFact(
            registration=other,
            at=at,
            attempts=count(other, "attempt-started"),
            words=tuple(
                _text(line.body, "word") or "judged"
                for line in lines
                if line.event == "judged" and _text(line.body, "registration") == other
            ),
            published=count(other, "published") > 0,
        )
        for other, at in registered
        if other != registration
    )


def _attempt(attempts: dict[int, AttemptFact], line: Entry) -> None:
    number = line.body.get("attempt")
    if not isinstance(number, int) or isinstance(number, bool):
        raise _broken(line, f"the attempt {number!r}", "a whole number")
    state = line.event.removeprefix("attempt-")
    if state == "started":
        if number in attempts:
            raise _broken(line, f"attempt {number} started twice", "each number once")
        attempts[number] = AttemptFact(
            attempt=number, state="running", started=line.at, deviations=_deviations(line)
        )
        return
    if number not in attempts:
        raise _broken(line, f"attempt {number} {state} before it started", "a start first")
    if state not in {"finished", "failed", "aborted"}:
        raise _broken(line, f"the event {line.event}", "attempt-finished, -failed or -aborted")
    if attempts[number].state != "running":
        raise _broken(line, f"attempt {number} ended twice", "one end for an attempt")
    attempts[number] = attempts[number].model_copy(
        update={
            "state": state,
            "ended": line.at,
            "note": _note(line.body),
        }
    )


def _stage(attempts: dict[int, AttemptFact], line: Entry) -> None:
    number, by = line.body.get("attempt"), line.body.get("reused_from")
    if number not in attempts:
        raise _broken(line, f"a stage of attempt {number} before it started", "a start first")
    fact = attempts[number]
    reused = (*fact.reused, by) if isinstance(by, int) else fact.reused
    attempts[number] = fact.model_copy(update={"stages": fact.stages + 1, "reused": reused})


def _link(line: Entry, registration: str) -> list[LinkFact]:
    new, old = _text(line.body, "registration"), _text(line.body, "supersedes")
    reason = _text(line.body, "reason") or "no reason in the ledger"
    if old == registration and new is not None:
        return [LinkFact(direction="amended by", registration=new, at=line.at, reason=reason)]
    if new == registration and old is not None:
        return [LinkFact(direction="amends", registration=old, at=line.at, reason=reason)]
    return []


def _deviations(line: Entry) -> tuple[str, ...]:
    stated = line.body.get("deviations", [])
    if not isinstance(stated, list) or not all(isinstance(text, str) for text in stated):
        raise _broken(line, f"the deviations {stated!r}", "a list of sentences")
    return tuple(stated)


def _note(body: Mapping[str, Any]) -> str:
    return ", ".join(t for key in ("reason", "code", "error") if (t := _text(body, key)))


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _broken(line: Entry, found: str, expected: str) -> IntegrityError:
    return IntegrityError(
        f"{found} (ledger line {line.seq + 1})",
        expected=expected,
        fix="take the ledger as the workspace wrote it",
        code="report.ledger",
    )
