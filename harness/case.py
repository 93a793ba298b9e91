"""A case: everything that a statistic may read. A control is a case with one field replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from harness.corpora.block import SampleRange

if TYPE_CHECKING:
    from torch import Tensor

    from harness.subjects.subject import Subject


@dataclass(frozen=True)
class Samples:
    """The samples that maps are fitted on and those that statistics are evaluated on."""

    fit: SampleRange
    evaluate: SampleRange


@dataclass(frozen=True)
class Pairing:
    """Which token of the other model stands beside which token of the reference.

    `same` pairs a token with itself; `shuffled` permutes the other model's tokens inside every
    block, by the stream `seed`.
    """

    kind: Literal["same", "shuffled"] = "same"
    seed: int = 0


@dataclass(frozen=True)
class MapChoice:
    """How the other model's states are carried into the reference's frame.

    `seed` is the stream of the random rules (signs of `covariance-only`).
    """

    rule: Literal["procrustes", "identity", "covariance-only"] = "procrustes"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Activations:
    """Where the other model's states come from: its forward pass, plus an offset at each site.

    Compared by identity, because it holds tensors.
    """

    offset: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Everything that a statistic may read; nothing in it says which control it is."""

    reference: Subject
    other: Subject
    samples: Samples
    pairing: Pairing = Pairing()
    map: MapChoice = MapChoice()
    activations: Activations = Activations()
