"""What a registration freezes of the four bars (no torch)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from harness.bars.catalogue import CLASSES, INTERVENTIONS, JOINT
from harness.judging.correlations import CORRELATIONS
from harness.suite import Plan, Scope
from prereg.record import Record
from prereg.resolved import StatisticSpec

Alignment = Literal["none", "rotation", "signed-permutation", "full"]
"""Group over which the other model's weights are brought onto the reference's.

`none`: nothing is moved. `rotation` and `signed-permutation`: the residual stream alone, by O(d) or
its signed permutations. `full`: the whole group that the architecture's data declares.
"""


class Tail(Record):
    """Where bar B's tail of rare large errors begins, and how bad one is assumed to get."""

    tau: float = Field(0.1, gt=0, description="Mean KL of a sequence above which it is rare, nats.")
    c: float = Field(2.0, gt=0, description="Smallest contribution assumed of a rare one, nats.")

    @model_validator(mode="after")
    def _worse_than_the_body(self) -> Tail:
        if self.c < self.tau:
            raise ValueError("`c` is at least `tau`: a rare sequence is worse than a usual one")
        return self


class Predictor(Record):
    """How bars C and Pr predict the effect of a component on the spec."""

    name: Literal["ig", "ap"] = Field(
        "ig", description="Integrated gradients (midpoint rule), or attribution patching."
    )
    steps: int = Field(32, ge=1, le=1024, description="Steps of the midpoint rule.")
    completeness: float = Field(
        0.01,
        gt=0,
        le=1,
        description="Largest difference between an integral and the effect that it integrates to, "
        "over the largest effect; above it, C and Pr are undefined.",
    )


class ParametricSearch(Record):
    """How the other model's weights are brought onto the reference's."""

    alignment: Alignment = Field(
        "full", description="Group that is searched; it also says which head stands for which."
    )
    starts: int = Field(8, ge=3, le=256, description="Starts of the search over the whole group.")


class BarsPlan(Plan):
    """The part of a suite's plan that concerns the four bars."""

    kl_tail: Tail = Field(Tail(), description="Tail of bar B.")
    predictor: Predictor = Field(Predictor(), description="Predictor of bars C and Pr.")
    parametric: ParametricSearch = Field(
        ParametricSearch(), description="Search of bar P, and of the heads of bars C and Pr."
    )
    joint: tuple[float, ...] = Field(
        (0.0, 0.25, 0.5, 0.75, 1.0),
        description="Shares of the activations in the joint objective (parametric.joint).",
    )

    @model_validator(mode="after")
    def _joint_is_a_front(self) -> BarsPlan:
        shares = self.joint
        if any(not 0.0 <= share <= 1.0 for share in shares):
            raise ValueError("`joint` has a share outside [0, 1]: the weights are convex")
        if list(shares) != sorted(set(shares)):
            raise ValueError("`joint` is in ascending order, each share once")
        if shares and (shares[0] != 0.0 or shares[-1] != 1.0):
            raise ValueError("`joint` begins with 0 and ends with 1: both ends are compared")
        return self

    def frozen(self, entry: StatisticSpec, scope: Scope) -> StatisticSpec | None:
        """A bar with its constants and arms; none where the samples that it reads are missing.

        Bars C and Pr pair sequences inside their block, so that a block of one has nothing to pair.
        """
        if entry.split not in scope.splits:
            return None
        if entry.split in ("counterfactual", "ablation") and scope.block < 2:
            return None
        placeholders = {"{output}": scope.outputs, "{draw}": scope.draws}
        arms = tuple(one for arm in entry.arms for one in placeholders.get(arm, (arm,)))
        changed: dict[str, Any] = {"arms": arms}
        if entry.estimator == "rare_mean":
            changed["parameters"] = self.kl_tail.model_dump()
        if entry.estimator in CORRELATIONS:
            units = {name: float(size) for name, size in _units(entry, scope).items()}
            changed["parameters"] = units
        if entry.id in JOINT:
            changed["shown_arms"] = tuple(f"{share:g}" for share in self.joint)
        return entry.model_copy(update=changed)

    def bar_warnings(self) -> tuple[str, ...]:
        """What is allowed and makes a bar easier than by default."""
        usual, chosen = Tail(), self.kl_tail
        found = []
        if chosen.c < usual.c or chosen.tau > usual.tau:
            found.append(
                f"bar B: kl_tail {{tau: {chosen.tau:g}, c: {chosen.c:g}}} assumes rare errors to "
                f"be smaller than the usual {{tau: {usual.tau:g}, c: {usual.c:g}}}"
            )
        if self.predictor.name == "ap":
            found.append(
                "bars C and Pr: predictor ap is first order and adds up to nothing, so "
                "predictor.completeness does not bound it"
            )
        if self.predictor.completeness > Predictor().completeness:
            found.append(
                f"bars C and Pr: predictor.completeness {self.predictor.completeness:g} lets pass "
                f"integrals that are less complete than the usual {Predictor().completeness:g}"
            )
        return tuple(found)


def _units(entry: StatisticSpec, scope: Scope) -> dict[str, int]:
    """Components of the reference, and units that they make in the statistic."""
    components = len(scope.components)
    _, bar, which, *_ = entry.id.partition("@")[0].split(".")
    if entry.id.partition("@")[0].endswith(".published"):
        return {"components": components, "units": components}
    interventions = 1 if which in ("single", "increment") else INTERVENTIONS[bar]
    each = len(CLASSES) * len(scope.outputs) * interventions
    return {"components": components, "units": components * each}
