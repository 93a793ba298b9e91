"""Fitting the map between two models' states, from streamed second moments.

Everywhere: x_B is a state of the other model, x_A of the reference, both row vectors; R maps B to A
and a state of B seen in A's frame is x~_B = (x_B - mu_B) R + mu_A, with means of the fit split.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

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
    singular_values: Array  # [d] of the centred cross-moment, descending; empty if R was not fitted
    directions: Array  # [d, d] columns: right singular vectors of the cross-moment (frame of A)

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


def procrustes(moments: Moments) -> AffineMap:
    """R = U V^T from A_B^T A_A = U S V^T: the minimiser over O(d) of ||A_B R - A_A||_F.

    On directions in which the data do not vary, R is an arbitrary completion: read `rank` and
    `directions` before reading R.
    """
    u, s, vt = svd(moments.centred_cross)
    return AffineMap(u @ vt, moments.mean_other, moments.mean_reference, s, vt.T)


def identity(moments: Moments) -> AffineMap:
    """No rotation and no shift: x~_B = x_B."""
    zeros = np.zeros_like(moments.sum_other)
    return AffineMap(np.eye(len(zeros)), zeros, zeros, zeros[:0], np.zeros((len(zeros), 0)))


def covariance_only(moments: Moments, *, signs: NDArray[Any]) -> AffineMap:
    """Eigenbases of the two covariances matched in order of variance: R = E_B diag(signs) E_A^T.

    It knows both clouds and nothing about which token is which.
    """
    basis_other = np.linalg.eigh(moments.covariance_other)[1]
    basis_reference = np.linalg.eigh(moments.covariance_reference)[1]
    rotation = (basis_other * signs) @ basis_reference.T
    none = np.zeros(0)
    d = len(moments.sum_other)
    return AffineMap(rotation, moments.mean_other, moments.mean_reference, none, np.zeros((d, 0)))


def haar(dimension: int, *, generator: np.random.Generator) -> Array:
    """A draw from the Haar measure on O(d): Q of a Gaussian matrix, columns signed by R's diagonal.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).
    """
    q, r = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    return np.asarray(q * np.sign(np.diag(r)))
