"""Bars C and Pr of one case: which effects are needed, and what they come to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from harness.bars.agreement import FORMULAS, Agreement, completeness
from harness.bars.aligned import Aligned, once
from harness.bars.effects import (
    Effects,
    EffectsMeter,
    MeansMeter,
    OfMean,
    Pairs,
    Question,
    at_random,
    by_length,
    of_partner,
)
from harness.bars.settings import BarsPlan
from harness.case import Case
from harness.corpora.block import SampleRange
from harness.measured import Context, Measured
from harness.runners.blocks import block_count
from harness.runners.measure import Meter, run_pass
from harness.statistics.undefined import UndefinedError
from harness.streams import stream_seed
from harness.subjects.architecture import RESIDUAL
from harness.subjects.subject import Subject

Bar = Literal["causal", "predictive"]


@dataclass(frozen=True, eq=False)
class ComponentBars:
    """Predicted and measured effects of one case's components."""

    case: Case
    context: Context

    def measured(self, statistic: str, bar: Bar, which: str) -> Measured:
        """One statistic of bar C or Pr.

        Args:
            statistic: its id.
            bar: which of the two.
            which: what stands between the bar and the version in the id.
        """
        try:
            return self._measured(statistic, bar, which)
        except UndefinedError as error:
            return Measured(statistic, None, undefined=str(error))

    def _measured(self, statistic: str, bar: Bar, which: str) -> Measured:
        if which == "completeness":
            return Measured(statistic, None, value=self._completeness(bar))
        if which == "pearson.published":
            mean = {"mean": self._mean_ablated()}
            return self._agreement("predictive", mean, predictor="ig").pooled(statistic)
        measured = self._interventions(bar)
        intervention, _, rest = which.partition(".")
        if intervention in measured:
            measured, which = {intervention: measured[intervention]}, rest
        by_slope = which.startswith("ap.")
        found = self._agreement(bar, measured, predictor="ap" if by_slope else None)
        if which == "leverage":
            return found.leverage(statistic)
        if which == "labels":
            kinds = self.case.reference.architecture.component_kinds
            return found.labellings(statistic, kinds=kinds, seed=self.context.seed)
        formula = which.removeprefix("ap.")
        if formula not in FORMULAS:
            raise ValueError(f"expected a statistic of bar C or Pr, got {statistic!r}")
        return found.scalar(statistic, formula)

    @property
    def _plan(self) -> BarsPlan:
        plan: BarsPlan = self.context.plan
        return plan

    def _agreement(
        self,
        bar: Bar,
        measured: Mapping[str, Effects],
        *,
        predictor: Literal["ig", "ap"] | None = None,
    ) -> Agreement:
        chosen = predictor or self._plan.predictor.name
        return Agreement(
            predicted=self._on_spec(bar, chosen),
            measured=measured,
            labels=Aligned(self.case, self.context).labels(),
            # an ablation goes from the own output to the mean: what it costs is what falls away
            sign=1.0 if bar == "causal" else -1.0,
            incomplete=self._incomplete(bar) if chosen == "ig" else None,
        )

    def _completeness(self, bar: Bar) -> float:
        return completeness(self._on_spec(bar, "ig"), self._on_spec(bar, "moved"))

    def _incomplete(self, bar: Bar) -> str | None:
        limit, found = self._plan.predictor.completeness, self._completeness(bar)
        if found <= limit:
            return None
        return (
            f"the integrals on the spec miss the effects by {found:.2%} of the largest, "
            f"{limit:.2%} are allowed (plan.predictor.completeness): take more steps"
        )

    def _on_spec(self, bar: Bar, asked: Literal["ig", "ap", "moved"]) -> Effects:
        """A prediction on the spec, or what the integrals are to add up to."""
        reference = self.case.reference
        target = of_partner if bar == "causal" else OfMean(self._means(reference))
        question = {
            "ig": Question("path", target, steps=self._plan.predictor.steps),
            "ap": Question("slope", target),
            "moved": Question("moved", target),
        }[asked]
        return self._effects(("spec", asked), reference, bar, {asked: question})[asked]

    def _interventions(self, bar: Bar) -> dict[str, Effects]:
        """What is measured on the other model, by intervention."""
        other = self.case.other
        if bar == "causal":
            questions = {"patched": Question("moved", of_partner)}
            return self._effects(("patched",), other, bar, questions)
        order = self._order()
        questions = {
            "single": Question("moved", of_partner),
            "increment": Question("cumulative", of_partner, order=order),
        }
        return self._effects(("ablated", order), other, bar, questions)

    def _mean_ablated(self) -> Effects:
        """The effect of moving each component of the other model to its own mean."""
        other = self.case.other
        questions = {"mean": Question("moved", OfMean(self._means(other)))}
        return self._effects(("mean",), other, "predictive", questions)["mean"]

    def _order(self) -> tuple[str, ...]:
        """The other model's components, from the largest predicted loss to the smallest.

        As they are aligned, whatever a control says of their labels: it reads the same sets.
        """
        spec = self._on_spec("predictive", self._plan.predictor.name)
        labels = Aligned(self.case, self.context).own_labels()
        ranked = np.argsort(spec.totals(), kind="stable")  # the most negative effect comes first
        components = self.case.other.architecture.components
        return tuple(components[labels[number]] for number in ranked)

    def _means(self, subject: Subject) -> Mapping[str, Tensor]:
        """Mean output of every component of a model, on the fit samples."""
        samples = self.case.samples.fit

        def compute() -> Mapping[str, Tensor]:
            meter = MeansMeter(
                subject,
                blocks=block_count(samples, self.context.block_size),
                width=subject.architecture.size(RESIDUAL),
            )
            self._stream(meter, samples=samples)
            return meter.means()

        return once(self.context, ("means", subject, samples), compute)

    def _effects(
        self, key: tuple[Hashable, ...], subject: Subject, bar: Bar, asked: Mapping[str, Question]
    ) -> dict[str, Effects]:
        """The answers to some questions about a model, on the samples of a bar."""
        samples = self._samples(bar)
        seed = stream_seed(self.context.seed, "ablation")
        pairs: Pairs = by_length if bar == "causal" else at_random(seed)

        def compute() -> dict[str, Effects]:
            blocks = block_count(samples, self.context.block_size)
            meter = EffectsMeter(subject, asked, pairs=pairs, blocks=blocks)
            self._stream(meter, samples=samples)
            return meter.effects()

        return once(self.context, ("effects", bar, subject, samples, *key), compute)

    def _samples(self, bar: Bar) -> SampleRange:
        samples = self.case.samples
        found = samples.counterfactual if bar == "causal" else samples.ablation
        if found is None:
            raise ValueError(f"expected samples for the {bar} bar")
        return found

    def _stream(self, meter: Meter, *, samples: SampleRange) -> None:
        run_pass(
            [meter],
            corpus=self.context.corpus,
            samples=samples,
            block_size=self.context.block_size,
            capture=(),
            # derivatives along a path cannot be taken in inference mode
            trainer_options={**self.context.trainer_options, "inference_mode": False},
        )
