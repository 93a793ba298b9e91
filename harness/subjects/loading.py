"""From a located model to a subject in memory, and back to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from harness.subjects.dyck_config import DyckConfig
from harness.subjects.reference import CONFIG, WEIGHTS, Located
from harness.subjects.subject import DyckSubject
from prereg.canonical import canonical
from prereg.files import write_atomic

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


def load(model: Located) -> DyckSubject:
    """The located model as a subject, in the dtype in which it is stored."""
    weights = {
        name: torch.frombuffer(bytearray(stored.data), dtype=_DTYPES[stored.dtype]).reshape(
            stored.shape
        )
        for name, stored in model.tensors.items()
    }
    return DyckSubject(model.config, weights)


def save_subject(config: DyckConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Writes config.json and model.safetensors; each file is whole or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in sorted(weights.items())}
    write_atomic(folder / WEIGHTS, save(tensors))
    write_atomic(folder / CONFIG, canonical(config.model_dump()) + b"\n")
