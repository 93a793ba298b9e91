"""Attempts at a registration: entered before anything is measured, and never forgotten.

An attempt holds a lock of the operating system while it runs. One that was started, has no end in
the ledger and whose lock is free was killed: it is `aborted`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from filelock import FileLock, Timeout
from pydantic import Field

from prereg.canonical import sha256, short
from prereg.chain import Entry
from prereg.errors import EnvironmentFault, IncompleteError, PrebenchError
from prereg.files import fault, make_folder, write_atomic
from prereg.ledger import Ledger
from prereg.record import Record
from prereg.resolved import Sha256

EVIDENCE = "evidence.jsonl"
RUN = "run.json"
VERDICT = "verdict.json"
LOCK = ".lock"

State = Literal["started", "finished", "failed", "aborted"]


class AttemptState(Record):
    """What the ledger says about one attempt."""

    registration: Sha256 = Field(description="Id of the registration.")
    number: int = Field(ge=1, description="Number of the attempt, from 1.")
    state: State = Field(description="`started` runs; `aborted` was killed or interrupted.")
    started: str = Field(description="When it was entered.")
    ended: str | None = Field(None, description="When it finished, failed or was found aborted.")
    deviations: tuple[str, ...] = Field((), description="What differed from what was frozen.")
    facts: dict[str, Any] = Field(default={}, description="Small facts recorded at its start.")
    code: str | None = Field(None, description="Code of the error that it failed with.")
    evidence: Sha256 | None = Field(None, description="sha256 of its evidence.")
    run: Sha256 | None = Field(None, description="sha256 of its run record.")
    verdicts: tuple[Sha256, ...] = Field((), description="sha256 of its verdicts, in order.")

    @property
    def reference(self) -> str:
        """`<id12>/<attempt>`, as it is written on the command line."""
        return f"{short(self.registration)}/{self.number}"


def attempt_states(
    entries: Sequence[Entry], registration: str, *, runs: Path
) -> tuple[AttemptState, ...]:
    """The attempts at a registration, in order.

    Args:
        entries: the ledger.
        registration: full id.
        runs: folder of the registration's attempts, where their locks lie.
    """
    found: dict[int, AttemptState] = {}
    for one in entries:
        if one.body.get("registration") != registration or "attempt" not in one.body:
            continue
        number = one.fact("attempt", int)
        if one.event == "attempt-started":
            found[number] = AttemptState(
                registration=registration,
                number=number,
                state="started",
                started=one.at,
                deviations=tuple(one.body.get("deviations", ())),
                facts=one.body.get("facts", {}),
            )
        elif number in found:
            found[number] = found[number].model_copy(update=_change(one, found[number]))
    return tuple(
        state.model_copy(update={"state": "aborted"})
        if state.state == "started" and not is_held(runs / str(number) / LOCK)
        else state
        for number, state in sorted(found.items())
    )


def _change(one: Entry, state: AttemptState) -> dict[str, Any]:
    if one.event == "attempt-finished":
        digests = {"evidence": one.fact("evidence", str), "run": one.fact("run", str)}
        return {"state": "finished", "ended": one.at, **digests}
    if one.event == "attempt-failed":
        return {"state": "failed", "ended": one.at, "code": one.fact("code", str)}
    if one.event == "attempt-aborted":
        return {"state": "aborted", "ended": one.at}
    if one.event == "judged":
        return {"verdicts": (*state.verdicts, one.fact("verdict", str))}
    return {}


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock at `path`.

    A lock that may not be opened counts as held: somebody else's run is not called dead on a guess.
    """
    if not path.exists():
        return False
    lock = FileLock(path, thread_local=False)
    try:
        # Another reader may be asking the same question at this instant: ask for a little longer.
        lock.acquire(timeout=0.1, poll_interval=0.01)
    except Timeout:
        return True
    except OSError as error:
        return fault(error, path).code != "environment.read-only"
    lock.release()
    return False


