"""Coordinate descent over a gauge group from one start: every step is a closed form.

With both models in the balanced gauge, A_k and B_k the parts of the reference and of the other as
rows of residual vectors, and c the scale of the stream, the error is

    J(g) = sum_k |c^(p_k / 2) T_k B_k R - A_k|^2 / |A_k|^2

T_k orders heads and neurons and rotates the inner axis of each head; p_k is 0, 1 or 2. With all
else fixed its least value is found

    over R               by Procrustes over all rows
    over a head's T      by Procrustes, for every head of one with every head of the other
    over orders          by linear assignment of what those leave
    over c               at a root of a quartic in c^(1/2)

Orders that stay are kept while rotations and scale settle: that is where J needs many rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from harness.gauge import fit
from harness.gauge.balance import Part
from harness.gauge.fit import Array

POWERS = (0, 1, 2)
"""Powers of c^(1/2) that a part can carry."""

_MATCHINGS = 100
"""Matchings of a descent at most."""
_ROUNDS = 20
"""Rounds of rotations and scale between two matchings at most."""
_FITTINGS = 20
"""Rounds of scale and the rest at a fixed rotation at most."""


@dataclass(frozen=True, eq=False)
class Place:
    """A point of the group, as far as parts need it.

    Attributes:
        rotation: R, other to reference, [d, d]: x_A ~ x_B R.
        heads: by block, for each of the reference's heads the other's that stands for it.
        turns: by pair, the rotation of the inner axis of each of the reference's heads, [heads,
            inner, inner]: rows' = turn rows.
        neurons: by pair, for each of the reference's neurons the other's.
        scale: factor c of the stream.
    """

    rotation: Array
    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    turns: Mapping[str, Array] = field(default_factory=dict)
    neurons: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    scale: float = 1.0

    def ordered(self, part: Part) -> Array:
        """Rows of a part of the other model in the order of the reference's."""
        if part.kind == "heads" and part.layer in self.heads:
            return part.rows[list(self.heads[part.layer])]
        if part.kind == "neurons" and part.pair in self.neurons:
            return part.rows[list(self.neurons[part.pair])]
        return part.rows

    def moved(self, part: Part) -> Array:
        """A part of the other model, brought over."""
        rows = self.ordered(part)
        if part.kind == "heads" and part.pair in self.turns:
            rows = self.turns[part.pair] @ rows
        return np.asarray(rows @ self.rotation * self.scale ** (part.power / 2))


class End(NamedTuple):
    """Where a descent ended."""

    place: Place
    value: float
    rounds: int
    converged: bool


