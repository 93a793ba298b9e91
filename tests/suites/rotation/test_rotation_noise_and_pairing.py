"""The random controls of the rotation suite: each destroys what its row says, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from harness.case import Activations, Case, MapChoice, Pairing
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners import blocks
from harness.runners.blocks import BlockStream
from harness.runners.measure import Meter, View, run_pass
from suites.rotation import measure as shipped
from suites.rotation.controls import make_control
from suites.rotation.measure import measure

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PAIRED, STITCH = "alignment.ev.paired@1", "alignment.stitch@1"
SHARE = "rotation.identity_share@1"
CORPUS = Dyck3(7)
RANDOM = ("covariance-only", "haar", "noise", "shuffled", "tokpos-shuffled")


@pytest.fixture(scope="module")
def small(case, samples):
    """As many sequences as the random controls read."""
    return replace(case, samples=samples(128, 128))


@pytest.fixture(scope="module")
def control(small, plan):
    def make(name, *, seed=1, draw=0):
        return make_control(name, small, plan=plan, seed=seed, draw=draw, models={})

    return cache(make)


@pytest.fixture(scope="module")
def frame_of(context):
    """The frame that measuring makes of a case, with its Gaussian and its moments fitted."""

    def made(case):
        found = []
        with pytest.MonkeyPatch.context() as patch:
            given = shipped.Frame
            patch.setattr(shipped, "Frame", lambda *args: found.append(given(*args)) or found[-1])
            measure([case], context((PAIRED, "rotated")))
        return found[-1]

    return cache(made)  # of controls that are made once, as of these


class Recorder(Meter):
    """Keeps the other model's and the reference's states, and the blocks that they belong to."""

    def __init__(self, case, site):
        super().__init__()
        self.case, self.site, self.seen = case, site, []

    def observe(self, view):
        """Adds one batch."""
        self.seen.append((*view.states(self.case, self.site), view.slots))


def drawn(case, split="evaluate", site=SITES[0]):
    """x_B, x_A and block of every token, as a pass over a split sees them."""
    recorder = Recorder(case, site)
    run_pass(
        [recorder],
        corpus=CORPUS,
        samples=getattr(case.samples, split),
        block_size=16,
        capture=SITES,
        trainer_options={},
    )
    return [torch.cat(parts).numpy() for parts in zip(*recorder.seen, strict=True)]


# --- noise --------------------------------------------------------------------------------------


def test_noise_is_fitted_to_the_other_models_mean_and_covariance(control, frame_of, plain, small):
    gaussian = frame_of(control("noise")).case.activations.gaussian
    assert set(gaussian.mean) == set(gaussian.factor) == set(SITES)
    for site in SITES:
        b = plain(small).states("fit", site)[0]
        covariance = np.cov(b.T, bias=True)
        scale = np.abs(covariance).max()
        np.testing.assert_allclose(gaussian.mean[site], b.mean(0), rtol=1e-9, atol=1e-10)
        factor = gaussian.factor[site]
        np.testing.assert_allclose(factor.T @ factor, covariance, atol=1e-9 * scale)


@pytest.mark.parametrize("split", ["fit", "evaluate"])
def test_noise_draws_have_that_mean_and_covariance(control, frame_of, split):
    """Each whitened coordinate is N(0, 1): means and covariances to five standard errors."""
    one = frame_of(control("noise")).case
    gaussian = one.activations.gaussian
    states, _, _ = drawn(one, split)
    z = (states - gaussian.mean[SITES[0]]) @ np.linalg.pinv(gaussian.factor[SITES[0]])
    n = len(z)
    assert n > 3000
    varied = np.linalg.norm(gaussian.factor[SITES[0]], axis=1) > 1e-6
    assert varied.sum() > 50
    assert np.abs(z.mean(0)).max() < 5 / np.sqrt(n)
    covariance = z[:, varied].T @ z[:, varied] / n
    off = covariance - np.eye(int(varied.sum()))
    assert np.abs(off).max() < 5 * np.sqrt(2 / n)
    assert np.mean(z[:, varied] ** 4) == pytest.approx(3.0, rel=0.05)


def test_noise_knows_nothing_of_the_tokens(control, frame_of, small):
    """Neither the state of the same token nor the token itself says anything about a draw."""
    noisy = frame_of(control("noise")).case
    block = CORPUS.sample(small.samples.evaluate)
    token, position = block.ids[block.mask], np.nonzero(block.mask)[1]
    kinds = np.unique(np.stack((token, np.minimum(position, 3))), axis=1, return_inverse=True)[1]

    def explained(x):
        """Share of the variance that lies between kinds of token, less what chance gives."""
        kind = kinds.ravel()
        counts = np.bincount(kind)
        sums = np.stack([np.bincount(kind, weights) for weights in (x - x.mean(0)).T], axis=1)
        between = (np.square(sums) / counts[:, None]).sum() / np.square(x - x.mean(0)).sum()
        return between - (len(counts) - 1) / len(x)

    noise, reference, _ = drawn(noisy)
    own = drawn(small)[0]
    assert explained(own) > 0.3
    assert abs(explained(noise)) < 0.02

    def agreement(x):
        """Largest canonical correlation with the reference's first components."""
        parts = []
        for states in (x, reference):
            centred = states - states.mean(0)
            parts.append(np.linalg.svd(centred, full_matrices=False)[0][:, :10])
        return np.linalg.norm(parts[0].T @ parts[1], 2)

    assert agreement(own) > 0.8
    assert agreement(noise) < 0.2


