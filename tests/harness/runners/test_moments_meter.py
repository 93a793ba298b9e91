"""Moments of a pass: what they sum, and the parts that even and odd blocks make."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchmetrics.utilities import dim_zero_sum

from harness.case import Case, Pairing, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.fit import Moments
from harness.runners.blocks import BlockStream
from harness.runners.measure import MeasuringPass, View
from harness.runners.moments import MomentsMeter

SITES = ("hook_embed", "blocks.1.hook_resid_post")
CORPUS = Dyck3(7)
SAMPLES = SampleRange("evaluate", 32, 32 + 150)  # ten blocks of 16, the last one of 6


@pytest.fixture
def meter(zoo_pair):
    def make(*, parts=1, pairing=None, rank=0, world=1, size=16):
        """A meter after the share that a rank has of a pass."""
        case = Case(*zoo_pair, Samples(SAMPLES, SAMPLES), pairing=pairing or Pairing())
        meter = MomentsMeter(case, sites=SITES, width=64, parts=parts)
        module = MeasuringPass(
            [meter], corpus=CORPUS, samples=SAMPLES, block_size=size, capture=SITES
        )
        for batch in BlockStream(CORPUS, SAMPLES, size=size, rank=rank, world=world):
            module.test_step(batch)
        return meter

    return make


def close(a, b):
    for name, one, other in zip(Moments._fields, a, b, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


def direct(case, site, *, keep, size=16):
    """The moments of the tokens whose block `keep` accepts, from all states at once."""
    others, references = [], []
    for batch in BlockStream(CORPUS, SAMPLES, size=size):
        view = View(batch, capture=SITES, first_block=SAMPLES.base // size)
        other, reference = (x.numpy() for x in view.states(case, site))
        kept = keep(view.slots.numpy())
        others.append(other[kept])
        references.append(reference[kept])
    b, a = np.concatenate(others), np.concatenate(references)
    return Moments(float(len(b)), b.sum(0), a.sum(0), b.T @ a, b.T @ b, a.T @ a)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("pairing", [Pairing(), Pairing("shuffled", 3)], ids=["same", "shuffled"])
def test_the_sums_over_all_tokens(meter, parts, pairing):
    found = meter(parts=parts, pairing=pairing)
    for site in SITES:
        close(found.moments(site), direct(found.case, site, keep=lambda slots: slots >= 0))


@pytest.mark.parametrize("size", [16, 100])
def test_even_and_odd_blocks_are_summed_apart(meter, size):
    """A block of 100 samples fills a batch of its own: one part gets nothing from it."""
    found = meter(parts=2, size=size)
    for site in SITES:
        for part in (0, 1):
            expected = direct(
                found.case, site, keep=lambda slots, part=part: slots % 2 == part, size=size
            )
            close(found.part(site, part), expected)
    even, odd = found.part(SITES[1], 0), found.part(SITES[1], 1)
    assert min(even.tokens, odd.tokens) > 0.25 * found.moments(SITES[1]).tokens
    assert even.tokens + odd.tokens == found.moments(SITES[1]).tokens
    assert np.abs(even.cross - odd.cross).max() > 1


def test_a_lone_part_is_the_whole(meter):
    found = meter()
    for a, b in zip(found.part(SITES[0], 0), found.moments(SITES[0]), strict=True):
        assert np.array_equal(a, b)


def test_the_parts_of_two_ranks_add_up(meter):
    """Every state is a sum, so adding the ranks' states is all that a reduction has to do."""
    alone = meter(parts=2)
    ranks = [meter(parts=2, rank=rank, world=2) for rank in (0, 1)]
    assert alone._reductions == dict.fromkeys(("tokens", "sums", "products"), dim_zero_sum)
    for name in alone._reductions:
        whole, shares = getattr(alone, name), [getattr(rank, name) for rank in ranks]
        torch.testing.assert_close(sum(shares), whole, rtol=1e-12, atol=1e-9)
        assert all(bool(share.any()) for share in shares)


def test_moments_read_once_do_not_change_afterwards(meter):
    found = meter(parts=2)
    before = found.part(SITES[0], 0)
    copy = [np.array(value) for value in before]
    found.sums += 1
    found.products += 1
    found.tokens += 1
    assert all(np.array_equal(a, b) for a, b in zip(before, copy, strict=True))
