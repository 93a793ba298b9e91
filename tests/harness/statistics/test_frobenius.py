from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.frobenius import distance_to_identity


def test_small_cases_by_hand():
    assert distance_to_identity(np.eye(5)) == 0
    assert distance_to_identity(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(2)
    assert distance_to_identity(np.diag([3.0, 1.0])) == 2  # any matrix, not only rotations


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(2, 12))
def test_the_square_is_2d_minus_twice_the_trace(seed, d):
    r = haar(d, generator=np.random.default_rng(seed))
    assert distance_to_identity(r) ** 2 == pytest.approx(2 * d - 2 * np.trace(r), abs=1e-9)
    assert distance_to_identity(r.T) == pytest.approx(distance_to_identity(r))
