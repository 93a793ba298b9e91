"""Statistics of the states themselves, carried from one model's frame into the other's."""

from __future__ import annotations

from harness.bars.control_specs import Roles
from prereg.resolved import StatisticSpec
from suites.rotation.catalogue.controls import DESTROYED, IDENTICAL, TWINS, roles

CARRIED = (
    "x~_B = (x_B - mu_B) R + mu_A, R = argmin over O(d) of ||(X_B - mu_B) R - (X_A - mu_A)||_F, "
    "R and the means from the fit tokens"
)
ARMS = (
    "Arms: raw x~_B = x_B; shift-only, R = I; pure-rotation, R fitted without means and no shift; "
    "rotated, as above; scaled, R times one scalar; linear, the least-squares affine map"
)
SHOWN = ("raw", "shift-only", "pure-rotation", "scaled", "linear")
"""Arms that stand beside the rotation in every table."""
PROCRUSTES = "orthogonal Procrustes (Schoenemann 1966), fitted and evaluated on disjoint samples"

_PAIRED_ROLES: Roles = {
    "same": roles(
        passing=IDENTICAL,
        failing=("untrained", *DESTROYED),
        comparing=("gauge-self-unaligned", "tokpos-shuffled", *TWINS),
    ),
    "differs": roles(
        passing=("gauge-self-unaligned",),
        failing=IDENTICAL,
        comparing=("untrained", "tokpos-shuffled", *DESTROYED, *TWINS),
    ),
}

_GAIN_ROLES: Roles = {
    "same": roles(passing=IDENTICAL, failing=("untrained",), comparing=TWINS),
    "differs": roles(failing=IDENTICAL, comparing=("untrained", *TWINS)),
}

PAIRED = StatisticSpec(
    id="alignment.ev.paired@1",
    title="Paired explained variance",
    formula="EV = 1 - sum |x_A - x~_B|^2 / sum |x_A - mean(x_A)|^2 over the evaluation tokens, "
    f"{CARRIED}. {ARMS}",
    unit="1",
    upper=1.0,
    source=PROCRUSTES,
    estimator="one_minus_ratio",
    per_site=True,
    arms=("rotated",),
    shown_arms=SHOWN,
    roles=_PAIRED_ROLES,
)

STITCH = StatisticSpec(
    id="alignment.stitch@1",
    title="Stitched share of the loss gap",
    formula="(L_ablated - L_stitched) / (L_ablated - L_clean): cross-entropy of the reference's "
    "output heads, summed over evaluation tokens, mean over heads, with x~_B (stitched), mu_A "
    f"(ablated) or its own state (clean) at the site; {CARRIED}. {ARMS}",
    unit="1",
    source="model stitching (Lenc & Vedaldi 2015) by a rotation, on the scale of mean ablation",
    estimator="ratio",
    per_site=True,
    arms=("rotated",),
    shown_arms=SHOWN,
    roles=_PAIRED_ROLES,
)

LINEAR_EXCESS = StatisticSpec(
    id="alignment.ev.linear_excess@1",
    title="Linear excess",
    formula="EV of the least-squares affine map minus EV of the rotation, both against x_A as in "
    "alignment.ev.paired: what one rotation leaves unexplained and a linear map does not",
    unit="1",
    source=PROCRUSTES,
    estimator="difference",
    per_site=True,
    roles=_PAIRED_ROLES,
)

WHITENED = StatisticSpec(
    id="alignment.ev.whitened@1",
    title="Whitened paired R^2",
    formula="mean over the reference's principal components p (fit tokens) that hold 99 % of its "
    "variance of 1 - sum ((x_A - x~_B).e_p)^2 / sum ((x_A - mean(x_A)).e_p)^2 over the evaluation "
    f"tokens; {CARRIED}",
    unit="1",
    upper=1.0,
    source="as paired explained variance, every component with the same weight",
    estimator="one_minus_ratio",
    per_site=True,
    roles=_PAIRED_ROLES,
)

PAIRED_GAIN = StatisticSpec(
    id="alignment.ev.paired.state_gain@1",
    title="Paired explained variance beyond token and position",
    formula="alignment.ev.paired (rotated) minus the median of its tokpos-shuffled draws, both on "
    "the sequences of the random controls",
    unit="1",
    source="what of the agreement is not already bought by the token and its position",
    estimator="value_minus_median",
    per_site=True,
    roles=_GAIN_ROLES,
)

STITCH_GAIN = StatisticSpec(
    id="alignment.stitch.state_gain@1",
    title="Stitched share beyond token and position",
    formula="alignment.stitch (rotated) minus the median of its tokpos-shuffled draws, both on the "
    "sequences of the random controls",
    unit="1",
    source="what of the agreement is not already bought by the token and its position",
    estimator="value_minus_median",
    per_site=True,
    roles=_GAIN_ROLES,
)

ALIGNMENT = (PAIRED, STITCH, LINEAR_EXCESS, WHITENED, PAIRED_GAIN, STITCH_GAIN)
