"""What `check` and `register` refuse, and what they freeze."""

from __future__ import annotations

import json
import math
import re

import pytest

from harness.outlook import outlook
from harness.resolve import differences, prepare
from harness.suite import suite
from prereg.errors import InputError
from prereg.hypothesis import parse_hypothesis
from prereg.registration import Registration

BASE = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")

FIT, EVALUATE = (re.search(rf"{split}: \d+", BASE)[0] for split in ("fit", "evaluate"))


def prepared(text=BASE):
    return prepare(parse_hypothesis(text.encode(), name="claim.yaml", is_json=False))


def edited(*changes):
    text = BASE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def refused(*changes, code):
    with pytest.raises(InputError) as caught:
        outlook(prepared(edited(*changes)))
    assert caught.value.code == code
    assert caught.value.expected
    assert caught.value.fix
    return str(caught.value)


def test_the_shipped_file_freezes_with_everything_resolved():
    found = prepared()
    resolved = found.registration.resolved
    assert resolved.subjects.reference.weights == found.reference.resolved.weights
    splits = found.registration.claim.corpus.splits
    known = suite("rotation").statistics
    assert set(resolved.statistics) == {n for n, entry in known.items() if entry.split in splits}
    assert not {"counterfactual", "ablation"} & set(splits)
    assert resolved.statistics["bar.behavioural.kl@1"].parameters == {"tau": 0.1, "c": 2.0}
    claim = found.registration.claim
    deciding = {
        name
        for judged in claim.judged().values()
        for name, role in resolved.statistics[judged.statistic].roles[judged.kind].items()
        if role in ("must-pass", "must-fail")
    }
    assert {control.name for control in resolved.suite.controls} == deciding
    assert {"self", "gauge-self", "untrained", "shuffled", "haar", "noise", "pca-k"} <= deciding
    assert not {"lineage", "other-task"} & deciding  # they need a model
    assert claim.abstained().keys() == {"P", "C", "Pr"}
    assert set(resolved.statistics["sae.ev.rotated@1"].arms) == set(found.plan.dictionaries)
    assert outlook(found).family == family(claim)


def family(claim):
    """Primary members of a registration with one pair: bar B has one, a claim one a site."""
    primary = [c for c in claim.claims if c.role == "primary"]
    assert all(c.over.sites == c.over.pairs == "all" for c in primary)
    assert claim.bars.B.pool == "none"
    return 1 + len(primary) * len(claim.plan["sites"])


def test_freezing_is_repeatable_and_survives_its_own_bytes():
    one = prepared().registration
    again = Registration.model_validate_json(one.canonical())
    assert again.id == one.id == prepared().registration.id
    assert prepare(again.claim).registration.id == one.id
    assert not differences(one.resolved, prepare(again.claim).registration.resolved)


def test_spelling_and_comments_do_not_reach_the_id():
    same = (
        edited(("below: 0.02", "below: 2.0e-2"), ("# Regions", "# ranges"))
        if "# Regions" in BASE
        else edited(("below: 0.02", "below: 2.0e-2"))
    )
    assert prepared(same).registration.id == prepared().registration.id
    defaulted = edited(("  kl_tail: {tau: 0.1, c: 2.0}", "  #"), ("controls: default", "#"))
    assert prepared(defaulted).registration.id == prepared().registration.id


