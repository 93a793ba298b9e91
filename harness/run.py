"""Measuring a registration: subjects, corpus and cases to evidence, entered in the ledger first."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.case import Case, DictionaryChoice, Samples
from harness.code_version import library_versions
from harness.corpora.catalogue import corpus, ranges
from harness.judging import read_evidence, write_evidence
from harness.judging.evidence import MAIN, Evidence, EvidenceHeader, EvidenceRecord
from harness.measured import Context, Measured, draws_record, record
from harness.resolve import Prepared, differences, prepare
from harness.stages import Kept, Stage, StageStore
from harness.suite import Wanted, load_callable
from harness.workload import wanted
from prereg.attempts import Attempt
from prereg.canonical import canonical, sha256
from prereg.errors import InputError, IntegrityError
from prereg.registration import Registration
from prereg.resolved import ControlSpec
from prereg.workspace import Workspace

Progress = Callable[[str], None]

_SPEC_SAMPLES = 256
"""Sequences of the fit split that the constructive spec is read on."""


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
    controls: Mapping[str, Any] = field(default_factory=dict)
    """Subjects that the registration names for controls, loaded."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    dictionaries: dict[str, Any] = field(default_factory=dict)
    """What their training came to."""
    memory: dict[Any, Any] = field(default_factory=dict)
    """What measuring keeps between stages."""
    spec: dict[str, Any] = field(default_factory=dict)
    """The constructive spec of every model."""


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
            "dictionaries": session.dictionaries,
            **({"spec": session.spec} if session.spec else {}),
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
    claim, prepared = registration.claim, session.prepared
    sizes = ranges(claim.corpus)
    samples = Samples(
        fit=sizes["fit"],
        evaluate=sizes["evaluate"],
        counterfactual=sizes.get("counterfactual"),
        ablation=sizes.get("ablation"),
    )
    reference = load(prepared.reference)
    session.controls = {name: load(located) for name, located in prepared.controls.items()}
    dictionary = _dictionary(registration, session, reference=reference)
    others: dict[str | None, Any] = {
        label: load(located) for label, located in prepared.others.items()
    }
    if claim.subjects.mode == "within":
        others[None] = reference
    session.spec = _spec(registration, session, reference=reference, others=others)
    records: list[EvidenceRecord] = []
    for pair, other in others.items():
        case = Case(reference, other, samples, dictionary=dictionary)
        records += _pair(registration, session, pair=pair, case=case)
    if dictionary.source is not None:
        session.dictionaries = dictionary.source.facts()
    return records


def _spec(
    registration: Registration,
    session: _Session,
    *,
    reference: Any,
    others: Mapping[str | None, Any],
) -> dict[str, Any]:
    """The constructive spec of every model, for the report; none where the samples are too few."""
    from harness.runners.spec import constructive_spec

    choice = registration.claim.corpus

    def spec(subject: Any) -> dict[str, Any]:
        found = constructive_spec(
            subject,
            corpus=corpus(choice),
            samples=ranges(choice)["fit"].head(_SPEC_SAMPLES),
            block_size=choice.block,
            trainer_options=session.trainer_options,
        )
        return found.model_dump(mode="json")

    try:
        return {
            "reference": spec(reference),
            "others": {pair: spec(other) for pair, other in others.items() if pair is not None},
        }
    except InputError as error:
        if not error.code.startswith("spec."):
            raise
        session.progress(f"no constructive spec for the report: {error.found}")
        return {}


def _dictionary(
    registration: Registration, session: _Session, *, reference: Any
) -> DictionaryChoice:
    """The reference's dictionaries, not yet trained; nothing where the plan has none."""
    from harness.sae.dictionaries import Dictionaries

    plan = session.prepared.plan
    if not plan.recipes():
        return DictionaryChoice()
    choice = registration.claim.corpus
    return DictionaryChoice(
        Dictionaries(
            reference,
            plan.recipes(),
            sites=plan.all_sites,
            corpus=corpus(choice),
            samples=ranges(choice)["dictionary"],
            trainer_options=session.trainer_options,
        )
    )


