"""Effects of a model's components on its outputs: predicted along a path, measured by an edit.

Everything is an effect on the log-probability of the right output, at every position and output
head, when the output of a component is moved from its own value to another one (a `Target`):

    moved       f(target) - f(own), by the edit itself
    path        the integral of the derivative along the straight path (`paths.integrated`)
    slope       the derivative at its own value (`paths.slope`)
    cumulative  f(target of the first k) - f(target of the first k - 1), in a given order

Sums run over the positions of a class (thirds of the context) for every block, component and head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.bars import paths
from harness.bars.catalogue import CLASSES
from harness.corpora.block import Block
from harness.runners.measure import BlockSums, View
from harness.streams import generator
from harness.subjects.loss import surprisals
from harness.subjects.subject import Subject
from harness.subjects.tap import Edit

Array = NDArray[np.float64]

_ROWS = 16
"""Sequences that run together, of similar length: what is padding for all of them is cut off."""


class Chunk(NamedTuple):
    """Some sequences of a batch, cut to the longest of them."""

    block: Block
    own: Mapping[str, Tensor]
    """Output of every component, [b, t, d]."""
    partner: Mapping[str, Tensor]
    """The same of the sequence that each is paired with; its own where that one has ended."""
    said: Tensor
    """Log-probability of the right output, [b, t, heads], nothing moved."""


Target = Callable[[Chunk, str], Tensor]
"""What the output of a component is moved to, [b, t, d]."""


def of_partner(chunk: Chunk, component: str) -> Tensor:
    """The output of the component on the paired sequence."""
    return chunk.partner[component]


@dataclass(frozen=True, eq=False)
class OfMean:
    """The mean output of each component, [d]."""

    means: Mapping[str, Tensor]

    def __call__(self, chunk: Chunk, component: str) -> Tensor:
        """That mean, at every position."""
        own = chunk.own[component]
        return self.means[component].to(own).expand_as(own)


@dataclass(frozen=True, eq=False)
class Question:
    """One effect that is read of every component."""

    kind: Literal["moved", "path", "slope", "cumulative"]
    target: Target
    steps: int = 0
    """Steps of the path."""
    order: tuple[str, ...] = ()
    """Components in the order in which a cumulative set grows."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Sums of effects, and the number of positions that they are over."""

    components: tuple[str, ...]
    heads: tuple[str, ...]
    sums: Array
    """[blocks, components, classes, heads]"""
    weight: Array
    """Positions.  # [blocks, classes]"""

    def means(self) -> Array:
        """Mean effect of a position, over all blocks; NaN where a class has none.

        Returns:
            [components, classes, heads]
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums.sum(0) / self.weight.sum(0)[None, :, None])

    def totals(self) -> Array:
        """Mean effect of a position on the mean over heads, [components]."""
        return np.asarray(self.sums.sum((0, 2)).mean(-1) / self.weight.sum())


Pairs = Callable[[Tensor, int], Tensor]
"""Lengths of the sequences of a block, [b], and its number, to the partner of each, [b]."""


def by_length(lengths: Tensor, _: int) -> Tensor:
    """The neighbour in order of length, so that few positions are without a counterpart.

    Mutual in pairs; of an odd number the longest takes the one before it. Alone, it is its own.
    """
    order = torch.argsort(lengths, stable=True)
    rank = torch.arange(len(order), device=order.device)
    neighbour = torch.where(rank % 2 == 0, rank + 1, rank - 1)
    neighbour = torch.where(neighbour < len(order), neighbour, rank - 1).clamp_min(0)
    partner = torch.empty_like(order)
    partner[order] = order[neighbour]
    return partner


def at_random(seed: int) -> Pairs:
    """The next in a random cycle through the block, by the stream of its number."""

    def pairs(lengths: Tensor, number: int) -> Tensor:
        cycle = torch.from_numpy(generator(seed, "partners", number).permutation(len(lengths)))
        partner = torch.empty_like(cycle)
        partner[cycle] = cycle.roll(-1)
        return partner.to(lengths.device)

    return pairs


class EffectsMeter(BlockSums):
    """The effects that a model's components have, per block, class of positions and head."""

    def __init__(
        self,
        subject: Subject,
        questions: Mapping[str, Question],
        *,
        pairs: Pairs,
        blocks: int,
    ) -> None:
        self.subject, self.questions, self.pairs = subject, dict(questions), pairs
        self.components = subject.architecture.components
        self.heads = tuple(subject.architecture.heads)
        cells = [
            f"{name}/{component}/{kind}/{head}"
            for name in questions
            for component in self.components
            for kind in CLASSES
            for head in self.heads
        ]
        super().__init__(blocks=blocks, columns=(*cells, *CLASSES))

    def observe(self, view: View) -> None:
        """Adds one batch."""
        subject = self.subject.to(view.block.ids.device)
        partner = self._partners(view)
        found = subject.forward(view.block, capture=self.components).captured
        captured = {name: found[name] for name in self.components}  # they fire in another order
        for rows, chunk in _chunks(subject, view.block, partner, theirs=captured):
            counted = partner[rows] != rows  # without a partner there is nothing to move to
            mask = chunk.block.mask & counted[:, None]
            classes = _class_masks(mask, positions=view.block.ids.shape[1])
            effects = torch.stack(  # [questions, components, b, t, heads]
                [_answer(subject, chunk, question) for question in self.questions.values()]
            )
            sums = torch.einsum("qcbth,kbt->bqckh", effects, classes.double())
            row = torch.cat((sums.flatten(1), classes.sum(-1).T.double()), dim=1)
            self.add(view.sample_slots[rows], row)

    def _partners(self, view: View) -> Tensor:
        lengths = view.block.mask.sum(-1)
        partner = torch.empty_like(view.sample_slots)
        for slot in torch.unique(view.sample_slots).tolist():
            here = torch.nonzero(view.sample_slots == slot).flatten()
            partner[here] = here[self.pairs(lengths[here], view.first_block + int(slot))]
        return partner

    def effects(self) -> dict[str, Effects]:
        """What was found, by question."""
        table = self.sums.cpu().numpy()
        shape = (len(self.questions), len(self.components), len(CLASSES), len(self.heads))
        cells = table[:, : -len(CLASSES)].reshape(len(table), *shape)
        weight = table[:, -len(CLASSES) :].copy()
        return {
            name: Effects(self.components, self.heads, cells[:, number].copy(), weight)
            for number, name in enumerate(self.questions)
        }


