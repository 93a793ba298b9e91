"""Measuring a rotation case: maps from the fit samples, statistics on the evaluation samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.bars.behavioural import BehaviouralMeter
from harness.case import Case, MapChoice
from harness.measured import Context, Measured
from harness.runners.blocks import block_count
from harness.runners.measure import Meter, run_pass
from harness.runners.moments import MomentsMeter
from suites.rotation.catalogue import IDENTITY_SHARE, KL, PAIRED
from suites.rotation.measure.transfer import TransferMeter, fit_map
from suites.rotation.plan import RotationPlan

_STATES = frozenset({PAIRED.id, IDENTITY_SHARE.id})


def measure(cases: Sequence[Case], context: Context) -> list[list[Measured]]:
    """Every asked statistic of every case, case by case.

    Three passes: moments on the fit samples, moments on the evaluation samples (means and whole
    cross-moment), then per-block sums on the evaluation samples. Cases are measured together where
    they share their samples, so that each model runs once a batch.

    Raises:
        ValueError: the cases do not share their samples.
    """
    if len({case.samples for case in cases}) != 1:
        raise ValueError("expected cases that share their samples")
    plan: RotationPlan = context.plan
    samples = cases[0].samples
    width = cases[0].reference.architecture.size("residual")
    stream = partial(
        run_pass,
        corpus=context.corpus,
        block_size=context.block_size,
        trainer_options=dict(context.trainer_options),
    )
    reads_states = bool(context.statistics & _STATES)
    sites = plan.sites if reads_states else ()
    unmapped = dict.fromkeys(_unmapped(case) for case in cases)  # moments do not read the map
    fitted = {case: MomentsMeter(case, sites=sites, width=width) for case in unmapped}
    whole = {case: MomentsMeter(case, sites=sites, width=width) for case in unmapped}
    if reads_states:
        stream(list(fitted.values()), samples=samples.fit, capture=sites)
        stream(list(whole.values()), samples=samples.evaluate, capture=sites)
    blocks = block_count(samples.evaluate, context.block_size)
    transfers = [
        TransferMeter(
            case,
            maps={site: fit_map(case.map, fitted[_unmapped(case)].moments(site)) for site in sites},
            whole={site: whole[_unmapped(case)].moments(site) for site in sites},
            blocks=blocks,
        )
        for case in cases
    ]
    behaviours = [
        BehaviouralMeter(case, blocks=blocks, tau=plan.kl_tail.tau, c=plan.kl_tail.c)
        for case in cases
        if KL.id in context.statistics
    ]
    meters: list[Meter] = [*(transfers if reads_states else ()), *behaviours]
    stream(meters, samples=samples.evaluate, capture=sites)
    found = [transfer.measured(context.statistics) for transfer in transfers]
    for row, behaviour in zip(found, behaviours, strict=bool(behaviours)):
        row.append(behaviour.measured(KL.id))
    return found


def _unmapped(case: Case) -> Case:
    return replace(case, map=MapChoice())
