"""Products of weights: their size and spread by hand, and what may not change them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.products import paired_norm, product

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, max_examples=15)


def test_a_product_by_hand():
    """Squared singular values 9 and 16: |M| = 5, p = (.36, .64)."""
    left = np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    right = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    found = product(left, right)
    assert found.norm == pytest.approx(5.0, rel=1e-14)
    expected = math.exp(-0.36 * math.log(0.36) - 0.64 * math.log(0.64))
    assert found.rank == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("d", "k"), [(12, 3), (3, 12), (4, 4)])
@few
@given(seed=seeds)
def test_a_product_is_that_of_the_whole_matrix_and_no_basis_changes_it(d, k, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, d, k))
    values = np.linalg.svd(left @ right.T, compute_uv=False)
    p = values[values > 1e-12] ** 2 / (values**2).sum()
    direct = (np.linalg.norm(left @ right.T), math.exp(-(p * np.log(p)).sum()))
    assert product(left, right) == pytest.approx(direct, rel=1e-9)
    g = haar(d, generator=rng)
    h = haar(k, generator=rng) @ np.diag(rng.uniform(0.3, 3, k)) @ haar(k, generator=rng)
    moved = product(g.T @ left @ h, g.T @ right @ np.linalg.inv(h).T)
    assert moved == pytest.approx(direct, rel=1e-9)
    if k > 1:
        assert product(left @ h, right) != pytest.approx(direct, rel=1e-3)


def test_a_zero_product_has_no_rank():
    orthogonal = np.array([[1.0], [0.0]]), np.array([[0.0], [0.0]])
    assert product(*orthogonal) == (0.0, None)


def test_the_rank_does_not_depend_on_the_scale():
    left, right = np.random.default_rng(1).normal(size=(2, 6, 2))
    plain = product(left, right)
    for scale in (1e-120, 1e-180, 1e120, 1e180):
        found = product(scale * left, scale * right)
        assert found.rank == pytest.approx(plain.rank, rel=1e-9)
    assert product(1e-120 * left, right).norm == pytest.approx(1e-120 * plain.norm, rel=1e-12)
    assert product(1e180 * left, 1e180 * right).norm == math.inf


@few
@given(seed=seeds)
def test_one_direction_has_rank_one_and_never_less(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        left, right = rng.normal(size=(2, 7, 1)) * rng.uniform(1e-3, 1e3)
        rank = product(left, right).rank
        assert rank >= 1
        assert rank == pytest.approx(1, abs=1e-12)


def test_the_norm_of_neurons_by_hand():
    """|in| = (5, 2), |out| = (1, 3): sqrt(25 + 36)."""
    into = np.array([[3.0, 0.0], [4.0, 2.0]])
    out = np.array([[1.0, 0.0], [0.0, 3.0]])
    slanted = np.array([[0.8, 0.0], [0.6, 3.0]])
    assert paired_norm(into, slanted) == pytest.approx(math.sqrt(61), rel=1e-14)
    assert paired_norm(into, out) == pytest.approx(math.sqrt(61), rel=1e-14)
    assert paired_norm(1e200 * into, 1e200 * out) == math.inf


@few
@given(seed=seeds)
def test_order_and_positive_scale_of_neurons_leave_their_norm(seed):
    rng = np.random.default_rng(seed)
    into, out = rng.normal(size=(2, 5, 9))
    plain = paired_norm(into, out)
    order, scale = rng.permutation(9), rng.uniform(0.1, 10, 9)
    g = haar(5, generator=rng)
    moved = paired_norm(g.T @ into[:, order] * scale, g.T @ out[:, order] / scale)
    assert moved == pytest.approx(plain, rel=1e-12)
    assert paired_norm(into, np.roll(out, 1, axis=1)) != pytest.approx(plain, rel=1e-6)
    assert paired_norm(into * scale, out) != pytest.approx(plain, rel=1e-6)
