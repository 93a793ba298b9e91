"""Readings of the states themselves: paired and whitened EV, linear excess, identity share."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from harness.gauge import fit
from harness.gauge.fit import Array
from harness.runners.measure import View
from harness.statistics.identity_share import identity_share, polar
from harness.statistics.whitened import axis_weights
from suites.rotation.measure.frame import Frame, at
from suites.rotation.measure.reading import Place, Reading, Sums, ev, ev_difference

WHITENED_SHARE = 0.99
"""Share of the reference's variance that the whitened components hold."""


def paired(frame: Frame, place: Place) -> Reading:
    """EV of x~_B against x_A."""
    site, arm = place.site, place.arm or "rotated"
    frame.map(site, arm)  # undefined here, if at all, and not in the middle of a pass
    return Reading(
        place,
        {
            "residual": lambda view: frame.residual(view, site, arm),
            "total": lambda view: frame.total(view, site),
        },
        ev,
    )


def linear_excess(frame: Frame, place: Place) -> Reading:
    """Paired EV of the linear map minus that of the rotation."""
    site = place.site
    frame.map(site, "linear")
    total = partial(frame.total, site=site)
    return Reading(
        place,
        {
            "residual_a": lambda view: frame.residual(view, site, "linear"),
            "total_a": total,
            "residual_b": lambda view: frame.residual(view, site, "rotated"),
            "total_b": total,
        },
        ev_difference,
    )


def whitened(frame: Frame, place: Place) -> Reading:
    """Mean R^2 over principal components: residuals and totals weighted by 1 / (K total_p).

    Components come from the fit samples, their totals from the whole evaluation sample, held fixed
    over the blocks.
    """
    site = place.site
    values, vectors = fit.principal_components(frame.fitted[site].whole)
    basis = vectors[:, : fit.components_for(values, WHITENED_SHARE)]
    whole = frame.whole[site]
    spread = whole.tokens * np.einsum(
        "dk,de,ek->k", basis, whole.covariance_reference, basis, optimize=True
    )
    weights = axis_weights(spread)

    def along(difference: Tensor) -> Tensor:
        return (difference @ at(basis, difference)).square() @ at(weights, difference)

    def residual(view: View) -> Tensor:
        return along(frame.reference(view, site) - frame.carried(view, site, "rotated"))

    def total(view: View) -> Tensor:
        states = frame.reference(view, site)
        return along(states - at(whole.mean_reference, states))

    return Reading(place, {"residual": residual, "total": total}, ev)


def identity(frame: Frame, place: Place) -> Reading:
    """tr C_b over tr(R'^T C_b), C_b = sum (x_B - m_B)^T (x_A - m_A) over the tokens of a block.

    m are the evaluation means and R' the polar factor of the whole evaluation cross-moment, both
    held fixed over the blocks.
    """
    site = place.site
    whole = frame.whole[site]
    aligned = torch.from_numpy(np.ascontiguousarray(polar(whole.centred_cross)))

    def centred(view: View) -> tuple[Tensor, Tensor]:
        other, reference = frame.other(view, site), frame.reference(view, site)
        return other - at(whole.mean_other, other), reference - at(whole.mean_reference, reference)

    def trace(view: View) -> Tensor:
        other, reference = centred(view)
        return (other * reference).sum(1)

    def rotated(view: View) -> Tensor:
        other, reference = centred(view)
        return ((other @ aligned.to(other)) * reference).sum(1)

    return Reading(
        place,
        {"numerator": trace, "denominator": rotated},
        partial(_identity_share, whole.centred_cross),
    )


def _identity_share(cross: Array, _: Sums) -> float:
    return identity_share(cross)