def test_a_seed_a_draw_a_site_and_a_split_have_a_noise_of_their_own(control, frame_of):
    def z(case, split, site):
        gaussian = case.activations.gaussian
        rows = drawn(case, split, site)[0][:500] - gaussian.mean[site]
        factor = gaussian.factor[site]
        top = np.argmax(np.linalg.norm(factor, axis=1))
        return rows @ factor[top] / np.square(factor[top]).sum()

    cases = [
        frame_of(control("noise", seed=seed, draw=draw)).case
        for seed, draw in ((1, 0), (1, 1), (2, 0))
    ]
    found = [z(one, split, s) for one in cases for split in ("fit", "evaluate") for s in SITES]
    correlations = np.corrcoef(found) - np.eye(len(found))
    assert np.abs(correlations).max() < 5 / np.sqrt(500)
    again = frame_of.__wrapped__(control.__wrapped__("noise")).case
    np.testing.assert_array_equal(drawn(again)[0], drawn(cases[0])[0])


def test_two_blocks_share_no_noise(control, frame_of):
    states, _, slots = drawn(frame_of(control("noise")).case)
    firsts = {tuple(states[slots == slot][0]) for slot in np.unique(slots)}
    assert len(firsts) == 8


@pytest.mark.parametrize("name", ["noise", "shuffled"])
def test_how_blocks_are_cut_into_batches_moves_no_state(control, frame_of, monkeypatch, name):
    one = frame_of(control(name)).case
    whole = drawn(one)[0]
    monkeypatch.setattr(blocks, "BATCH_SAMPLES", 16)
    np.testing.assert_allclose(drawn(one)[0], whole, rtol=1e-12, atol=1e-12)


def test_noise_leaves_the_reference_the_map_and_the_outputs_alone(control, small):
    one = control("noise")
    assert replace(one, activations=small.activations) == small
    assert one.activations.gaussian is not None
    assert not one.activations.offset
    assert np.array_equal(drawn(replace(one, activations=Activations()))[1], drawn(small)[1])


def test_draws_of_noise_measured_together_are_those_measured_alone(control, small, context, values):
    cases = [small, *(control("noise", draw=draw) for draw in range(2))]
    wanted = context((PAIRED, "rotated"), ("sae.ev.rotated@1", "top"))
    together = measure(cases, wanted)
    rows = [values(row) for row in together]
    assert rows == [values(measure([one], wanted)[0]) for one in cases]
    assert len({row[PAIRED, SITES[0], "rotated"] for row in rows}) == 3


# --- pairings -----------------------------------------------------------------------------------


def views(samples, *, corpus=CORPUS, block_size=16):
    stream = BlockStream(corpus, samples, size=block_size)
    first = samples.base // block_size
    return [(b, View(b, capture=[], first_block=first)) for b in stream]


def kinds_of(batch):
    mask = batch.block.mask
    position = torch.arange(mask.shape[1]).expand_as(mask)[mask]
    return (batch.block.ids[mask] * 1000 + position).tolist()


def test_tokpos_shuffled_keeps_token_and_position_and_moves_all_that_have_an_equal():
    moved = total = 0
    for batch, view in views(SampleRange("evaluate", 0, 128)):
        kinds = kinds_of(batch)
        order = view._order(Pairing("tokpos-shuffled", 3)).tolist()
        assert sorted(order) == list(range(len(kinds)))
        assert [kinds[i] for i in order] == kinds
        for place, source in enumerate(order):
            assert (place == source) == (kinds.count(kinds[place]) == 1)
        moved += sum(place != source for place, source in enumerate(order))
        total += len(order)
    assert 0.9 < moved / total <= 1


