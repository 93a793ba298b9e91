"""The loss of a model on labelled positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def token_loss(logits: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of every position, [b, t] in nats, mean over output heads, fp64.

    -log softmax(logits)[target]; padded positions get a value too and are the caller's to mask.

    Args:
        logits: by output head, [b, t, classes].
        targets: class of every position, by output head, [b, t] int64.
    """
    losses = [
        -scores.double().log_softmax(-1).gather(-1, targets[head].unsqueeze(-1)).squeeze(-1)
        for head, scores in logits.items()
    ]
    return torch.stack(losses).mean(0)
