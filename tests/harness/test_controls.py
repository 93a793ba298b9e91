"""Controls: which fields of a case each one replaces, by what, and that they can fail."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from harness import controls
from harness.case import (
    Activations,
    Case,
    DictionaryChoice,
    Gaussian,
    MapChoice,
    Pairing,
    Samples,
)
from harness.corpora.block import Block, SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge import fit
from harness.gauge.fit import AffineMap, Moments, haar
from harness.measured import Context
from harness.run import run
from harness.runners.blocks import Batch, to_torch
from harness.runners.measure import Meter, View, run_pass
from harness.streams import generator
from harness.subjects.subject import Out
from prereg.workspace import Workspace
from suites.rotation.catalogue import CONTROLS
from suites.rotation.catalogue.alignment import PAIRED
from suites.rotation.controls import make_control
from suites.rotation.measure import measure
from suites.rotation.measure.frame import fit_map
from suites.rotation.plan import RotationPlan

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PLAN = RotationPlan(sites=SITES)
NAMED = tuple(spec.name for spec in CONTROLS if spec.named)
RANDOM = tuple(spec.name for spec in CONTROLS if spec.random)
FIT, EVALUATE = SampleRange("fit", 0, 200), SampleRange("evaluate", 0, 300)


@pytest.fixture
def case(make_subject):
    """A claim's case with no field at its default, so that a field that is reset shows."""
    return Case(
        make_subject(1),
        make_subject(2),
        Samples(FIT, EVALUATE),
        pairing=Pairing("shuffled", 99),
        map=MapChoice("covariance-only", 99),
        activations=Activations({SITES[0]: torch.full((64,), 9.0)}),
        dictionary=DictionaryChoice(object()),
    )


def control(name, case, *, seed=1, draw=0, models=()):
    return make_control(name, case, plan=PLAN, seed=seed, draw=draw, models=dict(models))


def weights_differ(one, other):
    """Names of the tensors in which two subjects differ."""
    given, found = one.weights(), other.weights()
    return {name for name in given if not torch.equal(given[name], found[name])}


# --- which fields -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", CONTROLS, ids=lambda spec: spec.name)
def test_a_control_replaces_the_fields_that_its_row_names_and_no_other(case, spec, make_subject):
    models = {name: make_subject(3) for name in NAMED} if spec.named else {}
    found = control(spec.name, case, models=models)
    changed = {f.name for f in fields(Case) if getattr(found, f.name) != getattr(case, f.name)}
    assert changed == set(spec.replaces)
    kept = {f.name for f in fields(Case)} - changed
    assert all(getattr(found, name) is getattr(case, name) for name in kept)


@pytest.mark.parametrize("name", ["self-frsh", *NAMED])
def test_only_the_catalogues_controls_are_made_and_only_with_their_models(case, name):
    with pytest.raises(ValueError, match=name):
        control(name, case)


# --- by what ----------------------------------------------------------------------------------


def test_self_is_the_reference(case):
    assert control("self", case).other is case.reference


def test_self_fresh_is_the_reference_on_evaluation_samples_that_nothing_else_reads(case):
    found = control("self-fresh", case)
    assert found.other is case.reference
    assert found.samples.fit == case.samples.fit
    fresh = found.samples.evaluate
    assert fresh.split == "evaluate"
    assert fresh.count == EVALUATE.count
    for read in (FIT, EVALUATE):
        assert fresh.base >= read.base + read.count or read.base >= fresh.base + fresh.count


def test_gauge_self_keeps_the_outputs_and_moves_every_state(case):
    found = control("gauge-self", case)
    block = to_torch(Dyck3(5).sample(SampleRange("fit", 0, 8)))
    a, b = (s.forward(block, capture=SITES) for s in (case.reference, found.other))
    for head, logits in a.logits.items():
        torch.testing.assert_close(b.logits[head], logits, rtol=1e-9, atol=1e-9)
    planted = torch.from_numpy(haar(64, generator=generator(1, "gauge-self", "rotation")))
    for site in SITES:
        torch.testing.assert_close(b.captured[site], a.captured[site] @ planted)
        assert not torch.allclose(b.captured[site], a.captured[site], atol=0.1)


