"""Blocks on their way into a model: as torch tensors, in order, each to exactly one rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.utils.data import IterableDataset

from harness.corpora.block import Block, SampleRange
from harness.corpora.catalogue import Corpus

BATCH_SAMPLES = 64
"""Samples a forward pass holds at most (whole blocks); larger batches leave the CPU's cache."""

_CHUNK_BATCHES = 16  # the corpus is drawn this many batches at a time


class Batch(NamedTuple):
    """Some whole blocks: their samples, and for each sample the number of its block."""

    block: Block
    slots: torch.Tensor  # [samples] block number, counted from the start of the range


def to_torch(block: Block) -> Block:
    """The same block with torch tensors in place of NumPy arrays (memory is shared)."""
    return Block(
        ids=torch.from_numpy(block.ids),
        mask=torch.from_numpy(block.mask),
        sample_ids=torch.from_numpy(block.sample_ids),
        targets={head: torch.from_numpy(values) for head, values in block.targets.items()},
    )


def rows(block: Block, start: int, stop: int) -> Block:
    """Samples `start` to `stop` of a block."""
    return Block(
        ids=block.ids[start:stop],
        mask=block.mask[start:stop],
        sample_ids=block.sample_ids[start:stop],
        targets={head: values[start:stop] for head, values in block.targets.items()},
    )


def block_count(samples: SampleRange, size: int) -> int:
    """Number of blocks of `size` samples in the range; the last may be shorter."""
    return -(-samples.count // size)


class BlockStream(IterableDataset[Batch]):
    """The batches of a range that belong to one rank: batch i goes to rank i modulo `world`.

    Which blocks share a batch depends on the range alone, so the sums of every block are the same
    on any number of ranks; and no block is padded, repeated or left out.
    """

    def __init__(
        self, corpus: Corpus, samples: SampleRange, *, size: int, rank: int = 0, world: int = 1
    ) -> None:
        self.corpus = corpus
        self.samples = samples
        self.size = size
        self.rank, self.world = rank, world

    def __iter__(self) -> Iterator[Batch]:
        span = self.size * max(1, BATCH_SAMPLES // self.size)  # samples in a batch
        total = self.samples.count
        for start in range(0, total, span * _CHUNK_BATCHES):
            stop = min(start + span * _CHUNK_BATCHES, total)
            chunk = None
            for at in range(start, stop, span):
                if (at // span) % self.world != self.rank:
                    continue
                if chunk is None:
                    chunk = to_torch(self.corpus.sample(self._part(start, stop)))
                block = rows(chunk, at - start, min(at + span, stop) - start)
                numbers = torch.arange(at, min(at + span, stop)) // self.size
                yield Batch(block, numbers)

    def _part(self, start: int, stop: int) -> SampleRange:
        return SampleRange(
            self.samples.split, self.samples.start + start, self.samples.start + stop
        )
