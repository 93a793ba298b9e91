"""The settings of a rotation registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.bars.catalogue import BARS, KL
from harness.bars.settings import BarsPlan
from harness.sae.recipe import DictionaryRecipe
from harness.subjects.architecture import RESIDUAL
from harness.suite import Scope
from prereg.errors import InputError
from prereg.record import Record
from prereg.registration import Bar, Claim, Label
from prereg.resolved import StatisticSpec
from suites.rotation.catalogue.dictionary import DICTIONARY

SPARSEST = 4
"""A dictionary with more than d / 4 active features a token is no sparse description."""

_DICTIONARY = frozenset(entry.id for entry in DICTIONARY)


class RandomControls(Record):
    """Size of the random controls."""

    draws: int = Field(32, ge=32, le=10_000, description="Draws of each random control.")
    sequences: int = Field(
        128, ge=128, description="Sequences that one draw is fitted and read on."
    )


class RotationPlan(BarsPlan):
    """What the rotation suite measures, and where."""

    sites: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="Sites of the residual stream."
    )
    alignment: Literal["rotation"] = Field(
        "rotation", description="Group that the map between the models is fitted in: O(d)."
    )
    dictionaries: dict[Label, DictionaryRecipe] = Field(
        default={},
        description="Dictionaries trained on the reference, by the name that is their arm.",
    )
    explore: Literal["all", "claimed"] = Field(
        "all", description="Whether what nothing is claimed about is measured and shown, too."
    )
    random_controls: RandomControls = Field(
        RandomControls(), description="Size of the random controls."
    )

    @model_validator(mode="after")
    def _one_feed(self) -> RotationPlan:
        if len({recipe.feed for recipe in self.dictionaries.values()}) > 1:
            raise ValueError("`dictionaries` with different `feed`: they are trained in one pass")
        return self

    @model_validator(mode="after")
    def _each_site_once(self) -> RotationPlan:
        if len(set(self.sites)) != len(self.sites):
            raise ValueError("`sites` names a site twice")
        return self

    @property
    def all_sites(self) -> tuple[str, ...]:
        """Every site that is measured."""
        return self.sites

    @property
    def draws(self) -> int:
        """Draws of each random control."""
        return self.random_controls.draws

    @property
    def site_space(self) -> str:
        """Rotations act on states of the residual stream."""
        return RESIDUAL

    def fit_tokens(self, width: int) -> int:
        """64 tokens for each of the d dimensions.

        With fewer the fitted rotation is noise, and a claim that the models differ would be won by
        fitting badly: the controls, where the map is exact, do not show it.
        """
        return 64 * width

    def check(self, splits: Mapping[str, int]) -> None:
        """Every split that is read must be there, and as large as the random controls read it.

        Raises:
            InputError: a split is missing, or has fewer sequences.
        """
        if self.dictionaries and "dictionary" not in splits:
            raise InputError(
                "plan.dictionaries, and corpus.splits without dictionary",
                expected="a split for training them, which nothing else reads",
                fix="add `dictionary: 8192` under corpus.splits",
                code="registration.missing-split",
            )
        for split in ("fit", "evaluate"):
            if splits[split] < self.random_controls.sequences:
                raise InputError(
                    f"plan.random_controls.sequences: {self.random_controls.sequences}, with "
                    f"{splits[split]} samples in the split {split}",
                    expected="no more sequences than either split has",
                    fix=f"set corpus.splits.{split} to {self.random_controls.sequences} or more",
                    code="registration.too-many-control-sequences",
                )

    def check_claim(self, name: str, claim: Bar | Claim, *, width: int) -> None:
        """A claim that features carry over needs a dictionary that is sparse.

        Raises:
            InputError: a `same` claim on a TopK dictionary with more than d / 4 active features.
        """
        if claim.statistic not in _DICTIONARY or claim.kind != "same" or claim.arm is None:
            return
        k = self.dictionaries[claim.arm].k
        if k is not None and k > width / SPARSEST:
            raise InputError(
                f"{name}: the dictionary {claim.arm} has {k} active features in {width} dimensions",
                expected=f"at most {width // SPARSEST} (d / {SPARSEST}): denser codes reconstruct "
                "any state, and a claim about features would say nothing",
                fix=f"set plan.dictionaries.{claim.arm}.k to {width // SPARSEST} or less",
                code="registration.dense-dictionary",
            )

    def warnings(self) -> tuple[str, ...]:
        """A tail that makes bar B easier than by default; dictionaries of unknown density."""
        return self.bar_warnings() + tuple(
            f"dictionary {name}: how many features are active is known only after training; "
            "the control pca-k gets as many components"
            for name, recipe in self.dictionaries.items()
            if recipe.k is None
        )

    def frozen(self, entry: StatisticSpec, scope: Scope) -> StatisticSpec | None:
        """A bar as the bars freeze it; a statistic of dictionaries with their names as arms."""
        if entry.id not in _DICTIONARY:
            return super().frozen(entry, scope)
        names = tuple(sorted(self.dictionaries))  # frozen data does not keep the order of keys
        if not names:
            return None
        field = "arms" if entry.roles else "shown_arms"
        return entry.model_copy(update={field: names})

    def recipes(self) -> Mapping[str, DictionaryRecipe]:
        """Dictionaries that are trained on the reference's states at every site, by name."""
        return self.dictionaries

    @property
    def explores(self) -> bool:
        """Whether statistics that nothing is claimed about are measured, too."""
        return self.explore == "all"

    def explored(self, statistic: str) -> bool:
        """Whether this one is; of the bars that this suite is not about, only what is claimed."""
        return self.explores and (statistic == KL or not statistic.startswith(BARS))
