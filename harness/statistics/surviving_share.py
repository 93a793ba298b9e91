"""Share of a gap in loss that survives a replacement of states.

(ablated - stitched) / (ablated - clean): 1 where the stitched model loses nothing, 0 where it does
as badly as with its states replaced by their mean, below 0 where it does worse.
"""

from __future__ import annotations

from harness.statistics.undefined import UndefinedError


def surviving_share(*, stitched: float, clean: float, ablated: float) -> float:
    """The share, from losses summed over the same positions.

    Raises:
        UndefinedError: the ablation costs nothing.

    >>> surviving_share(stitched=2.0, clean=1.0, ablated=5.0)
    0.75
    """
    gap = ablated - clean
    if not gap > 0:
        raise UndefinedError("the surviving share is undefined where the ablation costs nothing")
    return (ablated - stitched) / gap
