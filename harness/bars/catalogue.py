"""The four bars as catalogue entries, for every suite that measures them (no torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from harness.bars.control_specs import Roles, roles
from prereg.resolved import ControlSpec, Estimator, StatisticSpec

CLASSES = ("early", "middle", "late")
"""Classes of positions of bars C and Pr: thirds of the context length."""

BARS = ("bar.", "parametric.joint.")
"""How the ids of the bars' statistics begin."""

KL = "bar.behavioural.kl@1"
"""Bar B itself."""

JOINT = ("parametric.joint.weights@1", "parametric.joint.activations@1")
"""Statistics whose arms are the shares of the activations in the joint objective."""

_IDENTICAL = ("self", "self-fresh", "gauge-self")
"""The same function, up to the gauge."""
_OTHERS = ("lineage", "other-task", "untrained-both")
"""Models about which a bar has nothing to say."""
_DECOYS = ("decoy-depth-pairs", "decoy-block-swap", "fine-tuned")


def bar_statistics(controls: Sequence[ControlSpec]) -> tuple[StatisticSpec, ...]:
    """The entries of all four bars and what stands beside them.

    Args:
        controls: of the suite, which has a role to give to each.
    """
    known = [control.name for control in controls]
    return (
        *_behavioural(known),
        *_parametric(known),
        *_joint(),
        *_agreement(known, bar="causal"),
        *_agreement(known, bar="predictive"),
    )


_KL = (
    "mean over non-padding positions{} of KL({} || model) = sum_k p_k (log p_k - log q_k), p from "
    "{}, q from the other model"
)
_RARE = "rare large errors are bounded by Clopper-Pearson, not by the central limit"


def _behavioural(known: Sequence[str]) -> tuple[StatisticSpec, ...]:
    guard = "decoy-depth-pairs"
    kl_roles: Roles = {
        "same": roles(
            known,
            passing=_IDENTICAL,
            failing=("untrained", guard),
            comparing=(*_OTHERS, "decoy-block-swap", "fine-tuned"),
        ),
        "differs": roles(
            known, passing=("untrained",), failing=_IDENTICAL, comparing=(*_OTHERS, *_DECOYS)
        ),
    }
    kl = StatisticSpec(
        id=KL,
        title="Behavioural KL",
        formula=_KL.format(" and output heads", "spec", "the reference"),
        unit="nats",
        lower=0.0,
        source=f"bar B; {_RARE}",
        estimator="rare_mean",
        per_site=False,
        roles=kl_roles,
        roles_within=_within(known),
    )
    labels = kl.model_copy(
        update={
            "id": "bar.behavioural.kl_labels@1",
            "title": "Behavioural KL against the labels",
            "formula": _KL.format(" and output heads", "labels", "the task's labels (one-hot)")
            + ": the cross-entropy of the right output",
            "source": f"bar B as published, against the algorithm's own outputs; {_RARE}",
            "roles": {
                "same": roles(
                    known,
                    failing=("untrained", guard),
                    comparing=(*_OTHERS, "self", "gauge-self", "decoy-block-swap", "fine-tuned"),
                )
            },
            "roles_within": {"same": roles(known, failing=("untrained-both",))},
        }
    )
    any_head: Roles = {
        "same": roles(
            known,
            passing=_IDENTICAL,
            failing=("untrained",),
            comparing=(*_OTHERS, *_DECOYS),
        )
    }
    by_head = {"arms": ("{output}",), "roles": any_head}
    any_labels: Roles = {
        "same": roles(
            known,
            failing=("untrained",),
            comparing=(*_OTHERS, "self", "gauge-self", *_DECOYS),
        )
    }
    accuracy = StatisticSpec(
        id="bar.behavioural.accuracy@1",
        title="Accuracy",
        formula="share of non-padding positions at which the other model's largest logit of the "
        "output head (arm) is that of the right output",
        unit="1",
        lower=0.0,
        upper=1.0,
        source="stands beside the divergences",
        estimator="ratio",
        per_site=False,
        arms=("{output}",),
        roles=any_labels,
        roles_within={"same": roles(known, failing=("untrained-both",))},
    )
    return (
        kl,
        _variant(kl, ".head", "by output head", _KL.format("", "spec", "the reference"), by_head),
        _variant(kl, ".draw", "by draw", f"{kl.formula}, on another draw of the corpus", _BY_DRAW),
        labels,
        _variant(
            labels,
            ".head",
            "by output head",
            _KL.format("", "labels", "the task's labels (one-hot)"),
            {"arms": ("{output}",), "roles": any_labels},
        ),
        _variant(
            labels, ".draw", "by draw", f"{labels.formula}, on another draw of the corpus", _BY_DRAW
        ),
        accuracy,
    )