def test_gauge_self_offsets_every_site_by_a_random_vector_of_its_own(case):
    one, other = (control("gauge-self", case, seed=seed).activations.offset for seed in (1, 2))
    assert set(one) == set(SITES)
    for site in SITES:
        assert one[site].shape == (64,)
        assert float(one[site].std()) > 0.7
        assert abs(float(one[site].mean())) < float(one[site].std()) / 2
        assert not torch.isclose(one[site], other[site]).any()
    assert not torch.isclose(one[SITES[0]], one[SITES[1]]).any()


def test_gauge_self_plants_another_basis_for_another_seed(case):
    one, two, again = (control("gauge-self", case, seed=seed).other for seed in (1, 2, 1))
    assert "embed" in weights_differ(one, two)
    assert not weights_differ(one, again)


def test_gauge_self_unaligned_is_gauge_self_without_a_map_and_without_an_offset(case):
    aligned, found = control("gauge-self", case), control("gauge-self-unaligned", case)
    assert found.map == MapChoice("identity")
    assert not weights_differ(aligned.other, found.other)
    assert weights_differ(found.other, case.reference)
    assert found.activations is case.activations
    plain = Case(case.reference, case.other, case.samples)
    assert not control("gauge-self-unaligned", plain).activations.offset


@pytest.mark.parametrize("name", NAMED)
def test_a_control_that_takes_a_model_puts_its_own_in_the_others_place(case, name, make_subject):
    models = {other: make_subject(seed) for seed, other in enumerate(NAMED, start=3)}
    assert control(name, case, models=models).other is models[name]
    assert control("self", case, models=models).other is case.reference


def test_pca_k_reads_principal_components_and_the_same_states(case):
    found = control("pca-k", case).dictionary
    assert found == DictionaryChoice(case.dictionary.source, rule="pca")
    assert found.source is case.dictionary.source


def test_noise_draws_the_other_models_states_and_fits_nothing_yet(case):
    found = control("noise", case).activations
    assert not found.offset
    assert found.gaussian is not None
    assert (found.gaussian.mean, found.gaussian.factor) == ({}, {})


def test_tokpos_shuffled_and_haar_replace_nothing_but_pairing_and_map(case):
    assert control("tokpos-shuffled", case).pairing.kind == "tokpos-shuffled"
    assert control("haar", case).map.rule == "haar"


def test_untrained_is_a_fresh_initialisation_of_its_own_for_every_seed(case):
    subjects = [control("untrained", case, seed=seed).other for seed in (1, 2)]
    drawn = {name for name in case.reference.weights() if not name.endswith("gain")}
    drawn.remove("position_code")
    for subject in subjects:
        assert weights_differ(subject, case.reference) >= drawn
        assert float(subject.weights()["embed"].std()) == pytest.approx(0.02, rel=0.1)
        assert subject.weights()["embed"].dtype == case.reference.weights()["embed"].dtype
    assert weights_differ(*subjects) == drawn
    assert not weights_differ(subjects[0], control("untrained", case, seed=1).other)


@pytest.mark.parametrize("name", sorted(set(RANDOM) - {"shuffled-components"}))
def test_random_controls_read_the_registered_number_of_sequences(case, name):
    found = control(name, case).samples
    assert found == Samples(FIT.head(128), EVALUATE.head(128))
    few = Case(case.reference, case.other, Samples(FIT.head(30), EVALUATE.head(40)))
    assert control(name, few).samples == few.samples


def stream(found):
    """Seed of the random field of a control."""
    if found.activations.gaussian is not None:
        return found.activations.gaussian.seed
    if found.components.rule == "shuffled":
        return found.components.seed
    seeds = {found.map.seed, found.pairing.seed} - {99}
    (seed,) = seeds
    return seed


def streams(name, case, *, seed):
    return [stream(control(name, case, seed=seed, draw=draw)) for draw in range(32)]


@pytest.mark.parametrize("name", RANDOM)
def test_every_draw_of_every_seed_has_a_stream_of_its_own(case, name):
    assert len({*streams(name, case, seed=1), *streams(name, case, seed=2)}) == 64
    assert streams(name, case, seed=1) == streams(name, case, seed=1)


def test_the_random_controls_share_no_stream(case):
    every = [seed for name in RANDOM for seed in streams(name, case, seed=1)]
    assert len(set(every)) == len(every) == 32 * 6


def moments(seed=0):
    rng = np.random.default_rng(seed)
    b, a = (rng.normal(size=(500, 64)) * np.arange(1, 65) for _ in range(2))
    return Moments(500.0, b.sum(0), a.sum(0), b.T @ a, b.T @ b, a.T @ a)


