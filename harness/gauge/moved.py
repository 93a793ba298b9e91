"""A model moved by a random element of its gauge group: the same function in other weights."""

from __future__ import annotations

import numpy as np

from harness.gauge.fit import Array
from harness.gauge.group import GENERATORS, Element, act, random_element
from harness.gauge.residual import fold
from harness.gauge.search import Alignment
from harness.subjects.architecture import RESIDUAL
from harness.subjects.subject import Subject


def moved(subject: Subject, alignment: Alignment, *, generator: np.random.Generator) -> Subject:
    """The model, norms folded, moved by a random element of the group that an alignment searches.

    Computed in fp64 and rounded to the model's own dtype. Of `full` the scale of the stream is left
    out, which the norms take out only up to their eps; of `none` nothing is left.

    Args:
        subject: the model.
        alignment: the group.
        generator: source of randomness.
    """
    if alignment == "none":
        return subject
    architecture = subject.architecture
    stored = subject.weights()
    dtype = next(iter(stored.values())).dtype
    folded = fold({name: tensor.cpu().double() for name, tensor in stored.items()}, architecture)
    match alignment:
        case "rotation":
            element = random_element(architecture, generator=generator, generators=("residual",))
        case "signed-permutation":
            element = Element(residual=_signed(architecture.size(RESIDUAL), generator))
        case "full":
            exact = [name for name in GENERATORS if name != "scale"]
            element = random_element(architecture, generator=generator, generators=exact)
    weights = act(element, folded, architecture)
    return subject.with_weights({name: tensor.to(dtype) for name, tensor in weights.items()})


def _signed(width: int, generator: np.random.Generator) -> Array:
    order, signs = generator.permutation(width), generator.choice([-1.0, 1.0], width)
    return np.asarray(np.eye(width)[order] * signs)
