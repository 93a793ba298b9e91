"""What could still PASS: limits on observed values that are known before anything is measured.

Rare errors. The upper limit of `rare_errors.py` is the end of the body's interval plus
CP_upper(k, n) max(c, largest / nbar), k of n sequences exceeding, and that end is never below the
body's own mean. So a PASS below t needs

    mean < t - c (1 - ((1 - level) / 4)^(1 / n))     (k = 0, a body without spread),
    k such that c CP_upper(k, n) < t                 (a body that is 0).

No larger mean can PASS with k > 0: an exceeding sequence adds at most max(c, largest / nbar) / n to
the mean, and CP_upper(k, n) - k / n, what it costs beyond that, only grows with k.

Correlations. Among k components with N units of normal tails, atanh r has a standard error s of
about 1 / sqrt(k - 3) where the units of a component agree (k witnesses) and of at least
1 / sqrt(N - 3) where all are independent (Fisher; centring G groups would make it
1 / sqrt(N - G - 2)). The delete-one-component jackknife-t has the half-width q V^(1/2), q Student's
quantile with k - 1 degrees of freedom, so an interval lies above t where

    atanh r - atanh t > q V^(1/2).

`expected`, for agreeing units, takes 1 / (k - 3) for V. Without component i the two sums of squares
of a regression of k normal points shrink by independent factors, whatever r near 1 was observed:

    d_i = (ln B - ln C) / 2,   B ~ Beta((k - 2) / 2, 1 / 2),   C ~ Beta((k - 3) / 2, 1 / 2),
    E V = (k - 1) E d^2 = (k - 1) / (k - 3)^2     (and, from k = 8, less than 1 % more).

To order 1 / k the d_i are products of two normals, of kurtosis 9, so V scatters like a gamma
variable of shape k / 8: its median is 1 - 8 / (3 k) times its mean, the mean is 1 + 2 / k times
1 / (k - 3), and what is left, 1 - 2 / (3 k), is put at 1. So half of the samples
whose observed r is the limit PASS. Measured with the interval code: .44 to .52 from 8 components
on, .35 to .39 with 5; .18 to .37 where effects and errors follow Student's t with 5 degrees; at
most .25 for Spearman's rho, whose error grows towards 1 on this scale.

`least`, for independent units, takes the 2.5 % quantile of V: with many units a component its
influence is normal, and V (k - 1) / s^2 is chi-squared with k - 1 degrees of freedom,

    V = s^2 chi2(.025; k - 1) / (k - 1),   s^2 = 1 / (N - 3).

At this limit at most .026 PASS as measured; with N = k, where influences are not normal, .06.
Neither limit knows of blocks: noise between blocks can only make the interval wider.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from harness.judging.correlations import CORRELATIONS
from harness.judging.multiplicity import smallest_n_rare
from harness.judging.quantiles import binomial_upper, student
from harness.judging.rare_errors import constants
from prereg.regions import Region
from prereg.resolved import Estimator, StatisticSpec

WITHOUT_BLOCKS: tuple[Estimator, ...] = ("exact", "bracket", "draws", "value_minus_median")
"""Estimators whose interval rests on no sum over blocks."""

FEWEST_COMPONENTS = 4
"""With fewer, a correlation without one component has no degree of freedom left."""

_FEW = 0.025
"""Share of samples that may PASS although they lie outside `CorrelationReach.least`."""


class RareReach(NamedTuple):
    """What a mean of rare errors could be and still PASS."""

    mean: float
    """The observed mean must lie below this, in nats."""
    exceeding: int
    """At most so many sequences may exceed tau."""


class CorrelationReach(NamedTuple):
    """What a correlation could be and still PASS; none where no value could."""

    expected: Region | None
    """Where a PASS has even chances or better, if the units of a component agree."""
    least: Region | None
    """Where a PASS is not all but impossible, if all units are independent."""


class Size(NamedTuple):
    """How much data a judged statistic has."""

    samples: int
    """Samples in its split."""
    blocks: int
    """Blocks that they make."""
    seeds: int = 0
    """Pairs that are pooled; 0 where each is judged alone."""


def rare_reach(
    threshold: float, *, sequences: int, ceiling: float, level: float
) -> RareReach | None:
    """What a `rare_mean` could be and PASS below a threshold; none if nothing could.

    A necessary condition, and sufficient where the losses that do not exceed are all alike.
    Formulae: this module.

    Args:
        threshold: t, upper end of the accepted region, in nats.
        sequences: n.
        ceiling: c, granted to an exceeding sequence that was not seen, in nats a position.
        level: coverage of the interval that decides.

    >>> rare_reach(1e-4, sequences=87_641, ceiling=2.0, level=0.95).exceeding
    0
    >>> rare_reach(1e-4, sequences=80_000, ceiling=2.0, level=0.95) is None
    True
    """

    def cost(exceeding: int) -> float:
        error = (1.0 - level) / 4.0
        return ceiling * float(binomial_upper(exceeding, sequences, error=error))

    allowed = bisect_left(range(sequences + 1), threshold, key=cost) - 1
    return None if allowed < 0 else RareReach(threshold - cost(0), allowed)


def correlation_reach(
    region: Region, *, components: int, units: int, level: float
) -> CorrelationReach | None:
    """What Pearson's r could be and PASS; none with fewer than `FEWEST_COMPONENTS` components.

    Formulae and assumptions: this module. For Spearman's rho `expected` is too generous.

    Args:
        region: the accepted region.
        components: k, of the model.
        units: N, over which r is taken.
        level: coverage of the interval that decides.

    >>> reach = correlation_reach(Region(lower=0.99), components=10, units=90, level=0.95)
    >>> round(reach.expected.lower, 4), round(reach.least.lower, 4)
    (0.9982, 0.9923)
    """
    if components < FEWEST_COMPONENTS:
        return None
    quantile = float(student(level, components - 1))
    agreeing = quantile / math.sqrt(components - 3)
    smallest = math.sqrt(_low_chi_squared(components - 1) / (components - 1))
    independent = quantile * smallest / math.sqrt(units - 3)
    return CorrelationReach(_narrowed(region, agreeing), _narrowed(region, independent))


def sentence(spec: StatisticSpec, region: Region, *, size: Size, level: float) -> str | None:
    """What could PASS of one statistic, in words; none where there is nothing to say.

    Args:
        spec: the frozen catalogue entry; of a correlation its parameters `components` and `units`
            are read, where they are there.
        region: the accepted region.
        size: of its data.
        level: coverage of the interval that decides.

    Raises:
        InputError: for a `rare_mean` without constants, or accepted below 0.
    """
    if spec.estimator == "exact":
        return f"no sampling error: PASS if the value is {region}, else FAIL"
    if spec.estimator == "bracket":
        return (
            f"no sampling error: PASS if both bounds are {region}, FAIL if no value between them is"
        )
    if spec.estimator in WITHOUT_BLOCKS:
        return None
    if size.seeds:
        return f"depends on the spread over {size.seeds} seeds"
    if spec.estimator == "rare_mean":
        said = _rare_sentence(spec, region, sequences=size.samples, level=level)
    elif spec.estimator in ("pearson", "spearman"):
        said = _correlation_sentence(spec, region, level=level)
    else:
        said = None
    return said or _spread_sentence(spec, size)


def _narrowed(region: Region, width: float) -> Region | None:
    """The part of a region whose values are `width` from its ends on the atanh scale."""
    low, high = (
        math.tanh(_atanh(end) + sign * width) if math.isfinite(end) else end
        for end, sign in ((region.lower, 1.0), (region.upper, -1.0))
    )
    return Region(low, high) if low < min(high, 1.0) and high > -1.0 else None


def _atanh(value: float) -> float:
    if abs(value) >= 1.0:  # an end that no correlation crosses, or that none reaches
        return math.copysign(math.inf, value)
    return math.atanh(value)


def _low_chi_squared(degrees: int) -> float:
    from scipy.special import chdtri  # as in `quantiles.py`: costly to import

    return float(chdtri(degrees, 1.0 - _FEW))


def _rare_sentence(
    spec: StatisticSpec, region: Region, *, sequences: int, level: float
) -> str | None:
    tau, ceiling = constants(spec.parameters)
    if region.lower >= max(tau, ceiling):
        return f"no value: the lower limit grants no sequence more than {ceiling:g} {spec.unit}"
    if math.isinf(region.upper):
        return None
    found = rare_reach(region.upper, sequences=sequences, ceiling=ceiling, level=level)
    large = f"above {tau:g} {spec.unit}"
    if found is None:
        unseen = ceiling * float(binomial_upper(0, sequences, error=(1.0 - level) / 4.0))
        needed = smallest_n_rare(ceiling, 1, level, region.upper)
        return (
            f"no value: {sequences:,} sequences of which none is {large} still leave an upper "
            f"limit of {unseen:.3g} {spec.unit}; {needed:,} would do"
        )
    most = f"more than {found.exceeding:,}" if found.exceeding else "any"
    return (
        f"values below {found.mean:.4g} {spec.unit}; none if {most} of {sequences:,} sequences "
        f"{'are' if found.exceeding else 'is'} {large}"
    )


def _correlation_sentence(spec: StatisticSpec, region: Region, *, level: float) -> str | None:
    if not {"components", "units"} <= spec.parameters.keys():
        return None
    components, units = (int(spec.parameters[name]) for name in ("components", "units"))
    found = correlation_reach(region, components=components, units=units, level=level)
    if found is None:
        return None
    several = units > components
    agree = f" if the {units // components} units of a component agree" if several else ""
    apart = f", even if all {units} units are independent" if several else ""
    expected = "no value"
    if found.expected is not None:
        expected = f"values {_said(found.expected)}"
        agree += " (half of them at that limit, at most)"
    least = "" if found.least is None else f" unless {_said(found.least)}"
    return f"{expected}{agree}; practically none{least}{apart}"


def _said(region: Region) -> str:
    """A region of correlations, ends with two significant digits of their distance from -1 or 1."""
    low, high = (
        f"{end:.{max(2, 1 - math.floor(math.log10(1.0 - abs(end))))}f}" if abs(end) < 1.0 else end
        for end in (region.lower, region.upper)
    )
    if math.isinf(region.upper):
        return f"> {low}"
    return f"< {high}" if math.isinf(region.lower) else f"between {low} and {high}"


def _spread_sentence(spec: StatisticSpec, size: Size) -> str:
    parts = [f"{size.blocks} blocks ({spec.split})"]
    if spec.estimator in CORRELATIONS and "components" in spec.parameters:
        parts.insert(0, f"{int(spec.parameters['components'])} components")
    return f"depends on the spread over {' and '.join(parts)}"