@pytest.mark.parametrize(
    ("changes", "code", "hint"),
    [
        (
            [("name: rotation, version: 1", "name: rotaton, version: 1")],
            "suite.unknown",
            "rotation",
        ),
        (
            [("name: rotation, version: 1", "name: rotation, version: 2")],
            "suite.version",
            "version 1",
        ),
        ([("zoo:dyck3/indep-101", "zoo:dyck3/indep-11")], "subject.unknown-model", "indep-1"),
        ([("zoo:dyck3/indep-101", "dyck3/indep-101")], "subject.bad-reference", "zoo:NAME"),
        ([("zoo:dyck3/indep-101", "path:/nowhere/at/all")], "subject.no-config", "config.json"),
        ([("zoo:dyck3/indep-101", "zoo:dyck3/indep-100")], "subject.same-weights", "others.b"),
        ([("shared_io: forbidden", "shared_io: required")], "subject.shared-io", "do not share"),
        ([("name: dyck3", "name: dyck4")], "corpus.unknown", "dyck3"),
        ([("draw: standard", "draw: standart")], "corpus.unknown", "standard"),
        ([(f"    {FIT}", "    train: 2048")], "corpus.unknown", "train"),
        ([(f"    {FIT}", "    #")], "registration.missing-split", "fit"),
        (
            [("blocks.1.hook_resid_mid", "blocks.1.hook_resid_mit")],
            "registration.unknown-site",
            "mid",
        ),
        (
            [("blocks.1.hook_resid_mid", "blocks.1.mlp.hook_post")],
            "registration.other-space",
            "residual",
        ),
        (
            [("alignment.ev.paired@1", "alignment.ev.pared@1")],
            "registration.unknown-statistic",
            "paired",
        ),
        (
            [("bar.behavioural.kl@1", "alignment.ev.paired@1")],
            "registration.wrong-bar",
            "behavioural",
        ),
        (
            [("    above: 0.5\n", "    above: 1.5\n")],
            "registration.unreachable",
            "can both reach and miss",
        ),
        ([("below: 0.02", "below: -1")], "registration.unreachable", "[0, inf]"),
        ([("arm: rotated", "arm: rotate")], "registration.unknown-member", "rotated"),
        (
            [("    above: 0.5\n", "    above: 0.5\n    over: {sites: [hook_embed]}\n")],
            "registration.unknown-member",
            "hook_resid",
        ),
        (
            [("    above: 0.5\n", "    above: 0.5\n    over: {pairs: [c]}\n")],
            "registration.unknown-member",
            "b",
        ),
        (
            [("    above: 0.5\n", "    above: 0.5\n    over: {sites: []}\n")],
            "registration.bad-range",
            "empty",
        ),
        (
            [("below: 0.02}", "below: 0.02, over: {sites: [blocks.0.hook_resid_post]}}")],
            "registration.no-sites",
            "without sites",
        ),
        ([("alignment: rotation", "alignment: affine")], "registration.bad-plan", "alignment"),
        ([("alignment: rotation", "alinment: rotation")], "registration.bad-plan", "alignment"),
        ([("draws: 32", "draws: 31")], "registration.bad-plan", "draws"),
        (
            [(EVALUATE, "evaluate: 368")],
            "registration.too-few-blocks",
            "at least 24 blocks",
        ),
        (
            [("controls: default", "controls: {add: [harr]}")],
            "registration.unknown-control",
            "haar",
        ),
    ],
)
def test_what_does_not_exist_or_fit_is_refused_with_a_way_on(changes, code, hint):
    assert hint in refused(*changes, code=code)


@pytest.fixture
def refusal(prepared_from):
    """The message with which a hypothesis in plain data is refused."""

    def of(plain, *, code):
        with pytest.raises(InputError) as caught:
            outlook(prepared_from(plain))
        error = caught.value
        assert error.code == code
        assert all((error.found, error.expected, error.fix))
        return str(error)

    return of


def test_a_file_that_judges_nothing_is_refused(hypothesis, shipped, refusal):
    secondary = [{**claim, "role": "secondary"} for claim in shipped["claims"]]
    plain = hypothesis({"bars.B": {"abstain": "not now"}, "claims": secondary})
    message = refusal(plain, code="registration.nothing-judged")
    assert "at least one judged bar or primary claim" in message


@pytest.fixture
def save_narrow(tmp_path):
    """Reference to a random model of width 32."""
    import torch

    from harness.subjects.dyck import DyckTransformer, initialise
    from harness.subjects.dyck_config import DyckConfig
    from harness.subjects.loading import save_subject

    config = DyckConfig(d_model=32)
    model = DyckTransformer(config)
    initialise(model, generator=torch.Generator().manual_seed(0))
    save_subject(config, model.state_dict(), tmp_path / "narrow")
    return f"path:{tmp_path / 'narrow'}"


def test_models_of_another_shape_are_refused(save_narrow):
    message = refused(("zoo:dyck3/indep-101", save_narrow), code="subject.other-shape")
    assert "width 32" in message


