"""Statistics of the rotation itself, and of the directions that the data determine."""

from __future__ import annotations

from prereg.resolved import StatisticSpec
from suites.rotation.catalogue.controls import TWINS, roles

_FIT = "conditional on the fit samples, of zero width; no control has a role"

IDENTITY_SHARE = StatisticSpec(
    id="rotation.identity_share@1",
    title="Identity share",
    formula="T = tr(C) / ||C||_*, C = sum (x_B - mean)^T (x_A - mean) over the evaluation tokens, "
    "||C||_* its nuclear norm = max over O(d) of tr(O^T C); T = 1 iff the identity is the best "
    "rotation already; under a Haar rotation mean 0, sd ||S||_F / (sqrt(d) ||S||_*)",
    unit="1",
    lower=-1.0,
    upper=1.0,
    source="von Neumann's trace inequality; the nuclear norm is linearised at the whole C",
    estimator="ratio",
    per_site=True,
    roles={
        "same": roles(
            passing=("self", "self-fresh"),
            failing=("gauge-self", "untrained", "noise", "shuffled"),
            comparing=("tokpos-shuffled", *TWINS),
        ),
        "differs": roles(
            passing=("gauge-self",),
            failing=("self", "self-fresh"),
            comparing=("untrained", "noise", "shuffled", "tokpos-shuffled", *TWINS),
        ),
    },
)

FROBENIUS = StatisticSpec(
    id="rotation.frobenius@1",
    title="Distance of the rotation from the identity",
    formula="||R - I||_F; under a Haar rotation about sqrt(2 d). ||R - I||_F^2 = 2 d - 2 tr R, so "
    "every R of small trace is as far away, and the distance alone proves nothing",
    unit="1",
    lower=0.0,
    source=f"as published; {_FIT}",
    estimator="exact",
    per_site=True,
    roles={},
)


def _rank(name: str, title: str, formula: str) -> StatisticSpec:
    return StatisticSpec(
        id=f"rotation.rank.{name}@1",
        title=title,
        formula=formula,
        unit="1" if name == "gap" else "directions",
        lower=0.0,
        source=_FIT,
        estimator="exact",
        per_site=True,
        roles={},
    )


_EFFECTIVE = (
    "exp of the entropy of the normalised eigenvalues of the covariance of {} at the fit tokens "
    "(Roy & Vetterli 2007)"
)
_AGREEING = (
    "right singular vectors v of the whole fit cross-moment with (R_1 v).(R_2 v) >= .9, R_1 and "
    "R_2 fitted on the even and the odd blocks"
)
RANK_REFERENCE = _rank("reference", "Effective rank, reference", _EFFECTIVE.format("x_A"))
RANK_OTHER = _rank("other", "Effective rank, other model", _EFFECTIVE.format("x_B"))
RANK_STABLE = _rank("stable", "Directions that the data determine", f"number of {_AGREEING}")
RANK_GAP = _rank(
    "gap",
    "Smallest gap of the singular values",
    "smallest difference of consecutive singular values of the fit cross-moment among those of "
    "the stable directions and to the next, over the largest",
)

ROTATION = (IDENTITY_SHARE, FROBENIUS, RANK_REFERENCE, RANK_OTHER, RANK_STABLE, RANK_GAP)