def test_covariance_only_matches_eigenbases_with_signs_that_differ_over_draws(case):
    given = moments()
    maps = [fit_map(control("covariance-only", case, draw=d).map, given) for d in range(8)]
    bases = (given.covariance_other, given.covariance_reference)
    other, reference = (np.linalg.eigh(covariance)[1] for covariance in bases)
    signs = [np.diag(other.T @ found.R @ reference) for found in maps]
    assert len({tuple(np.sign(s)) for s in signs}) == 8
    for sign, found in zip(signs, maps, strict=True):
        np.testing.assert_allclose(np.abs(sign), 1.0, atol=1e-9)
        assert 16 < (sign > 0).sum() < 48
        np.testing.assert_allclose(found.mean_other, given.mean_other)


def test_haar_is_a_rotation_of_its_own_for_every_draw_and_reads_no_more_than_the_means(case):
    one, other = moments(0), moments(1)
    maps = [fit_map(control("haar", case, draw=d).map, one) for d in range(8)]
    for d, found in enumerate(maps):
        np.testing.assert_allclose(found.R @ found.R.T, np.eye(64), atol=1e-12)
        np.testing.assert_allclose(found.mean_other, one.mean_other)
        np.testing.assert_allclose(found.mean_reference, one.mean_reference)
        again = fit_map(control("haar", case, draw=d).map, other)
        np.testing.assert_array_equal(again.R, found.R)
        assert not np.allclose(again.mean_other, found.mean_other)
    traces = [np.trace(a.R.T @ b.R) for i, a in enumerate(maps) for b in maps[:i]]
    assert max(map(abs, traces)) < 6  # of N(0, 1), where the same rotation gives 64


# --- what a view makes of them ----------------------------------------------------------------


class Numbered:
    """A subject whose state of a token is that token's place in the corpus."""

    architecture = None

    def to(self, _):
        return self

    def forward(self, block, *, capture=(), edits=None):
        positions = torch.arange(block.ids.shape[1])
        place = block.sample_ids[:, None] * 1000 + positions[None, :]
        return Out({}, {site: place[:, :, None].double() for site in capture})


class Full:
    """Sequences of five tokens without padding, so that all blocks are of one length."""

    def sample(self, samples):
        shape = (samples.count, 5)
        ids = np.arange(samples.base, samples.base + samples.count, dtype=np.int64)
        return Block(np.zeros(shape, np.int64), np.ones(shape, bool), ids, {})


class Recorder(Meter):
    """Keeps the paired states of every batch."""

    def __init__(self, case):
        super().__init__()
        self.case, self.seen = case, []

    def observe(self, view):
        """Adds one batch."""
        other, reference = view.states(self.case, "s")
        self.seen.append((view.slots, other[:, 0], reference[:, 0]))


def orders(samples, *, pairing, block_size=10):
    """For every block of a pass, which place of the block stands at each place."""
    subject = Numbered()
    recorder = Recorder(Case(subject, subject, Samples(samples, samples), pairing=pairing))
    run_pass(
        [recorder],
        corpus=Full(),
        samples=samples,
        block_size=block_size,
        capture=["s"],
        trainer_options={},
    )
    found = {}
    for slots, other, reference in recorder.seen:
        for slot in slots.unique().tolist():
            mine = reference[slots == slot].tolist()
            found[slot] = [mine.index(place) for place in other[slots == slot].tolist()]
    return found


def test_shuffling_permutes_each_block_by_a_permutation_of_its_own():
    found = orders(SampleRange("evaluate", 0, 130), pairing=Pairing("shuffled", 3))
    assert len(found) == 13
    assert all(sorted(order) == list(range(50)) for order in found.values())
    assert len({tuple(order) for order in found.values()}) == 13


def test_fit_and_evaluation_share_no_permutation_and_draws_neither():
    passes = [
        orders(SampleRange(split, 0, 130), pairing=Pairing("shuffled", seed))
        for split in ("fit", "evaluate")
        for seed in (3, 4)
    ]
    every = [tuple(order) for found in passes for order in found.values()]
    assert len(set(every)) == len(every) == 4 * 13


TWO_BATCHES, MANY = SampleRange("evaluate", 0, 120), SampleRange("evaluate", 0, 640)