def test_weights_that_do_not_fit_their_config_are_refused(tmp_path, save_random):
    reference = save_random(1, "model")
    config = tmp_path / "model" / "config.json"
    plain = json.loads(config.read_bytes())
    for change, code in (
        ({"d_mlp": 128}, "subject.wrong-tensors"),
        ({"n_layers": 3}, "subject.wrong-tensors"),
        ({"n_layers": "2"}, "subject.bad-config"),
        ({"colour": 1}, "subject.bad-config"),
        ({"architecture": "gpt"}, "subject.bad-config"),
    ):
        config.write_text(json.dumps({**plain, **change}))
        refused(("zoo:dyck3/indep-101", reference), code=code)
    config.write_text("{")
    refused(("zoo:dyck3/indep-101", reference), code="subject.bad-config")


def test_truncated_and_nan_bearing_weights_are_refused(tmp_path, save_random):
    import numpy as np

    reference = save_random(1, "model")
    file = tmp_path / "model" / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-100])
    refused(("zoo:dyck3/indep-101", reference), code="subject.weights-malformed")
    file.write_bytes(data[:-4] + np.float32("nan").tobytes())
    refused(("zoo:dyck3/indep-101", reference), code="subject.weights-not-finite")


def test_a_dropped_control_is_frozen_with_its_reason_and_shown():
    text = edited(
        (
            "controls: default",
            "controls: {drop: [{control: shuffled, reason: too slow}], add: [gauge-self-unaligned]}",
        )
    )
    found = prepared(text)
    names = [control.name for control in found.registration.resolved.suite.controls]
    assert "shuffled" not in names
    assert "gauge-self-unaligned" in names
    assert any("shuffled" in warning for warning in outlook(found).warnings)


def test_check_says_what_n_bar_b_would_need():
    found = outlook(prepared(edited(("below: 0.02", "below: 1.0e-4"))))
    (warning,) = found.warnings
    assert warning.startswith("B: ")
    m = family(prepared().registration.claim)
    needed = math.ceil(2.0 * math.log(4 * m / 0.05) / 1e-4)
    assert f"{needed:,}" in warning


def test_differences_name_what_changed(tmp_path, save_random):
    reference = save_random(1, "model")
    before = prepared(edited(("zoo:dyck3/indep-101", reference))).registration.resolved
    save_random(2, "model")
    after = prepared(edited(("zoo:dyck3/indep-101", reference))).registration.resolved
    (line,) = differences(before, after)
    assert line.startswith("subjects.others.b.weights")


def test_two_others_with_the_same_weights_are_refused(save_random):
    one, other = save_random(1, "one"), save_random(1, "other")
    message = refused(
        ("    b: zoo:dyck3/indep-101", f"    b: {one}\n    c: {other}"), code="subject.same-weights"
    )
    assert message.index("others.c") < message.index("others.b")
    third = save_random(2, "third")
    found = prepared(edited(("    b: zoo:dyck3/indep-101", f"    b: {one}\n    c: {third}")))
    assert list(found.others) == ["b", "c"]


@pytest.fixture
def sharing(tmp_path):
    """A model with some tensors of the shipped reference, the others those of its pair."""

    def make(*names):
        from harness.subjects.loading import load, save_subject
        from harness.subjects.reference import locate

        reference, other = (load(locate(f"zoo:dyck3/indep-{seed}")) for seed in (100, 101))
        given = reference.weights()
        weights = {**other.weights(), **{name: given[name] for name in names}}
        folder = tmp_path / f"sharing-{len(names)}"
        save_subject(other.config, weights, folder)
        return f"path:{folder}"

    return make


IO = ("embed", "unembed.copy.weight", "unembed.depth.weight", "unembed.valid.weight")


@pytest.mark.parametrize("names", [(), IO[:1], IO[1:], IO], ids=["none", "in", "out", "all"])
def test_input_and_output_weights_are_shared_only_if_every_one_is(sharing, names):
    model = sharing(*names)
    assert prepared().reference.architecture.shared_io == IO
    holds = {"required": names == IO, "forbidden": names != IO, "unchecked": True}
    for wanted, accepted in holds.items():
        changes = (("zoo:dyck3/indep-101", model), ("shared_io: forbidden", f"shared_io: {wanted}"))
        if accepted:
            assert prepared(edited(*changes)).others
        else:
            refused(*changes, code="subject.shared-io")


