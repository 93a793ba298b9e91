from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.corpora.block import SPLITS, SampleRange
from harness.corpora.dyck3 import (
    BOS,
    DRAWS,
    EOS,
    FIRST_BRACKET,
    HEADS,
    MAX_DEPTH,
    PAD,
    Dyck3,
)

OPENERS = {3: 0, 5: 1, 7: 2}
CLOSERS = {4: 0, 6: 1, 8: 2}


def stack_machine(tokens: list[int]) -> tuple[list[int], list[int]]:
    """Depth and validity after every token, one token at a time."""
    stack: list[int] = []
    broken = False
    depths, valids = [], []
    for token in tokens:
        if token != PAD and not broken:
            if token in OPENERS:
                if len(stack) == MAX_DEPTH:
                    broken = True
                else:
                    stack.append(OPENERS[token])
            elif token in CLOSERS:
                if not stack or stack[-1] != CLOSERS[token]:
                    broken = True
                else:
                    stack.pop()
        depths.append(0 if token == PAD else len(stack))
        valids.append(0 if token == PAD else int(broken))
    return depths, valids


@pytest.mark.parametrize("draw", DRAWS)
def test_labels_equal_a_stack_machines(draw):
    block = Dyck3(seed=3, draw=draw).sample(SampleRange("fit", 0, 400))
    for i in range(400):
        depths, valids = stack_machine(block.ids[i].tolist())
        assert block.targets["depth"][i].tolist() == depths
        assert block.targets["valid"][i].tolist() == valids
        assert block.targets["copy"][i].tolist() == block.ids[i].tolist()


def tally_by_hand(tokens: list[int]) -> tuple[list[int], list[int], list[int]]:
    """The three labels of the tally task, one token at a time."""
    seen = {0: 0, 1: 0, 2: 0}
    copies, depths, valids = [], [], []
    before = BOS
    for token in tokens:
        if token in OPENERS:
            seen[OPENERS[token]] += 1
        copies.append(PAD if token == PAD else before)
        depths.append(0 if token == PAD else min(seen[0], 8))
        valids.append(1 if token != PAD and seen[1] > seen[2] else 0)
        before = token
    return copies, depths, valids


@pytest.mark.parametrize("draw", DRAWS)
def test_tally_labels_equal_those_counted_by_hand(draw):
    block = Dyck3(seed=3, draw=draw, task="tally").sample(SampleRange("fit", 0, 400))
    for i in range(400):
        copies, depths, valids = tally_by_hand(block.ids[i].tolist())
        assert block.targets["copy"][i].tolist() == copies
        assert block.targets["depth"][i].tolist() == depths
        assert block.targets["valid"][i].tolist() == valids


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**53 - 1),
    start=st.integers(0, 10_000),
    count=st.integers(0, 40),
    draw=st.sampled_from(DRAWS),
)
def test_a_task_changes_the_labels_and_nothing_else(seed, start, count, draw):
    samples = SampleRange("train", start, start + count)
    one, other = (Dyck3(seed, draw, task).sample(samples) for task in ("standard", "tally"))
    for field in ("ids", "mask", "sample_ids"):
        assert np.array_equal(getattr(one, field), getattr(other, field))
    assert tuple(one.targets) == tuple(other.targets) == tuple(HEADS)
    for head, classes in HEADS.items():
        assert one.targets[head].dtype == other.targets[head].dtype == np.int64
        assert other.targets[head].shape == one.ids.shape
        assert other.targets[head].max(initial=0) < classes


def test_every_head_has_other_labels_in_the_other_task():
    one, other = (
        Dyck3(7, task=task).sample(SampleRange("fit", 0, 2000)) for task in ("standard", "tally")
    )
    agree = {
        head: float((one.targets[head] == other.targets[head])[one.mask].mean()) for head in HEADS
    }
    assert max(agree.values()) < 0.6
    share = np.bincount(other.targets["depth"][one.mask]) / one.mask.sum()
    assert len(share) == HEADS["depth"]  # every class occurs
    assert share.max() < 0.25
    assert 0.35 < other.targets["valid"][one.mask].mean() < 0.5


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**53 - 1),
    start=st.integers(0, 10_000),
    count=st.integers(1, 40),
    draw=st.sampled_from(DRAWS),
)
def test_a_sample_is_a_pure_function_of_seed_and_index(seed, start, count, draw):
    corpus = Dyck3(seed, draw)
    together = corpus.sample(SampleRange("evaluate", start, start + count))
    i = count // 2
    alone = corpus.sample(SampleRange("evaluate", start + i, start + i + 1))
    assert np.array_equal(alone.ids[0], together.ids[i])
    assert alone.sample_ids[0] == together.sample_ids[i]


