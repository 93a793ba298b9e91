"""The contract between the harness and a suite, and how suites are found (no torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from typing import Any

from harness.sae.recipe import DictionaryRecipe
from prereg.errors import InputError
from prereg.near import nearest
from prereg.record import Record
from prereg.registration import Bar, Claim
from prereg.resolved import ControlSpec, FigureSpec, StatisticSpec

GROUP = "prebench.suites"


@dataclass(frozen=True)
class Scope:
    """What a registration's models and samples have to offer to a statistic."""

    components: tuple[str, ...]
    """Components of the reference."""
    outputs: tuple[str, ...]
    """Output heads of the reference."""
    draws: tuple[str, ...]
    """Distributions that the corpus can draw from."""
    splits: Mapping[str, int]
    """Samples in each split."""
    block: int
    """Samples in a block."""


class Plan(Record):
    """Base of every suite's plan: the settings that a registration freezes."""

    @property
    def all_sites(self) -> tuple[str, ...]:
        """Every site that is measured."""
        raise NotImplementedError

    @property
    def draws(self) -> int:
        """Draws of each random control."""
        raise NotImplementedError

    @property
    def site_space(self) -> str | None:
        """The one space in which the plan's sites must lie, if there is one."""
        return None

    def fit_tokens(self, width: int) -> int:
        """Smallest number of fit tokens on which the plan's maps are worth judging, for a width."""
        return 0

    def check(self, splits: Mapping[str, int]) -> None:
        """Refuses what does not fit the registered number of samples in each split."""

    def check_claim(self, name: str, claim: Bar | Claim, *, width: int) -> None:
        """Refuses a claim that could not mean what it says, on models of this residual width."""

    def warnings(self) -> tuple[str, ...]:
        """What `check` should say about settings that are allowed and unusual."""
        return ()

    def frozen(self, entry: StatisticSpec, scope: Scope) -> StatisticSpec | None:
        """The catalogue entry with constants and arms filled in; none if it is not measured."""
        return entry

    @property
    def explores(self) -> bool:
        """Whether statistics that nothing is claimed about are measured, too."""
        return True

    def explored(self, statistic: str) -> bool:
        """Whether this one is, if nothing is claimed about it."""
        return self.explores

    def recipes(self) -> Mapping[str, DictionaryRecipe]:
        """Dictionaries that are trained on the reference's states at every site, by name."""
        return {}


Wanted = frozenset[tuple[str, str | None]]
"""Statistics and arms to measure."""


@dataclass(frozen=True)
class Job:
    """The claims' own case or a control: how often, and what of it."""

    name: str
    draws: int | None
    """Draws of a random control; none for a case that is measured once."""
    wanted: Wanted


@dataclass(frozen=True)
class Workload:
    """What an attempt measures."""

    jobs: tuple[Job, ...]
    pairs: int
    splits: Mapping[str, int]
    """Samples in each split."""
    tokens: float
    """Mean number of judged positions in a sample."""
    width: int
    """Width of the residual stream."""
    parameters: int
    """Trained and fixed numbers of the reference."""
    positions: int
    """Positions of a sample, padding included."""
    components: int
    """Components whose output can be edited."""


@dataclass(frozen=True)
class Suite:
    """A suite: what can be claimed, how it is controlled, and what measures it.

    `measure` and `make_control` are written as `package.module:function`, because only what they
    name may import torch.
    """

    name: str
    version: int
    title: str
    package: str
    plan: type[Plan]
    catalogue: tuple[StatisticSpec, ...]
    controls: tuple[ControlSpec, ...]
    figures: tuple[FigureSpec, ...]
    modes: tuple[str, ...]
    required_splits: tuple[str, ...]
    measure: str
    make_control: str
    seconds: Callable[[Any, Workload], float] | None = None
    """Run time of a plan and its workload on one core, to a factor of two; none if not known."""

    @property
    def statistics(self) -> dict[str, StatisticSpec]:
        """The catalogue by id."""
        return {entry.id: entry for entry in self.catalogue}

    @property
    def hypotheses(self) -> dict[str, Traversable]:
        """The shipped hypothesis files, by name without suffix."""
        folder = resources.files(self.package) / "hypotheses"
        return {
            entry.name.removesuffix(".yaml"): entry
            for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
            if entry.name.endswith(".yaml")
        }


@cache
def suites() -> dict[str, Suite]:
    """Every installed suite, by name."""
    return {entry.name: entry.load() for entry in entry_points(group=GROUP)}


def suite(name: str) -> Suite:
    """The installed suite of that name.

    Raises:
        InputError: where there is none.
    """
    known = suites()
    if name not in known:
        raise InputError(
            f"no suite {name!r}",
            expected=f"an installed suite ({', '.join(sorted(known))})",
            fix=nearest(name, known),
            code="suite.unknown",
        )
    return known[name]


def load_callable(written: str) -> Callable[..., Any]:
    """The function that `package.module:function` names."""
    from importlib import import_module

    module, _, function = written.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
