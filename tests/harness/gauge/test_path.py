from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.gauge.path import geodesic
from harness.statistics.undefined import UndefinedError


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 9), t=st.floats(0, 1))
def test_it_leads_from_one_to_the_other_at_constant_speed(seed, d, t):
    rng = np.random.default_rng(seed)
    first, last = haar(d, generator=rng), haar(d, generator=rng)
    if np.linalg.det(first.T @ last) < 0:
        with pytest.raises(UndefinedError, match="no path"):
            geodesic(first, last)
        last[:, 0] *= -1
    way = geodesic(first, last)
    assert way(0.0) == pytest.approx(first, abs=1e-9)
    assert way(1.0) == pytest.approx(last, abs=1e-9)
    assert way(t).T @ way(t) == pytest.approx(np.eye(d), abs=1e-9)
    step = way(0.0).T @ way(0.125)
    assert way(t) @ step == pytest.approx(way(t + 0.125), abs=1e-9)


def test_in_the_plane_it_turns_by_the_share_of_the_angle():
    def turn(angle):
        return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    assert geodesic(turn(0.1), turn(2.1))(0.25) == pytest.approx(turn(0.6), abs=1e-12)
    assert geodesic(turn(0.1), turn(6.1))(0.5) == pytest.approx(turn(3.1 + np.pi), abs=1e-12)


def test_two_mirrored_directions_are_one_half_turn():
    way = geodesic(np.eye(3), np.diag([-1.0, 1.0, -1.0]))
    assert way(1.0) == pytest.approx(np.diag([-1.0, 1.0, -1.0]), abs=1e-12)
    assert np.trace(way(0.5)) == pytest.approx(1.0)