def test_a_pinned_environment_is_frozen_and_another_library_is_a_difference(monkeypatch):
    from harness.code_version import library_versions

    free = prepared().registration
    text = edited(("environment: free", "environment: pinned"))
    pinned = prepared(text).registration
    assert free.resolved.environment == {}
    assert pinned.resolved.environment == library_versions()
    assert pinned.id != free.id
    later = {**library_versions(), "torch": "99.0"}
    monkeypatch.setattr("harness.resolve.library_versions", lambda: later)
    (line,) = differences(pinned.resolved, prepared(text).registration.resolved)
    assert line.startswith("environment.torch")
    assert not differences(free.resolved, prepared().registration.resolved)


@pytest.mark.parametrize(
    "change",
    [
        (FIT, f"{FIT}1"),
        (EVALUATE, f"{EVALUATE}1"),
        (EVALUATE, f"calibrate: 64\n    {EVALUATE}"),
        ("seed: 7", "seed: 8"),
        ("draw: standard", "draw: long"),
    ],
    ids=["fit", "evaluate", "one-more", "seed", "draw"],
)
def test_the_corpus_digest_covers_every_split(change):
    digests = {
        prepared(text).registration.resolved.corpus.digest for text in (BASE, edited(change))
    }
    assert len(digests) == 2


def test_a_corpus_that_draws_other_evaluation_samples_is_another(monkeypatch):
    from harness.corpora.dyck3 import Dyck3

    class Patched(Dyck3):
        def sample(self, samples):
            moved = samples.following() if samples.split == "evaluate" else samples
            return Dyck3.sample(self, moved)

    before = prepared().registration.resolved
    monkeypatch.setattr(
        "harness.corpora.catalogue.CORPORA", {"dyck3": lambda choice: Patched(choice.seed)}
    )
    (line,) = differences(before, prepared().registration.resolved)
    assert line.startswith("corpus.digest")


def test_check_warns_exactly_where_bar_b_has_too_few_samples_to_pass():
    from harness.judging.multiplicity import smallest_n_rare

    m = family(prepared().registration.claim)
    needed = smallest_n_rare(2.0, m, 0.95, 0.02)
    assert needed == math.ceil(2.0 * math.log(4 * m / 0.05) / 0.02)
    for samples, warnings in ((needed - 1, 1), (needed, 0)):
        found = outlook(prepared(edited((EVALUATE, f"evaluate: {samples}"))))
        assert len(found.warnings) == warnings
        assert all(f"{needed:,}" in warning for warning in found.warnings)
    refused((EVALUATE, "evaluate: 368"), code="registration.too-few-blocks")
    assert outlook(prepared(edited((EVALUATE, "evaluate: 369")))).blocks == 24


# --- models that controls name ----------------------------------------------------------------

LINEAGE = "zoo:dyck3/shared-0/step-2000"
NAMED = {"subjects.controls": {"lineage": LINEAGE}}


def controls_of(found):
    return [control.name for control in found.registration.resolved.suite.controls]


@pytest.mark.parametrize(
    ("controls", "code", "says"),
    [
        (
            {"linage": LINEAGE},
            "registration.model-without-control",
            ("subjects.controls.linage", "lineage, other-task", "did you mean `lineage`?"),
        ),
        (
            {"haar": LINEAGE},
            "registration.model-without-control",
            ("subjects.controls.haar", "a control that takes one: lineage, other-task"),
        ),
        (
            {"lineage": "zoo:dyck3/indep-100"},
            "subject.same-weights",
            ("subjects.controls.lineage", "the reference's own weights"),
        ),
        ({"lineage": "zoo:dyck3/indep-10"}, "subject.unknown-model", ("zoo:dyck3/indep-10",)),
        ({"lineage": "dyck3/indep-101"}, "subject.bad-reference", ("zoo:NAME or path:FOLDER",)),
    ],
    ids=["unknown-control", "takes-no-model", "the-reference", "unknown-model", "bad-reference"],
)
def test_a_model_that_no_control_can_use_is_refused(tiny, refusal, controls, code, says):
    message = refusal(tiny({"subjects.controls": controls}), code=code)
    assert all(part in message for part in says)


def test_a_controls_model_of_another_shape_is_refused(tiny, refusal, save_narrow):
    plain = tiny({"subjects.controls": {"other-task": save_narrow}})
    message = refusal(plain, code="subject.other-shape")
    assert "subjects.controls.other-task has width 32" in message
    assert "the reference's width: 64" in message


