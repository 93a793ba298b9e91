"""How long measuring a registration of the four bars takes, to a factor of two."""

from __future__ import annotations

from harness.bars import cost
from harness.suite import Workload
from suites.bars.plan import FourBarsPlan

START = 3.0
"""Seconds of starting, reading and writing."""


def seconds(plan: FourBarsPlan, load: Workload) -> float:
    """Seconds on one core of the machine of the constants."""
    return START + cost.seconds(plan, load)
