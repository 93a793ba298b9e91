"""Lower bounds: exact where they can be, and never above what an element reaches."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.balance import Part, balanced
from harness.gauge.fit import haar
from harness.gauge.group import GENERATORS, act, random_element
from harness.gauge.invariants import lower_bounds
from harness.gauge.residual import fold
from harness.gauge.search import ALIGNMENTS, search
from harness.streams import generator


def bound(a, b, *, kind="labelled", power=0, alignment="full"):
    own, theirs = (Part("x", np.asarray(x, float), kind, 0, "x", power) for x in (a, b))
    return lower_bounds([own], [theirs], alignment=alignment)["x"]


def test_one_labelled_row_keeps_its_length():
    assert bound([[3.0, 0.0]], [[0.0, 1.0]]) == pytest.approx((3 - 1) ** 2 / 9)
    assert bound([[3.0, 0.0]], [[0.0, 1.0]], power=2) == 0.0
    assert bound([[3.0, 0.0]], [[0.0, 0.0]], power=2) == pytest.approx(1.0)


def test_labelled_rows_keep_their_angles():
    a, b = [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    # |A|^2 = |B|^2 = 2, the singular values of B^T A are sqrt 2 and 0
    assert bound(a, b) == pytest.approx((4 - 2 * np.sqrt(2)) / 2)
    assert bound(a, b, power=2) == pytest.approx((2 - 2 / 2) / 2)


def test_heads_are_matched_by_their_singular_values():
    a = [np.diag([3.0, 1.0]), np.diag([2.0, 0.5])]
    b = [np.diag([0.5, 2.0]), np.diag([1.0, 4.0])]
    assert bound(a, b, kind="heads") == pytest.approx((4 - 3) ** 2 / 14.25)
    inner, square = 3 * 4 + 1 + 4 + 0.25, 16 + 1 + 4 + 0.25
    expected = (14.25 - inner**2 / square) / 14.25
    assert bound(a, b, kind="heads", power=1) == pytest.approx(expected)


def test_neurons_keep_their_norms_and_their_singular_values():
    a, b = [[3.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]
    assert bound(a, b, kind="neurons") == pytest.approx((1 + 1) / 10)
    a, b = [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]  # equal norms, other angles
    assert bound(a, b, kind="neurons") == pytest.approx(((np.sqrt(2) - 1) ** 2 + 1) / 2)


def test_signed_permutations_are_tried_one_and_all():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5, 3))
    errors = [
        ((b[:, list(order)] * signs - a) ** 2).sum()
        for order in permutations(range(3))
        for signs in product((-1.0, 1.0), repeat=3)
    ]
    found = bound(a, b, alignment="signed-permutation")
    assert found == pytest.approx(min(errors) / (a**2).sum())


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_rotation_comes_below_the_bound_of_rotations(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 6, 4))
    low = bound(a, b, alignment="rotation") * (a**2).sum()
    for _ in range(20):
        assert ((b @ haar(4, generator=rng) - a) ** 2).sum() >= low
    u, _, vt = np.linalg.svd(b.T @ a)
    assert ((b @ u @ vt - a) ** 2).sum() == pytest.approx(low)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), near=st.booleans())
def test_no_element_of_the_group_comes_below_the_bound(small_subject, seed, near):
    """Of a model far away, and of one that differs by little so that the bounds are tight."""
    rng = np.random.default_rng(seed)
    subject = small_subject(seed % 5)
    architecture = subject.architecture
    reference = fold(subject.weights(), architecture)
    noise = fold(small_subject(7).weights(), architecture)
    other = noise
    if near:
        other = {
            n: w + 1e-3 * noise[n] * (n not in architecture.folds) for n, w in reference.items()
        }
    own = balanced(reference, architecture)
    low = lower_bounds(own, balanced(other, architecture), alignment="full")
    for _ in range(3):
        element = random_element(architecture, generator=rng, generators=GENERATORS)
        other = act(element, other, architecture)
        theirs = balanced(other, architecture)
        for a, b in zip(own, theirs, strict=True):
            assert ((b.rows - a.rows) ** 2).sum() / a.square >= low[a.name] - 1e-12


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), planted=st.booleans(), std=st.sampled_from([0.0, 1e-3, 0.2]))
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_the_bounds_lie_below_what_the_search_finds(small_subject, alignment, seed, planted, std):
    subject = small_subject(seed % 3)
    architecture = subject.architecture
    reference = fold(subject.weights(), architecture)
    rng = generator(seed, "test")
    other = fold(small_subject(seed % 7, std=std).weights(), architecture)
    if planted:
        other = act(random_element(architecture, generator=rng), reference, architecture)
    found = search(reference, other, architecture, alignment=alignment, starts=3, seed=seed)
    for name, value in found.nmse.items():
        assert 0.0 <= found.lower[name] <= value, name
        assert found.lower_mse[name] <= found.mse[name] * (1 + 1e-12), name
    assert found.objective == pytest.approx(sum(found.nmse.values()))
