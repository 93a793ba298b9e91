"""Judging an attempt of a workspace, and recording the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging import evidence_digest, judge, read_evidence
from harness.judging.verdict import Verdict
from prereg.canonical import short
from prereg.errors import EnvironmentFault, IncompleteError, IntegrityError
from prereg.workspace import Workspace


@dataclass(frozen=True)
class Judged:
    """A verdict and the attempt that it is about."""

    verdict: Verdict
    attempt: int
    attempts: int
    decides: bool  # whether it is the attempt that the registration's decision rule takes
    new: bool  # whether the ledger did not know this verdict yet
    unrecorded: str = ""  # why it could not be recorded; the verdict stands all the same


def chosen_attempt(workspace: Workspace, reference: str) -> tuple[str, int, bool]:
    """Registration id, attempt number, and whether it is the attempt that decides.

    `ID` means the attempt that `decision.attempt` names; `ID/N` means attempt N, whichever decides.

    Raises:
        IncompleteError: no attempt has finished yet.
    """
    found = workspace.resolve(reference)
    registration = workspace.registration(found.registration)
    finished = [s.number for s in workspace.attempts(registration.id) if s.state == "finished"]
    deciding = registration.claim.decision.takes(finished)
    if found.attempt is not None:
        return registration.id, found.attempt, found.attempt == deciding
    if deciding is None:
        raise IncompleteError(
            f"no finished attempt of {short(registration.id)} to judge",
            expected=f"the attempt that decides ({registration.claim.decision.attempt}) to have "
            "finished",
            fix=f"prebench run {short(registration.id)}; an attempt that did not finish never "
            "decides, and a rule that names one can only be amended",
            code="judge.no-attempt",
        )
    return registration.id, deciding, True


def judge_attempt(workspace: Workspace, reference: str) -> Judged:
    """The verdict on an attempt, from the frozen registration and its evidence alone.

    Args:
        workspace: where it lies.
        reference: a registration (then the attempt that decides), or `ID/N`.

    Raises:
        IncompleteError: the attempt has not finished, or was frozen for another judge.
        IntegrityError: registration or evidence are not what the ledger says.
    """
    identifier, number, decides = chosen_attempt(workspace, reference)
    evidence = workspace.evidence(identifier, number)
    found = read_evidence(evidence)
    entered = workspace.attempt(identifier, number).deviations
    if found.header.deviations != entered:
        raise IntegrityError(
            f"evidence that states the deviations {list(found.header.deviations)}",
            expected=f"those that the ledger holds for the attempt: {list(entered)}",
            fix="take the evidence file as the run wrote it, or run again",
            code="judge.other-deviations",
        )
    verdict = judge(
        workspace.registration(identifier), found, evidence_sha256=evidence_digest(evidence)
    )
    attempts = len(workspace.attempts(identifier))
    try:
        new = workspace.record_judged(identifier, number, verdict.canonical(), word=verdict.word)
    except EnvironmentFault as error:  # judging is pure: a read-only copy can be judged too
        return Judged(verdict, number, attempts, decides, False, error.found)
    return Judged(verdict, number, attempts, decides, new)
