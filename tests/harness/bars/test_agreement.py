"""Predicted against measured: units, labels, columns that the judge recomputes, and the null."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.bars.agreement import Agreement, completeness
from harness.bars.effects import Effects
from harness.judging.estimators import check_stated, estimate_value
from harness.judging.evidence import EvidenceRecord
from harness.statistics import agreement
from harness.statistics.undefined import UndefinedError

COMPONENTS = ("blocks.0.attn.head.0", "blocks.0.attn.head.1", "blocks.0.mlp", "blocks.1.mlp")
HEADS = ("depth", "valid")
KINDS = (COMPONENTS[:2], COMPONENTS[2:3], COMPONENTS[3:])
BLOCKS = 5


def drawn(seed, *, components=COMPONENTS):
    rng = np.random.default_rng(seed)
    weight = rng.integers(4, 9, (BLOCKS, 3)).astype(float)
    sums = rng.normal(0, 1, (BLOCKS, len(components), 3, len(HEADS))) * weight[:, None, :, None]
    return Effects(components, HEADS, sums, weight)


def near(effects, *, seed=9, noise=0.3):
    rng = np.random.default_rng(seed)
    return Effects(
        effects.components,
        effects.heads,
        effects.sums + noise * rng.normal(size=effects.sums.shape),
        effects.weight,
    )


def record(found, estimator):
    return EvidenceRecord(
        statistic=found.statistic,
        site=None,
        pair="b",
        arm=None,
        case="main",
        estimator=estimator,
        value=found.value,
        blocks=tuple(range(BLOCKS)),
        columns={name: tuple(map(float, column)) for name, column in found.columns.items()},
    )


@pytest.mark.parametrize("estimator", ["pearson", "spearman", "slope", "nrmse"])
@pytest.mark.parametrize("interventions", [1, 2])
def test_the_judge_recomputes_the_value_from_the_columns(estimator, interventions):
    predicted = drawn(1)
    measured = {f"kind-{i}": near(predicted, seed=i) for i in range(interventions)}
    found = Agreement(predicted, measured, (1, 0, 2, 3), sign=-1.0).scalar("s.x@1", estimator)
    assert len(found.columns) == 3 * interventions * 4 * 3 * 2
    written = record(found, estimator)
    check_stated(written, {})
    assert estimate_value(written, {}) == pytest.approx(found.value, rel=1e-12)


def test_units_are_centred_within_third_and_head():
    predicted = drawn(2)
    shifted = predicted.sums + predicted.weight[:, None, :, None] * np.array(
        [[5.0, -3.0], [1.0, 0.0], [0.0, 100.0]]
    )
    measured = {"m": Effects(predicted.components, HEADS, shifted, predicted.weight)}
    found = Agreement(predicted, measured, (0, 1, 2, 3))
    assert found.scalar("s.x@1", "pearson").value == pytest.approx(1.0)
    assert found.scalar("s.x@1", "nrmse").value == pytest.approx(0.0, abs=1e-9)
    assert found.pooled("s.x@1").value == pytest.approx(1.0)  # one shift for all components


def test_labels_say_which_measured_component_stands_for_which_predicted_one():
    predicted = drawn(3)
    order = [2, 0, 3, 1]  # of the model's components, by the spec's
    moved = np.empty_like(predicted.sums)
    moved[:, order] = predicted.sums
    measured = {"m": Effects(COMPONENTS, HEADS, moved, predicted.weight)}
    right = Agreement(predicted, measured, tuple(order)).scalar("s.x@1", "pearson").value
    inverse = tuple(int(i) for i in np.argsort(order))
    assert right == pytest.approx(1.0)
    assert Agreement(predicted, measured, inverse).scalar("s.x@1", "pearson").value < 0.9


def test_the_slope_is_of_measured_on_predicted_and_the_sign_changes_nothing():
    predicted = drawn(4)
    double = Effects(COMPONENTS, HEADS, 2 * predicted.sums, predicted.weight)
    for sign in (1.0, -1.0):
        found = Agreement(predicted, {"m": double}, (0, 1, 2, 3), sign=sign)
        assert found.scalar("s.x@1", "slope").value == pytest.approx(2.0)
        assert found.scalar("s.x@1", "nrmse").value == pytest.approx(0.5)
        assert found.scalar("s.x@1", "pearson").value == pytest.approx(1.0)


def test_the_null_holds_every_other_labelling_within_layers_once():
    predicted = drawn(5, components=tuple(f"h{i}" for i in range(7)))
    measured = {"a": near(predicted), "b": near(predicted, seed=3)}
    kinds = (("h0", "h1", "h2"), ("h3",), ("h4", "h5", "h6"))
    own = Agreement(predicted, measured, tuple(range(7)))
    found = own.labellings("s.x@1", kinds=kinds, seed=0)
    assert len(found.draws) == 35
    expected = []
    for first in permutations(range(3)):
        for last in permutations(range(4, 7)):
            labels = (*first, 3, *last)
            expected.append(Agreement(predicted, measured, labels).scalar("s.x@1", "pearson").value)
    assert found.value == pytest.approx(expected[0])
    np.testing.assert_allclose(sorted(found.draws), sorted(expected[1:]))


def test_too_many_labellings_are_drawn():
    components = tuple(f"h{i}" for i in range(9))
    predicted = drawn(6, components=components)
    own = Agreement(predicted, {"m": near(predicted)}, tuple(range(9)))
    found = own.labellings("s.x@1", kinds=(components,), seed=1)
    assert len(found.draws) == 5040
    assert found == own.labellings("s.x@1", kinds=(components,), seed=1)


def test_the_null_is_calibrated_where_labels_mean_nothing():
    """Heads whose effects are independent draws: the rank of the own labelling is uniform."""
    components = tuple(f"h{i}" for i in range(4))
    small = 0
    for seed in range(400):
        predicted, measured = (drawn(2 * seed + i, components=components) for i in range(2))
        own = Agreement(predicted, {"m": measured}, (0, 1, 2, 3))
        found = own.labellings("s.x@1", kinds=(components,), seed=0)
        p = (1 + sum(draw >= found.value for draw in found.draws)) / (1 + len(found.draws))
        small += p <= 0.25
    assert 70 <= small <= 130  # 100 expected


def test_without_exchangeable_components_there_is_no_null():
    predicted = drawn(7)
    own = Agreement(predicted, {"m": near(predicted)}, (0, 1, 2, 3))
    found = own.labellings("s.x@1", kinds=[(c,) for c in COMPONENTS], seed=0)
    assert found.undefined == "no two components that can be exchanged"


def test_leverage_is_the_share_of_the_largest_unit():
    predicted = drawn(8)
    own = Agreement(predicted, {"m": near(predicted)}, (0, 1, 2, 3))
    means = predicted.means().reshape(4, 6)
    squares = (means - means.mean(0)) ** 2
    assert own.leverage("s.x@1").value == pytest.approx(squares.max() / squares.sum())


def test_a_class_without_positions_has_no_units():
    predicted = drawn(9)
    predicted.weight[:, 2] = 0.0
    predicted.sums[:, :, 2] = 0.0
    found = Agreement(predicted, {"m": near(predicted)}, (0, 1, 2, 3)).scalar("s.x@1", "pearson")
    assert not any(name.split("/")[1].startswith("late") for name in found.columns)
    check_stated(record(found, "pearson"), {})


def test_an_incomplete_integral_leaves_everything_undefined():
    predicted = drawn(10)
    own = Agreement(predicted, {"m": near(predicted)}, (0, 1, 2, 3), incomplete="not complete")
    for found in (own.scalar("s.x@1", "pearson"), own.pooled("s.x@1"), own.leverage("s.x@1")):
        assert found.undefined == "not complete"
        assert found.value is None
    assert own.labellings("s.x@1", kinds=KINDS, seed=0).undefined == "not complete"


def test_constant_effects_have_no_correlation():
    predicted = drawn(11)
    flat = Effects(COMPONENTS, HEADS, np.ones_like(predicted.sums), predicted.weight)
    flat.sums[:] = predicted.weight[:, None, :, None]
    found = Agreement(predicted, {"m": flat}, (0, 1, 2, 3)).scalar("s.x@1", "pearson")
    assert found.undefined.startswith("constant input: the measured effects")


def test_completeness_is_the_largest_miss_over_the_largest_effect():
    effect = drawn(12)
    integral = Effects(COMPONENTS, HEADS, effect.sums.copy(), effect.weight)
    integral.sums[:, 1] += 0.3 * effect.weight[:, :, None]
    largest = np.abs(effect.totals()).max()
    assert completeness(integral, effect) == pytest.approx(0.3 / largest)
    nothing = Effects(COMPONENTS, HEADS, 0 * effect.sums, effect.weight)
    with pytest.raises(UndefinedError, match="no component has an effect"):
        completeness(nothing, nothing)
    alone = Effects(COMPONENTS, HEADS, 0 * effect.sums, 0 * effect.weight)
    with pytest.raises(UndefinedError, match="in its block to be paired with"):
        completeness(alone, alone)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_r_is_blind_to_scale_and_shift_and_the_others_are_not(seed, scale, shift):
    rng = np.random.default_rng(seed)
    p, m = rng.normal(size=(2, 8, 3))
    assert agreement.pearson(p, scale * m + shift) == pytest.approx(float(agreement.pearson(p, m)))
    assert agreement.slope(p, scale * m + shift) == pytest.approx(scale * agreement.slope(p, m))
    assert agreement.spearman(p, scale * m + shift) == pytest.approx(agreement.spearman(p, m))
    assert agreement.pearson(p, -m) == pytest.approx(-float(agreement.pearson(p, m)))
