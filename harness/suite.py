"""The contract between the harness and a suite, and how suites are found (no torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from typing import Any

from prereg.errors import InputError
from prereg.near import nearest
from prereg.record import Record
from prereg.resolved import ControlSpec, FigureSpec, StatisticSpec

GROUP = "prebench.suites"


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

    def warnings(self) -> tuple[str, ...]:
        """What `check` should say about settings that are allowed and unusual."""
        return ()

    def parameters(self, statistic: str) -> Mapping[str, float]:
        """Frozen constants of a statistic's estimator."""
        return {}


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
