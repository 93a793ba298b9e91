from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prereg.canonical import sha256, short
from prereg.errors import EnvironmentFault, Exit, IncompleteError, InputError, IntegrityError
from prereg.ledger import Ledger
from prereg.registration import Registration
from prereg.workspace import Workspace

Freeze = Callable[..., Registration]
SOURCE = b"title: as written\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "home")


@pytest.fixture
def registered(workspace: Workspace, freeze: Freeze) -> str:
    registration = freeze()
    assert workspace.register(registration, SOURCE, suffix=".yaml")
    return registration.id


def events(workspace: Workspace) -> list[str]:
    return [one.event for one in workspace.ledger.entries()]


# --- where it is ----------------------------------------------------------------------------------


def test_where_the_workspace_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREBENCH_HOME", raising=False)
    assert Workspace.at(None).root == Path(".prebench")
    monkeypatch.setenv("PREBENCH_HOME", "")
    assert Workspace.at(None).root == Path(".prebench")
    monkeypatch.setenv("PREBENCH_HOME", str(tmp_path / "home"))
    assert Workspace.at(None).root == tmp_path / "home"
    assert Workspace.at(tmp_path / "other").root == tmp_path / "other"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inside", ["", "a", "a/b"])
def test_a_workspace_that_is_a_file(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InputError) as caught:
        Workspace.at(tmp_path / "file" / inside)
    assert caught.value.exit_code == Exit.INPUT
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_workspace_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, freeze: Freeze, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(EnvironmentFault) as caught:
        Workspace(tmp_path / "home").register(freeze(), SOURCE, suffix="yaml")
    assert caught.value.exit_code == Exit.ENVIRONMENT
    assert list(tmp_path.iterdir()) == []


def test_reading_makes_nothing(workspace: Workspace) -> None:
    assert workspace.registrations() == ()
    with pytest.raises(InputError, match="no registration"):
        workspace.registration("abcdef")
    assert not workspace.root.exists()


# --- registrations --------------------------------------------------------------------------------


def test_register_writes_what_the_ledger_says(workspace: Workspace, freeze: Freeze) -> None:
    registration = freeze()
    at = datetime(2026, 12, 1, 9, 14, tzinfo=UTC)
    assert workspace.register(registration, SOURCE, suffix=".yaml", at=at)
    folder = workspace.root / "registrations" / short(registration.id)
    assert (folder / "registration.json").read_bytes() == registration.canonical()
    assert (folder / "hypothesis.yaml").read_bytes() == SOURCE
    (one,) = workspace.ledger.entries()
    assert one.at == "2026-12-01T09:14:00+00:00"
    assert one.body == {
        "registration": registration.id,
        "hypothesis": sha256(SOURCE),
        "file": "hypothesis.yaml",
    }
    assert workspace.registration(registration.id[:6]) == registration
    assert workspace.registrations() == (registration,)
    assert workspace.hypothesis(registration.id) == ("hypothesis.yaml", SOURCE)
    assert (workspace.root / ".gitignore").read_bytes() == b"*.lock\n"


def test_registering_again_changes_nothing(workspace: Workspace, freeze: Freeze) -> None:
    assert workspace.register(freeze(), SOURCE, suffix="json")
    before = workspace.ledger.snapshot()
    assert not workspace.register(freeze(), b"other text", suffix="json")
    assert workspace.ledger.snapshot() == before
    assert workspace.hypothesis(freeze().id) == ("hypothesis.json", SOURCE)


def test_another_suffix_is_refused(workspace: Workspace, freeze: Freeze) -> None:
    with pytest.raises(InputError, match="suffix"):
        workspace.register(freeze(), SOURCE, suffix=".txt")
    assert not workspace.root.exists()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes().replace(b"0.02", b"0.05")), "changed"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\n"), "changed"),
        (lambda path: path.unlink(), "missing"),
    ],
)
def test_a_frozen_file_that_was_touched(
    workspace: Workspace, registered: str, damage: Callable[[Path], object], said: str
) -> None:
    damage(workspace.folder(registered) / "registration.json")
    for attempt in (workspace.registration, workspace.start_attempt):
        with pytest.raises(IntegrityError, match=said) as caught:
            attempt(registered)
        assert caught.value.exit_code == Exit.INTEGRITY
    assert events(workspace) == ["registered"]


def test_a_frozen_file_that_is_not_canonical(workspace: Workspace, freeze: Freeze) -> None:
    loose = json.dumps(freeze().plain()).encode()
    folder = workspace.folder(sha256(loose))
    folder.mkdir(parents=True)
    (folder / "registration.json").write_bytes(loose)
    workspace.ledger.append("registered", {"registration": sha256(loose)})
    with pytest.raises(IntegrityError, match="canonical"):
        workspace.registration(sha256(loose))


def test_a_touched_hypothesis_file(workspace: Workspace, registered: str) -> None:
    (workspace.folder(registered) / "hypothesis.yaml").write_bytes(b"other")
    with pytest.raises(IntegrityError):
        workspace.hypothesis(registered)


