"""The settings of a rotation registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.suite import Plan
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
    sequences: int = Field(128, ge=16, description="Sequences that one draw is fitted and read on.")


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

    def parameters(self, statistic: str) -> Mapping[str, float]:
        """Frozen constants of a statistic's estimator."""
        return self.kl_tail.model_dump() if statistic == KL else {}
