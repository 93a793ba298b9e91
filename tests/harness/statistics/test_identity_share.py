from __future__ import annotations

import numpy as np
import pytest

from harness.gauge.fit import haar
from harness.statistics.identity_share import haar_deviation, identity_share, polar
from harness.statistics.undefined import UndefinedError


def test_a_small_case_by_hand():
    # singular values 3 and 1; trace 3 - 1
    assert identity_share(np.diag([3.0, -1.0])) == pytest.approx(2 / 4)


def test_one_iff_the_identity_is_optimal():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 6))
    assert identity_share(a @ a.T) == pytest.approx(1, abs=1e-12)
    assert identity_share(a @ a.T @ haar(6, generator=rng)) < 0.99
    assert identity_share(-(a @ a.T)) == pytest.approx(-1, abs=1e-12)


def test_the_denominator_is_the_best_trace_over_rotations():
    rng = np.random.default_rng(1)
    cross = rng.standard_normal((5, 5))
    best = np.trace(cross) / identity_share(cross)
    assert np.trace(polar(cross).T @ cross) == pytest.approx(best)
    assert all(np.trace(haar(5, generator=rng).T @ cross) <= best + 1e-12 for _ in range(200))


@pytest.mark.parametrize("d", [8, 32])
def test_haar_rotations_give_mean_zero_and_the_stated_deviation(d):
    rng = np.random.default_rng(d)
    cross = np.diag(np.geomspace(1, 0.01, d)) @ haar(d, generator=rng)
    draws = np.array([identity_share(cross @ haar(d, generator=rng)) for _ in range(4000)])
    expected = haar_deviation(cross)
    assert abs(draws.mean()) < 4 * expected / np.sqrt(4000)
    assert draws.std() == pytest.approx(expected, rel=0.05)
    values = np.geomspace(1, 0.01, d)
    assert expected == pytest.approx(np.linalg.norm(values) / (np.sqrt(d) * values.sum()))


def test_undefined_without_any_covariance():
    with pytest.raises(UndefinedError):
        identity_share(np.zeros((3, 3)))
