"""A subject's states as shuffled batches of tokens, the same tokens at every site."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from harness.corpora.block import SampleRange
from harness.corpora.catalogue import Corpus
from harness.runners.blocks import BATCH_SAMPLES, BlockStream
from harness.sae.recipe import Feed
from harness.statistics.undefined import UndefinedError
from harness.streams import generator
from harness.subjects.subject import Subject

States = dict[str, Tensor]
"""States [tokens, d] by site; row i is the same token at every site."""

Source = Callable[[], Iterator[States]]
"""Starts the same finite sequence of states afresh; called again whenever it has run out."""


def subject_states(
    subject: Subject, *, corpus: Corpus, samples: SampleRange, sites: Sequence[str]
) -> Source:
    """The subject's states at the non-padding tokens of a range, one forward pass a batch."""

    def start() -> Iterator[States]:
        for batch in BlockStream(corpus, samples, size=BATCH_SAMPLES):
            with torch.no_grad():
                captured = subject.forward(batch.block, capture=sites).captured
                states = {site: captured[site][batch.block.mask] for site in sites}
            yield states

    return start


class Normalisation(NamedTuple):
    """The mean state [d], and the factor for which E|factor (x - mean)|^2 = d."""

    mean: Tensor
    scale: float


class ShuffledStates(IterableDataset[States]):
    """Endless fp32 batches of `feed.batch_tokens` tokens, shuffled within buffers.

    The source is read in order, over and over; every run of `buffer_batches` batches of its tokens
    is one buffer, permuted by the stream (seed, "buffer", number) and cut into batches. So every
    token of the source is served once before any is served twice, but for the order within a
    buffer, and batch i depends on nothing but the source, the feed and i.
    """

    def __init__(self, source: Source, feed: Feed) -> None:
        self.source, self.feed = source, feed

    def __iter__(self) -> Iterator[States]:
        size = self.feed.batch_tokens
        for number, buffer in enumerate(self._buffers()):
            tokens = self.feed.buffer_batches * size
            order = generator(self.feed.seed, "buffer", number).permutation(tokens)
            for places in torch.split(torch.from_numpy(order), size):
                yield {site: states[places] for site, states in buffer.items()}

    def normalisations(self) -> Mapping[str, Normalisation]:
        """Of every site, from the tokens of the first buffer, in fp64.

        Raises:
            UndefinedError: the states of a site do not vary.
        """
        return {site: _normalisation(states) for site, states in next(self._buffers()).items()}

    def _buffers(self) -> Iterator[States]:
        """Consecutive buffers; each is overwritten by the next."""
        tokens = self.feed.buffer_batches * self.feed.batch_tokens
        buffer: States = {}
        filled = 0
        for states in self._again_and_again():
            if not buffer:
                buffer = {s: torch.empty(tokens, x.shape[1]) for s, x in states.items()}
            count, read = len(next(iter(states.values()))), 0
            while read < count:
                part = min(count - read, tokens - filled)
                for site, x in states.items():
                    buffer[site][filled : filled + part] = x[read : read + part]
                read, filled = read + part, filled + part
                if filled == tokens:
                    yield buffer
                    filled = 0

    def _again_and_again(self) -> Iterator[States]:
        while True:
            seen = 0
            for states in self.source():
                seen += len(next(iter(states.values())))
                yield states
            if not seen:
                raise UndefinedError("there are no tokens to train a dictionary on")


def _normalisation(states: Tensor) -> Normalisation:
    x = states.double()
    mean = x.mean(0)
    spread = float((x - mean).square().sum(1).mean())
    if not spread > 0:
        raise UndefinedError("states that do not vary cannot be brought to a scale")
    return Normalisation(mean, (x.shape[1] / spread) ** 0.5)
