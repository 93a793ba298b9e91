"""Judging an attempt of a workspace, and recording the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging import evidence_digest, judge, read_evidence
from harness.judging.verdict import Verdict
from prereg.canonical import canonical, short
from prereg.errors import IncompleteError
from prereg.workspace import Workspace


@dataclass(frozen=True)
class Judged:
    """A verdict and the attempt that it is about."""

    verdict: Verdict
    attempt: int
    attempts: int
    decides: bool  # whether it is the attempt that the registration's decision rule takes
    new: bool  # whether the ledger did not know this verdict yet


def chosen_attempt(workspace: Workspace, reference: str) -> tuple[str, int, bool]:
    """Registration id, attempt number, and whether it is the attempt that decides.

    `ID` means the attempt that `decision.attempt` names; `ID/N` means attempt N, whichever decides.

    Raises:
        IncompleteError: no attempt has finished yet.
    """
    found = workspace.resolve(reference)
    registration = workspace.registration(found.registration)
    rule = registration.claim.decision.attempt
    finished = [s.number for s in workspace.attempts(registration.id) if s.state == "finished"]
    deciding = (finished[0] if finished else None) if rule == "first-completed" else rule
    if found.attempt is not None:
        return registration.id, found.attempt, found.attempt == deciding
    if deciding is None or deciding not in finished:
        raise IncompleteError(
            f"no finished attempt of {short(registration.id)} to judge",
            expected=f"the attempt that decides ({rule}) to have finished",
            fix=f"prebench run {short(registration.id)}",
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
    verdict = judge(
        workspace.registration(identifier),
        read_evidence(evidence),
        evidence_sha256=evidence_digest(evidence),
    )
    data = canonical(verdict.model_dump(mode="json", exclude_none=True))
    new = workspace.record_judged(identifier, number, data)
    attempts = len(workspace.attempts(identifier))
    return Judged(verdict, number, attempts, decides, new)
