"""Publishing: whole or not at all, never over what is not a bundle, the same bytes again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prereg.chain import verify_chain
from prereg.errors import EnvironmentFault, IncompleteError, InputError
from reports import bundle as module
from reports.bundle import publish
from reports.verify import verify


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes by path."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_bundle_has_everything_and_its_head_is_the_last_line(run: Any, tmp_path: Path) -> None:
    head = publish(run.workspace, run.id, run.attempt, to=tmp_path / "out")
    files = contents(tmp_path / "out")
    assert sorted(files) == [
        "evidence.jsonl",
        "figures/paired.svg",
        "figures/raw.svg",
        "hypothesis.yaml",
        "ledger.jsonl",
        "manifest.json",
        "registration.json",
        "report.html",
        "run.json",
        "verdict.json",
    ]
    last = verify_chain(files["ledger.jsonl"])[-1]
    assert (last.event, last.hash) == ("published", head)
    assert run.workspace.ledger.head() == head
    listed = json.loads(files["manifest.json"])["files"]
    assert set(files) - set(listed) == {"ledger.jsonl", "manifest.json"}


def test_an_attempt_is_judged_on_the_way_and_only_once(run: Any, tmp_path: Path) -> None:
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "out")
    events = [entry.event for entry in run.workspace.ledger.entries()]
    assert events[-2:] == ["judged", "published"]
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "again")
    assert [entry.event for entry in run.workspace.ledger.entries()] == events


def test_publishing_again_gives_the_same_bytes(run: Any, tmp_path: Path) -> None:
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "one")
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_publishing_after_the_ledger_went_on_still_verifies(run: Any, tmp_path: Path) -> None:
    first = publish(run.workspace, run.id, run.attempt, to=tmp_path / "one")
    with run.workspace.start_attempt(run.id) as attempt:
        attempt.abort("not needed")
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "two")
    assert verify(tmp_path / "one").ok
    assert verify(tmp_path / "two", head=first).ok
    assert b"attempt 2 of 3 (2 aborted)" in (tmp_path / "two" / "report.html").read_bytes()


def test_an_attempt_that_was_killed_is_entered_before_the_page_is_rendered(
    run: Any, tmp_path: Path
) -> None:
    started = {"registration": run.id, "attempt": 3, "deviations": [], "facts": {}}
    run.workspace.ledger.append("attempt-started", started)
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "out")
    assert verify(tmp_path / "out").ok
    assert b"attempt 2 of 3 (2 aborted)" in (tmp_path / "out" / "report.html").read_bytes()


def test_an_attempt_that_has_not_finished_is_refused(run: Any, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError):
        publish(run.workspace, run.id, 1, to=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_folder_is_used(run: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    publish(run.workspace, run.id, run.attempt, to=tmp_path / "out")
    assert verify(tmp_path / "out").ok


@pytest.mark.parametrize("replace", [False, True])
def test_what_is_no_bundle_is_never_overwritten(run: Any, tmp_path: Path, replace: bool) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="no bundle"):
        publish(run.workspace, run.id, run.attempt, to=target, replace=replace)
    assert contents(target) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_link_at_the_target_is_never_overwritten(
    run: Any, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "out"
    (tmp_path / "elsewhere").mkdir()
    if kind == "file":
        target.write_text("x")
    else:
        target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError):
        publish(run.workspace, run.id, run.attempt, to=target, replace=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_older_bundle_is_replaced_only_if_asked_and_only_if_nothing_else_is_in_it(
    run: Any, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    publish(run.workspace, run.id, run.attempt, to=target)
    before = contents(target)
    with pytest.raises(InputError, match="--replace"):
        publish(run.workspace, run.id, run.attempt, to=target)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(InputError):
        publish(run.workspace, run.id, run.attempt, to=target, replace=True)
    assert contents(target) == before | {"notes.txt": b"mine"}
    (target / "notes.txt").unlink()
    publish(run.workspace, run.id, run.attempt, to=target, replace=True)
    assert contents(target) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "workspace"]


@pytest.mark.parametrize("fails_at", range(0, 11, 2))
def test_a_full_disk_at_any_file_loses_nothing_and_leaves_nothing(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    target = tmp_path / "out"
    publish(run.workspace, run.id, run.attempt, to=target)
    before = contents(target)
    written: list[Path] = []
    real = module.write_atomic

    def full(path: Path, data: bytes) -> None:
        if len(written) == fails_at:
            raise EnvironmentFault("no space", expected="room", fix="free", code="environment.io")
        written.append(path)
        real(path, data)

    monkeypatch.setattr(module, "write_atomic", full)
    if fails_at < 10:
        with pytest.raises(EnvironmentFault):
            publish(run.workspace, run.id, run.attempt, to=target, replace=True)
        assert contents(target) == before
    monkeypatch.undo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "workspace"]
    publish(run.workspace, run.id, run.attempt, to=target, replace=True)
    assert verify(target).ok


def test_a_rename_that_fails_puts_the_older_bundle_back(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    publish(run.workspace, run.id, run.attempt, to=target)
    before = contents(target)
    real = Path.rename

    def refuse(self: Path, to: Path) -> Path:
        if self.suffix == ".part":
            raise OSError(28, "No space left on device")
        return real(self, to)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(EnvironmentFault):
        publish(run.workspace, run.id, run.attempt, to=target, replace=True)
    assert contents(target) == before