class Tokens:
    """Five tokens of three kinds, one of its own a batch, every batch the same; the last is short."""

    def sample(self, samples):
        sample_ids = np.arange(samples.base, samples.base + samples.count, dtype=np.int64)
        row = np.arange(samples.count)[:, None] % 60
        ids = np.where((row == 0) & (np.arange(5) == 2), 5, (row * 7 + np.arange(5) * 3) % 11 % 3)
        mask = np.ones(ids.shape, bool)
        mask[-1, 3:] = False
        return Block(ids.astype(np.int64), mask, sample_ids, {})


def beside(pairing, *, samples=TWO_BATCHES, block_size=10):
    """Place of the reference's token by place of the other model's token beside it.

    A place is sample * 1000 + position.
    """
    subject = Numbered()
    recorder = Recorder(Case(subject, subject, Samples(samples, samples), pairing=pairing))
    run_pass(
        [recorder],
        corpus=Tokens(),
        samples=samples,
        block_size=block_size,
        capture=["s"],
        trainer_options={},
    )
    pairs = [
        (b, a)
        for _, other, reference in recorder.seen
        for b, a in zip(other, reference, strict=True)
    ]
    return {int(a): int(b) for b, a in pairs}


def batch_of(place, *, base, span=60):
    return (place // 1000 - base) // span


def test_shuffling_equals_keeps_token_and_position_and_leaves_no_own_state():
    samples = SampleRange("evaluate", 0, 120)
    block = Tokens().sample(samples)
    kind, members = {}, {}
    for row, sample in enumerate(block.sample_ids):
        for position in range(5):
            if block.mask[row, position]:
                place = int(sample) * 1000 + position
                batch = batch_of(place, base=samples.base)
                kind[place] = (batch, position, int(block.ids[row, position]))
                members.setdefault(kind[place], []).append(place)
    found = beside(Pairing("tokpos-shuffled", 3))
    assert found.keys() == kind.keys()
    assert sorted(found.values()) == sorted(kind)  # every state once
    alone = [places[0] for places in members.values() if len(places) == 1]
    assert samples.base * 1000 + 2 in alone
    for place, other in found.items():
        assert kind[other] == kind[place]
        assert (other == place) == (place in alone)
    crossing = sum(a // 1000 // 10 != b // 1000 // 10 for a, b in found.items())
    assert crossing > len(found) / 2  # equals are sought in the batch, not in the block alone


def test_equals_are_shuffled_otherwise_for_every_seed_batch_and_split():
    one, again, other = (beside(Pairing("tokpos-shuffled", seed)) for seed in (3, 3, 4))
    assert one == again
    moved = [place for place in one if one[place] != place]
    assert sum(one[place] != other[place] for place in moved) > 0.8 * len(moved)
    fit_samples = SampleRange("fit", 0, 120)
    fitted = beside(Pairing("tokpos-shuffled", 3), samples=fit_samples)

    def moves(found, batch):
        """What stands at the whole positions of a batch, counted from its first sequence."""
        first = min(found) + 60_000 * batch
        places = (first + 1000 * row + position for row in range(60) for position in range(3))
        return tuple(found[place] - first for place in places)

    # these hold the same tokens, so that only the draw can make them differ
    assert len({moves(found, batch) for found in (one, fitted) for batch in (0, 1)}) == 4


def gaussian(seed=5, *, sites=("s", "t")):
    """A Gaussian with a mean and a covariance that are not round."""
    factor = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -0.7], [0.0, 0.0, 0.1]])
    mean = np.array([10.0, -20.0, 0.5])
    return Gaussian(seed, dict.fromkeys(sites, mean), dict.fromkeys(sites, factor))


class Wide(Numbered):
    """As its parent, with states of three dimensions."""

    def forward(self, block, *, capture=(), edits=None):
        found = super().forward(block, capture=capture)
        return Out({}, {site: states.expand(-1, -1, 3) for site, states in found.captured.items()})


class States(Meter):
    """Keeps the other model's states and the reference's, at every site, with their blocks."""

    def __init__(self, case, sites):
        super().__init__()
        self.case, self.sites, self.seen = case, sites, {site: [] for site in sites}

    def observe(self, view):
        """Adds one batch."""
        for site in self.sites:
            self.seen[site].append((view.slots, *view.states(self.case, site)))

    def at(self, site):
        """Blocks [n], other [n, 3] and reference [n, 3]."""
        return (torch.cat(parts) for parts in zip(*self.seen[site], strict=True))


