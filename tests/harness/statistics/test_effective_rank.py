from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.effective_rank import effective_rank
from harness.statistics.undefined import UndefinedError

spectra = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=8)


def test_a_small_case_by_hand():
    # p = 1/2, 1/4, 1/4: entropy 3/2 log 2
    assert effective_rank(np.diag([2.0, 1.0, 1.0])) == pytest.approx(2**1.5, rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_equal_eigenvalues_are_counted(k):
    covariance = np.diag([5.0] * k + [0.0] * (7 - k))
    turn = haar(7, generator=np.random.default_rng(k))
    assert effective_rank(covariance) == pytest.approx(k, rel=1e-12)
    assert effective_rank(turn.T @ covariance @ turn) == pytest.approx(k, rel=1e-10)


@settings(max_examples=50, deadline=None)
@given(values=spectra, scale=st.floats(1e-6, 1e6), seed=st.integers(0, 1000))
def test_between_one_and_d_and_blind_to_scale_and_rotation(values, scale, seed):
    covariance = np.diag(values)
    value = effective_rank(covariance)
    turn = haar(len(values), generator=np.random.default_rng(seed))
    assert 1 - 1e-12 <= value <= len(values) + 1e-12
    assert effective_rank(scale * turn.T @ covariance @ turn) == pytest.approx(value, rel=1e-6)


def test_not_the_participation_ratio():
    values = np.array([4.0, 1.0, 1.0])
    participation = values.sum() ** 2 / np.square(values).sum()
    assert abs(effective_rank(np.diag(values)) - participation) > 0.2


def test_eigenvalues_below_zero_by_rounding_count_as_zero():
    assert effective_rank(np.diag([1.0, 1.0, -1e-16])) == pytest.approx(2, rel=1e-12)


def test_undefined_where_nothing_varies():
    with pytest.raises(UndefinedError):
        effective_rank(np.zeros((3, 3)))