def test_a_ledger_with_other_bodies(workspace: Workspace) -> None:
    workspace.ledger.append("registered", {"id": "x"})
    with pytest.raises(IntegrityError, match="usable `registration`"):
        workspace.registrations()


# --- amendments -----------------------------------------------------------------------------------


def test_amending_links_the_successor(
    workspace: Workspace, registered: str, freeze: Freeze
) -> None:
    new = freeze("Better")
    assert workspace.amend(registered[:8], new, SOURCE, suffix="yaml", reason=" typo ")
    assert not workspace.amend(registered, new, SOURCE, suffix="yaml", reason="typo")
    assert events(workspace) == ["registered", "registered", "amended"]
    assert workspace.ledger.entries()[-1].body == {
        "registration": new.id,
        "supersedes": registered,
        "reason": "typo",
    }
    assert [one.id for one in workspace.registrations()] == [registered, new.id]


def test_amendments_that_make_no_line(
    workspace: Workspace, registered: str, freeze: Freeze
) -> None:
    new, newest = freeze("Better"), freeze("Best")

    def amend(old: str, registration: Registration, reason: str = "typo") -> None:
        workspace.amend(old, registration, SOURCE, suffix="yaml", reason=reason)

    with pytest.raises(InputError, match="empty reason"):
        amend(registered, new, " ")
    with pytest.raises(InputError, match="changes nothing"):
        amend(registered, freeze())
    with pytest.raises(InputError, match="no registration"):
        amend("ffffff", new)
    assert events(workspace) == ["registered"]
    amend(registered, new)
    with pytest.raises(InputError, match="already has the successor"):
        amend(registered, newest)
    with pytest.raises(InputError, match="itself a successor"):
        amend(new.id, freeze())
    amend(new.id, newest)
    with pytest.raises(InputError, match="itself a successor"):
        amend(newest.id, freeze())


# --- attempts -------------------------------------------------------------------------------------


def test_an_attempt_is_entered_before_it_is_measured(workspace: Workspace, registered: str) -> None:
    with workspace.start_attempt(registered, deviations=["other code"], facts={"n": 1}) as attempt:
        (state,) = workspace.attempts(registered)
        assert (state.number, state.state, state.ended) == (1, "started", None)
        assert state.deviations == ("other code",)
        assert state.facts == {"n": 1}
        assert attempt.stages.is_dir()
        assert attempt.reference == state.reference == f"{short(registered)}/1"
        with pytest.raises(IncompleteError, match="is started"):
            workspace.evidence(registered, 1)
        attempt.finish(b"evidence\n", b"{}")
    (state,) = workspace.attempts(registered)
    assert (state.state, state.evidence) == ("finished", sha256(b"evidence\n"))
    assert workspace.evidence(registered, 1) == b"evidence\n"
    assert workspace.run_record(registered, 1) == b"{}"
    assert workspace.attempt(registered, 1) == state
    assert workspace.resolve(attempt.reference) == (registered, 1)
    assert events(workspace) == ["registered", "attempt-started", "attempt-finished"]
    with pytest.raises(IncompleteError, match="already ended"):
        attempt.finish(b"other", b"{}")


def test_how_attempts_end(workspace: Workspace, registered: str) -> None:
    with pytest.raises(ZeroDivisionError), workspace.start_attempt(registered):
        _ = 1 / 0
    with pytest.raises(InputError), workspace.start_attempt(registered):
        raise InputError("a", expected="b", fix="c", code="some.code")
    with pytest.raises(KeyboardInterrupt), workspace.start_attempt(registered):
        raise KeyboardInterrupt
    with workspace.start_attempt(registered):
        pass
    with workspace.start_attempt(registered) as attempt:
        attempt.fail(MemoryError())
    states = workspace.attempts(registered)
    assert [(state.number, state.state, state.code) for state in states] == [
        (1, "failed", "fault.unexpected"),
        (2, "failed", "some.code"),
        (3, "aborted", None),
        (4, "failed", "attempt.without-evidence"),
        (5, "failed", "fault.unexpected"),
    ]
    assert all(state.ended for state in states)
    with pytest.raises(IncompleteError, match="is failed"):
        workspace.evidence(registered, 1)
    with pytest.raises(InputError, match="no attempt 6") as caught:
        workspace.resolve(f"{registered}/6")
    assert "3 (aborted)" in caught.value.expected


def test_concurrent_attempts_get_different_numbers(workspace: Workspace, registered: str) -> None:
    other = Workspace(workspace.root)
    with workspace.start_attempt(registered) as first, other.start_attempt(registered) as second:
        assert (first.number, second.number) == (1, 2)
        assert [one.state for one in other.attempts(registered)] == ["started", "started"]
        second.finish(b"2", b"{}")
        first.finish(b"1", b"{}")
    assert [one.state for one in workspace.attempts(registered)] == ["finished", "finished"]


def test_touched_evidence(workspace: Workspace, registered: str) -> None:
    with workspace.start_attempt(registered) as attempt:
        attempt.finish(b"evidence", b"{}")
    (attempt.folder / "evidence.jsonl").write_bytes(b"better evidence")
    with pytest.raises(IntegrityError, match="changed"):
        workspace.evidence(registered, 1)


