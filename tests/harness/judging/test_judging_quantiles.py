"""Quantiles against the definitions that they invert."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import bdtr, bdtrc

from harness.judging.quantiles import binomial_lower, binomial_upper, median_rank, student


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.7062), (4, 2.7764), (19, 2.0930)])
def test_student_agrees_with_the_printed_table(degrees, expected):
    assert float(student(0.95, degrees)) == pytest.approx(expected, abs=5e-5)


@settings(deadline=None, max_examples=50)
@given(total=st.integers(1, 300), data=st.data(), error=st.floats(1e-5, 0.3))
def test_clopper_pearson_limits_solve_their_tail_equations(total, data, error):
    count = data.draw(st.integers(0, total))
    lower = float(binomial_lower(count, total, error=error))
    upper = float(binomial_upper(count, total, error=error))
    assert 0.0 <= lower <= count / total <= upper <= 1.0
    if count > 0:
        assert bdtrc(count - 1, total, lower) == pytest.approx(error, rel=1e-6)
    if count < total:
        assert bdtr(count, total, upper) == pytest.approx(error, rel=1e-6)


@settings(deadline=None, max_examples=50)
@given(total=st.integers(1, 300), level=st.floats(0.5, 0.999))
def test_median_rank_is_the_largest_that_still_covers(total, level):
    rank = median_rank(total, level=level)
    below = bdtr(np.arange(total), total, 0.5)
    assert rank == 0 or 1.0 - 2.0 * below[rank - 1] >= level - 1e-12
    assert rank < total / 2 + 1
    assert 1.0 - 2.0 * below[rank] < level