class Attempt:
    """A running attempt; as a context manager it records how the block ended.

    Made by `Workspace.start_attempt`, which has entered it in the ledger. Leaving the block without
    `finish` records a failure, and an interrupt an abort.
    """

    def __init__(
        self, registration: str, number: int, *, folder: Path, ledger: Ledger, lock: FileLock
    ) -> None:
        self.registration = registration
        self.number = number
        self.folder = folder
        self._ledger = ledger
        self._lock = lock
        self._ended = False

    @property
    def reference(self) -> str:
        """`<id12>/<attempt>`."""
        return f"{short(self.registration)}/{self.number}"

    @property
    def stages(self) -> Path:
        """The folder for stage results."""
        return self.folder / "stages"

    def enter_stage(
        self, stage: str, *, key: str, digest: str, reused_from: int | None = None
    ) -> Entry:
        """Enter that a stage is done; a later attempt takes over only what stands here.

        Args:
            stage: name of the stage.
            key: digest of all that decides it.
            digest: sha256 of its evidence.
            reused_from: the attempt that measured it, if it was not this one.

        Raises:
            EnvironmentFault: the ledger could not be written.
            IncompleteError: the attempt has already ended.
        """
        self._insist_running()
        body: dict[str, Any] = {"stage": stage, "key": key, "sha256": digest}
        if reused_from is not None:
            body["reused_from"] = reused_from
        return self._ledger.append("stage-finished", self._about(body))

    def finish(self, evidence: bytes, run: bytes) -> Entry:
        """Write the evidence and the run record, then enter their digests in the ledger.

        Raises:
            EnvironmentFault: they could not be written; the attempt has not ended.
            IncompleteError: the attempt has already ended.
        """
        self._insist_running()
        write_atomic(self.folder / EVIDENCE, evidence)
        write_atomic(self.folder / RUN, run)
        return self._end("attempt-finished", {"evidence": sha256(evidence), "run": sha256(run)})

    def fail(self, error: BaseException) -> Entry:
        """Enter that the attempt failed, with the code of the error.

        Raises:
            EnvironmentFault: the ledger could not be written.
            IncompleteError: the attempt has already ended.
        """
        self._insist_running()
        known = error.code if isinstance(error, PrebenchError) else "fault.unexpected"
        return self._end("attempt-failed", {"code": known, "error": type(error).__name__})

    def abort(self, reason: str) -> Entry:
        """Enter that the attempt was stopped from outside.

        Raises:
            EnvironmentFault: the ledger could not be written.
            IncompleteError: the attempt has already ended.
        """
        self._insist_running()
        return self._end("attempt-aborted", {"reason": reason})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self._ended:
                self._record(error)
        except EnvironmentFault as second:
            # The first error is what the user has to see; the ledger's readers derive `aborted`.
            if error is None:
                raise
            error.add_note(f"and its end could not be entered in the ledger: {second.found}")
        finally:
            self._ended = True
            self._lock.release()

    def _record(self, error: BaseException | None) -> None:
        if error is None:
            self.fail(
                IncompleteError(
                    "the attempt ended without evidence",
                    expected="evidence",
                    fix="run it again",
                    code="attempt.without-evidence",
                )
            )
        elif isinstance(error, Exception):
            self.fail(error)
        else:
            self.abort(type(error).__name__)

    def _end(
        self,
        event: Literal["attempt-finished", "attempt-failed", "attempt-aborted"],
        facts: Mapping[str, Any],
    ) -> Entry:
        new = self._ledger.append(event, self._about(facts))
        self._ended = True
        self._lock.release()
        return new

    def _about(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"registration": self.registration, "attempt": self.number, **facts}

    def _insist_running(self) -> None:
        if self._ended:
            raise IncompleteError(
                f"attempt {self.reference} has already ended",
                expected="a running attempt",
                fix="start another attempt",
                code="attempt.ended",
            )


def open_attempt(
    registration: str, number: int, *, folder: Path, ledger: Ledger, started: Mapping[str, Any]
) -> Attempt:
    """A new attempt: its lock is held, then it is entered in the ledger.

    Raises:
        EnvironmentFault: the folder or the ledger cannot be written; no attempt was entered.
    """
    make_folder(folder)
    lock = FileLock(folder / LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
        make_folder(folder / "stages")
        body = {"registration": registration, "attempt": number, **started}
        ledger.append("attempt-started", body)
    except (OSError, PrebenchError) as error:
        lock.release()
        for leftover in (folder / LOCK, folder / "stages", folder):
            with suppress(OSError):
                leftover.rmdir() if leftover.is_dir() else leftover.unlink()
        if isinstance(error, OSError) and not isinstance(error, PrebenchError):
            raise fault(error, folder) from error
        raise
    return Attempt(registration, number, folder=folder, ledger=ledger, lock=lock)
