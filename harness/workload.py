"""What a registration asks to be measured, and how fast this machine is (no torch)."""

from __future__ import annotations

import time

import numpy as np

from harness.judging.evidence import MAIN
from harness.suite import Job, Plan, Wanted
from prereg.registration import Registration
from prereg.resolved import ControlSpec


def wanted(registration: Registration, control: ControlSpec | None, *, plan: Plan) -> Wanted:
    """Statistics and arms that are measured.

    For the claims' own case what is claimed and, where the plan explores, all the rest; for a
    control that of the claimed in which it has a role.
    """
    specs = registration.resolved.statistics
    judged = registration.claim.judged().values()
    claimed = frozenset((claim.statistic, claim.arm) for claim in judged)
    if control is None:
        everything = frozenset(
            (spec.id, arm)
            for spec in specs.values()
            for arm in ((*spec.arms, *spec.shown_arms) or (None,))
            if plan.explored(spec.id)
        )
        return claimed | everything
    chosen = frozenset(
        (claim.statistic, claim.arm)
        for claim in judged
        if specs[claim.statistic].roles[claim.kind].get(control.name, "not-applicable")
        != "not-applicable"
    )
    if chosen:
        return chosen
    # A control that was added. A draw of one has no draws of its own to be held against.
    nested = control.random
    return frozenset(
        one for one in claimed if not (nested and specs[one[0]].estimator == "value_minus_median")
    )


def jobs(registration: Registration, *, plan: Plan) -> tuple[Job, ...]:
    """What is measured of every pair, in order."""
    suite = registration.resolved.suite
    return (
        Job(MAIN, None, wanted(registration, None, plan=plan)),
        *(
            Job(
                control.name,
                suite.draws if control.random else None,
                wanted(registration, control, plan=plan),
            )
            for control in suite.controls
        ),
    )


def slowness() -> float:
    """Time of a small fixed computation here, over its time on the machine of the constants.

    In processor time and the best of a few short tries, so that what else runs here does not count:
    predictions are multiplied by it, and are of a core that has nothing else to do.
    """
    x = np.linspace(-1.0, 1.0, 1 << 15)
    best = float("inf")
    for _ in range(_TRIES):
        begun = time.process_time()
        for _ in range(_ROUNDS):
            np.exp(x)  # one thread on every machine, unlike a matrix product
        best = min(best, time.process_time() - begun)
    return best / _SECONDS


_TRIES, _ROUNDS = 5, 200
_SECONDS = 0.0035
"""Seconds of the best try, on the machine on which the suites' constants were measured."""
