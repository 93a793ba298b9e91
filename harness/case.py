"""A case: everything that a statistic may read. A control is a case with one field replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from harness.corpora.block import SampleRange

if TYPE_CHECKING:
    from torch import Tensor

    from harness.gauge.fit import Array
    from harness.sae.dictionaries import Dictionaries
    from harness.subjects.subject import Subject


@dataclass(frozen=True)
class Samples:
    """The samples that maps are fitted on and those that statistics are evaluated on.

    On `counterfactual` components are patched (bar C), on `ablation` they are ablated (bar Pr);
    none where the registration has no such split.
    """

    fit: SampleRange
    evaluate: SampleRange
    counterfactual: SampleRange | None = None
    ablation: SampleRange | None = None


@dataclass(frozen=True)
class Pairing:
    """Which token of the other model stands beside which token of the reference.

    `same` pairs a token with itself. `shuffled` permutes the other model's tokens inside every
    block, `tokpos-shuffled` inside every batch among equal tokens at equal positions, so that none
    of several keeps its own state. Both by the stream `seed`.
    """

    kind: Literal["same", "shuffled", "tokpos-shuffled"] = "same"
    seed: int = 0


@dataclass(frozen=True)
class MapChoice:
    """How the other model's states are carried into the reference's frame.

    `seed` is the stream of the random rules (signs of `covariance-only`, the draw of `haar`).
    """

    rule: Literal["procrustes", "identity", "covariance-only", "haar"] = "procrustes"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Gaussian:
    """States that share nothing with a model's but their mean and covariance at each site.

    A state is mean + z factor, z ~ N(0, 1) in each coordinate by the stream `seed`, so that
    factor^T factor is the covariance. Measuring fits `mean` [d] and `factor` [d, d], by site, to
    the other model's states at the fit samples.
    """

    seed: int
    mean: Mapping[str, Array] = field(default_factory=dict)
    factor: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Activations:
    """Where the other model's states come from: its forward pass, plus an offset at each site.

    Or, where `gaussian` is given, from there instead. Compared by identity, because it holds
    tensors.
    """

    offset: Mapping[str, Tensor] = field(default_factory=dict)
    gaussian: Gaussian | None = None


@dataclass(frozen=True)
class DictionaryChoice:
    """Which dictionaries of the reference's states are read.

    `trained` takes them as trained; `pca` puts in the place of each the reference's first principal
    components at the fit samples, as many as the dictionary has active features a token.
    """

    source: Dictionaries | None = None
    rule: Literal["trained", "pca"] = "trained"


@dataclass(frozen=True)
class ComponentChoice:
    """Which component of the other model stands for which of the reference's.

    `aligned`: the one that the registered alignment of the weights finds. `shuffled`: any, by a
    permutation of all labels from the stream `seed`.
    """

    rule: Literal["aligned", "shuffled"] = "aligned"
    seed: int = 0


@dataclass(frozen=True)
class Case:
    """Everything that a statistic may read; nothing in it says which control it is."""

    reference: Subject
    other: Subject
    samples: Samples
    pairing: Pairing = Pairing()
    map: MapChoice = MapChoice()
    activations: Activations = Activations()
    dictionary: DictionaryChoice = DictionaryChoice()
    components: ComponentChoice = ComponentChoice()
