"""From a hypothesis to a registration: everything it names is looked up, nothing is written.

No torch: models are read as files, for their shape and digest only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from harness.chosen_controls import controls_of
from harness.code_version import code_version, library_versions
from harness.corpora.catalogue import corpus, ranges
from harness.data import as_json
from harness.judging.verdict import JUDGE_VERSION
from harness.subjects.architecture import RESIDUAL
from harness.subjects.reference import Located, locate
from harness.suite import Plan, Scope, Suite, suite
from prereg.errors import InputError
from prereg.near import nearest
from prereg.registration import Bar, Claim, Hypothesis, Registration
from prereg.resolved import (
    Resolved,
    ResolvedCorpus,
    ResolvedShape,
    ResolvedSubjects,
    ResolvedSuite,
    StatisticSpec,
)

BAR_FAMILIES = {
    "B": "bar.behavioural.",
    "P": "bar.parametric.",
    "C": "bar.causal.",
    "Pr": "bar.predictive.",
}
"""Which statistics a bar may be judged by."""


@dataclass(frozen=True)
class Prepared:
    """A registration with what measuring it needs."""

    registration: Registration
    suite: Suite
    plan: Plan
    reference: Located
    others: Mapping[str, Located]
    controls: Mapping[str, Located]  # models that the registration names for controls


def prepare(hypothesis: Hypothesis) -> Prepared:
    """Looks up all that a hypothesis names.

    Raises:
        InputError: something does not exist, does not fit, or could never be decided.
    """
    chosen = _suite(hypothesis)
    plan = plan_of(hypothesis, chosen)
    drawn = corpus(hypothesis.corpus)
    sizes = ranges(hypothesis.corpus)
    missing = [split for split in chosen.required_splits if split not in sizes]
    if missing:
        raise InputError(
            f"corpus.splits without {', '.join(missing)}",
            expected=f"the splits that suite {chosen.name} reads",
            fix=f"add `{missing[0]}: 2048` under corpus.splits",
            code="registration.missing-split",
        )
    plan.check(hypothesis.corpus.splits)
    reference = locate(hypothesis.subjects.reference)
    others = {label: locate(ref) for label, ref in hypothesis.subjects.others.items()}
    named = {control: locate(ref) for control, ref in hypothesis.subjects.controls.items()}
    _check_pairs(hypothesis, reference, others)
    _check_named(reference, named, chosen=chosen)
    _check_sites(plan, reference)
    shape = ResolvedShape(
        components=reference.architecture.components, outputs=tuple(reference.architecture.heads)
    )
    statistics, frozen_suite = catalogue(hypothesis, chosen, plan, shape=shape)
    resolved = Resolved(
        subjects=ResolvedSubjects(
            reference=reference.resolved,
            others={label: other.resolved for label, other in others.items()},
            controls={control: model.resolved for control, model in named.items()},
        ),
        corpus=ResolvedCorpus(digest=drawn.digest(tuple(sizes[split] for split in sorted(sizes)))),
        shape=shape,
        code=code_version(chosen.package),
        suite=frozen_suite,
        statistics=statistics,
        sites=plan.all_sites,
        judge=JUDGE_VERSION,
        environment=library_versions() if hypothesis.environment == "pinned" else {},
    )
    registration = Registration(claim=_filled(hypothesis, plan), resolved=resolved)
    return Prepared(registration, chosen, plan, reference, others, named)


def catalogue(
    hypothesis: Hypothesis, chosen: Suite, plan: Plan, *, shape: ResolvedShape
) -> tuple[dict[str, StatisticSpec], ResolvedSuite]:
    """The suite's statistics with frozen parameters, and the controls and figures in use.

    Args:
        hypothesis: as read.
        chosen: its suite.
        plan: its plan, as the suite reads it.
        shape: of its models.

    Raises:
        InputError: a claim, bar or control that the suite does not have, or cannot decide.
    """
    statistics = _statistics(hypothesis, chosen, plan, shape=shape)
    frozen = ResolvedSuite(
        name=chosen.name,
        version=chosen.version,
        controls=controls_of(hypothesis, chosen, statistics),
        draws=plan.draws,
        figures=chosen.figures,
    )
    return statistics, frozen


def differences(frozen: Resolved, now: Resolved) -> tuple[str, ...]:
    """What of a frozen registration would be resolved otherwise today, one line each."""
    before, after = (r.model_dump(mode="json", exclude_none=True) for r in (frozen, now))
    return tuple(_walk("", before, after))


def _walk(path: str, before: Any, after: Any) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted(before.keys() | after.keys())
            for line in _walk(f"{path}.{key}" if path else key, before.get(key), after.get(key))
        ]
    return [] if before == after else [f"{path}: {before} was frozen, {after} is here now"]


def _suite(hypothesis: Hypothesis) -> Suite:
    chosen = suite(hypothesis.suite.name)
    if hypothesis.suite.version != chosen.version:
        raise InputError(
            f"version {hypothesis.suite.version} of suite {chosen.name}",
            expected=f"the installed version {chosen.version}",
            fix="install the prebench that has it, or adapt the file to the installed version",
            code="suite.version",
        )
    if hypothesis.subjects.mode not in chosen.modes:
        raise InputError(
            f"subjects.mode {hypothesis.subjects.mode!r}",
            expected=f"a mode of suite {chosen.name}: {', '.join(chosen.modes)}",
            fix="name the other models under subjects.others",
            code="registration.mode",
        )
    return chosen


def plan_of(hypothesis: Hypothesis, chosen: Suite) -> Plan:
    """The hypothesis' plan, as the suite reads it.

    Raises:
        InputError: it is not a plan of that suite.
    """
    try:
        return chosen.plan.model_validate_json(as_json(hypothesis.plan))
    except ValidationError as error:
        problems = []
        for entry in error.errors():
            place = ".".join(("plan", *(str(part) for part in entry["loc"])))
            *path, name = entry["loc"] or ("",)
            hint = ""
            if entry["type"] == "extra_forbidden":
                hint = f" ({nearest(str(name), _fields_at(chosen.plan, path))})"
            found = "" if isinstance(entry["input"], dict) else f", found {entry['input']!r}"
            problems.append(f"{place}: {entry['msg']}{found}{hint}")
        raise InputError(
            "; ".join(problems),
            expected=f"the plan of suite {chosen.name}",
            fix=f"compare with `prebench new {chosen.name}`",
            code="registration.bad-plan",
        ) from error


def _fields_at(record: type[BaseModel], path: Sequence[str | int]) -> tuple[str, ...]:
    """Fields of the record that stands at a path inside a record; none where there is none."""
    here: type[BaseModel] | None = record
    for part in path:
        if here is None:
            return ()
        if part in here.model_fields:  # else a key of a mapping, whose records are of one type
            here = _record_in(here.model_fields[str(part)].annotation)
    return () if here is None else tuple(here.model_fields)


def _record_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_record_in(argument) for argument in get_args(annotation))
    return next((one for one in found if one is not None), None)


def _filled(hypothesis: Hypothesis, plan: Plan) -> Hypothesis:
    """The hypothesis with the plan's defaults written out: nothing judged is left to a default."""
    return hypothesis.model_copy(update={"plan": plan.model_dump(mode="json")})


