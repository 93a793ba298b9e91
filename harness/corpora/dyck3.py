"""Dyck-3: sequences of three bracket families, labelled for one of two tasks.

A sample is a pure function of (seed, draw, index): it reads 64 words of a counter-based generator
(Philox) whose counter is the index, so any sample can be drawn alone, in any order, on any rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.corpora.block import Block, SampleRange, as_index

VERSION = 1
"""Raised whenever the same (seed, draw, index) would give another sample."""

PAD, BOS, EOS = 0, 1, 2
FIRST_BRACKET = 3
FAMILIES = 3
VOCABULARY = 40
POSITIONS = 64
MAX_LENGTH = POSITIONS - 2
MAX_DEPTH = 8
HEADS: Mapping[str, int] = {"copy": VOCABULARY, "depth": MAX_DEPTH + 1, "valid": 2}

Draw = Literal["standard", "long", "compositional"]
DRAWS: tuple[Draw, ...] = ("standard", "long", "compositional")

Task = Literal["standard", "tally"]
"""Which labels the sequences carry: those of the brackets' stack, or counts of their openers."""

_WORDS = 64  # 64-bit words a sample reads: one a position, one for the length, one for the kind
_WORDS_PER_COUNTER = 4
_OPEN = 0.55
_CHUNK = 4096  # samples generated at once: the column loop then stays inside the cache

_Labels = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]  # copy, depth, valid


