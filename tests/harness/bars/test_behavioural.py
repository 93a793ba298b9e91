from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax

from harness.bars.behavioural import divergence, sequence_sums


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(0)

    def draw():
        return {
            "a": torch.randn(4, 7, 5, generator=generator) * 3,
            "b": torch.randn(4, 7, 2, generator=generator),
        }

    return draw(), draw()


def test_the_divergence_is_the_mean_over_heads_of_kl_spec_to_model(logits):
    spec, model = logits
    expected = np.mean(
        [
            rel_entr(
                softmax(spec[h].double().numpy(), -1), softmax(model[h].double().numpy(), -1)
            ).sum(-1)
            for h in spec
        ],
        axis=0,
    )
    np.testing.assert_allclose(divergence(spec, model).numpy(), expected, rtol=1e-10)
    assert not np.allclose(divergence(model, spec).numpy(), expected)


def test_zero_for_equal_outputs_and_blind_to_a_shift_of_logits(logits):
    spec, _ = logits
    assert not divergence(spec, spec).any()
    shifted = {head: values + 5 for head, values in spec.items()}
    assert float(divergence(spec, shifted).abs().max()) < 1e-6


def test_huge_logits_stay_finite():
    spec = {"a": torch.tensor([[[1e4, -1e4]]])}
    model = {"a": torch.tensor([[[-1e4, 1e4]]])}
    assert float(divergence(spec, model)) == pytest.approx(2e4)


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
