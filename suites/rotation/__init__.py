"""Do two transformers differ by one rotation of the residual stream?"""

from __future__ import annotations

from harness.suite import Suite
from suites.rotation.catalogue import CATALOGUE, CONTROLS, FIGURES
from suites.rotation.cost import seconds
from suites.rotation.plan import RotationPlan

SUITE = Suite(
    name="rotation",
    version=1,
    title="One rotation of the residual stream carries one model's states into the other's",
    package="suites.rotation",
    plan=RotationPlan,
    catalogue=CATALOGUE,
    controls=CONTROLS,
    figures=FIGURES,
    modes=("pair",),
    required_splits=("fit", "evaluate"),
    measure="suites.rotation.measure:measure",
    make_control="suites.rotation.controls:make_control",
    seconds=seconds,
)
