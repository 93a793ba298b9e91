"""Controls: which fields of a case each one replaces, by what, and that they can fail."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from harness import controls
from harness.case import Activations, Case, MapChoice, Pairing, Samples
from harness.corpora.block import Block, SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge import fit
from harness.gauge.fit import AffineMap, Moments, haar
from harness.measured import Context, Measured
from harness.resolve import prepare
from harness.run import run
from harness.runners.blocks import Batch, to_torch
from harness.runners.measure import Meter, View, run_pass
from harness.streams import generator
from harness.subjects.subject import Out
from harness.suite import suite
from prereg.hypothesis import parse_hypothesis
from prereg.workspace import Workspace
from suites.rotation.catalogue import CONTROLS, PAIRED
from suites.rotation.controls import make_control
from suites.rotation.measure import measure
from suites.rotation.measure.transfer import fit_map
from suites.rotation.plan import RotationPlan

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PLAN = RotationPlan(sites=SITES)
NAMES = tuple(spec.name for spec in CONTROLS)
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
    )


def control(name, case, *, seed=1, draw=0):
    return make_control(name, case, plan=PLAN, seed=seed, draw=draw)


def weights_differ(one, other):
    """Names of the tensors in which two subjects differ."""
    given, found = one.weights(), other.weights()
    return {name for name in given if not torch.equal(given[name], found[name])}


# --- which fields -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", CONTROLS, ids=lambda spec: spec.name)
def test_a_control_replaces_the_fields_that_its_row_names_and_no_other(case, spec):
    found = control(spec.name, case)
    changed = {f.name for f in fields(Case) if getattr(found, f.name) != getattr(case, f.name)}
    assert changed == set(spec.replaces)
    kept = {f.name for f in fields(Case)} - changed
    assert all(getattr(found, name) is getattr(case, name) for name in kept)


def test_only_the_catalogues_controls_are_made(case):
    with pytest.raises(ValueError, match="self-frsh"):
        control("self-frsh", case)


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


def test_gauge_self_unaligned_is_gauge_self_without_a_map(case):
    aligned, found = control("gauge-self", case), control("gauge-self-unaligned", case)
    assert found.map == MapChoice("identity")
    assert not weights_differ(aligned.other, found.other)
    assert weights_differ(found.other, case.reference)
    for site, offset in aligned.activations.offset.items():
        assert torch.equal(found.activations.offset[site], offset)


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


@pytest.mark.parametrize("name", ["covariance-only", "shuffled"])
def test_random_controls_read_the_registered_number_of_sequences(case, name):
    found = control(name, case).samples
    assert found == Samples(FIT.head(128), EVALUATE.head(128))
    few = Case(case.reference, case.other, Samples(FIT.head(30), EVALUATE.head(40)))
    assert control(name, few).samples == few.samples


def streams(name, case, *, seed):
    found = [control(name, case, seed=seed, draw=draw) for draw in range(32)]
    return [one.map.seed if name == "covariance-only" else one.pairing.seed for one in found]


@pytest.mark.parametrize("name", ["covariance-only", "shuffled"])
def test_every_draw_of_every_seed_has_a_stream_of_its_own(case, name):
    assert len({*streams(name, case, seed=1), *streams(name, case, seed=2)}) == 64
    assert streams(name, case, seed=1) == streams(name, case, seed=1)


def test_the_two_random_controls_share_no_stream(case):
    assert not {*streams("shuffled", case, seed=1)} & {*streams("covariance-only", case, seed=1)}


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
        context = Context(Dyck3(7), 16, PLAN, frozenset({PAIRED.id}), {})
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
def made(tmp_path, save_random, monkeypatch):
    """Name, pair, seed and draw of every control that a run makes, for a corpus seed."""

    def collect(corpus_seed):
        text = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")
        others = {"b": "zoo:dyck3/indep-101", "c": save_random(8)}
        source = (
            text.replace("  others:\n    b: zoo:dyck3/indep-101", f"  others: {others}")
            .replace("seed: 7", f"seed: {corpus_seed}")
            .encode()
        )
        found = prepare(parse_hypothesis(source, name="claim.yaml", is_json=False))
        home = Workspace(tmp_path / f"home-{corpus_seed}")
        home.register(found.registration, source, suffix="yaml")
        calls, subjects = [], []

        def make(name, case, *, plan, seed, draw):
            if case.other not in subjects:
                subjects.append(case.other)
            calls.append((name, subjects.index(case.other), seed, draw))
            return case

        def stub(cases, context):
            return [[Measured(PAIRED.id, SITES[0], undefined="not measured")] for _ in cases]

        loaded = {"measure": stub, "make_control": make}
        monkeypatch.setattr("harness.run.load_callable", lambda w: loaded[w.partition(":")[2]])
        run(home, found.registration.id)
        return calls

    return collect


def test_control_seeds_differ_by_pair_and_by_corpus_seed(made):
    calls = {seed: made(seed) for seed in (7, 8)}
    roots = {(s, pair): {c[2] for c in calls[s] if c[1] == pair} for s in (7, 8) for pair in (0, 1)}
    assert all(len(found) == 1 for found in roots.values())
    assert len(set.union(*roots.values())) == 4
    assert not {7, 8} & set.union(*roots.values())


def test_random_controls_are_drawn_as_often_as_registered_and_others_once(made):
    draws = {}
    for name, pair, _, draw in made(7):
        draws.setdefault((name, pair), []).append(draw)
    assert {name for name, _ in draws} == set(NAMES) - {"gauge-self-unaligned"}
    random = {spec.name: spec.random for spec in CONTROLS}
    for (name, _), found in draws.items():
        assert found == list(range(32 if random[name] else 1))


def test_controls_of_the_harness_do_not_touch_the_given_case(case):
    before = {f.name: getattr(case, f.name) for f in fields(Case)}
    stored = {name: tensor.clone() for name, tensor in case.reference.weights().items()}
    controls.gauge_self_unaligned(case, seed=1, sites=SITES)
    controls.untrained(case, seed=1)
    assert all(getattr(case, name) is value for name, value in before.items())
    assert all(torch.equal(case.reference.weights()[name], t) for name, t in stored.items())
