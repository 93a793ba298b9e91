"""The shortest way from one rotation to another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from harness.gauge.fit import Array
from harness.statistics.undefined import UndefinedError


def geodesic(first: Array, last: Array) -> Callable[[float], Array]:
    """t -> first (first^T last)^t on O(d), from t = 0 to t = 1.

    With first^T last = Z D Z^T in real Schur form, D is made of rotations of planes by angles in
    (-pi, pi] and of ones; its power turns each plane by t times its angle. Minus ones come in
    pairs, each a plane turned by pi (in which the way is shortest, and not the only one).

    Args:
        first: orthogonal, [d, d].
        last: the same.

    Raises:
        UndefinedError: one rotation mirrors and the other does not: O(d) has two pieces.
    """
    form, basis = scipy.linalg.schur(first.T @ last, output="real")
    planes: list[tuple[int, int, float]] = []
    mirrored: list[int] = []
    i = 0
    while i < len(form):
        if i + 1 < len(form) and abs(form[i + 1, i]) > 1e-9:
            planes.append((i, i + 1, float(np.arctan2(form[i + 1, i], form[i, i]))))
            i += 2
            continue
        if form[i, i] < 0:
            mirrored.append(i)
        i += 1
    if len(mirrored) % 2:
        raise UndefinedError("one rotation mirrors and the other does not: no path joins them")
    planes += [(a, b, np.pi) for a, b in zip(mirrored[::2], mirrored[1::2], strict=True)]

    def at(t: float) -> Array:
        turn = np.eye(len(form))
        for a, b, angle in planes:
            cos, sin = np.cos(t * angle), np.sin(t * angle)
            turn[a, a], turn[a, b], turn[b, a], turn[b, b] = cos, -sin, sin, cos
        return np.asarray(first @ basis @ turn @ basis.T)

    return at
