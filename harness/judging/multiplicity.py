"""The family: how much confidence each member needs so that the whole of it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prereg.errors import InputError


def member_level(level: float, m: int) -> float:
    """Coverage of each of `m` primary intervals: 1 - (1 - level) / m (Bonferroni).

    A wrong PASS or FAIL needs an interval that misses its value, so with every member at this
    coverage the chance of any wrong one is at most 1 - level, however the members depend.
    """
    return 1.0 - (1.0 - level) / max(m, 1)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given (`statsmodels` `multipletests`)."""
    if not p_values:
        return ()
    # imported here: it costs a second, and only p-valued claims need it
    from statsmodels.stats.multitest import multipletests

    return tuple(float(p) for p in multipletests(list(p_values), method="holm")[1])


def holm_limit(level: float, *, q: int, m: int) -> float:
    """Largest Holm-adjusted p that PASSes: (1 - level) q / m.

    The q p-valued among m primary members have this share of the error; their intervals have none.
    """
    return (1.0 - level) * q / m


def smallest_draws(level: float, *, m: int) -> int:
    """Draws that a p-valued claim needs: 40 m / (1 - level), rounded up.

    Then the smallest possible p is a fortieth of the strictest limit, and the Monte-Carlo error of
    a p at the limit is a sixth of it.
    """
    return math.ceil(40.0 * m / (1.0 - level) * (1.0 - 1e-12))


def smallest_n_rare(c: float, m: int, level: float, threshold: float) -> int:
    """Sequences without which a `rare_mean` cannot PASS: c ln(4 m / (1 - level)) / threshold.

    Below it even a run without any large error leaves the upper limit of `rare_errors.py` above the
    threshold.

    Args:
        c: nats granted to an unseen exceeding sequence.
        m: number of primary members.
        level: confidence over the family.
        threshold: upper end of the accepted region, in nats.

    Raises:
        InputError: if the threshold is not positive: no number of sequences is enough.

    >>> smallest_n_rare(2.0, 1, 0.95, 1e-4)
    87641
    """
    if threshold <= 0.0:
        raise InputError(
            f"the threshold {threshold:g} for a mean of rare errors",
            expected="a positive number of nats: a mean KL is never below 0",
            fix="write `below:` a positive threshold",
            code="judging.rare-threshold",
        )
    return math.ceil(c * math.log(4.0 * m / (1.0 - level)) / threshold)
