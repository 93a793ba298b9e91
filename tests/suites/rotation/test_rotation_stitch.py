"""Stitching: what goes into which layers, and what its value is held against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from harness.case import Case, MapChoice
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.runners.measure import View
from suites.rotation.controls import make_control
from suites.rotation.measure import frame, measure
from suites.rotation.measure.frame import Frame

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
STITCH, PAIRED = "alignment.stitch@1", "alignment.ev.paired@1"
WANTED = (STITCH, "rotated")


@pytest.fixture
def stitched(context):
    """The measured share of a case, by site."""

    def measured(case, arm="rotated", **more):
        return {m.site: m for m in measure([case], context((STITCH, arm), **more))[0]}

    return measured


@pytest.fixture(scope="module")
def small(case, samples):
    return replace(case, samples=samples(48, 80))


def test_a_model_that_goes_on_from_its_own_states_keeps_all(small, stitched):
    same = replace(small, other=small.reference, map=MapChoice("identity"))
    for arm in ("rotated", "raw"):
        for m in stitched(same, arm).values():
            assert m.value == pytest.approx(1.0, abs=1e-12)
            np.testing.assert_allclose(m.columns["numerator"], m.columns["denominator"], rtol=1e-9)


def test_the_mean_state_everywhere_keeps_nothing(small, stitched, monkeypatch):
    given = Frame.map
    monkeypatch.setattr(
        Frame, "map", lambda self, s, arm: given(self, s, arm)._replace(R=np.zeros((64, 64)))
    )
    for m in stitched(small).values():
        assert m.value == 0.0
        assert not m.columns["numerator"].any()


def test_states_of_another_token_keep_less_than_the_mean_state(small, stitched, plan):
    shuffled = make_control("shuffled", small, plan=plan, seed=2, draw=0, models={})
    assert all(m.value < 0 for m in stitched(shuffled).values())


def test_columns_are_losses_summed_by_block(small, stitched):
    """Denominator: mean-ablated less clean, from whole passes with and without an edit."""
    site = SITES[0]
    m = stitched(small)[site]
    block = to_torch(Dyck3(7).sample(small.samples.evaluate))
    fit = to_torch(Dyck3(7).sample(small.samples.fit))
    captured = small.reference.forward(fit, capture=[site]).captured[site]
    mean = captured[fit.mask].mean(0)

    def loss(edits):
        logits = small.reference.forward(block, edits=edits).logits
        parts = [
            torch.nn.functional.cross_entropy(
                scores.transpose(1, 2), block.targets[head], reduction="none"
            )
            for head, scores in logits.items()
        ]
        return (sum(parts) / len(parts) * block.mask).sum(1).numpy()

    gap = loss({site: mean.expand_as}) - loss({})
    np.testing.assert_allclose(m.columns["denominator"], gap.reshape(5, 16).sum(1), rtol=1e-9)
    share = m.columns["numerator"].sum() / m.columns["denominator"].sum()
    assert m.value == pytest.approx(share, rel=1e-12)


class Dirty:
    """The corpus with other tokens and other labels where there is padding."""

    def sample(self, samples):
        block = Dyck3(7).sample(samples)
        rng = np.random.default_rng(samples.start)
        ids = np.where(block.mask, block.ids, rng.integers(3, 9, block.ids.shape))
        targets = {
            head: np.where(block.mask, labels, 1 - np.minimum(labels, 1))
            for head, labels in block.targets.items()
        }
        return block._replace(ids=ids, targets=targets)


def test_padding_is_read_by_nothing(small, context):
    """Neither its states nor its labels move any value or column."""
    assert not np.array_equal(
        Dirty().sample(small.samples.fit).ids, Dyck3(7).sample(small.samples.fit).ids
    )
    clean, dirty = (
        {(m.statistic, m.site, m.arm): m for m in measure([small], context(**more))[0]}
        for more in ({}, {"corpus": Dirty()})
    )
    assert clean.keys() == dirty.keys()
    for key, m in clean.items():
        assert dirty[key].value == pytest.approx(m.value, rel=1e-9, abs=1e-11), key
        for name, column in (m.columns or {}).items():
            np.testing.assert_allclose(dirty[key].columns[name], column, rtol=1e-8, atol=1e-8)


def test_states_at_padding_are_overwritten_by_none(small, stitched, monkeypatch):
    """What stands at padding in the stitched stream does not matter; what stands at tokens does."""
    expected = stitched(small)

    def disturbed(at_padding):
        def logits_from(self, subject, site, states):
            stream = self.out(subject).captured[site].clone()
            stream[self.block.mask] = states.to(stream)
            where = ~self.block.mask if at_padding else self.block.mask
            stream[where] += 7.0
            return subject.resume(site, stream, self.block)

        return logits_from

    monkeypatch.setattr(View, "logits_from", disturbed(True))
    for site, m in stitched(small).items():
        assert m.value == pytest.approx(expected[site].value, rel=1e-12)
    monkeypatch.setattr(View, "logits_from", disturbed(False))
    for site, m in stitched(small).items():
        assert m.value != pytest.approx(expected[site].value, rel=1e-3)


def test_the_later_layers_are_the_references(small, stitched, plain, monkeypatch):
    expected, others = (
        {site: plain(small).stitch(site, "rotated", subject=subject) for site in SITES}
        for subject in (small.reference, small.other)
    )
    for site, m in stitched(small).items():
        assert m.value == pytest.approx(expected[site], rel=1e-7)
        assert abs(expected[site] - others[site]) > 0.05
    given = View.logits_from
    monkeypatch.setattr(View, "logits_from", lambda self, _, *more: given(self, small.other, *more))
    for site, m in stitched(small).items():
        assert abs(m.value - expected[site]) > 0.05


def test_the_planted_basis_is_undone_only_by_the_references_layers(
    small, stitched, plan, monkeypatch
):
    gauge = make_control("gauge-self", small, plan=plan, seed=4, draw=0, models={})
    assert all(m.value == pytest.approx(1.0, abs=1e-7) for m in stitched(gauge).values())
    given = View.logits_from
    monkeypatch.setattr(View, "logits_from", lambda self, _, *more: given(self, gauge.other, *more))
    assert all(m.value < 0.9 for m in stitched(gauge).values())


def test_maps_and_the_ablated_mean_come_from_the_fit_samples(
    pair, samples, context, plain, values, monkeypatch
):
    """With so few fit samples that the evaluation's own map is another one."""
    case = Case(*pair, samples(4, 80))
    wanted = [(s, arm) for s in (STITCH, PAIRED) for arm in ("rotated", "scaled", "linear")]
    wanted += [("alignment.ev.linear_excess@1", None), ("alignment.ev.whitened@1", None)]
    found = values(measure([case], context(*wanted))[0])
    for (statistic, site, arm), value in found.items():
        if arm is not None:
            one = plain(case).stitch if statistic == STITCH else plain(case).paired
            assert value == pytest.approx(one(site, arm), rel=1e-6), (statistic, site, arm)

    def on_evaluation(self, site, arm):
        moments = self.whole[site]
        rotated = arm == "rotated"
        return frame.fit_map(self.case.map, moments) if rotated else frame._FITS[arm](moments)

    monkeypatch.setattr(Frame, "map", on_evaluation)
    for key, value in values(measure([case], context(*wanted))[0]).items():
        assert value != pytest.approx(found[key], rel=5e-5), key