class Same:
    """A corpus in which the k-th sample of every batch is the same, in every split."""

    def sample(self, samples):
        block = CORPUS.sample(SampleRange("fit", 0, 64))
        rows = np.arange(samples.start, samples.stop) % 64
        return block._replace(ids=block.ids[rows], mask=block.mask[rows], targets={})


@pytest.mark.parametrize("kind", ["shuffled", "tokpos-shuffled"])
def test_a_pairing_is_another_permutation_a_batch_a_seed_and_a_split(kind):
    """Where the tokens are the same, so that nothing but the stream can differ."""

    def orders(seed):
        return [
            tuple(view._order(Pairing(kind, seed)).tolist())
            for split in ("fit", "evaluate")
            for _, view in views(SampleRange(split, 0, 128), corpus=Same())
        ]

    assert len({*orders(1), *orders(2)}) == 8
    assert len({len(order) for order in orders(1)}) == 1
    assert orders(1) == orders(1)


def test_equal_tokens_are_matched_with_all_of_their_equals_alike():
    """Over many seeds, each of n equal tokens receives each other state in 1 of n - 1 draws."""
    batch, view = views(SampleRange("fit", 0, 16))[0]
    kinds = kinds_of(batch)
    openers = max(([i for i, k in enumerate(kinds) if k == kind] for kind in kinds[1:3]), key=len)
    assert 3 < len(openers) < 16
    counts = dict.fromkeys(openers, 0)
    for seed in range(400):
        counts[int(view._order(Pairing("tokpos-shuffled", seed))[openers[0]])] += 1
    assert counts.pop(openers[0]) == 0
    expected = 400 / len(counts)
    assert all(abs(n - expected) < 5 * np.sqrt(expected) for n in counts.values())


def test_shuffled_moves_no_token_to_another_block():
    for _, view in views(SampleRange("fit", 0, 64)):
        order = view._order(Pairing("shuffled", 1))
        assert sorted(order.tolist()) == list(range(len(view.slots)))
        assert torch.equal(view.slots[order], view.slots)
        assert (order != torch.arange(len(order))).float().mean() > 0.9


@pytest.mark.parametrize("name", ["shuffled", "tokpos-shuffled"])
@pytest.mark.parametrize("split", ["fit", "evaluate"])
def test_pairings_move_the_other_models_states_in_both_splits_and_not_the_references(
    control, small, name, split
):
    other, reference, _ = drawn(control(name), split)
    own, same, _ = drawn(small, split)
    np.testing.assert_array_equal(reference, same)
    assert (np.abs(other - own).max(1) > 1e-6).mean() > 0.8
    np.testing.assert_allclose(np.sort(other[:, 0]), np.sort(own[:, 0]))


# --- maps ---------------------------------------------------------------------------------------


def test_haar_is_a_rotation_of_its_own_for_every_draw_with_the_fitted_means(control, frame_of):
    maps = [frame_of(control("haar", draw=draw)).map(SITES[0], "rotated") for draw in range(4)]
    fitted = frame_of(control("haar")).fitted[SITES[0]].whole
    for one in maps:
        np.testing.assert_allclose(one.R.T @ one.R, np.eye(64), atol=1e-12)
        np.testing.assert_allclose(one.mean_other, fitted.mean_other)
        np.testing.assert_allclose(one.mean_reference, fitted.mean_reference)
        assert abs(np.trace(one.R)) < 6  # of standard deviation 1
    traces = np.array([[np.trace(a.R.T @ b.R) for a in maps] for b in maps])
    assert np.abs(traces - 64 * np.eye(4)).max() < 6


def test_covariance_only_carries_one_cloud_onto_the_other(control, frame_of):
    one = frame_of(control("covariance-only"))
    moments, found = one.fitted[SITES[0]].whole, one.map(SITES[0], "rotated")
    np.testing.assert_allclose(found.R.T @ found.R, np.eye(64), atol=1e-10)
    carried = found.R.T @ moments.covariance_other @ found.R
    vectors = np.linalg.eigh(moments.covariance_reference)[1]
    inside = vectors.T @ carried @ vectors
    np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=1e-9 * np.trace(inside))
    assert (np.diff(np.diag(inside)) > -1e-9 * np.trace(inside)).all()


