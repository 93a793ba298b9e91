"""What a definition says of means, directions, fit samples and totals: each, violated, is seen.

States are made of orthogonal columns, so that the map which any fit must find is known exactly, and
evaluation differs from fit in mean and in the true rotation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard

from harness.case import Case, DictionaryChoice, Samples
from harness.corpora.block import Block, SampleRange
from harness.gauge.fit import haar
from harness.sae.dictionary import Dictionary
from harness.sae.recipe import DictionaryRecipe
from harness.sae.train import Trained
from harness.subjects.subject import Out
from suites.rotation import measure as shipped
from suites.rotation.measure import dictionary, frame, measure
from suites.rotation.measure.frame import Frame, squared
from suites.rotation.plan import RotationPlan

PAIRED, STITCH = "alignment.ev.paired@1", "alignment.stitch@1"
EXCESS, WHITENED = "alignment.ev.linear_excess@1", "alignment.ev.whitened@1"
SHARE = "rotation.identity_share@1"

D, HALF = 24, 12
LENGTH = 8
TOKENS = {"fit": 512, "evaluate": 256}
SIGMA = np.sqrt(np.concatenate((np.arange(12.0, 0.0, -1.0), np.zeros(HALF))))
PHI, TAU = 0.4, 0.9  # noise along the reference's directions, as a share of them; beside them
KEPT = (0, 3, 4, 7)  # directions that the dictionary knows
PAIRED_ARMS = ("raw", "shift-only", "rotated", "scaled", "linear")
CODED = ("self", "raw", "shift_only", "rotated", "scaled", "linear", "gap_to_self", "paired")


def orthogonal(tokens, first):
    """Columns [tokens, 12] of +-1, each of mean zero and orthogonal to every other's."""
    return hadamard(tokens)[:, first : first + HALF].astype(float)


@dataclass(frozen=True, eq=False)
class World:
    """x_A = m_A + a, x_B = ((m_A - c) T + a T + f + e) G + o, with T = 1 on the fit samples.

    a and f lie along the first twelve directions, e along the other twelve, and all their columns
    are uncorrelated. So R = G^T on what varies in A, the scale is |a|^2 / (|a|^2 + |f|^2 + |e|^2),
    and the linear map 1 / (1 + PHI^2) of G^T on the first twelve, nothing beyond.
    """

    turn: np.ndarray
    planted: np.ndarray
    centre: np.ndarray
    moved: np.ndarray
    offset: np.ndarray

    def parts(self, split):
        """a, f and e, [tokens, d]."""
        n, shift = TOKENS[split], 1 if split == "fit" else 40
        a, f, e = np.zeros((3, n, D))
        a[:, :HALF] = orthogonal(n, shift) * SIGMA[:HALF]
        f[:, :HALF] = PHI * orthogonal(n, shift + HALF) * SIGMA[:HALF]
        e[:, HALF:] = TAU * orthogonal(n, shift + 2 * HALF)
        return a, f, e

    def seen(self, split):
        """x_B before it was turned by G and moved by o: about zero where A's fit mean is."""
        a, f, e = self.parts(split)
        return a + f + e if split == "fit" else (self.moved + a) @ self.turn + f + e

    def reference(self, split):
        """x_A."""
        return self.centre + (0 if split == "fit" else self.moved) + self.parts(split)[0]

    def other(self, split):
        """x_B."""
        return self.seen(split) @ self.planted + self.offset

    def carried(self, arm):
        """x~_B of the evaluation by the map that is known to be right."""
        x, noise = self.seen("evaluate"), PHI**2 + HALF * TAU**2 / np.square(SIGMA).sum()
        match arm:
            case "raw":
                return self.other("evaluate")
            case "shift-only":
                return x @ self.planted + self.centre
            case "rotated":
                return x + self.centre
            case "scaled":
                return x / (1 + noise) + self.centre
            case "linear":
                return np.where(SIGMA > 0, x / (1 + PHI**2), 0.0) + self.centre
        raise ValueError(arm)


