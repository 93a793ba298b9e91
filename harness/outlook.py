"""What a registration could decide, before anything is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from harness.corpora.catalogue import corpus, ranges
from harness.judging.family import family_size, is_primary, members
from harness.judging.jackknife import MIN_EFFECTIVE_BLOCKS
from harness.judging.multiplicity import member_level, smallest_draws, smallest_n_rare
from harness.judging.reach import WITHOUT_BLOCKS, Size, sentence
from harness.resolve import Prepared
from harness.subjects.architecture import RESIDUAL
from harness.suite import Workload
from harness.workload import jobs, slowness
from prereg.errors import InputError
from prereg.registration import Bar, Claim, CorpusChoice, Registration


@dataclass(frozen=True)
class Outlook:
    """Size of the family, level of its intervals, and what stands in the way of a decision."""

    id: str
    family: int
    member_level: float
    blocks: int
    """Of the split `evaluate`."""
    members: dict[str, int]
    reach: dict[str, str]
    """What could PASS, a sentence a bar or claim; none of those of which nothing is known."""
    controls: tuple[str, ...]
    draws: int
    seconds: float | None
    """Predicted run time on one core of this machine, good to a factor of two."""
    warnings: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def outlook(prepared: Prepared) -> Outlook:
    """What the registration could decide.

    Raises:
        InputError: as `refuse_undecidable`.
    """
    refuse_undecidable(prepared)
    registration = prepared.registration
    claim = registration.claim
    family = members(registration)
    m = family_size(registration, family)
    return Outlook(
        id=registration.id,
        family=m,
        member_level=member_level(claim.decision.level, m),
        blocks=_blocks(claim.corpus, "evaluate"),
        members={name: len(found) for name, found in family.items()},
        reach=_reach(registration, m=m),
        controls=tuple(control.name for control in registration.resolved.suite.controls),
        draws=registration.resolved.suite.draws,
        seconds=_seconds(prepared),
        warnings=(*prepared.plan.warnings(), *_warnings(registration, m=m)),
    )


def refuse_undecidable(prepared: Prepared) -> None:
    """Refuses a registration that could decide nothing, or not what it says.

    Raises:
        InputError: too few blocks for an interval, too few fit tokens, a claim that could not mean
            what it says, one seed where several are pooled.
    """
    registration = prepared.registration
    _insist_on_blocks(registration)
    _insist_on_fit(prepared)
    width = prepared.reference.architecture.size(RESIDUAL)
    for name, judged in registration.claim.judged().items():
        prepared.plan.check_claim(name, judged, width=width)
    _insist_on_seeds(registration)
    members(registration)


def _blocks(choice: CorpusChoice, split: str) -> int:
    return -(-choice.splits[split] // choice.block)


def _insist_on_blocks(registration: Registration) -> None:
    """Blocks differ in tokens, so some more are needed than the effective ones that decide."""
    needed = round(1.2 * MIN_EFFECTIVE_BLOCKS)
    choice = registration.claim.corpus
    for name, judged in registration.claim.judged().items():
        spec = registration.resolved.statistics[judged.statistic]
        if spec.estimator in WITHOUT_BLOCKS:
            continue
        samples, blocks = choice.splits[spec.split], _blocks(choice, spec.split)
        if blocks < needed:
            raise InputError(
                f"corpus.splits.{spec.split}: {samples} samples in blocks of {choice.block} are "
                f"{blocks} blocks, for {name} ({spec.id})",
                expected=f"at least {needed} blocks: with fewer, members come out UNDECIDABLE",
                fix=f"set {spec.split} to {needed * choice.block} or more, or make the blocks "
                "smaller",
                code="registration.too-few-blocks",
            )


def _reach(registration: Registration, *, m: int) -> dict[str, str]:
    """What could PASS, at the level of the interval that decides."""
    choice = registration.claim.corpus
    level = registration.claim.decision.level
    found = {}
    for name, judged in registration.claim.judged().items():
        spec = registration.resolved.statistics[judged.statistic]
        size = Size(
            samples=choice.splits[spec.split],
            blocks=_blocks(choice, spec.split),
            seeds=len(_pairs(registration, judged)) if judged.pool == "seeds" else 0,
        )
        said = sentence(
            spec, judged.region, size=size, level=member_level(level, _sharing(judged, m=m))
        )
        if said is not None:
            found[name] = said
    return found


def _sharing(judged: Bar | Claim, *, m: int) -> int:
    """Members that share the error with those of a claim: a secondary one has it to itself."""
    return m if is_primary(judged) else 1


def _pairs(registration: Registration, judged: Bar | Claim) -> tuple[str, ...]:
    known = tuple(registration.claim.subjects.others)
    return known if judged.over.pairs == "all" else judged.over.pairs


def _seconds(prepared: Prepared) -> float | None:
    """What the suite predicts, for the speed of this machine."""
    predict = prepared.suite.seconds
    if predict is None:
        return None
    registration, reference = prepared.registration, prepared.reference
    choice = registration.claim.corpus
    seen = corpus(choice).sample(ranges(choice)["evaluate"].head(256))
    load = Workload(
        jobs=jobs(registration, plan=prepared.plan),
        pairs=max(1, len(prepared.others)),  # within one model it is its own
        splits=choice.splits,
        tokens=float(seen.mask.sum()) / len(seen.mask),
        width=reference.architecture.size(RESIDUAL),
        parameters=sum(prod(tensor.shape) for tensor in reference.tensors.values()),
        positions=seen.mask.shape[1],
        components=len(registration.resolved.shape.components),
    )
    return float(f"{predict(prepared.plan, load) * slowness():.2g}")  # no more is known


def _insist_on_fit(prepared: Prepared) -> None:
    needed = prepared.plan.fit_tokens(prepared.reference.architecture.size(RESIDUAL))
    if not needed:
        return
    choice = prepared.registration.claim.corpus
    fit = ranges(choice)["fit"]
    seen = fit.head(256)
    tokens = int(corpus(choice).sample(seen).mask.sum()) * fit.count // seen.count
    if tokens < needed:
        raise InputError(
            f"corpus.splits.fit: {fit.count} samples, about {tokens:,} tokens",
            expected=f"at least {needed:,} tokens, or the fitted maps are noise",
            fix=f"set fit to {-(-needed * fit.count // max(tokens, 1))} or more",
            code="registration.too-few-fit-tokens",
        )


def _insist_on_seeds(registration: Registration) -> None:
    for name, judged in registration.claim.judged().items():
        pairs = _pairs(registration, judged)
        if judged.pool == "seeds" and len(pairs) < 2:
            raise InputError(
                f"{name}: pool: seeds over {len(pairs)} pair",
                expected="at least two pairs: one seed says nothing about the others",
                fix="name more models under subjects.others, or leave pool out",
                code="registration.one-seed",
            )


def _warnings(registration: Registration, *, m: int) -> list[str]:
    found = []
    level = registration.claim.decision.level
    for name, judged in registration.claim.judged().items():
        spec = registration.resolved.statistics[judged.statistic]
        share = _sharing(judged, m=m)
        draws = smallest_draws(level, m=share)
        if spec.estimator == "draws" and spec.parameters.get("draws", 0) < draws:
            found.append(f"{name}: a PASS needs a null of at least {draws:,} draws")
        upper = judged.region.upper
        if spec.estimator == "rare_mean" and upper < float("inf"):
            samples = registration.claim.corpus.splits[spec.split]
            needed = smallest_n_rare(spec.parameters["c"], share, level, upper)
            if samples < needed:
                found.append(
                    f"{name}: a PASS below {upper:g} {spec.unit} needs about {needed:,} samples "
                    f"({spec.split}), {samples:,} are registered"
                )
    if not isinstance(registration.claim.controls, str):
        found += [f"control {d.control} is dropped" for d in registration.claim.controls.drop]
    return found
