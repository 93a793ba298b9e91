"""Statistics of the reference's dictionaries on the other model's states; arms: the dictionaries.

The arm of the alignment stands in the id, because each has controls of its own.
"""

from __future__ import annotations

from harness.bars.control_specs import Roles
from prereg.resolved import StatisticSpec
from suites.rotation.catalogue.alignment import CARRIED
from suites.rotation.catalogue.controls import DESTROYED, IDENTICAL, TWINS, roles

LEAST_OWN = 0.5
"""EV at home below which a dictionary is broken, and a gap to it would be won or lost by that."""

_SOURCE = "explained variance of a dictionary's reconstruction, pooled, centred on the mean"
_ROTATED = "the dictionary of the reference on x~_B against x~_B: EV = 1 - sum |D(x~_B) - x~_B|^2"
_OTHER_FITS = "no control has a role: its map is not the one that the controls replace"

_UNROTATED_ROLES: Roles = {
    "same": roles(
        passing=("self", "self-fresh"),
        failing=("gauge-self-unaligned", "untrained", "noise", "pca-k"),
        comparing=("gauge-self", *TWINS),
    ),
    "differs": roles(
        passing=("gauge-self-unaligned",),
        failing=("self", "self-fresh"),
        comparing=("gauge-self", "untrained", "noise", "pca-k", *TWINS),
    ),
}

_ROTATED_ROLES: Roles = {
    "same": roles(
        passing=IDENTICAL,
        failing=("untrained", *DESTROYED, "pca-k"),
        comparing=("gauge-self-unaligned", "tokpos-shuffled", *TWINS),
    ),
    "differs": roles(
        passing=("gauge-self-unaligned",),
        failing=IDENTICAL,
        comparing=("untrained", *DESTROYED, "tokpos-shuffled", "pca-k", *TWINS),
    ),
}

SELF = StatisticSpec(
    id="sae.ev.self@1",
    title="EV of the dictionary on its own model",
    formula="EV = 1 - sum |D(x_A) - x_A|^2 / sum |x_A - mean(x_A)|^2 over the evaluation tokens",
    unit="1",
    upper=1.0,
    source=_SOURCE,
    estimator="one_minus_ratio",
    per_site=True,
    roles={"same": roles(passing=("self-fresh",), failing=("pca-k",))},
)

RAW = StatisticSpec(
    id="sae.ev.raw@1",
    title="EV of the dictionary on the other model, uncorrected",
    formula="EV = 1 - sum |D(x_B) - x_B|^2 / sum |x_B - mean(x_B)|^2 over the evaluation tokens",
    unit="1",
    upper=1.0,
    source=_SOURCE,
    estimator="one_minus_ratio",
    per_site=True,
    roles=_UNROTATED_ROLES,
)

SHIFT_ONLY = RAW.model_copy(
    update={
        "id": "sae.ev.shift_only@1",
        "title": "EV of the dictionary on the other model, means aligned",
        "formula": "as sae.ev.raw, of x_B - mu_B + mu_A with means of the fit tokens",
    }
)

ROTATED = StatisticSpec(
    id="sae.ev.rotated@1",
    title="EV of the dictionary on the other model, rotated",
    formula=f"{_ROTATED} / sum |x~_B - mean(x~_B)|^2 over the evaluation tokens; {CARRIED}",
    unit="1",
    upper=1.0,
    source=f"{_SOURCE}; as published, but fitted and evaluated on disjoint samples",
    estimator="one_minus_ratio",
    per_site=True,
    roles=_ROTATED_ROLES,
)

PURE_ROTATION = ROTATED.model_copy(
    update={
        "id": "sae.ev.pure_rotation@1",
        "title": "EV of the dictionary on the other model, rotated without a shift",
        "formula": "as sae.ev.rotated, of x_B R with R = argmin over O(d) of ||X_B R - X_A||_F",
        "source": f"{_SOURCE}; {_OTHER_FITS}",
        "roles": {},
    }
)

SCALED = ROTATED.model_copy(
    update={
        "id": "sae.ev.scaled@1",
        "title": "EV of the dictionary on the other model, rotated and scaled",
        "formula": "as sae.ev.rotated, with R times the least-squares scalar",
        "source": f"{_SOURCE}; {_OTHER_FITS}",
        "roles": {},
    }
)

LINEAR = ROTATED.model_copy(
    update={
        "id": "sae.ev.linear@1",
        "title": "EV of the dictionary on the other model, by a linear map",
        "formula": "as sae.ev.rotated, with the least-squares affine map in the place of R",
        "source": f"{_SOURCE}; {_OTHER_FITS}",
        "roles": {},
    }
)

GAP = StatisticSpec(
    id="sae.ev.gap_to_self@1",
    title="EV of the dictionary, rotated minus self",
    formula=f"sae.ev.rotated minus sae.ev.self; undefined where the latter is below {LEAST_OWN}",
    unit="1",
    source=f"{_SOURCE}; as published, but fitted and evaluated on disjoint samples",
    estimator="difference",
    per_site=True,
    roles=_ROTATED_ROLES,
)

PAIRED = StatisticSpec(
    id="sae.ev.paired@1",
    title="EV of the dictionary against the reference's own states",
    formula="EV = 1 - sum |D(x~_B) - x_A|^2 / sum |x_A - mean(x_A)|^2 over the evaluation tokens; "
    + CARRIED,
    unit="1",
    upper=1.0,
    source=_SOURCE,
    estimator="one_minus_ratio",
    per_site=True,
    roles=_ROTATED_ROLES,
)

L0 = StatisticSpec(
    id="sae.l0@1",
    title="Active features a token",
    formula="mean over the evaluation tokens of the number of features of D(x_A) above zero",
    unit="features",
    lower=0.0,
    source="stands beside every EV of a dictionary; no control has a role",
    estimator="mean",
    per_site=True,
    roles={},
)

BY_ARM = {
    RAW.id: "raw",
    SHIFT_ONLY.id: "shift-only",
    PURE_ROTATION.id: "pure-rotation",
    ROTATED.id: "rotated",
    SCALED.id: "scaled",
    LINEAR.id: "linear",
}
"""Statistic of a dictionary on the states of each arm of the alignment."""

DICTIONARY = (SELF, RAW, SHIFT_ONLY, PURE_ROTATION, ROTATED, SCALED, LINEAR, GAP, PAIRED, L0)
