from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge import fit
from harness.statistics.explained_variance import explained_variance
from harness.statistics.undefined import UndefinedError
from harness.streams import generator

seeds = st.integers(0, 10_000)


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
@given(seed=seeds)
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
    assert explained_variance(meanless.apply(other), reference) < 0.98


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


# --- the other arms ---------------------------------------------------------------------------


def related(rng, *, d=8, tokens=600):
    """Two clouds that share part of what they say, each with a mean of its own."""
    other = cloud(rng, d=d, tokens=tokens)
    reference = other @ rng.standard_normal((d, d)) * 0.5 + cloud(rng, d=d, tokens=tokens)
    return other, reference


def misfit(found, other, reference):
    return float(np.square(found.apply(other) - reference).sum())


def nearby(matrix, *, rng, size=0.05):
    """A rotation times one near the identity."""
    turn = fit.svd(np.eye(len(matrix)) + size * rng.standard_normal(matrix.shape))
    return matrix @ turn[0] @ turn[2]


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_shift_alone_comes_back_and_nothing_is_turned(seed):
    rng = np.random.default_rng(seed)
    reference = cloud(rng)
    other = reference + 5 * rng.standard_normal(8)
    found = fit.shift_only(moments(other, reference))
    np.testing.assert_allclose(found.apply(other), reference, atol=1e-9)
    unrelated = cloud(rng)
    carried = fit.shift_only(moments(other, unrelated)).apply(other)
    np.testing.assert_allclose(carried - unrelated.mean(0), other - other.mean(0), atol=1e-9)
    assert found.rank() == 0


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_planted_rotation_without_shift_comes_back_by_pure_rotation(seed):
    rng = np.random.default_rng(seed)
    reference = cloud(rng)
    g = fit.haar(8, generator=rng)
    found = fit.pure_rotation(moments(reference @ g, reference))
    np.testing.assert_allclose(found.R, g.T, atol=1e-8)
    assert np.abs(found.R - g).max() > 1e-3
    np.testing.assert_array_equal(found.apply(np.zeros((1, 8))), np.zeros((1, 8)))


def test_pure_rotation_is_the_best_rotation_of_the_states_as_they_are():
    rng = np.random.default_rng(1)
    other, reference = related(rng)
    found = fit.pure_rotation(moments(other, reference))
    best = misfit(found, other, reference)
    for _ in range(50):
        for rotation in (fit.haar(8, generator=rng), nearby(found.R, rng=rng)):
            assert misfit(found._replace(R=rotation), other, reference) >= best - 1e-9
    centred = fit.procrustes(moments(other, reference))
    assert misfit(found._replace(R=centred.R), other, reference) > best * 1.001
    assert misfit(centred, other, reference) < best  # it knows the means


@settings(max_examples=25, deadline=None)
@given(seed=seeds, scale=st.floats(0.05, 20))
def test_a_planted_scale_comes_back_the_right_way_round(seed, scale):
    """h_B = h_A G / s + offset: R = s G^T."""
    rng = np.random.default_rng(seed)
    reference = cloud(rng)
    g = fit.haar(8, generator=rng)
    other = reference @ g / scale + rng.standard_normal(8)
    found = fit.scaled(moments(other, reference))
    np.testing.assert_allclose(found.R, scale * g.T, rtol=1e-7, atol=1e-7 * scale)
    np.testing.assert_allclose(found.apply(other), reference, atol=1e-6)


def test_no_other_scale_or_rotation_fits_better_than_scaled():
    rng = np.random.default_rng(2)
    other, reference = related(rng)
    both = moments(other, reference)
    found, rotated = fit.scaled(both), fit.procrustes(both)
    best = misfit(found, other, reference)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert misfit(found._replace(R=factor * found.R), other, reference) > best
    for _ in range(50):
        assert misfit(found._replace(R=nearby(found.R, rng=rng)), other, reference) > best
    assert best < misfit(rotated, other, reference)
    np.testing.assert_array_equal(found.singular_values, rotated.singular_values)


def test_the_scale_is_undefined_where_the_other_model_does_not_vary():
    still = np.zeros((10, 3))
    with pytest.raises(UndefinedError):
        fit.scaled(moments(still, np.random.default_rng(0).standard_normal((10, 3))))


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_a_planted_affine_map_comes_back(seed):
    """h_A = h_B M + offset, and M is neither orthogonal nor symmetric."""
    rng = np.random.default_rng(seed)
    other = rng.standard_normal((600, 8)) + 2 * rng.standard_normal(8)
    m = rng.standard_normal((8, 8))
    reference = other @ m + 5 * rng.standard_normal(8)
    found = fit.linear(moments(other, reference))
    np.testing.assert_allclose(found.R, m, atol=1e-10)
    np.testing.assert_allclose(found.apply(other), reference, atol=1e-9)


