"""What could still PASS: the limits that `check` names, held against the interval code."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import estimate_value, interval, smallest_n_rare
from harness.judging.bounds import paired_bounds
from harness.judging.correlations import Units, statistic
from harness.judging.multiplicity import member_level
from harness.judging.quantiles import student
from harness.judging.reach import Size, correlation_reach, rare_reach, sentence
from prereg.errors import InputError
from prereg.regions import Region

TAU, CEILING = 0.1, 2.0
KL_TAIL = {"tau": TAU, "c": CEILING}
LENGTH = 20.0


# --- rare errors ------------------------------------------------------------------------------


def rare_columns(mean, *, sequences, exceeding=0, nats=CEILING):
    """Sequences of one length; those that do not exceed share what is left of the mean evenly."""
    count = np.minimum(16, sequences - 16 * np.arange(-(-sequences // 16))).astype(float)
    exceeds = np.zeros(len(count))
    exceeds[0] = min(exceeding, 16)
    for place in range(1, len(count)):
        exceeds[place] = min(exceeding - exceeds[:place].sum(), count[place])
    tail = exceeds * nats * LENGTH
    body = (mean * LENGTH * sequences - tail.sum()) / sequences * count
    return {
        "body": body,
        "tail": tail,
        "capped": body + exceeds * min(nats, CEILING) * LENGTH,
        "positions": LENGTH * count,
        "sequences": count,
        "exceeding": exceeds,
        "largest": np.where(exceeds > 0, nats * LENGTH, 0.0),
        "shortest": np.full(len(count), LENGTH),
    }


def passes(worlds, columns, threshold, *, level):
    """Whether the interval of a `rare_mean` lies below a threshold."""
    draft = worlds.record(columns, value=0.0, estimator="rare_mean")
    record = draft.model_copy(update={"value": estimate_value(draft, KL_TAIL)})
    estimate = interval(record, KL_TAIL, level=level)
    assert estimate.undefined is None
    return Region(upper=threshold).inside(estimate.low, estimate.high)


def test_the_smallest_upper_limit_by_hand():
    found = rare_reach(0.02, sequences=3072, ceiling=CEILING, level=0.995)
    assert found.mean == pytest.approx(0.02 - 2.0 * (1.0 - (0.005 / 4) ** (1 / 3072)))


@settings(deadline=None, max_examples=25)
@given(
    sequences=st.integers(400, 4000),
    level=st.sampled_from([0.9, 0.95, 0.9875, 0.999]),
    threshold=st.floats(0.01, 0.5),
)
def test_without_spread_a_mean_passes_just_below_the_limit_and_not_above(
    worlds, sequences, level, threshold
):
    found = rare_reach(threshold, sequences=sequences, ceiling=CEILING, level=level)
    nothing = rare_columns(0.0, sequences=sequences)
    assert passes(worlds, nothing, threshold, level=level) == (found is not None)
    if found is None:
        return
    for mean, inside in ((found.mean * (1 - 1e-6), True), (found.mean * (1 + 1e-6), False)):
        columns = rare_columns(mean, sequences=sequences)
        assert passes(worlds, columns, threshold, level=level) == inside


@settings(deadline=None, max_examples=25)
@given(
    sequences=st.integers(400, 2000),
    level=st.sampled_from([0.9, 0.95, 0.9875, 0.999]),
    threshold=st.floats(0.02, 0.5),
)
def test_with_one_exceeding_sequence_more_than_allowed_nothing_passes(
    worlds, sequences, level, threshold
):
    found = rare_reach(threshold, sequences=sequences, ceiling=CEILING, level=level)
    if found is None:
        return
    for more in (0, 1):
        exceeding = found.exceeding + more
        columns = rare_columns(
            exceeding / sequences * 0.11, sequences=sequences, exceeding=exceeding, nats=0.11
        )
        columns["body"] = np.zeros_like(columns["body"])  # the difference was rounding
        assert passes(worlds, columns, threshold, level=level) == (not more)


@settings(deadline=None, max_examples=50)
@given(
    exceeding=st.integers(0, 12),
    nats=st.floats(0.11, 8.0),
    above=st.floats(1.0 + 1e-9, 2.0),
    spread=st.floats(0.0, 0.9),
)
def test_no_run_passes_with_a_mean_above_the_limit_however_it_is_made_up(
    worlds, exceeding, nats, above, spread
):
    sequences, threshold, level = 2048, 0.05, 0.95
    found = rare_reach(threshold, sequences=sequences, ceiling=CEILING, level=level)
    mean = max(found.mean, exceeding * nats / sequences) * above
    columns = rare_columns(mean, sequences=sequences, exceeding=exceeding, nats=nats)
    wave = 1.0 + spread * np.where(np.arange(len(columns["body"])) % 2, 1.0, -1.0)
    columns["capped"] += columns["body"] * (wave - 1.0)
    columns["body"] *= wave
    assert not passes(worlds, columns, threshold, level=level)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("threshold", [1e-4, 0.02])
def test_the_smallest_number_of_sequences_is_the_one_that_check_names(m, threshold):
    needed = smallest_n_rare(CEILING, m, 0.95, threshold)
    level = member_level(0.95, m)

    def found(sequences):
        return rare_reach(threshold, sequences=sequences, ceiling=CEILING, level=level)

    assert 0.0 < found(needed).mean < 0.02 * threshold
    assert found(math.floor(0.98 * needed)) is None
    assert found(10 * needed).mean == pytest.approx(0.9 * threshold, rel=0.02)


# --- correlations -----------------------------------------------------------------------------


class World(NamedTuple):
    """Units of a model's components, as bars C and Pr have them."""

    components: int
    groups: int
    each: int = 1
    """Units of a component in one group."""

    @property
    def units(self):
        return self.components * self.groups * self.each


