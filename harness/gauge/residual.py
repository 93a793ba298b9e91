"""Changes of basis of the residual stream: folding the norms, and the action on weights.

Convention: row states, h' = h G. A reader W stored with its input axis first becomes G^T W, a
writer W becomes W G. For orthogonal G both are one rule, applied to whichever axis of a tensor is
residual: entry'[.., j, ..] = sum_i entry[.., i, ..] G[i, j].
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from harness.subjects.architecture import RESIDUAL, Architecture


def fold(weights: Mapping[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """The same function with every norm gain folded into the readers behind it; gains become 1.

    RMSNorm(x) W = (x / rms(x)) diag(gain) W, so W becomes diag(gain) W, exactly.
    """
    folded = dict(weights)
    for gain_name, readers in architecture.folds.items():
        gain = folded[gain_name]
        for reader in readers:
            axis = architecture.axes[reader].index(RESIDUAL)
            shape = [1] * folded[reader].ndim
            shape[axis] = len(gain)
            folded[reader] = folded[reader] * gain.reshape(shape)
        folded[gain_name] = torch.ones_like(gain)
    return folded


def rotate(
    weights: Mapping[str, Tensor], architecture: Architecture, rotation: Tensor
) -> dict[str, Tensor]:
    """Folded weights in the basis h' = h G: the outputs stay, every residual state is rotated.

    Args:
        weights: tensors by name, gains folded (a gain of ones is basis free).
        architecture: whose axis table says which axis is residual.
        rotation: G, [d, d], orthogonal.

    Raises:
        ValueError: a gain differs from one, so G would not preserve the function.
    """
    rotated: dict[str, Tensor] = {}
    for name, spaces in architecture.axes.items():
        tensor = weights[name]
        if name in architecture.folds:
            if not torch.equal(tensor, torch.ones_like(tensor)):
                raise ValueError(f"{name} is not folded: only a folded model can be rotated")
            rotated[name] = tensor
            continue
        for axis, space in enumerate(spaces):
            if space == RESIDUAL:
                moved = tensor.movedim(axis, -1).to(rotation.dtype) @ rotation
                tensor = moved.movedim(-1, axis).to(tensor.dtype)
        rotated[name] = tensor.contiguous()
    return rotated