class Descent:
    """Coordinate descent over the whole group.

    Args:
        own: parts of the reference, none zero, in the balanced gauge.
        theirs: parts of the other model, in the same order.
        weight: of J.
        pull: [d, d], P, of an objective that is added: weight J + constant - 2 tr(R^T P)
            (`parametric.joint`).
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
        self.parts = list(zip(own, theirs, strict=True))
        width = own[0].rows.shape[-1]
        self.pull = np.zeros((width, width)) if pull is None else pull
        self.weight, self.constant = weight, constant
        self._squares = np.zeros(len(POWERS))  # sum of |B_k|^2 / |A_k|^2, by power
        self._labelled = np.zeros((len(POWERS), width, width))
        for a, b in self.parts:
            self._squares[b.power] += b.square / a.square
            if a.kind == "labelled":
                self._labelled[b.power] += b.rows.T @ a.rows / a.square

    def run(self, rotation: Array, *, gain: float) -> End:
        """Where descent from a rotation of the stream ends.

        Args:
            rotation: R to begin with.
            gain: relative decrease of J below which a step is the last.
        """
        return self.go_on(self.start(rotation), gain=gain)

    def start(self, rotation: Array) -> Place:
        """The point at which descent from a rotation begins."""
        return Place(rotation, scale=_relative_scale(self.parts))

    def go_on(self, place: Place, *, gain: float) -> End:
        """Where descent from a point of the group ends."""
        value, rounds = np.inf, 0
        for _ in range(_MATCHINGS):
            before, orders = value, (place.heads, place.neurons)
            place = self.matched(place)
            place, value, more = self._settled(place, gain=gain)
            rounds += more
            same = orders == (place.heads, place.neurons)
            if same and before - value <= gain * self._size(value):
                return End(place, value, rounds, True)
        return End(place, value, rounds, False)

    def at(self, rotation: Array, *, scale: float) -> Place:
        """The rest of the group fitted to J at a fixed rotation, from a scale."""
        place = Place(rotation, scale=scale)
        for _ in range(_FITTINGS):
            before = place.scale
            place = self.matched(place)
            cross = self._crosses(place, self._fixed(place))
            place = replace(place, scale=self._scale(place, cross))
            if abs(place.scale - before) <= 1e-9 * before:
                break
        return place

    def value(self, place: Place) -> float:
        """The objective at a point of the group."""
        return self._value(place, self._crosses(place, self._fixed(place)))

    def matched(self, place: Place) -> Place:
        """Orders of heads and neurons, and turns of the heads, fitted to R and c."""
        heads, turns, neurons = dict(place.heads), dict(place.turns), dict(place.neurons)
        groups: dict[tuple[int | None, str], list[tuple[Part, Part]]] = {}
        for a, b in self.parts:
            if a.kind != "labelled":
                groups.setdefault((a.layer, a.kind), []).append((a, b))
        for (layer, kind), parts in groups.items():
            if kind == "heads" and layer is not None:
                heads[layer], found = _match_heads(parts, place)
                turns.update(found)
            else:
                neurons.update(_match_neurons(parts, place))
        return replace(place, heads=heads, turns=turns, neurons=neurons)

    def _settled(self, place: Place, *, gain: float) -> tuple[Place, float, int]:
        """Rotations and scale after some rounds at fixed orders, the objective, and the rounds."""
        fixed = self._fixed(place)
        cross = self._crosses(place, fixed)
        value = self._value(place, cross)
        rounds = 0
        while rounds < _ROUNDS:
            before, rounds = value, rounds + 1
            powers = place.scale ** (np.array(POWERS) / 2)
            total = self.weight * np.tensordot(powers, cross, 1) + self.pull
            place = replace(place, rotation=fit.nearest_rotation(total))
            place = replace(place, turns=self._turns(place))
            cross = self._crosses(place, fixed)
            place = replace(place, scale=self._scale(place, cross))
            value = self._value(place, cross)
            if before - value <= gain * self._size(value):
                break
        return place, value, rounds

    def _size(self, value: float) -> float:
        """What a decrease is measured against: J, and its rounding where J is nothing else."""
        return max(abs(value), 1e-9)

    def _fixed(self, place: Place) -> Array:
        """sum of (T_k B_k)^T A_k / |A_k|^2 over all parts but heads, by power, [3, d, d]."""
        found = self._labelled.copy()
        for a, b in self.parts:
            if a.kind == "neurons":
                found[b.power] += place.ordered(b).T @ a.rows / a.square
        return found

    def _crosses(self, place: Place, fixed: Array) -> Array:
        """sum of (T_k B_k)^T A_k / |A_k|^2 over all parts, by power, [3, d, d]."""
        found = fixed.copy()
        for a, b in self.parts:
            if a.kind == "heads":
                rows = (place.turns[str(a.pair)] @ place.ordered(b)).reshape(-1, a.rows.shape[-1])
                found[b.power] += rows.T @ a.rows.reshape(rows.shape) / a.square
        return found

    def _turns(self, place: Place) -> dict[str, Array]:
        """The best rotation of each head's inner axis at fixed orders, by pair."""
        cross: dict[str, Array] = {}
        for a, b in self.parts:
            if a.kind == "heads":
                rows = place.ordered(b) @ place.rotation
                one = a.rows @ np.swapaxes(rows, -1, -2)
                one *= place.scale ** (b.power / 2) / a.square
                cross[str(a.pair)] = cross.get(str(a.pair), 0.0) + one
        if not cross:
            return {}
        u, _, vt = np.linalg.svd(np.stack(list(cross.values())))
        return dict(zip(cross, u @ vt, strict=True))

    def _value(self, place: Place, cross: Array) -> float:
        powers = place.scale ** (np.array(POWERS) / 2)
        inner = np.tensordot(cross, place.rotation, 2)  # [3]
        error = len(self.parts) + float(powers**2 @ self._squares - 2 * powers @ inner)
        other = self.constant - 2 * float((self.pull * place.rotation).sum())
        return self.weight * error + other

    def _scale(self, place: Place, cross: Array) -> float:
        """The c that minimises J, the rest fixed."""
        inner = np.tensordot(cross, place.rotation, 2)
        return best_scale(self._squares, inner, current=place.scale)


