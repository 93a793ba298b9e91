"""What the rotation suite can measure, and what each control is expected to show."""

from __future__ import annotations

from harness.bars.catalogue import bar_statistics
from suites.rotation.catalogue.alignment import ALIGNMENT
from suites.rotation.catalogue.controls import CONTROLS
from suites.rotation.catalogue.dictionary import DICTIONARY
from suites.rotation.catalogue.figures import FIGURES
from suites.rotation.catalogue.rotation import ROTATION

CATALOGUE = (*bar_statistics(CONTROLS), *ALIGNMENT, *DICTIONARY, *ROTATION)

__all__ = ["CATALOGUE", "CONTROLS", "FIGURES"]