ONE, C, PR = World(10, 1), World(10, 9), World(10, 9, 2)
REPLICATES = 600


def correlated(rng, world, *, r, agree, draw=None, replicates=REPLICATES):
    """Units whose Pearson's r is exactly `r` in every replicate; blocks without noise.

    `agree`: the units of a component are copies of one another, otherwise independent. `draw`
    gives the numbers of a shape; standard normal ones unless given.
    """
    k, groups, each = world
    draw = draw or rng.standard_normal
    shape = (replicates, groups, k, each)
    drawn = (replicates, 1, k, 1) if agree else shape
    sides = (np.broadcast_to(draw(drawn), shape) for _ in range(2))
    p, e = (s - s.mean(axis=(2, 3), keepdims=True) for s in sides)  # centred in each group
    p, e = (s.reshape(replicates, -1) for s in (p, e))
    pp = (p * p).sum(-1, keepdims=True)
    e = e - (e * p).sum(-1, keepdims=True) / pp * p
    m = p + math.sqrt(1.0 / r**2 - 1.0) * np.sqrt(pp / (e * e).sum(-1, keepdims=True)) * e
    component = np.broadcast_to(np.arange(k)[:, None], (groups, k, each)).ravel()
    weight = np.full((replicates, 2, world.units), 16.0)
    return Units(
        groups=np.repeat(np.arange(groups), k * each),
        components=tuple(f"c{number:02d}" for number in component),
        names=tuple(map(str, range(world.units))),
        predicted=weight * p[:, None],
        measured=weight * m[:, None],
        weight=weight,
    )


def share(data, region, *, level, estimator="pearson"):
    """Share of the replicates that PASS."""
    low, high = paired_bounds(estimator, data, level=level)
    return float(np.mean((region.lower < low) & (high < region.upper)))


def end(region):
    """The one finite end of a region."""
    return region.lower if math.isfinite(region.lower) else region.upper


def reach(world, region, *, level=0.95):
    return correlation_reach(region, components=world.components, units=world.units, level=level)


