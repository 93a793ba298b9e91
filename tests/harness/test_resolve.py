"""What `check` and `register` refuse, and what they freeze."""

from __future__ import annotations

import json

import pytest

from harness.outlook import outlook
from harness.resolve import differences, prepare
from harness.suite import suite
from prereg.errors import InputError
from prereg.hypothesis import parse_hypothesis
from prereg.registration import Registration

BASE = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")


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
    assert set(resolved.statistics) == set(suite("rotation").statistics)
    assert resolved.statistics["bar.behavioural.kl@1"].parameters == {"tau": 0.1, "c": 2.0}
    names = [control.name for control in resolved.suite.controls]
    assert names == ["self", "self-fresh", "gauge-self", "untrained", "covariance-only", "shuffled"]
    assert found.registration.claim.abstained().keys() == {"P", "C", "Pr"}
    assert outlook(found).family == 7


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
        ([("    fit: 2048\n", "    train: 2048\n")], "corpus.unknown", "train"),
        ([("    fit: 2048\n", "")], "registration.missing-split", "fit"),
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
        ([("above: 0.5", "above: 1.5")], "registration.unreachable", "can both reach and miss"),
        ([("below: 0.02", "below: -1")], "registration.unreachable", "[0, inf]"),
        (
            [("kind: same\n    above", "kind: same\n    arm: raw\n    above")],
            "registration.unknown-member",
            "arm",
        ),
        (
            [("above: 0.5", "above: 0.5\n    over: {sites: [hook_embed]}")],
            "registration.unknown-member",
            "hook_resid",
        ),
        (
            [("above: 0.5", "above: 0.5\n    over: {pairs: [c]}")],
            "registration.unknown-member",
            "b",
        ),
        ([("above: 0.5", "above: 0.5\n    over: {sites: []}")], "registration.bad-range", "empty"),
        (
            [("below: 0.02}", "below: 0.02, over: {sites: [blocks.0.hook_resid_post]}}")],
            "registration.no-sites",
            "without sites",
        ),
        ([("alignment: rotation", "alignment: affine")], "registration.bad-plan", "alignment"),
        ([("alignment: rotation", "alinment: rotation")], "registration.bad-plan", "alignment"),
        ([("draws: 32", "draws: 31")], "registration.bad-plan", "draws"),
        (
            [("evaluate: 4096", "evaluate: 368")],
            "registration.too-few-blocks",
            "at least 24 blocks",
        ),
        (
            [("controls: default", "controls: {add: [haar]}")],
            "registration.unknown-control",
            "haar",
        ),
    ],
)
def test_what_does_not_exist_or_fit_is_refused_with_a_way_on(changes, code, hint):
    assert hint in refused(*changes, code=code)


def test_a_file_that_judges_nothing_is_refused():
    message = refused(
        ("{statistic: bar.behavioural.kl@1, kind: same, below: 0.02}", "{abstain: not now}"),
        ("    above: 0.5", "    above: 0.5\n    role: secondary"),
        ("    below: 0.5", "    below: 0.5\n    role: secondary"),
        code="registration.nothing-judged",
    )
    assert "at least one judged bar or primary claim" in message


def test_models_of_another_shape_are_refused(tmp_path):
    import torch

    from harness.subjects.dyck import DyckTransformer, initialise
    from harness.subjects.dyck_config import DyckConfig
    from harness.subjects.loading import save_subject

    config = DyckConfig(d_model=32)
    model = DyckTransformer(config)
    initialise(model, generator=torch.Generator().manual_seed(0))
    save_subject(config, model.state_dict(), tmp_path / "narrow")
    message = refused(
        ("zoo:dyck3/indep-101", f"path:{tmp_path / 'narrow'}"), code="subject.other-shape"
    )
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
    assert "bar" in warning or "B" in warning
    import math

    needed = math.ceil(2.0 * math.log(4 * 7 / 0.05) / 1e-4)
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
        ("fit: 2048", "fit: 2049"),
        ("evaluate: 4096", "evaluate: 4097"),
        ("evaluate: 4096", "calibrate: 64\n    evaluate: 4096"),
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

    needed = smallest_n_rare(2.0, 7, 0.95, 0.02)
    assert needed == 633  # 2 ln(4 * 7 / .05) / .02
    for samples, warnings in ((needed - 1, 1), (needed, 0)):
        found = outlook(prepared(edited(("evaluate: 4096", f"evaluate: {samples}"))))
        assert len(found.warnings) == warnings
        assert all("633" in warning for warning in found.warnings)
    refused(("evaluate: 4096", "evaluate: 368"), code="registration.too-few-blocks")
    assert outlook(prepared(edited(("evaluate: 4096", "evaluate: 369")))).blocks == 24
