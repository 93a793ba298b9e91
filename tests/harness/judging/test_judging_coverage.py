"""Coverage: how often intervals hold the true value, on even and on heavy-tailed data.

Every estimator must cover at .90 or more at nominal .95 over 1,000 replicates, at the smallest
number of blocks that is judged and at the usual one.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.judging.bounds import paired_bounds, sum_bounds
from harness.judging.correlations import Units
from harness.judging.jackknife import LOG, jackknife, leave_one_out
from harness.judging.quantiles import median_rank

REPLICATES = 1000
SAMPLES = 16
FLOOR = 0.90
KL_TAIL = {"tau": 0.1, "c": 2.0}


def _coverage(bounds, truth):
    return float(np.mean((bounds.low <= truth) & (truth <= bounds.high)))


def _losses(rng, blocks, *, heavy):
    """Loss sums of sequences of uneven length, summed by block; true mean loss 1."""
    shape = (REPLICATES, blocks, SAMPLES)
    length = rng.integers(4, 60, shape).astype(float)
    # heavy: a standard deviation of 2.9 means; one sequence in a hundred holds 20 % of the loss
    even, skewed = rng.gamma(2.0, 0.5, shape), rng.lognormal(-(1.5**2) / 2, 1.5, shape)
    loss = skewed if heavy else even
    return loss * length, length


def _signed(rng, shape, *, heavy):
    """Noise of mean 0."""
    return rng.standard_t(2.5, shape) if heavy else rng.standard_normal(shape)


@pytest.mark.parametrize("blocks", [20, 64])
@pytest.mark.parametrize("heavy", [False, True])
def test_mean_and_explained_variance_of_positive_losses(blocks, heavy):
    rng = np.random.default_rng([1, blocks, heavy])
    loss, length = _losses(rng, blocks, heavy=heavy)
    total = (rng.gamma(3.0, 1.0, loss.shape) * length).sum(-1)
    mean = {"total": loss.sum(-1), "weight": length.sum(-1)}
    assert _coverage(sum_bounds("mean", mean, parameters={}, level=0.95), 1.0) >= FLOOR
    ev = {"residual": loss.sum(-1), "total": total}
    bounds = sum_bounds("one_minus_ratio", ev, parameters={}, level=0.95)
    assert _coverage(bounds, 1.0 - 1.0 / 3.0) >= FLOOR


@pytest.mark.parametrize("blocks", [20, 64])
@pytest.mark.parametrize("heavy", [False, True])
def test_difference_of_explained_variances_on_the_same_samples(blocks, heavy):
    rng = np.random.default_rng([2, blocks, heavy])
    loss, length = _losses(rng, blocks, heavy=heavy)
    other, _ = _losses(rng, blocks, heavy=heavy)
    total = (rng.gamma(3.0, 1.0, loss.shape) * length).sum(-1)
    columns = {
        "residual_a": (0.3 * loss + 0.2 * other).sum(-1),
        "total_a": total,
        "residual_b": (0.3 * loss).sum(-1),
        "total_b": total,
    }
    # `other` was drawn with its own lengths, alike in law: mean 1 a position
    bounds = sum_bounds("difference", columns, parameters={}, level=0.95)
    assert _coverage(bounds, -0.2 / 3.0) >= FLOOR


@pytest.mark.parametrize("estimator", ["ratio", "ratio_fieller"])
@pytest.mark.parametrize("blocks", [20, 64])
@pytest.mark.parametrize("heavy", [False, True])
def test_ratio_of_signed_sums(estimator, blocks, heavy):
    rng = np.random.default_rng([3, blocks, heavy])
    shape = (REPLICATES, blocks, SAMPLES)
    shared = _signed(rng, shape, heavy=heavy)
    columns = {
        "numerator": (0.6 + shared + _signed(rng, shape, heavy=heavy)).sum(-1),
        "denominator": (2.0 + shared + 0.5 * rng.standard_normal(shape)).sum(-1),
    }
    bounds = sum_bounds(estimator, columns, parameters={}, level=0.95)
    assert _coverage(bounds, 0.3) >= FLOOR


def test_fieller_covers_where_the_denominator_is_poorly_known():
    rng = np.random.default_rng(4)
    shape = (REPLICATES, 40)
    columns = {
        "numerator": 0.5 + rng.standard_normal(shape),
        "denominator": 0.5 + rng.standard_normal(shape),
    }
    bounds = sum_bounds("ratio_fieller", columns, parameters={}, level=0.95)
    assert _coverage(bounds, 1.0) >= 0.93


def _rare_columns(rng, blocks, *, share):
    """Per block sums; a share of the sequences errs by about half a nat, the rest by 1e-3."""
    shape = (REPLICATES, blocks, SAMPLES)
    length = rng.integers(2, 63, shape).astype(float)
    rare = rng.random(shape) < share
    loss = np.where(
        rare, rng.lognormal(math.log(0.5), 0.8, shape), rng.lognormal(math.log(1.5e-3), 1.0, shape)
    )
    exceeds = loss > KL_TAIL["tau"]
    sums = loss * length
    columns = {
        "body": (sums * ~exceeds).sum(-1),
        "tail": (sums * exceeds).sum(-1),
        "capped": np.minimum(sums, KL_TAIL["c"] * length).sum(-1),
        "positions": length.sum(-1),
        "sequences": np.full(shape[:2], float(SAMPLES)),
        "exceeding": exceeds.sum(-1).astype(float),
        "largest": (sums * exceeds).max(-1),
        "shortest": length.min(-1),
    }
    truth = share * 0.5 * math.exp(0.32) + (1 - share) * 1.5e-3 * math.exp(0.5)
    return columns, truth, loss


def test_one_percent_of_the_sequences_holds_most_of_the_kl():
    _, truth, loss = _rare_columns(np.random.default_rng(5), 256, share=0.01)
    top = np.sort(loss.ravel())[-loss.size // 100 :]
    assert 0.6 <= top.sum() / loss.sum() <= 0.8
    assert loss.mean() == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("share", [0.3, 0.05, 0.01, 0.001, 0.0002])
@pytest.mark.parametrize("blocks", [20, 256])
def test_the_upper_limit_holds_rare_errors_that_were_not_seen(share, blocks):
    columns, truth, _ = _rare_columns(np.random.default_rng([6, blocks]), blocks, share=share)
    bounds = sum_bounds("rare_mean", columns, parameters=KL_TAIL, level=0.95)
    assert np.mean(bounds.high < truth) <= 0.025
    assert np.mean(bounds.low > truth) <= 0.025


def _failures(rng, law, count):
    """Losses of failing sequences in nats, all above tau, of mean at most c; and that mean."""
    tau, ceiling = KL_TAIL["tau"], KL_TAIL["c"]
    if law == "pareto":  # infinite variance
        return tau * (1.0 + rng.pareto(1.5, count)), 3.0 * tau
    if law == "log-normal":
        return tau + rng.lognormal(-(1.5**2) / 2, 1.5, count), tau + 1.0
    return np.full(count, ceiling), ceiling  # the worst that is granted unseen


def _failing_columns(rng, sequences, *, share, law, replicates):
    """Sequences of 20 positions; a share fails, the others err by about 1e-4 nats."""
    shape, length = (replicates, sequences // SAMPLES), 20.0
    exceeding = rng.binomial(SAMPLES, share, shape)
    places = np.repeat(np.flatnonzero(exceeding), exceeding.ravel()[np.flatnonzero(exceeding)])
    nats, mean = _failures(rng, law, len(places))
    tail, capped, largest = np.zeros((3, exceeding.size))
    np.add.at(tail, places, nats * length)
    np.add.at(capped, places, np.minimum(nats, KL_TAIL["c"]) * length)
    np.maximum.at(largest, places, nats * length)
    body = rng.gamma(2.0 * (SAMPLES - exceeding)) * 0.5e-4 * length  # a sum of exponential losses
    columns = {
        "body": body,
        "tail": tail.reshape(shape),
        "capped": body + capped.reshape(shape),
        "positions": np.full(shape, length * SAMPLES),
        "sequences": np.full(shape, float(SAMPLES)),
        "exceeding": exceeding.astype(float),
        "largest": largest.reshape(shape),
        "shortest": np.full(shape, length),
    }
    return columns, share * mean + (1.0 - share) * 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("law", ["pareto", "log-normal", "at the ceiling"])
@pytest.mark.parametrize("share", [1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("sequences", [3072, 87_648])
def test_the_upper_limit_holds_failures_of_one_in_a_thousand_to_a_hundred_thousand(
    sequences, share, law
):
    rng = np.random.default_rng([12, sequences, round(1e5 * share), len(law)])
    missed = above = 0
    for _ in range(5):
        columns, truth = _failing_columns(
            rng, sequences, share=share, law=law, replicates=REPLICATES // 5
        )
        bounds = sum_bounds("rare_mean", columns, parameters=KL_TAIL, level=0.95)
        missed += int((bounds.high < truth).sum())
        above += int((bounds.low > truth).sum())
    assert missed / REPLICATES <= 0.025
    # the lower limit turns into a jackknife where about ten failures carry it
    assert above / REPLICATES <= 0.04


def test_a_plain_mean_would_miss_the_rare_errors():
    columns, truth, _ = _rare_columns(np.random.default_rng(7), 20, share=0.001)
    plain = {"total": columns["body"] + columns["tail"], "weight": columns["positions"]}
    bounds = sum_bounds("mean", plain, parameters={}, level=0.95)
    assert np.mean(bounds.high < truth) > 0.25


TRUTHS = {
    "pearson": 0.9,
    "slope": 0.9,
    "nrmse": math.sqrt(0.1**2 + 0.19),
    "spearman": 6 / math.pi * math.asin(0.45),
}


@pytest.mark.parametrize("estimator", sorted(TRUTHS))
@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("components", [10, 24])
def test_correlation_over_components_that_are_themselves_a_sample(estimator, heavy, components):
    rng = np.random.default_rng([8, components, heavy])
    shape = (REPLICATES, 1, components)
    first, second = rng.standard_normal((2, *shape))
    if heavy:  # one common scale a component: a bivariate t with 5 degrees of freedom
        scale = np.sqrt(5.0 / rng.chisquare(5.0, shape)) if estimator != "spearman" else 1.0
        first, second = first * scale, second * scale
    predicted, measured = first, 0.9 * first + math.sqrt(0.19) * second
    if heavy and estimator == "spearman":  # ranks do not see a monotone stretch
        predicted, measured = np.sinh(2 * predicted), np.sinh(2 * measured)
    blocks = 24
    weight = np.full((REPLICATES, blocks, components), 16.0)
    data = Units(
        groups=np.zeros(components, dtype=np.intp),
        components=tuple(f"c{i:02d}" for i in range(components)),
        names=tuple(f"g/c{i:02d}" for i in range(components)),
        predicted=weight * predicted,
        measured=weight * (measured + 0.05 * rng.standard_normal(weight.shape)),
        weight=weight,
    )
    bounds = paired_bounds(estimator, data, level=0.95)
    assert _coverage(bounds, TRUTHS[estimator]) >= FLOOR


@pytest.mark.parametrize("estimator", ["pearson", "slope", "nrmse"])
@pytest.mark.parametrize("heavy", [False, True])
def test_correlation_of_fixed_units_measured_on_noisy_blocks(estimator, heavy):
    # the units' true means are known and alike in effect: what varies is the noise of the blocks
    rng = np.random.default_rng([9, heavy])
    mean = np.tile([-1.0, 1.0], 6)
    blocks = 24
    weight = np.full((REPLICATES, blocks, 12), 16.0)
    gain = 1.0 + 0.3 * _signed(rng, (REPLICATES, blocks, 1), heavy=heavy)
    odd = 0.2 * np.tile([1.0, 1.0, -1.0, -1.0], 3)
    data = Units(
        groups=np.zeros(12, dtype=np.intp),
        components=tuple(f"c{i:02d}" for i in range(12)),
        names=tuple(f"g/c{i:02d}" for i in range(12)),
        predicted=weight * mean,
        measured=weight * (gain * mean + odd),
        weight=weight,
    )
    truth = {
        "pearson": 1.0 / math.sqrt(1.04),
        "slope": 1.0,
        "nrmse": 0.2 / math.sqrt(1.04),
    }[estimator]
    bounds = paired_bounds(estimator, data, level=0.95)
    assert _coverage(bounds, truth) >= FLOOR


@pytest.mark.parametrize("seeds", [5, 9])
@pytest.mark.parametrize("skewed", [False, True])
def test_leaving_out_one_seed_covers_with_five(seeds, skewed):
    rng = np.random.default_rng([10, seeds, skewed])
    sigma = 0.8 if skewed else 0.2
    values = rng.lognormal(-(sigma**2) / 2, sigma, (REPLICATES, seeds))
    bounds = jackknife(
        values.mean(-1),
        leave_one_out(values, values.sum(-1)) / (seeds - 1),
        degrees=np.asarray(seeds - 1.0),
        level=0.95,
        scale=LOG,
    )
    assert _coverage(bounds, 1.0) >= FLOOR


@pytest.mark.parametrize("draws", [32, 200])
def test_the_median_of_draws(draws):
    rng = np.random.default_rng([11, draws])
    sample = np.sort(rng.exponential(1.0, (REPLICATES, draws)), axis=-1)
    rank = median_rank(draws, level=0.95)
    held = (sample[:, rank - 1] <= math.log(2)) & (math.log(2) <= sample[:, -rank])
    assert FLOOR <= held.mean() <= 0.99
