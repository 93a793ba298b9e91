"""The settings of a rotation registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.subjects.architecture import RESIDUAL
from harness.suite import Plan
from prereg.errors import InputError
from prereg.record import Record

KL = "bar.behavioural.kl@1"


class Tail(Record):
    """Where bar B's tail of rare large errors begins, and how bad one is assumed to get."""

    tau: float = Field(0.1, gt=0, description="Mean KL of a sequence above which it is rare, nats.")
    c: float = Field(2.0, gt=0, description="Smallest contribution assumed of a rare one, nats.")

    @model_validator(mode="after")
    def _worse_than_the_body(self) -> Tail:
        if self.c < self.tau:
            raise ValueError("`c` is at least `tau`: a rare sequence is worse than a usual one")
        return self


class RandomControls(Record):
    """Size of the random controls."""

    draws: int = Field(32, ge=32, le=10_000, description="Draws of each random control.")
    sequences: int = Field(
        128, ge=128, description="Sequences that one draw is fitted and read on."
    )


class RotationPlan(Plan):
    """What the rotation suite measures, and where."""

    sites: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="Sites of the residual stream."
    )
    alignment: Literal["rotation"] = Field(
        "rotation", description="Group that the map between the models is fitted in: O(d)."
    )
    kl_tail: Tail = Field(Tail(), description="Tail of bar B.")
    random_controls: RandomControls = Field(
        RandomControls(), description="Size of the random controls."
    )

    @model_validator(mode="after")
    def _each_site_once(self) -> RotationPlan:
        if len(set(self.sites)) != len(self.sites):
            raise ValueError("`sites` names a site twice")
        return self

    @property
    def all_sites(self) -> tuple[str, ...]:
        """Every site that is measured."""
        return self.sites

    @property
    def draws(self) -> int:
        """Draws of each random control."""
        return self.random_controls.draws

    @property
    def site_space(self) -> str:
        """Rotations act on states of the residual stream."""
        return RESIDUAL

    def fit_tokens(self, width: int) -> int:
        """64 tokens for each of the d dimensions.

        With fewer the fitted rotation is noise, and a claim that the models differ would be won by
        fitting badly: the controls, where the map is exact, do not show it.
        """
        return 64 * width

    def check(self, splits: Mapping[str, int]) -> None:
        """Random controls read the first sequences of fit and evaluation, so these must be there.

        Raises:
            InputError: a split has fewer.
        """
        for split in ("fit", "evaluate"):
            if splits[split] < self.random_controls.sequences:
                raise InputError(
                    f"plan.random_controls.sequences: {self.random_controls.sequences}, with "
                    f"{splits[split]} samples in the split {split}",
                    expected="no more sequences than either split has",
                    fix=f"set corpus.splits.{split} to {self.random_controls.sequences} or more",
                    code="registration.too-many-control-sequences",
                )

    def warnings(self) -> tuple[str, ...]:
        """A tail that makes bar B easier than by default."""
        usual, chosen = Tail(), self.kl_tail
        if chosen.c >= usual.c and chosen.tau <= usual.tau:
            return ()
        return (
            f"bar B: kl_tail {{tau: {chosen.tau:g}, c: {chosen.c:g}}} assumes rare errors to be "
            f"smaller than the usual {{tau: {usual.tau:g}, c: {usual.c:g}}}",
        )

    def parameters(self, statistic: str) -> Mapping[str, float]:
        """Frozen constants of a statistic's estimator."""
        return self.kl_tail.model_dump() if statistic == KL else {}
