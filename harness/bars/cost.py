"""How long measuring the bars takes, from the numbers of operations.

Each constant is the seconds of one operation on one core; good to a factor of two.
"""

from __future__ import annotations

from harness.bars.settings import BarsPlan
from harness.suite import Job, Workload

FORWARD = 4e-11
"""Of a forward pass, for each parameter and position."""
EDITED = 2.5e-11
"""Of one in which a component is edited, padding cut off."""
PATH = 7.7e-11
"""Of one with its derivative along a path."""
START = 0.25
"""Of one start of the search over the group, for a residual stream of width 64."""
_WIDTH = 64

_OWN_MODELS = ("self", "shuffled-components")
"""Controls whose models are those of the claims' own case."""


def seconds(plan: BarsPlan, load: Workload) -> float:
    """Seconds on one core of the machine of the constants."""
    total = sum(_case(job, plan, load) for job in load.jobs)
    references = 1 + any(job.name == "untrained-both" for job in load.jobs)
    return load.pairs * (total + references * _predicted(plan, load))


def _case(job: Job, plan: BarsPlan, load: Workload) -> float:
    """What one case costs beside the predictions on its reference."""
    names = {name.partition("@")[0] for name, _ in job.wanted}
    if job.name in _OWN_MODELS and job.draws is not None:
        return 0.01 * job.draws
    passes = any(n.startswith("bar.behavioural.") and not n.endswith(".draw") for n in names)
    draws = {arm for name, arm in job.wanted if ".draw@" in name}
    total = (passes + 2 * len(draws)) * FORWARD * _size(load) * load.splits["evaluate"]
    edits = EDITED * _size(load) * load.components
    if any(n.startswith("bar.causal.") for n in names):
        total += edits * load.splits["counterfactual"]
    if any(n.startswith("bar.predictive.") for n in names):
        total += 2 * edits * load.splits["ablation"]
    if any("parametric" in n for n in names) and plan.parametric.alignment == "full":
        total += plan.parametric.starts * START * (load.width / _WIDTH) ** 3
    if any(n.startswith("parametric.joint.") for n in names):
        total += 3 * len(plan.joint) * START * (load.width / _WIDTH) ** 3
    return total


def _predicted(plan: BarsPlan, load: Workload) -> float:
    """What the predictions on one reference cost."""
    names = {name for job in load.jobs for name, _ in job.wanted}
    splits = (
        ("bar.causal.", "counterfactual"),
        ("bar.predictive.", "ablation"),
    )
    sequences = sum(
        load.splits[split]
        for family, split in splits
        if any(name.startswith(family) for name in names)
    )
    return PATH * _size(load) * load.components * (plan.predictor.steps + 1) * sequences


def _size(load: Workload) -> int:
    return load.parameters * load.positions