@pytest.mark.parametrize("name", ["haar", "covariance-only"])
def test_a_map_of_a_control_replaces_the_rotation_and_no_other_arm(
    control, small, context, values, name
):
    arms = ("raw", "shift-only", "pure-rotation", "scaled", "linear", "rotated")
    wanted = context(*((PAIRED, arm) for arm in arms), (SHARE, None))
    changed, own = (values(measure([c], wanted)[0]) for c in (control(name), small))
    for key, value in own.items():
        assert (changed[key] == value) == (key[2] != "rotated"), key


# --- what they leave of the claims --------------------------------------------------------------


@pytest.mark.parametrize("name", ["covariance-only", "haar", "noise", "shuffled"])
def test_what_is_destroyed_shows(control, small, context, values, name):
    """The median of a few draws lies far below the pair, at every site; draws differ."""
    wanted = [(PAIRED, "rotated"), (STITCH, "rotated")]
    real = values(measure([small], context(*wanted))[0])
    rows = [values(r) for r in measure([control(name, draw=i) for i in range(3)], context(*wanted))]
    for key, value in real.items():
        draws = [row[key] for row in rows]
        assert len(set(draws)) == 3
        assert np.median(draws) < value - 0.2, key


def test_a_map_that_a_case_asks_for_and_a_pairing_act_together(small, context, values):
    """No control does it, but nothing in a case excludes it."""
    both = replace(small, map=MapChoice("haar", 3), pairing=Pairing("shuffled", 4))
    alone = replace(small, map=MapChoice("haar", 3))
    one, two = (values(r) for r in measure([both, alone], context((PAIRED, "rotated"))))
    assert one != two


@pytest.mark.parametrize("name", RANDOM)
def test_random_controls_are_fitted_and_read_on_the_first_sequences(case, plan, name):
    found = make_control(name, case, plan=plan, seed=1, draw=0, models={}).samples
    assert found.fit == case.samples.fit.head(128)
    assert found.evaluate == case.samples.evaluate.head(128)


# --- cases measured together --------------------------------------------------------------------


def test_cases_measured_together_equal_cases_measured_alone(case, samples, plan, context, values):
    """Every statistic; what two cases share is what they have in common and no more."""
    mine = replace(case, samples=samples(24, 32))
    names = ("self", "gauge-self", "gauge-self-unaligned", "untrained", "pca-k", *RANDOM)
    cases = [mine, *(make_control(n, mine, plan=plan, seed=1, draw=0, models={}) for n in names)]
    cases.append(Case(mine.other, mine.reference, mine.samples, dictionary=mine.dictionary))
    together = measure(cases, context())
    for one, row in zip(cases, together, strict=True):
        assert values(measure([one], context())[0]) == values(row)


def test_each_case_is_measured_for_what_is_wanted_of_it_and_nothing_else(
    case, samples, context, plan
):
    mine = replace(case, samples=samples(32, 32))
    asked = (
        frozenset({(PAIRED, "scaled"), (SHARE, None)}),
        frozenset({("bar.behavioural.kl@1", None)}),
        frozenset({("rotation.rank.gap@1", None), ("sae.l0@1", "re")}),
        frozenset(),
    )
    one = replace(context(), wanted=asked)
    rows = measure(
        [mine, mine, make_control("self", mine, plan=plan, seed=1, draw=0, models={}), mine], one
    )
    for wanted, row in zip(asked, rows, strict=True):
        assert {(m.statistic, m.arm) for m in row} == wanted
        assert len(row) == sum(1 if s.startswith("bar.") else 2 for s, _ in wanted)
    everything = context().wanted
    found = measure([mine], context())[0]
    assert {(m.statistic, m.arm) for m in found} == everything
    assert len({(m.statistic, m.arm, m.site) for m in found}) == len(found)


def test_what_is_not_wanted_costs_no_pass_over_the_samples(case, samples, context):
    """Bar B alone reads no fit sample; ranks alone read no outputs."""
    mine = replace(case, samples=samples(32, 48))
    splits = []

    class Recorded:
        def sample(self, given):
            splits.append(given.split)
            return CORPUS.sample(given)

    measure([mine], context(("bar.behavioural.kl@1", None), corpus=Recorded()))
    assert splits == ["evaluate"]


def test_an_offset_is_added_to_the_other_models_states_at_its_site_alone(small):
    offset = torch.arange(64, dtype=torch.float64)
    moved = replace(small, activations=Activations({SITES[0]: offset}))
    (other, reference, _), (own, same, _) = drawn(moved), drawn(small)
    np.testing.assert_allclose(other - own, np.broadcast_to(offset, own.shape), atol=1e-12)
    np.testing.assert_array_equal(reference, same)
    np.testing.assert_array_equal(drawn(moved, site=SITES[1])[0], drawn(small, site=SITES[1])[0])
