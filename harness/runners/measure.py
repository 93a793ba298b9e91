"""Measuring passes: one `Trainer.test` over the blocks of a range, feeding meters.

A meter is a torchmetrics.Metric whose states are fp64 sums over tokens, reduced over ranks by
addition; what the meters of a pass have in common (the forward passes) is computed once a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics import Metric

from harness.case import Case, Gaussian, Pairing
from harness.corpora.block import SampleRange
from harness.corpora.catalogue import Corpus
from harness.runners.blocks import Batch, BlockStream
from harness.runners.trainer import interruptible, make_trainer
from harness.streams import generator
from harness.subjects.subject import Out, Subject
from prereg.errors import InputError

T = TypeVar("T")


class View:
    """What cases see of one batch; what they have in common is computed once."""

    def __init__(self, batch: Batch, *, capture: Sequence[str], first_block: int) -> None:
        self.block = batch.block
        self.sample_slots = batch.slots
        self.slots = batch.slots[:, None].expand_as(self.block.mask)[self.block.mask]
        self.first_block = first_block
        self._capture = tuple(capture)
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`, which is called only where this batch has none under `key`."""
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    def out(self, subject: Subject) -> Out:
        """The subject's forward pass over the batch."""
        device = self.block.ids.device
        return self.once(
            ("out", id(subject)),
            lambda: subject.to(device).forward(self.block, capture=self._capture),
        )

    def states(self, case: Case, site: str) -> tuple[Tensor, Tensor]:
        """States of the other model and the reference, [tokens, d] fp64, paired as the case says.

        Only non-padding tokens; token i belongs to block `slots[i]`.
        """
        return self.other(case, site), self.reference(case, site)

    def reference(self, case: Case, site: str) -> Tensor:
        """States of the reference, [tokens, d] fp64."""
        return self._raw(case.reference, site)

    def other(self, case: Case, site: str) -> Tensor:
        """States of the other model, [tokens, d] fp64, paired as the case says."""
        gaussian = case.activations.gaussian
        other = self._raw(case.other, site) if gaussian is None else self._drawn(gaussian, site)
        if site in case.activations.offset:
            other = other + case.activations.offset[site].to(other)
        return other if case.pairing.kind == "same" else other[self._order(case.pairing)]

    def logits_from(self, subject: Subject, site: str, states: Tensor) -> Mapping[str, Tensor]:
        """Logits of the subject with these states at a site, its own ones at padding.

        Args:
            subject: whose later layers read them.
            site: a residual site of the captured ones.
            states: [tokens, d], as `states` orders them.
        """
        stream = self.out(subject).captured[site].clone()
        stream[self.block.mask] = states.to(stream)
        return subject.to(stream.device).resume(site, stream, self.block)

    def _raw(self, subject: Subject, site: str) -> Tensor:
        def states() -> Tensor:
            found = self.out(subject).captured[site][self.block.mask].double()
            if not bool(torch.isfinite(found).all()):
                raise InputError(
                    f"a state that is not finite at {site}",
                    expected="finite states on every sample",
                    fix="use a model whose activations stay in the range of its dtype",
                    code="subject.states-not-finite",
                )
            return found

        return self.once(("states", id(subject), site), states)

    def _drawn(self, gaussian: Gaussian, site: str) -> Tensor:
        """Gaussian states, each block by a stream of its own."""
        mean, factor = gaussian.mean[site], gaussian.factor[site]
        device = self.slots.device
        drawn = torch.empty(len(self.slots), len(mean), dtype=torch.float64, device=device)
        for slot in torch.unique(self.slots).tolist():
            here = self.slots == slot
            rng = generator(gaussian.seed, "gaussian", site, self.first_block + int(slot))
            z = rng.standard_normal((int(here.sum()), len(mean)))
            drawn[here] = torch.from_numpy(mean + z @ factor).to(device)
        return drawn

    def _order(self, pairing: Pairing) -> Tensor:
        """The other model's token that stands beside each of the reference's."""
        by_kind = {"shuffled": self._within_blocks, "tokpos-shuffled": self._within_equals}
        return self.once(pairing, lambda: by_kind[pairing.kind](pairing))

    def _within_blocks(self, pairing: Pairing) -> Tensor:
        """A permutation of the batch's tokens that moves none to another block."""
        order = torch.arange(len(self.slots), device=self.slots.device)
        for slot in torch.unique(self.slots).tolist():
            rng = generator(pairing.seed, "pairing", self.first_block + int(slot))
            places = torch.nonzero(self.slots == slot).flatten()
            order[places] = places[torch.from_numpy(rng.permutation(len(places))).to(places.device)]
        return order

    def _within_equals(self, pairing: Pairing) -> Tensor:
        """A permutation of the batch's tokens that keeps token and position, and no own state.

        Equal ones are put into a random cycle; a token without equals in the batch stays.
        """
        mask = self.block.mask
        position = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)[mask]
        kinds = torch.stack((self.block.ids[mask], position))
        _, kind = torch.unique(kinds, dim=1, return_inverse=True)
        first = self.first_block + int(self.slots[0])
        rng = generator(pairing.seed, "pairing", first)
        shuffle = torch.from_numpy(rng.permutation(len(kind))).to(kind.device)
        members = shuffle[torch.argsort(kind[shuffle], stable=True)]  # by kind, in random order
        counts = torch.bincount(kind)
        ends = counts.cumsum(0) - 1
        following = torch.arange(1, len(kind) + 1, device=kind.device)
        following[ends] -= counts  # the last of a kind is followed by its first
        order = torch.empty_like(members)
        order[members] = members[following]
        return order


