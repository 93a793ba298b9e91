"""Measuring a rotation case: maps from the fit samples, statistics on the evaluation samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from harness.bars.asked import Behaviours
from harness.bars.measure import measure_beside
from harness.case import Activations, Case, DictionaryChoice, Gaussian, MapChoice
from harness.gauge.fit import Array, Moments
from harness.measured import Context, Measured
from harness.runners.blocks import block_count
from harness.runners.measure import Meter, run_pass
from harness.runners.moments import MomentsMeter
from harness.statistics.undefined import UndefinedError
from harness.suite import Wanted
from suites.rotation.catalogue.alignment import LINEAR_EXCESS, PAIRED, STITCH, WHITENED
from suites.rotation.catalogue.dictionary import DICTIONARY
from suites.rotation.catalogue.rotation import (
    FROBENIUS,
    IDENTITY_SHARE,
    RANK_GAP,
    RANK_OTHER,
    RANK_REFERENCE,
    RANK_STABLE,
)
from suites.rotation.measure import dictionary, gain, rotation, stitching, transfer
from suites.rotation.measure.frame import Frame, Halves
from suites.rotation.measure.reading import Place, Reading, ReadingMeter
from suites.rotation.plan import RotationPlan

_READINGS: dict[str, Callable[[Frame, Place], Reading | Measured]] = {
    PAIRED.id: transfer.paired,
    STITCH.id: stitching.stitch,
    LINEAR_EXCESS.id: transfer.linear_excess,
    WHITENED.id: transfer.whitened,
    IDENTITY_SHARE.id: transfer.identity,
    FROBENIUS.id: rotation.frobenius,
    RANK_REFERENCE.id: rotation.rank_reference,
    RANK_OTHER.id: rotation.rank_other,
    RANK_STABLE.id: rotation.rank_stable,
    RANK_GAP.id: rotation.rank_gap,
    **{entry.id: dictionary.readings for entry in DICTIONARY},
}


def measure(cases: Sequence[Case], context: Context) -> list[list[Measured]]:
    """Every asked statistic of every case, case by case.

    Three passes: moments on the fit samples, moments on the evaluation samples (means and whole
    cross-moment), then per-block sums on the evaluation samples. Cases are measured together where
    they share their samples, so that each model runs once a batch. A gain has draws of its own,
    measured likewise.

    Raises:
        ValueError: the cases do not share their samples.
    """
    if len({case.samples for case in cases}) != 1:
        raise ValueError("expected cases that share their samples")
    found = _measure(cases, context)
    for index, (case, row) in enumerate(zip(cases, found, strict=True)):
        asked = sorted({statistic for statistic, _ in context.wanted_of(index)} & gain.OF.keys())
        if asked:
            narrow = replace(context, wanted=frozenset(gain.OF[one] for one in asked))
            drawn = gain.cases(case, plan=context.plan, seed=context.seed)
            row.extend(gain.gains(asked, _measure(drawn, narrow)))
    return found


def _measure(cases: Sequence[Case], context: Context) -> list[list[Measured]]:
    plan: RotationPlan = context.plan
    wanted = [_readable(context.wanted_of(index)) for index in range(len(cases))]
    sites = plan.sites if any(wanted) else ()
    # Halves are read where the plan explores. In every pass then, for the order of summation must
    # not depend on which cases are measured together: a resumed attempt gives the same bytes.
    frames = _frames(cases, context, sites=sites, parts=2 if plan.explores else 1)
    made = [
        [_reading(frame, Place(statistic, site, arm)) for site in sites for statistic, arm in asked]
        for frame, asked in zip(frames, wanted, strict=True)
    ]
    blocks = block_count(cases[0].samples.evaluate, context.block_size)
    meters = [
        ReadingMeter([one for one in row if isinstance(one, Reading)], blocks=blocks)
        for row in made
    ]
    behaviours = [Behaviours(case, context, context.wanted_of(i)) for i, case in enumerate(cases)]
    observers: list[Meter] = [
        *(meter for meter in meters if meter.readings),
        *(meter for behaviour in behaviours for meter in behaviour.meters),
    ]
    if observers:
        _stream(context)(observers, samples=cases[0].samples.evaluate, capture=sites)
    found = [
        [*meter.measured(), *(one for one in row if isinstance(one, Measured))]
        for meter, row in zip(meters, made, strict=True)
    ]
    beside = measure_beside(cases, context)
    for row, behaviour, more in zip(found, behaviours, beside, strict=True):
        row.extend((*behaviour.measured(), *more))
    return found


def _reading(frame: Frame, place: Place) -> Reading | Measured:
    """What is read at a place; undefined, with the reason, where no map or dictionary exists."""
    try:
        return _READINGS[place.statistic](frame, place)
    except UndefinedError as error:
        return Measured(place.statistic, place.site, arm=place.arm, undefined=str(error))


def _readable(wanted: Wanted) -> list[tuple[str, str | None]]:
    """What is wanted of it that has a reading, in a fixed order."""
    found = (one for one in wanted if one[0] in _READINGS)
    return sorted(found, key=lambda one: (one[0], one[1] or ""))


def _stream(context: Context) -> Callable[..., None]:
    return partial(
        run_pass,
        corpus=context.corpus,
        block_size=context.block_size,
        trainer_options=dict(context.trainer_options),
    )


def _frames(
    cases: Sequence[Case], context: Context, *, sites: Sequence[str], parts: int
) -> list[Frame]:
    """The cases with the moments of their fit samples, in that many parts, and of evaluation."""
    if not sites:
        return [Frame(case, {}, {}) for case in cases]
    samples = cases[0].samples
    width = cases[0].reference.architecture.size("residual")
    stream = _stream(context)

    def moments(chosen: Sequence[Case], *, fit: bool) -> dict[Case, MomentsMeter]:
        meters = {
            case: MomentsMeter(case, sites=sites, width=width, parts=parts if fit else 1)
            for case in dict.fromkeys(map(_states_of, chosen))  # moments read states alone
        }
        stream(
            list(meters.values()), samples=samples.fit if fit else samples.evaluate, capture=sites
        )
        return meters

    drawn = _with_gaussians(cases, moments)
    fitted, whole = moments(drawn, fit=True), moments(drawn, fit=False)
    return [
        Frame(
            case,
            {site: _halves(fitted[_states_of(case)], site) for site in sites},
            {site: whole[_states_of(case)].moments(site) for site in sites},
        )
        for case in drawn
    ]


def _with_gaussians(
    cases: Sequence[Case], moments: Callable[..., dict[Case, MomentsMeter]]
) -> list[Case]:
    """The cases, Gaussian activations fitted to the other model's own states."""
    own_states = Activations()  # one for all draws, so that they share their moments
    plain = {
        case: replace(case, activations=own_states)
        for case in cases
        if case.activations.gaussian is not None
    }
    if not plain:
        return list(cases)
    own = moments(list(plain.values()), fit=True)
    return [
        _fitted_gaussian(case, own[_states_of(plain[case])]) if case in plain else case
        for case in cases
    ]


def _fitted_gaussian(case: Case, meter: MomentsMeter) -> Case:
    by_site = {site: meter.moments(site) for site in meter.sites}
    gaussian = Gaussian(
        seed=case.activations.gaussian.seed if case.activations.gaussian else 0,
        mean={site: found.mean_other for site, found in by_site.items()},
        factor={site: _factor(found) for site, found in by_site.items()},
    )
    return replace(case, activations=Activations(gaussian=gaussian))


def _factor(moments: Moments) -> Array:
    """F with F^T F = covariance of the other model's states."""
    values, vectors = np.linalg.eigh(moments.covariance_other)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _states_of(case: Case) -> Case:
    """The case as far as its states go: maps and dictionaries are read later."""
    return replace(case, map=MapChoice(), dictionary=DictionaryChoice())


def _halves(meter: MomentsMeter, site: str) -> Halves:
    return Halves(meter.moments(site), tuple(meter.part(site, i) for i in range(meter.parts)))
