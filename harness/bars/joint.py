"""One alignment for weights and activations at once, and what either costs the other.

    J_l(g) = (1 - l) W(g) + l E(R),      W = mean over tensors of |g(B)_k - A_k|^2 / |A_k|^2,
    E = mean over sites of (tr S_A + tr S_B - 2 tr(R^T C)) / tr S_A = 1 - EV of the rotated states,

S_A, S_B the covariances and C the centred cross-moment of the states at the fit samples, R the
rotation of the stream in g. E is linear in R, so that the rotation step stays one Procrustes. At
l = 1 that step is the whole answer for R, and the rest of g is fitted to W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from harness.gauge import fit
from harness.gauge.balance import Part
from harness.gauge.descent import Descent, End, Place
from harness.gauge.fit import Array, Moments
from harness.gauge.path import geodesic
from harness.gauge.search import COARSE, FINE, completed, frame, parts, rotations
from harness.statistics.undefined import UndefinedError
from harness.subjects.architecture import Architecture

MIDDLE = 0.5
"""Share of the activations at which the two ends are compared."""
_STEPS = 20
"""Steps of equal length on the way between the two ends."""
_SAME = 1e-3
"""Share of J below which a rise or a gap is the small change of a few neurons."""


@dataclass(frozen=True)
class Point:
    """Both errors at the minimiser of one mixture.

    Attributes:
        share: l, the share of the activations.
        weights: W.
        largest: the largest term of W.
        activations: E.
    """

    share: float
    weights: float
    largest: float
    activations: float


@dataclass(frozen=True)
class Joint:
    """The front, and whether its two ends lie in one basin.

    Attributes:
        points: one for each share, in order.
        barrier: largest rise of J at l = 1/2 above the straight line between its values at the two
            ends, along the geodesic between their rotations, the rest of g fitted anew at each
            point; none where no path joins them.
        no_path: why there is none.
        gap: difference of J at l = 1/2 when it is minimised from either end.
        distance: ||R - R'||_F / (2 sqrt d) between the rotations where these two ended, in [0, 1].
        middle: the smaller of the two values of J at l = 1/2.
    """

    points: tuple[Point, ...]
    barrier: float | None
    no_path: str | None
    gap: float
    distance: float
    middle: float

    @property
    def one_basin(self) -> bool | None:
        """Whether nothing rises between the ends and both lead to one value; none without a path.

        Below a thousandth of J a rise or a gap is no more than a few neurons that change places.
        """
        if self.barrier is None:
            return None
        return max(self.barrier, self.gap) <= _SAME * self.middle


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

    Every share is descended from the starts of the weights' search, the Procrustes rotations of
    the sites alone and together among them, and from where its neighbours ended.

    Args:
        reference: weights by name, gains folded.
        other: the same of the other model.
        architecture: of both.
        moments: of the states at each site, other and reference, from the fit samples.
        shares: l, ascending, from 0 to 1.
        starts: of each search; the Procrustes rotations of the sites are among them.
        seed: of the random ones.

    Raises:
        UndefinedError: a tensor of the reference is zero, one of either model is not finite, or the
            reference's states do not vary at a site.
        ValueError: shares that do not ascend from 0 to 1.
    """
    found = list(shares)
    if found != sorted(set(found)) or found[:1] != [0.0] or found[-1:] != [1.0]:
        raise ValueError(f"expected shares that ascend from 0 to 1, got {found}")
    own, theirs = parts(reference, other, architecture, alignment="full")
    problem = _Problem(own, theirs, _States.of(moments))
    hints = [fit.procrustes(one).R for one in moments]
    hints.append(problem.of_states())
    begun = rotations(own, theirs, starts=max(starts, 1 + len(hints)), seed=seed, hints=hints)
    places = problem.front(found, list(begun.values()))
    barrier, no_path = problem.barrier(places[0], places[-1])
    middle = problem.descent(MIDDLE)
    met = [middle.go_on(place, gain=FINE) for place in (places[0], places[-1])]
    apart = met[0].place.rotation - met[1].place.rotation
    return Joint(
        points=tuple(problem.point(s, place) for s, place in zip(found, places, strict=True)),
        barrier=barrier,
        no_path=no_path,
        gap=abs(met[0].value - met[1].value),
        distance=float(np.linalg.norm(apart)) / (2 * np.sqrt(len(apart))),
        middle=min(end.value for end in met),
    )


