from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save

from harness.subjects.weights_file import read_tensors, weight_digest
from prereg.errors import InputError


@pytest.fixture
def weights():
    rng = np.random.default_rng(0)
    return {
        "b": rng.standard_normal((3, 4)).astype(np.float32),
        "a": rng.standard_normal(5),
        "c": rng.standard_normal((2, 2)).astype(np.float16),
    }


def written(folder, data: bytes):
    path = folder / "model.safetensors"
    path.write_bytes(data)
    return path


def test_tensors_are_read_as_stored(tmp_path, weights):
    found = read_tensors(written(tmp_path, save(weights)))
    assert set(found) == set(weights)
    for name, tensor in found.items():
        assert tensor.shape == weights[name].shape
        assert bytes(tensor.data) == weights[name].tobytes()


def test_the_digest_reads_names_dtypes_shapes_and_bytes_and_nothing_else(tmp_path, weights):
    def digest(tensors, metadata=None):
        return weight_digest(read_tensors(written(tmp_path, save(tensors, metadata=metadata))))

    base = digest(weights)
    assert digest(dict(reversed(weights.items()))) == base
    assert digest(weights, {"format": "pt"}) == base
    flipped = {**weights, "b": weights["b"].copy()}
    flipped["b"][0, 0] = np.nextafter(flipped["b"][0, 0], np.float32(9))
    others = [
        flipped,
        {**weights, "b": weights["b"].reshape(4, 3)},
        {**weights, "b": weights["b"].view(np.float16).reshape(3, 8)},
        {("d" if k == "b" else k): v for k, v in weights.items()},
    ]
    assert len({base, *map(digest, others)}) == 5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_nan_and_infinity_are_refused_by_name(tmp_path, bad, dtype):
    tensor = np.ones(4, dtype)
    tensor[2] = bad
    path = written(tmp_path, save({"w": tensor}))
    with pytest.raises(InputError, match="1 NaN or infinite entries in 'w'"):
        read_tensors(path)


def test_subnormal_and_largest_floats_are_fine(tmp_path):
    edge = np.array([np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal, -0.0])
    read_tensors(written(tmp_path, save({"w": edge.astype(np.float32)})))


def test_every_truncation_is_refused(tmp_path, weights):
    data = save(weights)
    for length in (0, 7, 8, 50, len(data) - 1):
        with pytest.raises(InputError):
            read_tensors(written(tmp_path, data[:length]))


def test_trailing_bytes_are_refused(tmp_path, weights):
    with pytest.raises(InputError, match="accounts for exactly"):
        read_tensors(written(tmp_path, save(weights) + b"x"))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},  # one shape, another size
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},  # beyond the file
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "I64", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        "nonsense",
    ],
)
def test_entries_that_do_not_fit_are_refused(tmp_path, entry):
    header = json.dumps({"w": entry}).encode()
    data = len(header).to_bytes(8, "little") + header + b"\0\0\0\0"
    with pytest.raises(InputError):
        read_tensors(written(tmp_path, data))


@pytest.mark.parametrize("header", [b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_malformed_headers_are_refused(tmp_path, header):
    with pytest.raises(InputError):
        read_tensors(written(tmp_path, len(header).to_bytes(8, "little") + header))


def test_a_missing_file_names_the_format(tmp_path):
    with pytest.raises(InputError, match="safetensors"):
        read_tensors(tmp_path / "model.safetensors")
