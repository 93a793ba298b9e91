"""Two models' weights brought onto one another, once for all statistics that ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from harness.bars import parametric
from harness.bars.settings import BarsPlan
from harness.case import Case
from harness.gauge import fit
from harness.gauge.fit import Moments
from harness.measured import Context
from harness.runners.measure import run_pass
from harness.runners.moments import MomentsMeter
from harness.streams import generator
from harness.subjects.architecture import RESIDUAL, Architecture

T = TypeVar("T")


def once(context: Context, key: Hashable, compute: Callable[[], T]) -> T:
    """The result of `compute`, which is called once an attempt for each key."""
    if key not in context.memory:
        context.memory[key] = compute()
    found: T = context.memory[key]
    return found


def sites(architecture: Architecture) -> tuple[str, ...]:
    """Two sites of the residual stream whose states suggest rotations: half-way, and the last."""
    spaces = architecture.site_spaces
    stream = [n for n in architecture.sites if spaces[n] == RESIDUAL and ".hook_resid_" in n]
    return tuple(dict.fromkeys((stream[len(stream) // 2], stream[-1])))


@dataclass(frozen=True, eq=False)
class Aligned:
    """The alignment of one case's models that the plan asks for."""

    case: Case
    context: Context

    @property
    def _plan(self) -> BarsPlan:
        plan: BarsPlan = self.context.plan
        return plan

    def moments(self) -> dict[str, Moments]:
        """Moments of both models' states at the two `sites`, on the fit samples."""
        case = self.case
        plain = Case(case.reference, case.other, case.samples)
        names = sites(case.reference.architecture)

        def compute() -> dict[str, Moments]:
            width = case.reference.architecture.size(RESIDUAL)
            meter = MomentsMeter(plain, sites=names, width=width)
            run_pass(
                [meter],
                corpus=self.context.corpus,
                samples=case.samples.fit,
                block_size=self.context.block_size,
                capture=names,
                trainer_options=dict(self.context.trainer_options),
            )
            return {site: meter.moments(site) for site in names}

        return once(
            self.context, ("moments", case.reference, case.other, case.samples.fit), compute
        )

    def weights(self) -> parametric.Found:
        """The other model's weights on the reference's, over the registered group.

        Raises:
            UndefinedError: a tensor of the reference is zero.
        """
        case, search = self.case, self._plan.parametric

        def compute() -> parametric.Found:
            full = search.alignment == "full"
            return parametric.weight_error(
                case.reference,
                case.other,
                alignment=search.alignment,
                starts=search.starts,
                seed=self.context.seed,
                hints=[fit.procrustes(one).R for one in self.moments().values()] if full else (),
            )

        return once(self.context, ("weights", case.reference, case.other), compute)

    def labels(self) -> tuple[int, ...]:
        """For each component of the reference, the other's that the case takes for it.

        Raises:
            UndefinedError: the weights cannot be aligned.
        """
        own, choice = self.own_labels(), self.case.components
        if choice.rule == "shuffled":
            drawn = generator(choice.seed, "components").permutation(len(own))
            return tuple(own[number] for number in drawn)
        return own

    def own_labels(self) -> tuple[int, ...]:
        """For each component of the reference, the number of the other's that stands for it.

        Raises:
            UndefinedError: the weights cannot be aligned.
        """
        components = self.case.reference.architecture.components
        if self._plan.parametric.alignment != "full":
            return tuple(range(len(components)))
        names = self.weights().components(self.case.reference.architecture)
        return tuple(components.index(names[component]) for component in components)