def test_a_controls_model_of_another_name_with_the_references_weights_is_refused(
    tiny, refusal, tmp_path
):
    import shutil

    from harness.subjects.reference import zoo

    shutil.copytree(zoo()["dyck3/indep-100"], tmp_path / "copy")
    plain = tiny({"subjects.controls": {"lineage": f"path:{tmp_path / 'copy'}"}})
    refusal(plain, code="subject.same-weights")


@pytest.mark.parametrize("name", ["lineage", "other-task"])
def test_a_control_that_needs_a_model_cannot_be_added_without_one(tiny, refusal, name):
    message = refusal(
        tiny({"controls": {"add": [name]}}), code="registration.control-without-model"
    )
    assert f"controls.add: {name}, and no model for it" in message
    assert f"subjects.controls.{name}" in message


def test_a_named_model_makes_its_control_run_and_is_frozen(tiny, prepared_from):
    from harness.subjects.reference import locate

    plain, named = prepared_from(tiny()), prepared_from(tiny(NAMED))
    assert set(controls_of(named)) - set(controls_of(plain)) == {"lineage"}
    frozen = named.registration.resolved.subjects.controls
    assert frozen == {"lineage": locate(LINEAGE).resolved}
    assert len(frozen["lineage"].weights) == 64
    assert named.registration.claim.subjects.controls == {"lineage": LINEAGE}
    assert named.registration.id != plain.registration.id
    assert list(named.controls) == ["lineage"]
    again = Registration.model_validate_json(named.registration.canonical())
    assert again.id == named.registration.id
    added = prepared_from(tiny(NAMED, {"controls": {"add": ["lineage"]}}))
    assert "lineage" in controls_of(added)


def test_without_a_model_no_control_that_needs_one_runs(tiny, prepared_from):
    assert not {"lineage", "other-task"} & set(controls_of(prepared_from(tiny())))


def test_a_control_that_decides_and_has_no_model_is_not_run(tiny, prepared_from):
    """No control of this suite decides by a model of its own; that of another suite may."""
    from dataclasses import replace

    from harness.resolve import catalogue

    found = prepared_from(tiny())
    decides = [
        entry.model_copy(
            update={
                "roles": {kind: {**r, "lineage": "must-pass"} for kind, r in entry.roles.items()}
            }
        )
        for entry in found.suite.catalogue
    ]
    other = replace(found.suite, catalogue=tuple(decides))

    def names(plain):
        claim = prepared_from(plain).registration.claim
        return [
            c.name
            for c in catalogue(claim, other, found.plan, shape=found.registration.resolved.shape)[
                1
            ].controls
        ]

    assert "lineage" not in names(tiny())
    assert "lineage" in names(tiny(NAMED))


def test_a_named_model_can_be_dropped_with_a_reason(tiny, prepared_from):
    dropped = {"controls": {"drop": [{"control": "lineage", "reason": "too slow"}]}}
    assert "lineage" not in controls_of(prepared_from(tiny(NAMED, dropped)))


def test_another_model_for_a_control_is_a_difference(tiny, prepared_from, save_random):
    plain = tiny({"subjects.controls": {"lineage": save_random(1, "model")}})
    before = prepared_from(plain).registration.resolved
    save_random(2, "model")
    (line,) = differences(before, prepared_from(plain).registration.resolved)
    assert line.startswith("subjects.controls.lineage.weights")


# --- arms, and statistics that are only shown -------------------------------------------------


def claiming(statistic, *, arm=None, kind="same", **region):
    claim = {"id": "mine", "statistic": statistic, "kind": kind, **(region or {"above": 0.5})}
    return {"claims": [claim if arm is None else {**claim, "arm": arm}]}


SHOWN = ("raw", "shift-only", "pure-rotation", "scaled", "linear")


@pytest.mark.parametrize("statistic", ["alignment.ev.paired@1", "alignment.stitch@1"])
@pytest.mark.parametrize("arm", SHOWN)
def test_an_arm_that_is_only_shown_cannot_be_claimed(tiny, refusal, prepared_from, statistic, arm):
    spec = prepared_from(tiny()).registration.resolved.statistics[statistic]
    assert (spec.arms, spec.shown_arms) == (("rotated",), SHOWN)
    message = refusal(tiny(claiming(statistic, arm=arm)), code="registration.unknown-member")
    assert f"arm names {arm!r}" in message
    assert "one of rotated" in message
    assert outlook(prepared_from(tiny(claiming(statistic, arm="rotated")))).family == 2


