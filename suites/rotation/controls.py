"""The rotation suite's controls, by the names of its catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from harness import controls
from harness.bars.controls import make_bar_control
from harness.case import Case
from harness.subjects.subject import Subject
from suites.rotation.plan import RotationPlan


def make_control(
    name: str,
    case: Case,
    *,
    plan: RotationPlan,
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
    if name in models:
        return controls.instead(case, model=models[name])
    if name in _RANDOM:
        sequences = plan.random_controls.sequences
        return _RANDOM[name](case, seed=seed, draw=draw, sequences=sequences)
    match name:
        case "self-fresh":
            return controls.itself_fresh(case)
        case "gauge-self":
            return controls.gauge_self(case, seed=seed, sites=plan.sites)
        case "gauge-self-unaligned":
            return controls.gauge_self_unaligned(case, seed=seed)
        case "pca-k":
            return controls.principal_components(case)
    return make_bar_control(name, case, plan=plan, seed=seed, draw=draw, models=models)


_RANDOM = {
    "covariance-only": controls.covariance_only,
    "haar": controls.haar,
    "noise": controls.noise,
    "shuffled": controls.shuffled,
    "tokpos-shuffled": controls.tokpos_shuffled,
}
"""Controls of which there are many draws, each on few sequences."""
