"""Fixtures with models; torch is imported only by the tests that use them."""

from __future__ import annotations

from typing import Any

import pytest


def random_weights(seed: int, *, std: float = 0.2, dtype: Any = None) -> dict[str, Any]:
    """Weights with generic gains: large enough for every path through the model to matter."""
    import torch

    from harness.subjects.dyck import DyckTransformer, initialise
    from harness.subjects.dyck_config import DyckConfig

    generator = torch.Generator().manual_seed(seed)
    model = DyckTransformer(DyckConfig())
    initialise(model, generator=generator, std=std)
    weights = {}
    for name, tensor in model.state_dict().items():
        if name.endswith("gain"):
            tensor = 0.5 + torch.rand(tensor.shape, generator=generator)
        weights[name] = tensor.to(dtype or torch.float32)
    return weights


@pytest.fixture(scope="session")
def one_thread():
    """The thread count that the command line runs with."""
    from harness.runners.trainer import set_threads

    return set_threads()


@pytest.fixture
def make_subject(one_thread):
    """A random subject with generic gains, fp64 unless asked otherwise."""
    import torch

    from harness.subjects.dyck_config import DyckConfig
    from harness.subjects.subject import DyckSubject

    def make(seed: int = 0, *, dtype: Any = torch.float64) -> DyckSubject:
        return DyckSubject(DyckConfig(), random_weights(seed, dtype=dtype))

    return make


@pytest.fixture
def save_random(tmp_path):
    """Saves a random model and returns its `path:` reference."""

    def write(seed: int, name: str | None = None, *, std: float = 0.2) -> str:
        from harness.subjects.dyck_config import DyckConfig
        from harness.subjects.loading import save_subject

        folder = tmp_path / (name or f"model-{seed}")
        save_subject(DyckConfig(), random_weights(seed, std=std), folder)
        return f"path:{folder}"

    return write


@pytest.fixture(scope="session")
def zoo_pair(one_thread):
    """The shipped pair, loaded."""
    from harness.subjects.loading import load
    from harness.subjects.reference import locate

    return tuple(load(locate(f"zoo:dyck3/indep-{seed}")) for seed in (100, 101))
