"""The family's levels, and how much data a decision needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import smallest_n_rare
from harness.judging.multiplicity import holm, holm_limit, member_level, smallest_draws
from harness.judging.quantiles import binomial_upper
from prereg.errors import InputError


def test_each_of_five_members_gets_a_fifth_of_the_error():
    assert member_level(0.95, 5) == pytest.approx(0.99)
    assert member_level(0.95, 1) == pytest.approx(0.95)


def test_holm_by_hand():
    # sorted .01 .02 .04 times 3 2 1: .03 .04 .04
    assert holm([0.04, 0.01, 0.02]) == pytest.approx((0.04, 0.03, 0.04))
    assert holm([]) == ()
    assert holm_limit(0.95, q=2, m=4) == pytest.approx(0.025)


def test_draws_of_one_member_at_95_percent():
    assert smallest_draws(0.95, m=1) == 800
    assert smallest_draws(0.95, m=7) == 5600


@settings(deadline=None, max_examples=40)
@given(
    m=st.integers(1, 40),
    level=st.sampled_from([0.9, 0.95, 0.99]),
    threshold=st.floats(1e-4, 0.5),
)
def test_the_smallest_n_leaves_a_run_without_any_error_just_below_the_threshold(
    m, level, threshold
):
    n = smallest_n_rare(2.0, m, level, threshold)
    error = (1.0 - member_level(level, m)) / 4.0
    assert 2.0 * float(binomial_upper(0, n, error=error)) < threshold
    # with a fifth fewer sequences it cannot pass (small n: the bound is a little generous)
    fewer = int(np.floor(0.7 * n))
    assert 2.0 * float(binomial_upper(0, max(fewer, 1), error=error)) > threshold


def test_no_number_of_sequences_is_enough_for_a_threshold_of_zero():
    with pytest.raises(InputError, match="threshold"):
        smallest_n_rare(2.0, 1, 0.95, 0.0)
