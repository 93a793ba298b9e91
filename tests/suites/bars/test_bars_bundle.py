"""Registrations of the bars from file to verified bundle, in both modes."""

from __future__ import annotations

import json

import pytest

from harness.comparison import compare
from harness.judging import read_evidence
from harness.run import run
from harness.verdicts import judge_attempt
from prereg.workspace import Workspace
from reports.bundle import publish
from reports.verify import verify

ABSTAIN = {"abstain": "not part of this test"}


@pytest.fixture
def published(prepared, tmp_path):
    """A shipped file with changes, run, judged and published: workspace, id, bundle, verdict."""

    def make(name, **changes):
        found = prepared(name, **changes).registration
        home = Workspace.at(tmp_path / "home")
        source = json.dumps(found.claim.model_dump(mode="json", by_alias=True, exclude_none=True))
        home.register(found, source.encode(), suffix="json")
        run(home, found.id)
        judged = judge_attempt(home, found.id)
        publish(home, found.id, judged.attempt, to=tmp_path / "bundle")
        return home, found.id, tmp_path / "bundle", judged.verdict

    return make


def test_within_one_model_the_published_bar_b_can_tell(published):
    changes = {
        "corpus.splits": {"fit": 128, "evaluate": 256},
        **{f"bars.{name}": ABSTAIN for name in ("P", "C", "Pr")},
        "bars.B": {"statistic": "bar.behavioural.kl_labels@1", "kind": "same", "below": 0.1},
        "claims": [],
    }
    home, identifier, bundle, verdict = published("published-within", **changes)
    assert verdict.word == "PASS"
    (claim,) = verdict.claims
    assert claim.members[0].pair is None
    assert {c.control: c.standing for c in claim.members[0].controls} == {
        "untrained-both": "outside"
    }
    record = json.loads(home.run_record(identifier, 1))
    assert [stage["stage"] for stage in record["stages"]] == [
        "within/main",
        "within/untrained-both",
    ]
    assert record["spec"]["others"] == {}
    assert len(record["spec"]["reference"]["heads"]) == 8
    assert verify(bundle, compare=compare).problems == ()
    again = run(home, identifier)
    assert list(again.reused) == ["within/main", "within/untrained-both"]


@pytest.mark.slow
def test_all_that_the_bars_measure_stands_in_the_report(published):
    """On samples too few to mean anything: every statistic, every figure, one bundle."""
    changes = {
        "corpus.block": 4,
        "corpus.splits": {"fit": 128, "evaluate": 96, "counterfactual": 96, "ablation": 96},
        "plan.predictor": {"name": "ig", "steps": 4, "completeness": 1.0},
        "plan.parametric": {"alignment": "full", "starts": 3},
        "plan.joint": [0.0, 1.0],
        "plan.random_draws": 32,
    }
    home, identifier, bundle, _ = published("bars", **changes)
    specs = home.registration(identifier).resolved.statistics
    records = read_evidence(home.evidence(identifier, 1)).records
    main = {(r.statistic, r.arm): r for r in records if r.case == "main"}
    assert main.keys() == {
        (spec.id, arm)
        for spec in specs.values()
        for arm in ((*spec.arms, *spec.shown_arms) or (None,))
    }
    defined = [key for key, record in main.items() if record.undefined is None]
    assert len(defined) == len(main)
    assert len(main["bar.causal.labels@1", None].draws) == 575
    low, high = main["bar.parametric.nmse@1", None].bounds
    assert 0.1 < low < high
    errors = [main[f"parametric.joint.{n}@1", "1"].value for n in ("weights", "activations")]
    others = [main[f"parametric.joint.{n}@1", "0"].value for n in ("weights", "activations")]
    assert errors[0] > others[0]
    assert errors[1] < others[1]
    by_draw = {
        arm: r.value for (name, arm), r in main.items() if name == "bar.behavioural.kl.draw@1"
    }
    assert by_draw["standard"] == main["bar.behavioural.kl@1", None].value
    assert len(set(by_draw.values())) == 3
    heads = [r.value for (name, _), r in main.items() if name == "bar.behavioural.kl.head@1"]
    assert sum(heads) / 3 == pytest.approx(by_draw["standard"])
    assert verify(bundle, compare=compare).problems == ()
    page = (bundle / "report.html").read_text(encoding="utf-8")
    for figure in ("causal-labels", "predictive-labels", "joint-alignment"):
        assert f'id="figure-{figure}' in page or figure in page
        assert list(bundle.glob(f"**/{figure}*.svg"))