def test_a_statistic_with_arms_is_claimed_with_one(tiny, refusal):
    message = refusal(tiny(claiming("alignment.ev.paired@1")), code="registration.no-arm")
    assert "one of rotated" in message
    assert "arm: ..." in message
    message = refusal(
        tiny(claiming("rotation.identity_share@1", arm="rotated")),
        code="registration.unknown-member",
    )
    assert "one of none" in message


@pytest.mark.parametrize("kind", ["same", "differs"])
@pytest.mark.parametrize(
    "statistic",
    ["rotation.frobenius@1", "rotation.rank.stable@1", "rotation.rank.gap@1", "sae.l0@1"],
)
def test_a_statistic_in_which_no_control_has_a_role_cannot_be_claimed(
    tiny, with_features, refusal, statistic, kind
):
    message = refusal(
        tiny(with_features, claiming(statistic, kind=kind)), code="registration.no-roles"
    )
    assert f"{statistic}, in which no control has a role" in message
    assert "alignment.ev.paired@1" in message  # what could be claimed instead


def test_a_direction_without_roles_cannot_be_claimed(tiny, with_features, refusal):
    changes = claiming("sae.ev.self@1", arm="few", kind="differs")
    message = refusal(tiny(with_features, changes), code="registration.no-roles")
    assert "has controls: same" in message


# --- dictionaries -----------------------------------------------------------------------------


@pytest.fixture
def recipe(with_features):
    return with_features["plan.dictionaries"]["few"]


def dictionaries(**recipes):
    return {"plan.dictionaries": recipes}


def test_a_claim_about_a_dictionary_needs_one(tiny, with_features, refusal):
    message = refusal(tiny(with_features, dictionaries()), code="registration.not-measured")
    assert "sae.ev.rotated@1, which this plan does not measure" in message
    assert "plan.dictionaries" in message


def test_without_dictionaries_no_statistic_of_theirs_is_frozen(tiny, with_features, prepared_from):
    without = prepared_from(tiny()).registration.resolved.statistics
    beside = prepared_from(tiny(with_features)).registration.resolved.statistics
    assert not {name for name in without if name.startswith("sae.")}
    added = {name: spec for name, spec in beside.items() if name not in without}
    assert set(added) == {n for n in suite("rotation").statistics if n.startswith("sae.")}
    for spec in added.values():
        arms = (("few",), ()) if spec.roles else ((), ("few",))
        assert (spec.arms, spec.shown_arms) == arms
    assert {name: beside[name] for name in without} == without


def test_an_arm_that_is_no_dictionary_is_refused(tiny, with_features, refusal):
    changes = claiming("sae.ev.rotated@1", arm="fex")
    message = refusal(tiny(with_features, changes), code="registration.unknown-member")
    assert "one of few" in message
    assert "did you mean `few`?" in message
    refusal(tiny(with_features, claiming("sae.ev.rotated@1")), code="registration.no-arm")


def test_the_order_of_dictionaries_does_not_reach_the_id(
    tiny, with_features, recipe, prepared_from
):
    ids = {
        prepared_from(tiny(with_features, dictionaries(**given))).registration.id
        for given in ({"few": recipe, "all": recipe}, {"all": recipe, "few": recipe})
    }
    assert len(ids) == 1


@pytest.mark.parametrize(
    "statistic", ["sae.ev.rotated@1", "sae.ev.paired@1", "sae.ev.gap_to_self@1", "sae.ev.raw@1"]
)
def test_a_dictionary_may_be_as_dense_as_a_quarter_of_the_width(
    tiny, with_features, recipe, refusal, prepared_from, statistic
):
    def at(k, kind="same"):
        region = {"above": -0.5} if kind == "same" else {"below": -0.5}
        return tiny(
            with_features,
            dictionaries(few={**recipe, "k": k}),
            claiming(statistic, arm="few", kind=kind, **region),
        )

    message = refusal(at(17), code="registration.dense-dictionary")
    assert "17 active features in 64 dimensions" in message
    assert "at most 16 (d / 4)" in message
    assert "plan.dictionaries.few.k to 16 or less" in message
    assert outlook(prepared_from(at(16))).members["mine"] == 1
    assert outlook(prepared_from(at(17, "differs"))).members["mine"] == 1


