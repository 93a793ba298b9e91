"""Simulation: the chance of any wrong PASS or FAIL over a family is at most 1 - level."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from harness.judging import judge
from harness.judging.multiplicity import holm, holm_limit

SITES = tuple(f"blocks.{i}.hook_resid_post" for i in range(5))


def _share_wrong(worlds, *, replicates, seed, blocks=24):
    """Share of families with any PASS or FAIL where every true mean sits on the threshold.

    There every decided member is a wrong one of either kind: the truth lies neither clearly inside
    nor outside, and an interval that leaves the threshold out has missed the true value.
    """
    rng = np.random.default_rng(seed)
    free = worlds.spec("world.free@1", roles={"same": {}})  # no control stands in the way
    frozen = worlds.registration(
        worlds.claim(statistic=free.id, above=0.0),
        specs=[free],
        sites=SITES,
        controls={},
        blocks=blocks,
    )
    wrong = 0
    for _ in range(replicates):
        shared = rng.standard_normal(blocks)  # members depend, as sites of one model do
        records = []
        for site in SITES:
            total = 0.6 * shared + 0.8 * rng.standard_normal(blocks)
            stated = float(total.sum() / blocks)
            columns = {"total": total, "weight": np.ones(blocks)}
            records.append(worlds.record(columns, value=stated, site=site, statistic=free.id))
        verdict = judge(frozen, worlds.evidence(frozen, records), evidence_sha256=worlds.sha)
        wrong += any(m.word in ("PASS", "FAIL") for m in verdict.claims[0].members)
    return wrong / replicates


def test_a_family_of_five_is_wrong_in_at_most_five_percent(worlds):
    # three standard errors of 300 replicates above .05
    share = _share_wrong(worlds, replicates=300, seed=1)
    assert 0 < share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.slow
def test_a_family_of_five_is_wrong_in_at_most_five_percent_over_many_replicates(worlds):
    share = _share_wrong(worlds, replicates=4000, seed=2)
    assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)
    assert share > 0.01  # and the correction does not simply refuse to decide


def test_holm_over_p_valued_members_is_wrong_in_at_most_five_percent(monkeypatch):
    rng = np.random.default_rng(3)
    wrong = 0
    monkeypatch.setattr(gc, "collect", lambda: 0)  # `multipletests` calls it every time
    for _ in range(400):
        values = rng.standard_normal(3)
        null = rng.standard_normal((3, 800))
        p = (1 + (null >= values[:, None]).sum(1)) / 801
        wrong += min(holm([float(one) for one in p])) <= holm_limit(0.95, q=3, m=3)
    assert wrong / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert wrong > 0