def _pair(
    registration: Registration, session: _Session, *, pair: str | None, case: Case
) -> list[EvidenceRecord]:
    """The records of every case of one pair, measured or taken from an earlier attempt."""
    tasks = [
        _task(registration, session, pair=pair, case=case, control=control)
        for control in (None, *registration.resolved.suite.controls)
    ]
    kept = {task.name: session.store.find(task.stage) for task in tasks}
    waiting = [task for task in tasks if kept[task.name] is None]
    found: dict[str, list[EvidenceRecord]] = {}
    records: list[EvidenceRecord] = []
    for task in tasks:
        begun = time.monotonic()
        if task in waiting and task.name not in found:
            together = [other for other in waiting if other.joins(task)]
            session.progress(f"measuring {_name(pair)}: {', '.join(t.name for t in together)}")
            found |= _records(registration, session, pair=pair, tasks=together)
        records += _enter(session, task, kept[task.name] or found[task.name], begun=begun)
    return records


def _name(pair: str | None) -> str:
    """What stands for a pair in the names of stages and streams; within one model, `within`."""
    return "within" if pair is None else pair


@dataclass(frozen=True, eq=False)
class _Task:
    """One stage: the claims' own case, or those of a control."""

    name: str
    control: ControlSpec | None
    stage: Stage
    cases: tuple[Case, ...]
    wanted: Wanted

    def joins(self, other: _Task) -> bool:
        """Whether both are measured in one pass: single cases on the same samples."""
        single = len(self.cases) == len(other.cases) == 1
        return self is other or (single and self.cases[0].samples == other.cases[0].samples)


def _task(
    registration: Registration,
    session: _Session,
    *,
    pair: str | None,
    case: Case,
    control: ControlSpec | None,
) -> _Task:
    from harness.streams import stream_seed

    prepared = session.prepared
    name = MAIN if control is None else control.name
    stage = Stage(
        f"{_name(pair)}/{name}",
        session.header,
        prepared,
        session.trainer_options,
        session.environment,
    )
    cases: tuple[Case, ...] = (case,)
    if control is not None:
        make = load_callable(prepared.suite.make_control)
        seed = stream_seed(registration.claim.corpus.seed, "controls", _name(pair))
        cases = tuple(
            make(name, case, plan=prepared.plan, seed=seed, draw=draw, models=session.controls)
            for draw in range(registration.resolved.suite.draws if control.random else 1)
        )
    asked = wanted(registration, control, plan=prepared.plan)
    return _Task(name, control, stage, cases, asked)


def _enter(
    session: _Session, task: _Task, source: Kept | list[EvidenceRecord], *, begun: float
) -> Iterable[EvidenceRecord]:
    """Keeps a stage and enters it in the ledger; its records, read back from what was kept."""
    stage, reused_from = task.stage, None
    if isinstance(source, Kept):
        session.progress(f"{stage.name}: taken from attempt {source.attempt}")
        data, reused_from = source.data, source.attempt
    else:
        data = write_evidence(Evidence(header=session.header, records=tuple(source)))
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
    registration: Registration, session: _Session, *, pair: str | None, tasks: Sequence[_Task]
) -> dict[str, list[EvidenceRecord]]:
    """The records of tasks that are measured in one pass, by the task's name."""
    from harness.streams import stream_seed

    choice = registration.claim.corpus
    context = Context(
        corpus=corpus(choice),
        block_size=choice.block,
        plan=session.prepared.plan,
        wanted=tuple(task.wanted for task in tasks for _ in task.cases),
        seed=stream_seed(choice.seed, "statistics", _name(pair)),
        trainer_options=session.trainer_options,
        memory=session.memory,
    )
    measure = load_callable(session.prepared.suite.measure)
    cases = [case for task in tasks for case in task.cases]
    found: Iterator[list[Measured]] = iter(measure(cases, context))
    return {
        task.name: _of_task(registration, task, found=[next(found) for _ in task.cases], pair=pair)
        for task in tasks
    }


def _of_task(
    registration: Registration,
    task: _Task,
    *,
    found: Sequence[Sequence[Measured]],
    pair: str | None,
) -> list[EvidenceRecord]:
    specs = registration.resolved.statistics
    if task.control is not None and task.control.random:
        return [
            draws_record(same, spec=specs[same[0].statistic], pair=pair, case=task.name)
            for same in zip(*found, strict=True)
        ]
    return [record(m, spec=specs[m.statistic], pair=pair, case=task.name) for m in found[0]]
