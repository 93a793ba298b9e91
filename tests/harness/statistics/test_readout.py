"""Features read off states by a linear map: R^2 by hand, and against a fit to the tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import Moments
from harness.statistics.explained_variance import explained_variance
from harness.statistics.readout import RESOLUTION, coefficients, held_out_r2

seeds = st.integers(0, 2**32 - 1)
few = settings(deadline=None, max_examples=15)


def moments(x, y):
    return Moments(float(len(x)), x.sum(0), y.sum(0), x.T @ y, x.T @ x, y.T @ y)


def r2(fit, evaluate, *, feature=slice(0, 1)):
    (found,) = held_out_r2(fit, evaluate, features=[feature])
    return found


def cloud(seed, *, rank):
    """States [200, 6] of some rank, features [200, 4] with more and more noise, and a split."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, rank)) @ rng.normal(size=(rank, 6)) + rng.normal(size=6)
    y = x @ rng.normal(size=(6, 4)) + rng.normal(size=(200, 4)) * [0, 1, 3, 9] + 5
    return x, y, np.arange(200) % 3 > 0  # unequal halves


def column(*values):
    return np.array(values, np.float64)[:, None]


def test_r2_by_hand_is_of_the_evaluated_half():
    """y^ = x + 1 of the fitted half, against (1, 5) about their own mean: 1 - (0 + 4) / 8."""
    fit = moments(column(0, 1, 2), column(1, 2, 3))
    evaluate = moments(column(0, 2), column(1, 5))
    assert r2(fit, evaluate) == pytest.approx(0.5, rel=1e-14)


def test_a_feature_that_only_the_fitted_half_holds_constant_is_held_against_the_mean():
    """y^ = 7 everywhere: 1 - (49 + 25) / 2."""
    fit = moments(column(0, 1, 2), column(7, 7, 7))
    evaluate = moments(column(0, 1), column(0, 2))
    assert r2(fit, evaluate) == pytest.approx(-36.0, rel=1e-14)


@pytest.mark.parametrize("constant", [0.0, 1.0, 63.0, 0.1])
def test_a_feature_that_does_not_vary_has_no_r2(constant):
    x = np.random.default_rng(0).normal(size=(32, 3))
    y = np.column_stack([np.full(32, constant), x[:, 0]])
    found = held_out_r2(moments(x, y), moments(x, y), features=[slice(0, 1), slice(0, 2)])
    assert found[0] is None
    assert found[1] == pytest.approx(1.0)


@few
@given(seed=seeds, rank=st.integers(1, 6))
def test_r2_is_that_of_a_least_squares_fit_to_the_tokens(seed, rank):
    x, y, half = cloud(seed, rank=rank)
    with_one = np.column_stack([x, np.ones(len(x))])
    predicted = with_one[~half] @ np.linalg.lstsq(with_one[half], y[half], rcond=1e-9)[0]
    features = [slice(0, 1), slice(1, 4), slice(0, 4)]
    fit, evaluate = moments(x[half], y[half]), moments(x[~half], y[~half])
    found = held_out_r2(fit, evaluate, features=features)
    for chosen, value in zip(features, found, strict=True):
        expected = explained_variance(predicted[:, chosen], y[~half][:, chosen])
        assert value == pytest.approx(expected, abs=1e-8)
    both = held_out_r2(evaluate, fit, features=features)
    assert both != pytest.approx(found, abs=1e-4)  # the halves are not exchanged


@few
@given(seed=seeds, rank=st.integers(1, 6))
def test_no_basis_of_the_states_changes_it(seed, rank):
    x, y, half = cloud(seed, rank=rank)
    rng = np.random.default_rng(seed)
    g = np.linalg.qr(rng.normal(size=(6, 6)))[0] * rng.uniform(0.5, 2, 6)
    values = [
        held_out_r2(moments(z[half], y[half]), moments(z[~half], y[~half]), features=[slice(0, 4)])
        for z in (x, x @ g + rng.normal(size=6))
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-8)


def test_a_direction_below_the_resolution_is_not_read():
    """y is the second coordinate, whose variance is a share of the mean squared length."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    y = x[:, 1:]
    for share, readable in ((100 * RESOLUTION, True), (RESOLUTION / 100, False)):
        z = x * [1.0, np.sqrt(share)]
        assert (r2(moments(z, y), moments(z, y)) > 0.99) == readable
        assert coefficients(moments(z, y))[1, 0] == pytest.approx(
            1 / np.sqrt(share) if readable else 0.0, rel=1e-2, abs=1e-2
        )
    far = z * [1.0, 1e3] + [1e4, 0]  # what counts is the length, with its mean
    assert r2(moments(far, y), moments(far, y)) < 0.1