def test_limits_of_ten_components_by_hand():
    found = reach(C, Region(lower=0.99))
    z, q = math.atanh(0.99), float(student(0.95, 9))
    assert found.expected == Region(lower=pytest.approx(math.tanh(z + q / math.sqrt(7))))
    # 2.700 is the 2.5 % quantile of chi-squared with 9 degrees of freedom, from a table
    low = math.sqrt(2.700 / 9 / 87)
    assert found.least == Region(lower=pytest.approx(math.tanh(z + q * low), abs=1e-6))
    below = reach(C, Region(upper=0.99))
    assert below.expected.upper == pytest.approx(math.tanh(z - q / math.sqrt(7)))
    assert below.expected.lower == -math.inf


@pytest.mark.parametrize("region", [Region(lower=0.99), Region(upper=0.99)])
def test_about_half_pass_at_the_limit_of_units_that_agree(region):
    rng = np.random.default_rng(1)
    found = reach(C, region)
    at = correlated(rng, C, r=end(found.expected), agree=True)
    assert 0.38 <= share(at, region, level=0.95) <= 0.56
    z, limit = math.atanh(0.99), math.atanh(end(found.expected))
    for factor, low, high in ((0.5, 0.0, 0.15), (2.0, 0.9, 1.0)):
        moved = correlated(rng, C, r=math.tanh(z + factor * (limit - z)), agree=True)
        assert low <= share(moved, region, level=0.95) <= high


@pytest.mark.parametrize("region", [Region(lower=0.99), Region(upper=0.99)])
@pytest.mark.parametrize("agree", [True, False])
def test_practically_none_pass_at_the_limit_of_independent_units(region, agree):
    rng = np.random.default_rng([2, agree])
    at = correlated(rng, C, r=end(reach(C, region).least), agree=agree)
    assert share(at, region, level=0.95) <= (0.0 if agree else 0.04)


def test_independent_units_pass_between_the_two_limits():
    rng = np.random.default_rng(3)
    found = reach(C, Region(lower=0.99))
    middle = math.tanh((math.atanh(end(found.expected)) + math.atanh(end(found.least))) / 2.0)
    apart = correlated(rng, C, r=middle, agree=False)
    assert share(apart, Region(lower=0.99), level=0.95) > 0.9
    assert share(correlated(rng, C, r=middle, agree=True), Region(lower=0.99), level=0.95) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(8, 9), ONE, C, PR, World(24, 9)])
@pytest.mark.parametrize("level", [0.95, 0.9875])
@pytest.mark.parametrize("threshold", [0.99, 0.95, 0.35])
def test_both_limits_over_sizes_levels_and_thresholds(world, level, threshold):
    rng = np.random.default_rng([4, *world, round(1e4 * level), round(100 * threshold)])
    region = Region(lower=threshold)
    found = reach(world, region, level=level)
    at = correlated(rng, world, r=end(found.expected), agree=True, replicates=2000)
    assert 0.41 <= share(at, region, level=level) <= 0.55
    several = world.units > world.components
    apart = correlated(rng, world, r=end(found.least), agree=not several, replicates=2000)
    assert share(apart, region, level=level) <= (0.035 if several else 0.075)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(8, 1), ONE, World(24, 1)])
def test_the_mean_of_the_components_variance_is_as_derived(world):
    k = world.components
    data = correlated(np.random.default_rng([5, k]), world, r=0.998, agree=True, replicates=20_000)
    half = math.atanh(0.998) - np.arctanh(paired_bounds("pearson", data, level=0.95).low)
    variance = (half / float(student(0.95, k - 1))) ** 2
    assert variance.mean() == pytest.approx((k - 1) / (k - 3) ** 2, rel=0.06)
    assert np.median(variance) == pytest.approx(1.0 / (k - 3), rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(5, 9), C, World(24, 9)])
def test_with_heavy_tails_or_few_components_less_passes_than_is_said(world):
    rng = np.random.default_rng([6, *world])
    region = Region(lower=0.99)
    found = reach(world, region)
    heavy = None if world.components == 5 else (lambda shape: rng.standard_t(5.0, shape))
    at = correlated(rng, world, r=end(found.expected), agree=True, draw=heavy, replicates=2000)
    assert 0.1 <= share(at, region, level=0.95) <= 0.42
    apart = correlated(rng, world, r=end(found.least), agree=False, draw=heavy, replicates=2000)
    assert share(apart, region, level=0.95) <= 0.025


