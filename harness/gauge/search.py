"""Bringing one model's weights onto another's over a gauge group.

For tensors A_k of the reference and B_k of the other, all as rows of residual vectors, the search
minimises the summed normalised error

    J(g) = sum_k |g(B)_k - A_k|^2 / |A_k|^2.

`none`, `rotation` and `signed-permutation` move the residual stream alone, of the weights as they
are stored, and have closed forms. `full` brings both models to the balanced gauge and descends by
coordinates, every step a closed form with the others fixed:

    rotation of the stream     Procrustes over all rows
    heads, and their rotations the best rotation of each pair of heads, then the best matching
    neurons                    the best matching
    scale of the stream        a quartic in its square root

from several starts. None of them knows the basis in which the reference is stored: the answer does
not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from harness.gauge import fit
from harness.gauge.balance import Part, balanced, stored
from harness.gauge.fit import Array
from harness.gauge.invariants import lower_bounds
from harness.statistics.undefined import UndefinedError
from harness.streams import generator
from harness.subjects.architecture import RESIDUAL, Architecture

Alignment = Literal["none", "rotation", "signed-permutation", "full"]

_ROUNDS = 300
"""Rounds of coordinate descent at most."""
_COARSE, _FINE = 1e-4, 1e-7
"""Share of the error that a round has to gain, or it is the last: every start, and the best."""
_EXACT = 1e-24
"""Error that is rounding."""


@dataclass(frozen=True, eq=False)
class Place:
    """A point of the group, as far as parts need it.

    Attributes:
        rotation: R, other to reference, [d, d].
        orders: by block, for each of the reference's heads the other's that stands for it.
        turns: by pair, the rotation of the inner axis of each of the reference's heads, [heads,
            inner, inner]: rows' = turn rows.
        neurons: by pair, for each of the reference's neurons the other's.
        scale: factor c of the stream.
    """

    rotation: Array
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    turns: Mapping[str, Array] = field(default_factory=dict)
    neurons: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    scale: float = 1.0

    def unrotated(self, part: Part) -> Array:
        """A part of the other model with everything done to it but the rotation of the stream."""
        rows = part.rows
        if part.kind == "heads" and part.layer in self.orders:
            rows = rows[list(self.orders[part.layer])]
            if part.pair in self.turns:
                rows = self.turns[part.pair] @ rows
        if part.kind == "neurons" and part.pair in self.neurons:
            rows = rows[list(self.neurons[part.pair])]
        return np.asarray(rows * self.scale ** (part.power / 2))

    def moved(self, part: Part) -> Array:
        """A part of the other model, brought over."""
        return np.asarray(self.unrotated(part) @ self.rotation)


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended, and what no element can undercut.

    Attributes:
        place: the minimiser that was found.
        objective: J there.
        objectives: J where each start ended, before the best was followed further.
        start: name of the start that won.
        nmse: |g(B)_k - A_k|^2 / |A_k|^2, by tensor.
        mse: the same over the number of entries.
        lower: least nmse of each tensor over the whole group.
        lower_mse: least mse of each tensor.
        rounds: rounds of descent from the start that won.
    """

    place: Place
    objective: float
    objectives: Mapping[str, float]
    start: str
    nmse: Mapping[str, float]
    mse: Mapping[str, float]
    lower: Mapping[str, float]
    lower_mse: Mapping[str, float]
    rounds: int = 0

    @property
    def heads(self) -> Mapping[int, tuple[int, ...]]:
        """By block, for each of the reference's heads the other's that stands for it."""
        return self.place.orders


def search(
    reference: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    architecture: Architecture,
    *,
    alignment: Alignment,
    starts: int = 8,
    seed: int = 0,
    hints: Sequence[Array] = (),
) -> Found:
    """The other model's weights brought onto the reference's.

    Args:
        reference: weights by name, gains folded.
        other: the same of the other model.
        architecture: of both.
        alignment: the group.
        starts: of the search over the whole group.
        seed: of the random starts.
        hints: rotations, other to reference, from which the search starts as well.

    Raises:
        UndefinedError: a tensor of the reference is zero, so that no error can be normalised.
    """
    read = balanced if alignment == "full" else stored
    own, theirs = read(reference, architecture), read(other, architecture)
    for part in own:
        if part.square == 0.0:
            raise UndefinedError(f"the reference's {part.name} is zero: nothing to normalise by")
    match alignment:
        case "none":
            ends = {"identity": (Place(np.eye(architecture.size(RESIDUAL))), 0)}
        case "rotation":
            ends = {"closed form": (Place(fit.nearest_rotation(_cross(own, theirs))), 0)}
        case "signed-permutation":
            ends = {"closed form": (Place(_signed_permutation(_cross(own, theirs))), 0)}
        case "full":
            descent = Descent(own, theirs)
            begun = starts_of(own, theirs, starts=starts, seed=seed, hints=hints)
            ends = {name: descent.run(rotation) for name, rotation in begun.items()}
    objectives = {name: objective(own, theirs, place) for name, (place, _) in ends.items()}
    best = min(objectives, key=lambda name: objectives[name])  # the first of equals
    place, rounds = ends[best]
    if alignment == "full":
        place, more = descent.go_on(place, gain=_FINE)
        rounds += more
    lower = lower_bounds(own, theirs, alignment=alignment)
    sizes = {part.name: part.rows.size for part in own}
    squares = {part.name: part.square for part in own}
    errors = {a.name: float(((place.moved(b) - a.rows) ** 2).sum()) for a, b in _zip(own, theirs)}
    return Found(
        place=place,
        objective=objective(own, theirs, place),
        objectives=objectives,
        start=best,
        nmse={name: error / squares[name] for name, error in errors.items()},
        mse={name: error / sizes[name] for name, error in errors.items()},
        lower=lower,
        lower_mse={name: low * squares[name] / sizes[name] for name, low in lower.items()},
        rounds=rounds,
    )


