"""Bar B: the divergence between two models' outputs.

KL(spec || model) = sum_k p_k (log p_k - log q_k) in nats, mean over non-padding positions and
output heads; p from the spec (the reference), q from the model (the other).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from harness.case import Case
from harness.measured import Measured
from harness.runners.measure import BlockSums, View

COLUMNS = (
    *("body", "tail", "capped", "positions"),
    *("sequences", "exceeding", "largest", "shortest"),
)
"""Columns of the `rare_mean` estimator, in the order in which `sequence_sums` states them."""


def divergence(spec: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> Tensor:
    """KL(spec || model) of every position, [b, t] in nats, mean over output heads, fp64.

    Args:
        spec: logits of the reference by head, [b, t, classes].
        model: logits of the other model, same heads and shapes.
    """
    parts = []
    for head, logits in spec.items():
        p = logits.double().log_softmax(-1)
        q = model[head].double().log_softmax(-1)
        parts.append((p.exp() * (p - q)).sum(-1).clamp_min(0.0))  # rounding alone goes below zero
    return torch.stack(parts).mean(0)


def sequence_sums(divergences: Tensor, mask: Tensor, *, tau: float, c: float) -> dict[str, Tensor]:
    """What each sequence adds to the columns of `rare_mean`, each [b].

    A sequence exceeds if its mean divergence is above `tau` nats. `capped` is its sum with the mean
    capped at `c` nats. `largest` and `shortest` are its own sum and length: a block takes their
    maximum and minimum.
    """
    positions = mask.sum(-1).double()
    total = (divergences * mask).sum(-1)
    exceeds = total > tau * positions
    return {
        "body": torch.where(exceeds, 0.0, total),
        "tail": torch.where(exceeds, total, 0.0),
        "capped": torch.minimum(total, c * positions),
        "positions": positions,
        "sequences": torch.ones_like(positions),
        "exceeding": exceeds.double(),
        "largest": torch.where(exceeds, total, 0.0),
        "shortest": positions,
    }


class BehaviouralMeter(BlockSums):
    """Per-block columns of `rare_mean` for one case, over the outputs of both models."""

    def __init__(self, case: Case, *, blocks: int, tau: float, c: float) -> None:
        super().__init__(blocks=blocks, columns=COLUMNS)
        self.case, self.tau, self.c = case, tau, c

    def observe(self, view: View) -> None:
        """Adds one batch; a block lies inside one batch, so maxima and minima are final."""
        spec = view.out(self.case.reference).logits
        model = view.out(self.case.other).logits
        mask = view.block.mask
        parts = sequence_sums(divergence(spec, model), mask, tau=self.tau, c=self.c)
        slots, where = torch.unique(view.sample_slots, return_inverse=True)
        rows = torch.zeros(len(slots), len(self.columns), dtype=torch.float64, device=mask.device)
        for column, name in enumerate(self.columns):
            if name in ("largest", "shortest"):
                extreme = "amax" if name == "largest" else "amin"
                rows[:, column].scatter_reduce_(
                    0, where, parts[name], reduce=extreme, include_self=False
                )
            else:
                rows[:, column].index_add_(0, where, parts[name])
        self.add(slots, rows)

    def measured(self, statistic: str) -> Measured:
        """The mean divergence and its columns."""
        columns = self.by_column()
        total = float(columns["body"].sum() + columns["tail"].sum())
        return Measured(
            statistic, None, value=total / float(columns["positions"].sum()), columns=columns
        )
