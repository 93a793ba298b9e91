"""Values recomputed from column sums: by hand, and by what must not change them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import estimate_value
from harness.judging.estimators import STATED_TOLERANCE, check_stated
from harness.judging.evidence import EvidenceRecord, Undefined
from prereg.errors import IncompleteError, IntegrityError

POSITIVE = st.floats(0.01, 100.0)

RARE = {
    "body": [1.0, 2.0],
    "tail": [6.0, 0.0],
    "capped": [7.0, 2.0],
    "positions": [20.0, 10.0],
    "sequences": [2, 2],
    "exceeding": [1, 0],
    "largest": [6.0, 0.0],
    "shortest": [4.0, 3.0],
}
PAIRED = {
    "predicted": {"g/a": 1.0, "g/b": 2.0, "g/c": 6.0},
    "measured": {"g/a": 0.0, "g/b": 3.0, "g/c": 6.0},
}


def _paired(means=PAIRED, *, shift=0.0, weight=4.0):
    """Two even blocks whose unit means are `means`; shift moves weight between the two."""
    columns = {}
    for unit in means["predicted"]:
        columns[f"weight/{unit}"] = [weight - shift, weight + shift]
        for side in ("predicted", "measured"):
            mean = means[side][unit]
            columns[f"{side}/{unit}"] = [mean * (weight - shift), mean * (weight + shift)]
    return columns


@pytest.mark.parametrize(
    ("estimator", "columns", "expected"),
    [
        ("mean", {"total": [1, 5], "weight": [2, 4]}, 1.0),
        ("ratio", {"numerator": [1, -4], "denominator": [2, 4]}, -0.5),
        ("ratio_fieller", {"numerator": [1, -4], "denominator": [2, 4]}, -0.5),
        ("one_minus_ratio", {"residual": [1, 2], "total": [4, 8]}, 0.75),
        (
            "difference",
            {
                "residual_a": [1, 2],
                "total_a": [4, 8],
                "residual_b": [2, 2],
                "total_b": [4, 1],
            },
            0.75 - 0.2,
        ),
        ("rare_mean", RARE, 9.0 / 30.0),
        # centred: p = (-2, -1, 3), m = (-3, 0, 3)
        ("pearson", _paired(), 15.0 / math.sqrt(14.0 * 18.0)),
        ("slope", _paired(), 15.0 / 14.0),
        ("nrmse", _paired(), math.sqrt(2.0 / 18.0)),
        ("spearman", _paired(), 1.0),
    ],
)
def test_by_hand(worlds, estimator, columns, expected):
    record = worlds.record(columns, value=expected, estimator=estimator)
    assert estimate_value(record, {}) == pytest.approx(expected, rel=1e-14)
    check_stated(record, {})


def test_units_are_centred_within_their_group_and_not_across(worlds):
    # within each group measured falls as predicted rises; pooled without centring it rises
    means = {
        "predicted": {"low/a": 0.0, "low/b": 1.0, "high/a": 10.0, "high/b": 11.0},
        "measured": {"low/a": 1.0, "low/b": 0.0, "high/a": 11.0, "high/b": 10.0},
    }
    record = worlds.record(_paired(means), value=-1.0, estimator="pearson")
    assert estimate_value(record, {}) == pytest.approx(-1.0)


def test_spearman_gives_ties_their_mean_rank(worlds):
    means = {
        "predicted": {"g/a": 1.0, "g/b": 1.0, "g/c": 2.0, "g/d": 3.0},
        "measured": {"g/a": 5.0, "g/b": 6.0, "g/c": 7.0, "g/d": 9.0},
    }
    # ranks .5 .5 2 3 against 0 1 2 3, centred: -1 -1 .5 1.5 and -1.5 -.5 .5 1.5
    expected = 4.5 / math.sqrt(4.5 * 5.0)
    record = worlds.record(_paired(means), value=expected, estimator="spearman")
    assert estimate_value(record, {}) == pytest.approx(expected, rel=1e-14)


@settings(deadline=None, max_examples=40)
@given(
    residual=st.lists(POSITIVE, min_size=2, max_size=8),
    scale=POSITIVE,
    split=st.floats(0.1, 0.9),
)
def test_explained_variance_ignores_scale_and_how_blocks_are_cut(worlds, residual, scale, split):
    residual = np.array(residual)
    total = 1.5 + residual[::-1]
    record = worlds.record(
        {"residual": residual, "total": total}, value=0.0, estimator="one_minus_ratio"
    )
    cut = worlds.record(
        {
            "residual": np.concatenate([residual * split, residual * (1 - split)]) * scale,
            "total": np.concatenate([total * split, total * (1 - split)]) * scale,
        },
        value=0.0,
        estimator="one_minus_ratio",
    )
    value = estimate_value(record, {})
    assert value <= 1.0
    assert estimate_value(cut, {}) == pytest.approx(value, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    predicted=st.lists(st.floats(-10, 10), min_size=4, max_size=8, unique=True),
    factor=POSITIVE,
    offset=st.floats(-5, 5),
    shift=st.floats(-3, 3),
)
def test_correlations_ignore_offsets_of_a_group_and_the_slope_does_not_ignore_scale(
    worlds, predicted, factor, offset, shift
):
    names = [f"g{i % 2}/u{i}" for i in range(len(predicted))]
    base = dict(zip(names, predicted, strict=True))
    measured = {n: factor * p + (offset if n.startswith("g1") else 0.0) for n, p in base.items()}
    spreads = [np.ptp([p for n, p in base.items() if n.startswith(g)]) for g in ("g0", "g1")]
    if max(spreads) < 1e-3:
        return
    columns = _paired({"predicted": base, "measured": measured}, shift=shift)

    def value(estimator):
        return estimate_value(worlds.record(columns, value=0.0, estimator=estimator), {})

    assert value("pearson") == pytest.approx(1.0, abs=1e-9)
    assert value("slope") == pytest.approx(factor, rel=1e-6)
    assert value("nrmse") == pytest.approx(abs(1.0 / factor - 1.0), rel=1e-6, abs=1e-6)


def test_forms_without_columns(worlds):
    exact = EvidenceRecord(**worlds.key(), estimator="exact", value=0.25)
    assert estimate_value(exact, {}) == 0.25
    gain = worlds.draws_record([1.0, 2.0, 9.0, 4.0], value=5.0, estimator="value_minus_median")
    assert estimate_value(gain, {}) == 2.0
    ranked = worlds.draws_record([1.0, 2.0], value=5.0, estimator="draws")
    assert estimate_value(ranked, {}) == 5.0
    bracket = EvidenceRecord(**worlds.key(), estimator="bracket", bounds=(0.0, 1.0))
    assert isinstance(estimate_value(bracket, {}), Undefined)


@pytest.mark.parametrize(
    ("estimator", "columns", "reason"),
    [
        ("mean", {"total": [0, 0], "weight": [0, 0]}, "sums to zero"),
        ("ratio", {"numerator": [1, 1], "denominator": [2, -2]}, "sums to zero"),
        ("one_minus_ratio", {"residual": [], "total": []}, "no block"),
        (
            "pearson",
            _paired({"predicted": {"g/a": 1, "g/b": 1}, "measured": {"g/a": 1, "g/b": 2}}),
            "constant input: the predicted",
        ),
        (
            "slope",
            _paired({"predicted": {"g/a": 0.1, "g/b": 2}, "measured": {"g/a": 0.3, "g/b": 0.3}}),
            "constant input: the measured",
        ),
        ("nrmse", _paired(weight=0.0), "no weight"),
    ],
)
def test_undefined_is_said_with_a_reason_and_never_zero(worlds, estimator, columns, reason):
    value = estimate_value(worlds.record(columns, value=0.0, estimator=estimator), {})
    assert isinstance(value, Undefined)
    assert reason in value.undefined


def test_an_undefined_record_keeps_its_own_reason(worlds):
    record = EvidenceRecord(**worlds.key(), estimator="mean", undefined="rank 0")
    assert estimate_value(record, {}) == Undefined(undefined="rank 0")


def test_an_undefined_draw_leaves_no_gain(worlds):
    gain = worlds.draws_record([1.0, None], value=5.0, estimator="value_minus_median")
    assert estimate_value(gain, {}) == Undefined(undefined="1 of 2 draws are undefined")


@pytest.mark.parametrize("error", [1e-7, -1e-7, 3e-9])
def test_a_stated_value_that_the_sums_do_not_give_is_refused(worlds, error):
    columns = {"residual": [1.0, 2.0], "total": [4.0, 8.0]}
    record = worlds.record(columns, value=0.75 * (1 + error), estimator="one_minus_ratio")
    with pytest.raises(IntegrityError, match="the columns give"):
        check_stated(record, {})


def test_a_value_near_zero_may_carry_the_rounding_of_its_terms(worlds):
    columns = {"residual": [4.0, 8.0 - 1e-13], "total": [4.0, 8.0]}
    stated = 1e-14 + 0.5 * STATED_TOLERANCE
    check_stated(worlds.record(columns, value=stated, estimator="one_minus_ratio"), {})


@pytest.mark.parametrize(
    ("estimator", "columns"),
    [
        ("mean", {"total": [1.0], "weights": [1.0]}),
        ("mean", {"total": [1.0], "weight": [1.0], "extra": [1.0]}),
        ("pearson", {"predicted/g/a": [1.0], "measured/g/a": [1.0]}),
        ("pearson", {"predicted/a": [1.0], "measured/a": [1.0], "weight/a": [1.0]}),
    ],
)
def test_columns_of_another_name_are_refused(worlds, estimator, columns):
    with pytest.raises(IntegrityError, match="column"):
        estimate_value(worlds.record(columns, value=1.0, estimator=estimator), {})


def test_a_form_that_the_estimator_does_not_read_is_refused(worlds):
    with pytest.raises(IntegrityError, match="another form"):
        estimate_value(worlds.draws_record([1.0], value=1.0, estimator="exact"), {})
    with pytest.raises(IntegrityError, match="another form"):
        estimate_value(EvidenceRecord(**worlds.key(), estimator="draws", value=1.0), {})


def test_an_estimator_of_a_later_judge_is_incomplete_and_not_guessed(worlds):
    record = worlds.record(
        {"total": [1.0], "weight": [1.0]}, value=1.0, estimator="participation_u"
    )
    with pytest.raises(IncompleteError, match="participation_u"):
        estimate_value(record, {})


def test_sums_that_overflow_are_refused(worlds):
    record = worlds.record({"total": [1e308, 1e308], "weight": [1.0, 1.0]}, value=1.0)
    with pytest.raises(IntegrityError, match="overflow"):
        estimate_value(record, {})