_BY_DRAW = {"arms": ("{draw}",)}


def _variant(
    entry: StatisticSpec, suffix: str, title: str, formula: str, update: Mapping[str, object]
) -> StatisticSpec:
    name, version = entry.id.split("@")
    changed = {
        "id": f"{name}{suffix}@{version}",
        "title": f"{entry.title}, {title}",
        "formula": formula,
    }
    return entry.model_copy(update={**changed, **update})


def _within(known: Sequence[str], *failing: str) -> Roles:
    """Within one model spec and model agree by construction: so they do on an untrained one."""
    return {"same": roles(known, passing=("gauge-self",), failing=("untrained-both", *failing))}


_GROUP = (
    "g runs over the group that plan.parametric.alignment names (full: head permutations, GL of "
    "each query-key and value-output pair, neuron permutations and positive scales, O(d) and one "
    "scale of the residual stream), both models in their balanced gauge, norms folded"
)


def _parametric(known: Sequence[str]) -> tuple[StatisticSpec, ...]:
    nmse = StatisticSpec(
        id="bar.parametric.nmse@1",
        title="Parametric error, normalised",
        formula="inf over g of the largest over tensors k of |g(B)_k - A_k|^2 / |A_k|^2, A the "
        f"reference; {_GROUP}. Above: the largest at the minimiser found of the sum; below: the "
        "largest of what no g can undercut, tensor by tensor (singular values under all matchings)",
        unit="1",
        lower=0.0,
        source="bar P; weight matching (Ainsworth et al. 2023) over the whole symmetry group",
        estimator="bracket",
        per_site=False,
        roles={
            "same": roles(
                known,
                passing=("self", "gauge-self"),
                failing=("untrained", "decoy-block-swap", "fine-tuned"),
                comparing=(*_OTHERS, "decoy-depth-pairs"),
            ),
            "differs": roles(
                known,
                passing=("untrained",),
                failing=("self", "gauge-self"),
                comparing=(*_OTHERS, *_DECOYS),
            ),
        },
        roles_within=_within(known),
    )
    mse = nmse.model_copy(
        update={
            "id": "bar.parametric.mse@1",
            "title": "Parametric error, as published",
            "formula": "as bar.parametric.nmse, divided by the number of entries of the tensor in "
            "the place of |A_k|^2, at the same minimiser: small tensors pass for free",
            "source": "bar P as published",
        }
    )
    return nmse, mse


def _joint() -> tuple[StatisticSpec, ...]:
    """The two errors that one alignment cannot make small at once; shown, no control has a role."""

    def entry(name: str, title: str, formula: str, **more: object) -> StatisticSpec:
        return StatisticSpec.model_validate(
            {
                "id": f"parametric.joint.{name}@1",
                "title": title,
                "formula": formula,
                "unit": "1",
                "source": "weights and activations under one alignment; exploratory",
                "lower": 0.0,
                "estimator": "exact",
                "per_site": False,
                "roles": {},
                **more,
            }
        )

    objective = (
        "(1 - l) W + l E, W the mean over tensors of the normalised error and E = 1 - EV of the "
        "rotated states at two sites, minimised over the whole group from several starts; arm: l"
    )
    return (
        entry(
            "weights", "Joint alignment: error of the weights", f"W at the minimiser of {objective}"
        ),
        entry(
            "activations",
            "Joint alignment: error of the activations",
            f"E at the minimiser of {objective}",
        ),
        entry(
            "barrier",
            "Joint alignment: barrier between the two optima",
            "largest rise of the objective at l = 1/2 above the straight line between its values "
            "at the two ends' optima, along the geodesic of O(d) between their rotations, the "
            "other parts of the group fitted anew at each point; undefined where there is no path",
        ),
        entry(
            "basins",
            "Joint alignment: gap between the two ends",
            "difference of the objective at l = 1/2 when it is minimised from the optimum of each "
            "end: 0 where both lie in one basin",
        ),
    )


