from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import BATCH_SAMPLES, BlockStream, block_count

CORPUS = Dyck3(3)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 1500),
    size=st.sampled_from([1, 7, 16, 64, 100]),
    world=st.integers(1, 3),
    start=st.integers(0, 50),
)
def test_every_sample_goes_to_exactly_one_rank_exactly_once(count, size, world, start):
    samples = SampleRange("evaluate", start, start + count)
    seen, slots = [], []
    for rank in range(world):
        for batch in BlockStream(CORPUS, samples, size=size, rank=rank, world=world):
            assert len(batch.block.ids) <= max(BATCH_SAMPLES, size)
            seen += batch.block.sample_ids.tolist()
            slots += batch.slots.tolist()
    assert sorted(seen) == list(range(samples.base, samples.base + count))
    assert [slot for _, slot in sorted(zip(seen, slots, strict=True))] == [
        i // size for i in range(count)
    ]
    assert max(slots) + 1 == block_count(samples, size)


def test_a_block_is_never_divided_between_batches():
    for batch in BlockStream(CORPUS, SampleRange("fit", 0, 1000), size=16):
        full = batch.slots.unique_consecutive(return_counts=True)[1]
        assert (full[:-1] == 16).all()


@pytest.mark.parametrize("world", [2, 3])
def test_batches_are_the_same_on_any_number_of_ranks(world):
    samples = SampleRange("fit", 0, 700)
    alone = {int(b.slots[0]): b for b in BlockStream(CORPUS, samples, size=16)}
    for rank in range(world):
        for batch in BlockStream(CORPUS, samples, size=16, rank=rank, world=world):
            assert torch.equal(batch.block.ids, alone[int(batch.slots[0])].block.ids)
