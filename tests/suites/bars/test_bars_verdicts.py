"""What the bars say on models whose answer is known, from the file to the verdict."""

from __future__ import annotations

import pytest

ABSTAIN = {"abstain": "not part of this test"}
SMALL = {"plan.explore": "claimed", "plan.parametric": {"alignment": "full", "starts": 3}}


@pytest.mark.slow
def test_published_bars_within_one_model_pass_on_a_net_that_was_never_trained(judged):
    """Completeness makes prediction and measurement one number, on any net: the bar cannot tell."""
    claims = judged(
        "published-within",
        **SMALL,
        **{
            "corpus.block": 2,
            "corpus.splits": {"fit": 64, "evaluate": 48, "ablation": 48},
            "subjects.reference": "zoo:dyck3/indep-100",
            "bars.B": ABSTAIN,
            "claims": [],
        },
    )
    for bar in ("P", "C", "Pr"):
        assert claims[bar].word == "NOT_DIAGNOSTIC", claims[bar].members[0].reason
        (member,) = claims[bar].members
        assert "untrained-both" in member.reason
        by_name = {control.control: control for control in member.controls}
        assert by_name["untrained-both"].role == "must-fail"
        assert by_name["untrained-both"].standing == "inside"
        assert by_name["gauge-self"].standing == "inside"
    for bar in ("C", "Pr"):
        (member,) = claims[bar].members
        assert member.estimate.value > 0.999
        by_name = {control.control: control for control in member.controls}
        assert by_name["untrained-both"].estimate.value > 0.999
        assert by_name["shuffled-components"].standing == "outside"  # and yet: it is no tautology
    published = [claims[bar].members[0].estimate for bar in ("C", "Pr")]
    assert published[0] == published[1]  # as published the two are one quantity


@pytest.fixture(scope="module")
def across(request, tmp_path_factory):
    """The file `across` as it is shipped, judged once."""
    import json

    from ruamel.yaml import YAML

    from harness.resolve import prepare
    from harness.run import run
    from harness.suite import suite
    from harness.verdicts import judge_attempt
    from prereg.hypothesis import parse_hypothesis
    from prereg.workspace import Workspace

    data = YAML(typ="safe", pure=True).load(suite("bars").hypotheses["across"].read_text("utf-8"))
    source = json.dumps(data).encode()
    found = prepare(parse_hypothesis(source, name="claim.json", is_json=True)).registration
    home = Workspace.at(tmp_path_factory.mktemp("across"))
    home.register(found, source, suffix="json")
    run(home, found.id)
    verdict = judge_attempt(home, found.id).verdict
    return {claim.name: claim.members[0] for claim in verdict.claims}


def standing(member, control):
    return next(c.standing for c in member.controls if c.control == control)


@pytest.mark.slow
def test_the_genuine_self_passes_all_four_bars(across):
    for bar, member in across.items():
        assert standing(member, "self") == "inside", bar
        assert standing(member, "gauge-self") == "inside", bar
        assert standing(member, "untrained") == "outside", bar


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decoy", "guard"),
    [
        ("decoy-depth-pairs", "B"),
        ("decoy-block-swap", "P"),
        ("fine-tuned", "P"),
        ("shuffled-components", "C"),
        ("shuffled-components", "Pr"),
    ],
)
def test_every_decoy_is_rejected_by_the_bar_that_guards(across, decoy, guard):
    assert standing(across[guard], decoy) == "outside"


@pytest.mark.slow
def test_a_decoy_gets_past_the_bars_that_do_not_guard(across):
    """The twin behaves alike; the averaged readout leaves the effects of components in order."""
    twin = next(c for c in across["B"].controls if c.control == "fine-tuned").estimate.value
    assert twin < 0.005
    averaged = next(c for c in across["C"].controls if c.control == "decoy-depth-pairs")
    assert averaged.estimate.value > 0.9