class Stored:
    """A subject whose states are given."""

    architecture = SimpleNamespace(size=lambda _: D)

    def __init__(self, by_split):
        self.by_split = by_split

    def to(self, _):
        return self

    def forward(self, block, *, capture=(), edits=None):
        first = int(block.sample_ids[0])
        split = next(s for s in TOKENS if 0 <= first - SampleRange(s, 0, 1).base < 1 << 30)
        rows = (block.sample_ids - SampleRange(split, 0, 1).base) * LENGTH
        states = self.by_split[split][rows[:, None] + torch.arange(LENGTH)]
        return Out({}, dict.fromkeys(capture, states))


class Full:
    """Sequences of eight tokens without padding."""

    def sample(self, samples):
        shape = (samples.count, LENGTH)
        ids = np.arange(samples.base, samples.base + samples.count, dtype=np.int64)
        return Block(np.zeros(shape, np.int64), np.ones(shape, bool), ids, {})


def make_world(*, turned):
    rng = np.random.default_rng(3)
    turn = np.eye(D)
    if turned:  # directions of unlike variance change places, some signs flip
        order = [3, 1, 7, 0, 9, 5, 10, 2, 8, 4, 6, 11, *range(HALF, D)]
        turn = turn[order] * np.where(np.arange(D) % 3 == 0, -1.0, 1.0)
    moved = np.where(SIGMA > 0, 2.0 * rng.standard_normal(D), 0.0)
    return World(
        turn,
        haar(D, generator=rng),
        5 * rng.standard_normal(D),
        moved,
        30 * rng.standard_normal(D),
    )


def projection(centre):
    """A dictionary that returns the part of x - centre along the kept directions."""
    rows = np.eye(D)[list(KEPT)]
    W_dec = torch.from_numpy(np.concatenate((rows, -rows)))
    return Dictionary(
        W_enc=W_dec.T.contiguous(),
        b_enc=torch.zeros(len(W_dec), dtype=torch.float64),
        W_dec=W_dec,
        b_dec=torch.from_numpy(centre),
        kind="relu",
    )


