"""Frozen definitions against what is installed: nothing in `resolved` can be rewritten unseen."""

from __future__ import annotations

from typing import Any

import pytest

from harness.comparison import compare
from harness.resolve import prepare
from harness.suite import suite
from prereg.hypothesis import parse_hypothesis
from prereg.registration import Registration

PAIRED = "alignment.ev.paired@1"


@pytest.fixture(scope="module")
def frozen() -> Registration:
    source = suite("rotation").hypotheses["rotation"].read_bytes()
    return prepare(parse_hypothesis(source, name="claim.yaml", is_json=False)).registration


def edited(frozen: Registration, change) -> Registration:
    plain: dict[str, Any] = frozen.plain()
    change(plain["resolved"])
    return Registration.model_validate(plain, strict=False)


def test_what_was_just_registered_is_what_is_installed(frozen):
    assert compare(frozen) == ([], [])


def test_models_that_controls_name_are_compared(hypothesis, prepared_from):
    models = {
        "subjects.controls": {
            "lineage": "zoo:dyck3/shared-0/step-2000",
            "other-task": "zoo:dyck3/shared-1",
        }
    }
    named = prepared_from(hypothesis(models)).registration
    assert compare(named) == ([], [])

    def another(resolved):
        resolved["subjects"]["controls"]["lineage"]["weights"] = "0" * 64

    problems, notes = compare(edited(named, another))
    assert problems == ["zoo:dyck3/shared-0/step-2000 is another model here"]
    assert not notes

    def elsewhere(resolved):
        resolved["subjects"]["controls"]["other-task"].update(written="path:/elsewhere")

    problems, notes = compare(edited(named, elsewhere))
    assert not problems
    assert notes == ["the weights of path:/elsewhere are not here to be compared"]

    def without(resolved):
        resolved["suite"]["controls"] = [
            control for control in resolved["suite"]["controls"] if control["name"] != "lineage"
        ]

    problems, _ = compare(edited(named, without))
    assert problems == ["its suite are not those of the installed suite"]


def test_the_names_of_dictionaries_are_compared(tiny, with_features, prepared_from):
    frozen = prepared_from(tiny(with_features)).registration
    assert compare(frozen) == ([], [])

    def renamed(resolved):
        resolved["statistics"]["sae.l0@1"]["shown_arms"] = ["fewer"]

    problems, _ = compare(edited(frozen, renamed))
    assert problems == ["its statistics are not those of the installed suite"]


def comparators(resolved):
    roles = resolved["statistics"][PAIRED]["roles"]["same"]
    roles.update(dict.fromkeys(roles, "comparator"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (comparators, "statistics"),
        (lambda r: r["statistics"][PAIRED].update(formula="anything"), "statistics"),
        (
            lambda r: r["statistics"]["bar.behavioural.kl@1"]["parameters"].update(c=0.1),
            "statistics",
        ),
        (lambda r: r["statistics"].pop("rotation.identity_share@1"), "statistics"),
        (lambda r: r["suite"].update(controls=[]), "suite"),
        (lambda r: r["suite"].update(draws=1), "suite"),
        (lambda r: r.update(sites=r["sites"][:1]), "sites"),
        (lambda r: r["subjects"]["reference"].update(weights="0" * 64), "indep-100"),
        (lambda r: r["subjects"]["others"]["b"].update(architecture="llama"), "indep-101"),
    ],
)
def test_a_rewritten_definition_is_a_problem(frozen, change, says):
    problems, _ = compare(edited(frozen, change))
    assert any(says in problem for problem in problems)


def test_other_code_and_models_elsewhere_are_notes(frozen):
    def elsewhere(resolved):
        resolved["code"]["sha256"] = "0" * 64
        resolved["subjects"]["others"]["b"].update(written="path:/elsewhere", kind="path")

    problems, notes = compare(edited(frozen, elsewhere))
    assert not problems
    assert any("other code" in note for note in notes)
    assert any("path:/elsewhere" in note for note in notes)


def test_a_suite_that_is_not_installed_is_a_note(frozen):
    plain = frozen.plain()
    plain["claim"]["suite"]["name"] = "sign_gauge"
    problems, notes = compare(Registration.model_validate(plain, strict=False))
    assert not problems
    assert any("not installed" in note for note in notes)
