"""Measuring the four bars of any number of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.bars.aligned import Aligned, once
from harness.bars.asked import BEHAVIOURAL, Behaviours, by_draw, in_order
from harness.bars.components import ComponentBars
from harness.bars.joint import Joint, joint_alignment
from harness.bars.parametric import bracket, folded
from harness.bars.settings import BarsPlan
from harness.case import Case
from harness.measured import Context, Measured
from harness.runners.measure import Meter, run_pass
from harness.statistics.undefined import UndefinedError
from harness.suite import Wanted


def measure_bars(cases: Sequence[Case], context: Context) -> list[list[Measured]]:
    """Every asked statistic of the bars, case by case.

    Raises:
        ValueError: the cases do not share their evaluation samples.
    """
    samples = {case.samples.evaluate for case in cases}
    if len(samples) != 1:
        raise ValueError("expected cases that share their samples")
    behaviours = [Behaviours(case, context, context.wanted_of(i)) for i, case in enumerate(cases)]
    _evaluate([meter for one in behaviours for meter in one.meters], cases[0], context)
    beside = measure_beside(cases, context)
    return [[*one.measured(), *more] for one, more in zip(behaviours, beside, strict=True)]


def measure_beside(cases: Sequence[Case], context: Context) -> list[list[Measured]]:
    """Of these what needs passes of its own: bar B on other draws, bars P, C and Pr."""
    return [_beside(case, context, context.wanted_of(i)) for i, case in enumerate(cases)]


def _beside(case: Case, context: Context, wanted: Wanted) -> list[Measured]:
    found = _other_draws(case, context, wanted)
    for statistic, arm in in_order(wanted):
        name = statistic.partition("@")[0]
        match name.split("."):
            case ["bar", "parametric", which]:
                found.append(_parametric(case, context, statistic, which))
            case ["bar", ("causal" | "predictive") as bar, *which]:
                bars = ComponentBars(case, context)
                found.append(
                    bars.measured(
                        statistic, "causal" if bar == "causal" else "predictive", ".".join(which)
                    )
                )
            case ["parametric", "joint", which]:
                found.append(_joint(case, context, statistic, which, arm=arm))
    return found


def _parametric(case: Case, context: Context, statistic: str, which: str) -> Measured:
    try:
        found = Aligned(case, context).weights()
    except UndefinedError as error:
        return Measured(statistic, None, undefined=str(error))
    by_norm = which == "nmse"
    bounds = bracket(found.nmse, found.lower) if by_norm else bracket(found.mse, found.lower_mse)
    return Measured(statistic, None, bounds=bounds)


def _joint(
    case: Case, context: Context, statistic: str, which: str, *, arm: str | None
) -> Measured:
    plan: BarsPlan = context.plan
    aligned = Aligned(case, context)

    def compute() -> Joint:
        return joint_alignment(
            folded(case.reference),
            folded(case.other),
            case.reference.architecture,
            moments=list(aligned.moments().values()),
            shares=plan.joint,
            seed=context.seed,
        )

    try:
        found = once(context, ("joint", case.reference, case.other, case.samples.fit), compute)
    except UndefinedError as error:
        return Measured(statistic, None, arm=arm, undefined=str(error))
    if which in ("weights", "activations"):
        point = next(point for point in found.points if f"{point.share:g}" == arm)
        return Measured(statistic, None, arm=arm, value=getattr(point, which))
    if which == "barrier":
        return Measured(statistic, None, value=found.barrier, undefined=found.no_path)
    return Measured(statistic, None, value=found.gap)


def _other_draws(case: Case, context: Context, wanted: Wanted) -> list[Measured]:
    draws = dict.fromkeys(
        arm
        for name, arm in in_order(wanted)
        if name.startswith(BEHAVIOURAL) and by_draw(name) and arm is not None
    )
    found: list[Measured] = []
    for draw in draws:
        one = Behaviours(case, context, wanted, draw=draw)
        _evaluate(one.meters, case, replace(context, corpus=context.corpus.drawn(draw)))
        found.extend(one.measured())
    return found


def _evaluate(meters: Sequence[Meter], case: Case, context: Context) -> None:
    if meters:
        run_pass(
            meters,
            corpus=context.corpus,
            samples=case.samples.evaluate,
            block_size=context.block_size,
            capture=(),
            trainer_options=dict(context.trainer_options),
        )
