"""The rotation suite's controls, by the names of its catalogue."""

from __future__ import annotations

from harness import controls
from harness.case import Case
from suites.rotation.plan import RotationPlan


def make_control(name: str, case: Case, *, plan: RotationPlan, seed: int, draw: int) -> Case:
    """The case of the claim with the fields replaced that control `name` replaces.

    Args:
        name: a control of the suite's catalogue.
        case: the case of the claim.
        plan: the registered plan.
        seed: root of the controls' random streams.
        draw: number of the draw, for random controls.

    Raises:
        ValueError: no such control.
    """
    sequences = plan.random_controls.sequences
    match name:
        case "self":
            return controls.itself(case)
        case "self-fresh":
            return controls.itself_fresh(case)
        case "gauge-self":
            return controls.gauge_self(case, seed=seed, sites=plan.sites)
        case "gauge-self-unaligned":
            return controls.gauge_self_unaligned(case, seed=seed, sites=plan.sites)
        case "untrained":
            return controls.untrained(case, seed=seed)
        case "covariance-only":
            return controls.covariance_only(case, seed=seed, draw=draw, sequences=sequences)
        case "shuffled":
            return controls.shuffled(case, seed=seed, draw=draw, sequences=sequences)
    raise ValueError(f"expected a control of the rotation suite, got {name!r}")
