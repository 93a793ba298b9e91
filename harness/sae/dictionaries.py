"""The dictionaries of a registration: one subject's, trained when they are first read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from harness.corpora.block import SampleRange
from harness.corpora.catalogue import Corpus
from harness.sae.recipe import DictionaryRecipe
from harness.sae.train import Key, Trained, train_dictionaries
from harness.subjects.subject import Subject


class Dictionaries:
    """A dictionary for every site and variant, all trained in one pass, once.

    Nothing is trained before the first one is asked for, so a resumed attempt that measures nothing
    new trains nothing.

    Args:
        subject: whose states they describe.
        recipes: how each variant is trained, by its name.
        sites: where.
        corpus: draws the samples.
        samples: the split that nothing else reads.
        trainer_options: the Lightning Trainer's own.
    """

    def __init__(
        self,
        subject: Subject,
        recipes: Mapping[str, DictionaryRecipe],
        *,
        sites: Sequence[str],
        corpus: Corpus,
        samples: SampleRange,
        trainer_options: Mapping[str, Any],
    ) -> None:
        self.subject, self.recipes, self.sites = subject, dict(recipes), tuple(sites)
        self.corpus, self.samples = corpus, samples
        self.trainer_options = dict(trainer_options)

    @cached_property
    def trained(self) -> Mapping[Key, Trained]:
        """Every dictionary with the facts of its training, by (site, variant)."""
        return train_dictionaries(
            self.subject,
            self.recipes,
            sites=self.sites,
            corpus=self.corpus,
            samples=self.samples,
            **self.trainer_options,
        )

    def facts(self) -> dict[str, Any]:
        """What training came to, by `site/variant`; empty where nothing was trained."""
        if "trained" not in self.__dict__:
            return {}
        return {
            f"{site}/{variant}": found.facts.model_dump(mode="json")
            for (site, variant), found in self.trained.items()
        }
