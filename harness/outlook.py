"""What a registration could decide, before anything is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.judging.family import family_size, members
from harness.judging.jackknife import MIN_EFFECTIVE_BLOCKS
from harness.judging.multiplicity import member_level, smallest_n_rare
from harness.resolve import Prepared
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
    needed = int(MIN_EFFECTIVE_BLOCKS)
    if blocks < needed:
        raise InputError(
            f"corpus.splits.evaluate: {samples} samples in blocks of {size} are {blocks} blocks",
            expected=f"at least {needed} blocks: with fewer every member is UNDECIDABLE",
            fix=f"set evaluate to {needed * size} or more, or make the blocks smaller",
            code="registration.too-few-blocks",
        )
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
        warnings=tuple(_warnings(registration, m=m, samples=samples)),
    )


def _warnings(registration: Registration, *, m: int, samples: int) -> list[str]:
    found = []
    for name, judged in registration.claim.judged().items():
        spec = registration.resolved.statistics[judged.statistic]
        upper = judged.region.upper
        if spec.estimator == "rare_mean" and upper < float("inf"):
            needed = smallest_n_rare(
                spec.parameters["c"], m, registration.claim.decision.level, upper
            )
            if samples < needed:
                found.append(
                    f"{name}: a PASS below {upper:g} {spec.unit} needs at least {needed:,} "
                    f"evaluation samples, {samples:,} are registered"
                )
    if not isinstance(registration.claim.controls, str):
        found += [f"control {d.control} is dropped" for d in registration.claim.controls.drop]
    return found
