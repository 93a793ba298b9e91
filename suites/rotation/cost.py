"""How long measuring a rotation registration takes, from the numbers of operations.

Each term counts what dominates a part of the measurement; its constant is the seconds of one such
operation on one core, fitted to runs of the shipped files. `check` scales the sum by the speed of
the machine that it runs on. Good to a factor of two, and meant for no more.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.judging.evidence import MAIN
from harness.suite import Job, Workload
from suites.rotation.catalogue.alignment import PAIRED_GAIN, STITCH, STITCH_GAIN
from suites.rotation.catalogue.dictionary import BY_ARM, DICTIONARY
from suites.rotation.plan import RotationPlan

FORWARD = 4e-11
"""Of a forward pass, for each parameter and position."""
RESUMED = 0.28
"""Share of a forward pass, loss included, that goes on from a site."""
STATES = 1.8e-10
"""Of moments and maps, for each token and entry of a d x d matrix, in one pass."""
ARM = 4.5e-11
"""Of the states and sums of one statistic and arm, for each token and entry of a d x d matrix."""
CODED = 7e-11
"""Of a dictionary's reconstruction, for each token and weight."""
TRAINED = 2.8e-10
"""Of a dictionary's training, for each token and weight."""
START = 3.0
"""Of starting, reading and writing."""

_CODED_STATISTICS = frozenset(entry.id for entry in DICTIONARY)
_SHARED_MODEL = ("self", "self-fresh", "pca-k")
"""Cases that read no model beside the reference and the registered other."""
_FRESH = "self-fresh"
"""The one single case on samples of its own."""


def seconds(plan: RotationPlan, load: Workload) -> float:
    """Seconds on one core of the machine of the constants."""
    single = [job for job in load.jobs if job.draws is None]
    together = [job for job in single if job.name != _FRESH]
    passes = load.splits["fit"] + 2 * load.splits["evaluate"]
    forward = FORWARD * load.parameters * load.positions
    models = 1 + sum(job.name not in _SHARED_MODEL for job in together)
    total = forward * passes * (models + any(job.name == _FRESH for job in single))
    total += sum(_case(job, plan, load, samples=load.splits) for job in single)
    few = dict.fromkeys(("fit", "evaluate"), plan.random_controls.sequences)
    for job in load.jobs:
        if job.draws is not None:
            total += job.draws * _case(job, plan, load, samples=few)
    total += sum(_gains(job, plan, load, few=few) for job in single)
    return START + _training(plan, load) + load.pairs * total


def _case(job: Job, plan: RotationPlan, load: Workload, *, samples: Mapping[str, int]) -> float:
    """What one case costs beside the forward passes that it shares."""
    tokens = load.tokens * samples["evaluate"]
    square = load.width**2
    each = STATES * square * load.tokens * (samples["fit"] + samples["evaluate"])
    each += ARM * square * tokens * len(job.wanted)
    stitched = sum(statistic == STITCH.id for statistic, _ in job.wanted)
    each += _resumed(load, samples["evaluate"]) * (stitched + (stitched > 0))
    for name, recipe in plan.dictionaries.items():
        arms = {
            BY_ARM.get(statistic, statistic)
            for statistic, arm in job.wanted
            if arm == name and statistic in _CODED_STATISTICS
        }
        each += CODED * load.width * recipe.width * tokens * len(arms)
    return each * len(plan.sites)


def _gains(job: Job, plan: RotationPlan, load: Workload, *, few: dict[str, int]) -> float:
    """What the draws of the gains of a case cost."""
    asked = {statistic for statistic, _ in job.wanted} & {PAIRED_GAIN.id, STITCH_GAIN.id}
    if not asked:
        return 0.0
    wanted = frozenset({(STITCH.id, "rotated")} if STITCH_GAIN.id in asked else {("", None)})
    draw = Job(MAIN, None, wanted)
    return (1 + plan.draws) * _case(draw, plan, load, samples=few)


def _resumed(load: Workload, sequences: int) -> float:
    return RESUMED * FORWARD * load.parameters * load.positions * sequences


def _training(plan: RotationPlan, load: Workload) -> float:
    return sum(
        TRAINED * r.steps * r.feed.batch_tokens * load.width * r.width * len(plan.sites)
        for r in plan.dictionaries.values()
    )
