"""The loss of a model on labelled positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def surprisals(logits: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """-log softmax(logits)[target] of every position by output head, [b, t] each in nats, fp64.

    Args:
        logits: by output head, [b, t, classes].
        targets: class of every position, by output head, [b, t] int64.
    """
    return {
        head: -scores.double().log_softmax(-1).gather(-1, targets[head].unsqueeze(-1)).squeeze(-1)
        for head, scores in logits.items()
    }


def token_loss(logits: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of every position, [b, t] in nats, mean over output heads, fp64.

    The mean of `surprisals`; padded positions get a value too and are the caller's to mask.

    Args:
        logits: by output head, [b, t, classes].
        targets: class of every position, by output head, [b, t] int64.
    """
    return torch.stack(list(surprisals(logits, targets).values())).mean(0)
