"""Dictionaries in use: the encode convention, sparsity, round trips, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.sae.dictionary import Dictionary
from prereg.errors import InputError


def states(tokens=200, d=6, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, d, generator=rng, dtype=torch.float64) + 2


def tiny(kind, k):
    """Two features along the axes, by hand; the centre is (1, 0) in scaled units."""
    return Dictionary(
        W_enc=torch.eye(2, dtype=torch.float64),
        b_enc=torch.tensor([0.0, -1.0], dtype=torch.float64),
        W_dec=torch.eye(2, dtype=torch.float64),
        b_dec=torch.tensor([1.0, 0.0], dtype=torch.float64),
        kind=kind,
        k=k,
        scale=2.0,
    )


def test_the_convention_by_hand():
    """x = (2, 3), x' = (4, 6): pre-activations (4 - 1, 6 - 1), so x^ = (3 + 1, 5) / 2."""
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    relu, top = tiny("relu", None), tiny("topk", 1)
    assert relu.encode(x).tolist() == [[3.0, 5.0]]
    assert relu.reconstruct(x).tolist() == [[2.0, 2.5]]
    assert top.encode(x).tolist() == [[0.0, 5.0]]
    assert top.reconstruct(x).tolist() == [[0.5, 2.5]]


@pytest.mark.parametrize("kind", ["topk", "relu"])
def test_reconstruct_is_decode_of_encode_on_any_leading_shape(random_dictionary, kind):
    dictionary, x = random_dictionary(kind=kind), states()
    x_hat = dictionary.reconstruct(x)
    torch.testing.assert_close(x_hat, dictionary.decode(dictionary.encode(x)))
    blocks = x.view(10, 20, 6)
    torch.testing.assert_close(dictionary.reconstruct(blocks), x_hat.view(10, 20, 6))
    assert dictionary.encode(blocks).shape == (10, 20, 20)


def test_topk_codes_are_the_k_largest_positive_relu_codes(random_dictionary):
    top = random_dictionary(k=4)
    everything = replace(top, kind="relu", k=None).encode(states())
    least = everything.topk(4, 1).values[:, -1:]
    torch.testing.assert_close(top.encode(states()), everything * (everything >= least))


@pytest.mark.parametrize("k", [1, 3, 20])
def test_l0_of_a_topk_never_exceeds_k_even_where_all_are_tied(random_dictionary, k):
    tied = replace(
        random_dictionary(k=k), W_enc=torch.zeros(6, 20).double(), b_enc=torch.ones(20).double()
    )
    assert ((tied.encode(states()) > 0).sum(1) == k).all()
    assert tied.l0(states()) == k
    assert random_dictionary(k=k).l0(states()) <= k


def test_l0_and_live_fraction_by_hand():
    x = torch.tensor([[2.0, 3.0], [2.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    assert tiny("relu", None).l0(x) == 1.0  # 2, 1 and 0 active features
    assert tiny("relu", None).live_fraction(x) == 1.0
    assert tiny("relu", None).live_fraction(x[1:]) == 0.5


def test_ev_is_one_for_a_complete_dictionary_and_zero_for_the_mean(random_dictionary):
    x = states()
    eye = torch.eye(6, dtype=torch.float64)
    complete = Dictionary(
        W_enc=torch.cat([eye, -eye], 1),
        b_enc=torch.zeros(12).double(),
        W_dec=torch.cat([eye, -eye]),
        b_dec=torch.zeros(6).double(),
        kind="relu",
    )
    assert complete.explained_variance(x) == pytest.approx(1)
    silent = replace(complete, W_enc=0 * complete.W_enc, b_dec=x.mean(0))
    assert silent.explained_variance(x) == pytest.approx(0)
    assert random_dictionary().explained_variance(x) < 0.5


def test_to_changes_the_dtype_and_nothing_else(random_dictionary):
    single = random_dictionary().to(torch.zeros(1))
    x = states()
    assert single.reconstruct(x.float()).dtype == torch.float32
    torch.testing.assert_close(
        single.reconstruct(x.float()).double(),
        random_dictionary().reconstruct(x),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "jumprelu"}, "dictionary.kind"),
        ({"kind": "relu"}, "dictionary.k"),  # published TopK dictionaries were once loaded as ReLU
        ({"k": None}, "dictionary.k"),
        ({"k": 0}, "dictionary.k"),
        ({"k": 21}, "dictionary.k"),
        ({"W_dec": torch.zeros(6, 20)}, "dictionary.shapes"),
        ({"W_dec": torch.zeros(20)}, "dictionary.shapes"),
        ({"b_dec": torch.zeros(20)}, "dictionary.shapes"),
        ({"b_enc": torch.full((20,), float("nan"))}, "dictionary.not-finite"),
        ({"scale": 0.0}, "dictionary.not-finite"),
        ({"scale": float("inf")}, "dictionary.not-finite"),
    ],
)
def test_what_does_not_fit_is_refused(random_dictionary, change, code):
    with pytest.raises(InputError) as caught:
        replace(random_dictionary(), **change)
    assert caught.value.code == code
