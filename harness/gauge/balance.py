"""The balanced gauge: what two tensors that meet on an inner axis share evenly.

Only the product F S^T of a pair counts, F and S [d, inner] with the inner axis last. With
F S^T = U Sigma V^T the balanced pair is U Sigma^1/2 and V Sigma^1/2: it is fixed by the product up
to a rotation of the inner axis. Singular values that are rounding are zero, or their roots would
be noise of half as many digits. Neurons keep their names: there each column of F and S gets the
same norm, sqrt(|f_i| |s_i|), and one that reads or writes nothing becomes zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from torch import Tensor

from harness.gauge.fit import Array
from harness.subjects.architecture import RESIDUAL, Architecture


@dataclass(frozen=True, eq=False)
class Part:
    """One tensor as rows of residual vectors, [.., rows, d], and what may be done to the rows.

    Attributes:
        name: of the tensor.
        rows: [rows, d] (labelled rows), [heads, inner, d] or [neurons, d].
        kind: `labelled`: nothing. `heads`: heads change places, rows of one rotate with those of
            the part that it is paired with. `neurons`: rows change places with those of the other.
        layer: number of the block; -1 where there is none.
        pair: name of the pair's first tensor; empty where there is none.
        power: the tensor gets c^(power / 2) under the stream's factor c; a balanced pair of which
            one writes shares it.
    """

    name: str
    rows: Array
    kind: Literal["labelled", "heads", "neurons"]
    layer: int = -1
    pair: str = ""
    power: int = 0

    @cached_property
    def square(self) -> float:
        """Sum of squares."""
        return float((self.rows**2).sum())


def stored(weights: Mapping[str, Tensor], architecture: Architecture) -> list[Part]:
    """Every tensor as it is stored, all rows labelled."""
    return [
        Part(name, _rows(weights[name], architecture, name), "labelled")
        for name in architecture.axes
        if name not in architecture.folds
    ]


def balanced(weights: Mapping[str, Tensor], architecture: Architecture) -> list[Part]:
    """Every tensor in the balanced gauge.

    Args:
        weights: by name, gains folded.
        architecture: whose data says which tensors meet where.
    """
    parts: list[Part] = []
    paired: set[str] = set()
    writers = set(architecture.writers)
    for layer, pair in architecture.pairs:
        first, second = (
            _inner_last(weights[name], architecture, name, pair.space)
            for name in (pair.first, pair.second)
        )
        heads = pair.group == "general-linear"
        evened = _even_products(first, second) if heads else _even_norms(first, second)
        power = int(bool({pair.first, pair.second} & writers))
        for name, tensor in zip((pair.first, pair.second), evened, strict=True):
            rows = np.ascontiguousarray(np.swapaxes(tensor, -1, -2))
            parts.append(
                Part(name, rows, "heads" if heads else "neurons", layer, pair.first, power)
            )
        paired |= {pair.first, pair.second}
    labelled = [
        Part(
            name,
            _rows(weights[name], architecture, name),
            "labelled",
            power=2 * int(name in writers),
        )
        for name in architecture.axes
        if name not in paired and name not in architecture.folds
    ]
    return labelled + parts


def _even_products(first: Array, second: Array) -> tuple[Array, Array]:
    """[heads, d, inner] each, with the singular values of their product shared evenly."""
    q_first, r_first = np.linalg.qr(first)
    q_second, r_second = np.linalg.qr(second)
    u, values, vt = np.linalg.svd(r_first @ np.swapaxes(r_second, -1, -2))
    sizes = np.linalg.norm(first, axis=(-2, -1)) * np.linalg.norm(second, axis=(-2, -1))
    rounding = max(first.shape[-2:]) * np.finfo(np.float64).eps * sizes[..., None]
    values = np.where(values > rounding, values, 0.0)
    root = np.sqrt(values)[..., None, :]
    return q_first @ (u * root), q_second @ (np.swapaxes(vt, -1, -2) * root)


def _even_norms(first: Array, second: Array) -> tuple[Array, Array]:
    """[d, neurons] each, with the norm of every neuron shared evenly."""
    norms = [np.linalg.norm(side, axis=0) for side in (first, second)]
    even = np.sqrt(norms[0]) * np.sqrt(norms[1])  # the product of small norms would underflow
    factors = [np.divide(even, n, out=np.zeros_like(n), where=n > 0) for n in norms]
    return first * factors[0], second * factors[1]


def _rows(tensor: Tensor, architecture: Architecture, name: str) -> Array:
    """[rows, d]: the residual axis last, the others flattened."""
    axis = architecture.axes[name].index(RESIDUAL)
    moved = np.moveaxis(_array(tensor), axis, -1)
    return np.ascontiguousarray(moved.reshape(-1, moved.shape[-1]))


def _inner_last(tensor: Tensor, architecture: Architecture, name: str, space: str) -> Array:
    """[heads, d, inner] or [d, inner]."""
    axes = architecture.axes[name]
    order = [i for i, axis in enumerate(axes) if axis not in (RESIDUAL, space)]
    order += [axes.index(RESIDUAL), axes.index(space)]
    return np.transpose(_array(tensor), order)


def _array(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().cpu().double().numpy())
