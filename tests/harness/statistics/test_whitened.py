from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.explained_variance import explained_variance
from harness.statistics.undefined import UndefinedError
from harness.statistics.whitened import axis_weights, whitened_r2

seeds = st.integers(0, 2**32 - 1)


def states(seed, *, tokens=60, d=5):
    rng = np.random.default_rng(seed)
    basis = haar(d, generator=rng)
    actual = (rng.standard_normal((tokens, d)) * np.geomspace(10, 0.1, d)) @ basis.T
    actual += 5 * rng.standard_normal(d)
    return rng, actual + 0.3 * rng.standard_normal((tokens, d)), actual, basis


def test_a_small_case_by_hand():
    # axis 0: residual 1 of total 2; axis 1: residual 4 of total 8 + 8, about the mean 4
    actual = [[0.0, 2.0], [2.0, 6.0], [1.0, 0.0], [1.0, 8.0]]
    predicted = [[1.0, 2.0], [2.0, 8.0], [1.0, 0.0], [1.0, 8.0]]
    assert whitened_r2(predicted, actual, np.eye(2)) == pytest.approx((1 / 2 + 9 / 10) / 2)
    assert whitened_r2(predicted, actual, np.eye(2)[:, 1:]) == pytest.approx(9 / 10)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_mean_of_the_explained_variances_of_the_axes(seed):
    _, predicted, actual, basis = states(seed)
    kept = basis[:, :3]
    each = [explained_variance((predicted @ e)[:, None], (actual @ e)[:, None]) for e in kept.T]
    assert whitened_r2(predicted, actual, kept) == pytest.approx(np.mean(each), rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_mean_predictor_scores_zero_and_a_perfect_one_one(seed):
    _, _, actual, basis = states(seed)
    flat = np.broadcast_to(actual.mean(0), actual.shape)
    assert whitened_r2(flat, actual, basis) == pytest.approx(0, abs=1e-9)
    assert whitened_r2(actual, actual, basis) == 1


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_invariant_under_a_scale_of_every_axis_and_one_rotation_of_everything(seed):
    rng, predicted, actual, basis = states(seed)
    value = whitened_r2(predicted, actual, basis)
    unequal = (basis * rng.uniform(0.1, 10, 5)) @ basis.T
    turn, shift = haar(5, generator=rng), rng.standard_normal(5)
    assert whitened_r2(predicted @ unequal, actual @ unequal, basis) == pytest.approx(value)
    assert whitened_r2(predicted @ turn, actual @ turn, turn.T @ basis) == pytest.approx(value)
    assert whitened_r2(predicted + shift, actual + shift, basis) == pytest.approx(value)
    assert whitened_r2(predicted, actual, basis * rng.choice([-1, 1], 5)) == pytest.approx(value)


def test_a_dominant_direction_does_not_decide():
    _, _, actual, basis = states(0, tokens=2000)
    scores = (actual - actual.mean(0)) @ basis
    scores[:, 1:] = 0  # only the first of five axes is predicted
    predicted = scores @ basis.T + actual.mean(0)
    assert explained_variance(predicted, actual) > 0.9
    assert whitened_r2(predicted, actual, basis) == pytest.approx(1 / 5, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, parts=st.integers(1, 6))
def test_with_weights_held_fixed_blocks_add_up_to_one_minus_the_value(seed, parts):
    rng, predicted, actual, basis = states(seed)
    kept = basis[:, :4]
    weights = axis_weights(np.square((actual - actual.mean(0)) @ kept).sum(0))
    blocks = np.array_split(rng.permutation(len(actual)), parts)
    sums = [weights @ np.square((actual[b] - predicted[b]) @ kept).sum(0) for b in blocks]
    assert 1 - sum(sums) == pytest.approx(whitened_r2(predicted, actual, kept), rel=1e-9, abs=1e-9)


def test_the_weights_by_hand():
    assert axis_weights([2.0, 8.0]).tolist() == [1 / 4, 1 / 16]


def test_undefined_without_axes_or_where_one_does_not_vary():
    actual = np.array([[1.0, 3.0], [2.0, 3.0]])
    with pytest.raises(UndefinedError, match="does not vary"):
        whitened_r2(actual, actual, np.eye(2))
    with pytest.raises(UndefinedError, match="without any"):
        whitened_r2(actual, actual, np.zeros((2, 0)))
    with pytest.raises(UndefinedError):
        axis_weights([1.0, float("nan")])
    with pytest.raises(ValueError, match="one shape"):
        whitened_r2(actual[:1], actual, np.eye(2))