class Meter(Metric):
    """Base of the meters: `observe` adds one batch to the states."""

    full_state_update = False

    def update(self, view: View) -> None:
        """Adds one batch."""
        self.observe(view)

    def observe(self, view: View) -> None:
        """Adds one batch to the states."""
        raise NotImplementedError

    def compute(self) -> None:
        """Meters are read through their states, once these are summed over ranks."""


class BlockSums(Meter):
    """Per-block sums, [blocks, columns]: 8 bytes a column and block, whatever the tokens."""

    sums: Tensor

    def __init__(self, *, blocks: int, columns: Sequence[str]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        zeros = torch.zeros(blocks, len(self.columns), dtype=torch.float64)
        self.add_state("sums", default=zeros, dist_reduce_fx="sum")

    def add(self, slots: Tensor, values: Tensor) -> None:
        """Adds rows `values`, [n, columns], to the blocks `slots`, [n]."""
        self.sums.index_add_(0, slots, values)

    def by_column(self) -> dict[str, NDArray[np.float64]]:
        """The sums as NumPy arrays, [blocks] each, by column."""
        table = self.sums.cpu().numpy()
        return {name: table[:, column] for column, name in enumerate(self.columns)}


class MeasuringPass(LightningModule):
    """Feeds every batch of a range to every meter."""

    def __init__(
        self,
        meters: Sequence[Meter],
        *,
        corpus: Corpus,
        samples: SampleRange,
        block_size: int,
        capture: Sequence[str],
    ) -> None:
        super().__init__()
        self.observers = tuple(meters)
        self.registered = nn.ModuleList(meters)  # moves the states between devices
        self.corpus, self.samples = corpus, samples
        self.block_size, self.capture = block_size, tuple(capture)

    def test_dataloader(self) -> DataLoader[Batch]:
        """This rank's batches."""
        stream = BlockStream(
            self.corpus,
            self.samples,
            size=self.block_size,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
        return DataLoader(stream, batch_size=None)

    def test_step(self, batch: Batch) -> None:
        """One batch through every meter."""
        first_block = self.samples.base // self.block_size
        view = View(batch, capture=self.capture, first_block=first_block)
        for meter in self.observers:
            meter.update(view)

    def on_test_epoch_end(self) -> None:
        """Sums the states over ranks, once."""
        for meter in self.observers:
            if self.trainer.world_size > 1:
                meter.sync()


def run_pass(
    meters: Sequence[Meter],
    *,
    corpus: Corpus,
    samples: SampleRange,
    block_size: int,
    capture: Sequence[str],
    trainer_options: dict[str, Any],
) -> None:
    """Streams a range of samples through the meters; their states then hold the sums."""
    module = MeasuringPass(
        meters, corpus=corpus, samples=samples, block_size=block_size, capture=capture
    )
    with interruptible():
        make_trainer(**trainer_options).test(module, verbose=False)
