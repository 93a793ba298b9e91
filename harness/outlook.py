"""What a registration could decide, before anything is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from harness.corpora.catalogue import corpus, ranges
from harness.judging.family import family_size, members
from harness.judging.jackknife import MIN_EFFECTIVE_BLOCKS
from harness.judging.multiplicity import member_level, smallest_draws, smallest_n_rare
from harness.resolve import Prepared
from harness.subjects.architecture import RESIDUAL
from harness.suite import Workload
from harness.workload import jobs, slowness
from prereg.errors import InputError
from prereg.registration import Registration


@dataclass(frozen=True)
class Outlook:
    """Size of the family, level of its intervals, and what stands in the way of a decision."""

    id: str
    family: int
    member_level: float
    blocks: int
    members: dict[str, int]
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
        InputError: nothing at all, because there are too few blocks for any interval.
    """
    registration = prepared.registration
    claim = registration.claim
    samples, size = claim.corpus.splits["evaluate"], claim.corpus.block
    blocks = -(-samples // size)
    _insist_on_blocks(samples, size=size, blocks=blocks)
    _insist_on_fit(prepared)
    width = prepared.reference.architecture.size(RESIDUAL)
    for name, judged in claim.judged().items():
        prepared.plan.check_claim(name, judged, width=width)
    _insist_on_seeds(prepared.registration)
    family = members(registration)
    m = family_size(registration, family)
    return Outlook(
        id=registration.id,
        family=m,
        member_level=member_level(claim.decision.level, m),
        blocks=blocks,
        members={name: len(found) for name, found in family.items()},
        controls=tuple(control.name for control in registration.resolved.suite.controls),
        draws=registration.resolved.suite.draws,
        seconds=_seconds(prepared),
        warnings=(*prepared.plan.warnings(), *_warnings(registration, m=m, samples=samples)),
    )


def _insist_on_blocks(samples: int, *, size: int, blocks: int) -> None:
    """Blocks differ in tokens, so some more are needed than the effective ones that decide."""
    needed = round(1.2 * MIN_EFFECTIVE_BLOCKS)
    if blocks < needed:
        raise InputError(
            f"corpus.splits.evaluate: {samples} samples in blocks of {size} are {blocks} blocks",
            expected=f"at least {needed} blocks: with fewer, members come out UNDECIDABLE",
            fix=f"set evaluate to {needed * size} or more, or make the blocks smaller",
            code="registration.too-few-blocks",
        )


def _seconds(prepared: Prepared) -> float | None:
    """What the suite predicts, for the speed of this machine."""
    predict = prepared.suite.seconds
    if predict is None:
        return None
    registration, reference = prepared.registration, prepared.reference
    choice = registration.claim.corpus
    seen = corpus(choice).sample(ranges(choice)["evaluate"].head(256))
    load = Workload(
        jobs=jobs(registration, explores=prepared.plan.explores),
        pairs=len(prepared.others),
        splits=choice.splits,
        tokens=float(seen.mask.sum()) / len(seen.mask),
        width=reference.architecture.size(RESIDUAL),
        parameters=sum(prod(tensor.shape) for tensor in reference.tensors.values()),
        positions=seen.mask.shape[1],
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
        pairs = (
            registration.claim.subjects.others if judged.over.pairs == "all" else judged.over.pairs
        )
        if judged.pool == "seeds" and len(pairs) < 2:
            raise InputError(
                f"{name}: pool: seeds over {len(pairs)} pair",
                expected="at least two pairs: one seed says nothing about the others",
                fix="name more models under subjects.others, or leave pool out",
                code="registration.one-seed",
            )


def _warnings(registration: Registration, *, m: int, samples: int) -> list[str]:
    found = []
    level = registration.claim.decision.level
    for name, judged in registration.claim.judged().items():
        spec = registration.resolved.statistics[judged.statistic]
        draws = smallest_draws(level, m=m)
        if spec.estimator == "draws" and spec.parameters.get("draws", 0) < draws:
            found.append(f"{name}: a PASS needs a null of at least {draws:,} draws")
        upper = judged.region.upper
        if spec.estimator == "rare_mean" and upper < float("inf"):
            needed = smallest_n_rare(spec.parameters["c"], m, level, upper)
            if samples < needed:
                found.append(
                    f"{name}: a PASS below {upper:g} {spec.unit} needs at least {needed:,} "
                    f"evaluation samples, {samples:,} are registered"
                )
    if not isinstance(registration.claim.controls, str):
        found += [f"control {d.control} is dropped" for d in registration.claim.controls.drop]
    return found
