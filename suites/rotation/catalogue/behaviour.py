"""Bar B."""

from __future__ import annotations

from prereg.resolved import StatisticSpec
from suites.rotation.catalogue.controls import IDENTICAL, TWINS, roles

KL = StatisticSpec(
    id="bar.behavioural.kl@1",
    title="Behavioural KL",
    formula="mean over non-padding positions and output heads of "
    "KL(spec || model) = sum_k p_k (log p_k - log q_k), p from the reference, q from the other",
    unit="nats",
    lower=0.0,
    source="bar B; rare large errors are bounded by Clopper-Pearson, not by the central limit",
    estimator="rare_mean",
    per_site=False,
    roles={
        "same": roles(passing=IDENTICAL, failing=("untrained",), comparing=TWINS),
        "differs": roles(passing=("untrained",), failing=IDENTICAL, comparing=TWINS),
    },
)