_UNIT = (
    "one unit is a component x third of the context x output head{}, units centred within third "
    "and head, then pooled; the components of the other model are those that the alignment of its "
    "weights finds"
)
_PREDICTION = {
    "causal": "predicted on the spec along the way from its own output on a sequence to its output "
    "on the paired counterfactual one",
    "predictive": "predicted on the spec along the way from its mean output (fit tokens) to its "
    "own: the loss that its removal costs",
}
_MEASUREMENT = {
    "causal": "measured by patching the component's output on the counterfactual sequence into the "
    "other model: effect on the log-probability of the right output",
    "predictive": "measured by resample ablation of the other model (the component's output on "
    "another sequence): rise of the loss, of single components and of sets that grow in the order "
    "that the spec predicts, by their increments",
}
_SPLIT = {"causal": "counterfactual", "predictive": "ablation"}
_NAME = {"causal": "patch effects", "predictive": "ablation losses"}
_BAR = {"causal": "C", "predictive": "Pr"}
INTERVENTIONS = {"causal": 1, "predictive": 2}
"""Measured effects of one component."""


def _agreement(
    known: Sequence[str], *, bar: Literal["causal", "predictive"]
) -> tuple[StatisticSpec, ...]:
    two = INTERVENTIONS[bar] > 1
    unit = _UNIT.format(" x intervention (alone, in a set)" if two else "")
    what = f"{_PREDICTION[bar]}; {_MEASUREMENT[bar]}; {unit}"
    parts = {"single": "components alone", "increment": "sets by their increments"} if two else {}
    claimed: Roles = {
        "same": roles(
            known,
            passing=("self", "gauge-self"),
            failing=("untrained", "shuffled-components"),
            comparing=(*_OTHERS, *_DECOYS),
        ),
        "differs": roles(
            known,
            passing=("untrained",),
            failing=("self", "gauge-self"),
            comparing=(*_OTHERS, *_DECOYS, "shuffled-components"),
        ),
    }
    source = f"bar {_BAR[bar]}; integrated gradients (Sundararajan et al. 2017)"

    def entry(
        suffix: str, title: str, formula: str, estimator: Estimator, **more: object
    ) -> StatisticSpec:
        return StatisticSpec.model_validate(
            {
                "id": f"bar.{bar}.{suffix}@1",
                "title": f"{title}, {_NAME[bar]}",
                "formula": formula,
                "unit": "1",
                "source": source,
                "estimator": estimator,
                "split": _SPLIT[bar],
                "per_site": False,
                "roles": {},
                **more,
            }
        )

    judged = {"roles": claimed, "roles_within": _within(known, "shuffled-components")}
    correlation = {"lower": -1.0, "upper": 1.0}
    positive = {"lower": 0.0}
    return (
        entry(
            "pearson", "Pearson's r", f"r of p and m: {what}", "pearson", **judged, **correlation
        ),
        entry(
            "spearman",
            "Spearman's rho",
            f"r of the ranks of p and m: {what}",
            "spearman",
            **judged,
            **correlation,
        ),
        *(
            entry(
                f"{part}.pearson",
                f"Pearson's r of {title}",
                f"as bar.{bar}.pearson, over {title}",
                "pearson",
                **judged,
                **correlation,
            )
            for part, title in parts.items()
        ),
        entry("slope", "Slope", f"sum p m / sum p^2: {what}", "slope", **judged),
        entry(
            "nrmse",
            "Normalised error",
            f"sqrt(sum (p - m)^2 / sum m^2): {what}",
            "nrmse",
            **judged,
            **positive,
        ),
        entry(
            "pearson.published",
            "Pearson's r as published",
            "r of p and m over components alone, mean over positions and heads: p by integrated "
            "gradients on the spec along mean -> own, m by mean ablation of the other model"
            + ("; the same numbers as bar.causal.pearson.published" if two else ""),
            "pearson",
            **judged,
            **correlation,
            source=f"bar {_BAR[bar]} as published: there C and Pr are one quantity",
            split="ablation",
        ),
        entry(
            "leverage",
            "Largest leverage",
            f"max p^2 / sum p^2 over units: the share of the one that weighs most; {what}",
            "exact",
            upper=1.0,
            **positive,
        ),
        entry(
            "completeness",
            "Completeness residual",
            "largest over components of |integral - "
            "effect| over the largest |effect|, both on the spec and over the same way, mean over "
            "positions and heads; above plan.predictor.completeness the bar is undefined",
            "exact",
            **positive,
        ),
        entry(
            "labels",
            "r under other labellings",
            "r of p and m, and as draws r under all other "
            "assignments of the heads within their layers (at most 5,040, then random ones); "
            f"{what}",
            "draws",
            **correlation,
        ),
        entry(
            "ap.pearson",
            "Pearson's r by attribution patching",
            f"as bar.{bar}.pearson, p to first order at the own output",
            "pearson",
            **correlation,
        ),
        entry(
            "ap.nrmse",
            "Normalised error by attribution patching",
            f"as bar.{bar}.nrmse, p to first order at the own output",
            "nrmse",
            **positive,
        ),
    )
