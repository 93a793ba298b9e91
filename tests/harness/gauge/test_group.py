"""Every generator of the group leaves the outputs alone, and nothing beside it does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.group import GENERATORS, Element, act, random_element
from harness.gauge.residual import fold
from harness.runners.blocks import to_torch
from harness.streams import generator

EXACT = tuple(name for name in GENERATORS if name != "scale")


@pytest.fixture(scope="module")
def block():
    return to_torch(Dyck3(1).sample(SampleRange("fit", 0, 12)))


def largest(a, b, block):
    """Largest difference of a log-probability."""
    a, b = (m.forward(block).logits for m in (a, b))
    return max(float((a[h].log_softmax(-1) - b[h].log_softmax(-1)).abs().max()) for h in a)


def folded(subject):
    return subject.with_weights(fold(subject.weights(), subject.architecture))


def moved_by(subject, element):
    return subject.with_weights(act(element, subject.weights(), subject.architecture))


def drawn(subject, *names, seed=0, condition=4.0):
    rng = generator(seed, "test")
    return random_element(
        subject.architecture, generator=rng, generators=names or EXACT, condition=condition
    )


@pytest.mark.parametrize("names", [*((name,) for name in EXACT), EXACT])
def test_an_element_leaves_the_outputs_and_moves_the_weights(make_subject, block, names):
    subject = make_subject()
    other = moved_by(folded(subject), drawn(subject, *names))
    assert largest(subject, other, block) < 1e-10
    before, after = folded(subject).weights(), other.weights()
    assert max(float((before[name] - after[name]).abs().max()) for name in before) > 0.1


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), condition=st.floats(1.0, 20.0))
def test_any_element_leaves_the_outputs(small_subject, block, seed, condition):
    subject = small_subject(seed % 7)
    other = moved_by(folded(subject), drawn(subject, seed=seed, condition=condition))
    assert largest(subject, other, block) < 1e-10


def test_the_scale_of_the_stream_is_exact_where_the_norms_have_no_eps(small_subject, block):
    subject = folded(small_subject(norm_eps=1e-30))
    other = moved_by(subject, drawn(subject, *GENERATORS))
    assert largest(subject, other, block) < 1e-10


def test_otherwise_the_scale_changes_what_the_eps_changes(small_subject, block):
    """The effect is of first order in the eps, and as large as another eps, eps / c^2, has."""
    element = Element(scale=0.5)
    found = {}
    for eps in (1e-6, 1e-8):
        subject = folded(small_subject(norm_eps=eps))
        found[eps] = largest(subject, moved_by(subject, element), block)
        wider = folded(small_subject(norm_eps=4 * eps))
        assert largest(wider, moved_by(subject, element), block) < 1e-10
    assert found[1e-8] < found[1e-6] < 1e-3
    assert found[1e-6] / found[1e-8] == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("name", EXACT)
def test_every_tensor_that_a_generator_moves_is_needed(make_subject, block, name):
    subject = folded(make_subject())
    before, after = subject.weights(), moved_by(subject, drawn(subject, name)).weights()
    changed = [key for key in before if not torch.equal(before[key], after[key])]
    assert changed
    for key in changed:
        partly = subject.with_weights({**after, key: before[key]})
        assert largest(subject, partly, block) > 1e-4, key


def test_the_next_larger_group_breaks_the_outputs(make_subject, block):
    """A rotation of the neurons is no symmetry of a ReLU, nor is a mirrored one."""
    subject = folded(make_subject())
    weights = dict(subject.weights())
    signs = torch.ones(256, dtype=torch.float64)
    signs[::2] = -1
    weights["blocks.0.mlp.W_in"] = weights["blocks.0.mlp.W_in"] * signs
    weights["blocks.0.mlp.W_out"] = weights["blocks.0.mlp.W_out"] * signs[:, None]
    assert largest(subject, subject.with_weights(weights), block) > 1e-3


def test_an_element_acts_as_its_documentation_says(small_subject):
    subject = folded(small_subject())
    element = drawn(subject, *GENERATORS)
    before, after = subject.weights(), act(element, subject.weights(), subject.architecture)
    R = torch.from_numpy(element.residual)
    torch.testing.assert_close(after["embed"], element.scale * before["embed"] @ R)
    name = "blocks.1.attn.W_V"
    for head, was in enumerate(element.heads[1]):
        M = torch.from_numpy(element.inner[name][head])
        torch.testing.assert_close(after[name][head], R.T @ before[name][was] @ M)
        out = element.scale * torch.linalg.inv(M) @ before["blocks.1.attn.W_O"][was] @ R
        torch.testing.assert_close(after["blocks.1.attn.W_O"][head], out)
    name = "blocks.0.mlp.W_in"
    for neuron, was in enumerate(element.neurons[name]):
        factor = float(element.stretches[name][neuron])
        torch.testing.assert_close(after[name][:, neuron], factor * R.T @ before[name][:, was])


def test_the_identity_changes_nothing(small_subject):
    subject = folded(small_subject())
    same = act(Element(), subject.weights(), subject.architecture)
    assert all(torch.equal(tensor, same[name]) for name, tensor in subject.weights().items())


def test_weights_keep_their_dtype(make_subject):
    subject = folded(make_subject(dtype=torch.float32))
    found = act(drawn(subject, *GENERATORS), subject.weights(), subject.architecture)
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


def test_matrices_have_the_condition_that_is_asked_for(dyck):
    element = random_element(dyck, generator=generator(0, "test"), condition=10.0)
    for matrices in element.inner.values():
        assert matrices.shape == (4, 16, 16)
        assert 3 < np.linalg.cond(matrices).max() <= 10.0 * (1 + 1e-9)


@pytest.mark.parametrize("factors", [{"scale": -1.0}, {"stretches": {"x": np.array([1.0, 0.0])}}])
def test_factors_are_positive(factors):
    with pytest.raises(ValueError, match="positive"):
        Element(**factors)


def test_generators_that_do_not_exist_are_refused(dyck):
    with pytest.raises(ValueError, match="neurons"):
        random_element(dyck, generator=generator(0, "test"), generators=("neurons",))
    with pytest.raises(ValueError, match="at least 1"):
        random_element(dyck, generator=generator(0, "test"), condition=0.5)
