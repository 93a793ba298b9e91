"""The corpora that a registration can name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.corpora.block import SPLIT_STRIDE, SPLITS, Block, SampleRange
from harness.corpora.dyck3 import DRAWS, Dyck3
from prereg.errors import InputError
from prereg.near import unknown
from prereg.registration import CorpusChoice


class Corpus(Protocol):
    """Anything that draws samples as a pure function of their indices."""

    @property
    def draws(self) -> tuple[str, ...]:
        """The distributions that it can draw from."""

    def drawn(self, draw: str) -> Corpus:
        """The corpus of the same seed that draws from another of them."""

    def sample(self, samples: SampleRange) -> Block:
        """The samples of a range, as NumPy arrays."""

    def digest(self, ranges: tuple[SampleRange, ...]) -> str:
        """sha256 of what the ranges hold."""


def _dyck3(choice: CorpusChoice) -> Corpus:
    for draw in DRAWS:
        if draw == choice.draw:
            return Dyck3(choice.seed, draw)
    raise _unknown("draw of dyck3", choice.draw, DRAWS)


CORPORA: dict[str, Callable[[CorpusChoice], Corpus]] = {"dyck3": _dyck3}
"""What makes each corpus, by name."""


def corpus(choice: CorpusChoice) -> Corpus:
    """The corpus that a registration names.

    Raises:
        InputError: unknown name, draw or split.
    """
    if choice.name not in CORPORA:
        raise _unknown("corpus", choice.name, tuple(CORPORA))
    for split in choice.splits:
        if split not in SPLITS or split == "train":
            raise _unknown("split", split, tuple(name for name in SPLITS if name != "train"))
    return CORPORA[choice.name](choice)


def ranges(choice: CorpusChoice) -> dict[str, SampleRange]:
    """The registered sample range of every split."""
    if any(2 * size > SPLIT_STRIDE for size in choice.splits.values()):
        raise InputError(
            f"splits of {max(choice.splits.values())} samples",
            expected=f"at most {SPLIT_STRIDE // 2} samples in a split",
            fix="register fewer samples",
            code="corpus.too-large",
        )
    return {split: SampleRange(split, 0, size) for split, size in choice.splits.items()}


def _unknown(what: str, found: str, known: tuple[str, ...]) -> InputError:
    return unknown(f"no {what} {found!r}", found, known, code="corpus.unknown")
