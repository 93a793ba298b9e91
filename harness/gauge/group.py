"""Elements of the whole gauge group of a model with folded norms, and what they do to its weights.

The group is data (the architecture's `gauge` and axis table). An element holds

    R        [d, d] orthogonal: every residual axis, entry'[.., j, ..] = sum_i entry[.., i, ..] R_ij
    pi_l     an order of the heads of block l: head h of the result is head pi_l[h] of the model
    M        for each pair of tensors that meet on an inner axis, a matrix on it: the first gets M,
             the second M^-T (any invertible M for attention; a permutation times positive scales
             for the neurons of a ReLU layer)
    c        a positive factor on everything that writes to the stream; the norms take it out, up
             to their eps

and leaves the outputs alone (c: up to the eps).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from harness.gauge import fit
from harness.gauge.fit import Array
from harness.gauge.residual import rotate
from harness.subjects.architecture import RESIDUAL, Architecture, Paired

GENERATORS = ("residual", "heads", "general-linear", "permutation-positive-scale", "scale")
"""Parts of the group that can be drawn alone."""


@dataclass(frozen=True, eq=False)
class Element:
    """One element; what is left out is the identity.

    Attributes:
        residual: R, [d, d].
        orders: pi_l, by block.
        inner: M by the name of the pair's first tensor, [heads, inner, inner] or [inner, inner].
        scale: c.
    """

    residual: Array | None = None
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    inner: Mapping[str, Array] = field(default_factory=dict)
    scale: float = 1.0


def act(
    element: Element, weights: Mapping[str, Tensor], architecture: Architecture
) -> dict[str, Tensor]:
    """The folded weights moved by an element: the same function (c: up to the norms' eps).

    Heads are ordered first, then M acts on the heads as they then stand.

    Args:
        element: what moves them.
        weights: by name, gains folded, fp64 for results to rounding.
        architecture: whose data says which axis is which.

    Raises:
        ValueError: a gain is not one, so a rotation would change the function.
    """
    moved = dict(weights)
    for layer, permuted in architecture.permuted:
        if layer in element.orders:
            order = torch.tensor(element.orders[layer])
            for name in permuted.tensors:
                axis = architecture.axes[name].index(permuted.space)
                moved[name] = moved[name].index_select(axis, order)
    for _, pair in architecture.pairs:
        if pair.first in element.inner:
            matrix = torch.from_numpy(np.array(element.inner[pair.first]))
            turned = torch.linalg.inv(matrix).mT
            for name, factor in ((pair.first, matrix), (pair.second, turned)):
                moved[name] = _on_inner(moved[name], factor, pair, architecture, name)
    for name in architecture.writers:
        moved[name] = moved[name] * element.scale
    if element.residual is not None:
        moved = rotate(moved, architecture, torch.from_numpy(np.array(element.residual)))
    return moved


def random_element(
    architecture: Architecture,
    *,
    generator: np.random.Generator,
    generators: Collection[str] = GENERATORS,
    condition: float = 3.0,
) -> Element:
    """A random element of the group, or of the part that some generators make.

    Haar rotations, uniform permutations; singular values, neuron scales and c are log-uniform in
    [condition^-1/2, condition^1/2].

    Args:
        architecture: whose group.
        generator: source of randomness.
        generators: of `GENERATORS`.
        condition: largest condition number of a matrix M.

    Raises:
        ValueError: no such generator.
    """
    unknown = set(generators) - set(GENERATORS)
    if unknown:
        raise ValueError(f"expected generators of {GENERATORS}, got {sorted(unknown)}")
    width = architecture.size(RESIDUAL)

    def scales(shape: tuple[int, ...]) -> Array:
        return np.asarray(np.exp(generator.uniform(-0.5, 0.5, shape) * np.log(condition)))

    def matrix(pair: Paired) -> Array:
        size = architecture.size(pair.space)
        if pair.group == "permutation-positive-scale":
            return np.eye(size)[generator.permutation(size)] * scales((size,))
        axes = architecture.axes[pair.first]
        shape = tuple(
            architecture.size(axis) for axis in axes if axis not in (RESIDUAL, pair.space)
        )
        left, right = (
            np.stack([fit.haar(size, generator=generator) for _ in range(int(np.prod(shape)))])
            for _ in range(2)
        )
        found = left * scales((len(left), 1, size)) @ right
        return found.reshape(*shape, size, size)

    orders = {
        layer: tuple(int(i) for i in generator.permutation(architecture.size(permuted.space)))
        for layer, permuted in architecture.permuted
        if "heads" in generators
    }
    inner = {pair.first: matrix(pair) for _, pair in architecture.pairs if pair.group in generators}
    return Element(
        residual=fit.haar(width, generator=generator) if "residual" in generators else None,
        orders=orders,
        inner=inner,
        scale=float(scales(())) if "scale" in generators else 1.0,
    )


def _on_inner(
    tensor: Tensor, factor: Tensor, pair: Paired, architecture: Architecture, name: str
) -> Tensor:
    """The tensor with a matrix on its inner axis, entry'[.., j] = sum_i entry[.., i] M_ij."""
    axis = architecture.axes[name].index(pair.space)
    last = tensor.movedim(axis, -1).to(factor.dtype)  # [heads, d, inner] or [d, inner]
    return (last @ factor).movedim(-1, axis).to(tensor.dtype).contiguous()
