"""Weights to move: a small model for many draws, and the shipped ones."""

from __future__ import annotations

import pytest

SMALL = {"d_model": 16, "n_heads": 2, "d_head": 4, "d_mlp": 12, "vocabulary": 40}


@pytest.fixture(scope="session")
def small_subject():
    """A random subject with generic gains, 16 wide, fp64; other fields of its shape on request."""
    import torch

    from harness.subjects.dyck import DyckTransformer, initialise
    from harness.subjects.dyck_config import DyckConfig
    from harness.subjects.subject import DyckSubject

    def make(seed: int = 0, *, std: float = 0.2, **changes):
        config = DyckConfig(**{**SMALL, **changes})
        generator = torch.Generator().manual_seed(seed)
        model = DyckTransformer(config)
        initialise(model, generator=generator, std=std)
        weights = {name: tensor.double() for name, tensor in model.state_dict().items()}
        for name, tensor in weights.items():
            if name.endswith("gain"):
                weights[name] = 0.5 + torch.rand(tensor.shape, generator=generator).double()
        return DyckSubject(config, weights)

    return make


@pytest.fixture(scope="session")
def zoo_weights(one_thread):
    """Folded fp64 weights of a shipped model, by name."""
    from functools import cache

    from harness.bars.parametric import folded
    from harness.subjects.loading import load
    from harness.subjects.reference import locate

    return cache(lambda name: folded(load(locate(f"zoo:dyck3/{name}"))))


@pytest.fixture(scope="session")
def dyck(zoo_pair):
    """The architecture of the shipped models."""
    return zoo_pair[0].architecture
