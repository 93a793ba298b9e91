"""What the rotation suite can measure, and what each control is expected to show."""

from __future__ import annotations

from prereg.resolved import ControlSpec, FigureSpec, StatisticSpec

CONTROLS = (
    ControlSpec(
        name="self",
        replaces=("other",),
        by="the reference itself",
        random=False,
    ),
    ControlSpec(
        name="self-fresh",
        replaces=("samples", "other"),
        by="the reference itself, on evaluation samples that nothing else reads",
        random=False,
    ),
    ControlSpec(
        name="gauge-self",
        replaces=("other", "activations"),
        by="the reference, norms folded, in a Haar-random basis of the residual stream, with a "
        "random offset added to its captured states",
        random=False,
    ),
    ControlSpec(
        name="gauge-self-unaligned",
        replaces=("other", "activations", "map"),
        by="as gauge-self, and the map is the identity",
        random=False,
    ),
    ControlSpec(
        name="untrained",
        replaces=("other",),
        by="a fresh initialisation of the reference's architecture",
        random=False,
    ),
    ControlSpec(
        name="covariance-only",
        replaces=("map", "samples"),
        by="the two covariances' eigenbases matched in order of variance, with random signs, on "
        "the registered number of sequences",
        random=True,
    ),
    ControlSpec(
        name="shuffled",
        replaces=("pairing", "samples"),
        by="the other model's tokens permuted inside every block, in fit and evaluation, on the "
        "registered number of sequences",
        random=True,
    ),
)

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
        "same": {
            "self": "must-pass",
            "self-fresh": "must-pass",
            "gauge-self": "must-pass",
            "gauge-self-unaligned": "not-applicable",
            "untrained": "must-fail",
            "covariance-only": "not-applicable",
            "shuffled": "not-applicable",
        },
        "differs": {
            "self": "must-fail",
            "self-fresh": "must-fail",
            "gauge-self": "must-fail",
            "gauge-self-unaligned": "not-applicable",
            "untrained": "must-pass",
            "covariance-only": "not-applicable",
            "shuffled": "not-applicable",
        },
    },
)

PAIRED = StatisticSpec(
    id="alignment.ev.paired@1",
    title="Paired explained variance",
    formula="EV = 1 - sum |x_A - x~_B|^2 / sum |x_A - mean(x_A)|^2 over the evaluation tokens, "
    "x~_B = (x_B - mu_B) R + mu_A, R = argmin over O(d) of ||(X_B - mu_B) R - (X_A - mu_A)||_F, "
    "R and the means from the fit tokens",
    unit="1",
    upper=1.0,
    source="orthogonal Procrustes (Schoenemann 1966), fitted and evaluated on disjoint samples",
    estimator="one_minus_ratio",
    per_site=True,
    roles={
        "same": {
            "self": "must-pass",
            "self-fresh": "must-pass",
            "gauge-self": "must-pass",
            "gauge-self-unaligned": "comparator",
            "untrained": "must-fail",
            "covariance-only": "must-fail",
            "shuffled": "must-fail",
        },
        "differs": {
            "self": "must-fail",
            "self-fresh": "must-fail",
            "gauge-self": "must-fail",
            "gauge-self-unaligned": "must-pass",
            "untrained": "comparator",
            "covariance-only": "comparator",
            "shuffled": "comparator",
        },
    },
)

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
        "same": {
            "self": "must-pass",
            "self-fresh": "must-pass",
            "gauge-self": "must-fail",
            "gauge-self-unaligned": "not-applicable",
            "untrained": "must-fail",
            "covariance-only": "not-applicable",
            "shuffled": "must-fail",
        },
        "differs": {
            "self": "must-fail",
            "self-fresh": "must-fail",
            "gauge-self": "must-pass",
            "gauge-self-unaligned": "not-applicable",
            "untrained": "comparator",
            "covariance-only": "not-applicable",
            "shuffled": "comparator",
        },
    },
)

CATALOGUE = (KL, PAIRED, IDENTITY_SHARE)

FIGURES = (
    FigureSpec(
        id="paired-ev-by-site",
        title="Paired explained variance by site, with its controls",
        statistic=PAIRED.id,
    ),
    FigureSpec(
        id="identity-share-by-site",
        title="Identity share by site, with its controls",
        statistic=IDENTITY_SHARE.id,
    ),
)
