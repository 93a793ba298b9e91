"""How close the identity is to being the best rotation already.

T = tr(C) / ||C||_* with C = A_B^T A_A the centred cross-moment and ||C||_* its nuclear norm, which
is the largest tr(O^T C) over O(d). T = 1 iff the identity is optimal. Under a Haar rotation of
either side T has mean 0 and standard deviation ||S||_F / (sqrt(d) ||S||_*), S the singular values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.gauge.fit import svd
from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


def identity_share(cross: Array) -> float:
    """T of a centred cross-moment, [d, d].

    Raises:
        UndefinedError: the cross-moment is zero.

    >>> identity_share(np.eye(3))
    1.0
    """
    nuclear = float(svd(cross)[1].sum())
    if not nuclear > 0:
        raise UndefinedError("the identity share is undefined where the cross-moment is zero")
    return float(np.trace(cross)) / nuclear


def polar(cross: Array) -> Array:
    """R = U V^T with C = U S V^T, so that tr(R^T C) = ||C||_*."""
    u, _, vt = svd(cross)
    return np.asarray(u @ vt)


def haar_deviation(cross: Array) -> float:
    """Standard deviation of T when one side is turned by a Haar rotation."""
    values = svd(cross)[1]
    return float(np.linalg.norm(values) / (np.sqrt(len(values)) * values.sum()))