def drawn(choice, *, samples=MANY, sites=("s", "t"), **changes):
    subject = Wide()
    activations = Activations(**choice)
    ranges = Samples(samples, samples)
    case = Case(subject, subject, ranges, activations=activations, **changes)
    meter = States(case, sites)
    run_pass(
        [meter],
        corpus=Full(),
        samples=samples,
        block_size=16,
        capture=list(sites),
        trainer_options={},
    )
    return meter


def test_gaussian_states_have_the_given_mean_and_covariance_and_the_reference_its_own():
    given = gaussian()
    _, other, reference = drawn({"gaussian": given}).at("s")
    count = len(other)
    assert count == 3200
    covariance = given.factor["s"].T @ given.factor["s"]
    assert not np.allclose(covariance, given.factor["s"] @ given.factor["s"].T)
    deviations = np.sqrt(np.diag(covariance))
    means = (other.mean(0).numpy() - given.mean["s"]) / (deviations / np.sqrt(count))
    assert np.abs(means).max() < 4
    scale = np.outer(deviations, deviations)
    np.testing.assert_allclose(np.cov(other.numpy().T) / scale, covariance / scale, atol=0.08)
    _, _, same = drawn({}).at("s")
    assert torch.equal(reference, same)


def test_gaussian_states_differ_over_blocks_sites_seeds_and_splits():
    found = [drawn({"gaussian": gaussian(seed)}) for seed in (5, 6)]
    found.append(drawn({"gaussian": gaussian(5)}, samples=SampleRange("fit", 0, 640)))
    drawn_states = [
        (slots, other)
        for one in found
        for site in ("s", "t")
        for slots, other, _ in [tuple(one.at(site))]
    ]
    every = torch.cat([other for _, other in drawn_states])
    assert len(torch.unique(every[:, 0])) == len(every)
    slots, again, _ = drawn({"gaussian": gaussian(5)}).at("s")
    assert torch.equal(again, drawn_states[0][1])
    assert len(slots.unique()) == 40


def test_gaussian_states_are_offset_and_shuffled_like_a_models():
    slots, plain, _ = drawn({"gaussian": gaussian()}).at("s")
    offset = torch.tensor([1.0, 2.0, 3.0])
    _, moved, _ = drawn({"gaussian": gaussian(), "offset": {"s": offset}}).at("s")
    torch.testing.assert_close(moved, plain + offset.double())
    _, shuffled, _ = drawn({"gaussian": gaussian()}, pairing=Pairing("shuffled", 1)).at("s")
    assert not torch.equal(shuffled, plain)
    for block in slots.unique():
        one, other = plain[slots == block], shuffled[slots == block]
        assert torch.equal(one[one[:, 0].argsort()], other[other[:, 0].argsort()])


def test_the_same_pairing_moves_nothing():
    found = orders(SampleRange("fit", 0, 20), pairing=Pairing())
    assert set(map(tuple, found.values())) == {tuple(range(50))}


def test_the_offset_is_added_to_the_other_models_states_where_there_is_one():
    block = to_torch(Full().sample(SampleRange("fit", 0, 4)))
    view = View(Batch(block, torch.zeros(4, dtype=torch.int64)), capture=["s", "t"], first_block=0)
    one, other = Numbered(), Numbered()
    ranges = Samples(FIT, EVALUATE)
    plain = Case(one, other, ranges)
    moved = Case(one, other, ranges, activations=Activations({"s": torch.tensor([0.25])}))
    b, a = view.states(moved, "s")
    assert torch.equal(a, view.states(plain, "s")[1])
    assert torch.equal(b, view.states(plain, "s")[0] + 0.25)
    assert torch.equal(view.states(moved, "t")[0], view.states(plain, "t")[0])


# --- gauge-self can fail ----------------------------------------------------------------------


@pytest.fixture
def gauge_self_ev(zoo_pair):
    """Paired EV of the shipped gauge-self control at every site, measured by the shipped suite."""
    samples = Samples(SampleRange("fit", 0, 128), SampleRange("evaluate", 0, 128))

    def measured(name="gauge-self"):
        found = control(name, Case(*zoo_pair, samples), seed=11)
        context = Context(Dyck3(7), 16, PLAN, frozenset({(PAIRED.id, "rotated")}), 0, {})
        return {m.site: m.value for m in measure([found], context)[0]}

    return measured


def test_gauge_self_passes_with_the_fitted_map(gauge_self_ev):
    found = gauge_self_ev()
    assert set(found) == set(SITES)
    assert min(found.values()) > 1 - 1e-6


