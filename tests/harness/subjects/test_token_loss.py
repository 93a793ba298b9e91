from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.subjects.loss import token_loss


def test_a_small_case_by_hand():
    # head a: probabilities 1/4, 3/4; head b: thirds
    logits = {"a": torch.tensor([[[0.0, math.log(3)]]]), "b": torch.zeros(1, 1, 3)}
    for label, share in ((0, 1 / 4), (1, 3 / 4)):
        targets = {"a": torch.tensor([[label]]), "b": torch.tensor([[2]])}
        expected = (-math.log(share) + math.log(3)) / 2
        assert token_loss(logits, targets).tolist() == [[pytest.approx(expected, rel=1e-7)]]


def test_the_cross_entropy_of_every_position_in_fp64(make_subject):
    block = to_torch(Dyck3(1).sample(SampleRange("fit", 0, 6)))
    logits = make_subject(dtype=torch.float32).forward(block).logits
    found = token_loss(logits, block.targets)
    assert found.shape == block.ids.shape
    assert found.dtype == torch.float64
    parts = [
        functional.cross_entropy(scores[block.mask].double(), block.targets[head][block.mask])
        for head, scores in logits.items()
    ]
    torch.testing.assert_close(found[block.mask].mean(), sum(parts) / 3, rtol=1e-12, atol=0)
    head = "copy"
    alone = token_loss({head: logits[head]}, block.targets)
    one = functional.cross_entropy(logits[head][2, 3].double(), block.targets[head][2, 3])
    assert float(alone[2, 3]) == pytest.approx(float(one), rel=1e-12)


def test_a_confident_model_does_not_lose_its_loss_to_rounding():
    logits = {"a": torch.tensor([[[30.0, 0.0]]])}  # log(1 + e^-30) is 0 in fp32
    loss = float(token_loss(logits, {"a": torch.zeros(1, 1, dtype=torch.int64)}))
    assert loss == pytest.approx(math.exp(-30), rel=1e-2)


def test_one_constant_added_to_all_logits_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    targets = {"a": torch.tensor([[0, 1, 2], [3, 4, 0]])}
    moved = token_loss({"a": scores + 100}, targets)
    torch.testing.assert_close(moved, token_loss({"a": scores}, targets), rtol=1e-10, atol=1e-10)
