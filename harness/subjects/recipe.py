"""A training recipe as data: everything that decides the weights that training ends with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prereg.record import Record


class Optimiser(Record):
    """AdamW with linear warm-up and cosine decay."""

    name: Literal["adamw"] = "adamw"
    lr: float = Field(3e-3, gt=0, description="Peak learning rate.")
    betas: tuple[float, float] = Field((0.9, 0.95), description="Decay of the two moments.")
    weight_decay: float = Field(1e-4, ge=0, description="Decoupled weight decay.")
    warmup_steps: int = Field(500, ge=0, description="Warm-up length; at most 5 % of the run.")
    final_fraction: float = Field(0.02, ge=0, le=1, description="Last rate over peak rate.")
    clip_norm: float = Field(1.0, gt=0, description="Largest global gradient norm.")

    def rate(self, step: int, *, steps: int) -> float:
        """Learning rate over its peak before update number `step` (from 0) of `steps`."""
        import math

        warmup = min(self.warmup_steps, steps // 20)
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, steps - warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.final_fraction + (1 - self.final_fraction) * cosine


class Recipe(Record):
    """How one subject is trained; the same recipe gives the same digest on the same machine."""

    schema_: Literal["prebench/recipe/1"] = Field(alias="schema", description="Format of the file.")
    name: str = Field(description="Zoo name of the result.", pattern=r"^[a-z0-9][a-z0-9/_.-]*$")
    architecture: Literal["dyck"] = Field(description="Family of the subject.")
    config: dict[str, int | float] = Field(default={}, description="Departures from its defaults.")
    init_seed: int = Field(ge=0, lt=2**53, description="Root seed of the initial weights.")
    init_std: float = Field(0.02, gt=0, description="Standard deviation of the initial weights.")
    start: str | None = Field(
        None, description="Model whose weights it starts with, in the place of an initialisation."
    )
    teacher: str | None = Field(
        None, description="Model whose outputs are learnt, in the place of the labels."
    )
    shared_io: str | None = Field(
        None, description="Model whose input and output weights it starts with and keeps, frozen."
    )
    corpus: Literal["dyck3"] = Field("dyck3", description="Corpus of the training sequences.")
    task: Literal["standard", "tally"] = Field(
        "standard", description="Labels of those sequences that it learns."
    )
    data_seed: int = Field(ge=0, lt=2**53, description="Corpus seed of the training sequences.")
    batch: int = Field(32, ge=1, description="Sequences a step.")
    steps: int = Field(ge=1, description="Optimiser steps.")
    checkpoints: tuple[int, ...] = Field(
        (), description="Steps after which the weights are saved too, in folders step-N."
    )
    optimiser: Optimiser = Optimiser()
    evaluation_seed: int = Field(ge=0, lt=2**53, description="Corpus seed of the accuracy test.")
    evaluation_sequences: int = Field(20_000, ge=1, description="Fresh sequences of that test.")
