from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.fit import haar
from harness.statistics.stability import smallest_gap, stable_directions
from harness.statistics.undefined import UndefinedError

seeds = st.integers(0, 10_000)


def planted(rng, *, d=12, k=12, noise=0.0):
    """Centred cross-moments of two halves whose clouds fill k directions; B is A turned by G.

    The halves are different tokens in the same k-dimensional space of A.
    """
    g = haar(d, generator=rng)
    shape = np.linspace(1, 2, k)[:, None] * haar(d, generator=rng)[:k]
    halves = []
    for _ in range(2):
        reference = rng.standard_normal((4000, k)) @ shape
        other = reference @ g + noise * rng.standard_normal((4000, d))
        reference = reference + noise * rng.standard_normal((4000, d))
        halves.append((other - other.mean(0)).T @ (reference - reference.mean(0)))
    return halves[0] + halves[1], tuple(halves)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, k=st.integers(1, 12))
def test_the_count_is_the_rank_of_the_data_up_to_d(seed, k):
    """k = d - 1 leaves a sign to chance, k = d - 2 a plane: the cut-off leaves both out."""
    assert stable_directions(*planted(np.random.default_rng(seed), k=k)) == k


def test_without_the_cut_off_the_last_dimension_agrees_by_chance():
    counts = [
        stable_directions(*planted(np.random.default_rng(seed), k=11), relative=-1.0)
        for seed in range(60)
    ]
    assert set(counts) == {11, 12}
    assert 15 < counts.count(12) < 45


def test_noise_in_the_other_directions_is_not_stable():
    """Six dimensions hold only noise, and two halves turn them differently."""
    counts = [
        stable_directions(*planted(np.random.default_rng(seed), k=6, noise=0.02))
        for seed in range(20)
    ]
    assert np.median(counts) == 6
    assert max(counts) <= 7


@pytest.mark.parametrize(
    ("angle", "agreement", "count"), [(0.4, 0.9, 3), (0.8, 0.9, 1), (0.8, 0.6, 3), (0.8, 0.8, 1)]
)
def test_a_turn_between_the_halves_by_hand(angle, agreement, count):
    """C_1 = U S V^T, C_2 = U T S V^T, T a turn by an angle of u_1 and u_2: products cos, cos, 1.

    U and V are unlike, so that R^T for R, or left vectors for right ones, gives other products.
    cos 0.4 = .92, cos 0.8 = .70.
    """
    rng = np.random.default_rng(3)
    u, v = haar(3, generator=rng), haar(3, generator=rng)
    spread = np.diag([3.0, 2.0, 1.0]) @ v.T
    turn = np.eye(3)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    halves = u @ spread, u @ turn @ spread
    assert stable_directions(u @ spread, halves, agreement=agreement) == count


def test_a_reflected_direction_is_not_stable():
    whole = np.diag([3.0, 2.0, 1.0])
    assert stable_directions(whole, (whole, np.diag([3.0, -2.0, 1.0]))) == 2


def test_no_data_is_no_direction():
    nothing = np.zeros((3, 3))
    assert stable_directions(nothing, (nothing, nothing)) == 0


# --- gap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "expected"), [(1, 2 / 8), (2, 2 / 8), (3, 1 / 8), (4, 1 / 8)], ids=str
)
def test_the_gap_counts_the_step_to_the_next_value(k, expected):
    assert smallest_gap(np.array([8.0, 6.0, 3.0, 2.0]), k) == pytest.approx(expected)


def test_the_gap_does_not_depend_on_scale_or_on_later_values():
    values = np.array([8.0, 6.0, 3.0, 2.9, 2.9])
    assert smallest_gap(7 * values, 2) == pytest.approx(smallest_gap(values, 2))
    assert smallest_gap(values, 2) == pytest.approx(2 / 8)
    assert smallest_gap(values, 3) == pytest.approx(0.1 / 8)
    assert smallest_gap(values, 4) == 0


def test_the_gap_of_nothing_is_undefined():
    with pytest.raises(UndefinedError, match="no direction"):
        smallest_gap(np.array([2.0, 1.0]), 0)
    with pytest.raises(UndefinedError):
        smallest_gap(np.zeros(3), 2)
    with pytest.raises(UndefinedError):
        smallest_gap(np.ones(1), 1)
    with pytest.raises(ValueError, match="between 0 and 2"):
        smallest_gap(np.array([2.0, 1.0]), 3)
