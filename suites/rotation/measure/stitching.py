"""Readings of the reference's loss when it goes on from the other model's states."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from harness.runners.measure import View
from harness.statistics.surviving_share import surviving_share
from harness.subjects.loss import token_loss
from suites.rotation.measure.frame import Frame, at
from suites.rotation.measure.reading import Place, Reading, Sums


def stitch(frame: Frame, place: Place) -> Reading:
    """Share of the loss gap between mean-ablated and clean that survives stitching.

    Columns: numerator, the loss ablated minus stitched; denominator, ablated minus clean.
    """
    site, arm = place.site, place.arm or "rotated"
    frame.map(site, arm)  # undefined here, if at all

    def kept(view: View) -> Tensor:
        return _ablated(frame, view, site) - _stitched(frame, view, site, arm)

    def gap(view: View) -> Tensor:
        return _ablated(frame, view, site) - _clean(frame, view)

    return Reading(place, {"numerator": kept, "denominator": gap}, _share)


def _clean(frame: Frame, view: View) -> Tensor:
    reference = frame.case.reference
    return view.once(("clean", id(reference)), lambda: _loss(view, view.out(reference).logits))


def _ablated(frame: Frame, view: View, site: str) -> Tensor:
    """Loss with mu_A, the reference's mean at the fit samples, at every token of the site."""
    reference = frame.case.reference
    mean = frame.fitted[site].whole.mean_reference

    def loss() -> Tensor:
        states = frame.reference(view, site)
        constant = at(mean, states).expand_as(states)
        return _loss(view, view.logits_from(reference, site, constant))

    # Cases of one pass share their fit samples, but a Frame may be the only one to know its mean.
    return view.once(("ablated", id(reference), site, mean.tobytes()), loss)


def _stitched(frame: Frame, view: View, site: str, arm: str) -> Tensor:
    states = frame.carried(view, site, arm)
    return _loss(view, view.logits_from(frame.case.reference, site, states))


def _loss(view: View, logits: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy of every token, [tokens] in nats."""
    return token_loss(logits, view.block.targets)[view.block.mask]


def _share(sums: Sums) -> float:
    return surviving_share(stitched=-sums["numerator"], clean=-sums["denominator"], ablated=0.0)
