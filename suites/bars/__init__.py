"""Do two transformers, or a transformer and its own description, meet the four bars?"""

from __future__ import annotations

from harness.suite import Suite
from suites.bars.catalogue import CATALOGUE, CONTROLS, FIGURES
from suites.bars.cost import seconds
from suites.bars.plan import FourBarsPlan

SUITE = Suite(
    name="bars",
    version=1,
    title="The four bars: behaviour, parameters, causal effects, predicted losses",
    package="suites.bars",
    plan=FourBarsPlan,
    catalogue=CATALOGUE,
    controls=CONTROLS,
    figures=FIGURES,
    modes=("pair", "within"),
    required_splits=("fit", "evaluate"),
    measure="harness.bars.measure:measure_bars",
    make_control="harness.bars.controls:make_bar_control",
    seconds=seconds,
)
