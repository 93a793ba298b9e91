"""Bar B: the divergence of a model's outputs from the spec's, and from the labels.

KL(spec || model) = sum_k p_k (log p_k - log q_k) in nats, mean over non-padding positions and
output heads; p from the spec (the reference), q from the model (the other). Against the task's
labels p is one-hot, and the divergence is -log q of the right output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from harness.case import Case
from harness.measured import Measured
from harness.runners.measure import BlockSums, View
from harness.subjects.loss import surprisals

COLUMNS = (
    *("body", "tail", "capped", "positions"),
    *("sequences", "exceeding", "largest", "shortest"),
)
"""Columns of the `rare_mean` estimator, in the order in which `sequence_sums` states them."""

Against = Literal["spec", "labels"]
"""Whose outputs stand on the left of the divergence."""


def divergences(spec: Mapping[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """KL(spec || model) of every position by output head, [b, t] each in nats, fp64.

    Args:
        spec: logits of the reference by head, [b, t, classes].
        model: logits of the other model, same heads and shapes.
    """
    found = {}
    for head, logits in spec.items():
        p = logits.double().log_softmax(-1)
        q = model[head].double().log_softmax(-1)
        found[head] = (p.exp() * (p - q)).sum(-1).clamp_min(0.0)  # rounding alone goes below zero
    return found


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
    """Per-block columns of `rare_mean` for one case.

    Args:
        case: whose models.
        blocks: number of blocks.
        tau: mean divergence above which a sequence is rare, nats.
        c: nats at which `capped` caps it.
        against: whose outputs stand on the left.
        head: one output head; the mean over heads where left out.
    """

    def __init__(
        self,
        case: Case,
        *,
        blocks: int,
        tau: float,
        c: float,
        against: Against = "spec",
        head: str | None = None,
    ) -> None:
        super().__init__(blocks=blocks, columns=COLUMNS)
        self.case, self.tau, self.c = case, tau, c
        self.against, self.head = against, head

    def observe(self, view: View) -> None:
        """Adds one batch; a block lies inside one batch, so maxima and minima are final."""
        mask = view.block.mask
        parts = sequence_sums(self._of_positions(view), mask, tau=self.tau, c=self.c)
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

    def measured(self, statistic: str, arm: str | None = None) -> Measured:
        """The mean divergence and its columns."""
        columns = self.by_column()
        total = float(columns["body"].sum() + columns["tail"].sum())
        value = total / float(columns["positions"].sum())
        return Measured(statistic, None, value=value, columns=columns, arm=arm)

    def _of_positions(self, view: View) -> Tensor:
        """The divergence of every position, [b, t]."""
        case = self.case

        def by_head() -> dict[str, Tensor]:
            model = view.out(case.other).logits
            if self.against == "labels":
                return surprisals(model, view.block.targets)
            return divergences(view.out(case.reference).logits, model)

        models = (case.other,) if self.against == "labels" else (case.reference, case.other)
        key = ("divergence", self.against, *(id(model) for model in models))
        found = view.once(key, by_head)
        return torch.stack(list(found.values())).mean(0) if self.head is None else found[self.head]


class AccuracyMeter(BlockSums):
    """Per block, how many positions a model labels right, by output head."""

    def __init__(self, case: Case, *, blocks: int) -> None:
        self.case = case
        self.heads = tuple(case.other.architecture.heads)
        super().__init__(blocks=blocks, columns=(*self.heads, "positions"))

    def observe(self, view: View) -> None:
        """Adds one batch."""
        mask, logits = view.block.mask, view.out(self.case.other).logits
        right = [(logits[head].argmax(-1) == view.block.targets[head])[mask] for head in self.heads]
        self.add(view.slots, torch.stack([*right, torch.ones_like(right[0])], dim=1).double())

    def measured(self, statistic: str, head: str) -> Measured:
        """The share of positions that are right."""
        columns = self.by_column()
        right, positions = columns[head], columns["positions"]
        return Measured(
            statistic,
            None,
            value=float(right.sum() / positions.sum()),
            columns={"numerator": right, "denominator": positions},
            arm=head,
        )
