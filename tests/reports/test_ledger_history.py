"""What the page takes from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from prereg.chain import Entry, entry
from prereg.errors import IntegrityError
from prereg.registration import Decision
from reports.history import facts_of

ID, OTHER = "a" * 64, "b" * 64


def chain(*events: tuple[str, dict[str, Any]]) -> tuple[Entry, ...]:
    """A ledger with these events, an hour apart."""
    lines: list[Entry] = []
    for hour, (event, body) in enumerate(events):
        at = datetime(2026, 12, 1, hour, tzinfo=UTC)
        lines.append(entry(event, body, after=lines[-1] if lines else None, at=at))  # type: ignore[arg-type]
    return tuple(lines)


def about(event: str, attempt: int | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    """An event about the registration."""
    body: dict[str, Any] = {"registration": ID, **more}
    return event, body if attempt is None else body | {"attempt": attempt}


def test_failed_aborted_and_running_attempts_are_counted() -> None:
    facts = facts_of(
        chain(
            about("registered"),
            about("attempt-started", 1),
            about("attempt-failed", 1, code="environment.disk-full", error="OSError"),
            about("attempt-started", 2),
            about("attempt-aborted", 2, reason="no process holds it"),
            about("attempt-started", 3, deviations=["another torch"]),
            about("attempt-finished", 3),
            about("attempt-started", 4),
        ),
        ID,
    )
    assert facts.counted(3) == "attempt 3 of 4 (1 failed, 1 aborted, 1 running)"
    assert [fact.note for fact in facts.attempts] == [
        "environment.disk-full, OSError",
        "no process holds it",
        "",
        "",
    ]
    assert facts.attempts[2].deviations == ("another torch",)
    assert facts.registered_at == "2026-12-01T00:00:00+00:00"
    assert facts.registered_line == 1


def test_amendments_are_told_from_both_sides() -> None:
    lines = chain(
        ("registered", {"registration": OTHER}),
        ("registered", {"registration": ID}),
        ("amended", {"registration": ID, "supersedes": OTHER, "reason": "a typing error"}),
    )
    (link,) = facts_of(lines, ID).amendments
    assert (link.direction, link.registration, link.reason) == ("amends", OTHER, "a typing error")
    (link,) = facts_of(lines, OTHER).amendments
    assert (link.direction, link.registration) == ("amended by", ID)


def test_a_time_stamp_counts_only_after_the_registration() -> None:
    before = chain(("stamped", {}), about("registered"))
    after = chain(about("registered"), ("stamped", {}))
    assert not facts_of(before, ID).stamped
    assert facts_of(after, ID).stamped


def test_overrides_are_told() -> None:
    facts = facts_of(
        chain(about("registered"), about("override", reason="model of 15 accepted")), ID
    )
    assert [event.note for event in facts.events] == ["model of 15 accepted"]


def test_publishing_changes_nothing_and_others_stand_apart() -> None:
    first = chain(about("registered"))
    later = chain(
        about("registered"),
        ("registered", {"registration": OTHER}),
        ("attempt-started", {"registration": OTHER, "attempt": 1}),
        about("published", 1, manifest="c" * 64),
    )
    told = facts_of(later, ID)
    assert facts_of(first, ID) == told.model_copy(update={"others": ()})
    assert [other.registration for other in told.others] == [OTHER]


@pytest.mark.parametrize(
    "events",
    [
        [("registered", {"registration": OTHER})],
        [about("registered"), about("attempt-finished", 1)],
        [about("registered"), about("attempt-started", 1), about("attempt-started", 1)],
        [about("registered"), about("attempt-started", attempt=None)],
        [about("registered"), about("attempt-started", 1, deviations="one")],
        [about("registered"), ("attempt-started", {"registration": ID, "attempt": True})],
    ],
)
def test_a_history_that_cannot_be_is_refused(events: list[tuple[str, dict[str, Any]]]) -> None:
    with pytest.raises(IntegrityError):
        facts_of(chain(*events), ID)


def test_other_registrations_in_the_ledger_are_told() -> None:
    lines = chain(
        ("registered", {"registration": OTHER}),
        ("attempt-started", {"registration": OTHER, "attempt": 1}),
        ("attempt-finished", {"registration": OTHER, "attempt": 1}),
        ("attempt-started", {"registration": OTHER, "attempt": 2}),
        ("judged", {"registration": OTHER, "attempt": 1, "verdict": "c" * 64, "word": "FAIL"}),
        about("registered"),
    )
    (other,) = facts_of(lines, ID).others
    assert other.registration == OTHER
    assert (other.attempts, other.words, other.published) == (2, ("FAIL",), False)
    assert facts_of(lines, OTHER).others[0].attempts == 0


def test_stages_that_an_earlier_attempt_measured_are_told() -> None:
    stage = {"stage": "b/main", "key": "d" * 64, "sha256": "e" * 64}
    facts = facts_of(
        chain(
            about("registered"),
            about("attempt-started", 1),
            about("stage-finished", 1, **stage),
            about("attempt-aborted", 1),
            about("attempt-started", 2),
            about("stage-finished", 2, **stage, reused_from=1),
            about("stage-finished", 2, **stage | {"stage": "b/self"}),
            about("attempt-finished", 2),
        ),
        ID,
    )
    assert [fact.taken_over for fact in facts.attempts] == [
        "",
        "1 of 2 stages measured by attempt 1",
    ]


def test_the_attempt_that_decides_is_the_first_completed_or_the_one_named() -> None:
    facts = facts_of(
        chain(
            about("registered"),
            about("attempt-started", 1),
            about("attempt-failed", 1),
            about("attempt-started", 2),
            about("attempt-finished", 2),
            about("attempt-started", 3),
            about("attempt-finished", 3),
        ),
        ID,
    )
    assert [n for n in (1, 2, 3) if facts.decides(n, Decision())] == [2]
    assert [n for n in (1, 2, 3) if facts.decides(n, Decision(attempt=3))] == [3]
