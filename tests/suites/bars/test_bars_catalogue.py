"""The bars suite's catalogue: roles in both modes, what a plan freezes, files, the text."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from importlib import resources

import pytest

from harness.bars.catalogue import bar_statistics
from harness.bars.control_specs import roles
from harness.bars.controls import make_bar_control
from harness.bars.settings import Predictor, Tail
from harness.case import Case, ComponentChoice, MapChoice, Samples
from harness.corpora.block import SampleRange
from harness.judging import family
from harness.suite import suite
from prereg.errors import InputError
from suites.bars import SUITE
from suites.bars.plan import FourBarsPlan

NAMES = {spec.name for spec in SUITE.controls}
CLAIMED = [(entry, kind) for entry in SUITE.catalogue for kind in entry.roles]
WITHIN = [(entry, kind) for entry in SUITE.catalogue for kind in entry.roles_within]
FILES = tuple(SUITE.hypotheses)


def name_of(value):
    return getattr(value, "id", value)


@pytest.mark.parametrize(("entry", "kind"), CLAIMED, ids=name_of)
def test_every_claim_has_a_role_for_every_control_and_one_that_must_fail(entry, kind):
    assert entry.roles[kind].keys() == NAMES
    assert "must-fail" in entry.roles[kind].values()


@pytest.mark.parametrize(("entry", "kind"), WITHIN, ids=name_of)
def test_within_one_model_the_net_that_was_never_trained_must_fail(entry, kind):
    found = entry.roles_within[kind]
    assert found.keys() == NAMES
    assert found["untrained-both"] == "must-fail"
    pairs = {"self", "untrained", "lineage", "other-task", "fine-tuned", "decoy-depth-pairs"}
    assert {found[name] for name in pairs} == {"not-applicable"}


def test_each_decoy_is_guarded_by_the_bar_that_the_text_names():
    guards = {
        "decoy-depth-pairs": "bar.behavioural.kl@1",
        "decoy-block-swap": "bar.parametric.nmse@1",
        "fine-tuned": "bar.parametric.nmse@1",
        "shuffled-components": "bar.causal.pearson@1",
    }
    for control, statistic in guards.items():
        assert SUITE.statistics[statistic].roles["same"][control] == "must-fail"
    for entry, kind in CLAIMED:
        if entry.id in guards.values():
            other = set(guards) - {c for c, s in guards.items() if s == entry.id}
            assert "must-pass" not in {entry.roles[kind][name] for name in other}


def test_what_has_no_roles_cannot_be_claimed(prepared):
    assert {entry.id for entry in SUITE.catalogue if not entry.roles} == {
        *(f"parametric.joint.{name}@1" for name in ("weights", "activations", "barrier", "basins")),
        *(
            f"bar.{bar}.{name}@1"
            for bar in ("causal", "predictive")
            for name in ("leverage", "completeness", "labels", "ap.pearson", "ap.nrmse")
        ),
    }
    bar = {"statistic": "bar.causal.leverage@1", "kind": "same", "below": 0.5}
    with pytest.raises(InputError) as caught:
        prepared(**{"bars.C": bar})
    assert caught.value.code == "registration.no-roles"


def test_a_role_for_two_or_an_unknown_control():
    with pytest.raises(ValueError, match="one role of 'self', got two"):
        roles(["self"], passing=("self",), failing=("self",))
    assert roles(["self", "x"], passing=("self", "unknown")) == {
        "self": "must-pass",
        "x": "not-applicable",
    }


def test_every_suite_that_has_bars_has_the_same():
    own, rotation = SUITE.statistics, suite("rotation").statistics
    for name, entry in own.items():
        assert rotation[name].model_copy(
            update={"roles": {}, "roles_within": {}}
        ) == entry.model_copy(update={"roles": {}, "roles_within": {}})
    few = bar_statistics(SUITE.controls[:1])
    assert [entry.id for entry in few] == list(own)


def test_the_text_explains_what_the_catalogue_has_and_nothing_else():
    text = (resources.files(SUITE.package) / "METHOD.md").read_text(encoding="utf-8")
    assert set(re.findall(r"[a-z][a-z0-9_.]*@[0-9]+", text)) == set(SUITE.statistics)
    assert not {name for name in NAMES if f"`{name}`" not in text}


@pytest.mark.parametrize("name", FILES)
def test_every_shipped_file_freezes(prepared, name):
    found = prepared(name)
    members = family.members(found.registration)
    assert members
    within = found.registration.claim.subjects.mode == "within"
    assert within == name.endswith("within")
    assert all((m.pair is None) == within for every in members.values() for m in every)


def test_the_printed_file_states_the_published_thresholds(prepared):
    bars = prepared("bars").registration.claim.bars
    found = {name: getattr(bars, name).region for name in ("B", "P", "C", "Pr")}
    assert (found["B"].upper, found["P"].upper) == (1e-4, 1e-3)
    assert (found["C"].lower, found["Pr"].lower) == (0.99, 0.99)


def test_arms_and_units_are_those_of_the_models_and_the_corpus(prepared):
    frozen = prepared().registration.resolved.statistics
    assert frozen["bar.behavioural.kl.head@1"].arms == ("copy", "depth", "valid")
    assert frozen["bar.behavioural.kl.draw@1"].arms == ("standard", "long", "compositional")
    assert frozen["bar.causal.pearson@1"].parameters == {"components": 10, "units": 90}
    assert frozen["bar.predictive.pearson@1"].parameters == {"components": 10, "units": 180}
    for part in ("single", "increment"):
        one = frozen[f"bar.predictive.{part}.pearson@1"]
        assert one.parameters == {"components": 10, "units": 90}
    assert frozen["bar.causal.pearson.published@1"].parameters == {"components": 10, "units": 10}
    shares = ("0", "0.25", "0.5", "0.75", "1")
    assert frozen["parametric.joint.weights@1"].shown_arms == shares
    assert frozen["bar.behavioural.kl@1"].parameters == {"tau": 0.1, "c": 2.0}


def test_a_bar_whose_samples_are_not_registered_is_not_measured(prepared):
    abstain = {"abstain": "no samples"}
    splits = {"fit": 256, "evaluate": 384}
    few = prepared(**{"corpus.splits": splits, "bars.C": abstain, "bars.Pr": abstain})
    assert not [n for n in few.registration.resolved.statistics if "causal" in n]
    with pytest.raises(InputError) as caught:
        prepared(**{"corpus.splits": splits, "bars.Pr": abstain})
    assert caught.value.code == "registration.not-measured"
    assert "counterfactual: 512" in caught.value.fix


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plan.joint": [0.0, 1.5]}, "outside [0, 1]"),
        ({"plan.joint": [0.0, 0.5, 0.5, 1.0]}, "ascending order"),
        ({"plan.joint": [0.1, 1.0]}, "begins with 0 and ends with 1"),
        ({"plan.predictor.name": "best-of"}, "plan.predictor.name"),
        ({"plan.predictor.steps": 0}, "plan.predictor.steps"),
        ({"plan.parametric.alignment": "affine"}, "plan.parametric.alignment"),
        ({"plan.parametric.starts": 1}, "plan.parametric.starts"),
        ({"plan.kl_tail": {"tau": 0.1, "c": 0.01}}, "`c` is at least `tau`"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(prepared, changes, words):
    with pytest.raises(InputError) as caught:
        prepared(**changes)
    assert caught.value.code == "registration.bad-plan"
    assert words in str(caught.value)


def test_what_makes_a_bar_easier_is_warned_of():
    assert FourBarsPlan().warnings() == ()
    found = FourBarsPlan(kl_tail=Tail(c=0.5), predictor=Predictor(completeness=0.2)).warnings()
    assert [line.partition(":")[0] for line in found] == ["bar B", "bars C and Pr"]


@pytest.mark.parametrize("spec", SUITE.controls, ids=lambda spec: spec.name)
def test_a_control_replaces_the_fields_that_its_row_names_and_no_other(spec, make_subject):
    samples = Samples(SampleRange("fit", 0, 8), SampleRange("evaluate", 0, 8))
    given = Case(
        make_subject(1),
        make_subject(2),
        samples,
        map=MapChoice("haar", 99),
        components=ComponentChoice("shuffled", 99),
    )
    models = {spec.name: make_subject(3)} if spec.named else {}
    found = make_bar_control(spec.name, given, plan=FourBarsPlan(), seed=1, draw=0, models=models)
    changed = {f.name for f in fields(Case) if getattr(found, f.name) != getattr(given, f.name)}
    assert changed == set(spec.replaces)
    again = make_bar_control(spec.name, given, plan=FourBarsPlan(), seed=1, draw=1, models=models)
    if spec.random:
        assert again.components != found.components
    if spec.named:
        assert found.other is models[spec.name]
        with pytest.raises(ValueError, match=spec.name):
            make_bar_control(spec.name, given, plan=FourBarsPlan(), seed=1, draw=0, models={})


def test_untrained_both_is_one_fresh_net(make_subject):
    samples = Samples(SampleRange("fit", 0, 8), SampleRange("evaluate", 0, 8))
    given = Case(make_subject(1), make_subject(2), samples)
    found = make_bar_control(
        "untrained-both", given, plan=FourBarsPlan(), seed=1, draw=0, models={}
    )
    assert found.reference is found.other
    assert found == replace(given, reference=found.other, other=found.other)


def test_a_block_of_one_sequence_has_nothing_to_pair(prepared):
    with pytest.raises(InputError) as caught:
        prepared(**{"corpus.block": 1})
    assert caught.value.code == "registration.not-measured"
    assert "corpus.block to 2 or more" in caught.value.fix
    abstain = {"abstain": "blocks of one"}
    few = prepared(**{"corpus.block": 1, "bars.C": abstain, "bars.Pr": abstain})
    assert "bar.causal.pearson@1" not in few.registration.resolved.statistics


@pytest.mark.parametrize(
    "changes",
    [
        {"subjects.controls": {"fine-tuned": "zoo:dyck3/twin-400"}},
        {"controls": {"add": ["untrained"]}},
    ],
)
def test_within_one_model_no_control_brings_in_another(prepared, changes):
    with pytest.raises(InputError) as caught:
        prepared("published-within", **changes)
    assert caught.value.code == "registration.control-of-pairs"
    assert "untrained-both" in caught.value.expected


def test_first_order_is_warned_of():
    (line,) = FourBarsPlan(predictor=Predictor(name="ap")).warnings()
    assert "first order" in line
