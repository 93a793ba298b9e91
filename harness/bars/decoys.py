"""Decoys: copies of a model that a bar has to tell from it."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.subjects.subject import Subject
from prereg.errors import InputError


def averaged_in_pairs(subject: Subject) -> Subject:
    """The model with neighbouring classes of its ordered output heads averaged in pairs.

    Classes 0 and 1 get the mean of their readout weights, so do 2 and 3, and so on; an odd last one
    stays. What tells neighbours apart is gone, everything else is as it was.

    Raises:
        InputError: no output head has ordered classes.
    """
    readouts = subject.architecture.ordered_readouts
    if not readouts:
        raise InputError(
            f"a {subject.architecture.name} model without ordered output classes",
            expected="one whose architecture file names `ordered_readouts`",
            fix="drop the control decoy-depth-pairs, with this as the reason",
            code="subject.no-ordered-output",
        )
    weights = dict(subject.weights())
    for name in readouts:
        weights[name] = _paired(weights[name])
    return subject.with_weights(weights)


def blocks_swapped(subject: Subject) -> Subject:
    """The model with its blocks in the opposite order: every tensor is one of the model's own."""
    weights = subject.weights()
    mirrored = subject.architecture.mirrored
    return subject.with_weights({name: weights[mirrored.get(name, name)] for name in weights})


def _paired(readout: Tensor) -> Tensor:
    """[d, classes] with the mean of its columns 2 i and 2 i + 1 in both."""
    even = readout.shape[1] // 2 * 2
    pairs = readout[:, :even].reshape(len(readout), -1, 2).mean(2)
    return torch.cat((pairs.repeat_interleave(2, dim=1), readout[:, even:]), dim=1)
