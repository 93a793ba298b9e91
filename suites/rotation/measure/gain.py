"""Gains: a statistic minus the median of its draws with states shuffled among equal tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.case import Case
from harness.controls import smaller, tokpos_shuffled
from harness.measured import Measured
from suites.rotation.catalogue.alignment import PAIRED, PAIRED_GAIN, STITCH, STITCH_GAIN
from suites.rotation.plan import RotationPlan

OF = {PAIRED_GAIN.id: (PAIRED.id, "rotated"), STITCH_GAIN.id: (STITCH.id, "rotated")}
"""Statistic and arm that each gain is about."""


def cases(case: Case, *, plan: RotationPlan, seed: int) -> list[Case]:
    """The case on the sequences of the random controls, and its draws of `tokpos-shuffled`."""
    size = plan.random_controls.sequences
    draws = range(plan.draws)
    return [
        smaller(case, size),
        *(tokpos_shuffled(case, seed=seed, draw=draw, sequences=size) for draw in draws),
    ]


def gains(asked: Sequence[str], found: Sequence[Sequence[Measured]]) -> list[Measured]:
    """The asked gains at every site.

    Args:
        asked: ids of gains.
        found: what was measured of `cases`, in their order.
    """
    by_case = [{(m.statistic, m.arm, m.site): m for m in row} for row in found]
    sites = dict.fromkeys(m.site for m in found[0])
    return [_gain(gain, site, by_case) for gain in asked for site in sites]


def _gain(
    gain: str,
    site: str | None,
    by_case: Sequence[Mapping[tuple[str, str | None, str | None], Measured]],
) -> Measured:
    real, *draws = (row[*OF[gain], site] for row in by_case)
    if real.value is None:
        return Measured(gain, site, undefined=real.undefined)
    values = tuple(draw.value for draw in draws if draw.value is not None)
    if len(values) < len(draws):
        return Measured(gain, site, undefined="some draws of tokpos-shuffled have no value")
    return Measured(gain, site, value=real.value, draws=values)
