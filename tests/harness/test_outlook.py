"""What `check` says before any data: what could PASS, and which split has too few blocks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from harness.cli import main
from harness.judging import smallest_n_rare
from harness.judging.reach import correlation_reach, rare_reach
from harness.outlook import outlook
from harness.suite import suite
from prereg.errors import InputError
from prereg.regions import Region

ABSTAIN = {"abstain": "not the question"}
BARS = ("B", "P", "C", "Pr")


@pytest.fixture(scope="module")
def four_bars():
    """The bars suite's own hypothesis file, or another of its files, as plain data."""

    def read(name="bars", **changes):
        source = suite("bars").hypotheses[name].read_text(encoding="utf-8")
        plain = json.loads(json.dumps(YAML(typ="safe").load(source)))
        plain["corpus"]["splits"] |= changes.pop("splits", {})
        plain["bars"] |= changes.pop("bars", {})
        return plain | changes

    return read


@pytest.fixture(scope="module")
def found(four_bars, prepared_from):
    """The outlook of that file with changes."""
    return lambda *names, **changes: outlook(prepared_from(four_bars(*names, **changes)))


def test_every_bar_and_claim_says_what_could_pass(found, four_bars):
    shown = found()
    plain = four_bars()
    level, components = shown.member_level, 10
    assert list(shown.reach) == list(shown.members) == list(BARS)
    samples = plain["corpus"]["splits"]["evaluate"]
    assert rare_reach(1e-4, sequences=samples, ceiling=2.0, level=level) is None
    assert f"{smallest_n_rare(2.0, 4, 0.95, 1e-4):,} would do" in shown.reach["B"]
    assert shown.reach["P"].startswith("no sampling error")
    for bar, each in (("C", 9), ("Pr", 18)):
        limit = correlation_reach(
            Region(lower=0.99), components=components, units=components * each, level=level
        )
        assert f"values > {limit.expected.lower:.5f}" in shown.reach[bar]
        assert f"the {each} units of a component" in shown.reach[bar]
        assert f"unless > {limit.least.lower:.4f}" in shown.reach[bar]


def test_a_secondary_claim_is_held_to_the_level_of_one(found, four_bars):
    shown = found("published-within")
    assert shown.family == 4
    (claim,) = (c for c in four_bars("published-within")["claims"] if c["id"] == "causal-by-units")
    assert (claim["role"], claim["above"]) == ("secondary", 0.99)
    alone = correlation_reach(Region(lower=0.99), components=10, units=90, level=0.95)
    assert f"values > {alone.expected.lower:.4f} if" in shown.reach["causal-by-units"]
    kl = {"statistic": "bar.behavioural.kl@1", "kind": "same", "below": 0.01}
    more = found(claims=[{**kl, "id": "again", "role": "secondary"}], bars={"B": {**kl}})
    samples = four_bars()["corpus"]["splits"]["evaluate"]
    for name, level in (("again", 0.95), ("B", more.member_level)):
        limit = rare_reach(0.01, sequences=samples, ceiling=2.0, level=level)
        assert more.reach[name].startswith(f"values below {limit.mean:.4g} nats")


def test_a_secondary_claim_needs_the_samples_of_one_member(found):
    kl = {"statistic": "bar.behavioural.kl@1", "kind": "same", "below": 0.01}
    bars = {"B": ABSTAIN, "C": ABSTAIN}  # leaves P and Pr
    for role, m in (("secondary", 1), ("primary", 3)):
        claims = [{**kl, "id": "mine", "role": role}]
        needed = smallest_n_rare(2.0, m, 0.95, 0.01)
        for samples, warnings in ((needed, 0), (needed - 1, 1)):
            shown = found(splits={"evaluate": samples}, bars=bars, claims=claims)
            assert sum(w.startswith("mine: ") for w in shown.warnings) == warnings


@pytest.mark.parametrize(
    ("split", "bar"), [("evaluate", "B"), ("counterfactual", "C"), ("ablation", "Pr")]
)
def test_every_judged_split_needs_enough_blocks(found, split, bar):
    assert found(splits={split: 8 * 23 + 1})
    with pytest.raises(InputError) as caught:
        found(splits={split: 8 * 23})
    assert caught.value.code == "registration.too-few-blocks"
    assert f"corpus.splits.{split}: 184 samples in blocks of 8 are 23 blocks, for {bar}" in str(
        caught.value
    )
    assert f"set {split} to 192" in caught.value.fix
    # a split that nothing is judged on may be small
    assert found(splits={split: 8 * 23}, bars={bar: ABSTAIN}).blocks


def test_bar_p_alone_needs_no_blocks(found):
    few = {"evaluate": 16, "counterfactual": 16, "ablation": 16}
    shown = found(splits=few, bars=dict.fromkeys(("B", "C", "Pr"), ABSTAIN))
    assert shown.blocks == 2
    assert list(shown.reach) == ["P"]


def test_one_model_alone_is_measured_once(four_bars, prepared_from):
    prepared = prepared_from(four_bars("published-within"))
    assert not prepared.others
    seen = []
    timed = replace(prepared.suite, seconds=lambda plan, load: seen.append(load) or 1.0)
    shown = outlook(replace(prepared, suite=timed))
    assert [load.pairs for load in seen] == [1]
    assert set(shown.reach) == set(shown.members)


def test_over_seeds_the_spread_is_not_known(tiny, prepared_from, save_random):
    claim = {"id": "mean", "statistic": "rotation.identity_share@1", "kind": "differs"}
    pooled = {**claim, "below": 0.5, "pool": "seeds"}
    others = {"subjects.others": {"b": "zoo:dyck3/indep-101", "c": save_random(1, "third")}}
    shown = outlook(prepared_from(tiny(others, {"claims": [pooled]})))
    assert shown.reach["mean"] == "depends on the spread over 2 seeds"


def test_check_prints_a_line_a_bar_and_gives_the_same_as_json(
    four_bars, capsys, tmp_path, monkeypatch
):
    (tmp_path / "claim.json").write_text(json.dumps(four_bars()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = []
    for arguments in (["claim.json"], ["claim.json", "--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["check", *arguments])
        assert ended.value.code == 0
        printed.append(capsys.readouterr().out)
    reach = json.loads(printed[1])["reach"]
    assert list(reach) == list(BARS)
    lines = printed[0].splitlines()
    start = lines.index("what could PASS, known before any data:") + 1
    assert lines[start : start + 4] == [f"  {name}: {said}" for name, said in reach.items()]
