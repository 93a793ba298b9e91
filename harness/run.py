"""Measuring a registration: subjects, corpus and cases to evidence, entered in the ledger first."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.case import Case, Samples
from harness.code_version import library_versions
from harness.corpora.catalogue import corpus, ranges
from harness.judging import read_evidence, write_evidence
from harness.judging.evidence import MAIN, Evidence, EvidenceHeader, EvidenceRecord
from harness.measured import Context, Measured, draws_record, record
from harness.resolve import Prepared, differences, prepare
from harness.stages import Stage, StageStore
from harness.suite import load_callable
from prereg.attempts import Attempt
from prereg.canonical import canonical, sha256
from prereg.errors import IntegrityError
from prereg.registration import Registration
from prereg.resolved import ControlSpec
from prereg.workspace import Workspace

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Finished:
    """An attempt that was completed."""

    registration: str
    attempt: int
    evidence: str
    deviations: tuple[str, ...]
    seconds: float
    reused: tuple[str, ...]


@dataclass
class _Session:
    """What the stages of one attempt share."""

    prepared: Prepared
    header: EvidenceHeader
    trainer_options: Mapping[str, Any]
    environment: Mapping[str, Any]
    attempt: Attempt
    store: StageStore
    progress: Progress
    stages: list[dict[str, Any]] = field(default_factory=list)


def run(
    workspace: Workspace,
    reference: str,
    *,
    deviate: str | None = None,
    fresh: bool = False,
    trainer_options: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
) -> Finished:
    """Measures a registration in a new attempt.

    Args:
        workspace: where it is registered.
        reference: its id, or an unambiguous beginning of it.
        deviate: a reason for going on although something differs from what was frozen.
        fresh: measure every stage, also those that an earlier attempt has finished.
        trainer_options: the Lightning Trainer's own options, passed through and recorded.
        progress: called with a line for every stage.

    Raises:
        IntegrityError: something resolves to other digests than were frozen, and no reason to
            deviate is given; no attempt is entered.
    """
    registration = workspace.registration(reference)
    prepared = prepare(registration.claim)
    deviations = _deviations(registration, prepared, reason=deviate)
    options = dict(trainer_options or {})
    begun = time.monotonic()
    known = frozenset() if fresh else workspace.stages(registration.id)
    facts = {"code": prepared.registration.resolved.code.sha256}
    with workspace.start_attempt(registration.id, deviations=deviations, facts=facts) as attempt:
        header = EvidenceHeader(
            evidence="prebench/evidence/1", registration=registration.id, deviations=deviations
        )
        store = StageStore(attempt.stages, known=known)
        session = _Session(prepared, header, options, environment(), attempt, store, progress)
        records = _measure(registration, session)
        evidence = write_evidence(Evidence(header=header, records=tuple(records)))
        run_record = {
            "run": "prebench/run/1",
            "environment": session.environment,
            "trainer_options": {name: str(value) for name, value in options.items()},
            "stages": session.stages,
            "seconds": round(time.monotonic() - begun, 3),
        }
        attempt.finish(evidence, canonical(run_record))
    return Finished(
        registration=registration.id,
        attempt=attempt.number,
        evidence=sha256(evidence),
        deviations=deviations,
        seconds=time.monotonic() - begun,
        reused=tuple(stage["stage"] for stage in session.stages if stage["reused_from"]),
    )


def _deviations(
    registration: Registration, prepared: Prepared, *, reason: str | None
) -> tuple[str, ...]:
    """What differs from what was frozen, and the reason for going on; empty where nothing does."""
    differing = differences(registration.resolved, prepared.registration.resolved)
    if differing and reason is None:
        raise IntegrityError(
            "; ".join(differing),
            expected="everything as it was registered",
            fix='restore it, or go on with --deviate "REASON": the report will say DEVIATED',
            code="run.not-as-registered",
        )
    return (*differing, f"reason given: {reason}") if differing else ()


def environment() -> dict[str, Any]:
    """Versions, machine and thread count that the measurement runs with."""
    from harness.runners.trainer import set_threads

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "threads": set_threads(),
        "libraries": library_versions(),
    }


def _measure(registration: Registration, session: _Session) -> list[EvidenceRecord]:
    """Every record of every pair: the claims' own case, then each control."""
    from harness.runners.trainer import set_threads
    from harness.subjects.loading import load

    set_threads()
    claim = registration.claim
    sizes = ranges(claim.corpus)
    samples = Samples(fit=sizes["fit"], evaluate=sizes["evaluate"])
    reference = load(session.prepared.reference)
    records: list[EvidenceRecord] = []
    for pair, located in session.prepared.others.items():
        case = Case(reference=reference, other=load(located), samples=samples)
        for control in (None, *registration.resolved.suite.controls):
            records += _stage(registration, session, pair=pair, case=case, control=control)
    return records


