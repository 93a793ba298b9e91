"""Training dictionaries: several sites and recipes on the shared states of one subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from pydantic import Field
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from harness.corpora.block import SampleRange
from harness.corpora.catalogue import Corpus
from harness.runners.trainer import make_trainer, set_threads
from harness.sae.activations import ShuffledStates, Source, States, subject_states
from harness.sae.dictionary import Dictionary
from harness.sae.learner import Learner
from harness.sae.recipe import DictionaryRecipe, Feed
from harness.subjects.subject import Subject
from prereg.errors import InputError
from prereg.record import Record

Key = tuple[str, str]
"""Site and variant."""

_PARTS = 20  # points of the loss curve; features are counted during the last of these parts


class TrainingFacts(Record):
    """What a dictionary's training came to; L0 and live features are of its last twentieth."""

    steps: int = Field(description="Optimiser steps.")
    tokens: int = Field(description="Tokens seen, repeats included.")
    losses: tuple[float, ...] = Field(
        description="Mean loss of equal parts of the steps, d at EV 0."
    )
    l0: float = Field(description="Mean number of active features of a token.")
    live_fraction: float = Field(description="Share of the features that were ever active.")


class Trained(NamedTuple):
    """A dictionary and the facts of its training."""

    dictionary: Dictionary
    facts: TrainingFacts


class _First(IterableDataset[States]):
    """The first batches of a stream that may be endless."""

    def __init__(self, batches: Iterable[States], count: int) -> None:
        self.batches, self.count = batches, count

    def __iter__(self) -> Iterator[States]:
        return islice(iter(self.batches), self.count)


class TrainDictionaries(LightningModule):
    """One optimiser step of every dictionary on every batch of shared states."""

    def __init__(self, learners: Mapping[Key, Learner]) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.learners = dict(learners)
        self.registered = nn.ModuleList(learners.values())  # moves them between devices
        self.losses: dict[Key, list[Tensor]] = {key: [] for key in learners}
        self.firings: dict[Key, Tensor] = {}

    def training_step(self, batch: States, index: int) -> None:
        """Batch number `index`, the same tokens for all."""
        for (key, learner), optimiser in zip(
            self.learners.items(), self._optimisers(), strict=True
        ):
            recipe = learner.recipe
            if index >= recipe.steps:
                continue
            rate = recipe.optimiser.rate(index, steps=recipe.steps)
            for group in optimiser.param_groups:
                group["lr"] = recipe.optimiser.lr * rate
            loss, firings = learner.loss(batch[key[0]] * learner.scale)
            optimiser.zero_grad()
            self.manual_backward(loss)
            nn.utils.clip_grad_norm_(learner.parameters(), recipe.optimiser.clip_norm)
            optimiser.step()
            self.losses[key].append(loss.detach())
            if index >= recipe.steps - _last_part(recipe):
                self.firings[key] = self.firings.get(key, 0) + firings

    def configure_optimizers(self) -> Any:
        """One Adam for each dictionary; rates are set before every step."""
        return [
            torch.optim.Adam(
                learner.parameters(),
                lr=learner.recipe.optimiser.lr,
                betas=learner.recipe.optimiser.betas,
                fused=True,
            )
            for learner in self.learners.values()
        ]

    def trained(self) -> dict[Key, Trained]:
        """The dictionaries, after training."""
        return {
            key: Trained(learner.dictionary(), self._facts(key, learner.recipe))
            for key, learner in self.learners.items()
        }

    def _optimisers(self) -> list[Any]:
        optimisers = self.optimizers()
        return optimisers if isinstance(optimisers, list) else [optimisers]

    def _facts(self, key: Key, recipe: DictionaryRecipe) -> TrainingFacts:
        losses = torch.stack(self.losses[key]).double().cpu()
        counted = _last_part(recipe) * recipe.feed.batch_tokens
        firings = self.firings[key]
        return TrainingFacts(
            steps=recipe.steps,
            tokens=recipe.steps * recipe.feed.batch_tokens,
            losses=tuple(
                float(part.mean()) for part in losses.tensor_split(min(_PARTS, len(losses)))
            ),
            l0=float(firings.sum()) / counted,
            live_fraction=float((firings > 0).double().mean()),
        )


def train_dictionaries(
    subject: Subject,
    recipes: Mapping[str, DictionaryRecipe],
    *,
    sites: Sequence[str],
    corpus: Corpus,
    samples: SampleRange,
    **trainer_options: Any,
) -> dict[Key, Trained]:
    """A dictionary for every site and variant, by (site, variant).

    The subject runs once over each batch of samples, whatever the number of dictionaries; a
    dictionary does not depend on which others are trained beside it. On one device only.

    Args:
        subject: whose states.
        recipes: by variant; their feeds are equal.
        sites: where.
        corpus: draws the samples.
        samples: read over and over until the steps are done.
        trainer_options: the Lightning Trainer's own.

    Raises:
        InputError: feeds that differ, more than one device, or training that diverged.
        UndefinedError: states that do not vary.
    """
    source = subject_states(subject, corpus=corpus, samples=samples, sites=sites)
    return train_on(source, recipes, **trainer_options)


def train_on(
    source: Source, recipes: Mapping[str, DictionaryRecipe], **trainer_options: Any
) -> dict[Key, Trained]:
    """As `train_dictionaries`, on states from any source, at all of its sites."""
    set_threads()
    batches = ShuffledStates(source, _shared_feed(recipes))
    module = TrainDictionaries(
        {
            (site, variant): Learner(recipe, normalisation, site=site)
            for site, normalisation in batches.normalisations().items()
            for variant, recipe in recipes.items()
        }
    )
    fit(module, batches, **trainer_options)
    return module.trained()


def fit(module: TrainDictionaries, batches: Iterable[States], **trainer_options: Any) -> None:
    """Runs every learner of the module through its steps; batch i is step i of each."""
    trainer = make_trainer(max_epochs=1, **trainer_options)
    if trainer.world_size > 1:
        raise InputError(
            f"{trainer.world_size} devices for training dictionaries",
            expected="one device",
            fix="train with `devices: 1`, and spread sites or seeds over processes",
            code="dictionary.devices",
        )
    steps = max(learner.recipe.steps for learner in module.learners.values())
    # The loader draws a seed that nobody reads; its own generator keeps it off the global one.
    loader = DataLoader(
        _First(batches, steps), batch_size=None, generator=torch.Generator().manual_seed(0)
    )
    trainer.fit(module, loader)


def _shared_feed(recipes: Mapping[str, DictionaryRecipe]) -> Feed:
    feeds = {recipe.feed for recipe in recipes.values()}
    if len(feeds) != 1:
        raise InputError(
            f"recipes with {len(feeds)} different feeds",
            expected="one feed, because dictionaries trained in one pass share their batches",
            fix="give all recipes one `feed`, or train them one after another",
            code="dictionary.feeds",
        )
    return feeds.pop()


def _last_part(recipe: DictionaryRecipe) -> int:
    """Steps at the end of training during which active features are counted."""
    return -(-recipe.steps // _PARTS)
