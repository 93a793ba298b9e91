"""What no choice of basis changes of a product of weights.

A product A B^T with A, B [d, k] is all that a function reads of two weights that meet in k hidden
dimensions: A G and B G^-T have the same product, for every invertible G.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.statistics.effective_rank import effective_rank

Array = NDArray[np.float64]


class Product(NamedTuple):
    """Size and spread of a product of two weights."""

    norm: float
    rank: float | None


def product(left: Array, right: Array) -> Product:
    """||left right^T||_F and its effective rank, of factors [d, k].

    The rank is exp(-sum_i p_i log p_i), p_i the squared singular values divided by their sum; none
    where the product is zero. Both come from the triangles of left = Q T and right = Q' T', because
    left right^T = Q (T T'^T) Q'^T has the singular values of T T'^T. An orthogonal change of basis
    of the d dimensions, or any of the k, leaves both alone. A norm beyond fp64 is infinite.

    >>> product(np.array([[2.0], [0.0]]), np.array([[0.0], [3.0]]))
    Product(norm=6.0, rank=1.0)
    """
    scale = [float(np.abs(factor).max(initial=0.0)) for factor in (left, right)]
    if not all(scale):
        return Product(0.0, None)
    # factors of size one, so that no square of an entry over- or underflows
    triangles = [
        np.asarray(np.linalg.qr(factor / size, mode="r"))
        for factor, size in zip((left, right), scale, strict=True)
    ]
    inner = triangles[0] @ triangles[1].T
    size = float(np.linalg.norm(inner))
    if size == 0:
        return Product(0.0, None)
    unit = inner / size
    return Product(size * scale[0] * scale[1], effective_rank(unit @ unit.T))


def paired_norm(into: Array, out: Array) -> float:
    """sqrt(sum_i |in_i|^2 |out_i|^2) over neurons i, of weights [d, neurons] each.

    The root of the summed squared norms of in_i out_i^T: a permutation of the neurons reorders
    these parts, a positive scale of a neuron cancels within its own, and an orthogonal change of
    basis of the d dimensions leaves their lengths alone. Beyond fp64 it is infinite.

    >>> paired_norm(np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]]))
    5.0
    """
    with np.errstate(over="ignore"):
        parts = np.linalg.norm(into, axis=0) * np.linalg.norm(out, axis=0)
        return float(np.linalg.norm(parts))