def objective(own: Sequence[Part], theirs: Sequence[Part], place: Place) -> float:
    """J at a point of the group."""
    return sum(
        float(((place.moved(b) - a.rows) ** 2).sum()) / a.square for a, b in _zip(own, theirs)
    )


class Descent:
    """Coordinate descent over the whole group, both models in the balanced gauge.

    Args:
        own: parts of the reference.
        theirs: parts of the other model, in the same order.
        weight: factor of J.
        pull: [d, d]; with `constant`, another objective that is linear in the rotation is added,
            constant - 2 tr(R^T pull) (`parametric.joint`).
        constant: of that objective.
    """

    def __init__(
        self,
        own: Sequence[Part],
        theirs: Sequence[Part],
        *,
        weight: float = 1.0,
        pull: Array | None = None,
        constant: float = 0.0,
    ) -> None:
        self.own, self.theirs = tuple(own), tuple(theirs)
        self.weight, self.constant = weight, constant
        self.pull = np.zeros((own[0].rows.shape[-1],) * 2) if pull is None else pull
        self._groups: dict[tuple[int, str], list[tuple[Part, Part]]] = {}
        for a, b in _zip(own, theirs):
            if a.kind != "labelled":
                self._groups.setdefault((a.layer, a.kind), []).append((a, b))

    def run(self, rotation: Array) -> tuple[Place, int]:
        """Where descent ends from a rotation of the stream, and after how many rounds.

        The scale begins as the ratio of the norms of what writes by labelled rows, which is the
        same in every gauge.
        """
        sums = [
            sum(part.square for part in side if part.kind == "labelled" and part.power)
            for side in (self.own, self.theirs)
        ]
        scale = float(np.sqrt(sums[0] / sums[1])) if all(sums) else 1.0
        place = Place(rotation, scale=scale)
        return self.go_on(self._scaled(self._matched(place)))

    def go_on(self, place: Place, *, gain: float = _COARSE) -> tuple[Place, int]:
        """Where descent ends from a point of the group, and after how many rounds."""
        before = self.value(place)
        for number in range(1, _ROUNDS + 1):
            place = self._scaled(self._matched(self._rotated(place)))
            after = self.value(place)
            if before - after <= gain * before or after < _EXACT:
                return place, number
            before = after
        return place, _ROUNDS

    def at(self, rotation: Array, place: Place) -> Place:
        """The other parts of the group fitted at a fixed rotation, from those of a point."""
        found = replace(place, rotation=rotation)
        for _ in range(3):
            found = self._scaled(self._matched(found))
        return found

    def value(self, place: Place) -> float:
        """The objective at a point of the group."""
        other = self.constant - 2.0 * float((self.pull * place.rotation).sum())
        return self.weight * objective(self.own, self.theirs, place) + other

    def _rotated(self, place: Place) -> Place:
        cross = self.pull.copy()
        for a, b in zip(self.own, self.theirs, strict=True):
            rows = place.unrotated(b).reshape(-1, cross.shape[0])
            cross += self.weight * rows.T @ a.rows.reshape(rows.shape) / a.square
        return replace(place, rotation=fit.nearest_rotation(cross))

    def _matched(self, place: Place) -> Place:
        orders, turns, neurons = dict(place.orders), dict(place.turns), dict(place.neurons)
        for (layer, kind), parts in self._groups.items():
            if kind == "heads":
                orders[layer], found = _match_heads(parts, place)
                turns.update(found)
            else:
                neurons.update(_match_neurons(parts, place))
        return replace(place, orders=orders, turns=turns, neurons=neurons)

    def _scaled(self, place: Place) -> Place:
        """The scale that minimises J, the rest fixed: s = c^(1/2), a quartic in s."""
        square, cross = np.zeros(3), np.zeros(3)
        at_one = replace(place, scale=1.0)
        for a, b in zip(self.own, self.theirs, strict=True):
            if b.power:
                moved = at_one.moved(b)
                square[b.power] += float((moved**2).sum()) / a.square
                cross[b.power] += float((moved * a.rows).sum()) / a.square
        if not square.any():
            return place

        def error(s: float) -> float:
            return float(square[2] * s**4 + (square[1] - 2 * cross[2]) * s**2 - 2 * cross[1] * s)

        roots = np.roots([4 * square[2], 0.0, 2 * (square[1] - 2 * cross[2]), -2 * cross[1]])
        real = [float(r.real) for r in roots if abs(r.imag) < 1e-9 * (1 + abs(r)) and r.real > 0]
        if not real:  # nothing agrees: the smaller the better, and none is the smallest
            return place
        return replace(place, scale=min(real, key=error) ** 2)