def test_linear_is_least_squares_with_an_intercept():
    rng = np.random.default_rng(3)
    other, reference = related(rng)
    found = fit.linear(moments(other, reference))
    with_intercept = np.column_stack([other, np.ones(len(other))])
    solution = np.linalg.lstsq(with_intercept, reference, rcond=None)[0]
    np.testing.assert_allclose(found.R, solution[:8], atol=1e-9)
    np.testing.assert_allclose(found.apply(np.zeros((1, 8)))[0], solution[8], atol=1e-8)


def test_the_larger_the_group_the_better_the_fit():
    rng = np.random.default_rng(4)
    other, reference = related(rng)
    both = moments(other, reference)
    arms = (fit.linear, fit.scaled, fit.procrustes, fit.shift_only, fit.identity)
    misfits = [misfit(arm(both), other, reference) for arm in arms]
    assert misfits == sorted(misfits)
    assert len(set(misfits)) == len(misfits)
    pure = misfit(fit.pure_rotation(both), other, reference)
    assert misfits[2] < pure < misfits[4]


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_linear_does_not_invert_what_is_only_rounding(offset):
    rng = np.random.default_rng(5)
    other = rng.standard_normal((600, 3)) @ rng.standard_normal((3, 8)) + offset
    reference = other @ rng.standard_normal((8, 8)) + rng.standard_normal((600, 8))
    found = fit.linear(moments(other, reference))
    assert np.linalg.matrix_rank(found.R, tol=1e-6) == 3
    assert np.linalg.norm(found.R) < 100
    minimal = np.linalg.pinv(other - other.mean(0), rcond=1e-10) @ (reference - reference.mean(0))
    np.testing.assert_allclose(found.R, minimal, atol=1e-3)


def test_linear_keeps_a_direction_of_small_but_real_variance():
    rng = np.random.default_rng(6)
    other = rng.standard_normal((600, 4)) * [1, 1, 1, 1e-4]
    reference = other @ rng.standard_normal((4, 4)) + 1
    assert explained_variance(
        fit.linear(moments(other, reference)).apply(other), reference
    ) == pytest.approx(1, abs=1e-12)
    assert np.linalg.matrix_rank(fit.linear(moments(other, reference)).R, tol=1e-6) == 4


def test_a_random_rotation_is_a_haar_draw_between_the_means():
    rng = np.random.default_rng(7)
    other, reference = related(rng)
    both = moments(other, reference)
    found = fit.random_rotation(both, generator=np.random.default_rng(8))
    np.testing.assert_array_equal(found.R, fit.haar(8, generator=np.random.default_rng(8)))
    np.testing.assert_allclose(found.apply(other).mean(0), reference.mean(0), atol=1e-9)
    draws = [fit.random_rotation(both, generator=rng).R for _ in range(200)]
    assert abs(np.mean([np.trace(q) for q in draws])) < 4 / np.sqrt(200)
    assert len({float(np.sign(np.linalg.det(q))) for q in draws}) == 2


# --- principal components ---------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_principal_components_are_those_of_the_reference_in_descending_order(seed):
    rng = np.random.default_rng(seed)
    basis = fit.haar(5, generator=rng)
    scores = rng.standard_normal((500, 5))
    whitened = np.linalg.qr(scores - scores.mean(0))[0] * np.sqrt(500)
    reference = (whitened * [4, 3, 2, 1, 0.5]) @ basis.T + 10
    values, vectors = fit.principal_components(moments(cloud(rng, tokens=500, d=5), reference))
    np.testing.assert_allclose(values, [16, 9, 4, 1, 0.25], rtol=1e-6)
    np.testing.assert_allclose(np.abs(vectors.T @ basis), np.eye(5), atol=1e-5)
    scores = (reference - reference.mean(0)) @ vectors
    np.testing.assert_allclose(scores.var(0), values, rtol=1e-6)


def test_eigenvalues_below_zero_by_rounding_are_zero():
    rng = np.random.default_rng(9)
    flat = cloud(rng, rank=2) + 1e4
    values, _ = fit.principal_components(moments(flat, flat))
    assert (values >= 0).all()


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.integers(0, 50), min_size=1, max_size=8).map(lambda v: sorted(v)[::-1]),
    share=st.floats(0.01, 1),
)
def test_the_fewest_components_that_hold_a_share(values, share):
    k = fit.components_for(np.array(values, float), share)
    if not sum(values):
        assert k == 0
        return
    assert sum(values[:k]) >= share * sum(values)
    assert sum(values[: k - 1]) < share * sum(values)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01, float("nan")])
def test_a_share_outside_zero_to_one_is_refused(share):
    with pytest.raises(ValueError, match="share"):
        fit.components_for(np.ones(3), share)
