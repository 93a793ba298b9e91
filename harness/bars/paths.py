"""Effects along a straight path of one component's output: integrated gradients and first order.

A component's output moves from x to x' on x(a) = x + a (x' - x), everything behind it reacts, and
f(a) is what the model says. By the chain rule the integrated gradients along the path (Sundararajan
et al. 2017), summed over the component's features, are

    sum_i IG_i = integral_0^1 (x' - x) . grad f(x(a)) da = integral_0^1 f'(a) da = f(1) - f(0),

the last by completeness. The derivative along the path is one number a step for *every* output at
once, so that forward-mode differentiation gives all positions and heads in one pass, where
gradients would take one backward pass for each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

Outputs = Callable[[Tensor], Tensor]
"""A component's output, [b, t, d], to what the model then says, of any shape."""


def integrated(outputs: Outputs, start: Tensor, end: Tensor, *, steps: int) -> Tensor:
    """Integrated gradients from `start` to `end`, summed over features: the shape of the outputs.

    By the midpoint rule, (1 / n) sum_k f'((k + 1/2) / n), whose error falls with n^-2.

    Args:
        outputs: f; differentiable in forward mode.
        start: x, where the path begins.
        end: x', where it ends; same shape.
        steps: n.

    Raises:
        ValueError: fewer than one step.
    """
    if steps < 1:
        raise ValueError(f"expected at least one step, got {steps}")
    total = slope(outputs, start, end, at=0.5 / steps)
    for step in range(1, steps):
        total = total + slope(outputs, start, end, at=(step + 0.5) / steps)
    return total / steps


def slope(outputs: Outputs, start: Tensor, end: Tensor, *, at: float = 0.0) -> Tensor:
    """f'(a) at a = `at` on the path from `start` to `end`; at 0, attribution patching.

    Args:
        outputs: f; differentiable in forward mode.
        start: x.
        end: x', same shape.
        at: a.
    """
    direction = end - start
    # the fused attention kernels have no forward-mode derivative, the plain one has
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), forward_ad.dual_level():
        found = outputs(forward_ad.make_dual(start + at * direction, direction))  # type: ignore[no-untyped-call]
        value, tangent = forward_ad.unpack_dual(found)  # type: ignore[no-untyped-call]
        return torch.zeros_like(value) if tangent is None else tangent.clone()