def _match_heads(
    parts: Sequence[tuple[Part, Part]], place: Place
) -> tuple[tuple[int, ...], dict[str, Array]]:
    """The other's head for each of the reference's, and the rotation of each pair's inner axis."""
    gains: Array | None = None
    turns: dict[str, Array] = {}
    by_pair: dict[str, list[tuple[Part, Part]]] = {}
    for a, b in parts:
        by_pair.setdefault(a.pair, []).append((a, b))
    for pair, members in by_pair.items():
        cross = sum(
            np.einsum(
                "ihd,jkd->ijhk",
                a.rows,
                (b.rows @ place.rotation) * (place.scale ** (b.power / 2) / a.square),
                optimize=True,
            )
            for a, b in members
        )
        u, values, vt = np.linalg.svd(np.asarray(cross))  # [own, theirs, inner, inner]
        turns[pair] = u @ vt
        gain = values.sum(-1)
        gains = gain if gains is None else gains + gain
    rows, columns = linear_sum_assignment(np.asarray(gains), maximize=True)
    order = tuple(int(j) for j in columns)
    return order, {pair: turn[rows, columns] for pair, turn in turns.items()}


def _match_neurons(parts: Sequence[tuple[Part, Part]], place: Place) -> dict[str, tuple[int, ...]]:
    """The other's neuron for each of the reference's."""
    gains: Array | None = None
    for a, b in parts:
        gain = a.rows @ (b.rows @ place.rotation).T / a.square
        gains = gain if gains is None else gains + gain
    _, columns = linear_sum_assignment(np.asarray(gains), maximize=True)
    order = tuple(int(j) for j in columns)
    return {a.pair: order for a, _ in parts}


def starts_of(
    own: Sequence[Part],
    theirs: Sequence[Part],
    *,
    starts: int,
    seed: int,
    hints: Sequence[Array],
) -> dict[str, Array]:
    """Rotations to begin with, by name: from labelled rows, from hints, and random ones.

    Half of the random ones weigh the labelled rows at random, half are Haar-random rotations of the
    other model before the one from labelled rows.
    """
    labelled = [(a, b) for a, b in _zip(own, theirs) if a.kind == "labelled"]
    cross = _weighed(labelled, [np.ones(1) for _ in labelled])
    found = {"labelled rows": fit.nearest_rotation(cross)}
    for number, hint in enumerate(hints):
        found[f"states {number}"] = np.asarray(hint)
    width = len(cross)
    for number in range(max(0, starts - len(found))):
        rng = generator(seed, "starts", number)
        if number % 2:
            turn = fit.haar(width, generator=rng)
            found[f"random {number}"] = turn @ found["labelled rows"]
            continue
        weights = [rng.exponential(size=(len(a.rows), 1)) for a, _ in labelled]
        found[f"random {number}"] = fit.nearest_rotation(_weighed(labelled, weights))
    return dict(list(found.items())[:starts])


def _weighed(parts: Sequence[tuple[Part, Part]], weights: Sequence[Array]) -> Array:
    """sum_k (w_k B_k)^T A_k / (|A_k| |B_k|), [d, d]: no scale of either model weighs anything."""
    return np.asarray(
        sum(
            (weight * b.rows).T @ a.rows / np.sqrt(a.square * b.square or 1.0)
            for (a, b), weight in zip(parts, weights, strict=True)
        )
    )


def _cross(own: Sequence[Part], theirs: Sequence[Part]) -> Array:
    """sum_k B_k^T A_k / |A_k|^2, [d, d]."""
    return np.asarray(
        sum(
            b.rows.reshape(-1, b.rows.shape[-1]).T @ a.rows.reshape(-1, a.rows.shape[-1]) / a.square
            for a, b in _zip(own, theirs)
        )
    )


def _signed_permutation(cross: Array) -> Array:
    """argmax over signed permutations of tr(R^T cross)."""
    rows, columns = linear_sum_assignment(np.abs(cross), maximize=True)
    found = np.zeros_like(cross)
    found[rows, columns] = np.where(cross[rows, columns] < 0, -1.0, 1.0)
    return found


def _zip(own: Sequence[Part], theirs: Sequence[Part]) -> list[tuple[Part, Part]]:
    return list(zip(own, theirs, strict=True))