KILLED = """
import sys, time
from pathlib import Path
from prereg.workspace import Workspace
with Workspace(Path(sys.argv[1])).start_attempt(sys.argv[2]):
    print("running", flush=True)
    time.sleep(600)
"""


def test_a_killed_attempt_is_aborted(workspace: Workspace, registered: str) -> None:
    command = [sys.executable, "-c", KILLED, str(workspace.root), registered]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    assert [one.state for one in workspace.attempts(registered)] == ["started"]
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()

    before = workspace.ledger.snapshot()
    (state,) = workspace.attempts(registered)
    assert (state.state, state.ended) == ("aborted", None)
    assert workspace.ledger.snapshot() == before

    with workspace.start_attempt(registered) as attempt:
        assert attempt.number == 2
        attempt.finish(b"evidence", b"{}")
    assert events(workspace) == [
        "registered",
        "attempt-started",
        "attempt-aborted",
        "attempt-started",
        "attempt-finished",
    ]
    assert [one.state for one in workspace.attempts(registered)] == ["aborted", "finished"]
    assert workspace.attempt(registered, 1).ended is not None


def test_a_copy_without_lock_files(workspace: Workspace, registered: str) -> None:
    attempt = workspace.start_attempt(registered)
    (attempt.folder / ".lock").unlink()
    assert workspace.attempts(registered)[0].state == "aborted"
    assert not (attempt.folder / ".lock").exists()


def test_an_attempt_that_cannot_be_entered(
    workspace: Workspace, registered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise EnvironmentFault("full", expected="room", fix="free", code="environment.disk-full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_write", full)
        with pytest.raises(EnvironmentFault):
            workspace.start_attempt(registered)
    assert not (workspace.root / "runs" / short(registered) / "1").exists()
    assert workspace.attempts(registered) == ()
    with workspace.start_attempt(registered) as attempt:
        assert attempt.number == 1


def test_the_first_error_is_not_hidden_by_a_full_disk(
    workspace: Workspace, registered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise EnvironmentFault("full", expected="room", fix="free", code="environment.disk-full")

    def fail() -> None:
        monkeypatch.setattr(Ledger, "_write", full)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught, workspace.start_attempt(registered):
        fail()
    assert "could not be entered" in caught.value.__notes__[0]
    assert workspace.attempts(registered)[0].state == "aborted"


# --- verdicts and bundles -------------------------------------------------------------------------


def test_judging_enters_new_verdicts_only(workspace: Workspace, registered: str) -> None:
    with workspace.start_attempt(registered) as attempt:
        with pytest.raises(IncompleteError):
            workspace.record_judged(registered, 1, b"PASS", word="PASS")
        attempt.finish(b"evidence", b"{}")
    assert workspace.verdict(registered, 1) is None
    assert workspace.record_judged(registered, 1, b"PASS", word="PASS")
    assert not workspace.record_judged(registered, 1, b"PASS", word="PASS")
    assert workspace.record_judged(registered, 1, b"FAIL", word="FAIL")
    assert not workspace.record_judged(registered, 1, b"PASS", word="PASS")
    assert events(workspace).count("judged") == 2
    assert workspace.attempt(registered, 1).verdicts == (sha256(b"PASS"), sha256(b"FAIL"))
    assert workspace.verdict(registered, 1) == b"PASS"
    (attempt.folder / "verdict.json").write_bytes(b"MAYBE")
    with pytest.raises(IntegrityError):
        workspace.verdict(registered, 1)


def test_publishing_is_the_last_entry(workspace: Workspace, registered: str) -> None:
    with workspace.start_attempt(registered) as attempt:
        attempt.finish(b"evidence", b"{}")
    first = workspace.record_published(registered, 1, manifest="a" * 64)
    assert workspace.record_published(registered, 1, manifest="a" * 64) == first
    assert workspace.ledger.head() == first.hash
    assert first.body == {"registration": registered, "attempt": 1, "manifest": "a" * 64}
    workspace.record_judged(registered, 1, b"PASS", word="PASS")
    assert workspace.record_published(registered, 1, manifest="a" * 64).seq == first.seq + 2


def test_a_full_disk_leaves_the_workspace_whole(small_disk: Path, freeze: Freeze) -> None:
    workspace = Workspace(small_disk / "home")
    registration = freeze()
    workspace.register(registration, SOURCE, suffix="yaml")
    before = workspace.ledger.snapshot()
    with pytest.raises(EnvironmentFault) as caught:
        workspace.register(freeze("Another"), bytes(1 << 17), suffix="yaml")
    assert caught.value.exit_code == Exit.ENVIRONMENT
    assert workspace.ledger.snapshot() == before
    assert workspace.registrations() == (registration,)
    with pytest.raises(EnvironmentFault), workspace.start_attempt(registration.id) as attempt:
        attempt.finish(bytes(1 << 17), b"{}")
    states = workspace.attempts(registration.id)
    assert [(one.state, one.code) for one in states] == [("failed", "environment.disk-full")]
    assert workspace.registration(registration.id) == registration
