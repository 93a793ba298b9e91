"""What is asked of bar B on one case, and the meters that read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.bars.behavioural import AccuracyMeter, Against, BehaviouralMeter
from harness.bars.settings import BarsPlan
from harness.case import Case
from harness.measured import Context, Measured
from harness.runners.blocks import block_count
from harness.runners.measure import Meter
from harness.suite import Wanted

BEHAVIOURAL = "bar.behavioural."
"""Family of the statistics that are read here."""


class Behaviours:
    """The asked statistics of bar B; their meters may run in a pass with others.

    Args:
        case: whose models.
        context: with the plan, and the block size of the pass.
        wanted: statistics and arms, of which those of bar B are read.
        draw: read the statistics of that draw of the corpus; those without draws where left out.
    """

    def __init__(
        self, case: Case, context: Context, wanted: Wanted, *, draw: str | None = None
    ) -> None:
        self._case, self._plan = case, context.plan
        self._blocks = block_count(case.samples.evaluate, context.block_size)
        self._accuracy: AccuracyMeter | None = None
        asked = [(name, arm) for name, arm in in_order(wanted) if name.startswith(BEHAVIOURAL)]
        self._read = [
            self._reading(statistic, arm)
            for statistic, arm in asked
            if (arm if by_draw(statistic) else None) == draw
        ]

    @property
    def meters(self) -> list[Meter]:
        """Each meter once."""
        return list(dict.fromkeys(meter for meter, _ in self._read))

    def measured(self) -> list[Measured]:
        """What the meters have read."""
        return [read() for _, read in self._read]

    def _reading(self, statistic: str, arm: str | None) -> tuple[Meter, Callable[[], Measured]]:
        name = statistic.partition("@")[0]
        if name == f"{BEHAVIOURAL}accuracy":
            if self._accuracy is None:
                self._accuracy = AccuracyMeter(self._case, blocks=self._blocks)
            return self._accuracy, partial(self._accuracy.measured, statistic, str(arm))
        plan: BarsPlan = self._plan
        against: Against = "labels" if ".kl_labels" in name else "spec"
        meter = BehaviouralMeter(
            self._case,
            blocks=self._blocks,
            tau=plan.kl_tail.tau,
            c=plan.kl_tail.c,
            against=against,
            head=arm if name.endswith(".head") else None,
        )
        return meter, partial(meter.measured, statistic, arm)


def by_draw(statistic: str) -> bool:
    """Whether the arms of a statistic are draws of the corpus."""
    return statistic.partition("@")[0].endswith(".draw")


def in_order(wanted: Wanted) -> list[tuple[str, str | None]]:
    """What is wanted, in a fixed order."""
    return sorted(wanted, key=lambda one: (one[0], one[1] or ""))