@pytest.fixture(autouse=True, scope="module")
def rough_dictionaries():
    """The planted world's dictionary explains little of its own states, and that is no matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("suites.rotation.measure.dictionary.LEAST_OWN", -1e9)
        yield


@pytest.fixture(scope="module")
def build(given, context):
    """A world, and what the shipped code measures in it."""
    plan = RotationPlan(
        sites=("s",), dictionaries={"p": DictionaryRecipe(kind="relu", l1=0.0, width=8, steps=1)}
    )
    wanted = [(PAIRED, arm) for arm in PAIRED_ARMS]
    wanted += [(one, None) for one in (EXCESS, WHITENED, SHARE)]
    wanted += [(f"sae.ev.{one}@1", "p") for one in CODED]

    def make(*, turned):
        world = make_world(turned=turned)
        subjects = (
            Stored({split: torch.from_numpy(states(split)) for split in TOKENS})
            for states in (world.reference, world.other)
        )
        ranges = Samples(*(SampleRange(s, 0, n // LENGTH) for s, n in TOKENS.items()))
        known = projection(world.centre + world.moved)
        choice = DictionaryChoice(given({("s", "p"): Trained(known, None)}))
        case = Case(*subjects, ranges, dictionary=choice)

        def found():
            row = measure([case], context(*wanted, plan=plan, corpus=Full()))[0]
            return {(m.statistic, m.arm if m.statistic == PAIRED else None): m.value for m in row}

        return world, found

    return make


def truths(world, ev):
    """Every statistic from the planted map alone, without any fit."""
    a = world.reference("evaluate")
    x = {arm: world.carried(arm) for arm in PAIRED_ARMS}

    def code(states):
        centre = world.centre + world.moved
        kept = np.isin(np.arange(D), KEPT)
        return centre + np.where(kept, states - centre, 0.0)

    paired = {arm: ev(states, a) for arm, states in x.items()}
    axes = [ev(x["rotated"][:, [p]], a[:, [p]]) for p in range(HALF)]
    cross = (x["raw"] - x["raw"].mean(0)).T @ (a - a.mean(0))
    own = ev(code(a), a)
    coded = {arm: ev(code(states), states) for arm, states in x.items()}
    found = {(PAIRED, arm): value for arm, value in paired.items()}
    found |= {
        (EXCESS, None): paired["linear"] - paired["rotated"],
        (WHITENED, None): np.mean(axes),
        (SHARE, None): np.trace(cross) / np.linalg.norm(cross, "nuc"),
        ("sae.ev.self@1", None): own,
        ("sae.ev.paired@1", None): ev(code(x["rotated"]), a),
        ("sae.ev.gap_to_self@1", None): coded["rotated"] - own,
    }
    return found | {
        (f"sae.ev.{arm.replace('-', '_')}@1", None): value for arm, value in coded.items()
    }


@pytest.mark.parametrize("turned", [False, True])
def test_every_statistic_has_the_value_that_the_planted_map_gives(build, plain_ev, turned):
    world, found = build(turned=turned)
    expected = truths(world, plain_ev)
    measured = found()
    assert measured.keys() == expected.keys()
    for key, value in expected.items():
        assert measured[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


def test_values_that_follow_from_the_shares_of_variance(build):
    """By hand: V = 78 in a, of which the dictionary knows 12 + 9 + 8 + 5."""
    found = build(turned=False)[1]()
    beside, known = HALF * TAU**2 / 78, 34 / 78
    approx = pytest.approx
    assert found[PAIRED, "rotated"] == approx(1 - PHI**2 - beside, abs=1e-9)
    assert found[WHITENED, None] == approx(1 - PHI**2, abs=1e-9)
    assert found["sae.ev.self@1", None] == approx(known, abs=1e-9)
    rotated = known * (1 + PHI**2) / (1 + PHI**2 + beside)
    assert found["sae.ev.rotated@1", None] == approx(rotated, abs=1e-9)
    assert found["sae.ev.gap_to_self@1", None] == approx(rotated - known, abs=1e-9)
    assert found["sae.ev.paired@1", None] == approx(known * (1 - PHI**2), abs=1e-9)


SHIFTED = {
    *((PAIRED, arm) for arm in ("shift-only", "rotated", "scaled", "linear")),
    *((one, None) for one in (EXCESS, WHITENED)),
    *((f"sae.ev.{one}@1", None) for one in CODED if one not in ("self", "raw")),
}
"""What reads a fit mean."""
TURNED = SHIFTED - {(PAIRED, "shift-only"), ("sae.ev.shift_only@1", None)}
"""What reads a fitted direction."""
AGAINST_A = {
    *((PAIRED, arm) for arm in PAIRED_ARMS),
    *((one, None) for one in (EXCESS, WHITENED, "sae.ev.self@1", "sae.ev.paired@1")),
    ("sae.ev.gap_to_self@1", None),
}
"""What has the reference's total."""
AGAINST_B = {
    *((f"sae.ev.{one}@1", None) for one in CODED if one not in ("self", "paired")),
}
"""What has the total of the carried states."""


def mapping(change):
    """Changes every map: change(frame, site, arm, shipped map)."""
    given = Frame.map

    def apply(patch):
        def changed(self, site, arm):
            return change(self, site, arm, given(self, site, arm))

        patch.setattr(Frame, "map", changed)

    return apply


def fitted_on_evaluation(self, site, arm, _):
    moments = self.whole[site]
    return frame.fit_map(self.case.map, moments) if arm == "rotated" else frame._FITS[arm](moments)


def evaluation_means(self, site, arm, found):
    if arm in ("raw", "pure-rotation"):
        return found
    moments = self.whole[site]
    return found._replace(mean_other=moments.mean_other, mean_reference=moments.mean_reference)


def centring(mean):
    """Moves the centre of the reference's total to mean(frame, site)."""
    given = shipped._frames

    def moved(one):
        whole = {
            site: moments._replace(sum_reference=moments.tokens * mean(one, site))
            for site, moments in one.whole.items()
        }
        return replace(one, whole=whole)

    def apply(patch):
        patch.setattr(
            shipped, "_frames", lambda *args, **more: [moved(f) for f in given(*args, **more)]
        )

    return apply


