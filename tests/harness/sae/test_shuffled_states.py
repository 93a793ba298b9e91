"""States on their way into dictionaries: each token once, in an order that only the seed decides."""

from __future__ import annotations

from itertools import chain, islice

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.sae.activations import ShuffledStates, subject_states
from harness.sae.recipe import Feed
from harness.statistics.undefined import UndefinedError

FEED = Feed(batch_tokens=6, buffer_tokens=20, seed=3)  # buffers of 24 tokens


def numbered(parts=(7, 1, 30, 10)):
    """A source of 48 tokens whose only coordinate is their number; negated at the other site."""

    def start():
        first = 0
        for part in parts:
            x = torch.arange(first, first + part, dtype=torch.float64)[:, None]
            yield {"a": x, "b": -x}
            first += part

    return start


def served(count, *, feed=FEED, source=None):
    batches = islice(ShuffledStates(source or numbered(), feed), count)
    return [{site: x.flatten().tolist() for site, x in batch.items()} for batch in batches]


def test_every_token_is_served_once_before_any_is_served_twice():
    batches = [batch["a"] for batch in served(16)]
    assert all(len(batch) == 6 for batch in batches)
    for epoch in (batches[:8], batches[8:]):
        assert sorted(chain(*epoch)) == list(range(48))
    for number in range(2):  # shuffled, but inside a buffer only
        buffer = list(chain(*batches[4 * number : 4 * number + 4]))
        assert sorted(buffer) == list(range(24 * number, 24 * number + 24))
        assert buffer != sorted(buffer)
    assert batches[:8] != batches[8:]


def test_sites_share_their_tokens():
    for batch in served(8):
        assert batch["a"] == [-x for x in batch["b"]]


def test_the_order_depends_on_the_seed_and_not_on_how_the_source_is_cut():
    assert served(8) == served(8, source=numbered((48,))) == served(16)[:8]
    assert served(8) != served(8, feed=FEED.model_copy(update={"seed": 4}))


def test_normalisation_of_the_first_buffer():
    found = ShuffledStates(numbered(), FEED).normalisations()
    x = torch.arange(24, dtype=torch.float64)
    assert found["a"].mean.item() == x.mean() == -found["b"].mean.item()
    assert ((found["a"].scale * (x - x.mean())) ** 2).mean().item() == pytest.approx(1)


def test_states_that_do_not_vary_or_do_not_exist_are_undefined():
    with pytest.raises(UndefinedError):
        ShuffledStates(lambda: iter([{"a": torch.ones(30, 2)}]), FEED).normalisations()
    with pytest.raises(UndefinedError):
        next(iter(ShuffledStates(lambda: iter([]), FEED)))


def test_a_subject_is_read_at_its_non_padding_tokens_once_a_batch(make_subject, monkeypatch):
    subject, samples = make_subject(), SampleRange("dictionary", 0, 100)
    sites = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
    passes = []
    forward = subject.forward

    def counting(block, **options):
        passes.append(len(block.ids))
        return forward(block, **options)

    monkeypatch.setattr(subject, "forward", counting)
    source = subject_states(subject, corpus=Dyck3(7), samples=samples, sites=sites)
    parts = list(source())
    assert passes == [64, 36]  # however many sites
    tokens = int(Dyck3(7).sample(samples).mask.sum())
    assert all(sum(len(part[site]) for part in parts) == tokens for site in sites)
    assert not parts[0][sites[0]].requires_grad
