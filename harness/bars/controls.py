"""The controls of the bars: functions from a case to a case, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness import controls
from harness.bars.decoys import averaged_in_pairs, blocks_swapped
from harness.bars.settings import BarsPlan
from harness.case import Case
from harness.gauge.moved import moved
from harness.streams import generator
from harness.subjects.subject import Subject


def make_bar_control(
    name: str,
    case: Case,
    *,
    plan: BarsPlan,
    seed: int,
    draw: int,
    models: Mapping[str, Subject],
) -> Case:
    """The case of the claim with the fields replaced that control `name` replaces.

    Args:
        name: one of `harness.bars.control_specs.CONTROLS`.
        case: the case of the claim.
        plan: says which group `gauge-self` is drawn from.
        seed: root of the controls' random streams.
        draw: number of the draw, for random controls.
        models: subjects that the registration names, by control.

    Raises:
        ValueError: no such control.
    """
    if name in models:
        return controls.instead(case, model=models[name])
    match name:
        case "self":
            return controls.itself(case)
        case "gauge-self":
            rng = generator(seed, "gauge-self", "weights")
            element = moved(case.reference, plan.parametric.alignment, generator=rng)
            return replace(case, other=element)
        case "untrained":
            return controls.untrained(case, seed=seed)
        case "untrained-both":
            return controls.untrained_both(case, seed=seed)
        case "decoy-depth-pairs":
            return replace(case, other=averaged_in_pairs(case.reference))
        case "decoy-block-swap":
            return replace(case, other=blocks_swapped(case.reference))
        case "shuffled-components":
            return controls.shuffled_components(case, seed=seed, draw=draw)
    raise ValueError(f"expected a control of the suite, got {name!r}")
