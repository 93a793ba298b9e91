"""One alignment for weights and activations at once, and what either costs the other.

    J_l(g) = (1 - l) W(g) + l E(R),      W = mean over tensors of |g(B)_k - A_k|^2 / |A_k|^2,
    E = mean over sites of (tr S_A + tr S_B - 2 tr(R^T C)) / tr S_A = 1 - EV of the rotated states,

S_A, S_B the covariances and C the centred cross-moment of the states at the fit samples, R the
rotation of the stream in g. E is linear in R, so that the rotation step stays one Procrustes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from torch import Tensor

from harness.gauge import fit
from harness.gauge.balance import Part, balanced
from harness.gauge.fit import Array, Moments
from harness.gauge.search import Descent, Place, objective, starts_of
from harness.subjects.architecture import Architecture

MIDDLE = 0.5
"""Share of the activations at which the two ends are compared."""
_GEODESIC = 11
"""Points on the way between the two ends, both included."""


@dataclass(frozen=True)
class Point:
    """Both errors at the minimiser of one mixture."""

    share: float
    """l, the share of the activations."""
    weights: float
    """W."""
    activations: float
    """E."""


@dataclass(frozen=True)
class Joint:
    """The front, and whether its two ends lie in one basin.

    Attributes:
        points: one for each share, in order.
        barrier: largest rise of J at l = 1/2 above the straight line between its values at the two
            ends, along the geodesic between their rotations; none where no path joins them.
        no_path: why there is none.
        gap: difference of J at l = 1/2 when it is minimised from either end.
        distance: ||R - R'||_F between the rotations where these two ended.
    """

    points: tuple[Point, ...]
    barrier: float | None
    no_path: str | None
    gap: float
    distance: float


def joint_alignment(
    reference: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    architecture: Architecture,
    *,
    moments: Sequence[Moments],
    shares: Sequence[float],
    starts: int = 5,
    seed: int = 0,
) -> Joint:
    """Minimises J_l over the whole group for every share.

    Args:
        reference: weights by name, gains folded.
        other: the same of the other model.
        architecture: of both.
        moments: of the states at each site, other and reference, from the fit samples.
        shares: l, ascending, from 0 to 1.
        starts: of each search; the Procrustes rotations of the sites are among them.
        seed: of the random ones.
    """
    own, theirs = balanced(reference, architecture), balanced(other, architecture)
    states = _States.of(moments)
    hints = [fit.procrustes(one).R for one in moments]
    begun = starts_of(own, theirs, starts=max(starts, 1 + len(hints)), seed=seed, hints=hints)
    begun["states together"] = fit.nearest_rotation(states.pull)
    places: list[Place] = []
    for share in shares:
        descent = _descent(own, theirs, states, share)
        found = [descent.run(rotation)[0] for rotation in begun.values()]
        found += [descent.go_on(place)[0] for place in places[-1:]]
        places.append(min(found, key=descent.value))
    points = tuple(
        Point(share, objective(own, theirs, place) / len(own), states.error(place.rotation))
        for share, place in zip(shares, places, strict=True)
    )
    middle = _descent(own, theirs, states, MIDDLE)
    ends = (places[0], places[-1])
    barrier = _barrier(middle, *ends)
    met = [middle.go_on(place, gain=1e-7)[0] for place in ends]
    return Joint(
        points=points,
        barrier=barrier,
        no_path=None if barrier is not None else "one rotation mirrors and the other does not",
        gap=abs(middle.value(met[0]) - middle.value(met[1])),
        distance=float(np.linalg.norm(met[0].rotation - met[1].rotation)),
    )


@dataclass(frozen=True, eq=False)
class _States:
    """E as constant - 2 tr(R^T pull)."""

    constant: float
    pull: Array

    @classmethod
    def of(cls, moments: Sequence[Moments]) -> _States:
        traces = [
            (float(np.trace(one.covariance_reference)), float(np.trace(one.covariance_other)))
            for one in moments
        ]
        pull = sum(
            one.centred_cross / one.tokens / own
            for one, (own, _) in zip(moments, traces, strict=True)
        )
        constant = sum(1.0 + other / own for own, other in traces)
        return cls(constant / len(moments), np.asarray(pull) / len(moments))

    def error(self, rotation: Array) -> float:
        """E at a rotation."""
        return self.constant - 2.0 * float((self.pull * rotation).sum())


def _descent(own: Sequence[Part], theirs: Sequence[Part], states: _States, share: float) -> Descent:
    return Descent(
        own,
        theirs,
        weight=(1.0 - share) / len(own),
        pull=share * states.pull,
        constant=share * states.constant,
    )


def _barrier(descent: Descent, first: Place, last: Place) -> float | None:
    """Rise of the objective along the geodesic of O(d); none where no path joins the two."""
    turn = first.rotation.T @ last.rotation
    if np.linalg.det(turn) < 0:
        return None
    generator = np.real(scipy.linalg.logm(turn))
    ends = descent.value(first), descent.value(last)
    rises = [0.0]
    for t in np.linspace(0.0, 1.0, _GEODESIC)[1:-1]:
        rotation = first.rotation @ scipy.linalg.expm(t * generator)
        here = min(descent.value(descent.at(rotation, place)) for place in (first, last))
        rises.append(here - ((1.0 - t) * ends[0] + t * ends[1]))
    return float(max(rises))
