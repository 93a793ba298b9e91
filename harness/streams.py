"""Named random streams: every generator descends from one registered seed by a path of labels."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *labels: str | int) -> np.random.SeedSequence:
    """The seed sequence of the stream `labels` under `seed`.

    Streams with different labels are independent; equal labels give equal numbers on every machine.
    No global generator is read anywhere in prebench.
    """
    path = "/".join(str(label) for label in labels)
    words = np.frombuffer(hashlib.sha256(path.encode()).digest(), "<u4")
    return np.random.SeedSequence([seed, *(int(word) for word in words)])


def generator(seed: int, *labels: str | int) -> np.random.Generator:
    """A NumPy generator on the stream `labels` under `seed`."""
    return np.random.default_rng(stream(seed, *labels))


def torch_seed(seed: int, *labels: str | int) -> int:
    """A 63-bit seed for `torch.Generator.manual_seed` on the stream `labels` under `seed`."""
    return int(stream(seed, *labels).generate_state(1, np.uint64)[0] >> np.uint64(1))


def stream_seed(seed: int, *labels: str | int) -> int:
    """A 53-bit root seed for the streams below `labels`: small enough for every JSON reader."""
    return torch_seed(seed, *labels) >> 10