class MeansMeter(BlockSums):
    """The mean output of every component of a model, over non-padding tokens."""

    def __init__(self, subject: Subject, *, blocks: int, width: int) -> None:
        self.subject = subject
        self.components, self.width = subject.architecture.components, width
        cells = [f"{component}/{i}" for component in self.components for i in range(width)]
        super().__init__(blocks=blocks, columns=(*cells, "tokens"))

    def observe(self, view: View) -> None:
        """Adds one batch."""
        subject = self.subject.to(view.block.ids.device)
        captured = subject.forward(view.block, capture=self.components).captured
        states = [captured[name][view.block.mask].double() for name in self.components]
        ones = torch.ones(len(states[0]), 1, dtype=torch.float64, device=states[0].device)
        self.add(view.slots, torch.cat((*states, ones), dim=1))

    def means(self) -> dict[str, Tensor]:
        """Mean output by component, [d] each, fp64."""
        sums = self.sums.sum(0)
        table = (sums[:-1] / sums[-1]).reshape(len(self.components), self.width)
        return dict(zip(self.components, table, strict=True))


def _answer(subject: Subject, chunk: Chunk, question: Question) -> Tensor:
    """The effect of every component, [components, b, t, heads]."""

    def outputs(edits: Mapping[str, Edit]) -> Tensor:
        return _said(subject.forward(chunk.block, edits=edits).logits, chunk.block)

    def target(component: str) -> Tensor:
        return question.target(chunk, component)

    def along(component: str) -> Tensor:
        own, end = chunk.own[component], target(component)

        def at(state: Tensor) -> Tensor:
            return outputs({component: lambda _: state})

        if question.kind == "slope":
            return paths.slope(at, own, end)
        return paths.integrated(at, own, end, steps=question.steps)

    if question.kind in ("path", "slope"):
        return torch.stack([along(component) for component in chunk.own])
    before = chunk.said
    if question.kind == "moved":
        return torch.stack([outputs(_edit({c: target(c)})) - before for c in chunk.own])
    found: dict[str, Tensor] = {}
    moved: dict[str, Tensor] = {}
    for component in question.order:
        moved[component] = target(component)
        after = outputs(_edit(moved))
        found[component], before = after - before, after
    return torch.stack([found[component] for component in chunk.own])


def _edit(states: Mapping[str, Tensor]) -> dict[str, Edit]:
    """Edits that put these states in the place of what components would give."""

    def put(state: Tensor) -> Edit:
        return lambda _: state

    return {component: put(state) for component, state in states.items()}


def _said(logits: Mapping[str, Tensor], block: Block) -> Tensor:
    """Log-probability of the right output, [b, t, heads] in nats, fp64."""
    return -torch.stack(list(surprisals(logits, block.targets).values()), dim=-1)


def _chunks(
    subject: Subject, block: Block, partner: Tensor, *, theirs: Mapping[str, Tensor]
) -> Iterator[tuple[Tensor, Chunk]]:
    """The batch in order of length, a few sequences at a time, cut to the longest of each.

    What a sequence says and gives of its own is read after the cut: a matrix product of another
    shape rounds otherwise, and a component that stays where it is has no effect at all.
    """
    lengths = block.mask.sum(-1)
    for rows in torch.split(torch.argsort(lengths, stable=True), _ROWS):
        longest = int(block.mask[rows].any(0).nonzero().max()) + 1
        cut = Block(
            ids=block.ids[rows, :longest],
            mask=block.mask[rows, :longest],
            sample_ids=block.sample_ids[rows],
            targets={head: values[rows, :longest] for head, values in block.targets.items()},
        )
        out = subject.forward(cut, capture=tuple(theirs))
        there = block.mask[partner[rows], :longest].unsqueeze(-1)
        replaced = {
            name: torch.where(there, states[partner[rows], :longest], out.captured[name])
            for name, states in theirs.items()
        }
        own = {name: out.captured[name] for name in theirs}
        yield rows, Chunk(cut, own, replaced, _said(out.logits, cut))


def _class_masks(mask: Tensor, *, positions: int) -> Tensor:
    """Which judged positions belong to each class, [classes, b, t]."""
    place = torch.arange(mask.shape[1], device=mask.device) * len(CLASSES) // positions
    return torch.stack([mask & (place == number) for number in range(len(CLASSES))])
