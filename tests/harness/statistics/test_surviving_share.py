from __future__ import annotations

import pytest

from harness.statistics.surviving_share import surviving_share
from harness.statistics.undefined import UndefinedError


@pytest.mark.parametrize(
    ("stitched", "share"), [(10.0, 1), (20.0, 0.5), (30.0, 0), (40.0, -0.5), (8.0, 1.1)]
)
def test_one_is_nothing_lost_and_zero_as_bad_as_the_mean(stitched, share):
    assert surviving_share(stitched=stitched, clean=10.0, ablated=30.0) == pytest.approx(share)


@pytest.mark.parametrize("ablated", [10.0, 9.0, float("nan")])
def test_undefined_where_the_ablation_costs_nothing(ablated):
    with pytest.raises(UndefinedError):
        surviving_share(stitched=12.0, clean=10.0, ablated=ablated)
