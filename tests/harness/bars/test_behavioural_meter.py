"""Bar B's meter: blocks whose columns are written down by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness.bars.behavioural import COLUMNS, BehaviouralMeter
from harness.case import Case, Samples
from harness.corpora.block import Block, SampleRange
from harness.subjects.subject import Out

PAD = None
SAMPLES = Samples(SampleRange("fit", 0, 1), SampleRange("evaluate", 0, 1))
CASE = Case("reference", "other", SAMPLES)

# nats at each position; a sequence exceeds where its mean is above 0.1
FIRST = (
    (3, (0.06, 0.06, 0.06, 0.06, 0.06)),  # mean .06, though the sum is .3
    (3, (0.5, 0.1, PAD, PAD, PAD)),  # mean .3: exceeds
    (3, (0.2, 0.3, 0.1, 0.5, PAD)),  # mean .275: exceeds
    (4, (5.0, 0.0, 0.0, PAD, PAD)),  # mean 5/3: exceeds, and is above the cap
    (4, (0.02, 0.03, 0.0, 0.0, PAD)),
)
SECOND = ((1, (0.01, 0.02, PAD, PAD, PAD)),)
BLOCKS = {
    1: (0.03, 0.0, 0.03, 2, 1, 0, 0.0, 2),
    3: (0.3, 1.7, 2.0, 11, 3, 2, 1.1, 2),
    4: (0.05, 5.0, 0.05 + 3 * 1.5, 7, 2, 1, 5.0, 3),
}


def logits_of(kl):
    """Two-class log-probabilities (q, 1 - q) with KL(uniform || q) = kl: q (1 - q) = e^(-2 kl)/4."""
    q = (1 - math.sqrt(1 - math.exp(-2 * kl))) / 2
    return [math.log(q), math.log1p(-q)]


def view(rows):
    """What a meter reads of a batch."""
    slots, sequences = zip(*rows, strict=True)
    mask = torch.tensor([[kl is not PAD for kl in row] for row in sequences])
    # padding is made as bad as can be: it counts for nothing
    model = torch.tensor(
        [[logits_of(7.0 if kl is PAD else kl) for kl in row] for row in sequences],
        dtype=torch.float64,
    )
    outs = {
        "reference": Out({"head": torch.zeros_like(model)}, {}),
        "other": Out({"head": model}, {}),
    }
    block = Block(ids=None, mask=mask, sample_ids=torch.arange(len(rows)), targets={})
    return SimpleNamespace(
        block=block,
        sample_slots=torch.tensor(slots),
        out=outs.__getitem__,
        once=lambda key, compute: compute(),
    )


@pytest.fixture
def meter():
    return BehaviouralMeter(CASE, blocks=5, tau=0.1, c=1.5)


def expected():
    table = np.zeros((5, len(COLUMNS)))
    for slot, row in BLOCKS.items():
        table[slot] = row
    return {name: table[:, column] for column, name in enumerate(COLUMNS)}


def check(meter):
    for name, column in meter.by_column().items():
        np.testing.assert_allclose(column, expected()[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_two_batches_give_the_columns_that_were_worked_out_by_hand(meter):
    assert (
        *("body", "tail", "capped", "positions"),
        *("sequences", "exceeding", "largest", "shortest"),
    ) == COLUMNS
    meter.update(view(FIRST))
    meter.update(view(SECOND))
    check(meter)


def test_the_order_of_sequences_and_batches_counts_for_nothing(meter):
    meter.update(view(SECOND))
    meter.update(view(FIRST[::-1]))
    check(meter)


def test_the_value_is_the_sum_of_all_divergences_over_all_positions(meter):
    meter.update(view(FIRST))
    meter.update(view(SECOND))
    found = meter.measured("bar.behavioural.kl@1")
    assert found.site is None
    assert found.value == pytest.approx((0.03 + 2.0 + 5.05) / 20, rel=1e-12)
    assert tuple(found.columns) == COLUMNS


def test_the_divergence_runs_from_the_reference_to_the_other():
    turned = BehaviouralMeter(Case("other", "reference", SAMPLES), blocks=5, tau=0.1, c=1.5)
    turned.update(view(FIRST))
    assert not np.allclose(turned.by_column()["tail"][3], 1.7, rtol=1e-2)
