"""The workspace: where registrations, attempts, evidence and verdicts lie.

    ledger.jsonl                          what happened, in order
    registrations/<id12>/registration.json, hypothesis.yaml (or .json)
    runs/<id12>/<attempt>/evidence.jsonl, run.json, verdict.json, stages/

Plain files, made to be committed. The ledger decides: a file that it does not know is not read, and
one whose digest differs from what it says is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prereg.attempts import (
    EVIDENCE,
    RUN,
    VERDICT,
    Attempt,
    AttemptState,
    attempt_states,
    open_attempt,
)
from prereg.canonical import sha256, short
from prereg.chain import Entry
from prereg.errors import IncompleteError, InputError, IntegrityError
from prereg.files import fault, make_folder, write_atomic
from prereg.ledger import Ledger
from prereg.references import Reference, resolve
from prereg.registration import Registration

FOLDER = ".prebench"
VARIABLE = "PREBENCH_HOME"
REGISTRATION = "registration.json"
_SUFFIXES = {"yaml": "yaml", "yml": "yaml", "json": "json"}


class Workspace:
    """A folder of registrations and runs under one ledger; nothing is made before it is needed.

    Args:
        root: the folder.

    Raises:
        InputError: `root`, or a folder above it, is a file.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.ledger = Ledger(self.root / "ledger.jsonl")
        for place in (self.root, *self.root.absolute().parents):
            if _is_file(place):
                raise InputError(
                    f"the workspace {self.root}: {place} is a file",
                    expected="a folder, or a place where one can be made",
                    fix=f"pass another folder with --workspace, or set {VARIABLE}",
                    code="workspace.is-file",
                )

    @classmethod
    def at(cls, explicit: Path | None = None) -> Workspace:
        """The workspace that was asked for, else that of PREBENCH_HOME, else `.prebench` here.

        Raises:
            InputError: the place is a file.
        """
        if explicit is not None:
            return cls(Path(explicit))
        home = os.environ.get(VARIABLE)
        return cls(Path(home).expanduser() if home else Path(FOLDER))

    # --- registrations ----------------------------------------------------------------------------

    def register(
        self, registration: Registration, source: bytes, *, suffix: str, at: datetime | None = None
    ) -> bool:
        """Freeze a registration; True if it is new, False if this very one was frozen before.

        Args:
            registration: what is frozen.
            source: the hypothesis file as written.
            suffix: `yaml` or `json`, the format of `source`.
            at: time of the entry; now by default.

        Raises:
            InputError: the suffix is another one.
            IntegrityError: the workspace does not hold.
            EnvironmentFault: it could not be written; nothing was registered.
        """
        name = _source_name(suffix)
        frozen = registration.canonical()
        identifier = sha256(frozen)
        with self._writing() as entries:
            registered = _registered(entries)
            if identifier in registered:
                self._frozen(identifier)
                return False
            self._insist_free(identifier, registered)
            folder = self.folder(identifier)
            make_folder(folder)
            write_atomic(folder / REGISTRATION, frozen)
            write_atomic(folder / name, source)
            # The ledger comes last: what it names is on the disk.
            self.ledger.append(
                "registered",
                {"registration": identifier, "hypothesis": sha256(source), "file": name},
                at=at,
            )
        return True

    def amend(
        self,
        old_id: str,
        registration: Registration,
        source: bytes,
        *,
        suffix: str,
        reason: str,
    ) -> bool:
        """Register a successor of `old_id`, and link it; False if that very link exists.

        Both stay. An amendment is one step: what has a successor is amended through it.

        Raises:
            InputError: no reason, nothing changed, `old_id` has another successor or is itself a
                successor of the new one.
            IntegrityError: the workspace does not hold.
            EnvironmentFault: it could not be written.
        """
        old, new = self.resolve(old_id).registration, registration.id
        if not reason.strip():
            raise _amendment("an empty reason", "why it was amended", "pass --reason TEXT")
        with self._writing() as entries:
            links = _successors(entries)
            if links.get(old) == new:
                return False
            _insist_successor(old, new, links=links)
            self.register(registration, source, suffix=suffix)
            body = {"registration": new, "supersedes": old, "reason": reason.strip()}
            self.ledger.append("amended", body)
        return True

    def resolve(self, reference: str) -> Reference:
        """The registration, and the attempt if one is named, that `reference` stands for.

        Raises:
            InputError: unknown or ambiguous; the message lists what is near.
        """
        found = resolve(reference, known=list(_registered(self.ledger.entries())))
        if found.attempt is not None:
            self.attempt(found.registration, found.attempt)
        return found

    def registration(self, reference: str) -> Registration:
        """The frozen registration that `reference` stands for, its bytes verified.

        Raises:
            InputError: unknown or ambiguous reference.
            IntegrityError: the stored file is not what was frozen.
        """
        return self._frozen(self.resolve(reference).registration)

    def registrations(self) -> tuple[Registration, ...]:
        """Every registration, in the order in which they were registered."""
        return tuple(self._frozen(one) for one in _registered(self.ledger.entries()))

    def hypothesis(self, reference: str) -> tuple[str, bytes]:
        """Name and bytes of the hypothesis file as it was registered.

        Raises:
            InputError: unknown or ambiguous reference.
            IntegrityError: the stored file is not what was registered.
        """
        identifier = self.resolve(reference).registration
        entry = _registered(self.ledger.entries())[identifier]
        suffix = entry.fact("file", str).rpartition(".")[2]
        path = self.folder(identifier) / _source_name(suffix)
        return path.name, _verified(path, {entry.fact("hypothesis", str)})

    def folder(self, identifier: str) -> Path:
        """The folder of a registration."""
        return self.root / "registrations" / short(identifier)

    # --- attempts ---------------------------------------------------------------------------------

    def start_attempt(
        self,
        reference: str,
        *,
        deviations: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> Attempt:
        """A new attempt, entered in the ledger before anything is measured.

        Args:
            reference: the registration.
            deviations: what differs from what was frozen, and why it is run all the same.
            facts: small plain facts (stage digests that are reused, devices).

        Raises:
            InputError: unknown reference.
            IntegrityError: the workspace does not hold.
            EnvironmentFault: it could not be written; no attempt was entered.
        """
        identifier = self.resolve(reference).registration
        started = {"deviations": list(deviations), "facts": dict(facts or {})}
        with self._writing() as entries:
            self._frozen(identifier)
            before = self._states(entries, identifier)
            number = max((state.number for state in before), default=0) + 1
            folder = self.run_folder(identifier, number)
            return open_attempt(
                identifier, number, folder=folder, ledger=self.ledger, started=started
            )

    def attempts(self, reference: str) -> tuple[AttemptState, ...]:
        """Every attempt at a registration, in order; killed ones are `aborted`."""
        identifier = self.resolve(reference).registration
        return self._states(self.ledger.entries(), identifier)

    def attempt(self, reference: str, number: int) -> AttemptState:
        """One attempt at a registration.

        Raises:
            InputError: unknown reference, or no such attempt.
        """
        entries = self.ledger.entries()
        identifier = resolve(reference, known=list(_registered(entries))).registration
        states = self._states(entries, identifier)
        for state in states:
            if state.number == number:
                return state
        known = ", ".join(f"{state.number} ({state.state})" for state in states)
        raise InputError(
            f"no attempt {number} of {short(identifier)}",
            expected=f"one of {known}" if known else "an attempt; there is none yet",
            fix="`prebench log` lists them" if known else f"`prebench run {short(identifier)}`",
            code="reference.no-attempt",
        )

    def stages(self, reference: str) -> frozenset[tuple[str, str]]:
        """Key and sha256 of every stage that an attempt at a registration has finished."""
        identifier = self.resolve(reference).registration
        return frozenset(
            (one.fact("key", str), one.fact("sha256", str))
            for one in self.ledger.entries()
            if one.event == "stage-finished" and one.body.get("registration") == identifier
        )

    def run_folder(self, identifier: str, number: int) -> Path:
        """The folder of an attempt."""
        return self.root / "runs" / short(identifier) / str(number)

    def evidence(self, reference: str, number: int) -> bytes:
        """The evidence of a finished attempt, verified.

        Raises:
            IncompleteError: the attempt has not finished.
            IntegrityError: the file is not what the ledger says.
        """
        state = self._finished(reference, number)
        path = self.run_folder(state.registration, number) / EVIDENCE
        return _verified(path, {str(state.evidence)})

    def run_record(self, reference: str, number: int) -> bytes:
        """The run record (environment, devices, timings) of a finished attempt, verified.

        Raises:
            IncompleteError: the attempt has not finished.
            IntegrityError: the file is not what the ledger says.
        """
        state = self._finished(reference, number)
        return _verified(self.run_folder(state.registration, number) / RUN, {str(state.run)})

    # --- verdicts and bundles ---------------------------------------------------------------------

    def record_judged(self, reference: str, number: int, verdict: bytes, *, word: str) -> bool:
        """Write the verdict on an attempt; True if the ledger did not know this verdict yet.

        Args:
            reference: the registration.
            number: the attempt.
            verdict: bytes of the verdict.
            word: what it says, for whoever reads the ledger alone.

        Raises:
            IncompleteError: the attempt has not finished.
            EnvironmentFault: it could not be written.
        """
        with self._writing():
            state = self._finished(reference, number)
            write_atomic(self.run_folder(state.registration, number) / VERDICT, verdict)
            if sha256(verdict) in state.verdicts:
                return False
            body = _about(state) | {"verdict": sha256(verdict), "word": word}
            self.ledger.append("judged", body)
        return True

    def verdict(self, reference: str, number: int) -> bytes | None:
        """The last verdict written on an attempt, verified; none where it was not judged.

        Raises:
            IncompleteError: the attempt has not finished.
            IntegrityError: the file is not a verdict that the ledger knows.
        """
        state = self._finished(reference, number)
        if not state.verdicts:
            return None
        path = self.run_folder(state.registration, number) / VERDICT
        return _verified(path, set(state.verdicts))

    def record_published(self, reference: str, number: int, *, manifest: str) -> Entry:
        """Enter that an attempt was published; the entry that is, or already was, the last one.

        Args:
            reference: the registration.
            number: the attempt.
            manifest: sha256 of the bundle's manifest.

        Raises:
            IncompleteError: the attempt has not finished.
            EnvironmentFault: it could not be written.
        """
        with self._writing() as entries:
            body = _about(self._finished(reference, number)) | {"manifest": manifest}
            if entries and entries[-1].event == "published" and entries[-1].body == body:
                return entries[-1]
            return self.ledger.append("published", body)

    # --- within -----------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[tuple[Entry, ...]]:
        """The writer's lock, and the ledger with every killed attempt entered as aborted."""
        with self.ledger.locked():
            ignored = self.root / ".gitignore"
            if not ignored.exists():
                write_atomic(ignored, b"*.lock\n")
            self._insist_known()
            for state in self._killed():
                body = _about(state) | {"reason": "no process holds it"}
                self.ledger.append("attempt-aborted", body)
            yield self.ledger.entries()

    def _insist_known(self) -> None:
        """No results lie here whose attempt the ledger does not know: then lines are missing."""
        known = {
            (short(one.fact("registration", str)), str(one.fact("attempt", int)))
            for one in self.ledger.entries()
            if one.event == "attempt-started"
        }
        runs = self.root / "runs"
        for folder in sorted(runs.glob("*/*")) if runs.is_dir() else []:
            results = any((folder / name).exists() for name in (EVIDENCE, RUN, VERDICT, "stages"))
            if results and (folder.parent.name, folder.name) not in known:
                raise IntegrityError(
                    f"results in {folder}, an attempt that {self.ledger.path} does not know",
                    expected="a ledger that has lost no line",
                    fix="restore the ledger (from version control, or a published bundle)",
                    code="workspace.unknown-to-ledger",
                )

    def _killed(self) -> Iterator[AttemptState]:
        entries = self.ledger.entries()
        for identifier in _registered(entries):
            for state in self._states(entries, identifier):
                if state.state == "aborted" and state.ended is None:
                    yield state

    def _states(self, entries: Sequence[Entry], identifier: str) -> tuple[AttemptState, ...]:
        return attempt_states(entries, identifier, runs=self.root / "runs" / short(identifier))

    def _finished(self, reference: str, number: int) -> AttemptState:
        state = self.attempt(reference, number)
        if state.state != "finished":
            raise IncompleteError(
                f"attempt {state.reference} is {state.state}",
                expected="a finished attempt",
                fix="wait for it" if state.state == "started" else "run the registration again",
                code="attempt.not-finished",
            )
        return state

    def _frozen(self, identifier: str) -> Registration:
        path = self.folder(identifier) / REGISTRATION
        data = _verified(path, {identifier})
        try:
            registration = Registration.model_validate_json(data)
        except ValidationError as error:
            raise _changed(path, f"not a registration that this version reads ({error})") from error
        if registration.canonical() != data:
            raise _changed(path, "not the canonical form of what it says")
        return registration

    def _insist_free(self, identifier: str, registered: Mapping[str, Any]) -> None:
        taken = [known for known in registered if short(known) == short(identifier)]
        if taken:
            raise InputError(
                f"{identifier} and {taken[0]} begin with the same twelve digits",
                expected="ids that differ there",
                fix="change a word of the hypothesis file's title",
                code="workspace.collision",
            )


def _registered(entries: Sequence[Entry]) -> dict[str, Entry]:
    """The `registered` entries by id, in order."""
    registered = [one for one in entries if one.event == "registered"]
    return {one.fact("registration", str): one for one in registered}


def _successors(entries: Sequence[Entry]) -> dict[str, str]:
    return {
        one.fact("supersedes", str): one.fact("registration", str)
        for one in entries
        if one.event == "amended"
    }


def _insist_successor(old: str, new: str, *, links: Mapping[str, str]) -> None:
    if old == new:
        raise _amendment(
            "an amendment that changes nothing", "another hypothesis", "edit the file first"
        )
    if old in links:
        raise _amendment(
            f"{short(old)} already has the successor {short(links[old])}",
            "the newest of the line",
            f"amend {short(links[old])}",
        )
    later: str | None = new
    while later is not None:
        later = links.get(later)
        if later == old:
            raise _amendment(
                f"{short(old)} is itself a successor of {short(new)}",
                "a hypothesis that was not registered before it",
                "register another hypothesis file",
            )


def _amendment(found: str, expected: str, fix: str) -> InputError:
    return InputError(found, expected=expected, fix=fix, code="workspace.amendment")


def _about(state: AttemptState) -> dict[str, Any]:
    return {"registration": state.registration, "attempt": state.number}


def _source_name(suffix: str) -> str:
    kind = _SUFFIXES.get(suffix.lower().removeprefix("."))
    if kind is None:
        raise InputError(
            f"the suffix {suffix!r}",
            expected="yaml or json",
            fix="name the hypothesis file so",
            code="workspace.suffix",
        )
    return f"hypothesis.{kind}"


def _is_file(place: Path) -> bool:
    try:
        return place.exists() and not place.is_dir()
    except OSError as error:
        raise fault(error, place) from error


def _verified(path: Path, digests: set[str]) -> bytes:
    """The bytes of a file that the ledger vouches for."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _changed(path, "missing") from error
    except OSError as error:
        raise fault(error, path) from error
    if sha256(data) not in digests:
        raise _changed(path, f"changed (its sha256 is {sha256(data)})")
    return data


def _changed(path: Path, how: str) -> IntegrityError:
    return IntegrityError(
        f"{path} is {how}",
        expected="the file whose digest the ledger holds",
        fix="restore it from a copy, or from version control",
        code="workspace.changed",
    )
