"""The rotation suite against statistics computed in one go from all states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.case import Activations, Case
from harness.corpora.block import SampleRange
from harness.runners.blocks import to_torch
from suites.rotation import SUITE
from suites.rotation.measure import measure

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
ARMS = ("raw", "shift-only", "pure-rotation", "rotated", "scaled", "linear")
KL, PAIRED, STITCH = "bar.behavioural.kl@1", "alignment.ev.paired@1", "alignment.stitch@1"
EXCESS, WHITENED = "alignment.ev.linear_excess@1", "alignment.ev.whitened@1"
GAINS = ("alignment.ev.paired.state_gain@1", "alignment.stitch.state_gain@1")


@pytest.fixture(scope="module")
def value(found, values):
    """The value of a statistic at a site."""
    return lambda statistic, site, arm=None: values(found)[statistic, site, arm]


# --- against the values from all states ---------------------------------------------------------


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("arm", ARMS)
def test_paired_ev_of_every_arm(case, plain, value, site, arm):
    expected = plain(case).paired(site, arm)
    assert value(PAIRED, site, arm) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("arm", ARMS)
def test_stitch_of_every_arm(case, plain, value, site, arm):
    expected = plain(case).stitch(site, arm)
    assert value(STITCH, site, arm) == pytest.approx(expected, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("site", SITES)
def test_linear_excess_whitened_and_identity_share(case, plain, value, site):
    one = plain(case)
    excess = one.paired(site, "linear") - one.paired(site, "rotated")
    assert value(EXCESS, site) == pytest.approx(excess, rel=1e-7)
    assert value(WHITENED, site) == pytest.approx(one.whitened(site), rel=1e-7)
    share = one.identity_share(site)
    assert value("rotation.identity_share@1", site) == pytest.approx(share, rel=1e-8)


@pytest.mark.parametrize("site", SITES)
def test_the_rotation_and_its_ranks(case, plain, value, site):
    one = plain(case)
    R, singular, vt = one.rotation(site)
    even = one.halves(16)
    first, second = (one.rotation(site, rows)[0] for rows in (even, ~even))
    stable = int((((first @ vt.T) * (second @ vt.T)).sum(0) >= 0.9).sum())
    gaps = -np.diff(singular[: stable + 1]) / singular[0]
    assert 5 < stable < 64
    expected = {
        "frobenius": np.linalg.norm(R - np.eye(64)),
        "rank.reference": one.effective_rank(site, 1),
        "rank.other": one.effective_rank(site, 0),
        "rank.stable": stable,
        "rank.gap": gaps.min(),
    }
    for name, number in expected.items():
        assert value(f"rotation.{name}@1", site) == pytest.approx(number, rel=1e-6), name


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("variant", ["top", "re"])
@pytest.mark.parametrize(
    "statistic",
    [*("self", "gap_to_self", "paired", "l0"), *(arm.replace("-", "_") for arm in ARMS)],
)
def test_every_statistic_of_a_dictionary(case, plain, value, site, variant, statistic):
    name = "sae.l0@1" if statistic == "l0" else f"sae.ev.{statistic}@1"
    expected = plain(case).dictionary(statistic, site, variant)
    assert value(name, site, variant) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_kl_equals_the_value_from_all_logits(case, value):
    block = to_torch(case_corpus().sample(case.samples.evaluate))
    mask = block.mask.numpy()
    p, q = (
        {h: x.numpy()[mask] for h, x in subject.forward(block).logits.items()}
        for subject in (case.reference, case.other)
    )
    logs = [(log_softmax(p[head]), log_softmax(q[head])) for head in p]
    expected = np.mean([(np.exp(a) * (a - b)).sum(1).mean() for a, b in logs])
    assert value(KL, None) == pytest.approx(expected, rel=1e-9)


def case_corpus():
    from harness.corpora.dyck3 import Dyck3

    return Dyck3(7)


def log_softmax(x):
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def test_dictionaries_in_their_own_dtype_give_the_same(case, dictionaries, context, plain, values):
    from dataclasses import replace

    from harness.case import DictionaryChoice

    shipped = replace(case, dictionary=DictionaryChoice(dictionaries))
    assert dictionaries.trained[SITES[0], "top"].dictionary.W_dec.dtype == torch.float32
    wanted = [(f"sae.ev.{s}@1", v) for s in ("rotated", "paired", "self") for v in ("top", "re")]
    row = values(measure([shipped], context(*wanted))[0])
    for (statistic, site, variant), number in row.items():
        name = statistic.removeprefix("sae.ev.").removesuffix("@1")
        assert number == pytest.approx(plain(case).dictionary(name, site, variant), rel=1e-4)


@pytest.mark.slow
def test_gains_are_the_values_on_few_sequences_held_against_shuffles(pair, samples, context, plain):
    """32 draws, each a case of its own; the first is computed from all states."""
    case = Case(*pair, samples(130, 140))
    row = measure([case], context(*((gain, None) for gain in GAINS)))[0]
    small = plain(Case(*pair, samples(128, 128)))
    assert {(m.statistic, m.site) for m in row} == {(g, s) for g in GAINS for s in SITES}
    for m in row:
        one_shot = small.paired if m.statistic == GAINS[0] else small.stitch
        assert m.value == pytest.approx(one_shot(m.site, "rotated"), rel=1e-7)
        assert len(m.draws) == len(set(m.draws)) == 32
        assert max(m.draws) < m.value
    again = measure([case], context((GAINS[0], None)))[0]
    other = measure([case], context((GAINS[0], None), seed=6))[0]
    first = [m for m in row if m.statistic == GAINS[0]]
    assert [m.draws for m in again] == [m.draws for m in first]
    assert not {d for m in other for d in m.draws} & {d for m in first for d in m.draws}


# --- columns, blocks, passes --------------------------------------------------------------------


def test_the_judge_gets_the_same_values_from_the_columns(found):
    """By the estimator that the catalogue states, as the judge computes it."""
    estimators = {entry.id: entry.estimator for entry in SUITE.catalogue}
    seen = set()
    for m in found:
        if m.columns is None:
            assert estimators[m.statistic] == "exact"
            continue
        assert {len(column) for column in m.columns.values()} == {21}
        c = {name: float(column.sum()) for name, column in m.columns.items()}
        recomputed = {
            "one_minus_ratio": lambda c=c: 1 - c["residual"] / c["total"],
            "ratio": lambda c=c: c["numerator"] / c["denominator"],
            "difference": lambda c=c: (
                c["residual_b"] / c["total_b"] - c["residual_a"] / c["total_a"]
            ),
            "mean": lambda c=c: c["total"] / c["weight"],
            "rare_mean": lambda c=c: (c["body"] + c["tail"]) / c["positions"],
        }[estimators[m.statistic]]()
        assert recomputed == pytest.approx(m.value, rel=1e-9, abs=1e-10), m.statistic
        seen.add(estimators[m.statistic])
    assert seen == {"one_minus_ratio", "ratio", "difference", "mean", "rare_mean"}


@pytest.mark.parametrize("site", SITES)
def test_a_block_holds_the_sums_of_its_own_sequences(case, plain, found, site):
    """Centres and weights are those of the whole evaluation: the jackknife deletes sums alone."""
    one = plain(case)
    (b, a), x = one.states("evaluate", site), {arm: one.carried(site, arm)[0] for arm in ARMS}
    mask = case_corpus().sample(case.samples.evaluate).mask
    block = np.repeat(np.arange(330) // 16, mask.sum(1))
    polar = one.polar(site)
    own, rotated = (one.code(site, "re", states) for states in (a, x["rotated"]))
    squares = {
        "own": own[0] - a,
        "a": a - a.mean(0),
        "rotated": x["rotated"] - a,
        "linear": x["linear"] - a,
        "coded": rotated[0] - x["rotated"],
        "x": x["rotated"] - x["rotated"].mean(0),
        "paired": rotated[0] - a,
    }
    of = {name: np.square(rows).sum(1) for name, rows in squares.items()}
    centred = b - b.mean(0)
    expected = {
        (PAIRED, "rotated"): {"residual": of["rotated"], "total": of["a"]},
        (EXCESS, None): {
            "residual_a": of["linear"],
            "total_a": of["a"],
            "residual_b": of["rotated"],
            "total_b": of["a"],
        },
        ("rotation.identity_share@1", None): {
            "numerator": (centred * squares["a"]).sum(1),
            "denominator": (centred @ polar * squares["a"]).sum(1),
        },
        ("sae.ev.self@1", "re"): {"residual": of["own"], "total": of["a"]},
        ("sae.ev.rotated@1", "re"): {"residual": of["coded"], "total": of["x"]},
        ("sae.ev.paired@1", "re"): {"residual": of["paired"], "total": of["a"]},
        ("sae.ev.gap_to_self@1", "re"): {
            "residual_a": of["coded"],
            "total_a": of["x"],
            "residual_b": of["own"],
            "total_b": of["a"],
        },
        ("sae.l0@1", "re"): {"total": own[1], "weight": np.ones(len(a))},
    }
    measured = {(m.statistic, m.arm): m.columns for m in found if m.site == site}
    for key, columns in expected.items():
        assert measured[key].keys() == columns.keys()
        for name, tokens in columns.items():
            sums = np.bincount(block, tokens)
            scale = np.abs(sums).max()
            np.testing.assert_allclose(
                measured[key][name], sums, rtol=1e-7, atol=1e-9 * scale, err_msg=str((key, name))
            )


def test_block_size_does_not_move_the_values(case, context, value, values):
    """But for the ranks, which are read off halves of the blocks."""
    again = values(measure([case], context(block_size=5))[0])
    for (statistic, site, arm), number in again.items():
        if statistic not in ("rotation.rank.stable@1", "rotation.rank.gap@1"):
            assert number == pytest.approx(value(statistic, site, arm), rel=1e-7, abs=1e-9)


def test_an_offset_of_the_other_model_is_absorbed_by_the_means(case, context, value, values):
    from dataclasses import replace

    offset = {site: torch.full((64,), 9.0, dtype=torch.float64) for site in SITES}
    moved = values(measure([replace(case, activations=Activations(offset))], context())[0])
    free = {"raw", "pure-rotation"}
    touched = ("sae.ev.raw@1", "sae.ev.pure_rotation@1")
    for (statistic, site, arm), number in moved.items():
        same = pytest.approx(value(statistic, site, arm), rel=1e-5, abs=1e-7)
        if arm in free or statistic in touched:
            assert number != same
        else:
            assert number == same, (statistic, site, arm)


def test_samples_that_are_read_are_those_of_the_case(case, context):
    """Maps come from the fit samples: the passes read nothing else, and no sample twice a pass."""
    drawn = []

    class Recorder:
        def sample(self, samples):
            drawn.append(samples)
            return case_corpus().sample(samples)

    measure([case], context((PAIRED, "rotated"), corpus=Recorder()))
    assert {part.split for part in drawn} == {"fit", "evaluate"}
    count = {
        split: sum(p.count for p in drawn if p.split == split) for split in ("fit", "evaluate")
    }
    assert count == {"fit": 96, "evaluate": 2 * 330}
    assert drawn[0] == SampleRange("fit", 0, 96)


def test_cases_with_other_samples_are_refused(pair, samples, context):
    with pytest.raises(ValueError, match="share their samples"):
        measure([Case(*pair, samples(64)), Case(*pair, samples(80))], context((KL, None)))