@pytest.mark.slow
@pytest.mark.parametrize("world", [C, World(24, 9)])
@pytest.mark.parametrize("threshold", [0.95, 0.5])
@pytest.mark.parametrize("agree", [True, False])
def test_ranks_pass_no_more_often_than_is_said(world, threshold, agree):
    """Spearman's rho cannot be set: replicates are taken whose rho came out near the limit."""
    rng = np.random.default_rng([7, *world, agree])
    region = Region(lower=threshold)
    found = reach(world, region)
    limit = end(found.expected if agree else found.least)
    width = 0.1 * (math.atanh(limit) - math.atanh(threshold))
    near = []
    for step in (0.85, 0.95, 1.0, 1.05, 1.15, 1.3):
        data = correlated(rng, world, r=math.tanh(math.atanh(limit) * step), agree=agree)
        rho = statistic("spearman", *data.means(), groups=data.groups)
        low = paired_bounds("spearman", data, level=0.95).low
        z = np.arctanh(np.minimum(rho, 1.0 - 1e-12))
        near += list(low[np.abs(z - math.atanh(limit)) < width] > threshold)
    if not near:  # ten ranks: no rho lies there, and only rho = 1 could pass
        assert (world, threshold, agree) == (C, 0.95, True)
        return
    assert len(near) > 100
    assert np.mean(near) <= (0.3 if agree else 0.06)


def test_noise_between_blocks_only_makes_it_harder():
    rng = np.random.default_rng(8)
    region = Region(lower=0.99)
    quiet = correlated(rng, C, r=end(reach(C, region).expected), agree=True, replicates=200)
    noise = rng.standard_normal(quiet.measured.shape)
    noisy = Units(
        groups=quiet.groups,
        components=quiet.components,
        names=quiet.names,
        predicted=quiet.predicted,
        measured=quiet.measured + 4.0 * (noise - noise.mean(axis=1, keepdims=True)),
        weight=quiet.weight,
    )
    low, still = (paired_bounds("pearson", data, level=0.95).low for data in (quiet, noisy))
    assert (still <= low + 1e-12).all()
    assert (still < low).any()


@settings(deadline=None, max_examples=50)
@given(
    components=st.integers(4, 200),
    each=st.integers(1, 30),
    level=st.floats(0.6, 0.999),
    low=st.floats(-0.95, 0.9),
    width=st.floats(0.01, 1.0),
)
def test_limits_lie_inside_the_region_and_mirror_with_it(components, each, level, low, width):
    high = min(low + width, 0.99)
    known = {"components": components, "units": components * each, "level": level}
    for region in (Region(low, high), Region(lower=low), Region(upper=high)):
        mirrored = Region(-region.upper, -region.lower)
        one, other = (correlation_reach(r, **known) for r in (region, mirrored))
        for inner, mirror in zip(one, other, strict=True):
            if inner is None:
                assert mirror is None
                continue
            assert region.lower <= inner.lower < inner.upper <= region.upper
            assert mirror == pytest.approx(Region(-inner.upper, -inner.lower)) or (
                (mirror.lower, mirror.upper) == pytest.approx((-inner.upper, -inner.lower))
            )
        if one.expected is not None:
            assert one.least.lower <= one.expected.lower
            assert one.least.upper >= one.expected.upper


def test_where_no_correlation_can_pass_there_is_no_limit():
    for region in (Region(lower=1.0), Region(upper=-1.0), Region(0.98, 0.99)):
        assert reach(ONE, region).expected is None
    assert reach(World(4, 1), Region(lower=0.99), level=0.9999).expected is None
    assert reach(World(3, 9), Region(lower=0.99)) is None


# --- in words ---------------------------------------------------------------------------------

SIZE = Size(samples=4096, blocks=256)
UNITS = {"components": 10.0, "units": 90.0}


