"""The search brings back what the group moved, and says so where nothing can be brought back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.gauge.fit import haar
from harness.gauge.group import GENERATORS, Element, act, random_element
from harness.gauge.residual import fold
from harness.gauge.search import ALIGNMENTS, parts, search
from harness.statistics.undefined import UndefinedError
from harness.streams import generator

EACH = [*((name,) for name in GENERATORS), GENERATORS]


def largest(found):
    return max(*found.nmse.values(), *found.mse.values())


@pytest.mark.parametrize("names", EACH)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_element_is_recovered(zoo_weights, dyck, names, seed):
    weights = zoo_weights("indep-100")
    rng = generator(seed, "test", *names)
    element = random_element(dyck, generator=rng, generators=names, condition=4.0)
    found = search(weights, act(element, weights, dyck), dyck, alignment="full", seed=seed)
    assert largest(found) <= 1e-20
    assert max(found.lower.values()) == 0.0
    assert found.converged
    planted = element.residual if element.residual is not None else np.eye(64)
    assert found.rotation == pytest.approx(planted.T, abs=1e-9)
    assert found.scale == pytest.approx(1 / element.scale, rel=1e-9)
    for layer, order in found.heads.items():
        was = element.heads.get(layer, range(4))
        assert [was[head] for head in order] == [0, 1, 2, 3]
    for name, order in element.neurons.items():
        was = [order[neuron] for neuron in found.neurons[name]]
        assert np.mean(np.array(was) == np.arange(256)) > 0.9  # the rest are dead


@pytest.mark.parametrize("names", EACH)
def test_a_planted_element_is_recovered_from_single_precision(zoo_weights, dyck, names):
    weights = zoo_weights("indep-100")
    element = random_element(dyck, generator=generator(2, "test"), generators=names)
    moved = {name: t.float().double() for name, t in act(element, weights, dyck).items()}
    assert largest(search(weights, moved, dyck, alignment="full", starts=3)) <= 1e-12


@pytest.mark.parametrize("names", [("residual",), GENERATORS])
def test_the_transposed_rotation_is_another_one(zoo_weights, dyck, names):
    weights = zoo_weights("indep-100")
    element = random_element(dyck, generator=generator(0, "test"), generators=names)
    other = act(element, weights, dyck)
    found = search(weights, other, dyck, alignment="full", starts=3)
    transposed = replace(found.place, rotation=found.rotation.T)
    own, theirs = parts(weights, other, dyck, alignment="full")
    errors = [
        ((transposed.moved(b) - a.rows) ** 2).mean() for a, b in zip(own, theirs, strict=True)
    ]
    assert max(errors) > 1e-2


def test_a_scrambled_random_model_is_recovered(make_subject):
    subject = make_subject()
    weights = fold(subject.weights(), subject.architecture)
    element = random_element(subject.architecture, generator=generator(0, "test"), condition=50.0)
    other = act(element, weights, subject.architecture)
    assert largest(search(weights, other, subject.architecture, alignment="full")) <= 1e-20


@pytest.mark.parametrize("low", [1, 2])
def test_a_model_of_low_rank_is_recovered(small_subject, low):
    """Heads of rank 1 or 2, and a dead neuron: what is undetermined is not an error."""
    subject = small_subject()
    architecture = subject.architecture
    weights = fold(subject.weights(), architecture)
    for layer in (0, 1):
        for name in ("W_Q", "W_V"):
            weights[f"blocks.{layer}.attn.{name}"][..., low:] = 0
        weights[f"blocks.{layer}.mlp.W_in"][:, 0] = 0
    element = random_element(architecture, generator=generator(0, "test"))
    found = search(weights, act(element, weights, architecture), architecture, alignment="full")
    assert largest(found) <= 1e-20


def test_nothing_passes_for_free(zoo_weights, dyck, make_subject):
    """An empty model, and two small random ones: also proven to be far."""
    weights = zoo_weights("indep-100")
    empty = {n: t if n in dyck.folds else torch.zeros_like(t) for n, t in weights.items()}
    small = [
        make_subject().fresh(generator=torch.Generator().manual_seed(seed)).weights()
        for seed in (0, 1)
    ]
    for reference, other in ((weights, empty), (small[0], small[1]), (weights, small[0])):
        found = search(reference, other, dyck, alignment="full", starts=3)
        assert max(found.nmse.values()) >= 1e-3
        assert max(found.lower.values()) >= 1e-3
    found = search(weights, empty, dyck, alignment="full", starts=3)
    assert set(found.nmse.values()) == {1.0}
    assert found.lower == pytest.approx(found.nmse)


def test_independent_models_are_proven_to_be_far(zoo_weights, dyck):
    found = search(zoo_weights("indep-100"), zoo_weights("indep-101"), dyck, alignment="full")
    assert max(found.nmse.values()) > 0.1
    assert max(found.lower.values()) > 1e-2
    assert max(found.lower.values()) < max(found.nmse.values())
    checkpoint = zoo_weights("indep-100/step-20000")
    near = search(zoo_weights("indep-100"), checkpoint, dyck, alignment="full")
    assert max(near.nmse.values()) < max(found.nmse.values())


@pytest.mark.parametrize("pair", [("indep-100", "indep-101"), ("shared-0", "shared-1")])
def test_the_gauge_of_neither_model_is_seen(zoo_weights, dyck, pair):
    """The reference moved inside its group: the same starts, the same way, the same end."""
    reference, other = (zoo_weights(name) for name in pair)
    before = search(reference, other, dyck, alignment="full")
    for seed in range(2):
        element = random_element(dyck, generator=generator(seed, "test"), condition=10.0)
        after = search(act(element, reference, dyck), other, dyck, alignment="full")
        assert after.start == before.start
        assert after.objectives == pytest.approx(before.objectives, rel=1e-6)
        assert after.nmse == pytest.approx(before.nmse, abs=1e-6)
        assert after.lower == pytest.approx(before.lower, abs=1e-6)
        assert after.objective == pytest.approx(before.objective, rel=1e-6)


def test_the_gauge_is_not_seen_where_labelled_rows_do_not_span_the_stream(small_subject):
    """Nine tokens, six coordinates of position and 51 classes, in a stream of 80."""
    subjects = [small_subject(seed, d_model=80, vocabulary=9) for seed in (0, 1)]
    architecture = subjects[0].architecture
    reference, other = (fold(s.weights(), architecture) for s in subjects)
    weights = dict(other)
    before = search(reference, weights, architecture, alignment="full", starts=3)
    element = random_element(architecture, generator=generator(0, "test"))
    after = search(
        act(element, reference, architecture), weights, architecture, alignment="full", starts=3
    )
    assert after.objectives == pytest.approx(before.objectives, rel=1e-6)
    assert after.nmse == pytest.approx(before.nmse, abs=1e-6)


def test_the_gauge_of_the_reference_is_seen_without_balance(zoo_weights, dyck):
    """The rotation alone leaves the inner axes as they are stored."""
    weights = zoo_weights("indep-100")
    element = random_element(dyck, generator=generator(0, "test"), generators=("general-linear",))
    found = search(weights, act(element, weights, dyck), dyck, alignment="rotation")
    assert max(found.nmse.values()) > 0.1


def test_the_identity_is_no_better_start(zoo_weights, dyck):
    reference, other = zoo_weights("indep-100"), zoo_weights("indep-101")
    found = search(reference, other, dyck, alignment="full", hints=[np.eye(64)], starts=8)
    assert found.objectives["states 0"] > found.objective


def test_hints_are_used_and_have_to_be_rotations(zoo_weights, dyck):
    weights = zoo_weights("indep-100")
    rotation = haar(64, generator=generator(0, "test"))
    other = act(Element(residual=rotation), weights, dyck)
    found = search(weights, other, dyck, alignment="full", hints=[rotation.T], starts=2)
    assert found.objectives["states 0"] < 1e-12
    with pytest.raises(ValueError, match="orthogonal"):
        search(weights, other, dyck, alignment="full", hints=[2 * rotation])


def test_rotations_and_signed_permutations_are_recovered_in_closed_form(zoo_weights, dyck):
    weights = zoo_weights("indep-100")
    rng = generator(0, "test")
    signs = rng.choice([-1.0, 1.0], 64)
    signed = np.eye(64)[rng.permutation(64)] * signs
    turned = haar(64, generator=rng)
    by_signs = act(Element(residual=signed), weights, dyck)
    by_rotation = act(Element(residual=turned), weights, dyck)
    found = search(weights, by_signs, dyck, alignment="signed-permutation")
    assert np.array_equal(found.rotation, signed.T)
    assert largest(found) == 0.0
    assert largest(search(weights, by_signs, dyck, alignment="rotation")) <= 1e-20
    found = search(weights, by_rotation, dyck, alignment="rotation")
    assert found.rotation == pytest.approx(turned.T, abs=1e-9)
    assert largest(found) <= 1e-20
    found = search(weights, by_rotation, dyck, alignment="signed-permutation")
    assert min(found.lower.values()) > 1e-2


def test_without_alignment_the_weights_are_compared_as_they_stand(zoo_weights, dyck):
    reference, other = zoo_weights("indep-100"), zoo_weights("indep-101")
    found = search(reference, other, dyck, alignment="none")
    for name in ("embed", "blocks.1.attn.W_O", "blocks.0.mlp.W_in"):
        a, b = reference[name], other[name]
        error = float((b - a).square().sum())
        assert found.nmse[name] == pytest.approx(error / float(a.square().sum()))
        assert found.mse[name] == pytest.approx(error / a.numel())
    assert found.lower == found.nmse
    assert set(found.nmse) == set(dyck.axes) - set(dyck.folds)


def test_larger_groups_find_smaller_errors(zoo_weights, dyck):
    """Rotations hold the signed permutations, which hold the identity."""
    reference, other = zoo_weights("shared-0"), zoo_weights("shared-1")
    found = [
        search(reference, other, dyck, alignment=name).objective
        for name in ("rotation", "signed-permutation", "none")
    ]
    assert found == sorted(found)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_reference_that_cannot_be_normalised_has_no_error(small_subject, alignment):
    subject = small_subject()
    weights = fold(subject.weights(), subject.architecture)
    for name, value, words in (
        ("blocks.0.attn.W_K", 0.0, "is zero"),
        ("embed", 0.0, "embed is zero"),
        ("embed", float("inf"), "reference's embed is not finite"),
    ):
        broken = {**weights, name: torch.full_like(weights[name], value)}
        with pytest.raises(UndefinedError, match=words):
            search(broken, weights, subject.architecture, alignment=alignment)
    broken = {**weights, "embed": torch.full_like(weights["embed"], float("nan"))}
    with pytest.raises(UndefinedError, match="other model's embed is not finite"):
        search(weights, broken, subject.architecture, alignment=alignment)


def test_twice_the_same_is_the_same_to_the_byte(zoo_weights, dyck):
    reference, other = zoo_weights("shared-0"), zoo_weights("shared-1")
    found = [search(reference, other, dyck, alignment="full", starts=4) for _ in range(2)]
    assert found[0].nmse == found[1].nmse
    assert found[0].rotation.tobytes() == found[1].rotation.tobytes()
    another = search(reference, other, dyck, alignment="full", starts=4, seed=1)
    assert another.objectives["labelled rows"] == found[0].objectives["labelled rows"]
    assert another.objectives["random 0"] != found[0].objectives["random 0"]


def test_components_follow_their_heads(zoo_weights, dyck):
    weights = zoo_weights("indep-100")
    element = Element(heads={0: (2, 0, 3, 1), 1: (1, 0, 3, 2)})
    found = search(weights, act(element, weights, dyck), dyck, alignment="full", starts=1)
    names = found.components(dyck)
    assert names["blocks.0.attn.head.2"] == "blocks.0.attn.head.0"
    assert names["blocks.1.attn.head.3"] == "blocks.1.attn.head.2"
    assert names["blocks.1.mlp"] == "blocks.1.mlp"
    assert set(names) == set(names.values()) == set(dyck.components)
    alone = search(weights, weights, dyck, alignment="none").components(dyck)
    assert all(name == other for name, other in alone.items())


def test_there_are_as_many_starts_as_asked_for(zoo_weights, dyck):
    weights = zoo_weights("indep-100")
    found = search(weights, weights, dyck, alignment="full", starts=5, hints=[np.eye(64)])
    assert list(found.objectives) == [
        "labelled rows",
        "states 0",
        *(f"random {n}" for n in range(3)),
    ]
    with pytest.raises(ValueError, match="at least one"):
        search(weights, weights, dyck, alignment="full", starts=0)
    with pytest.raises(ValueError, match="alignment"):
        search(weights, weights, dyck, alignment="most")
