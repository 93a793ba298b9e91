from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge import fit
from harness.statistics.explained_variance import explained_variance
from harness.streams import generator


def moments(other, reference):
    return fit.Moments(
        float(len(other)),
        other.sum(0),
        reference.sum(0),
        other.T @ reference,
        other.T @ other,
        reference.T @ reference,
    )


def cloud(rng, *, tokens=600, d=8, rank=None):
    shape = rng.standard_normal((rank or d, d)) * np.linspace(1, 3, d)
    return rng.standard_normal((tokens, rank or d)) @ shape + 2 * rng.standard_normal(d)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_planted_rotation_and_offset_come_back(seed):
    """h_B = h_A G + offset: R maps B to A, so R = G^T and not G; the means are needed."""
    rng = np.random.default_rng(seed)
    reference = cloud(rng)
    g, offset = fit.haar(8, generator=rng), 5 * rng.standard_normal(8)
    other = reference @ g + offset
    found = fit.procrustes(moments(other, reference))
    np.testing.assert_allclose(found.R, g.T, atol=1e-8)
    assert np.abs(found.R - g).max() > 1e-3
    np.testing.assert_allclose(found.apply(other), reference, atol=1e-7)
    transposed = found._replace(R=found.R.T)
    assert explained_variance(transposed.apply(other), reference) < 0.9
    zeros = np.zeros(8)
    meanless = found._replace(mean_other=zeros, mean_reference=zeros)
    assert explained_variance(meanless.apply(other), reference) < 0.9


def test_no_rotation_fits_better_than_procrustes():
    rng = np.random.default_rng(1)
    reference, other = cloud(rng), cloud(rng)
    reference += other @ rng.standard_normal((8, 8)) * 0.5
    found = fit.procrustes(moments(other, reference))
    best = np.square(found.apply(other) - reference).sum()
    centred_other, centred = other - other.mean(0), reference - reference.mean(0)
    for draw in range(50):
        nearby = found.R @ np.linalg.qr(np.eye(8) + 0.05 * rng.standard_normal((8, 8)))[0]
        for rotation in (fit.haar(8, generator=rng), nearby):
            assert np.square(centred_other @ rotation - centred).sum() >= best - 1e-9, draw


def test_r_is_orthogonal_and_rank_is_reported_on_deficient_data():
    rng = np.random.default_rng(2)
    reference = cloud(rng, rank=3)
    g = fit.haar(8, generator=rng)
    found = fit.procrustes(moments(reference @ g, reference))
    np.testing.assert_allclose(found.R @ found.R.T, np.eye(8), atol=1e-12)
    assert found.rank() == 3
    v = found.directions[:, :3]
    # on the determined directions of A the map is the planted one; beyond them it is arbitrary
    determined = np.linalg.norm((g @ found.R - np.eye(8)) @ v) / np.sqrt(3)
    assert determined < 1e-6
    assert np.linalg.norm(found.R - g.T) > 1e-2


def test_covariance_only_knows_the_clouds_but_not_the_tokens():
    rng = np.random.default_rng(3)
    reference = cloud(rng, tokens=4000)
    other = rng.permutation(reference @ fit.haar(8, generator=rng))
    found = fit.covariance_only(moments(other, reference), signs=np.ones(8))
    carried = found.apply(other)
    np.testing.assert_allclose(np.cov(carried.T), np.cov(reference.T), atol=1e-6)
    np.testing.assert_allclose(carried.mean(0), reference.mean(0), atol=1e-8)


def test_the_identity_neither_turns_nor_shifts():
    rng = np.random.default_rng(4)
    other = cloud(rng)
    assert np.array_equal(fit.identity(moments(other, cloud(rng))).apply(other), other)


def test_haar_draws_are_orthogonal_with_both_determinants_and_mean_trace_zero():
    rng = generator(0, "haar")
    draws = [fit.haar(6, generator=rng) for _ in range(3000)]
    assert all(np.allclose(q @ q.T, np.eye(6)) for q in draws[:50])
    signs = np.sign([np.linalg.det(q) for q in draws])
    assert abs(signs.mean()) < 0.06
    traces = np.array([np.trace(q) for q in draws])
    assert abs(traces.mean()) < 0.06
    assert abs(traces.std() - 1) < 0.05  # E tr^2 = 1 on O(d)


def test_svd_falls_back_where_divide_and_conquer_fails(monkeypatch):
    import scipy.linalg

    real, asked = scipy.linalg.svd, []

    def stubborn(matrix, *, lapack_driver):
        asked.append(lapack_driver)
        if lapack_driver == "gesdd":
            raise np.linalg.LinAlgError("SVD did not converge")
        return real(matrix, lapack_driver=lapack_driver)

    monkeypatch.setattr(scipy.linalg, "svd", stubborn)
    u, s, vt = fit.svd(np.diag([3.0, 2.0, 1.0]))
    assert asked == ["gesdd", "gesvd"]
    np.testing.assert_allclose(u * s @ vt, np.diag([3.0, 2.0, 1.0]), atol=1e-12)


@pytest.mark.parametrize("d", [4, 64])
def test_identical_clouds_give_the_identity(d):
    rng = np.random.default_rng(d)
    x = rng.standard_normal((1000, d))
    np.testing.assert_allclose(fit.procrustes(moments(x, x)).R, np.eye(d), atol=1e-10)
