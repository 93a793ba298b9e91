"""What no element of a gauge group can undercut, tensor by tensor.

For rows A and B of residual vectors, the least |s B R - A|^2 over what a group does to them is,
with the largest inner product that it can reach,

    |A|^2 + s^2 |B|^2 - 2 s m,   m = max <B R, A>,

and where the factor s > 0 is free as well, |A|^2 - m^2 / |B|^2. The largest inner product is

    ||B^T A||_*                        over R in O(d), rows labelled (nuclear norm)
    the best assignment of |B^T A|     over signed permutations R, rows labelled
    at most sum_i sigma_i(A) sigma_i(B)  over R in O(d), rows rotated as well (von Neumann)

Rows that change places are rotated by a permutation, so that the last holds for them too, and so
does the inner product of their sorted norms (Cauchy-Schwarz, rearrangement). Heads rotate their
rows and change places: the best assignment of the heads of one to those of the other.
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
    """What |g(B)_k - A_k|^2 / |A_k|^2 cannot undercut over the group, by tensor.

    The rounding of the largest inner product is taken off, so that no bound lies above the truth.

    Args:
        own: parts of the reference, none zero.
        theirs: parts of the other model, in the same order.
        alignment: `rotation`, `signed-permutation` or `full`; parts of `full` are in the balanced
            gauge.
    """
    found = {}
    for a, b in zip(own, theirs, strict=True):
        inner = _largest_inner(a, b, alignment=alignment)
        free = alignment == "full" and b.power > 0
        fitted = 0.0
        if not free:
            fitted = 2 * inner - b.square
        elif b.square > 0:
            fitted = inner**2 / b.square
        rounding = 4 * max(a.rows.shape) * np.finfo(np.float64).eps * (a.square + b.square)
        found[a.name] = max(0.0, a.square - fitted - rounding) / a.square
    return found


def _largest_inner(a: Part, b: Part, *, alignment: str) -> float:
    """No less than max <g(B), A> over the group without its scale."""
    x, y = (part.rows.reshape(-1, part.rows.shape[-1]) for part in (a, b))
    if alignment == "signed-permutation":
        return _assigned(np.abs(y.T @ x))
    if alignment == "rotation" or a.kind == "labelled":
        return float(np.linalg.svd(y.T @ x, compute_uv=False).sum())
    if a.kind == "heads":
        values = [np.linalg.svd(side, compute_uv=False) for side in (a.rows, b.rows)]
        return _assigned(values[0] @ values[1].T)  # [heads, heads], of [heads, inner] each
    norms = (np.sort(np.linalg.norm(side, axis=1)) for side in (x, y))
    values_of_all = (np.linalg.svd(side, compute_uv=False) for side in (x, y))
    return min(float(np.dot(*norms)), float(np.dot(*values_of_all)))


def _assigned(gains: Array) -> float:
    """Largest sum of one entry a row and column."""
    return float(gains[linear_sum_assignment(gains, maximize=True)].sum())
