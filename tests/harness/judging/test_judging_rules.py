"""The judge's rules, each in a synthetic world where the right verdict is known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import exit_code, judge, read_evidence, sentence, write_evidence
from harness.judging.evidence import EvidenceRecord
from prereg.canonical import canonical
from prereg.errors import Exit, IncompleteError, InputError, IntegrityError

INSIDE, OUTSIDE, ACROSS = 0.9, 0.1, 0.51
WIDE = 1.0
"""Spread at which a mean of 0.51 has an interval on both sides of 0.5."""


def _judge(worlds, frozen, records, **changes):
    return judge(frozen, worlds.evidence(frozen, records, **changes), evidence_sha256=worlds.sha)


def _one(worlds, main, *, controls=None, kind="same", spread=0.1, **claim):
    """Verdict on the one member of a world with one claim."""
    frozen = worlds.registration(worlds.claim(kind=kind, **claim))
    standing = worlds.sound | (controls or {})
    return _judge(worlds, frozen, worlds.world(main, spread=spread, controls=standing))


def _member(verdict, claim=0):
    return verdict.claims[claim].members[0]


def _share(inside):
    return [0.9] * inside + [0.0] * (32 - inside)


def test_inside_with_every_must_fail_control_outside_passes(worlds):
    verdict = _one(worlds, INSIDE)
    assert verdict.word == "PASS"
    reason = _member(verdict).reason
    assert reason.startswith("the whole interval [0.")
    assert reason.endswith("lies in > 0.5; every must-fail control is proven outside")


def test_outside_with_every_must_pass_control_inside_fails(worlds):
    verdict = _one(worlds, OUTSIDE)
    assert verdict.word == "FAIL"
    assert "no part of the interval" in _member(verdict).reason
    assert "every must-pass control is proven inside" in _member(verdict).reason


def test_an_interval_across_the_threshold_is_inconclusive(worlds):
    verdict = _one(worlds, ACROSS, spread=WIDE)
    assert verdict.word == "INCONCLUSIVE"
    assert "lies partly in > 0.5" in _member(verdict).reason


@pytest.mark.parametrize("control", ["untrained", "untrained-both"])
def test_a_pass_that_a_must_fail_control_shares_is_not_diagnostic(worlds, control):
    verdict = _one(worlds, INSIDE, controls={control: 0.8})
    assert verdict.word == "NOT_DIAGNOSTIC"
    assert f"control {control} passes where it must fail: interval [" in _member(verdict).reason


def test_a_tautology_is_caught_by_untrained_both_alone(worlds):
    # integrated gradients on one fresh net predict that net: the statistic holds of nothing
    verdict = _one(worlds, 0.999997, controls={"untrained-both": 0.999997, "untrained": 0.33})
    assert verdict.word == "NOT_DIAGNOSTIC"
    assert "untrained-both" in _member(verdict).reason
    assert "untrained passes" not in _member(verdict).reason


def test_draws_inside_make_a_pass_not_diagnostic_and_are_counted_in_the_reason(worlds):
    verdict = _one(worlds, INSIDE, controls={"shuffled": _share(9)})
    assert verdict.word == "NOT_DIAGNOSTIC"
    expected = "control shuffled passes where it must fail: 9 of 32 draws inside"
    assert expected in _member(verdict).reason


@pytest.mark.parametrize(
    ("control", "evidence", "why"),
    [
        ("untrained", None, "its evidence is missing"),
        ("shuffled", _share(3), "3 of 32 draws inside"),
        ("shuffled", [0.0] * 31 + [None], "0 of 32 draws inside"),
        ("shuffled", None, "its evidence is missing"),
    ],
)
def test_a_pass_with_an_unproven_must_fail_control_is_inconclusive(worlds, control, evidence, why):
    verdict = _one(worlds, INSIDE, controls={control: evidence})
    assert verdict.word == "INCONCLUSIVE"
    assert f"must-fail control {control} is not proven outside: {why}" in _member(verdict).reason


def test_an_undefined_control_proves_nothing(worlds):
    frozen = worlds.registration(worlds.claim())
    records = worlds.world(INSIDE, controls=worlds.sound | {"untrained": None})
    records.append(worlds.mean_record(0.1, case="untrained", carrying=8))
    verdict = _judge(worlds, frozen, records)
    assert verdict.word == "INCONCLUSIVE"
    assert "undefined, 8 effective blocks" in _member(verdict).reason


def test_a_fail_with_a_broken_must_pass_control_is_not_diagnostic(worlds):
    verdict = _one(worlds, OUTSIDE, controls={"self": 0.2})
    assert verdict.word == "NOT_DIAGNOSTIC"
    assert "control self fails where it must pass: interval [" in _member(verdict).reason


def test_a_fail_with_an_unproven_must_pass_control_is_inconclusive(worlds):
    verdict = _one(worlds, OUTSIDE, controls={"self": None})
    assert verdict.word == "INCONCLUSIVE"
    assert "must-pass control self is not proven inside" in _member(verdict).reason


def test_a_broken_must_fail_control_does_not_shield_a_clear_fail(worlds):
    broken = {"untrained": 0.9, "untrained-both": 0.9, "shuffled": _share(32)}
    assert _one(worlds, OUTSIDE, controls=broken).word == "FAIL"


def test_a_broken_must_pass_control_does_not_cancel_a_pass(worlds):
    verdict = _one(worlds, INSIDE, controls={"self": 0.1})
    assert verdict.word == "PASS"
    shown = {c.control: c.behaved for c in _member(verdict).controls}
    assert shown["self"] is False


@pytest.mark.parametrize("lineage", [0.9, 0.1, None])
@pytest.mark.parametrize(("main", "word"), [(INSIDE, "PASS"), (OUTSIDE, "FAIL")])
def test_comparators_are_shown_and_cancel_nothing(worlds, lineage, main, word):
    verdict = _one(worlds, main, controls={"lineage": lineage})
    assert verdict.word == word
    assert "lineage" in [c.control for c in _member(verdict).controls]


def test_controls_that_do_not_apply_are_not_looked_for(worlds):
    assert "haar" not in [c.control for c in _member(_one(worlds, INSIDE)).controls]


def test_a_differs_claim_is_not_blocked_by_controls_that_rightly_satisfy_it(worlds):
    # raw transfer is below 0.5; so it is for strangers and shuffled rows, as it should be
    verdict = _one(worlds, OUTSIDE, kind="differs", below=0.5)
    assert verdict.word == "PASS"
    verdict = _one(worlds, OUTSIDE, kind="differs", below=0.5, controls={"self": 0.2})
    assert verdict.word == "NOT_DIAGNOSTIC"


def test_a_differs_claim_fails_only_where_its_must_pass_control_passes(worlds):
    assert _one(worlds, INSIDE, kind="differs", below=0.5).word == "FAIL"
    verdict = _one(worlds, INSIDE, kind="differs", below=0.5, controls={"shuffled": _share(32)})
    assert verdict.word == "NOT_DIAGNOSTIC"


def test_too_few_blocks_are_undecidable_whatever_the_controls(worlds):
    frozen = worlds.registration(worlds.claim())
    records = [worlds.mean_record(0.9, carrying=10), *worlds.world(0.9)[1:]]
    verdict = _judge(worlds, frozen, records)
    assert verdict.word == "UNDECIDABLE"
    assert _member(verdict).reason.startswith("undefined: 10 effective blocks")
    assert _member(verdict).estimate.value == pytest.approx(0.9)


@settings(deadline=None, max_examples=60)
@given(
    values=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    untrained=st.one_of(st.none(), st.floats(0.0, 1.0)),
    inside=st.integers(0, 32),
    kind=st.sampled_from(["same", "differs"]),
)
def test_every_pass_and_fail_has_all_the_controls_that_it_needs(
    worlds, values, untrained, inside, kind
):
    main, own = values
    controls = {"self": own, "untrained": untrained, "shuffled": _share(inside)}
    member = _member(_one(worlds, main, kind=kind, controls=controls))
    low, high = member.estimate.low, member.estimate.high
    concerned = {"PASS": "must-fail", "FAIL": "must-pass"}.get(member.word)
    if member.word == "PASS":
        assert low > 0.5
    if member.word == "FAIL":
        assert high <= 0.5
    if concerned:
        assert all(c.behaved for c in member.controls if c.role == concerned)
    elif member.word == "NOT_DIAGNOSTIC":
        assert low > 0.5 or high <= 0.5
        assert any(c.behaved is False for c in member.controls)
    else:
        across = low <= 0.5 < high
        assert across or any(c.behaved is None for c in member.controls if c.role != "comparator")


SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post", "blocks.2.hook_resid_post")


def _sites(worlds, values, **changes):
    frozen = worlds.registration(worlds.claim(), sites=SITES[: len(values)], **changes)
    records = [
        r for site, v in zip(SITES, values, strict=False) for r in worlds.world(v, site=site)
    ]
    return frozen, records


def test_a_claim_takes_its_worst_member_and_a_registration_its_worst_primary_claim(worlds):
    frozen, records = _sites(worlds, (INSIDE, OUTSIDE, INSIDE))
    verdict = _judge(worlds, frozen, records)
    assert [m.word for m in verdict.claims[0].members] == ["PASS", "FAIL", "PASS"]
    assert verdict.claims[0].word == verdict.word == "FAIL"
    assert verdict.family == 3


def _claims(worlds, *words):
    """A registration whose claims come out as `words`, with its records."""
    specs = [worlds.spec(f"world.s{i}@1", per_site=False) for i in range(len(words))]
    claims = [
        worlds.claim(f"c{i}", statistic=spec.id, role="primary") for i, spec in enumerate(specs)
    ]
    frozen = worlds.registration(*claims, specs=specs)
    records = []
    for word, spec in zip(words, specs, strict=True):
        fields = {"statistic": spec.id, "site": None}
        controls = worlds.sound | ({"untrained": 0.9} if word == "NOT_DIAGNOSTIC" else {})
        main = {"FAIL": OUTSIDE, "INCONCLUSIVE": 0.5}.get(word, INSIDE)
        made = worlds.world(main, controls=controls, **fields)
        if word == "UNDECIDABLE":
            made[0] = worlds.mean_record(0.9, carrying=4, **fields)
        records += made
    return frozen, records


ORDER = ("FAIL", "NOT_DIAGNOSTIC", "UNDECIDABLE", "INCONCLUSIVE", "PASS")


@pytest.mark.parametrize("worst", range(5))
def test_words_are_ordered_fail_not_diagnostic_undecidable_inconclusive_pass(worlds, worst):
    frozen, records = _claims(worlds, *reversed(ORDER[worst:]))
    verdict = _judge(worlds, frozen, records)
    assert [c.word for c in verdict.claims] == list(reversed(ORDER[worst:]))
    assert verdict.word == ORDER[worst]


def test_the_sentence_counts_bars_and_primary_claims(worlds):
    frozen, records = _claims(worlds, *ORDER, "PASS")
    verdict = _judge(worlds, frozen, records)
    assert sentence(verdict) == (
        "FAIL — 0 bars and 6 primary claims: 2 pass, 1 fails, 1 not diagnostic, 1 undecidable, "
        "1 inconclusive"
    )


def test_a_bar_is_judged_like_a_claim_and_abstained_bars_keep_their_reasons(worlds):
    bar = {k: v for k, v in worlds.claim().items() if k != "id"}
    frozen = worlds.registration(bars={"C": bar})
    verdict = _judge(worlds, frozen, worlds.world(INSIDE))
    assert (verdict.claims[0].name, verdict.claims[0].bar) == ("C", True)
    assert set(verdict.abstained) == {"B", "P", "Pr"}
    assert sentence(verdict) == "PASS — 1 bar and 0 primary claims: 1 passes"


def test_a_secondary_claim_decides_nothing_and_is_judged_at_the_level(worlds):
    second = worlds.spec("world.beside@1", per_site=False)
    frozen = worlds.registration(
        worlds.claim(),
        worlds.claim("beside", statistic=second.id, role="secondary"),
        specs=[second],
        sites=SITES[:2],
    )
    records = worlds.world(OUTSIDE, statistic=second.id, site=None)
    for site in SITES[:2]:
        records += worlds.world(INSIDE, site=site)
    verdict = _judge(worlds, frozen, records)
    assert (verdict.word, verdict.family) == ("PASS", 2)
    assert verdict.claims[1].word == "FAIL"
    assert verdict.claims[1].members[0].estimate.level == 0.95


def test_a_larger_family_makes_each_interval_wider(worlds):
    alone = _judge(worlds, *_sites(worlds, (INSIDE,)))
    frozen, records = _sites(worlds, (INSIDE, INSIDE, INSIDE))
    three = _judge(worlds, frozen, records)
    assert alone.claims[0].members[0].estimate.level == 0.95
    assert three.claims[0].members[0].estimate.level == pytest.approx(1 - 0.05 / 3)
    assert three.claims[0].members[0].estimate.low < alone.claims[0].members[0].estimate.low
    controls = three.claims[0].members[0].controls
    assert {c.estimate.level for c in controls if c.estimate} == {0.95}


def test_without_a_primary_member_nothing_is_decided(worlds):
    frozen = worlds.registration(worlds.claim(role="secondary"))
    verdict = _judge(worlds, frozen, worlds.world(INSIDE))
    assert (verdict.word, verdict.family) == ("UNDECIDABLE", 0)
    nowhere = worlds.registration(worlds.claim(over={"sites": []}))
    assert _judge(worlds, nowhere, []).word == "UNDECIDABLE"
    assert exit_code(verdict) is Exit.UNDECIDABLE


def test_a_dropped_control_is_listed_and_not_looked_for(worlds):
    frozen = worlds.registration(worlds.claim(), drop={"untrained": "no fresh net was kept"})
    verdict = _judge(worlds, frozen, worlds.world(INSIDE))
    assert verdict.word == "PASS"
    assert verdict.dropped_controls == {"untrained": "no fresh net was kept"}
    assert "untrained" not in [c.control for c in _member(verdict).controls]


def test_a_dropped_control_is_not_looked_for_where_it_is_still_listed(worlds):
    drop = {"untrained": "no fresh net was kept"}
    frozen = worlds.registration(worlds.claim(), drop=drop)
    every = worlds.registration(worlds.claim()).resolved.suite
    resolved = frozen.resolved.model_copy(update={"suite": every})
    listed = frozen.model_copy(update={"resolved": resolved})
    records = worlds.world(INSIDE, controls=worlds.sound | {"untrained": None})
    assert _judge(worlds, listed, records).word == "PASS"


def test_nothing_passes_or_fails_where_every_control_that_could_tell_was_dropped(worlds):
    drop = dict.fromkeys(("untrained", "untrained-both", "shuffled"), "not run")
    frozen = worlds.registration(worlds.claim(), drop=drop)
    verdict = _judge(worlds, frozen, worlds.world(INSIDE))
    assert verdict.word == "INCONCLUSIVE"
    assert _member(verdict).reason.endswith("no must-fail control is left to prove anything")
    assert sentence(verdict).endswith("; 3 default controls left out")
    frozen = worlds.registration(worlds.claim(), drop={"self": "not run"})
    assert _judge(worlds, frozen, worlds.world(OUTSIDE)).word == "INCONCLUSIVE"
    assert _judge(worlds, frozen, worlds.world(INSIDE)).word == "PASS"


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_value_outside_the_range_of_its_statistic_is_refused(worlds, value):
    spec = worlds.spec("world.share@1", lower=0.0, upper=1.0)
    frozen = worlds.registration(worlds.claim(statistic=spec.id), specs=[spec])
    with pytest.raises(IntegrityError) as caught:
        _judge(worlds, frozen, worlds.world(value, statistic=spec.id))
    assert caught.value.code == "evidence.out-of-range"


@pytest.mark.parametrize(("main", "code"), [(INSIDE, Exit.DEVIATED), (OUTSIDE, Exit.FAIL)])
def test_a_deviation_is_a_flag_and_never_instead_of_a_verdict(worlds, main, code):
    frozen = worlds.registration(worlds.claim())
    verdict = _judge(worlds, frozen, worlds.world(main), deviations=("numpy 2 -> 3",))
    assert verdict.deviated
    assert verdict.word == ("PASS" if main == INSIDE else "FAIL")
    assert exit_code(verdict) is code
    assert sentence(verdict).endswith("; 1 deviation from what was frozen")


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("PASS", 0),
        ("FAIL", 10),
        ("INCONCLUSIVE", 12),
        ("NOT_DIAGNOSTIC", 13),
        ("UNDECIDABLE", 15),
    ],
)
def test_exit_codes_speak_the_verdict(worlds, word, code):
    frozen, records = _claims(worlds, word)
    assert exit_code(_judge(worlds, frozen, records)) == code


def test_missing_main_evidence_is_incomplete(worlds):
    frozen, records = _sites(worlds, (INSIDE, INSIDE))
    without = [r for r in records if r.site != SITES[1] or r.case != "main"]
    with pytest.raises(IncompleteError, match=r"blocks\.1\.hook_resid_post") as caught:
        _judge(worlds, frozen, without)
    assert caught.value.exit_code is Exit.INCOMPLETE


def test_evidence_of_another_registration_is_refused(worlds):
    frozen = worlds.registration(worlds.claim())
    other = worlds.registration(worlds.claim(above=0.6))
    with pytest.raises(IntegrityError, match=other.id):
        _judge(worlds, frozen, worlds.world(INSIDE), identifier=other.id)


def test_a_registration_for_another_judge_is_not_rejudged(worlds):
    frozen = worlds.registration(worlds.claim(), judge=99)
    with pytest.raises(IncompleteError, match="not re-judged"):
        _judge(worlds, frozen, worlds.world(INSIDE))


@pytest.mark.parametrize("case", ["main", "untrained", "unregistered"])
def test_edited_evidence_is_refused_in_every_record(worlds, case):
    frozen = worlds.registration(worlds.claim())
    records = [*worlds.world(OUTSIDE), worlds.mean_record(0.4, case="unregistered")]
    edited = [
        r.model_copy(update={"value": 0.9}) if r.case == case and r.columns else r for r in records
    ]
    with pytest.raises(IntegrityError, match=r"the value 0\.9"):
        _judge(worlds, frozen, edited)


def test_evidence_of_another_estimator_is_refused(worlds):
    frozen = worlds.registration(worlds.claim())
    ratio = worlds.record({"numerator": [1.0] * 40, "denominator": [1.0] * 40}, value=1.0)
    records = [ratio.model_copy(update={"estimator": "ratio"}), *worlds.world(INSIDE)[1:]]
    with pytest.raises(IntegrityError, match="another form"):
        _judge(worlds, frozen, records)


@pytest.mark.parametrize(
    "change",
    [
        lambda worlds: worlds.mean_record(INSIDE, blocks=39),
        lambda worlds: worlds.mean_record(INSIDE, blocks=41),
        lambda worlds: worlds.mean_record(INSIDE).model_copy(update={"blocks": (*range(39), 40)}),
        lambda worlds: worlds.mean_record(0.1, case="untrained", blocks=39),
        lambda worlds: worlds.draws_record([0.0] * 31, case="shuffled"),
        lambda worlds: worlds.draws_record([0.0] * 33, case="shuffled"),
    ],
)
def test_evidence_that_leaves_out_or_adds_blocks_or_draws_is_refused(worlds, change):
    frozen = worlds.registration(worlds.claim())
    changed = change(worlds)
    records = [r for r in worlds.world(INSIDE) if r.key != changed.key]
    with pytest.raises(IntegrityError) as caught:
        _judge(worlds, frozen, [*records, changed])
    assert caught.value.code == "evidence.partial"


def _gain(worlds, *, main=32, control=32):
    """A world of one claim that a value is above the median of its draws, by the number of draws."""
    decides = {"self": "must-pass", "untrained": "must-fail"}
    roles = dict.fromkeys(worlds.controls, "not-applicable") | decides
    spec = worlds.spec("world.gain@1", estimator="value_minus_median", roles={"same": roles})
    frozen = worlds.registration(worlds.claim(statistic=spec.id, above=0.0), specs=[spec])

    def record(value, draws, case):
        spread = [0.1 + 0.001 * i for i in range(draws)]
        own = {"statistic": spec.id, "estimator": spec.estimator, "case": case}
        return worlds.draws_record(spread, value=value, **own)

    records = [
        record(INSIDE, main, "main"),
        record(1.0, control, "self"),
        record(0.0, 32, "untrained"),
    ]
    return frozen, records


def test_a_value_minus_the_median_of_its_draws_is_judged(worlds):
    verdict = _judge(worlds, *_gain(worlds))
    assert verdict.word == "PASS"
    estimate = _member(verdict).estimate
    assert estimate.value == pytest.approx(INSIDE - 0.1155)
    assert estimate.low < estimate.value < estimate.high


@pytest.mark.parametrize("draws", [1, 31, 33])
@pytest.mark.parametrize("place", ["main", "control"])
def test_a_value_with_fewer_or_more_draws_than_registered_is_refused(worlds, place, draws):
    with pytest.raises(IntegrityError) as caught:
        _judge(worlds, *_gain(worlds, **{place: draws}))
    assert caught.value.code == "evidence.partial"
    assert f"{draws} draws" in caught.value.found
    assert caught.value.expected == "the registered 32 draws"


def test_a_value_without_the_draws_that_it_is_held_against_is_refused(worlds):
    frozen, (main, *controls) = _gain(worlds)
    alone = main.model_copy(update={"draws": None})
    with pytest.raises(IntegrityError):
        _judge(worlds, frozen, [alone, *controls])


def test_evidence_of_a_statistic_that_was_not_registered_is_refused(worlds):
    frozen = worlds.registration(worlds.claim())
    stranger = worlds.mean_record(INSIDE, statistic="world.other@1")
    with pytest.raises(IntegrityError, match="does not know"):
        _judge(worlds, frozen, [*worlds.world(INSIDE), stranger])


def test_a_same_claim_about_a_p_value_is_bad_input(worlds):
    spec = worlds.spec("world.rank@1", estimator="draws")
    frozen = worlds.registration(worlds.claim(statistic=spec.id, below=0.05), specs=[spec])
    with pytest.raises(InputError, match="differs"):
        _judge(worlds, frozen, [])


def _ranks(worlds, exceedances, *, draws=4000, q_of=None, role="primary"):
    """p-valued claims beside as many claims about a mean as `q_of` asks for."""
    spec = worlds.spec("world.rank@1", estimator="draws", roles={"differs": {}})
    means = (q_of or len(exceedances)) - len(exceedances)
    sites = tuple(f"blocks.{i}.hook_resid_post" for i in range(max(len(exceedances), means)))
    claims = [
        worlds.claim(
            "ranks",
            statistic=spec.id,
            kind="differs",
            below=0.05,
            role=role,
            over={"sites": list(sites[: len(exceedances)])},
        ),
        worlds.claim("means", over={"sites": list(sites[:means])}),
    ]
    frozen = worlds.registration(*claims, specs=[spec], sites=sites, controls={})
    records = [
        worlds.draws_record(
            [2.0] * k + [0.0] * (draws - k),
            value=1.0,
            statistic=spec.id,
            site=site,
            estimator="draws",
        )
        for k, site in zip(exceedances, sites, strict=False)
    ]
    records += [worlds.mean_record(INSIDE, site=site) for site in sites[:means]]
    return frozen, records


@pytest.mark.parametrize(
    ("exceedances", "q_of", "role", "words"),
    [
        # p = .02 and .04: Holm .04 .04, both at or below .05 x 2/2
        ((79, 159), 2, "primary", ["PASS", "PASS"]),
        # p = .03 and .04: Holm .06 .06
        ((119, 159), 2, "primary", ["INCONCLUSIVE", "INCONCLUSIVE"]),
        # p = .04 alone among two members: limit .05 x 1/2
        ((159,), 2, "primary", ["INCONCLUSIVE"]),
        ((159,), 1, "primary", ["PASS"]),
        # secondary: every p at .05, uncorrected
        ((119, 159), 3, "secondary", ["PASS", "PASS"]),
        ((119, 3999), 3, "secondary", ["PASS", "INCONCLUSIVE"]),
    ],
)
def test_p_values_are_corrected_over_the_p_valued_members(worlds, exceedances, q_of, role, words):
    frozen, records = _ranks(worlds, exceedances, q_of=q_of, role=role)
    found = next(c for c in _judge(worlds, frozen, records).claims if c.name == "ranks")
    assert [m.word for m in found.members] == words
    assert found.members[0].estimate.p_value == pytest.approx((1 + exceedances[0]) / 4001)
    assert found.members[0].reason.startswith("p = 0.0")


def test_an_undefined_p_value_stays_in_the_family_and_helps_nobody(worlds):
    # p = .04 beside one that is undefined: Holm .08, not .04
    frozen, records = _ranks(worlds, (159, 0), q_of=2)
    fields = records[1].model_dump(include={"statistic", "site", "pair", "case", "estimator"})
    broken = EvidenceRecord(**fields, undefined="rank 0")
    verdict = _judge(worlds, frozen, [records[0], broken])
    assert [m.word for m in verdict.claims[0].members] == ["INCONCLUSIVE", "UNDECIDABLE"]
    assert "Holm-adjusted 0.07998" in verdict.claims[0].members[0].reason


def _seeds(worlds, values, controls=None):
    others = tuple(f"s{i}" for i in range(len(values)))
    frozen = worlds.registration(worlds.claim(pool="seeds"), others=others)
    records = []
    for pair, value in zip(others, values, strict=True):
        records += worlds.world(value, pair=pair, controls=worlds.sound | (controls or {}))
    return frozen, records


def test_seeds_are_one_member_and_few_of_them_are_about_these_models(worlds):
    verdict = _judge(worlds, *_seeds(worlds, (0.80, 0.82, 0.81)))
    assert (verdict.family, verdict.word) == (1, "PASS")
    member = _member(verdict)
    assert (member.pair, member.estimate.blocks) == (None, 3)
    assert "over 3 seeds and one reference, a sentence about these models" in member.reason
    many = _judge(worlds, *_seeds(worlds, (0.80, 0.82, 0.81, 0.83, 0.8)))
    assert "over 5 seeds, conditional on the one reference" in _member(many).reason


def test_one_divergent_seed_takes_a_pooled_pass_away(worlds):
    assert _judge(worlds, *_seeds(worlds, (0.80, 0.82, 0.81, 0.2))).word == "INCONCLUSIVE"


def test_pooled_controls_are_graded_over_the_seeds(worlds):
    verdict = _judge(worlds, *_seeds(worlds, (0.80, 0.82, 0.81), {"shuffled": _share(20)}))
    assert verdict.word == "NOT_DIAGNOSTIC"
    assert "20 of 32 draws inside" in _member(verdict).reason


def test_the_verdict_is_the_same_bytes_every_time_and_after_a_round_trip(worlds):
    frozen, records = _sites(worlds, (0.7, 0.51, 0.123456))
    data = write_evidence(worlds.evidence(frozen, records))

    def verdict(evidence):
        return canonical(
            judge(frozen, evidence, evidence_sha256=worlds.sha).model_dump(mode="json")
        )

    first = verdict(worlds.evidence(frozen, records))
    assert verdict(worlds.evidence(frozen, records)) == first
    assert verdict(worlds.evidence(frozen, records[::-1])) == first
    assert verdict(read_evidence(data)) == first


def _numbers(value):
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)


@settings(deadline=None, max_examples=15)
@given(main=st.floats(-2, 2), spread=st.floats(1e-3, 3))
def test_every_number_of_a_verdict_has_nine_digits(worlds, main, spread):
    numbers = list(_numbers(_one(worlds, main, spread=spread).model_dump()))
    assert len(numbers) > 15
    assert all(float(f"{number:.9g}") == number for number in numbers)


def test_rounding_comes_after_deciding(worlds):
    # the interval ends at .5 + 1e-12: inside, though it prints as .5
    frozen = worlds.registration(worlds.claim(above=0.5))
    records = worlds.world(0.5 + 1e-12, spread=0.0)
    verdict = _judge(worlds, frozen, [records[0], *worlds.world(0.9)[1:]])
    assert verdict.word == "PASS"
    assert _member(verdict).estimate.low == 0.5


def test_a_bracket_passes_or_fails_by_both_of_its_bounds(worlds):
    spec = worlds.spec("world.search@1", estimator="bracket", roles={"same": {}}, per_site=False)
    frozen = worlds.registration(
        worlds.claim(statistic=spec.id, below=0.001), specs=[spec], controls={}
    )

    def word(low, high):
        key = worlds.key(statistic=spec.id, site=None)
        return _judge(
            worlds, frozen, [EvidenceRecord(**key, estimator="bracket", bounds=(low, high))]
        ).word

    assert word(0.0, 1e-4) == "PASS"
    assert word(0.0, 0.1) == "INCONCLUSIVE"
    assert word(0.01, 0.1) == "FAIL"