def best_scale(squares: Array, inner: Array, *, current: float) -> float:
    """c = s^2 for the s > 0 that minimises sum_p s^(2p) squares_p - 2 s^p inner_p, p = 0, 1, 2.

    The derivative 4 q_2 s^3 + 2 (q_1 - 2 i_2) s - 2 i_1 vanishes there.

    Args:
        squares: q, [3].
        inner: i, [3].
        current: c that is kept where no root is better: where nothing agrees, the smaller the
            better, and none is the smallest.
    """
    q, i = squares, inner

    def error(s: float) -> float:
        return float(q[2] * s**4 + (q[1] - 2 * i[2]) * s**2 - 2 * i[1] * s)

    coefficients = np.array([4 * q[2], 0.0, 2 * (q[1] - 2 * i[2]), -2 * i[1]])
    roots = np.roots(coefficients)
    real = [float(r.real) for r in roots if abs(r.imag) <= 1e-6 * abs(r) and r.real > 0]
    best = min(real, key=error, default=None)
    return current if best is None or error(best) >= error(current**0.5) else best**2


def _relative_scale(parts: Sequence[tuple[Part, Part]]) -> float:
    """c from sizes alone: the geometric mean over parts of (|A_k| / |B_k|)^(2 / p_k)."""
    logs = [
        np.log(a.square / b.square) / b.power for a, b in parts if b.power and a.square and b.square
    ]
    return float(np.exp(np.mean(logs))) if logs else 1.0


def _match_heads(
    parts: Sequence[tuple[Part, Part]], place: Place
) -> tuple[tuple[int, ...], dict[str, Array]]:
    """The other's head for each of the reference's, and the rotation of each pair's inner axis."""
    cross: dict[str, Array] = {}
    for a, b in parts:
        heads, inner, width = a.rows.shape
        own = a.rows.reshape(-1, width)
        rows = (b.rows @ place.rotation).reshape(-1, width)
        one = (own @ rows.T).reshape(heads, inner, heads, inner).transpose(0, 2, 1, 3)
        one = one * (place.scale ** (b.power / 2) / a.square)
        cross[str(a.pair)] = cross.get(str(a.pair), 0.0) + one
    u, values, vt = np.linalg.svd(np.stack(list(cross.values())))  # [pairs, own, theirs, k, k]
    order = _assignment(values.sum((0, -1)))
    rows_, columns = np.arange(len(order)), list(order)
    turns = (u @ vt)[:, rows_, columns]
    return order, dict(zip(cross, turns, strict=True))


def _match_neurons(parts: Sequence[tuple[Part, Part]], place: Place) -> dict[str, tuple[int, ...]]:
    """The other's neuron for each of the reference's."""
    gains = sum(
        a.rows @ (b.rows @ place.rotation).T * (place.scale ** (b.power / 2) / a.square)
        for a, b in parts
    )
    order = _assignment(np.asarray(gains))
    return {str(a.pair): order for a, _ in parts}


def _assignment(gains: Array) -> tuple[int, ...]:
    """The column of each row whose gains sum to most."""
    _, columns = linear_sum_assignment(gains, maximize=True)
    return tuple(int(j) for j in columns)