def said(worlds, estimator, region, *, size=SIZE, level=0.9875, **parameters):
    spec = worlds.spec(estimator=estimator, parameters=parameters, split="ablation", unit="nats")
    return sentence(spec, region, size=size, level=level)


def test_bar_b_in_words(worlds):
    found = rare_reach(0.01, sequences=4096, ceiling=CEILING, level=0.9875)
    words = said(worlds, "rare_mean", Region(upper=0.01), **KL_TAIL)
    assert words == (
        f"values below {found.mean:.4g} nats; none if more than {found.exceeding} of 4,096 "
        "sequences are above 0.1 nats"
    )
    few = said(worlds, "rare_mean", Region(upper=3e-3), **KL_TAIL)
    assert few.endswith("; none if any of 4,096 sequences is above 0.1 nats")
    none = said(worlds, "rare_mean", Region(upper=1e-4), **KL_TAIL)
    assert none.startswith("no value: ")
    assert "0.00281 nats" in none
    assert f"{smallest_n_rare(2.0, 4, 0.95, 1e-4):,} would do" in none
    with pytest.raises(InputError, match="tau"):
        said(worlds, "rare_mean", Region(upper=0.01))


def test_no_mean_is_proven_above_what_the_lower_limit_grants(worlds):
    assert said(worlds, "rare_mean", Region(lower=2.0), **KL_TAIL).startswith("no value: ")
    assert "256 blocks" in said(worlds, "rare_mean", Region(lower=1.9), **KL_TAIL)
    worst = rare_columns(8.0, sequences=640, exceeding=640, nats=8.0)
    worst["body"] *= 0.0
    record = worlds.record(worst, value=8.0, estimator="rare_mean")
    assert interval(record, KL_TAIL, level=0.5).low <= 2.0


def test_bars_c_and_pr_in_words(worlds):
    words = said(worlds, "pearson", Region(lower=0.99), **UNITS)
    assert words.startswith("values > 0.99904 if the 9 units of a component agree")
    assert "practically none unless > 0.9931, even if all 90 units are independent" in words
    plain = said(worlds, "pearson", Region(lower=0.99), components=10.0, units=10.0)
    assert "agree" not in plain
    assert "independent" not in plain
    below = said(worlds, "spearman", Region(upper=0.5), **UNITS)
    assert below.startswith("values < -0.56 if")
    assert "unless < 0.35" in below
    tight = said(worlds, "pearson", Region(0.95, 0.99), **UNITS)
    assert tight.startswith("no value if the 9 units of a component agree; practically none unless")
    assert "between 0.9" in tight
    assert said(worlds, "pearson", Region(0.989, 0.99), **UNITS).startswith("no value if")
    assert "unless" not in said(worlds, "pearson", Region(0.989, 0.99), **UNITS)


def test_bar_p_has_no_sampling_error_in_words(worlds):
    words = said(worlds, "bracket", Region(upper=1e-3))
    assert words == (
        "no sampling error: PASS if both bounds are < 0.001, FAIL if no value between them is"
    )
    assert said(worlds, "exact", Region(lower=0.5)).startswith("no sampling error")


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        ("mean", {}),
        ("one_minus_ratio", {}),
        ("pearson", {}),
        ("pearson", {"components": 3.0, "units": 27.0}),
        ("slope", UNITS),
        ("nrmse", UNITS),
    ],
)
def test_where_only_the_data_can_tell_no_figure_is_made_up(worlds, estimator, parameters):
    words = said(worlds, estimator, Region(lower=0.5), **parameters)
    parts = f"{int(parameters['components'])} components and " if parameters else ""
    assert words == f"depends on the spread over {parts}256 blocks (ablation)"
    seeds = Size(samples=4096, blocks=256, seeds=5)
    pooled = said(worlds, estimator, Region(lower=0.5), size=seeds, **parameters)
    assert pooled == "depends on the spread over 5 seeds"


@pytest.mark.parametrize("estimator", ["draws", "value_minus_median"])
def test_of_draws_nothing_is_said(worlds, estimator):
    assert said(worlds, estimator, Region(lower=0.5)) is None
