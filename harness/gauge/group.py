"""Elements of the whole gauge group of a model with folded norms, and what they do to its weights.

The group is data (the architecture's `gauge` and axis table). An element holds

    R      [d, d] orthogonal: every residual axis, entry'[.., j, ..] = sum_i entry[.., i, ..] R_ij
    pi_l   an order of the heads of block l: head h of the result is head pi_l[h] of the model
    M      for each pair of tensors that meet on an inner axis of heads, an invertible matrix for
           each head: the first gets M on that axis, the second M^-T
    tau, a for each pair that meets on ReLU neurons, an order and positive factors: neuron n of the
           result is neuron tau[n], a_n times as large in the first tensor and 1 / a_n in the second
    c      a positive factor on everything that writes to the stream; the norms take it out, up
           to their eps

and leaves the outputs alone (c: up to the eps).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

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
        heads: pi_l, by block.
        inner: M, [heads, inner, inner], by the name of the pair's first tensor.
        neurons: tau, by the name of the pair's first tensor.
        stretches: a, [neurons], by the name of the pair's first tensor.
        scale: c.

    Raises:
        ValueError: a factor that is not positive: ReLU and norms let none other through.
    """

    residual: Array | None = None
    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    inner: Mapping[str, Array] = field(default_factory=dict)
    neurons: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stretches: Mapping[str, Array] = field(default_factory=dict)
    scale: float = 1.0

    def __post_init__(self) -> None:
        smallest = min([self.scale, *(float(a.min()) for a in self.stretches.values())])
        if not smallest > 0:
            raise ValueError(f"expected positive factors, got {smallest}")


def act(
    element: Element, weights: Mapping[str, Tensor], architecture: Architecture
) -> dict[str, Tensor]:
    """The folded weights moved by an element: the same function (c: up to the norms' eps).

    Heads and neurons are ordered first; M and a act on them as they then stand.

    Args:
        element: what moves them.
        weights: by name, gains folded, fp64 for results to rounding.
        architecture: whose data says which axis is which.

    Raises:
        ValueError: a gain is not one, so a rotation would change the function.
    """
    moved = dict(weights)

    def on_axis(name: str, space: str, change: Callable[[Tensor], Tensor]) -> None:
        axis = architecture.axes[name].index(space)
        changed = change(moved[name].movedim(axis, -1).double()).movedim(-1, axis)
        moved[name] = changed.to(moved[name].dtype).contiguous()

    def on_pair(pair: Paired, factor: Tensor, contrary: Tensor, by: Callable[..., Tensor]) -> None:
        for name, one in ((pair.first, factor), (pair.second, contrary)):
            on_axis(name, pair.space, partial(by, other=one))

    for layer, permuted in architecture.permuted:
        if layer in element.heads:
            order = torch.tensor(element.heads[layer])
            for name in permuted.tensors:
                on_axis(name, permuted.space, partial(torch.index_select, dim=-1, index=order))
    for _, pair in architecture.pairs:
        if pair.first in element.neurons:
            order = torch.tensor(element.neurons[pair.first])
            for name in (pair.first, pair.second):
                on_axis(name, pair.space, partial(torch.index_select, dim=-1, index=order))
        if pair.first in element.stretches:
            factors = torch.from_numpy(np.array(element.stretches[pair.first]))
            on_pair(pair, factors, 1 / factors, torch.mul)
        if pair.first in element.inner:
            matrix = torch.from_numpy(np.array(element.inner[pair.first]))
            on_pair(pair, matrix, torch.linalg.inv(matrix).mT, torch.matmul)
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

    Haar rotations, uniform orders; the singular values of M, the factors of neurons and c are
    log-uniform in [condition^-1/2, condition^1/2].

    Args:
        architecture: whose group.
        generator: source of randomness.
        generators: of `GENERATORS`.
        condition: largest condition number of a matrix M, at least 1.

    Raises:
        ValueError: no such generator, or a condition below 1.
    """
    unknown = set(generators) - set(GENERATORS)
    if unknown:
        raise ValueError(f"expected generators among {GENERATORS}, got {sorted(unknown)}")
    if condition < 1:
        raise ValueError(f"expected a condition of at least 1, got {condition}")

    def factors(*shape: int) -> Array:
        found: Array = np.exp(generator.uniform(-0.5, 0.5, shape) * np.log(condition))
        return found

    def rotations(count: int, size: int) -> Array:
        return np.stack([fit.haar(size, generator=generator) for _ in range(count)])

    def order(size: int) -> tuple[int, ...]:
        return tuple(int(i) for i in generator.permutation(size))

    pairs = [pair for _, pair in architecture.pairs if pair.group in generators]
    residual = rotations(1, architecture.size(RESIDUAL))[0] if "residual" in generators else None
    heads = {
        layer: order(architecture.size(permuted.space))
        for layer, permuted in architecture.permuted
        if "heads" in generators
    }
    inner, neurons, stretches = {}, {}, {}
    for pair in pairs:
        size = architecture.size(pair.space)
        if pair.group == "general-linear":
            count = architecture.shapes[pair.first][0]
            left, right = rotations(count, size), rotations(count, size)
            inner[pair.first] = left * factors(count, 1, size) @ right
        else:
            neurons[pair.first], stretches[pair.first] = order(size), factors(size)
    scale = float(factors()) if "scale" in generators else 1.0
    return Element(residual, heads, inner, neurons, stretches, scale)
