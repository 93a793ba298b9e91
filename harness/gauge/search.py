"""Bringing one model's weights onto another's over a gauge group.

For tensors A_k of the reference and B_k of the other, all as rows of residual vectors, the search
minimises the summed normalised error

    J(g) = sum_k |g(B)_k - A_k|^2 / |A_k|^2.

`none`, `rotation` and `signed-permutation` move the residual stream alone, of the weights as they
are stored, and have closed forms. `full` brings both models to the balanced gauge and descends by
coordinates from several starts; the best is followed until it moves no more. A start is made of
what no element of the reference's group changes, so the answer does not depend on the gauge in
which the reference is stored; that is why the identity is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from harness.gauge import fit
from harness.gauge.balance import Part, balanced, stored
from harness.gauge.descent import Descent, End, Place
from harness.gauge.fit import Array
from harness.gauge.invariants import lower_bounds
from harness.statistics.undefined import UndefinedError
from harness.streams import generator
from harness.subjects.architecture import RESIDUAL, Architecture

Alignment = Literal["none", "rotation", "signed-permutation", "full"]
ALIGNMENTS: tuple[Alignment, ...] = get_args(Alignment)

COARSE, FINE = 1e-6, 1e-11
"""Relative decrease of J at which descent ends: from every start, and of the best."""


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended, and what no element can undercut.

    Attributes:
        place: the minimiser that was found.
        objective: J there.
        start: name of the start that won.
        objectives: J where each start ended, before the best was followed further.
        nmse: |g(B)_k - A_k|^2 / |A_k|^2, by tensor, in the coordinates that were compared.
        mse: the same over the number of entries.
        lower: what nmse of each tensor cannot undercut over the whole group.
        lower_mse: the same of mse.
        rounds: rounds of descent from the start that won.
        converged: whether descent ended because nothing was to be gained.
    """

    place: Place
    objective: float
    start: str
    objectives: Mapping[str, float]
    nmse: Mapping[str, float]
    mse: Mapping[str, float]
    lower: Mapping[str, float]
    lower_mse: Mapping[str, float]
    rounds: int
    converged: bool

    @property
    def rotation(self) -> Array:
        """R, other to reference, [d, d]: x_A ~ x_B R."""
        return self.place.rotation

    @property
    def heads(self) -> Mapping[int, tuple[int, ...]]:
        """By block, for each of the reference's heads the other's; empty where none moves."""
        return self.place.heads

    @property
    def neurons(self) -> Mapping[str, tuple[int, ...]]:
        """By first tensor of the pair, for each of the reference's neurons the other's."""
        return self.place.neurons

    @property
    def scale(self) -> float:
        """Factor c on what the other model writes to the stream."""
        return self.place.scale

    def components(self, architecture: Architecture) -> dict[str, str]:
        """For each component of the reference, the other's that stands for it."""
        by_place = architecture.head_components
        found = {name: name for name in architecture.components}
        for (layer, head), name in by_place.items():
            if layer in self.heads:
                found[name] = by_place[layer, self.heads[layer][head]]
        return found


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
        starts: of the search over the whole group, at least 1.
        seed: of the random starts.
        hints: rotations, other to reference, from which the search starts as well.

    Raises:
        UndefinedError: a tensor of the reference is zero, so that no error can be normalised, or
            one of either model is not finite.
        ValueError: no such alignment, no start, or a hint that is not orthogonal.
    """
    own, theirs = parts(reference, other, architecture, alignment=alignment)
    ends: dict[str, End] = {}
    match alignment:
        case "none":
            best = End(Place(np.eye(architecture.size(RESIDUAL))), 0.0, 0, True)
        case "rotation":
            best = End(Place(fit.nearest_rotation(_cross(own, theirs))), 0.0, 0, True)
        case "signed-permutation":
            best = End(Place(_signed_permutation(_cross(own, theirs))), 0.0, 0, True)
        case "full":
            descent = Descent(own, theirs)
            begun = rotations(own, theirs, starts=starts, seed=seed, hints=hints)
            ends = {name: descent.run(rotation, gain=COARSE) for name, rotation in begun.items()}
            name = min(ends, key=lambda name: ends[name].value)  # the first of equals
            further = descent.go_on(ends[name].place, gain=FINE)
            best = further._replace(rounds=ends[name].rounds + further.rounds)
        case _:
            raise ValueError(f"expected an alignment, got {alignment!r}")
    values = {start: end.value for start, end in ends.items()}
    return _found(own, theirs, best, alignment=alignment, objectives=values)


def parts(
    reference: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    architecture: Architecture,
    *,
    alignment: Alignment,
) -> tuple[list[Part], list[Part]]:
    """Both models' tensors in the coordinates in which an alignment compares them.

    Raises:
        UndefinedError: as `search`.
    """
    for whose, weights in (("reference", reference), ("other model", other)):
        for name in architecture.axes:
            if not bool(weights[name].isfinite().all()):
                raise UndefinedError(f"the {whose}'s {name} is not finite")
    for name in architecture.axes:
        if name not in architecture.folds and not bool(reference[name].any()):
            raise UndefinedError(f"the reference's {name} is zero: nothing to normalise by")
    read = balanced if alignment == "full" else stored
    own, theirs = read(reference, architecture), read(other, architecture)
    for part in own:
        if part.square == 0.0:
            raise UndefinedError(f"the reference's {part.name} is zero: nothing to normalise by")
    return own, theirs


def rotations(
    own: Sequence[Part],
    theirs: Sequence[Part],
    *,
    starts: int,
    seed: int,
    hints: Sequence[Array] = (),
) -> dict[str, Array]:
    """Rotations to begin with, by name; all change with the reference's gauge as it does.

    The first is the Procrustes rotation of the tensors whose other axis is labelled, R_io. After
    the hints come random ones: three in four weigh the labelled rows at random, the fourth is
    Q R_io with Q a Haar draw on the other model's side.

    Raises:
        ValueError: no start, or a hint that is not orthogonal.
    """
    if starts < 1:
        raise ValueError(f"expected at least one start, got {starts}")
    labelled = [(a, b) for a, b in zip(own, theirs, strict=True) if a.kind == "labelled"]
    frames = frame(own), frame(theirs)
    width = len(frames[0])

    def weighed(rng: np.random.Generator | None) -> Array:
        cross = np.zeros((width, width))
        for a, b in labelled:
            weight = np.ones(len(a.rows)) if rng is None else rng.exponential(size=len(a.rows))
            # by both norms: no factor of the stream changes what a tensor weighs
            cross += (weight[:, None] * b.rows).T @ a.rows / np.sqrt(a.square * b.square or 1.0)
        return completed(cross, own=frames[0], theirs=frames[1])

    found = {"labelled rows": weighed(None)}
    for number, hint in enumerate(hints):
        if not np.allclose(hint.T @ hint, np.eye(width), atol=1e-8):
            raise ValueError(f"expected orthogonal hints, got one that is not: number {number}")
        found[f"states {number}"] = np.asarray(hint)
    for number in range(starts - len(found)):
        rng = generator(seed, "starts", number)
        if number % 4 == 3:
            turn = fit.haar(width, generator=rng)
            found[f"random {number}"] = turn @ found["labelled rows"]
        else:
            found[f"random {number}"] = weighed(rng)
    return dict(list(found.items())[:starts])


def _found(
    own: Sequence[Part],
    theirs: Sequence[Part],
    best: End,
    *,
    alignment: Alignment,
    objectives: Mapping[str, float],
) -> Found:
    place = best.place
    sizes = {part.name: part.rows.size for part in own}
    squares = {part.name: part.square for part in own}
    errors = {
        a.name: float(((place.moved(b) - a.rows) ** 2).sum())
        for a, b in zip(own, theirs, strict=True)
    }
    nmse = {name: error / squares[name] for name, error in errors.items()}
    objective = sum(nmse.values())
    lower = lower_bounds(own, theirs, alignment=alignment) if alignment != "none" else nmse
    return Found(
        place=place,
        objective=objective,
        start=min(objectives, key=lambda n: objectives[n]) if objectives else "closed form",
        objectives=objectives or {"closed form": objective},
        nmse=nmse,
        mse={name: error / sizes[name] for name, error in errors.items()},
        lower=lower,
        lower_mse={name: low * squares[name] / sizes[name] for name, low in lower.items()},
        rounds=best.rounds,
        converged=best.converged,
    )


def _cross(own: Sequence[Part], theirs: Sequence[Part]) -> Array:
    """sum_k B_k^T A_k / |A_k|^2 over labelled rows, [d, d]."""
    crosses = [b.rows.T @ a.rows / a.square for a, b in zip(own, theirs, strict=True)]
    return np.asarray(np.sum(crosses, axis=0))


def _signed_permutation(cross: Array) -> Array:
    """argmax over signed permutations of tr(R^T cross)."""
    rows, columns = linear_sum_assignment(np.abs(cross), maximize=True)
    found = np.zeros_like(cross)
    found[rows, columns] = np.where(cross[rows, columns] < 0, -1.0, 1.0)
    return found


def frame(parts: Sequence[Part]) -> Array:
    """An orthonormal basis in columns, [d, d], that turns with the model and with nothing else.

    Principal axes of all rows, each tensor's divided by its norm, in descending order; an axis
    points to where the rows that nothing rotates but the stream lean, by sum x |x|.
    """
    rows = [
        (part.kind, part.rows.reshape(-1, part.rows.shape[-1]) / np.sqrt(part.square or 1.0))
        for part in parts
    ]
    gram = np.sum([x.T @ x for _, x in rows], axis=0)
    axes = np.asarray(np.linalg.eigh(gram)[1][:, ::-1])
    seen = np.concatenate([x for kind, x in rows if kind != "heads"]) @ axes
    return axes * np.where((seen * np.abs(seen)).sum(0) < 0, -1.0, 1.0)


def completed(cross: Array, *, own: Array, theirs: Array) -> Array:
    """The Procrustes rotation of `cross`; where it says nothing, the frames are brought together.

    Left to the decomposition, directions of which `cross` says nothing would be completed by the
    basis that the reference is stored in.
    """
    u, values, vt = fit.svd(cross)
    rank = int(np.count_nonzero(values > len(cross) * 1e-12 * values[0])) if values[0] > 0 else 0
    known = u[:, :rank] @ vt[:rank]
    if rank == len(cross):
        return np.asarray(known)
    left, right = u[:, rank:], vt[rank:].T
    rest = fit.nearest_rotation(left.T @ theirs @ own.T @ right)
    return np.asarray(known + left @ rest @ right.T)
