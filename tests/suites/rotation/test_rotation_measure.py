"""The rotation suite against statistics computed in one go from all states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.bars.behavioural import divergence
from harness.case import Activations, Case, MapChoice, Pairing, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.fit import Moments, procrustes
from harness.measured import Context
from harness.runners.blocks import to_torch
from harness.statistics.explained_variance import explained_variance
from harness.statistics.identity_share import identity_share
from suites.rotation import SUITE
from suites.rotation.controls import make_control
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan

CORPUS = Dyck3(7)
SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PLAN = RotationPlan(sites=SITES)
KL, PAIRED, SHARE = "bar.behavioural.kl@1", "alignment.ev.paired@1", "rotation.identity_share@1"


def context(*, block_size=16, statistics=None):
    wanted = frozenset(statistics or SUITE.statistics)
    return Context(CORPUS, block_size, PLAN, wanted, {})


def samples(fit=96, evaluate=330):
    return Samples(SampleRange("fit", 0, fit), SampleRange("evaluate", 0, evaluate))


def values(found):
    return {(m.statistic, m.site): m.value for m in found}


def states(subject, samples_range, site):
    block = to_torch(CORPUS.sample(samples_range))
    out = subject.forward(block, capture=[site])
    return out.captured[site][block.mask].double().numpy()


@pytest.fixture
def case(zoo_pair):
    return Case(*zoo_pair, samples())


@pytest.fixture
def found(case):
    return measure([case], context())[0]


def test_paired_ev_equals_the_one_shot_value(case, found):
    for site in SITES:
        a_fit, b_fit = (states(s, case.samples.fit, site) for s in (case.reference, case.other))
        a, b = (states(s, case.samples.evaluate, site) for s in (case.reference, case.other))
        sums = (b_fit.sum(0), a_fit.sum(0), b_fit.T @ a_fit, b_fit.T @ b_fit, a_fit.T @ a_fit)
        fitted = procrustes(Moments(float(len(a_fit)), *sums))
        expected = explained_variance((b - b_fit.mean(0)) @ fitted.R + a_fit.mean(0), a)
        assert values(found)[PAIRED, site] == pytest.approx(expected, rel=1e-6)
        in_sample = explained_variance((b_fit - b_fit.mean(0)) @ fitted.R + a_fit.mean(0), a_fit)
        assert abs(in_sample - expected) > 1e-4  # fitting and evaluating share no sample


def test_identity_share_equals_the_one_shot_value(case, found):
    for site in SITES:
        a, b = (states(s, case.samples.evaluate, site) for s in (case.reference, case.other))
        expected = identity_share((b - b.mean(0)).T @ (a - a.mean(0)))
        assert values(found)[SHARE, site] == pytest.approx(expected, rel=1e-5)


def test_kl_equals_the_one_shot_value(case, found):
    block = to_torch(CORPUS.sample(case.samples.evaluate))
    kl = divergence(case.reference.forward(block).logits, case.other.forward(block).logits)
    assert values(found)[KL, None] == pytest.approx(float(kl[block.mask].mean()), rel=1e-5)


def test_columns_give_the_values_and_the_last_block_may_be_short(found):
    for m in found:
        columns = {name: float(np.sum(c)) for name, c in m.columns.items()}
        assert {len(c) for c in m.columns.values()} == {21}
        if m.statistic == PAIRED:
            assert 1 - columns["residual"] / columns["total"] == pytest.approx(m.value, rel=1e-12)
        if m.statistic == SHARE:
            ratio = columns["numerator"] / columns["denominator"]
            assert ratio == pytest.approx(m.value, rel=1e-9)


def test_block_size_and_order_do_not_move_the_values(case, found):
    again = measure([case], context(block_size=5))[0]
    for key, value in values(found).items():
        assert values(again)[key] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_planted_gauge_comes_back(zoo_pair, seed):
    case = Case(*zoo_pair, samples())
    control = make_control("gauge-self", case, plan=PLAN, seed=seed, draw=0)
    found = values(measure([control], context())[0])
    for site in SITES:
        assert found[PAIRED, site] > 1 - 1e-6
        assert abs(found[SHARE, site]) < 0.5
    assert found[KL, None] < 1e-6


def test_the_fitted_rotation_is_the_transposed_plant_on_the_determined_directions(zoo_pair):
    """||(R - R0) V_k||_F / sqrt(k) <= 1e-4, R0 = G^T, with an offset on the captured states."""
    reference = zoo_pair[0]
    weights = {name: w.double() for name, w in reference.weights().items()}
    exact = reference.with_weights(weights)
    case = Case(exact, exact, samples())
    control = make_control("gauge-self", case, plan=PLAN, seed=3, draw=0)
    for site in SITES:
        offset = control.activations.offset[site].numpy()
        a = states(control.reference, control.samples.fit, site)
        b = states(control.other, control.samples.fit, site) + offset
        planted = np.linalg.lstsq(a - a.mean(0), b - b.mean(0), rcond=None)[0]
        sums = (b.sum(0), a.sum(0), b.T @ a, b.T @ b, a.T @ a)
        fitted = procrustes(Moments(float(len(a)), *sums))
        k = fitted.rank()
        v = fitted.directions[:, :k]
        assert k >= 10

        def distance(r, r0, v=v, k=k):
            return np.linalg.norm((r - r0) @ v) / np.sqrt(k)

        from harness.gauge.fit import haar
        from harness.streams import generator

        g = haar(64, generator=generator(3, "gauge-self", "rotation"))
        np.testing.assert_allclose(v.T @ planted, v.T @ g, atol=1e-4)
        assert distance(fitted.R, g.T) <= 1e-4
        assert distance(fitted.R, g) > 0.1  # the transpose is another map


def test_random_controls_destroy_what_they_should(zoo_pair):
    case = Case(*zoo_pair, samples(fit=128, evaluate=128))
    real = values(measure([case], context())[0])
    for name in ("covariance-only", "shuffled"):
        cases = [make_control(name, case, plan=PLAN, seed=1, draw=i) for i in range(8)]
        rows = measure(cases, context(statistics={PAIRED}))
        for site in SITES:
            draws = [values(row)[PAIRED, site] for row in rows]
            assert len(set(draws)) == 8
            assert np.median(draws) < 0.3 < real[PAIRED, site]


def test_cases_measured_together_equal_cases_measured_alone(zoo_pair):
    case = Case(*zoo_pair, samples(fit=64, evaluate=128))
    cases = [
        case,
        Case(*zoo_pair, case.samples, pairing=Pairing("shuffled", 5)),
        Case(*zoo_pair, case.samples, map=MapChoice("covariance-only", 5)),
        Case(*zoo_pair, case.samples, activations=Activations({SITES[0]: torch.ones(64)})),
    ]
    together = measure(cases, context())
    for one, row in zip(cases, together, strict=True):
        assert values(measure([one], context())[0]) == values(row)


def test_an_offset_of_the_other_model_is_absorbed_by_the_means(zoo_pair):
    case = Case(*zoo_pair, samples(fit=64, evaluate=64))
    moved = Case(
        *zoo_pair, case.samples, activations=Activations({s: torch.full((64,), 9.0) for s in SITES})
    )
    a, b = measure([case, moved], context(statistics={PAIRED, SHARE}))
    for key, value in values(a).items():
        assert values(b)[key] == pytest.approx(value, rel=1e-6)


def test_a_pairing_moves_no_token_to_another_block(zoo_pair):
    from harness.runners.blocks import BlockStream
    from harness.runners.measure import View

    batch = next(iter(BlockStream(CORPUS, SampleRange("fit", 0, 64), size=16)))
    view = View(batch, capture=[], first_block=0)
    order = view._order(Pairing("shuffled", 1))
    assert sorted(order.tolist()) == list(range(len(view.slots)))
    assert torch.equal(view.slots[order], view.slots)
    assert (order != torch.arange(len(order))).float().mean() > 0.9


def test_only_what_is_asked_for_is_measured(case):
    assert {m.statistic for m in measure([case], context(statistics={KL}))[0]} == {KL}
    assert {m.statistic for m in measure([case], context(statistics={SHARE}))[0]} == {SHARE}


def test_cases_with_other_samples_are_refused(zoo_pair):
    with pytest.raises(ValueError, match="share their samples"):
        measure([Case(*zoo_pair, samples(64)), Case(*zoo_pair, samples(80))], context())