def carried_centring(mean):
    """Moves the centre of the total of the carried states to mean(frame, site, arm)."""

    def total(self, view, site, arm):
        states = self.carried(view, site, arm)
        return squared(states - torch.from_numpy(np.asarray(mean(self, site, arm), float)))

    return lambda patch: patch.setattr(Frame, "carried_total", total)


def patched(owner, name, value):
    return lambda patch: patch.setattr(owner, name, value)


MUTATIONS = {
    "both means left out": (
        mapping(lambda *a: a[3]._replace(mean_other=np.zeros(D), mean_reference=np.zeros(D))),
        SHIFTED,
    ),
    "the other's mean left out": (
        mapping(lambda *a: a[3]._replace(mean_other=np.zeros(D))),
        SHIFTED,
    ),
    "the reference's mean left out": (
        mapping(lambda *a: a[3]._replace(mean_reference=np.zeros(D))),
        SHIFTED - {(EXCESS, None)},  # both of its maps miss it alike: see the next
    ),
    "the reference's mean left out of the rotation": (
        mapping(
            lambda *a: a[3]._replace(mean_reference=np.zeros(D)) if a[2] == "rotated" else a[3]
        ),
        {(EXCESS, None)},
    ),
    "the reference's mean left out of the linear map": (
        mapping(lambda *a: a[3]._replace(mean_reference=np.zeros(D)) if a[2] == "linear" else a[3]),
        {(EXCESS, None)},
    ),
    "transposed": (mapping(lambda *a: a[3]._replace(R=a[3].R.T)), TURNED),
    "fitted on the evaluation": (mapping(fitted_on_evaluation), SHIFTED),
    "means of the evaluation": (mapping(evaluation_means), SHIFTED),
    "reference centred on zero": (centring(lambda *_: np.zeros(D)), AGAINST_A | {(SHARE, None)}),
    "reference centred on its fit mean": (
        centring(lambda one, site: one.fitted[site].whole.mean_reference),
        AGAINST_A,
    ),
    "reference centred on the other's mean": (
        centring(lambda one, site: one.whole[site].mean_other),
        AGAINST_A | {(SHARE, None)},
    ),
    "carried states centred on zero": (carried_centring(lambda *_: np.zeros(D)), AGAINST_B),
    "carried states centred on their fit mean": (
        carried_centring(lambda f, s, arm: f.map(s, arm).apply(f.fitted[s].whole.mean_other)),
        AGAINST_B,
    ),
    "carried states centred on the reference's mean": (
        carried_centring(lambda f, s, arm: f.whole[s].mean_reference),
        AGAINST_B,
    ),
    "carried states centred where the other's mean was": (
        carried_centring(lambda f, s, arm: f.whole[s].mean_other),
        AGAINST_B - {("sae.ev.raw@1", None)},  # there it is the right one
    ),
    "total of the reference for that of the carried states": (
        patched(Frame, "carried_total", lambda self, view, site, arm: self.total(view, site)),
        AGAINST_B,
    ),
    "total of the carried states for that of the reference": (
        patched(Frame, "total", lambda self, view, site: self.carried_total(view, site, "rotated")),
        AGAINST_A - {(WHITENED, None)},  # which forms its own
    ),
    "residual against the reference": (
        patched(
            dictionary._Coded,
            "_residual",
            lambda self, view, *, arm: squared(
                self._coded(view, arm) - self.frame.reference(view, self.site)
            ),
        ),
        AGAINST_B,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_definition_that_is_violated_shows_in_everything_it_is_about(
    build, plain_ev, monkeypatch, name
):
    world, found = build(turned=True)
    expected = truths(world, plain_ev)
    apply, about = MUTATIONS[name]
    assert about <= expected.keys()
    apply(monkeypatch)
    measured = found()
    for key in about:
        seen = measured[key] is None or abs(measured[key] - expected[key]) > 1e-3
        assert seen, key