@dataclass(frozen=True, eq=False)
class _States:
    """E as constant - 2 tr(R^T pull)."""

    constant: float
    pull: Array

    @classmethod
    def of(cls, moments: Sequence[Moments]) -> _States:
        constant, pull = 0.0, np.zeros_like(moments[0].cross)
        for one in moments:
            own = float(np.trace(one.covariance_reference))
            if not own > 0:
                raise UndefinedError("the reference's states do not vary at a site of the fit")
            constant += (1.0 + float(np.trace(one.covariance_other)) / own) / len(moments)
            pull += one.centred_cross / one.tokens / own / len(moments)
        return cls(constant, pull)

    def error(self, rotation: Array) -> float:
        """E at a rotation."""
        return self.constant - 2.0 * float((self.pull * rotation).sum())


@dataclass(frozen=True, eq=False)
class _Problem:
    """J_l for every l."""

    own: Sequence[Part]
    theirs: Sequence[Part]
    states: _States

    def descent(self, share: float) -> Descent:
        """Of J_l."""
        return Descent(
            self.own,
            self.theirs,
            weight=(1.0 - share) / len(self.own),
            pull=share * self.states.pull,
            constant=share * self.states.constant,
        )

    def of_states(self) -> Array:
        """The rotation that is best for the states alone."""
        return completed(self.states.pull, own=frame(self.own), theirs=frame(self.theirs))

    def front(self, shares: Sequence[float], begun: Sequence[Array]) -> list[Place]:
        """The best place found for each share, the last for the states alone."""
        ends: list[End] = []
        for share in shares[:-1]:
            descent = self.descent(share)
            found = [descent.run(rotation, gain=COARSE) for rotation in begun]
            found += [descent.go_on(end.place, gain=COARSE) for end in ends[-1:]]
            ends.append(descent.go_on(min(found, key=_value).place, gain=FINE))
        weights = self.descent(0.0)
        rotation = self.of_states()
        last = weights.at(rotation, scale=weights.start(rotation).scale)
        ends.append(End(last, 0.0, 0, True))
        for number in range(len(shares) - 2, -1, -1):  # what a later share found may serve here too
            descent = self.descent(shares[number])
            back = descent.go_on(ends[number + 1].place, gain=FINE)
            ends[number] = min((ends[number], back), key=_value)
        return [end.place for end in ends]

    def point(self, share: float, place: Place) -> Point:
        """Both errors at a place."""
        errors = [
            float(((place.moved(b) - a.rows) ** 2).sum()) / a.square
            for a, b in zip(self.own, self.theirs, strict=True)
        ]
        activations = self.states.error(place.rotation)
        return Point(share, float(np.mean(errors)), max(errors), activations)

    def barrier(self, first: Place, last: Place) -> tuple[float | None, str | None]:
        """Largest rise of J at l = 1/2 along the geodesic, or why there is no path.

        Where one end mirrors and the other does not, the states' end is mirrored along their least
        direction, if that costs E next to nothing: the states then do not say on which piece of
        O(d) it lies.
        """
        descent = self.descent(MIDDLE)
        if np.linalg.det(first.rotation.T @ last.rotation) < 0:
            u, s, _ = fit.svd(self.states.pull)
            cost = 4 * float(s[-1])
            if cost > _SAME * descent.value(last):
                return None, (
                    "one rotation mirrors and the other does not: no path joins them (to mirror "
                    f"the states' least direction would cost E {cost:.1e})"
                )
            turned = last.rotation - 2 * np.outer(u[:, -1], u[:, -1] @ last.rotation)
            last = self.descent(0.0).at(turned, scale=last.scale)
        way = geodesic(first.rotation, last.rotation)
        values = []
        for t in np.linspace(0.0, 1.0, _STEPS + 1):
            rotation = way(float(t))
            scales = {first.scale, last.scale}
            values.append(min(descent.value(descent.at(rotation, scale=c)) for c in scales))
        line = np.linspace(values[0], values[-1], _STEPS + 1)
        return float((np.array(values) - line).max()), None


def _value(end: End) -> float:
    return end.value
