"""Safetensors files without torch: header, digest of the weights, refusal of bad content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prereg.errors import InputError

_HEADER_LIMIT = 100_000_000  # bytes; the format's own limit
_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_EXPONENT = {"F64": (52, 11), "F32": (23, 8), "F16": (10, 5), "BF16": (7, 8)}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as stored: `dtype` in the format's spelling, raw little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of a safetensors file, by name.

    Raises:
        InputError: the file is missing, truncated, malformed, overlapping, holds another kind of
            number than floats, or holds NaN or infinities.
    """
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise InputError(
            f"no file {path}",
            expected="weights in safetensors format",
            fix="save the model with save_file or save_pretrained (pickled weights are not read)",
            code="subject.no-weights",
        ) from error
    if len(raw) < 8:
        raise _malformed(path, f"{len(raw)} bytes", "an 8-byte header length")
    length = int.from_bytes(raw[:8], "little")
    if length > min(_HEADER_LIMIT, len(raw) - 8):
        raise _malformed(
            path, f"a header of {length} bytes in a file of {len(raw)}", "a whole header"
        )
    try:
        header = json.loads(raw[8 : 8 + length])
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _malformed(path, "a header that is not JSON", "a JSON header") from error
    if not isinstance(header, dict):
        raise _malformed(path, "a header that is not an object", "tensor names and offsets")
    body = memoryview(raw)[8 + length :]
    tensors = {
        name: _tensor(path, name, entry, body)
        for name, entry in header.items()
        if name != "__metadata__"
    }
    stored = sum(len(tensor.data) for tensor in tensors.values())
    if stored != len(body):
        raise _malformed(
            path,
            f"{len(body)} bytes of data for tensors of {stored} bytes in all",
            "data that the header accounts for exactly (the file may be truncated)",
        )
    for name, tensor in tensors.items():
        _check_finite(path, name, tensor)
    return tensors


def weight_digest(tensors: Mapping[str, StoredTensor]) -> str:
    """sha256 over (name, dtype, shape, bytes) of every tensor, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        shape = ",".join(str(size) for size in tensor.shape)
        digest.update(f"{name}\0{tensor.dtype}\0{shape}\0".encode())
        digest.update(tensor.data)
    return digest.hexdigest()


def _tensor(path: Path, name: str, entry: Any, body: memoryview) -> StoredTensor:
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        start, stop = entry["data_offsets"]
        well_typed = (
            isinstance(dtype, str)
            and all(type(size) is int and size >= 0 for size in shape)
            and type(start) is int
            and type(stop) is int
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(path, f"the entry of {name!r}", "dtype, shape, data_offsets") from error
    if not well_typed or dtype not in _ITEM_BYTES:
        raise _malformed(
            path, f"{name!r} of dtype {dtype!r}, shape {shape}", "floats: F64 ... BF16"
        )
    if not 0 <= start <= stop <= len(body) or stop - start != prod(shape) * _ITEM_BYTES[dtype]:
        raise _malformed(
            path,
            f"{name!r} of shape {shape} at bytes {start}..{stop} of {len(body)}",
            f"{prod(shape) * _ITEM_BYTES[dtype]} bytes inside the file",
        )
    return StoredTensor(dtype, shape, body[start:stop])


def _check_finite(path: Path, name: str, tensor: StoredTensor) -> None:
    """Refuses NaN and infinities: floats whose exponent bits are all ones."""
    mantissa, exponent = _EXPONENT[tensor.dtype]
    word = np.dtype(f"<u{_ITEM_BYTES[tensor.dtype]}")
    bits: NDArray[Any] = np.frombuffer(tensor.data, word)
    ones = word.type(((1 << exponent) - 1) << mantissa)
    bad = int(np.count_nonzero((bits & ones) == ones))
    if bad:
        raise InputError(
            f"{bad} NaN or infinite entries in {name!r} of {path}",
            expected="finite weights",
            fix="use a checkpoint whose training has not diverged",
            code="subject.weights-not-finite",
        )


def _malformed(path: Path, found: str, expected: str) -> InputError:
    return InputError(
        f"{found} in {path}",
        expected=expected,
        fix="save the weights again, or fetch the file again",
        code="subject.weights-malformed",
    )
