"""Fitting the map between two models' states, from streamed second moments.

Everywhere: x_B is a state of the other model, x_A of the reference, both row vectors; R maps B to A
and a state of B seen in A's frame is x~_B = (x_B - mu_B) R + mu_A, with means of the fit split.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from harness.statistics.undefined import UndefinedError

Array = NDArray[np.float64]


class Moments(NamedTuple):
    """Sums over tokens, fp64: what every linear fit between two sets of states depends on."""

    tokens: float
    sum_other: Array  # [d] sum of x_B
    sum_reference: Array  # [d] sum of x_A
    cross: Array  # [d, d] sum of x_B^T x_A
    gram_other: Array  # [d, d] sum of x_B^T x_B
    gram_reference: Array  # [d, d] sum of x_A^T x_A

    @property
    def mean_other(self) -> Array:
        """mu_B, [d]."""
        return self.sum_other / self.tokens

    @property
    def mean_reference(self) -> Array:
        """mu_A, [d]."""
        return self.sum_reference / self.tokens

    @property
    def centred_cross(self) -> Array:
        """A_B^T A_A = sum (x_B - mu_B)^T (x_A - mu_A), [d, d]."""
        return self.cross - np.outer(self.sum_other, self.mean_reference)

    @property
    def covariance_other(self) -> Array:
        """Covariance of x_B, [d, d]."""
        centred = self.gram_other - np.outer(self.sum_other, self.mean_other)
        return np.asarray(centred / self.tokens)

    @property
    def covariance_reference(self) -> Array:
        """Covariance of x_A, [d, d]."""
        centred = self.gram_reference - np.outer(self.sum_reference, self.mean_reference)
        return np.asarray(centred / self.tokens)


class AffineMap(NamedTuple):
    """x~_B = (x_B - mu_B) R + mu_A, with what is known about R."""

    R: Array  # [d, d]
    mean_other: Array  # [d] mu_B
    mean_reference: Array  # [d] mu_A
    singular_values: Array  # [d] of the cross-moment R comes from, descending; empty if from none
    directions: Array  # [d, d] columns: its right singular vectors (frame of A)

    def apply(self, states: Array) -> Array:
        """States of B, [.., d], seen in A's frame."""
        return np.asarray((states - self.mean_other) @ self.R + self.mean_reference)

    def rank(self, *, relative: float = 1e-6) -> int:
        """Number of singular values above `relative` times the largest."""
        values = self.singular_values
        return int(np.count_nonzero(values > relative * values[0])) if len(values) else 0


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition U, s, V^T in fp64.

    LAPACK's gesdd is fast and now and then fails on ill-conditioned input; gesvd then decides.
    """
    try:
        u, s, vt = scipy.linalg.svd(matrix, lapack_driver="gesdd")
    except np.linalg.LinAlgError:
        u, s, vt = scipy.linalg.svd(matrix, lapack_driver="gesvd")
    return np.asarray(u), np.asarray(s), np.asarray(vt)


def nearest_rotation(cross: Array) -> Array:
    """R = U V^T from `cross` = U S V^T, [d, d]: the maximiser over O(d) of tr(R^T cross)."""
    u, _, vt = svd(cross)
    return u @ vt


def procrustes(moments: Moments) -> AffineMap:
    """R = U V^T from A_B^T A_A = U S V^T: the minimiser over O(d) of ||A_B R - A_A||_F.

    On directions in which the data do not vary, R is an arbitrary completion: read `rank` and
    `directions` before reading R.
    """
    u, s, vt = svd(moments.centred_cross)
    return AffineMap(u @ vt, moments.mean_other, moments.mean_reference, s, vt.T)


def pure_rotation(moments: Moments) -> AffineMap:
    """x~_B = x_B R, R = U V^T from X_B^T X_A = U S V^T: the minimiser of ||X_B R - X_A||_F on O(d).

    Nothing is centred, because the group that RMSNorm leaves open holds no shift.
    """
    u, s, vt = svd(moments.cross)
    zeros = np.zeros_like(moments.sum_other)
    return AffineMap(u @ vt, zeros, zeros, s, vt.T)


def scaled(moments: Moments) -> AffineMap:
    """R = s U V^T: the rotation of `procrustes`, and s = tr S / sum |x_B - mu_B|^2.

    The minimiser of ||s A_B O - A_A||_F over s >= 0 and O in O(d).

    Raises:
        UndefinedError: x_B does not vary, so that every scale fits equally well.
    """
    rotation = procrustes(moments)
    spread = moments.tokens * float(np.trace(moments.covariance_other))
    if not spread > 0:
        raise UndefinedError("the scale is undefined where the other model's states do not vary")
    return rotation._replace(R=rotation.R * (float(rotation.singular_values.sum()) / spread))


def linear(moments: Moments) -> AffineMap:
    """R = (A_B^T A_B)^+ A_B^T A_A: the least-squares affine map, of all matrices R.

    The pseudo-inverse leaves out eigenvalues of A_B^T A_B up to d eps tr(X_B^T X_B), with eps that
    of fp64: so much is rounding of the sums. On such directions R is zero.
    """
    spread = moments.covariance_other * moments.tokens
    rounding = len(spread) * np.finfo(np.float64).eps * float(np.trace(moments.gram_other))
    inverse = np.asarray(scipy.linalg.pinvh(spread, atol=rounding, rtol=0.0))
    return _unfitted(inverse @ moments.centred_cross, moments)


def shift_only(moments: Moments) -> AffineMap:
    """R = I: x~_B = x_B - mu_B + mu_A."""
    return _unfitted(np.eye(len(moments.sum_other)), moments)


def random_rotation(moments: Moments, *, generator: np.random.Generator) -> AffineMap:
    """R a Haar draw on O(d), with both means: knows where the clouds lie and nothing else."""
    return _unfitted(haar(len(moments.sum_other), generator=generator), moments)


def identity(moments: Moments) -> AffineMap:
    """No rotation and no shift: x~_B = x_B."""
    zeros = np.zeros_like(moments.sum_other)
    return shift_only(moments)._replace(mean_other=zeros, mean_reference=zeros)


def covariance_only(moments: Moments, *, signs: NDArray[Any]) -> AffineMap:
    """Eigenbases of the two covariances matched in order of variance: R = E_B diag(signs) E_A^T.

    It knows both clouds and nothing about which token is which.
    """
    basis_other = np.linalg.eigh(moments.covariance_other)[1]
    basis_reference = np.linalg.eigh(moments.covariance_reference)[1]
    return _unfitted((basis_other * signs) @ basis_reference.T, moments)


def _unfitted(R: Array, moments: Moments) -> AffineMap:
    """R with both means, from no cross-moment's singular vectors."""
    d = len(R)
    none = np.zeros(0), np.zeros((d, 0))
    return AffineMap(R, moments.mean_other, moments.mean_reference, *none)


def principal_components(moments: Moments) -> tuple[Array, Array]:
    """Eigenvalues [d], descending, and eigenvectors [d, d], in columns, of the covariance of x_A.

    Eigenvalues that rounding took below zero are zero. The sign of a vector means nothing.
    """
    values, vectors = np.linalg.eigh(moments.covariance_reference)
    return np.maximum(values[::-1], 0.0), np.asarray(vectors[:, ::-1])


def components_for(values: Array, share: float) -> int:
    """The smallest k whose first k eigenvalues hold `share` of the sum of all; 0 if the sum is 0.

    Args:
        values: eigenvalues, descending, none negative.
        share: above 0, at most 1.

    >>> components_for(np.array([6.0, 3.0, 1.0]), 0.9)
    2
    """
    if not 0 < share <= 1:
        raise ValueError(f"expected a share in (0, 1], got {share}")
    held = np.cumsum(values)
    return int(np.searchsorted(held, share * held[-1])) + 1 if held[-1] > 0 else 0


def haar(dimension: int, *, generator: np.random.Generator) -> Array:
    """A draw from the Haar measure on O(d): Q of a Gaussian matrix, columns signed by R's diagonal.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
    """
    q, r = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    return np.asarray(q * np.sign(np.diag(r)))