def test_chunks_leave_no_seam():
    corpus = Dyck3(5)
    whole = corpus.sample(SampleRange("fit", 0, 4100))
    assert np.array_equal(whole.ids[4090:], corpus.sample(SampleRange("fit", 4090, 4100)).ids)


def test_splits_are_disjoint_and_differ():
    corpus = Dyck3(7)
    blocks = [corpus.sample(SampleRange(split, 0, 64)) for split in SPLITS]
    ids = np.concatenate([block.sample_ids for block in blocks])
    assert len(np.unique(ids)) == len(ids)
    for i, one in enumerate(blocks):
        for other in blocks[i + 1 :]:
            assert not np.array_equal(one.ids, other.ids)


def test_seeds_and_draws_differ():
    samples = SampleRange("fit", 0, 32)
    ids = [Dyck3(s, d).sample(samples).ids for s in (1, 2) for d in DRAWS]
    assert all(not np.array_equal(a, b) for i, a in enumerate(ids) for b in ids[i + 1 :])


def test_the_standard_draw_has_the_stated_distribution():
    block = Dyck3(seed=11).sample(SampleRange("fit", 0, 20_000))
    length = block.mask.sum(1) - 2
    assert length.min() == 2
    assert length.max() == 62
    assert np.abs(np.bincount(length, minlength=63)[2:] / 20_000 - 1 / 61).max() < 0.004
    broken = block.targets["valid"].any(1)
    long = length >= 30
    assert abs(broken[long].mean() - 0.5) < 0.015  # walks are never broken, random brackets nearly
    # among walks, both moves possible: opened with probability .55
    depth = block.targets["depth"]
    walks = ~broken & long
    before, token = depth[walks, :-1], block.ids[walks, 1:]
    free = (before > 0) & (before < MAX_DEPTH) & (token >= FIRST_BRACKET)
    opened = ((token - FIRST_BRACKET) % 2 == 0)[free]
    assert abs(opened.mean() - 0.55) < 0.005
    family = ((token - FIRST_BRACKET) // 2)[free & ((token - FIRST_BRACKET) % 2 == 0)]
    assert np.abs(np.bincount(family) / len(family) - 1 / 3).max() < 0.01


def test_long_and_compositional_draws_are_as_stated():
    long = Dyck3(seed=2, draw="long").sample(SampleRange("fit", 0, 2000))
    length = long.mask.sum(1) - 2
    assert (length.min(), length.max()) == (50, 60)
    nested = Dyck3(seed=2, draw="compositional").sample(SampleRange("fit", 0, 2000))
    assert not nested.targets["valid"].any()
    assert set(nested.targets["depth"].max(1).tolist()) == set(range(3, MAX_DEPTH + 1))
    last = nested.mask.sum(1) - 1
    assert (nested.targets["depth"][np.arange(2000), last] == 0).all()


def test_content_stands_between_bos_and_eos():
    block = Dyck3(seed=1).sample(SampleRange("fit", 0, 500))
    assert (block.ids[:, 0] == BOS).all()
    last = block.mask.sum(1) - 1
    assert (block.ids[np.arange(500), last] == EOS).all()
    assert ((block.ids == PAD) == ~block.mask).all()
    assert (np.diff(block.mask.astype(int), axis=1) <= 0).all()


def test_no_global_generator_is_read():
    np.random.seed(0)  # poisoned on purpose
    one = Dyck3(seed=4).sample(SampleRange("fit", 0, 8)).ids
    np.random.seed(1)  # poisoned on purpose
    assert np.array_equal(one, Dyck3(seed=4).sample(SampleRange("fit", 0, 8)).ids)


def test_the_digest_depends_on_seed_draw_and_ranges():
    fit, more = SampleRange("fit", 0, 512), SampleRange("fit", 0, 513)
    digests = {
        Dyck3(1).digest((fit,)),
        Dyck3(2).digest((fit,)),
        Dyck3(1, "long").digest((fit,)),
        Dyck3(1, task="tally").digest((fit,)),
        Dyck3(1).digest((more,)),
        Dyck3(1).digest((SampleRange("evaluate", 0, 512),)),
    }
    assert len(digests) == 6


def test_samples_of_version_one_are_frozen():
    # a change here means another corpus version: old registrations would read other samples
    fit = (SampleRange("fit", 0, 256),)
    standard, tally = (Dyck3(seed=7, task=task).digest(fit) for task in ("standard", "tally"))
    assert standard == "53c2307db2f8ef7befd0e389ee68b0d7cc281bd29828d8797dce098b7c4ccff5"
    assert tally == "0825fc1056e5f653ef969ac45d2e2eb3e6414d09c871210db0624aa8f002d722"
