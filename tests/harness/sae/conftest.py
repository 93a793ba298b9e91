"""Dictionaries and states to try them on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.sae.dictionary import Dictionary
from harness.sae.recipe import DictionaryOptimiser, DictionaryRecipe, Feed
from harness.streams import generator


@pytest.fixture
def random_dictionary():
    """A dictionary of random weights with unit decoder rows, fp64."""

    def make(*, d=6, width=20, kind="topk", k=4, scale=0.7, seed=0):
        rng = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=rng, dtype=torch.float64)

        rows = normal(width, d)
        return Dictionary(
            W_enc=normal(d, width),
            b_enc=0.1 * normal(width),
            W_dec=rows / rows.norm(dim=1, keepdim=True),
            b_dec=normal(d),
            kind=kind,
            k=k if kind == "topk" else None,
            scale=scale,
        )

    return make


class Planted:
    """States that are sums of a few known unit features, plus a mean; every call gives the same."""

    def __init__(self, *, d=32, features=48, active=3, tokens=16_384, seed=0):
        rng = generator(seed, "planted")
        rows = rng.standard_normal((features, d))
        self.features = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        codes = np.zeros((tokens, features))
        for row in codes:
            row[rng.choice(features, active, replace=False)] = rng.uniform(0.5, 1.5, active)
        self.states = torch.from_numpy(codes @ self.features + 0.3 * rng.standard_normal(d))

    def __call__(self):
        for part in torch.split(self.states, 1000):
            yield {"site": part.float()}


@pytest.fixture(scope="session")
def planted():
    return Planted()


@pytest.fixture
def topk_recipe():
    def make(*, steps=30, k=3, width=64, batch_tokens=256, buffer_tokens=8192, lr=3e-3, **more):
        return DictionaryRecipe(
            kind="topk",
            k=k,
            width=width,
            steps=steps,
            optimiser=DictionaryOptimiser(lr=lr),
            feed=Feed(batch_tokens=batch_tokens, buffer_tokens=buffer_tokens),
            **more,
        )

    return make