def _stage(
    registration: Registration,
    session: _Session,
    *,
    pair: str,
    case: Case,
    control: ControlSpec | None,
) -> Iterable[EvidenceRecord]:
    """The records of one case of one pair, measured or taken from an earlier attempt."""
    name = MAIN if control is None else control.name
    stage = Stage(
        f"{pair}/{name}",
        session.header,
        session.prepared,
        session.trainer_options,
        session.environment,
    )
    kept = session.store.find(stage)
    begun = time.monotonic()
    if kept is None:
        session.progress(f"measuring {stage.name}")
        records = _records(registration, session, pair=pair, case=case, control=control)
        data = write_evidence(Evidence(header=session.header, records=tuple(records)))
    else:
        session.progress(f"{stage.name}: taken from attempt {kept.attempt}")
        data = kept.data
    reused_from = None if kept is None else kept.attempt
    session.store.keep(stage, data)
    session.attempt.enter_stage(
        stage.name, key=stage.key, digest=sha256(data), reused_from=reused_from
    )
    session.stages.append(
        {
            "stage": stage.name,
            "sha256": sha256(data),
            "reused_from": reused_from,
            "seconds": round(time.monotonic() - begun, 3),
        }
    )
    return read_evidence(data).records


def _records(
    registration: Registration,
    session: _Session,
    *,
    pair: str,
    case: Case,
    control: ControlSpec | None,
) -> list[EvidenceRecord]:
    from harness.streams import stream_seed

    suite, plan = session.prepared.suite, session.prepared.plan
    specs = registration.resolved.statistics
    context = Context(
        corpus=corpus(registration.claim.corpus),
        block_size=registration.claim.corpus.block,
        plan=plan,
        statistics=_wanted(registration, control),
        trainer_options=session.trainer_options,
    )
    measure = load_callable(suite.measure)
    if control is None:
        found: list[Measured] = measure([case], context)[0]
        return [record(m, spec=specs[m.statistic], pair=pair, case=MAIN) for m in found]
    make = load_callable(suite.make_control)
    seed = stream_seed(registration.claim.corpus.seed, "controls", pair)
    draws = range(registration.resolved.suite.draws if control.random else 1)
    cases = [make(control.name, case, plan=plan, seed=seed, draw=draw) for draw in draws]
    by_draw: list[list[Measured]] = measure(cases, context)
    if not control.random:
        return [
            record(m, spec=specs[m.statistic], pair=pair, case=control.name) for m in by_draw[0]
        ]
    return [
        draws_record(same, spec=specs[same[0].statistic], pair=pair, case=control.name)
        for same in zip(*by_draw, strict=True)
    ]


def _wanted(registration: Registration, control: ControlSpec | None) -> frozenset[str]:
    """What is measured: everything for the claims' own case, what has a role for a control."""
    specs = registration.resolved.statistics
    if control is None:
        return frozenset(specs)
    judged = registration.claim.judged().values()
    wanted = frozenset(
        claim.statistic
        for claim in judged
        if specs[claim.statistic].roles[claim.kind].get(control.name, "not-applicable")
        != "not-applicable"
    )
    return wanted or frozenset(claim.statistic for claim in judged)  # an added control
