"""What the bars suite can measure, and what each control is expected to show (no torch)."""

from __future__ import annotations

from harness.bars.catalogue import JOINT, bar_statistics
from harness.bars.control_specs import CONTROLS as ALL
from prereg.resolved import FigureSpec

CONTROLS = tuple(ALL.values())

CATALOGUE = bar_statistics(CONTROLS)

FIGURES = (
    FigureSpec(
        id="causal-labels",
        title="Pearson's r of the patch effects under all assignments of heads in their layers",
        kind="null",
        statistic="bar.causal.labels@1",
        noun="labelling",
    ),
    FigureSpec(
        id="predictive-labels",
        title="Pearson's r of the ablation losses under all assignments of heads in their layers",
        kind="null",
        statistic="bar.predictive.labels@1",
        noun="labelling",
    ),
    FigureSpec(
        id="joint-alignment",
        title="One alignment for weights and activations: what either costs the other",
        kind="curve",
        statistic=JOINT[0],
        across=JOINT[1],
    ),
)
