"""The rotation suite's catalogue: roles, figures, identifiers, and what its plan freezes."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from importlib import resources

import pytest
import torch
from ruamel.yaml import YAML

from harness.bars.catalogue import BARS, KL
from harness.case import Activations, Case, DictionaryChoice, MapChoice, Pairing
from harness.resolve import prepare
from harness.suite import suite
from prereg.errors import InputError
from prereg.hypothesis import parse_hypothesis
from prereg.registration import Claim
from suites.rotation import SUITE
from suites.rotation.catalogue.controls import roles
from suites.rotation.controls import make_control
from suites.rotation.measure import gain
from suites.rotation.plan import RotationPlan

BASE = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")
NAMES = {spec.name for spec in SUITE.controls}
OWN = tuple(e for e in SUITE.catalogue if e.id == KL or not e.id.startswith(BARS))
"""Bars have tests of their own; here, what the suite itself is about."""
CLAIMED = [(entry, kind) for entry in OWN for kind in entry.roles]
SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")


def name_of(value):
    return getattr(value, "id", value)


# --- roles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("entry", "kind"), CLAIMED, ids=name_of)
def test_roles_cover_every_control_of_the_suite(entry, kind):
    assert entry.roles[kind].keys() == NAMES


@pytest.mark.parametrize(("entry", "kind"), CLAIMED, ids=name_of)
def test_every_claim_has_a_control_that_must_fail(entry, kind):
    """Without one, nothing would show that the statistic can tell the models from anything."""
    assert "must-fail" in entry.roles[kind].values()


def test_what_has_no_roles_says_why():
    without = [entry for entry in OWN if not entry.roles]
    assert {entry.id.partition("@")[0] for entry in without} == {
        *("rotation.frobenius", "sae.l0"),
        *(f"rotation.rank.{name}" for name in ("reference", "other", "stable", "gap")),
        *(f"sae.ev.{name}" for name in ("pure_rotation", "scaled", "linear")),
    }
    for entry in without:
        assert "no control has a role" in entry.source
        assert not entry.arms


@pytest.mark.parametrize(("entry", "kind"), CLAIMED, ids=name_of)
def test_a_model_against_itself_decides_each_direction(entry, kind):
    """`same` must hold of the reference itself, `differs` must not: self or, without it, fresh."""
    found = entry.roles[kind]
    expected = "must-pass" if kind == "same" else "must-fail"
    assert found["self-fresh"] == expected
    assert found["self"] in (expected, "not-applicable")
    opposite = "must-fail" if kind == "same" else "must-pass"
    assert opposite not in (found["self"], found["self-fresh"], found["lineage"])


READS = {
    "bar.behavioural.kl@1": {"other", "samples"},
    "sae.ev.self@1": {"dictionary", "samples"},
    "sae.ev.raw@1": {"other", "activations", "samples", "dictionary"},
    "sae.ev.shift_only@1": {"other", "activations", "samples", "dictionary"},
    "rotation.identity_share@1": {"other", "activations", "pairing", "samples"},
}
"""Fields of the case that decide a statistic."""
STATES = {"other", "activations", "pairing", "samples", "map"}


@pytest.mark.parametrize(("entry", "kind"), CLAIMED, ids=name_of)
def test_a_control_that_changes_nothing_the_statistic_reads_has_no_role(entry, kind):
    coded = entry.id.startswith("sae.")
    reads = READS.get(entry.id, STATES | ({"dictionary"} if coded else set()))
    for spec in SUITE.controls:
        touched = set(spec.replaces) - ({"samples"} if spec.random else set())
        if entry.id in gain.OF and spec.random:
            touched = set()  # a gain has draws of its own
        if not touched & reads:
            assert entry.roles[kind][spec.name] == "not-applicable", spec.name


@pytest.mark.parametrize(
    "given", [{"passing": ("self-frsh",)}, {"passing": ("self",), "failing": ("self",)}]
)
def test_a_role_for_an_unknown_control_or_two_roles_are_refused(given):
    with pytest.raises(ValueError, match=r"expected (a control of the suite|one role)"):
        roles(**given)


# --- identifiers, figures, the text -------------------------------------------------------------


def test_every_id_stands_once():
    ids = [entry.id for entry in SUITE.catalogue]
    assert len(ids) == len(set(ids)) == len(SUITE.statistics)


def test_the_text_explains_what_the_catalogue_has_and_nothing_else():
    text = (resources.files(SUITE.package) / "METHOD.md").read_text(encoding="utf-8")
    assert set(re.findall(r"[a-z][a-z0-9_.]*@[0-9]+", text)) == {entry.id for entry in OWN}


def test_the_text_names_every_control():
    text = (resources.files(SUITE.package) / "METHOD.md").read_text(encoding="utf-8")
    missing = {name for name in NAMES if f"`{name}`" not in text}
    assert not missing


def test_figures_name_statistics_and_arms_that_are_measured(plan, scope):
    frozen = {e.id: f for e in SUITE.catalogue if (f := plan.frozen(e, scope)) is not None}
    assert len({figure.id for figure in SUITE.figures}) == len(SUITE.figures)
    for figure in SUITE.figures:
        assert frozen[figure.statistic].per_site
        assert frozen[figure.statistic].roles  # its own values are those of a claim
        shown = [(figure.statistic, None), *((one.statistic, one.arm) for one in figure.beside)]
        assert len(set(shown)) == len(shown)
        for one in figure.beside:
            spec = frozen[one.statistic]
            assert one.arm is None or one.arm in (*spec.arms, *spec.shown_arms)
            assert one.arm is None or one.arm not in frozen[figure.statistic].arms
            assert spec.unit == frozen[figure.statistic].unit
            assert spec.per_site


def test_gains_are_about_what_the_catalogue_has():
    for one, (statistic, arm) in gain.OF.items():
        entry = SUITE.statistics[one]
        assert entry.estimator == "value_minus_median"
        assert arm in SUITE.statistics[statistic].arms
        assert one.removesuffix(".state_gain@1") == statistic.removesuffix("@1")


def test_ranges_are_those_of_the_formulae(found):
    """Nothing measured lies outside of what the catalogue says is possible."""
    for m in found:
        entry = SUITE.statistics[m.statistic]
        assert entry.per_site == (m.site is not None)
        assert entry.lower is None or m.value >= entry.lower
        assert entry.upper is None or m.value <= entry.upper


# --- controls and the fields of a case ----------------------------------------------------------


@pytest.mark.parametrize("spec", SUITE.controls, ids=lambda spec: spec.name)
def test_a_control_replaces_the_fields_that_its_row_names_and_no_other(
    case, plan, make_subject, spec
):
    """From a case in which no field is at its default, so that one that is reset shows."""
    given = replace(
        case,
        pairing=Pairing("shuffled", 99),
        map=MapChoice("covariance-only", 99),
        activations=Activations({SITES[0]: torch.full((64,), 9.0)}),
    )
    models = {spec.name: make_subject(3)} if spec.named else {}
    found = make_control(spec.name, given, plan=plan, seed=1, draw=0, models=models)
    changed = {f.name for f in fields(Case) if getattr(found, f.name) != getattr(given, f.name)}
    assert changed == set(spec.replaces)
    kept = {f.name for f in fields(Case)} - changed
    assert all(getattr(found, name) is getattr(given, name) for name in kept)
    if spec.named:
        assert found.other is models[spec.name]


def test_a_named_control_without_its_model_is_no_control(case, plan):
    for spec in SUITE.controls:
        if spec.named:
            with pytest.raises(ValueError, match=spec.name):
                make_control(spec.name, case, plan=plan, seed=1, draw=0, models={})


# --- what a plan freezes ------------------------------------------------------------------------


def test_dictionaries_are_the_arms_of_what_reads_them(plan, scope):
    for entry in OWN:
        found = plan.frozen(entry, scope)
        if not entry.id.startswith("sae."):
            assert (found.arms, found.shown_arms) == (entry.arms, entry.shown_arms)
        elif entry.roles:
            assert (found.arms, found.shown_arms) == (("re", "top"), ())
        else:
            assert (found.arms, found.shown_arms) == ((), ("re", "top"))


def test_without_dictionaries_what_reads_them_is_not_measured(scope):
    plan = RotationPlan(sites=SITES)
    left = {entry.id for entry in OWN if plan.frozen(entry, scope) is not None}
    assert left == {entry.id for entry in OWN if not entry.id.startswith("sae.")}


def prepared(dictionaries):
    """The shipped hypothesis with these dictionaries, in this order."""
    data = YAML(typ="safe", pure=True).load(BASE)
    data["plan"]["dictionaries"] = dictionaries
    source = json.dumps(data).encode()
    return prepare(parse_hypothesis(source, name="claim.json", is_json=True)).registration


def test_two_orders_of_dictionaries_freeze_to_one_id():
    shipped = YAML(typ="safe", pure=True).load(BASE)["plan"]["dictionaries"]
    assert list(shipped) == ["topk"]
    feed = {"feed": shipped["topk"]["feed"]} if "feed" in shipped["topk"] else {}
    relu = {"kind": "relu", "l1": 0.02, "width": 256, "steps": 300, **feed}
    first, second = prepared({**shipped, "relu": relu}), prepared({"relu": relu, **shipped})
    assert first.id == second.id != prepared(shipped).id
    assert first.canonical() == second.canonical()
    assert first.resolved.statistics["sae.ev.rotated@1"].arms == ("relu", "topk")
    assert prepare(second.claim).registration.id == first.id


def test_dictionaries_without_a_split_of_their_own_are_refused(plan):
    with pytest.raises(InputError) as caught:
        plan.check({"fit": 128, "evaluate": 128})
    assert caught.value.code == "registration.missing-split"
    plan.check({"fit": 128, "evaluate": 128, "dictionary": 128})


@pytest.mark.parametrize("split", ["fit", "evaluate"])
def test_a_split_smaller_than_the_random_controls_is_refused(plan, split):
    with pytest.raises(InputError) as caught:
        plan.check({"fit": 128, "evaluate": 128, "dictionary": 128, split: 127})
    assert caught.value.code == "registration.too-many-control-sequences"
    assert split in str(caught.value)


def claim(statistic, **more):
    return Claim(id="x", statistic=statistic, above=0.5, **{"kind": "same", **more})


def test_a_dense_dictionary_carries_no_claim_about_features(plan):
    """8 of 32 dimensions is allowed, 8 of 31 is not; nor does it bind other claims."""
    rotated = claim("sae.ev.rotated@1", arm="top")
    plan.check_claim("x", rotated, width=32)
    with pytest.raises(InputError) as caught:
        plan.check_claim("x", rotated, width=31)
    assert caught.value.code == "registration.dense-dictionary"
    for other in (
        claim("sae.ev.rotated@1", arm="re"),
        claim("sae.ev.rotated@1", arm="top", kind="differs"),
        claim("alignment.ev.paired@1", arm="rotated"),
    ):
        plan.check_claim("x", other, width=31)


def test_a_dictionary_of_unknown_density_is_warned_of(plan):
    assert [line for line in plan.warnings() if "dictionary re" in line]
    assert not [line for line in plan.warnings() if "dictionary top" in line]


def test_the_default_choice_of_dictionaries_is_none(pair, samples):
    assert Case(*pair, samples()).dictionary == DictionaryChoice(None, "trained")
