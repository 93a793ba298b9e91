"""The settings of a registration of the four bars."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.bars.settings import BarsPlan


class FourBarsPlan(BarsPlan):
    """What the bars suite measures, and how."""

    explore: Literal["all", "claimed"] = Field(
        "all", description="Whether what nothing is claimed about is measured and shown, too."
    )
    random_draws: int = Field(
        400, ge=32, le=10_000, description="Draws of each random control (permuted labels)."
    )

    @property
    def all_sites(self) -> tuple[str, ...]:
        """No statistic of the bars has sites."""
        return ()

    @property
    def draws(self) -> int:
        """Draws of each random control."""
        return self.random_draws

    @property
    def explores(self) -> bool:
        """Whether statistics that nothing is claimed about are measured, too."""
        return self.explore == "all"

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and makes a bar easier than by default."""
        return self.bar_warnings()
