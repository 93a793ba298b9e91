"""Intervals of single records: exact cases, refusals, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import estimate_value, interval
from harness.judging.evidence import EvidenceRecord
from harness.judging.intervals import p_value, pooled_interval
from harness.judging.quantiles import binomial_lower, binomial_upper, student
from prereg.errors import InputError, IntegrityError

KL_TAIL = {"tau": 0.1, "c": 2.0}


def _noise(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def _stated(worlds, columns, estimator, **fields):
    """A record that states the value of its columns."""
    draft = worlds.record(columns, value=0.0, estimator=estimator, **fields)
    value = estimate_value(draft, {})
    return draft.model_copy(update={"value": value if isinstance(value, float) else 0.0})


def _rare(body=0.01, exceeding=0, largest=0.0, blocks=40):
    columns = {
        "body": body * (100.0 + np.arange(blocks) % 3),
        "tail": np.zeros(blocks),
        "positions": np.full(blocks, 320.0),
        "sequences": np.full(blocks, 16.0),
        "exceeding": np.zeros(blocks),
        "largest": np.zeros(blocks),
        "shortest": 5.0 + np.arange(blocks) % 4,
    }
    columns["exceeding"][0] = exceeding
    columns["tail"][0] = exceeding * largest
    columns["largest"][0] = largest if exceeding else 0.0
    columns["capped"] = columns["body"].copy()
    columns["capped"][0] += exceeding * min(largest, 2.0 * 20.0)
    return columns


def _paired(components=12, blocks=40, noise=0.3, seed=0, groups=2):
    rng = np.random.default_rng(seed)
    columns = {}
    for group in range(groups):
        for component in range(components):
            mean = rng.standard_normal()
            unit = f"g{group}/blocks.0.c{component}"
            weight = np.full(blocks, 16.0)
            columns[f"weight/{unit}"] = weight
            columns[f"predicted/{unit}"] = weight * mean
            columns[f"measured/{unit}"] = weight * (
                mean + noise * rng.standard_normal() + noise * rng.standard_normal(blocks)
            )
    return columns


def test_even_weights_and_identity_scale_are_students_interval(worlds):
    x = _noise(1, 15)
    x = np.concatenate([x, 0.2 - x])  # both signs: the identity scale; and no skewness
    estimate = interval(_stated(worlds, {"total": x, "weight": np.ones(30)}, "mean"), {}, level=0.9)
    half = float(student(0.9, 29)) * x.std(ddof=1) / np.sqrt(30)
    assert estimate.low == pytest.approx(x.mean() - half)
    assert estimate.high == pytest.approx(x.mean() + half)
    assert (estimate.blocks, estimate.effective_blocks) == (30, 30.0)


def test_positive_sums_are_taken_on_the_log_scale(worlds):
    x = 1.0 + np.abs(_noise(2, 40))
    estimate = interval(
        _stated(worlds, {"total": x, "weight": np.ones(40)}, "mean"), {}, level=0.95
    )
    d = np.log((x.sum() - x) / 39) - np.log(x.mean())
    error = np.sqrt(39 / 40 * (d**2).sum())
    e = d.mean() - d
    kappa = (e**3).sum() / (e**2).sum() ** 1.5
    assert abs(kappa) > 0.05
    for end, sign in ((estimate.low, 1), (estimate.high, -1)):
        q = sign * float(student(0.95, 39))
        roots = np.roots([kappa**2 / 27, kappa / 3, 1.0, kappa / 6 - q])
        t = roots[np.argmin(np.abs(roots.imag))].real
        assert end / estimate.value == pytest.approx(np.exp(-error * t))


def test_a_ratio_that_merely_came_out_positive_may_still_contain_zero(worlds):
    x = _noise(3, 100)
    x += 0.05 - x.mean()
    columns = {"numerator": x, "denominator": np.ones(100)}
    estimate = interval(_stated(worlds, columns, "ratio"), {}, level=0.95)
    assert estimate.low < 0.0 < estimate.value


@settings(deadline=None, max_examples=25)
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 99), level=st.floats(0.6, 0.999))
def test_intervals_follow_a_change_of_unit_and_the_order_of_blocks(worlds, scale, seed, level):
    rng = np.random.default_rng(seed)
    residual, total = rng.gamma(2.0, size=50), 3.0 + rng.gamma(2.0, size=50)
    order = rng.permutation(50)
    first = interval(
        _stated(worlds, {"residual": residual, "total": total}, "one_minus_ratio"), {}, level=level
    )
    moved = {"residual": scale * residual[order], "total": scale * total[order]}
    second = interval(_stated(worlds, moved, "one_minus_ratio"), {}, level=level)
    assert first.low < first.value < first.high <= 1.0
    assert (second.low, second.high) == pytest.approx((first.low, first.high), rel=1e-8)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 99), low=st.floats(0.5, 0.9), more=st.floats(0.01, 0.09))
@pytest.mark.parametrize(
    "estimator", ["mean", "difference", "ratio_fieller", "rare_mean", "pearson"]
)
def test_more_confidence_never_gives_a_narrower_interval(worlds, estimator, seed, low, more):
    rng = np.random.default_rng(seed)
    x, y = rng.gamma(2.0, size=(2, 40))
    columns = {
        "mean": {"total": x, "weight": y},
        "difference": {"residual_a": x, "total_a": 1 + y, "residual_b": y, "total_b": 1 + x},
        "ratio_fieller": {"numerator": x - 2.0, "denominator": 3.0 + y},
        "rare_mean": _rare(exceeding=3, largest=8.0),
        "pearson": _paired(seed=seed),
    }[estimator]
    record = _stated(worlds, columns, estimator)
    narrow = interval(record, KL_TAIL, level=low)
    wide = interval(record, KL_TAIL, level=low + more)
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high


@pytest.mark.parametrize(
    ("estimator", "columns", "value"),
    [
        ("mean", {"total": np.zeros(32), "weight": np.full(32, 7.0)}, 0.0),
        ("one_minus_ratio", {"residual": np.zeros(32), "total": np.arange(1.0, 33)}, 1.0),
        (
            "difference",
            {
                "residual_a": np.arange(32.0),
                "total_a": np.full(32, 50.0),
                "residual_b": np.arange(32.0),
                "total_b": np.full(32, 50.0),
            },
            0.0,
        ),
        ("ratio_fieller", {"numerator": np.zeros(32), "denominator": np.arange(1.0, 33)}, 0.0),
        ("pearson", _paired(noise=0.0), 1.0),
        ("spearman", _paired(noise=0.0), 1.0),
        ("slope", _paired(noise=0.0), 1.0),
        ("nrmse", _paired(noise=0.0), 0.0),
    ],
)
def test_the_model_against_itself_has_an_interval_of_no_width(worlds, estimator, columns, value):
    estimate = interval(_stated(worlds, columns, estimator), {}, level=0.999)
    assert estimate.undefined is None
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert estimate.low == pytest.approx(value, abs=1e-7)
    assert estimate.high == pytest.approx(value, abs=1e-7)


def test_rounding_noise_instead_of_zero_stays_rounding_noise(worlds):
    residual = np.abs(_noise(4, 40)) * 1e-30
    columns = {"residual": residual, "total": np.full(40, 100.0)}
    estimate = interval(_stated(worlds, columns, "one_minus_ratio"), {}, level=0.999)
    assert (estimate.low, estimate.high) == (1.0, 1.0)


def test_one_block_with_all_the_loss_is_not_put_on_the_log_scale(worlds):
    total = np.zeros(40)
    total[7] = 3.0
    estimate = interval(
        _stated(worlds, {"total": total, "weight": np.ones(40)}, "mean"), {}, level=0.95
    )
    assert estimate.undefined is None
    assert estimate.low < 0.0 < estimate.value < estimate.high


@pytest.mark.parametrize("blocks", [2, 12, 19])
def test_below_twenty_effective_blocks_there_is_no_interval(worlds, blocks):
    estimate = interval(worlds.mean_record(0.8, blocks=blocks), {}, level=0.95)
    assert estimate.value == pytest.approx(0.8, abs=0.2)
    assert estimate.low is None
    assert f"{blocks} effective blocks" in estimate.undefined
    assert interval(worlds.mean_record(0.8, blocks=20), {}, level=0.95).undefined is None


def test_many_blocks_of_which_few_carry_the_weight_are_few(worlds):
    weight = np.full(200, 1e-3)
    weight[:10] = 1.0
    record = _stated(worlds, {"total": 0.5 * weight, "weight": weight}, "mean")
    estimate = interval(record, {}, level=0.95)
    assert "effective blocks" in estimate.undefined


def test_a_denominator_that_is_not_clear_of_zero_gives_no_ratio(worlds):
    noise = _noise(5, 400)
    denominator = noise - noise.mean() + 0.3
    columns = {"numerator": np.ones(400), "denominator": denominator}
    for estimator in ("ratio", "ratio_fieller"):
        record = _stated(worlds, columns, estimator)
        assert interval(record, {}, level=0.95).undefined is None
        strict = interval(record, {}, level=1 - 1e-9)
        assert "not clear of zero" in strict.undefined


def test_fieller_is_the_set_of_ratios_that_the_data_do_not_reject(worlds):
    n, d = 1.0 + _noise(6, 60), 2.0 + _noise(7, 60)
    record = _stated(worlds, {"numerator": n, "denominator": d}, "ratio_fieller")
    estimate = interval(record, {}, level=0.95)
    effective = d.sum() ** 2 / (d**2).sum()
    t = float(student(0.95, effective - 1))
    for end in (estimate.low, estimate.high):
        rest = n - end * d
        z = rest.mean() / (rest.std(ddof=1) / np.sqrt(60))
        assert abs(z) == pytest.approx(t, rel=1e-9)


def test_a_run_without_any_large_error_still_pays_for_those_not_seen(worlds):
    estimate = interval(_stated(worlds, _rare(body=0.0), "rare_mean"), KL_TAIL, level=0.95)
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert estimate.high == pytest.approx(2.0 * (1.0 - (0.05 / 4) ** (1 / 640)), rel=1e-9)


def test_rare_errors_are_granted_the_larger_of_c_and_the_largest_seen(worlds):
    below = interval(_stated(worlds, _rare(0.0, 2, 30.0), "rare_mean"), KL_TAIL, level=0.95)
    above = interval(_stated(worlds, _rare(0.0, 2, 80.0), "rare_mean"), KL_TAIL, level=0.95)
    # 20 positions a sequence: a sum of 30 is 1.5 nats, below c = 2; a sum of 80 is 4
    assert above.high == pytest.approx(2.0 * below.high)
    assert below.low == above.low > 0.0  # tau times the shortest, whatever the largest


def test_the_lower_limit_grants_an_exceeding_sequence_tau_times_the_shortest(worlds):
    estimate = interval(_stated(worlds, _rare(0.0, 2, 30.0), "rare_mean"), KL_TAIL, level=0.95)
    share = float(binomial_lower(2, 640, error=0.05 / 8))
    assert estimate.low == pytest.approx(share * 0.1 * 5.0 / 20.0)


def test_where_most_sequences_err_the_lower_limit_is_that_of_the_capped_mean(worlds):
    """An untrained model is far from the reference, and the interval has to say so."""
    columns = _rare(body=0.0)
    columns["exceeding"][:] = 16.0
    columns["tail"] = 960.0 + 50.0 * (np.arange(40) % 3)  # about 3 nats a position
    columns["largest"][:] = 70.0
    columns["capped"] = np.full(40, 640.0) - np.arange(40) % 2
    estimate = interval(_stated(worlds, columns, "rare_mean"), KL_TAIL, level=0.95)
    assert estimate.value == pytest.approx(3.15, abs=0.02)
    assert 1.99 < estimate.low <= 2.0
    few = {name: values[:20] * (np.arange(20) < 15) for name, values in columns.items()}
    few["positions"], few["sequences"] = columns["positions"][:20], columns["sequences"][:20]
    few["shortest"] = columns["shortest"][:20]
    rarely = interval(_stated(worlds, few, "rare_mean"), KL_TAIL, level=0.95)
    assert 0.0 < rarely.low < 0.1  # fifteen blocks carry it: too few for a jackknife


def test_body_and_tail_each_get_half_of_the_error(worlds):
    columns = _rare(body=0.01)
    estimate = interval(_stated(worlds, columns, "rare_mean"), KL_TAIL, level=0.95)
    body = {"total": columns["body"], "weight": columns["positions"]}
    alone = interval(_stated(worlds, body, "mean"), {}, level=0.975)
    assert estimate.low == pytest.approx(alone.low)
    tail = 2.0 * float(binomial_upper(0, 640, error=0.05 / 4))
    assert estimate.high == pytest.approx(alone.high + tail)


@settings(deadline=None, max_examples=40)
@given(
    exceeding=st.integers(0, 16),
    nats=st.floats(0.11, 8.0),
    body=st.floats(0.0, 0.1),
    level=st.floats(0.5, 0.999),
)
def test_the_mean_of_rare_errors_lies_in_its_interval(worlds, exceeding, nats, body, level):
    record = _stated(worlds, _rare(body, exceeding, nats * 20.0), "rare_mean")
    estimate = interval(record, KL_TAIL, level=level)
    assert estimate.low <= estimate.value <= estimate.high


def test_rare_errors_need_frozen_constants_and_whole_counts(worlds):
    with pytest.raises(InputError, match="tau"):
        interval(_stated(worlds, _rare(), "rare_mean"), {"c": 2.0}, level=0.95)
    with pytest.raises(IntegrityError, match="counts"):
        interval(_stated(worlds, _rare(exceeding=17), "rare_mean"), KL_TAIL, level=0.95)


def test_few_components_widen_a_correlation_however_many_blocks_there_are(worlds):
    few = interval(_stated(worlds, _paired(5, 400, seed=3), "pearson"), {}, level=0.95)
    many = interval(_stated(worlds, _paired(60, 400, seed=3), "pearson"), {}, level=0.95)
    assert few.effective_blocks == many.effective_blocks == 400
    assert few.high - few.low > 3 * (many.high - many.low)


def test_blocks_widen_a_correlation_where_the_samples_are_noisy(worlds):
    columns = _paired(60, 40, noise=0.01, seed=3)
    quiet = interval(_stated(worlds, columns, "pearson"), {}, level=0.95)
    burst = 16.0 * 8.0 * _noise(8, 40)  # one shared burst a block, on every other unit
    for index, name in enumerate(sorted(n for n in columns if n.startswith("measured"))):
        columns[name] = columns[name] + burst * (index % 2)
    noisy = interval(_stated(worlds, columns, "pearson"), {}, level=0.95)
    assert noisy.high - noisy.low > 10 * (quiet.high - quiet.low)


def test_two_components_or_a_unit_in_one_block_carry_no_interval(worlds):
    two = interval(_stated(worlds, _paired(2), "pearson"), {}, level=0.95)
    assert "2 components" in two.undefined
    columns = _paired(6)
    weight = np.zeros(40)
    weight[3] = 16.0
    columns["weight/g0/blocks.0.c1"] = weight
    alone = interval(_stated(worlds, columns, "pearson"), {}, level=0.95)
    assert "g0/blocks.0.c1 has all its weight in one block" in alone.undefined


def test_forms_without_columns(worlds):
    exact = EvidenceRecord(**worlds.key(), estimator="exact", value=0.25)
    estimate = interval(exact, {}, level=0.95)
    assert (estimate.low, estimate.value, estimate.high) == (0.25, 0.25, 0.25)
    bracket = EvidenceRecord(**worlds.key(), estimator="bracket", bounds=(0.0, 1.0))
    estimate = interval(bracket, {}, level=0.95)
    assert (estimate.low, estimate.value, estimate.high) == (0.0, None, 1.0)
    crossed = EvidenceRecord(**worlds.key(), estimator="bracket", bounds=(1.0, 0.0))
    with pytest.raises(IntegrityError, match="bounds"):
        interval(crossed, {}, level=0.95)


def test_a_gain_has_the_order_statistics_interval_of_its_median(worlds):
    draws = [float(i) for i in range(32)]
    record = worlds.draws_record(draws[::-1], value=20.0, estimator="value_minus_median")
    estimate = interval(record, {}, level=0.95)
    assert estimate.value == 20.0 - 15.5
    # rank 10 of 32 on either side
    assert (estimate.low, estimate.high) == (20.0 - 22.0, 20.0 - 9.0)
    few = worlds.draws_record(draws[:5], value=20.0, estimator="value_minus_median")
    assert "too few" in interval(few, {}, level=0.95).undefined


def test_a_p_value_counts_the_value_itself_ties_and_undefined_draws(worlds):
    record = worlds.draws_record([1.0, 2.0, 3.0, None], value=2.0, estimator="draws")
    assert p_value(record) == pytest.approx(4 / 5)
    assert interval(record, {}, level=0.95).p_value == pytest.approx(4 / 5)
    assert interval(record, {}, level=0.95).low is None


def test_seeds_that_differ_give_students_interval_of_their_mean(worlds):
    values = [-0.2, 0.1, 0.4, 0.3, 0.0]
    records = [worlds.mean_record(v, pair=f"s{i}") for i, v in enumerate(values)]
    estimate = pooled_interval(records, {}, level=0.95)
    half = float(student(0.95, 4)) * np.std(values, ddof=1) / np.sqrt(5)
    assert estimate.value == pytest.approx(0.12)
    assert (estimate.low, estimate.high) == pytest.approx((0.12 - half, 0.12 + half))
    assert estimate.blocks == 5


def test_positive_seeds_never_get_an_interval_below_zero(worlds):
    records = [
        worlds.mean_record(v, spread=v / 2, pair=f"s{i}") for i, v in enumerate([0.01, 0.3, 2.0])
    ]
    estimate = pooled_interval(records, {}, level=0.95)
    assert 0.0 < estimate.low < estimate.value < estimate.high


def test_pooled_explained_variance_stays_below_one_and_is_exact_for_the_model_itself(worlds):
    def pool(residuals):
        return pooled_interval(
            [
                _stated(
                    worlds,
                    {"residual": np.full(30, r), "total": np.full(30, 1.0)},
                    "one_minus_ratio",
                    pair=f"s{i}",
                )
                for i, r in enumerate(residuals)
            ],
            {},
            level=0.95,
        )

    spread = pool([0.01, 0.2, 0.02, 0.01])
    assert spread.value == pytest.approx(0.94)
    assert spread.low < 0.94 < spread.high < 1.0
    itself = pool([0.0, 0.0, 0.0])
    assert (itself.low, itself.value, itself.high) == (1.0, 1.0, 1.0)


def test_one_seed_or_an_undefined_seed_leaves_nothing_to_say(worlds):
    one = pooled_interval([worlds.mean_record(0.3)], {}, level=0.95)
    assert "one seed" in one.undefined
    broken = worlds.record({"total": [0.0], "weight": [0.0]}, value=0.0, pair="s1")
    both = pooled_interval([worlds.mean_record(0.3), broken], {}, level=0.95)
    assert both.undefined.startswith("s1: ")