def _check_pairs(hypothesis: Hypothesis, reference: Located, others: Mapping[str, Located]) -> None:
    seen = {reference.resolved.weights: f"reference ({reference.resolved.written})"}
    for label, other in others.items():
        digest = other.resolved.weights
        if digest in seen:
            raise InputError(
                f"subjects.others.{label} has the same weights as {seen[digest]}",
                expected="different models (the controls make their own copies)",
                fix="name another model, or leave this one out",
                code="subject.same-weights",
            )
        seen[digest] = f"others.{label} ({other.resolved.written})"
        _check_shape(f"subjects.others.{label}", reference, other)
        _check_shared_io(hypothesis.subjects.shared_io, label, reference, other)


def _check_shape(place: str, reference: Located, other: Located) -> None:
    mine, theirs = reference.architecture, other.architecture
    for what, a, b in (
        ("architecture", mine.name, theirs.name),
        ("width", mine.size(RESIDUAL), theirs.size(RESIDUAL)),
        ("sites", list(mine.sites), list(theirs.sites)),
        ("output heads", mine.heads, theirs.heads),
    ):
        if a != b:
            raise InputError(
                f"{place} has {what} {b}",
                expected=f"the reference's {what}: {a}",
                fix="compare models of one shape",
                code="subject.other-shape",
            )


