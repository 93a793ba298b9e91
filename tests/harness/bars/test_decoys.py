"""Decoys: what they keep of the model and what they take away."""

from __future__ import annotations

import pytest
import torch

from harness.bars.decoys import averaged_in_pairs, blocks_swapped
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.subjects.loading import load
from harness.subjects.reference import locate
from prereg.errors import InputError


@pytest.fixture(scope="module")
def model():
    return load(locate("zoo:dyck3/indep-100"))


@pytest.fixture(scope="module")
def block():
    return to_torch(Dyck3(7).sample(SampleRange("evaluate", 0, 64)))


def test_averaged_pairs_leave_the_other_heads_and_the_pair_sums_alone(model, block):
    own, decoy = (m.forward(block).logits for m in (model, averaged_in_pairs(model)))
    assert torch.equal(own["copy"], decoy["copy"])
    assert torch.equal(own["valid"], decoy["valid"])
    for first in (0, 2, 4, 6):
        torch.testing.assert_close(decoy["depth"][..., first], decoy["depth"][..., first + 1])
        pair = own["depth"][..., first : first + 2].sum(-1)
        torch.testing.assert_close(decoy["depth"][..., first : first + 2].sum(-1), pair)
    torch.testing.assert_close(decoy["depth"][..., 8], own["depth"][..., 8])


def test_averaged_pairs_confuse_neighbours_and_nothing_else(model, block):
    depth = averaged_in_pairs(model).forward(block).logits["depth"].argmax(-1)
    right = block.targets["depth"]
    assert float(((depth // 2) == (right // 2))[block.mask].double().mean()) > 0.9
    assert float((depth == right)[block.mask].double().mean()) < 0.8


def test_swapped_blocks_are_the_same_tensors_elsewhere(model):
    own, decoy = model.weights(), blocks_swapped(model).weights()
    for name, tensor in own.items():
        there = name.replace("blocks.0", "blocks.X").replace("blocks.1", "blocks.0")
        assert torch.equal(decoy[there.replace("blocks.X", "blocks.1")], tensor)
    again = blocks_swapped(blocks_swapped(model)).weights()
    assert all(torch.equal(again[name], tensor) for name, tensor in own.items())
    assert not torch.equal(decoy["blocks.0.mlp.W_in"], own["blocks.0.mlp.W_in"])


def test_a_model_without_ordered_classes_has_no_such_decoy(model, monkeypatch):
    monkeypatch.setattr(type(model.architecture), "ordered_readouts", ())
    with pytest.raises(InputError, match="without ordered output classes"):
        averaged_in_pairs(model)
