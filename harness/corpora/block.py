"""The unit of data: a block of consecutive samples, and the ranges that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "dictionary", "fit", "calibrate", "evaluate", "counterfactual", "ablation")
"""Names of the splits, in the order in which they divide the index space."""

SPLIT_STRIDE = 1 << 40
"""Each split owns this many consecutive sample indices, so no two splits share a sample."""


@dataclass(frozen=True, slots=True)
class SampleRange:
    """A run of consecutive samples of one split: `split[start:stop]`.

    `start` and `stop` count samples inside the split; `indices` are positions in the whole index
    space of the corpus, in which the splits are disjoint.
    """

    split: str
    start: int
    stop: int

    @property
    def count(self) -> int:
        """Number of samples in the range."""
        return self.stop - self.start

    @property
    def base(self) -> int:
        """Index, in the corpus' index space, of the range's first sample."""
        return SPLITS.index(self.split) * SPLIT_STRIDE + self.start

    def head(self, count: int) -> SampleRange:
        """The first `count` samples of the range, or the whole range when it is shorter."""
        return SampleRange(self.split, self.start, self.start + min(count, self.count))

    def following(self) -> SampleRange:
        """The equally long range that starts where this one ends (fresh samples, same split)."""
        return SampleRange(self.split, self.stop, self.stop + self.count)


class Block(NamedTuple):
    """Consecutive samples with the labels of every output head.

    Shapes: `ids` and `mask` are [samples, positions]; `sample_ids` is [samples]; every entry of
    `targets` is [samples, positions]. `mask` is true where a position is judged (not padding).
    The arrays are NumPy when they come from a corpus and torch once a loader has moved them.
    (A named tuple, because Lightning moves those between devices and refuses frozen dataclasses.)
    """

    ids: Any
    mask: Any
    sample_ids: Any
    targets: Mapping[str, Any]


def as_index(values: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """`values` as int64, the integer type in which sample ids and targets travel."""
    return values.astype(np.int64, copy=False)