def _check_named(reference: Located, named: Mapping[str, Located], *, chosen: Suite) -> None:
    """Models that the registration names for controls: for which, and that they are others."""
    known = [control.name for control in chosen.controls if control.named]
    for control, model in named.items():
        place = f"subjects.controls.{control}"
        if control not in known:
            raise InputError(
                f"{place}: a model for {control!r}",
                expected=f"a control that takes one: {', '.join(known) or 'none in this suite'}",
                fix=nearest(control, known) if known else "leave it out",
                code="registration.model-without-control",
            )
        if model.resolved.weights == reference.resolved.weights:
            raise InputError(
                f"{place} has the reference's own weights",
                expected="another model, because that is what the control shows",
                fix="name another model, or leave it out",
                code="subject.same-weights",
            )
        _check_shape(place, reference, model)


def _check_shared_io(wanted: str, label: str, reference: Located, other: Located) -> None:
    names = reference.architecture.shared_io
    shared = all(reference.tensors[n].data == other.tensors[n].data for n in names)
    if wanted != "unchecked" and shared != (wanted == "required"):
        raise InputError(
            f"subjects.shared_io is {wanted}, and the reference and others.{label} "
            + ("share" if shared else "do not share")
            + " their input and output weights bit for bit",
            expected="weights as registered",
            fix="correct shared_io, or name another pair",
            code="subject.shared-io",
        )


def _check_sites(plan: Plan, reference: Located) -> None:
    spaces = reference.architecture.site_spaces
    for site in plan.all_sites:
        if site not in spaces:
            raise InputError(
                f"no site {site!r} in a {reference.architecture.name} model",
                expected=f"a site that `prebench models {reference.resolved.written}` lists",
                fix=nearest(site, spaces),
                code="registration.unknown-site",
            )
        if plan.site_space not in (None, spaces[site]):
            known = [name for name, space in spaces.items() if space == plan.site_space]
            raise InputError(
                f"the site {site!r} in the space {spaces[site]}",
                expected=f"a site in the space {plan.site_space}",
                fix=nearest(site, known),
                code="registration.other-space",
            )


def _statistics(
    hypothesis: Hypothesis, chosen: Suite, plan: Plan, *, shape: ResolvedShape
) -> dict[str, StatisticSpec]:
    """Every statistic of the suite, with frozen parameters; claims are checked against them."""
    frozen = _frozen(hypothesis, chosen, plan, shape=shape)
    for name, judged in hypothesis.judged().items():
        place = f"bars.{name}" if isinstance(judged, Bar) else f"claim {name!r}"
        _check_claim(
            place, name, judged, hypothesis=hypothesis, chosen=chosen, plan=plan, frozen=frozen
        )
    primary = [j for j in hypothesis.judged().values() if isinstance(j, Bar) or j.role == "primary"]
    if not primary:
        raise InputError(
            "all bars abstain and no claim is primary",
            expected="at least one judged bar or primary claim",
            fix="give a bar a threshold, or make a claim `role: primary`",
            code="registration.nothing-judged",
        )
    return frozen


def _frozen(
    hypothesis: Hypothesis, chosen: Suite, plan: Plan, *, shape: ResolvedShape
) -> dict[str, StatisticSpec]:
    """The catalogue as the plan freezes it: constants, arms and the roles of its mode filled in."""
    scope = Scope(
        components=shape.components,
        outputs=shape.outputs,
        draws=corpus(hypothesis.corpus).draws,
        splits=hypothesis.corpus.splits,
        block=hypothesis.corpus.block,
    )
    found = (plan.frozen(entry, scope) for entry in chosen.catalogue)
    within = hypothesis.subjects.mode == "within"
    return {
        entry.id: entry.model_copy(
            update={"roles": entry.roles_within if within else entry.roles, "roles_within": {}}
        )
        for entry in found
        if entry is not None
    }


