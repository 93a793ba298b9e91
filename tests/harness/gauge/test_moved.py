from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.moved import moved
from harness.gauge.search import ALIGNMENTS
from harness.runners.blocks import to_torch
from harness.streams import generator


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_function_stays_in_other_weights(make_subject, alignment, dtype):
    subject = make_subject(dtype=dtype)
    other = moved(subject, alignment, generator=generator(0, "test"))
    block = to_torch(Dyck3(1).sample(SampleRange("fit", 0, 8)))
    a, b = (m.forward(block).logits for m in (subject, other))
    tolerance = (
        {"rtol": 1e-10, "atol": 1e-10} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    )
    for head in a:
        torch.testing.assert_close(a[head], b[head], **tolerance)
    assert {tensor.dtype for tensor in other.weights().values()} == {dtype}
    still = torch.equal(subject.weights()["embed"], other.weights()["embed"])
    assert still is (alignment == "none")


def test_signed_permutations_move_each_coordinate_to_one(make_subject):
    subject = make_subject()
    other = moved(subject, "signed-permutation", generator=generator(0, "test"))
    before, after = (m.weights()["embed"].numpy() for m in (subject, other))
    assert np.sort(np.abs(before), axis=1) == pytest.approx(np.sort(np.abs(after), axis=1))
    assert (np.sign(np.sort(before, axis=1)) != np.sign(np.sort(after, axis=1))).any()