def breaking(monkeypatch, change):
    """Changes every map that the shipped fit gives."""
    shipped = fit.procrustes

    def procrustes(given: Moments) -> AffineMap:
        return change(shipped(given))

    monkeypatch.setattr(fit, "procrustes", procrustes)


def without_means(found):
    return found._replace(mean_other=0 * found.mean_other, mean_reference=0 * found.mean_reference)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda found: found._replace(R=found.R.T), id="transpose"),
        pytest.param(lambda found: found._replace(R=np.eye(len(found.R))), id="no-rotation"),
    ],
)
def test_gauge_self_fails_with_another_rotation(gauge_self_ev, monkeypatch, change):
    breaking(monkeypatch, change)
    assert max(gauge_self_ev().values()) < 0.5


def test_gauge_self_is_short_of_one_without_the_means(gauge_self_ev, monkeypatch):
    """By the offset, which is far above the rounding of the fitted map."""
    rounding = 1 - min(gauge_self_ev().values())
    breaking(monkeypatch, without_means)
    assert 1 - max(gauge_self_ev().values()) > max(1e-3, 1e4 * rounding)


def test_gauge_self_fails_without_the_means(gauge_self_ev, monkeypatch):
    breaking(monkeypatch, without_means)
    assert max(gauge_self_ev().values()) < 0.5


def test_gauge_self_fails_unaligned(gauge_self_ev):
    assert max(gauge_self_ev("gauge-self-unaligned").values()) < 0


# --- which seeds a run gives them -------------------------------------------------------------


@pytest.fixture
def made(tmp_path, save_random, unmeasured, hypothesis, register):
    """What a run makes, for a corpus seed, of the shipped file with all models and another pair.

    Name, pair, seed, draw and models of every control, and the controls that are registered.
    """

    def collect(corpus_seed):
        plain = hypothesis(
            {
                "subjects.others": {"b": "zoo:dyck3/indep-101", "c": save_random(8)},
                "subjects.controls": {name: save_random(20 + i) for i, name in enumerate(NAMED)},
                "corpus.seed": corpus_seed,
            }
        )
        home = Workspace(tmp_path / f"home-{corpus_seed}")
        identifier = register(home, plain)
        unmeasured.made.clear()
        run(home, identifier)
        others = list(dict.fromkeys(case.other for _, case, *_ in unmeasured.made))
        calls = [(name, others.index(case.other), *more) for name, case, *more in unmeasured.made]
        return calls, home.registration(identifier).resolved.suite.controls

    return collect


def test_control_seeds_differ_by_pair_and_by_corpus_seed(made):
    calls = {seed: made(seed)[0] for seed in (7, 8)}
    roots = {(s, pair): {c[2] for c in calls[s] if c[1] == pair} for s in (7, 8) for pair in (0, 1)}
    assert all(len(found) == 1 for found in roots.values())
    assert len(set.union(*roots.values())) == 4
    assert not {7, 8} & set.union(*roots.values())


def test_random_controls_are_drawn_as_often_as_registered_and_others_once(made):
    draws = {}
    calls, registered = made(7)
    for name, pair, _, draw, _ in calls:
        draws.setdefault((name, pair), []).append(draw)
    assert set(draws) == {(control.name, pair) for control in registered for pair in (0, 1)}
    assert {*NAMED} < {name for name, _ in draws}
    for (name, _), found in draws.items():
        assert found == list(range(32 if name in RANDOM else 1))


def test_every_control_is_given_the_models_that_the_registration_names(made, save_random):
    from harness.subjects.loading import load
    from harness.subjects.reference import locate

    calls, _ = made(7)
    given = [call[4] for call in calls]
    assert all(models is given[0] for models in given)  # loaded once
    assert sorted(given[0]) == sorted(NAMED)
    for i, name in enumerate(NAMED):
        expected = load(locate(save_random(20 + i)))
        assert not weights_differ(given[0][name], expected)


def test_controls_of_the_harness_do_not_touch_the_given_case(case):
    before = {f.name: getattr(case, f.name) for f in fields(Case)}
    stored = {name: tensor.clone() for name, tensor in case.reference.weights().items()}
    controls.gauge_self(case, seed=1, sites=SITES)
    controls.gauge_self_unaligned(case, seed=1)
    controls.untrained(case, seed=1)
    assert all(getattr(case, name) is value for name, value in before.items())
    assert all(torch.equal(case.reference.weights()[name], t) for name, t in stored.items())
