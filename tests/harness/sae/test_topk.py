"""The sparse TopK passes against autograd of the dense formulation, ties and all."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sae import topk

NAMES = ("encoder", "b_enc", "W_dec", "b_dec")


@st.composite
def problems(draw):
    """States and weights; whole numbers make ties and exact zeros, and some rows are zero."""
    n, d, width = (draw(st.integers(1, most)) for most in (7, 6, 40))
    k = draw(st.sampled_from(sorted({1, width, draw(st.integers(1, width))})))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    whole = draw(st.booleans())

    def tensor(*shape):
        values = torch.randn(*shape, generator=rng, dtype=torch.float64)
        return values.round() if whole else values

    weights = {
        "encoder": tensor(width, d),
        "b_enc": tensor(width),
        "W_dec": tensor(width, d),
        "b_dec": tensor(d),
    }
    x = tensor(n, d)
    if draw(st.booleans()):
        x[0] = 0
        weights["encoder"][0] = 0
        weights["W_dec"][-1] = 0
    return x, weights, k, tensor(n, d)


def dense(x, indices, *, encoder, b_enc, W_dec, b_dec):
    pre = (x - b_dec) @ encoder.T + b_enc
    selected = torch.zeros_like(pre).scatter_(1, indices, 1.0)
    return (torch.relu(pre) * selected) @ W_dec + b_dec


def tracked(weights):
    return {name: weight.clone().requires_grad_() for name, weight in weights.items()}


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_values_and_gradients_equal_those_of_the_dense_formulation(problem):
    x, weights, k, toward = problem
    sparse, plain = tracked(weights), tracked(weights)
    x_hat, active = topk.reconstruct(x, **sparse, k=k)
    expected = dense(x, active.indices, **plain)
    torch.testing.assert_close(x_hat, expected, rtol=1e-13, atol=1e-12)
    (x_hat - toward).square().sum().backward()
    (expected - toward).square().sum().backward()
    for name in NAMES:
        size = float(plain[name].grad.abs().max())
        torch.testing.assert_close(
            sparse[name].grad, plain[name].grad, rtol=1e-12, atol=1e-13 * (1 + size), msg=name
        )


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_selected_are_k_features_with_the_largest_normed_pre_activations(problem):
    x, weights, k, _ = problem
    _, active = topk.reconstruct(x, **weights, k=k)
    pre = (x - weights["b_dec"]) @ weights["encoder"].T + weights["b_enc"]
    scores = pre * weights["W_dec"].norm(dim=1)
    assert all(len(set(row)) == k for row in active.indices.tolist())
    torch.testing.assert_close(
        scores.gather(1, active.indices).sort(1).values, scores.topk(k, 1).values.flip(1)
    )
    torch.testing.assert_close(active.codes, pre.gather(1, active.indices).relu())


@settings(max_examples=30, deadline=None)
@given(
    k=st.sampled_from((16, 17, 24)),
    groups=st.integers(96, 130),
    whole=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_selection_in_two_stages_finds_the_largest(k, groups, whole, seed):
    scores = torch.randn(9, 8 * groups, generator=torch.Generator().manual_seed(seed))
    scores = (2 * scores).round() if whole else scores
    indices = topk.select(scores, k)
    assert all(len(set(row)) == k for row in indices.tolist())
    found = scores.gather(1, indices).sort(1, descending=True).values
    assert torch.equal(found, scores.topk(k, 1).values)


def test_gradients_pass_gradcheck():
    rng = torch.Generator().manual_seed(3)
    x, *weights = (
        torch.randn(*shape, generator=rng, dtype=torch.float64)
        for shape in ((5, 4), (7, 4), (7,), (7, 4), (4,))
    )

    def x_hat(*values):
        return topk.reconstruct(x, **dict(zip(NAMES, values, strict=True)), k=3)[0]

    assert torch.autograd.gradcheck(x_hat, tuple(weight.requires_grad_() for weight in weights))


def test_a_wide_dictionary_is_encoded_in_chunks_like_a_narrow_one(monkeypatch):
    rng = torch.Generator().manual_seed(4)
    centred = torch.randn(50, 8, generator=rng, dtype=torch.float64)
    encoder = torch.randn(32, 8, generator=rng, dtype=torch.float64)
    bias = torch.randn(32, generator=rng, dtype=torch.float64)
    whole = topk.activate(centred, encoder, bias, row_norms=None, k=5)
    monkeypatch.setattr(topk, "_CHUNK_ELEMENTS", 32 * 7)
    parts = topk.activate(centred, encoder, bias, row_norms=None, k=5)
    torch.testing.assert_close(parts.codes.sort(1).values, whole.codes.sort(1).values)
    assert torch.equal(parts.indices.sort(1).values, whole.indices.sort(1).values)


def test_rows_that_no_token_uses_get_no_gradient():
    eye = torch.eye(4, dtype=torch.float64)
    weights = tracked({"encoder": 2 * eye, "b_enc": eye[3] * 0, "W_dec": eye, "b_dec": eye[3] * 0})
    x = torch.tensor([[3.0, 1.0, 0.0, -1.0], [2.0, 1.5, 0.0, -2.0]], dtype=torch.float64)
    x_hat, _ = topk.reconstruct(x, **weights, k=1)
    (x_hat - x).square().sum().backward()
    for name in ("encoder", "W_dec"):
        assert (weights[name].grad.abs().sum(1) > 0).tolist() == [True, False, False, False]


@pytest.mark.parametrize(("k", "width"), [(1, 4), (4, 4), (16, 512)])
def test_no_tokens_are_no_error(k, width):
    encoder = torch.zeros(width, 4)
    active = topk.activate(
        torch.zeros(0, 4), encoder, torch.zeros(width), row_norms=torch.ones(width), k=k
    )
    assert active.codes.shape == active.indices.shape == (0, k)
    assert topk.weighted_rows(active, encoder).shape == (0, 4)
