from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

from harness.bars.behavioural import divergences, sequence_sums


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(0)

    def draw():
        return {
            "a": torch.randn(4, 7, 5, generator=generator) * 3,
            "b": torch.randn(4, 7, 2, generator=generator),
        }

    return draw(), draw()


def kl(spec, model):
    return rel_entr(softmax(spec.double().numpy(), -1), softmax(model.double().numpy(), -1)).sum(-1)


def test_the_divergence_of_each_head_is_kl_spec_to_model(logits):
    spec, model = logits
    found = divergences(spec, model)
    assert list(found) == list(spec)
    for head, values in found.items():
        np.testing.assert_allclose(values.numpy(), kl(spec[head], model[head]), rtol=1e-10)
        assert not np.allclose(values.numpy(), kl(model[head], spec[head]))


def test_zero_for_equal_outputs_and_blind_to_a_shift_of_logits(logits):
    spec, _ = logits
    assert not any(values.any() for values in divergences(spec, spec).values())
    shifted = {head: values + 5 for head, values in spec.items()}
    assert max(float(v.abs().max()) for v in divergences(spec, shifted).values()) < 1e-6


def test_huge_logits_stay_finite():
    spec = {"a": torch.tensor([[[1e4, -1e4]]])}
    model = {"a": torch.tensor([[[-1e4, 1e4]]])}
    assert float(divergences(spec, model)["a"]) == pytest.approx(2e4)


def test_sequences_above_tau_go_to_the_tail_and_padding_counts_for_nothing():
    kl = torch.tensor([[0.01, 0.03, 9.0], [0.5, 0.1, 0.3], [5.0, 0.0, 0.0]]).double()
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    sums = {name: value.tolist() for name, value in sequence_sums(kl, mask, tau=0.1, c=2.0).items()}
    assert sums["positions"] == [2, 3, 1]
    assert sums["body"] == pytest.approx([0.04, 0, 0])
    assert sums["tail"] == pytest.approx([0, 0.9, 5.0])
    assert sums["exceeding"] == [0, 1, 1]
    assert sums["largest"] == pytest.approx([0, 0.9, 5.0])
    assert sums["capped"] == pytest.approx([0.04, 0.9, 2.0])
    assert sums["sequences"] == [1, 1, 1]
    assert sums["shortest"] == [2, 3, 1]
