"""Integrated gradients along a path: exact cases, completeness, and PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from captum.attr import IntegratedGradients
from torch import nn

from harness.bars.paths import integrated, slope


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)
    )


@pytest.fixture
def ends():
    torch.manual_seed(1)
    return torch.randn(5, 6), torch.randn(5, 6)


def test_a_quadratic_is_integrated_exactly_by_one_midpoint_step(ends):
    start, end = (x.double() for x in ends)
    found = integrated(lambda x: x.square().sum(-1), start, end, steps=1)
    torch.testing.assert_close(found, end.square().sum(-1) - start.square().sum(-1))


def test_a_cubic_is_not_and_its_error_falls_with_the_square_of_the_steps():
    start, end = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    errors = [float(1.0 - integrated(lambda x: x**3, start, end, steps=n)) for n in (4, 8, 16)]
    # the midpoint rule misses the integral of 3 a^2 by 1 / (4 n^2)
    assert errors == pytest.approx([1 / 64, 1 / 256, 1 / 1024], rel=1e-9)


def test_the_integrals_are_those_of_captum(net, ends):
    start, end = ends
    found = integrated(net, start, end, steps=32).detach()
    for target in range(3):
        by_feature = IntegratedGradients(net).attribute(
            end, baselines=start, target=target, n_steps=32, method="riemann_middle"
        )
        torch.testing.assert_close(found[:, target], by_feature.sum(-1).float(), atol=1e-5, rtol=0)


def test_the_integrals_add_up_to_the_effect(net, ends):
    start, end = ends
    effect = (net(end) - net(start)).detach()
    assert float((integrated(net, start, end, steps=256) - effect).abs().max()) < 0.01
    first = slope(net, start, end)
    assert float((first - effect).abs().max()) > 0.1  # first order does not


def test_the_slope_is_the_gradient_along_the_path(net, ends):
    start, end = ends
    point = (start + 0.3 * (end - start)).requires_grad_(True)
    gradient = torch.autograd.grad(net(point)[:, 1].sum(), point)[0]
    found = slope(net, start, end, at=0.3)[:, 1]
    torch.testing.assert_close(found, (gradient * (end - start)).sum(-1))


def test_an_output_that_does_not_depend_on_the_state_has_no_effect(ends):
    start, end = ends
    assert not integrated(lambda x: torch.ones(3), start, end, steps=4).any()


def test_no_steps_are_refused(net, ends):
    with pytest.raises(ValueError, match="at least one step, got 0"):
        integrated(net, *ends, steps=0)


def test_attention_has_a_derivative_along_the_path():
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 2, 7, 4, dtype=torch.float64) for _ in range(3))

    def attend(x):
        return nn.functional.scaled_dot_product_attention(x, k, v, is_causal=True)

    effect = attend(2 * q) - attend(q)
    torch.testing.assert_close(integrated(attend, q, 2 * q, steps=200), effect, atol=1e-4, rtol=0)
