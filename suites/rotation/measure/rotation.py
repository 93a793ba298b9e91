"""Exact readings of the fitted rotation and of the directions that the data determine."""

from __future__ import annotations

from harness.gauge.fit import svd
from harness.measured import Measured
from harness.statistics.effective_rank import effective_rank
from harness.statistics.frobenius import distance_to_identity
from harness.statistics.stability import smallest_gap, stable_directions
from suites.rotation.measure.frame import Frame
from suites.rotation.measure.reading import Place


def frobenius(frame: Frame, place: Place) -> Measured:
    """||R - I||_F."""
    return place.measured(lambda: distance_to_identity(frame.map(place.site, "rotated").R))


def rank_reference(frame: Frame, place: Place) -> Measured:
    """Effective rank of the reference's covariance."""
    moments = frame.fitted[place.site].whole
    return place.measured(lambda: effective_rank(moments.covariance_reference))


def rank_other(frame: Frame, place: Place) -> Measured:
    """Effective rank of the other model's covariance."""
    moments = frame.fitted[place.site].whole
    return place.measured(lambda: effective_rank(moments.covariance_other))


def rank_stable(frame: Frame, place: Place) -> Measured:
    """Number of directions on which the rotations of the two halves agree."""
    return place.measured(lambda: float(_stable(frame, place.site)))


def rank_gap(frame: Frame, place: Place) -> Measured:
    """Smallest relative gap of the singular values of the stable directions."""
    values = svd(frame.fitted[place.site].whole.centred_cross)[1]
    return place.measured(lambda: smallest_gap(values, _stable(frame, place.site)))


def _stable(frame: Frame, site: str) -> int:
    whole, (even, odd) = frame.fitted[site]
    return stable_directions(whole.centred_cross, (even.centred_cross, odd.centred_cross))
