"""What no element of a gauge group can undercut, tensor by tensor.

For rows A and B of residual vectors, the least |B R - A|^2 over R in O(d) is

    |A|^2 + |B|^2 - 2 ||B^T A||_*          (rows labelled)
    sum_i (sigma_i(A) - sigma_i(B))^2      (rows rotated as well: von Neumann, singular values)

and where a common factor s > 0 is free, with (a, b) the sorted values or (|A|, |B|, ||B^T A||_*),

    min_s sum (a - s b)^2 = |a|^2 - (a.b)^2 / |b|^2.

Rows that change places are rotated by a permutation, so the second bound holds for them too, and so
does the same on the sorted norms of the rows, which a rotation of the stream leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.gauge.balance import Part
from harness.gauge.fit import Array


def lower_bounds(
    own: Sequence[Part], theirs: Sequence[Part], *, alignment: str
) -> dict[str, float]:
    """Least |g(B)_k - A_k|^2 / |A_k|^2 over the group, or less, by tensor.

    Args:
        own: parts of the reference.
        theirs: parts of the other model, in the same order.
        alignment: the group; parts of `full` are in the balanced gauge.
    """
    return {
        a.name: max(0.0, _least(a, b, alignment=alignment)) / a.square
        for a, b in zip(own, theirs, strict=True)
    }


def _least(a: Part, b: Part, *, alignment: str) -> float:
    x, y = a.rows.reshape(-1, a.rows.shape[-1]), b.rows.reshape(-1, b.rows.shape[-1])
    if alignment == "none":
        return float(((x - y) ** 2).sum())
    if alignment == "signed-permutation":
        cross = np.abs(y.T @ x)
        best = float(cross[linear_sum_assignment(cross, maximize=True)].sum())
        return a.square + b.square - 2 * best
    free = bool(b.power)
    if alignment == "rotation" or a.kind == "labelled":
        nuclear = float(np.linalg.svd(y.T @ x, compute_uv=False).sum())
        if not free or alignment == "rotation":
            return a.square + b.square - 2 * nuclear
        return a.square - (nuclear**2 / b.square if b.square else 0.0)
    if a.kind == "neurons":
        norms = [np.asarray(np.linalg.norm(side, axis=1)) for side in (x, y)]
        values = [_singular_values(side) for side in (x, y)]
        return max(_distance(*norms, free=free), _distance(*values, free=free))
    return _of_heads(a.rows, b.rows, free=free)


def _of_heads(x: Array, y: Array, *, free: bool) -> float:
    """Heads change places and rotate, [heads, inner, d] each."""
    values = [_singular_values(side) for side in (x, y)]  # [heads, inner]
    if free:  # sorted over all heads: no matching of theirs comes closer, at any scale
        return _distance(values[0].ravel(), values[1].ravel(), free=True)
    cost = ((values[0][:, None] - values[1][None]) ** 2).sum(-1)
    return float(cost[linear_sum_assignment(cost)].sum())


def _singular_values(matrices: Array) -> Array:
    return np.asarray(np.linalg.svd(matrices, compute_uv=False))


def _distance(a: Array, b: Array, *, free: bool) -> float:
    """Least sum (a_i - s b_pi(i))^2 over all orders pi, and over s > 0 where it is free."""
    a, b = np.sort(a), np.sort(b)
    if not free:
        return float(((a - b) ** 2).sum())
    square = float(b @ b)
    return float(a @ a) - (float(a @ b) ** 2 / square if square else 0.0)
