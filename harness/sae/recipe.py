"""A dictionary's training as data: everything that decides the weights that training ends with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from prereg.record import Record


class Feed(Record):
    """How a subject's states reach the dictionaries; equal for all that are trained in one pass.

    Batch i is a pure function of these fields, the subject, the samples and i.
    """

    batch_tokens: int = Field(1024, ge=1, description="Tokens an optimiser step.")
    buffer_tokens: int = Field(65_536, ge=1, description="Tokens shuffled together, at least.")
    seed: int = Field(0, ge=0, lt=2**53, description="Root seed of the shuffling.")

    @property
    def buffer_batches(self) -> int:
        """Batches that a buffer is cut into: whole ones, so that no token waits in two buffers."""
        return -(-self.buffer_tokens // self.batch_tokens)


class DictionaryOptimiser(Record):
    """Adam with linear warm-up, a constant rate and a linear fall to zero."""

    name: Literal["adam"] = "adam"
    lr: float = Field(1e-3, gt=0, description="Peak learning rate.")
    betas: tuple[float, float] = Field((0.9, 0.999), description="Decay of the two moments.")
    warmup_steps: int = Field(0, ge=0, description="Steps of linear warm-up.")
    decay_fraction: float = Field(0.2, ge=0, le=1, description="Share of the steps that it falls.")
    clip_norm: float = Field(1.0, gt=0, description="Largest gradient norm of one dictionary.")

    def rate(self, step: int, *, steps: int) -> float:
        """Learning rate over its peak before update number `step` (from 0) of `steps`."""
        warm = min(1.0, (step + 1) / (self.warmup_steps + 1))
        fall = self.decay_fraction * steps
        return warm * min(1.0, (steps - step) / fall) if fall else warm


class DictionaryRecipe(Record):
    """How one dictionary is trained; the same recipe gives the same weights on the same machine.

    The loss is the mean over tokens of |x' - x^'|^2, plus `l1` sum_j z_j |W_dec row j| for ReLU.
    States are scaled so that E|x' - mean|^2 = d; b_dec starts at the mean, the decoder rows at
    random directions of norm `decoder_norm`, the encoder at the decoder's transpose. Dead features
    are left dead: there is no auxiliary loss and no resampling, and their share is reported.
    """

    kind: Literal["topk", "relu"] = Field(description="Activation function.")
    k: int | None = Field(None, ge=1, description="Active features a token; for topk only.")
    l1: float | None = Field(None, ge=0, description="Weight of the L1 penalty; for relu only.")
    width: int = Field(ge=1, description="Number of features.")
    steps: int = Field(ge=1, description="Optimiser steps, of `feed.batch_tokens` tokens each.")
    seed: int = Field(0, ge=0, lt=2**53, description="Root seed of the initial weights.")
    decoder_norm: float = Field(1.0, gt=0, description="Norm of the initial decoder rows.")
    optimiser: DictionaryOptimiser = DictionaryOptimiser()
    feed: Feed = Feed()

    @model_validator(mode="after")
    def _sparsity_of_the_kind(self) -> DictionaryRecipe:
        if (self.k is None) == (self.kind == "topk") or (self.l1 is None) == (self.kind == "relu"):
            raise ValueError("a topk dictionary has `k` and no `l1`, a relu one `l1` and no `k`")
        if self.k is not None and self.k > self.width:
            raise ValueError(f"`k` is {self.k}, above the width {self.width}")
        return self
