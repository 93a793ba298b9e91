"""How far a rotation is from the identity.

||R - I||_F, and ||R - I||_F^2 = 2 d - 2 tr R for R in O(d): any R of small trace lies near
sqrt(2 d), so a value near it proves nothing about R.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distance_to_identity(R: NDArray[np.float64]) -> float:
    """||R - I||_F of a matrix, [d, d].

    >>> distance_to_identity(-np.eye(4))
    4.0
    """
    return float(np.linalg.norm(R - np.eye(len(R))))
