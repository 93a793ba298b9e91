from __future__ import annotations

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.fit import haar
from harness.gauge.residual import fold, rotate
from harness.runners.blocks import to_torch
from harness.streams import generator


@pytest.fixture
def block():
    return to_torch(Dyck3(1).sample(SampleRange("fit", 0, 12)))


def largest(a, b):
    return max(float((a[head] - b[head]).abs().max()) for head in a)


def planted(seed=0):
    return torch.from_numpy(haar(64, generator=generator(seed, "test")))


def test_folding_leaves_the_outputs(make_subject, block):
    subject = make_subject()
    folded = subject.with_weights(fold(subject.weights(), subject.architecture))
    assert largest(subject.forward(block).logits, folded.forward(block).logits) < 1e-10
    assert bool((folded.weights()["norm_final.gain"] == 1).all())


def test_a_planted_rotation_of_the_folded_weights_leaves_the_outputs(make_subject, block):
    subject = make_subject()
    folded = fold(subject.weights(), subject.architecture)
    turned = subject.with_weights(rotate(folded, subject.architecture, planted()))
    assert largest(subject.forward(block).logits, turned.forward(block).logits) < 1e-10


def test_every_residual_state_is_rotated_by_the_same_element(make_subject, block):
    subject = make_subject()
    g = planted()
    folded = subject.with_weights(fold(subject.weights(), subject.architecture))
    turned = subject.with_weights(rotate(folded.weights(), subject.architecture, g))
    sites = [s for s in subject.architecture.sites if "resid" in s or s == "hook_embed"]
    a, b = (s.forward(block, capture=sites).captured for s in (folded, turned))
    for site in sites:
        torch.testing.assert_close(a[site] @ g, b[site], rtol=1e-10, atol=1e-10)
        assert not torch.allclose(a[site] @ g.T, b[site], atol=1e-2)


def test_the_next_larger_group_breaks_the_outputs(make_subject, block):
    subject = make_subject()
    folded = fold(subject.weights(), subject.architecture)
    skewed = planted() @ torch.diag(torch.linspace(0.8, 1.2, 64, dtype=torch.float64))
    turned = subject.with_weights(rotate(folded, subject.architecture, skewed))
    assert largest(subject.forward(block).logits, turned.forward(block).logits) > 1e-2


def test_every_tensor_is_needed(make_subject, block):
    """Leaving any one tensor of the axis table unrotated changes the outputs."""
    subject = make_subject()
    folded = fold(subject.weights(), subject.architecture)
    turned = rotate(folded, subject.architecture, planted())
    plain = subject.forward(block).logits
    for name, spaces in subject.architecture.axes.items():
        if "residual" in spaces and name not in subject.architecture.folds:
            partly = subject.with_weights({**turned, name: folded[name]})
            assert largest(plain, partly.forward(block).logits) > 1e-3, name


def test_an_unfolded_model_cannot_be_rotated(make_subject):
    subject = make_subject()
    with pytest.raises(ValueError, match="not folded"):
        rotate(subject.weights(), subject.architecture, planted())
