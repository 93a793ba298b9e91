"""One alignment for weights and states: what a front shows, and what joins its ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.bars.joint import joint_alignment
from harness.bars.parametric import folded
from harness.gauge import fit
from harness.gauge.fit import Moments
from harness.gauge.group import Element, act, random_element
from harness.statistics.explained_variance import explained_variance
from harness.statistics.undefined import UndefinedError
from harness.streams import generator

SHARES = (0.0, 0.5, 1.0)


def moments(other, reference):
    return Moments(
        float(len(other)),
        other.sum(0),
        reference.sum(0),
        other.T @ reference,
        other.T @ other,
        reference.T @ reference,
    )


@pytest.fixture(scope="module")
def states():
    """States of the reference at two sites, of unequal variances."""
    rng = generator(0, "test")
    spread = np.linspace(0.1, 2.0, 64)
    return [rng.standard_normal((400, 64)) * spread @ fit.haar(64, generator=rng) for _ in range(2)]


@pytest.fixture(scope="module")
def weights(zoo_pair):
    return folded(zoo_pair[0])


@pytest.fixture(scope="module")
def dyck(zoo_pair):
    return zoo_pair[0].architecture


def joint(weights, other, dyck, seen, reference, **more):
    found = [moments(x, y) for x, y in zip(seen, reference, strict=True)]
    return joint_alignment(weights, other, dyck, moments=found, **{"shares": SHARES, **more})


def test_one_element_serves_both_where_both_were_moved_by_it(weights, dyck, states):
    element = random_element(dyck, generator=generator(1, "test"))
    other = act(element, weights, dyck)
    seen = [x @ element.residual + 3.0 for x in states]
    found = joint(weights, other, dyck, seen, states, shares=(0.0, 0.25, 1.0))
    assert [point.share for point in found.points] == [0.0, 0.25, 1.0]
    for point in found.points:
        assert point.largest < 1e-12
        assert abs(point.activations) < 1e-9
    assert found.barrier == pytest.approx(0.0, abs=1e-9)
    assert found.gap < 1e-9
    assert found.distance < 1e-6


def test_each_end_is_what_each_alone_would_choose(weights, dyck, states, zoo_pair):
    """At 1 the states' own Procrustes rotation, whose EV is measured on the states themselves."""
    rng = generator(2, "test")
    turn = fit.haar(64, generator=rng)
    seen = [x @ turn + rng.standard_normal(x.shape) for x in states[:1]]
    found = joint(weights, folded(zoo_pair[1]), dyck, seen, states[:1])
    rotation = fit.procrustes(moments(seen[0], states[0])).R
    centred = [x - x.mean(0) for x in (seen[0], states[0])]
    expected = 1 - explained_variance(centred[0] @ rotation, centred[1])
    assert found.points[-1].activations == pytest.approx(expected)
    weight_errors = [point.weights for point in found.points]
    state_errors = [point.activations for point in found.points]
    assert weight_errors == sorted(weight_errors)
    assert state_errors == sorted(state_errors, reverse=True)
    assert weight_errors[0] < weight_errors[-1]
    assert all(point.largest >= point.weights for point in found.points)


def test_every_site_weighs_alike(weights, dyck, states):
    """One site is seen as it is and the other as noise a thousand times larger."""
    rng = generator(3, "test")
    noise = [1e3 * rng.standard_normal((400, 64)) for _ in range(2)]
    found = joint(weights, weights, dyck, [states[0], noise[0]], [states[0], noise[1]])
    first = found.points[-1].activations
    rotation_of_states = np.eye(64)
    second = 1 - explained_variance(noise[0] @ rotation_of_states, noise[1])
    assert first < second / 2 + 0.01


def test_ends_in_two_basins_are_told_apart(weights, dyck, states):
    """Weights and states were moved by two rotations that have nothing to do with one another."""
    rng = generator(4, "test")
    turns = [fit.haar(64, generator=rng) for _ in range(2)]
    if np.linalg.det(turns[0] @ turns[1]) < 0:
        turns[1][:, 0] *= -1
    other = act(Element(residual=turns[0]), weights, dyck)
    found = joint(weights, other, dyck, [x @ turns[1] for x in states], states)
    assert found.points[0].weights < 1e-12
    assert found.points[-1].activations < 1e-9
    assert found.points[0].activations > 0.5
    assert found.points[-1].weights > 0.5
    assert found.gap > 0.01 * found.middle
    assert found.distance > 0.1
    assert found.one_basin is False


def test_a_half_turn_of_a_plane_has_to_be_climbed(weights, dyck, states):
    """Along it both errors follow the cosine, which no straight line between its ends holds down."""
    half = np.diag([-1.0] * 32 + [1.0] * 32)
    found = joint(weights, weights, dyck, [x @ half for x in states], states)
    assert found.no_path is None
    assert found.barrier is not None
    # E falls from e to 0 as e (1 + cos) / 2, and rises above its line by no more than .21 e / 2
    assert 1e-3 < found.barrier < 0.106 * found.points[0].activations
    assert found.one_basin is False


def test_no_path_joins_a_rotation_and_a_mirrored_one(weights, dyck, states):
    mirrored = np.diag([-1.0, *([1.0] * 63)])
    found = joint(weights, weights, dyck, [x @ mirrored for x in states], states)
    assert found.barrier is None
    assert found.no_path is not None
    assert "no path" in found.no_path
    assert found.one_basin is None


def test_an_answer_needs_states_that_vary_and_tensors_that_are_there(weights, dyck, states):
    still = [np.ones_like(x) for x in states]
    with pytest.raises(UndefinedError, match="do not vary"):
        joint(weights, weights, dyck, states, still)
    empty = {**weights, "embed": torch.zeros_like(weights["embed"])}
    with pytest.raises(UndefinedError, match="embed is zero"):
        joint(empty, weights, dyck, states, states)


@pytest.mark.parametrize("shares", [(0.0, 2.0), (-1.0, 1.0), (0.0, 0.5), (0.0, 0.5, 0.5, 1.0), ()])
def test_mixtures_are_convex(weights, dyck, states, shares):
    with pytest.raises(ValueError, match="from 0 to 1"):
        joint(weights, weights, dyck, states, states, shares=shares)
