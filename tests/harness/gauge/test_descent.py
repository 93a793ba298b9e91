"""Each step of the descent is a closed form: nothing beside it does better."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.gauge.balance import balanced
from harness.gauge.descent import Descent, best_scale
from harness.gauge.fit import haar
from harness.gauge.group import Element, act
from harness.gauge.residual import fold
from harness.streams import generator


def of(small_subject, first=0, second=1, **more):
    subjects = [small_subject(seed) for seed in (first, second)]
    architecture = subjects[0].architecture
    own, theirs = (balanced(fold(s.weights(), architecture), architecture) for s in subjects)
    return Descent(own, theirs, **more), own, theirs


def error(place, own, theirs):
    return sum(
        ((place.moved(b) - a.rows) ** 2).sum() / (a.rows**2).sum()
        for a, b in zip(own, theirs, strict=True)
    )


@pytest.fixture
def rotation():
    return haar(16, generator=generator(0, "test"))


def test_the_value_is_the_summed_error_and_the_added_objective(small_subject, rotation):
    pull = generator(1, "test").standard_normal((16, 16))
    descent, own, theirs = of(small_subject, weight=0.3, pull=pull, constant=2.0)
    place = descent.matched(descent.start(rotation))
    expected = 0.3 * error(place, own, theirs) + 2.0 - 2 * np.trace(rotation.T @ pull)
    assert descent.value(place) == pytest.approx(expected)


def test_descent_never_rises_and_ends_where_it_stands_still(small_subject, rotation):
    descent, own, theirs = of(small_subject)
    place, before = descent.matched(descent.start(rotation)), np.inf
    for gain in (1e-1, 1e-2, 1e-4, 1e-8, 1e-12):
        end = descent.go_on(place, gain=gain)
        assert end.converged
        assert end.value == pytest.approx(error(end.place, own, theirs))
        assert end.value <= before * (1 + 1e-12)
        place, before = end.place, end.value
    rng = generator(2, "test")
    for _ in range(5):  # a minimum: a small turn of the stream raises it to second order
        skew = rng.standard_normal((16, 16)) * 1e-3
        turned = np.linalg.qr(np.eye(16) + skew - skew.T)[0]
        turned = turned * np.sign(np.diag(turned))
        near = replace(place, rotation=place.rotation @ turned)
        assert descent.value(near) >= end.value - 1e-9


def test_orders_are_the_best_there_are(small_subject, rotation):
    """Of the two heads by trial, of the neurons against every exchange of two."""
    descent, own, theirs = of(small_subject)
    place = descent.matched(descent.start(rotation))
    best = error(place, own, theirs)
    for layer in (0, 1):
        swapped = replace(place, heads={**place.heads, layer: place.heads[layer][::-1]})
        for pair in ("W_Q", "W_V"):
            name = f"blocks.{layer}.attn.{pair}"
            rest = descent._turns(swapped)[name]
            swapped = replace(swapped, turns={**swapped.turns, name: rest})
        assert error(swapped, own, theirs) >= best
        name = f"blocks.{layer}.mlp.W_in"
        for i, j in permutations(range(12), 2):
            order = list(place.neurons[name])
            order[i], order[j] = order[j], order[i]
            other = replace(place, neurons={**place.neurons, name: tuple(order)})
            other.neurons[name.replace("W_in", "W_out")] = tuple(order)
            assert error(other, own, theirs) >= best - 1e-12


def test_turns_are_the_best_rotations_of_the_inner_axes(small_subject, rotation):
    descent, own, theirs = of(small_subject)
    place = descent.matched(descent.start(rotation))
    best, rng = error(place, own, theirs), generator(3, "test")
    for name in place.turns:
        for _ in range(5):
            skew = rng.standard_normal((4, 4)) * 0.1
            turn = np.linalg.qr(np.eye(4) + skew - skew.T)[0]
            turned = replace(place, turns={**place.turns, name: place.turns[name] @ turn})
            assert error(turned, own, theirs) >= best - 1e-12


def test_the_rest_is_fitted_at_a_fixed_rotation(small_subject, rotation):
    descent, own, theirs = of(small_subject)
    place = descent.at(rotation, scale=1.0)
    assert place.rotation is rotation
    best = error(place, own, theirs)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert error(replace(place, scale=place.scale * factor), own, theirs) > best
    assert descent.at(rotation, scale=place.scale).scale == pytest.approx(place.scale)


@settings(deadline=None, max_examples=50)
@given(
    squares=st.tuples(*[st.floats(0.01, 10)] * 3),
    inner=st.tuples(*[st.floats(-5, 5)] * 3),
    current=st.floats(1e-4, 10),
)
def test_the_scale_is_the_best_of_a_fine_grid(squares, inner, current):
    q, i = np.array(squares), np.array(inner)

    def value(s):
        return sum(s ** (2 * p) * q[p] - 2 * s**p * i[p] for p in (1, 2))

    found = best_scale(q, i, current=current)
    assert found > 0
    assert value(np.sqrt(found)) <= value(np.sqrt(current)) + 1e-12
    grid = value(np.linspace(0, 40, 8001))
    if grid.argmin() > 0:  # else nothing agrees, and none is the smallest
        assert value(np.sqrt(found)) <= grid.min() + 1e-9


def test_the_scale_of_a_doubled_stream_is_a_half():
    squares, inner = np.array([1.0, 2.0, 4.0]), np.array([1.0, np.sqrt(2), 2.0])
    assert best_scale(squares, inner, current=7.0) == pytest.approx(0.5)
    assert best_scale(np.zeros(3), np.zeros(3), current=7.0) == 7.0


def test_a_worse_root_does_not_replace_the_scale():
    """Where the tensors disagree the only root may be worse than what one has."""
    squares, inner = np.array([0.0, 1.0, 1.0]), np.array([0.0, -0.2, 2.5])
    assert best_scale(squares, inner, current=1.5) == pytest.approx(
        best_scale(squares, inner, current=3.0)
    )
    apart = np.array([0.0, -2.2, 3.0])  # a root at 1.28, with .12 more than at 0
    assert best_scale(squares, apart, current=1e-4) == 1e-4


def test_descent_begins_at_the_scale_that_sizes_suggest(small_subject, rotation):
    """It follows the scale of the reference, so that no start depends on it."""
    subject = small_subject()
    architecture = subject.architecture
    weights = fold(subject.weights(), architecture)
    theirs = balanced(weights, architecture)
    for c in (0.2, 1.0, 7.0):
        own = balanced(act(Element(scale=c), weights, architecture), architecture)
        assert Descent(own, theirs).start(rotation).scale == pytest.approx(c)
