from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.explained_variance import explained_variance, from_sums
from harness.statistics.undefined import UndefinedError

seeds = st.integers(0, 2**32 - 1)


def pair(seed, tokens=40, d=5):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, d)) * rng.uniform(0.1, 10, d) + 10 * rng.standard_normal(d)
    return rng, x + rng.standard_normal((tokens, d)), x


def test_a_small_case_by_hand():
    # residual 1 + 1 = 2; mean (1, 2), total (1 + 4) * 2 = 10
    assert explained_variance([[1, 0], [2, 5]], [[0, 0], [2, 4]]) == pytest.approx(1 - 2 / 10)


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_the_mean_predictor_scores_zero_and_a_perfect_one_one(seed):
    _, _, x = pair(seed)
    assert explained_variance(np.broadcast_to(x.mean(0), x.shape), x) == pytest.approx(0, abs=1e-12)
    assert explained_variance(x, x) == 1


@settings(max_examples=50, deadline=None)
@given(seed=seeds, scale=st.floats(1e-3, 1e3))
def test_invariant_under_one_scale_one_shift_and_one_rotation_of_both(seed, scale):
    rng, x_hat, x = pair(seed)
    value = explained_variance(x_hat, x)
    shift, turn = 3 * rng.standard_normal(5), haar(5, generator=rng)
    for move in (lambda a: scale * a, lambda a: a + shift, lambda a: a @ turn):
        assert explained_variance(move(x_hat), move(x)) == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert value <= 1


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_a_shift_or_scale_of_the_prediction_alone_is_not_forgiven(seed):
    _, _, x = pair(seed)
    assert explained_variance(x + 1.0, x) < 1
    assert explained_variance(0.9 * x, x) < 1


@settings(max_examples=50, deadline=None)
@given(seed=seeds, parts=st.integers(1, 8))
def test_pooled_over_any_split_and_order_of_blocks(seed, parts):
    rng, x_hat, x = pair(seed)
    order = rng.permutation(len(x))
    blocks = np.array_split(order, parts)
    residual = sum(float(np.square(x[b] - x_hat[b]).sum()) for b in blocks)
    total = sum(float(np.square(x[b] - x.mean(0)).sum()) for b in blocks)
    value = from_sums(residual=residual, total=total)
    assert value == pytest.approx(explained_variance(x_hat, x), rel=1e-12, abs=1e-12)


def test_not_a_mean_of_ratios_nor_a_variance_about_zero():
    x = np.array([[0.0, 0.0], [0.0, 0.0], [10.0, 0.1], [10.0, 0.1]])
    x_hat = np.array([[1.0, 0.0], [1.0, 0.0], [9.0, 0.1], [9.0, 0.1]])
    pooled = explained_variance(x_hat, x)
    assert pooled == pytest.approx(1 - 4 / (4 * 25 + 4 * 0.0025))
    about_zero = 1 - 4 / np.square(x).sum()
    assert abs(pooled - about_zero) > 0.01


def test_undefined_where_nothing_varies_and_refused_where_shapes_differ():
    with pytest.raises(UndefinedError):
        explained_variance([[1.0], [2.0]], [[3.0], [3.0]])
    with pytest.raises(ValueError, match="one shape"):
        explained_variance([[1.0, 2.0]], [[1.0], [2.0]])
