"""Where controls stand: shares of draws, undefined draws, p-valued controls."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.controls import Yardstick, behaved, control_outcome, share_standing
from prereg.errors import IntegrityError
from prereg.regions import Region
from prereg.resolved import ControlSpec


def _outcome(worlds, records, *, role="must-fail", random=True, real=0.8, spec=None, **changes):
    control = ControlSpec(name="shuffled", replaces=("pairing",), by="x", random=random)
    fields = {"region": Region(lower=0.5), "level": 0.95, "pooled": len(records) > 1}
    yardstick = Yardstick(spec=spec or worlds.spec(), **(fields | changes))
    return control_outcome(control, role, records=records, yardstick=yardstick, real=real)


@pytest.mark.parametrize(
    ("role", "inside", "draws", "standing"),
    [
        ("must-fail", 0, 32, "outside"),
        ("must-fail", 0, 28, "undecided"),
        ("must-fail", 1, 32, "undecided"),
        ("must-fail", 1, 46, "outside"),
        ("must-fail", 6, 32, "undecided"),
        ("must-fail", 7, 32, "inside"),
        ("must-fail", 32, 32, "inside"),
        ("must-pass", 32, 32, "inside"),
        ("must-pass", 28, 28, "undecided"),
        ("must-pass", 31, 32, "undecided"),
        ("must-pass", 1, 32, "undecided"),
        ("must-pass", 0, 32, "outside"),
        ("comparator", 7, 32, "undecided"),
        ("comparator", 32, 32, "inside"),
    ],
)
def test_a_random_control_stands_by_the_share_of_its_draws(role, inside, draws, standing):
    assert share_standing(role, inside=inside, undefined=0, draws=draws) == standing


@settings(deadline=None, max_examples=100)
@given(
    draws=st.integers(1, 80),
    data=st.data(),
    role=st.sampled_from(["must-fail", "must-pass", "comparator"]),
)
def test_an_undefined_draw_never_makes_a_proof(draws, data, role):
    undefined = data.draw(st.integers(0, draws))
    inside = data.draw(st.integers(0, draws - undefined))
    standing = share_standing(role, inside=inside, undefined=undefined, draws=draws)
    if standing in ("inside", "outside"):
        for turned_inside in range(undefined + 1):
            assert standing == share_standing(
                role, inside=inside + turned_inside, undefined=0, draws=draws
            )


def test_draws_are_summarised_and_the_value_is_ranked_among_them(worlds):
    draws = [0.1, 0.2, 0.8, 0.9, None, 0.3]
    outcome = _outcome(worlds, [worlds.draws_record(draws)])
    assert (outcome.draws, outcome.draws_inside, outcome.rank) == (6, 2, 2)
    assert (outcome.median, outcome.low_draw, outcome.high_draw) == (0.3, 0.1, 0.9)
    assert (outcome.standing, outcome.behaved) == ("undecided", None)


def test_draws_that_are_all_undefined_stand_nowhere(worlds):
    outcome = _outcome(worlds, [worlds.draws_record([None] * 40)])
    assert (outcome.standing, outcome.median, outcome.rank) == ("undefined", None, 0)


def test_a_single_control_stands_by_its_interval_at_the_level(worlds):
    def standing(value, spread):
        record = worlds.mean_record(value, spread=spread, case="shuffled")
        return _outcome(worlds, [record], random=False).standing

    assert standing(0.9, 0.1) == "inside"
    assert standing(0.1, 0.1) == "outside"
    assert standing(0.51, 1.0) == "undecided"
    few = worlds.mean_record(0.9, blocks=10)
    assert _outcome(worlds, [few], random=False).standing == "undefined"


def test_missing_evidence_proves_nothing(worlds):
    outcome = _outcome(worlds, [None])
    assert (outcome.standing, outcome.behaved) == ("missing", None)
    half = _outcome(worlds, [worlds.draws_record([0.0] * 32), None])
    assert half.standing == "missing"


def test_draws_of_seeds_are_averaged_number_by_number(worlds):
    first = worlds.draws_record([0.0, 1.0, None, 1.0], pair="b")
    second = worlds.draws_record([0.2, 0.2, 0.2, 1.0], pair="c")
    outcome = _outcome(worlds, [first, second])
    assert (outcome.draws, outcome.draws_inside) == (4, 2)
    assert (outcome.low_draw, outcome.median, outcome.high_draw) == (0.1, 0.6, 1.0)
    shorter = worlds.draws_record([0.2], pair="c")
    with pytest.raises(IntegrityError, match="as many draws"):
        _outcome(worlds, [first, shorter])


def test_a_record_of_another_form_than_the_control_is_refused(worlds):
    with pytest.raises(IntegrityError, match="draws without a value"):
        _outcome(worlds, [worlds.mean_record(0.1)], random=True)
    with pytest.raises(IntegrityError, match="a single value"):
        _outcome(worlds, [worlds.draws_record([0.1] * 32)], random=False)


@pytest.mark.parametrize(
    ("exceeding", "undefined", "standing"),
    [(0, 0, "inside"), (200, 0, "outside"), (40, 0, "undecided"), (0, 100, "undecided")],
)
def test_a_p_valued_control_stands_by_limits_of_its_p(worlds, exceeding, undefined, standing):
    spec = worlds.spec("world.rank@1", estimator="draws")
    draws = [2.0] * exceeding + [None] * undefined + [0.0] * (800 - exceeding - undefined)
    record = worlds.draws_record(draws, value=1.0, estimator="draws", statistic=spec.id)
    outcome = _outcome(worlds, [record], random=False, spec=spec, region=Region(upper=0.05))
    assert outcome.standing == standing


def test_draws_of_a_p_valued_statistic_are_p_values(worlds):
    spec = worlds.spec("world.rank@1", estimator="draws")
    fields = {"estimator": "draws", "statistic": spec.id}
    outcome = _outcome(
        worlds,
        [worlds.draws_record([0.2] * 30 + [0.01] * 2, **fields)],
        spec=spec,
        region=Region(upper=0.05),
    )
    assert (outcome.draws_inside, outcome.standing) == (2, "undecided")
    with pytest.raises(IntegrityError, match="p-value"):
        _outcome(worlds, [worlds.draws_record([3.7] * 32, **fields)], spec=spec)


@pytest.mark.parametrize(
    ("role", "standing", "expected"),
    [
        ("must-fail", "outside", True),
        ("must-fail", "inside", False),
        ("must-pass", "inside", True),
        ("must-pass", "outside", False),
        ("must-pass", "undecided", None),
        ("must-fail", "missing", None),
        ("comparator", "inside", None),
    ],
)
def test_behaviour_is_said_only_where_it_is_proven(role, standing, expected):
    assert behaved(role, standing) is expected


def test_the_limits_are_one_sided_at_95_percent_whatever_the_level():
    # 0 of n is outside from n = log(.05) / log(.9) on
    smallest = math.ceil(math.log(0.05) / math.log(0.9))
    assert share_standing("must-fail", inside=0, undefined=0, draws=smallest) == "outside"
    assert share_standing("must-fail", inside=0, undefined=0, draws=smallest - 1) == "undecided"
