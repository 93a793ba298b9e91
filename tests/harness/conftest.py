from __future__ import annotations

import pytest
import torch

from harness.runners.trainer import set_threads
from harness.subjects.dyck import DyckTransformer, initialise
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.loading import load, save_subject
from harness.subjects.reference import locate
from harness.subjects.subject import DyckSubject

set_threads()


def random_weights(seed: int, *, std: float = 0.2, dtype: torch.dtype = torch.float32):
    """Weights with generic gains: large enough for every path through the model to matter."""
    generator = torch.Generator().manual_seed(seed)
    model = DyckTransformer(DyckConfig())
    initialise(model, generator=generator, std=std)
    weights = {}
    for name, tensor in model.state_dict().items():
        if name.endswith("gain"):
            tensor = 0.5 + torch.rand(tensor.shape, generator=generator)
        weights[name] = tensor.to(dtype)
    return weights


@pytest.fixture
def make_subject():
    """A random subject with generic gains."""

    def make(seed: int = 0, *, dtype: torch.dtype = torch.float64) -> DyckSubject:
        return DyckSubject(DyckConfig(), random_weights(seed, dtype=dtype))

    return make


@pytest.fixture
def save_random(tmp_path):
    """Saves a random model and returns its `path:` reference."""

    def write(seed: int, name: str | None = None, *, std: float = 0.2) -> str:
        folder = tmp_path / (name or f"model-{seed}")
        save_subject(DyckConfig(), random_weights(seed, std=std), folder)
        return f"path:{folder}"

    return write


@pytest.fixture(scope="session")
def zoo_pair():
    """The shipped pair, loaded."""
    return tuple(load(locate(f"zoo:dyck3/indep-{seed}")) for seed in (100, 101))
