"""Effects of components: what is moved where, and what it is summed over."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.bars.effects import (
    EffectsMeter,
    MeansMeter,
    OfMean,
    Question,
    at_random,
    by_length,
    of_partner,
)
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.runners.measure import run_pass
from harness.subjects.loading import load
from harness.subjects.loss import surprisals
from harness.subjects.reference import locate

SIZE, COUNT = 8, 24
SAMPLES = SampleRange("counterfactual", 0, COUNT)
HEAD, MLP = "blocks.0.attn.head.1", "blocks.1.mlp"


@pytest.fixture(scope="module")
def model():
    return load(locate("zoo:dyck3/indep-100"))


@pytest.fixture(scope="module")
def block():
    return to_torch(Dyck3(7).sample(SAMPLES))


def effects(model, questions, *, pairs=by_length):
    meter = EffectsMeter(model, questions, pairs=pairs, blocks=COUNT // SIZE)
    read(meter)
    return meter.effects()


def read(meter):
    run_pass(
        [meter],
        corpus=Dyck3(7),
        samples=SAMPLES,
        block_size=SIZE,
        capture=(),
        trainer_options={"inference_mode": False},
    )


def right(model, block, edits=None):
    out = model.forward(block, edits=edits)
    return -torch.stack(list(surprisals(out.logits, block.targets).values()), -1)


def partners(block):
    lengths = block.mask.sum(-1)
    found = torch.arange(COUNT)
    for start in range(0, COUNT, SIZE):
        found[start : start + SIZE] = start + by_length(lengths[start : start + SIZE], 0)
    return found


def test_a_patch_is_the_edit_by_hand_for_every_component(model, block):
    found = effects(model, {"patched": Question("moved", of_partner)})["patched"]
    assert found.components == model.architecture.components
    captured = model.forward(block, capture=found.components).captured
    other, third = partners(block), torch.arange(64) * 3 // 64
    for number, component in enumerate(found.components):
        own = captured[component]
        put = torch.where(block.mask[other].unsqueeze(-1), own[other], own)
        effect = right(model, block, {component: lambda _, put=put: put}) - right(model, block)
        for place in range(3):
            judged = block.mask & (third == place)
            sums = (effect * judged.unsqueeze(-1)).sum(1).view(COUNT // SIZE, SIZE, -1).sum(1)
            np.testing.assert_allclose(found.sums[:, number, place], sums.numpy(), atol=2e-3)
            weight = judged.sum(1).view(COUNT // SIZE, SIZE).sum(1)
            np.testing.assert_array_equal(found.weight[:, place], weight.numpy())
    sizes = np.abs(found.sums).max((0, 2, 3))
    assert (sizes > 0.5).sum() >= 6  # enough of them do something to be told apart


def test_a_component_that_stays_where_it_is_has_exactly_no_effect(model):
    stays = {"stays": Question("moved", lambda chunk, component: chunk.own[component])}
    assert not effects(model, stays)["stays"].sums.any()


def test_the_integral_adds_up_to_the_patch_and_the_slope_does_not(model):
    found = effects(
        model,
        {
            "path": Question("path", of_partner, steps=16),
            "slope": Question("slope", of_partner),
            "moved": Question("moved", of_partner),
        },
    )
    moved = found["moved"].totals()
    largest = np.abs(moved).max()
    assert np.abs(found["path"].totals() - moved).max() / largest < 0.05
    assert np.abs(found["slope"].totals() - moved).max() / largest > 0.2


def test_increments_add_up_to_the_effect_of_all_in_any_order(model):
    order = model.architecture.components
    asked = {
        "one": Question("cumulative", of_partner, order=order),
        "reverse": Question("cumulative", of_partner, order=order[::-1]),
        "single": Question("moved", of_partner),
    }
    found = effects(model, asked)
    whole = found["one"].sums.sum(1)
    np.testing.assert_allclose(found["reverse"].sums.sum(1), whole, atol=1e-3)
    assert not np.allclose(found["one"].sums, found["reverse"].sums, atol=1e-2)
    first = found["one"].components.index(order[0])
    np.testing.assert_allclose(
        found["one"].sums[:, first], found["single"].sums[:, first], atol=1e-9
    )


def test_means_are_over_tokens_and_a_mean_is_put_everywhere(model, block):
    meter = MeansMeter(model, blocks=COUNT // SIZE, width=64)
    read(meter)
    means = meter.means()
    captured = model.forward(block, capture=[MLP]).captured[MLP]
    expected = captured[block.mask].double().mean(0)
    torch.testing.assert_close(means[MLP], expected, atol=1e-5, rtol=1e-5)
    found = effects(model, {"mean": Question("moved", OfMean(means))})["mean"]
    effect = right(model, block, {MLP: lambda x: expected.to(x).expand_as(x)}) - right(model, block)
    number = found.components.index(MLP)
    total = float((effect * block.mask.unsqueeze(-1)).sum())
    assert float(found.sums[:, number].sum()) == pytest.approx(total, rel=1e-4)


def test_partners_by_length_are_neighbours_and_mutual():
    lengths = torch.tensor([9, 3, 7, 5, 8, 4])
    partner = by_length(lengths, 0)
    assert partner.tolist() == [4, 5, 3, 2, 0, 1]
    assert by_length(torch.tensor([5, 3, 4]), 0).tolist() == [2, 2, 1]
    assert by_length(torch.tensor([5]), 0).tolist() == [0]


def test_random_partners_are_others_and_differ_by_block_and_seed():
    lengths = torch.ones(16)
    pairs = at_random(3)
    first = pairs(lengths, 0)
    assert sorted(first.tolist()) == list(range(16))
    assert (first != torch.arange(16)).all()
    assert not torch.equal(first, pairs(lengths, 1))
    assert not torch.equal(first, at_random(4)(lengths, 0))
    assert torch.equal(first, at_random(3)(lengths, 0))


def test_a_sequence_without_a_partner_is_not_counted(model):
    meter = EffectsMeter(model, {"m": Question("moved", of_partner)}, pairs=by_length, blocks=COUNT)
    run_pass(
        [meter],
        corpus=Dyck3(7),
        samples=SAMPLES,
        block_size=1,
        capture=(),
        trainer_options={"inference_mode": False},
    )
    assert not meter.effects()["m"].weight.any()