@dataclass(frozen=True, slots=True)
class Dyck3:
    """The corpus for one seed, one way of drawing and one task.

    Draws: `standard` has lengths uniform on 2..62, half random walks over valid prefixes (open with
    probability .55 where both moves are possible), half uniform random brackets; `long` is the same
    with lengths 50..60; `compositional` puts a one-family nest of depth 3..8 amid shallow pairs of
    mixed families. Content stands between BOS and EOS, then padding.

    Tasks: both label every position of the same sequences, under the same heads and class counts.

    `standard`: `copy` is the token, `depth` the number of unmatched openers after it (held at its
    value once the first error has happened), `valid` is 0 until the first error and 1 from it on.
    Errors: closing on empty, the wrong family, opening beyond depth 8.

    `tally`: `copy` is the token before (BOS for BOS), `depth` the number of openers of the first
    family up to the token (held at 8), `valid` is 1 where more openers of the second family than of
    the third have been read. What closes, and whether it matches, has no effect on the last two.
    """

    seed: int
    draw: Draw = "standard"
    task: Task = "standard"

    @property
    def draws(self) -> tuple[str, ...]:
        """The distributions that it can draw from."""
        return DRAWS

    def drawn(self, draw: str) -> Dyck3:
        """The corpus of the same seed and task that draws from another of them.

        Raises:
            ValueError: no such draw.
        """
        for known in DRAWS:
            if known == draw:
                return replace(self, draw=known)
        raise ValueError(f"expected one of {', '.join(DRAWS)}, got {draw!r}")

    def sample(self, samples: SampleRange) -> Block:
        """The samples of a range as one block of NumPy arrays, [samples, 64].

        >>> block = Dyck3(seed=7).sample(SampleRange("fit", 0, 2))
        >>> block.ids.shape, int(block.ids[0, 0])
        ((2, 64), 1)
        """
        parts = [
            self._chunk(samples.base + at, min(_CHUNK, samples.count - at))
            for at in range(0, samples.count, _CHUNK)
        ]
        ids, *labels = (
            np.concatenate([part[i] for part in parts])
            if parts
            else np.zeros((0, POSITIONS), np.uint8)
            for i in range(1 + len(HEADS))
        )
        return Block(
            ids=as_index(ids),
            mask=ids != PAD,
            sample_ids=np.arange(samples.base, samples.base + samples.count, dtype=np.int64),
            targets={head: as_index(label) for head, label in zip(HEADS, labels, strict=True)},
        )

    def digest(self, ranges: tuple[SampleRange, ...]) -> str:
        """sha256 over the definition's version and the first 256 samples of each range.

        A change of the generator changes every sample, so a prefix is enough to notice one. The
        standard task goes unnamed, and its copy labels, which are the tokens, are not read twice.
        """
        standard = self.task == "standard"
        named = f"dyck3/{VERSION}/{self.seed}/{self.draw}"
        digest = hashlib.sha256((named if standard else f"{named}/{self.task}").encode())
        heads = [head for head in HEADS if not (standard and head == "copy")]
        for samples in ranges:
            block = self.sample(samples.head(256))
            digest.update(f"{samples.split}/{samples.start}/{samples.stop}".encode())
            for array in (block.ids, *(block.targets[head] for head in heads)):
                digest.update(array.astype("<i8").tobytes())
        return digest.hexdigest()

    def _words(self, first: int, count: int) -> NDArray[np.uint64]:
        """Random words, [count, 64]; row i depends on (seed, draw, first + i) alone."""
        stream = np.random.SeedSequence([self.seed, DRAWS.index(self.draw), VERSION])
        key = stream.generate_state(2, np.uint64)
        counter = np.array([first * (_WORDS // _WORDS_PER_COUNTER), 0, 0, 0], np.uint64)
        words = np.random.Philox(counter=counter, key=key).random_raw(count * _WORDS)
        return np.asarray(words, dtype=np.uint64).reshape(count, _WORDS)

    def _chunk(self, first: int, count: int) -> tuple[NDArray[np.uint8], ...]:
        """Tokens, then the labels of every head, of `count` samples, each [count, 64]."""
        words = self._words(first, count)
        content, length = (
            _nests(words) if self.draw == "compositional" else _walks(words, self.draw)
        )
        ids = np.zeros((count, POSITIONS), np.uint8)
        ids[:, 0] = BOS
        columns = np.arange(MAX_LENGTH)
        ids[:, 1:-1] = np.where(columns < length[:, None], content, PAD)
        ids[np.arange(count), length + 1] = EOS
        return ids, *_LABELLERS[self.task](ids)


def _uniform(words: NDArray[np.uint64], *, shift: int, sides: int) -> NDArray[np.int64]:
    """Uniform integers below `sides` from 20 bits at `shift` (bias below sides / 2**20)."""
    bits = (words >> np.uint64(shift)) & np.uint64(0xFFFFF)
    return ((bits * np.uint64(sides)) >> np.uint64(20)).astype(np.int64)


def _walks(words: NDArray[np.uint64], draw: Draw) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Content tokens [samples, 62] and lengths [samples] of the standard and long draws."""
    shortest, longest = (50, 60) if draw == "long" else (2, MAX_LENGTH)
    length = shortest + _uniform(words[:, 62], shift=0, sides=longest - shortest + 1)
    walking = (words[:, 63] >> np.uint64(63)) == 0
    body = np.ascontiguousarray(words[:, :MAX_LENGTH].T)
    opens = (body >> np.uint64(40)) < np.uint64(round(_OPEN * (1 << 24)))
    family = _uniform(body, shift=0, sides=FAMILIES).astype(np.uint32)
    loose = (FIRST_BRACKET + _uniform(body, shift=20, sides=2 * FAMILIES)).astype(np.uint8)
    content = np.empty((MAX_LENGTH, len(words)), np.uint8)
    depth = np.zeros(len(words), np.int32)
    stack = np.zeros(len(words), np.uint32)  # two bits a family, the top in the lowest
    for column in range(MAX_LENGTH):
        push = (opens[column] & (depth < MAX_DEPTH)) | (depth == 0)
        token = np.where(push, 2 * family[column], 2 * (stack & 3) + 1) + FIRST_BRACKET
        content[column] = np.where(walking, token, loose[column])
        stack = np.where(push, (stack << 2) | family[column], stack >> 2).astype(np.uint32)
        depth += np.where(push, 1, -1)
    return np.ascontiguousarray(content.T), length


def _nests(words: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Content tokens [samples, 62] and lengths [samples] of the compositional draw."""
    nest = 3 + _uniform(words[:, 62], shift=0, sides=MAX_DEPTH - 2)
    spare = MAX_LENGTH // 2 - nest
    pairs = (_uniform(words[:, 62], shift=20, sides=1 << 20) * (spare + 1)) >> 20
    before = (_uniform(words[:, 63], shift=0, sides=1 << 20) * (pairs + 1)) >> 20
    family = _uniform(words[:, 63], shift=20, sides=FAMILIES)[:, None]
    column = np.arange(MAX_LENGTH)[None, :]
    inside = column - 2 * before[:, None]
    in_nest = (inside >= 0) & (inside < 2 * nest[:, None])
    pair_family = np.repeat(_uniform(words[:, 0:MAX_LENGTH:2], shift=0, sides=FAMILIES), 2, axis=1)
    closes = np.where(in_nest, inside >= nest[:, None], column % 2 == 1)
    token = FIRST_BRACKET + 2 * np.where(in_nest, family, pair_family) + closes
    return token.astype(np.uint8), 2 * (nest + pairs)


def _standard(ids: NDArray[np.uint8]) -> _Labels:
    """Labels of the standard task, each [samples, positions]; zero on padding."""
    columns = np.ascontiguousarray(ids.T)
    depths = np.zeros_like(columns)
    valids = np.zeros_like(columns)
    depth = np.zeros(len(ids), np.uint8)
    broken = np.zeros(len(ids), bool)
    stack = np.zeros(len(ids), np.uint32)
    for column, token in enumerate(columns):
        bracket = token >= FIRST_BRACKET
        code = (token - FIRST_BRACKET).astype(np.uint32)
        opener, family = bracket & (code % 2 == 0), code >> 1
        closer = bracket & ~opener
        broken |= (opener & (depth == MAX_DEPTH)) | (
            closer & ((depth == 0) | ((stack & 3) != family))
        )
        push, pop = opener & ~broken, closer & ~broken
        stack = np.where(push, (stack << 2) | family, np.where(pop, stack >> 2, stack))
        depth += push.astype(np.uint8)
        depth -= pop.astype(np.uint8)
        real = token != PAD
        depths[column] = np.where(real, depth, 0)
        valids[column] = broken & real
    return ids, np.ascontiguousarray(depths.T), np.ascontiguousarray(valids.T)


def _tally(ids: NDArray[np.uint8]) -> _Labels:
    """Labels of the tally task, each [samples, positions]; zero on padding."""
    real = (ids != PAD).astype(np.uint8)
    before = np.concatenate([ids[:, :1], ids[:, :-1]], axis=1)
    first, second, third = (
        np.cumsum(ids == FIRST_BRACKET + 2 * family, axis=1, dtype=np.uint8)
        for family in range(FAMILIES)
    )
    return before * real, np.minimum(first, MAX_DEPTH) * real, (second > third) * real


_LABELLERS: Mapping[Task, Callable[[NDArray[np.uint8]], _Labels]] = {
    "standard": _standard,
    "tally": _tally,
}
