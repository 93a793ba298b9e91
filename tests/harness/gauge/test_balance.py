"""The balanced gauge keeps what the function reads, and nothing of the gauge it came from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.gauge.balance import balanced, stored
from harness.gauge.group import act, random_element
from harness.gauge.residual import fold
from harness.streams import generator

QK = ("blocks.0.attn.W_Q", "blocks.0.attn.W_K")
VO = ("blocks.1.attn.W_V", "blocks.1.attn.W_O")
MLP = ("blocks.0.mlp.W_in", "blocks.0.mlp.W_out")


@pytest.fixture
def case(small_subject):
    subject = small_subject()
    return fold(subject.weights(), subject.architecture), subject.architecture


def by_name(weights, architecture):
    return {part.name: part for part in balanced(weights, architecture)}


def test_the_products_stay(case):
    weights, architecture = case
    parts = by_name(weights, architecture)
    q, k = (parts[name].rows for name in QK)  # [heads, inner, d]
    assert np.swapaxes(q, 1, 2) @ k == pytest.approx(
        (weights[QK[0]] @ weights[QK[1]].mT).numpy(), abs=1e-13
    )
    v, o = (parts[name].rows for name in VO)
    assert np.swapaxes(v, 1, 2) @ o == pytest.approx(
        (weights[VO[0]] @ weights[VO[1]]).numpy(), abs=1e-13
    )
    into, out = (parts[name].rows for name in MLP)  # [neurons, d]
    product = np.einsum("nd,ne->nde", into, out)
    expected = torch.einsum("dn,ne->nde", weights[MLP[0]], weights[MLP[1]])
    assert product == pytest.approx(expected.numpy(), abs=1e-13)


def test_both_sides_share_alike(case):
    parts = by_name(*case)
    for first, second in (QK, VO):
        grams = [x @ np.swapaxes(x, 1, 2) for x in (parts[first].rows, parts[second].rows)]
        assert grams[0] == pytest.approx(grams[1], abs=1e-12)
    norms = [np.linalg.norm(parts[name].rows, axis=1) for name in MLP]
    assert norms[0] == pytest.approx(norms[1], rel=1e-12)


@pytest.mark.parametrize("names", [("general-linear",), ("permutation-positive-scale",)])
def test_the_gauge_of_the_inner_axes_is_gone(case, names):
    weights, architecture = case
    element = random_element(
        architecture, generator=generator(0, "test"), generators=names, condition=100.0
    )
    before = by_name(weights, architecture)
    after = by_name(act(element, weights, architecture), architecture)
    for name, part in before.items():
        rows = part.rows
        if part.kind == "neurons" and part.pair in element.neurons:
            rows = rows[list(element.neurons[part.pair])]
        grams = [np.swapaxes(x, -1, -2) @ x for x in (rows, after[name].rows)]
        assert grams[0] == pytest.approx(grams[1], abs=1e-11), name


def test_a_pair_of_low_rank_has_no_noise_in_its_place(case):
    weights, architecture = case
    low = dict(weights)
    low[QK[0]] = low[QK[0]].clone()
    low[QK[0]][..., 2:] = low[QK[0]][..., :2] @ torch.ones(2, 2, dtype=torch.float64)
    parts = by_name(low, architecture)
    for name in QK:
        values = np.linalg.svd(parts[name].rows, compute_uv=False)
        assert (values[:, 2:] < 1e-15).all()
        assert (values[:, :2] > 1e-3).all()


def test_what_is_zero_stays_zero_and_finite(case):
    weights, architecture = case
    dead = dict(weights)
    dead[QK[0]] = torch.zeros_like(dead[QK[0]])
    dead[MLP[0]] = dead[MLP[0]].clone()
    dead[MLP[0]][:, 3] = 0
    parts = by_name(dead, architecture)
    assert all(np.isfinite(part.rows).all() for part in parts.values())
    assert parts[QK[1]].square == 0.0
    assert not parts[MLP[1]].rows[3].any()
    assert parts[MLP[1]].rows[4].any()


def test_small_weights_do_not_underflow(case):
    weights, architecture = case
    tiny = {n: t if n in architecture.folds else t * 1e-100 for n, t in weights.items()}
    for name, part in by_name(tiny, architecture).items():
        expected = by_name(weights, architecture)[name].rows * 1e-100
        assert np.abs(part.rows) == pytest.approx(np.abs(expected), rel=1e-6, abs=1e-110)


def test_every_tensor_appears_once_with_its_power(case):
    weights, architecture = case
    parts = by_name(weights, architecture)
    assert set(parts) == set(architecture.axes) - set(architecture.folds)
    powers = {name: part.power for name, part in parts.items()}
    assert powers["embed"] == powers["position_code"] == 2
    assert {powers[name] for name in (*VO, *MLP)} == {1}
    assert {powers[name] for name in (*QK, "unembed.copy.weight")} == {0}
    assert all(part.power == 0 for part in stored(weights, architecture))


def test_stored_rows_are_residual_vectors(case):
    weights, architecture = case
    rows = {part.name: part.rows for part in stored(weights, architecture)}
    assert rows["blocks.0.attn.W_Q"].shape == (8, 16)
    assert rows["blocks.0.attn.W_Q"][5] == pytest.approx(weights["blocks.0.attn.W_Q"][1, :, 1])
    assert rows["blocks.0.mlp.W_out"] == pytest.approx(weights["blocks.0.mlp.W_out"].numpy())