def test_only_the_claimed_dictionary_has_to_be_sparse(tiny, with_features, recipe, prepared_from):
    dense = {**recipe, "k": 32}
    assert outlook(prepared_from(tiny(with_features, dictionaries(few=recipe, dense=dense))))


def test_dictionaries_need_a_split_of_their_own(tiny, with_features, refusal):
    plain = tiny(with_features)
    del plain["corpus"]["splits"]["dictionary"]
    message = refusal(plain, code="registration.missing-split")
    assert "corpus.splits without dictionary" in message
    assert "add `dictionary: 8192` under corpus.splits" in message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": 33}, "`k` is 33, above the width 32"),
        ({"l1": 0.1}, "a topk dictionary has `k` and no `l1`"),
        ({"kind": "relu"}, "a relu one `l1` and no `k`"),
        ({"k": 0}, "plan.dictionaries.few.k: "),
        ({"width": 0}, "plan.dictionaries.few.width: "),
        ({"steps": 0}, "plan.dictionaries.few.steps: "),
        ({"kind": "topkk"}, "plan.dictionaries.few.kind: "),
        ({"widht": 32}, "plan.dictionaries.few.widht: Extra inputs"),
        ({"widht": 32}, "did you mean `width`?"),
        ({"feed": {"batch_token": 8}}, "did you mean `batch_tokens`?"),
        ({"feed": {"batch_tokens": 0}}, "plan.dictionaries.few.feed.batch_tokens: "),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_recipe_that_cannot_be_trained_is_refused(
    tiny, with_features, recipe, refusal, change, says
):
    plain = tiny(with_features, dictionaries(few={**recipe, **change}))
    message = refusal(plain, code="registration.bad-plan")
    assert "plan.dictionaries.few" in message
    assert says in message


def test_dictionaries_share_one_feed(tiny, with_features, recipe, refusal, prepared_from):
    other = {**recipe, "feed": {**recipe["feed"], "seed": 1}}
    plain = tiny(with_features, dictionaries(few=recipe, more=other))
    message = refusal(plain, code="registration.bad-plan")
    assert "different `feed`" in message
    same = {**recipe, "seed": 1}
    assert prepared_from(tiny(with_features, dictionaries(few=recipe, more=same)))


def test_a_name_that_cannot_be_an_arm_is_refused(tiny, with_features, recipe, refusal):
    plain = tiny(with_features, dictionaries(few=recipe, **{"two words": recipe}))
    assert "two words" in refusal(plain, code="registration.bad-plan")


def test_check_warns_of_dictionaries_whose_density_is_not_known(
    tiny, with_features, recipe, prepared_from
):
    relu = {"kind": "relu", "l1": 0.1, **{n: recipe[n] for n in ("width", "steps", "feed")}}
    found = outlook(prepared_from(tiny(with_features, dictionaries(few=relu, sparse=recipe))))
    (warning,) = [w for w in found.warnings if w.startswith("dictionary ")]
    assert warning.startswith("dictionary few: ")
    assert "pca-k" in warning
    found = outlook(prepared_from(tiny(with_features)))
    assert not [w for w in found.warnings if w.startswith("dictionary ")]


@pytest.mark.parametrize("given", ["al", "", None])
def test_what_is_explored_is_all_or_what_is_claimed(tiny, refusal, given):
    message = refusal(tiny({"plan.explore": given}), code="registration.bad-plan")
    assert "plan.explore" in message
    assert "'all' or 'claimed'" in message


@pytest.mark.parametrize(
    ("field", "renamed"),
    [
        ("reference", "zoo:dyck3/shared-0"),
        ("others", {"b": "zoo:dyck3/shared-0"}),
        ("controls", {"lineage": "zoo:dyck3/indep-101"}),
        ("controls", {}),
    ],
)
def test_a_registration_knows_whether_it_resolves_the_models_that_it_names(
    tiny, prepared_from, field, renamed
):
    frozen = prepared_from(tiny({"subjects.controls": {"lineage": LINEAGE}})).registration
    assert frozen.resolves_its_own_models()
    subjects = frozen.claim.subjects.model_copy(update={field: renamed})
    forged = frozen.model_copy(
        update={"claim": frozen.claim.model_copy(update={"subjects": subjects})}
    )
    assert not forged.resolves_its_own_models()