def _check_claim(
    place: str,
    name: str,
    judged: Bar | Claim,
    *,
    hypothesis: Hypothesis,
    chosen: Suite,
    plan: Plan,
    frozen: Mapping[str, StatisticSpec],
) -> None:
    if judged.statistic not in chosen.statistics:
        raise InputError(
            f"{place}: no statistic {judged.statistic!r} in suite {chosen.name}",
            expected=f"a statistic that `prebench suites {chosen.name}` lists",
            fix=f"{nearest(judged.statistic, chosen.statistics)}"
            + (" Or let the bar abstain, with a reason." if isinstance(judged, Bar) else ""),
            code="registration.unknown-statistic",
        )
    if judged.statistic not in frozen:
        raise InputError(
            f"{place}: {judged.statistic}, which this plan does not measure",
            expected=f"a statistic that it does: {', '.join(frozen)}",
            fix=_missing(chosen.statistics[judged.statistic].split, hypothesis.corpus.splits),
            code="registration.not-measured",
        )
    spec = frozen[judged.statistic]
    if isinstance(judged, Bar) and not judged.statistic.startswith(BAR_FAMILIES[name]):
        raise InputError(
            f"{place}: the statistic {judged.statistic}",
            expected=f"a statistic of the family {BAR_FAMILIES[name]}*",
            fix="use it in a claim, or let the bar abstain with a reason",
            code="registration.wrong-bar",
        )
    if not spec.roles:
        raise InputError(
            f"{place}: {spec.id}, in which no control has a role",
            expected="a statistic that controls can try; this one is measured and shown only",
            fix="choose another of `prebench suites "
            f"{chosen.name}`: {', '.join(s.id for s in frozen.values() if s.roles)}",
            code="registration.no-roles",
        )
    _check_range(place, judged, spec=spec, hypothesis=hypothesis, plan=plan)
    if judged.kind not in spec.roles:
        raise InputError(
            f"{place}: kind {judged.kind!r}",
            expected=f"a direction in which {spec.id} has controls: {', '.join(spec.roles)}",
            fix="state the claim in that direction",
            code="registration.no-roles",
        )
    low = -float("inf") if spec.lower is None else spec.lower
    high = float("inf") if spec.upper is None else spec.upper
    region = judged.region
    if region.upper <= low or region.lower >= high or (region.lower < low and region.upper > high):
        raise InputError(
            f"{place}: the accepted region {region}",
            expected=f"a region that {spec.id} can both reach and miss (it lies in "
            f"[{low:g}, {high:g}])",
            fix="choose a threshold inside that range",
            code="registration.unreachable",
        )


def _missing(split: str, splits: Mapping[str, int]) -> str:
    """What to add so that a statistic of that split is measured."""
    if split not in splits:
        return f"add `{split}: 512` under corpus.splits: the samples that it reads"
    if split in ("counterfactual", "ablation"):
        return "set corpus.block to 2 or more: its sequences are paired inside a block"
    return "add what the statistic reads to the plan (for `sae.*`: plan.dictionaries)"


def _check_range(
    place: str,
    judged: Bar | Claim,
    *,
    spec: StatisticSpec,
    hypothesis: Hypothesis,
    plan: Plan,
) -> None:
    """Arm, sites and pairs that a claim names."""
    known: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
        ("over.pairs", judged.over.pairs, tuple(hypothesis.subjects.others)),
        ("over.sites", judged.over.sites, plan.all_sites),
        ("arm", "all" if judged.arm is None else (judged.arm,), spec.arms),
    )
    for what, named, choices in known:
        for item in () if named == "all" else named:
            if item not in choices:
                raise InputError(
                    f"{place}: {what} names {item!r}",
                    expected=f"one of {', '.join(choices) or 'none'}",
                    fix=nearest(item, choices),
                    code="registration.unknown-member",
                )
        if named != "all" and (not named or len(set(named)) != len(named)):
            raise InputError(
                f"{place}: {what} is empty or names something twice",
                expected="each member once, or `all`",
                fix=f"correct {what}, or leave it out",
                code="registration.bad-range",
            )
    if spec.arms and judged.arm is None:
        raise InputError(
            f"{place}: no arm",
            expected=f"one of {', '.join(spec.arms)}",
            fix="add `arm: ...`",
            code="registration.no-arm",
        )
    if not spec.per_site and judged.over.sites != "all":
        raise InputError(
            f"{place}: over.sites, for a statistic without sites",
            expected=f"{spec.id} to range over pairs alone",
            fix="leave over.sites out",
            code="registration.no-sites",
        )
