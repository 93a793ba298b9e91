"""The bars suite's controls, by the names of its catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from harness.bars.controls import make_bar_control
from harness.case import Case
from harness.subjects.subject import Subject
from suites.bars.plan import FourBarsPlan


def make_control(
    name: str,
    case: Case,
    *,
    plan: FourBarsPlan,
    seed: int,
    draw: int,
    models: Mapping[str, Subject],
) -> Case:
    """The case of the claim with the fields replaced that control `name` replaces.

    Args:
        name: a control of the suite's catalogue.
        case: the case of the claim.
        plan: the registered plan.
        seed: root of the controls' random streams.
        draw: number of the draw, for random controls.
        models: subjects that the registration names, by control.

    Raises:
        ValueError: no such control.
    """
    return make_bar_control(name, case, plan=plan, seed=seed, draw=draw, models=models)
