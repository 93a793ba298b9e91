"""Dictionaries of the rotation suite: trained once, when read; principal components in their place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from harness.case import Case, DictionaryChoice
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge import fit
from harness.sae import dictionaries as shipped
from harness.sae.dictionaries import Dictionaries
from harness.sae.train import Trained
from suites.rotation.catalogue.dictionary import BY_ARM, DICTIONARY
from suites.rotation.controls import make_control
from suites.rotation.measure import measure

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
SELF, ROTATED, PAIRED = "sae.ev.self@1", "sae.ev.rotated@1", "sae.ev.paired@1"
GAP, L0, SHIFT = "sae.ev.gap_to_self@1", "sae.l0@1", "sae.ev.shift_only@1"
VARIANTS = ("top", "re")


@pytest.fixture(scope="module")
def small(case, samples):
    return replace(case, samples=samples(96, 80))


@pytest.fixture(scope="module")
def pca(small, plan):
    return make_control("pca-k", small, plan=plan, seed=1, draw=0, models={})


def with_counts(given, exact, *, k=None, l0=None):
    """The dictionaries with other numbers of active features."""
    changed = {}
    for (site, variant), (dictionary, facts) in exact.trained.items():
        if variant == "top" and k is not None:
            dictionary = replace(dictionary, k=k)
        if variant == "re" and l0 is not None:
            facts = facts.model_copy(update={"l0": l0})
        changed[site, variant] = Trained(dictionary, facts)
    return DictionaryChoice(given(changed))


def project(states, mean, basis):
    return mean + (states - mean) @ basis @ basis.T


# --- principal components -----------------------------------------------------------------------


@pytest.mark.parametrize("site", SITES)
def test_pca_k_has_the_k_of_topk_and_the_rounded_training_l0_of_relu(
    pca, exact, context, plain, values, site
):
    row = values(measure([pca], context(*((L0, v) for v in VARIANTS)))[0])
    assert row[L0, site, "top"] == exact.trained[site, "top"].dictionary.k == 8
    l0 = exact.trained[site, "re"].facts.l0
    assert abs(l0 - round(l0)) > 1e-3
    assert row[L0, site, "re"] == round(l0)
    evaluated = plain(replace(pca, dictionary=DictionaryChoice(exact))).dictionary
    assert evaluated("l0", site, "re") != pytest.approx(l0, rel=1e-3)  # not that of the evaluation


@pytest.mark.parametrize("site", SITES)
def test_pca_k_is_the_projection_on_the_references_components_at_the_fit_samples(
    pca, exact, context, plain, plain_ev, values, site
):
    wanted = [(s, v) for s in (SELF, ROTATED, PAIRED, GAP, SHIFT) for v in VARIANTS]
    row = values(measure([pca], context(*wanted))[0])
    states = plain(pca)
    mine = states.states("fit", site)[1]
    vectors = np.linalg.eigh(np.cov(mine.T))[1][:, ::-1]
    rotated, a = states.carried(site, "rotated")
    shifted = states.carried(site, "shift-only")[0]
    for variant, k in (("top", 8), ("re", round(exact.trained[site, "re"].facts.l0))):
        basis, mean = vectors[:, :k], mine.mean(0)
        own = plain_ev(project(a, mean, basis), a)
        on_rotated = plain_ev(project(rotated, mean, basis), rotated)
        expected = {
            SELF: own,
            ROTATED: on_rotated,
            GAP: on_rotated - own,
            PAIRED: plain_ev(project(rotated, mean, basis), a),
            SHIFT: plain_ev(project(shifted, mean, basis), shifted),
        }
        for statistic, value in expected.items():
            assert row[statistic, site, variant] == pytest.approx(value, rel=1e-8), statistic


def test_pca_k_takes_neither_fewer_nor_more(small, exact, given, context, values):
    """EV of its own states rises with k, and reaches 1 at k = d and stays there."""
    found = []
    for k in (1, 7, 8, 9, 63, 64, 200):
        choice = with_counts(given, exact, k=min(k, 64), l0=float(k))
        one = replace(small, dictionary=replace(choice, rule="pca"))
        row = values(measure([one], context((SELF, "top"), (SELF, "re")))[0])
        found.append([row[SELF, SITES[0], v] for v in VARIANTS])
    for variant in range(2):
        evs = [one[variant] for one in found]
        assert all(later > former for former, later in pairwise(evs[:6]))
        assert evs[5] == evs[6] == pytest.approx(1.0, abs=1e-12)
        assert evs[4] < 1 - 1e-9
    assert all(a == pytest.approx(b, abs=1e-12) for a, b in found)  # kinds differ in nothing else


def test_at_full_rank_pca_k_gives_every_state_back(small, exact, given, context, values):
    choice = with_counts(given, exact, k=64, l0=64.0)
    full = replace(small, dictionary=replace(choice, rule="pca"))
    wanted = [(s, "top") for s in (*BY_ARM, PAIRED, GAP)]
    wanted.append(("alignment.ev.paired@1", "rotated"))
    row = values(measure([full], context(*wanted))[0])
    for site in SITES:
        for statistic in BY_ARM:
            assert row[statistic, site, "top"] == pytest.approx(1.0, abs=1e-9)
        assert row[GAP, site, "top"] == pytest.approx(0.0, abs=1e-9)
        own = row["alignment.ev.paired@1", site, "rotated"]
        assert row[PAIRED, site, "top"] == pytest.approx(own, rel=1e-9)


def test_a_dictionary_without_active_features_still_gets_one_component(
    small, exact, given, context, values
):
    choice = with_counts(given, exact, l0=0.2)
    one = replace(small, dictionary=replace(choice, rule="pca"))
    row = values(measure([one], context((L0, "re")))[0])
    assert {row[L0, site, "re"] for site in SITES} == {1.0}


def test_pca_k_replaces_the_dictionary_and_nothing_else(small, pca):
    assert pca.dictionary.rule == "pca"
    assert pca.dictionary.source is small.dictionary.source
    assert replace(pca, dictionary=small.dictionary) == small


# --- trained dictionaries -----------------------------------------------------------------------


def test_both_kinds_stand_side_by_side_and_both_rules_in_one_pass(small, pca, context, values):
    """What a batch has in common is shared by nothing that differs."""
    wanted = [(entry.id, variant) for entry in DICTIONARY for variant in VARIANTS]
    together = [values(row) for row in measure([small, pca, small], context(*wanted))]
    assert together[0] == together[2]
    for one, row in zip((small, pca), together, strict=False):
        assert row == values(measure([one], context(*wanted))[0])
    assert together[0].keys() == together[1].keys()
    same = {key for key, value in together[0].items() if value == together[1][key]}
    assert {(statistic, variant) for statistic, _, variant in same} <= {(L0, "top")}


def test_dictionaries_are_the_references_and_do_not_follow_the_other_model(small, context, values):
    swapped = replace(small, other=small.reference)
    wanted = [(s, "top") for s in (SELF, L0)]
    one, two = (values(measure([c], context(*wanted))[0]) for c in (small, swapped))
    assert one == two


class Untouchable:
    @property
    def trained(self):
        raise AssertionError("a dictionary was trained that nothing reads")


def test_nothing_is_trained_unless_a_dictionary_is_read(small, plan, context):
    untouched = replace(small, dictionary=DictionaryChoice(Untouchable()))
    measure(
        [untouched], context(("alignment.ev.paired@1", "rotated"), ("rotation.frobenius@1", None))
    )
    for name in ("pca-k", "gauge-self", "noise"):
        make_control(name, untouched, plan=plan, seed=1, draw=0, models={})
    with pytest.raises(AssertionError, match="nothing reads"):
        measure([untouched], context((L0, "top")))


def test_training_happens_once_on_the_dictionary_split(pair, plan, context, samples, monkeypatch):
    calls, given = [], shipped.train_dictionaries

    def counted(subject, recipes, **more):
        calls.append((subject, more["samples"], more["sites"]))
        return given(subject, recipes, **more)

    monkeypatch.setattr(shipped, "train_dictionaries", counted)
    source = Dictionaries(
        pair[0],
        plan.dictionaries,
        sites=SITES,
        corpus=Dyck3(7),
        samples=SampleRange("dictionary", 0, 32),
        trainer_options={},
    )
    assert source.facts() == {}
    case = Case(*pair, samples(16, 32), dictionary=DictionaryChoice(source))
    cases = [make_control(n, case, plan=plan, seed=1, draw=0, models={}) for n in ("self", "pca-k")]
    measure([case, *cases], context((L0, "top"), (SELF, "re")))
    measure([case], context((ROTATED, "top")))
    assert calls == [(pair[0], SampleRange("dictionary", 0, 32), SITES)]
    assert set(source.facts()) == {f"{site}/{variant}" for site in SITES for variant in VARIANTS}


def test_a_case_without_dictionaries_or_an_arm_without_a_name_is_refused(small, context):
    with pytest.raises(ValueError, match="a case with dictionaries"):
        measure([replace(small, dictionary=DictionaryChoice())], context((L0, "top")))
    with pytest.raises(ValueError, match="the name of a dictionary"):
        measure([small], context((L0, None)))


def test_states_that_do_not_vary_leave_everything_undefined_and_say_so(
    pair, plan, context, samples
):
    """A reference whose sites are constant: no dictionary, no total, and no error."""
    still = pair[0].with_weights({n: torch.zeros_like(w) for n, w in pair[0].weights().items()})
    source = Dictionaries(
        still,
        plan.dictionaries,
        sites=SITES,
        corpus=Dyck3(7),
        samples=SampleRange("dictionary", 0, 32),
        trainer_options={},
    )
    case = Case(still, pair[1], samples(16, 32), dictionary=DictionaryChoice(source))
    wanted = [(entry.id, "top") for entry in DICTIONARY]
    wanted += [("alignment.ev.paired@1", arm) for arm in ("rotated", "linear", "scaled")]
    wanted += [(f"alignment.ev.{s}@1", None) for s in ("whitened", "linear_excess")]
    wanted += [("rotation.identity_share@1", None), ("alignment.stitch@1", "rotated")]
    row = measure([case], context(*wanted))[0]
    assert len(row) == 2 * len(wanted)
    assert all(m.value is None and m.undefined and m.columns is None for m in row)


def test_another_model_that_does_not_vary_has_no_scale_and_says_so(pair, exact, context, samples):
    """The scale of the arm `scaled` is then undefined, and the others are as they are."""
    still = pair[1].with_weights({n: torch.zeros_like(w) for n, w in pair[1].weights().items()})
    case = Case(pair[0], still, samples(16, 32), dictionary=DictionaryChoice(exact))
    statistics = ("alignment.ev.paired@1", "alignment.stitch@1")
    wanted = [(s, arm) for s in statistics for arm in ("rotated", "scaled")]
    wanted += [("sae.ev.scaled@1", "top"), ("sae.ev.rotated@1", "top")]
    row = measure([case], context(*wanted))[0]
    found = {(m.statistic, m.arm): m for m in row}
    for key in [(s, "scaled") for s in statistics] + [("sae.ev.scaled@1", "top")]:
        assert found[key].value is None
        assert found[key].undefined
    assert all(found[s, "rotated"].value is not None for s in statistics)


def test_principal_components_are_ordered_by_variance(small, plain):
    """The first component holds more than any other: the eigenvectors are not in LAPACK's order."""
    a = plain(small).states("fit", SITES[0])[1]
    sums = (a.sum(0), a.sum(0), a.T @ a, a.T @ a, a.T @ a)
    values, vectors = fit.principal_components(fit.Moments(float(len(a)), *sums))
    held = np.square((a - a.mean(0)) @ vectors).mean(0)
    np.testing.assert_allclose(held, values, rtol=1e-6, atol=1e-9)
    assert (np.diff(held) <= 1e-9).all()


def test_a_gap_to_a_dictionary_that_is_broken_at_home_is_undefined(small, given, exact, context):
    trained = exact.trained[SITES[0], "top"]
    broken = replace(trained.dictionary, b_dec=trained.dictionary.b_dec + 1e3)
    changed = {**exact.trained, (SITES[0], "top"): Trained(broken, trained.facts)}
    case = replace(small, dictionary=DictionaryChoice(given(changed)))
    row = measure([case], context((GAP, "top"), (SELF, "top")))[0]
    found = {(m.statistic, m.site): m for m in row}
    assert found[SELF, SITES[0]].value < 0.5
    assert "of its own model's states, less than 0.5" in found[GAP, SITES[0]].undefined
    assert found[GAP, SITES[1]].value is not None
