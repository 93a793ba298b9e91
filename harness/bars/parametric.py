"""Bar P: the error of the weights once symmetry has been taken out.

    inf over g of max over tensors k of |g(B)_k - A_k|^2 / |A_k|^2

for the reference A and the other model B, norms folded, g over the registered group. The search
minimises the sum over tensors; its largest term is the upper bound, the largest of what no g can
undercut the lower one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from harness.gauge.fit import Array
from harness.gauge.residual import fold
from harness.gauge.search import Alignment, Found, search
from harness.subjects.subject import Subject

__all__ = ["Alignment", "Found", "bracket", "folded", "weight_error"]


def weight_error(
    reference: Subject,
    other: Subject,
    *,
    alignment: Alignment,
    starts: int = 8,
    seed: int = 0,
    hints: Sequence[Array] = (),
) -> Found:
    """The other model's weights brought onto the reference's, in fp64.

    Args:
        reference: the spec.
        other: of the same shape.
        alignment: group that is searched.
        starts: of the search over the whole group.
        seed: of its random starts.
        hints: rotations, other to reference, from which it starts as well.

    Raises:
        UndefinedError: a tensor of the reference is zero.
    """
    return search(
        folded(reference),
        folded(other),
        reference.architecture,
        alignment=alignment,
        starts=starts,
        seed=seed,
        hints=hints,
    )


def folded(subject: Subject) -> dict[str, Tensor]:
    """The weights in fp64, every norm gain folded into the readers behind it."""
    weights = {name: tensor.cpu().double() for name, tensor in subject.weights().items()}
    return fold(weights, subject.architecture)


def bracket(errors: Mapping[str, float], lower: Mapping[str, float]) -> tuple[float, float]:
    """Lower and upper bound of the least largest error of a tensor."""
    high = max(errors.values())
    return min(max(lower.values()), high), high  # rounding alone would put the lower above
