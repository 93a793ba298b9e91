"""Bar P of whole models: norms are folded first, in fp64."""

from __future__ import annotations

import pytest
import torch

from harness.bars.parametric import bracket, folded, weight_error
from harness.gauge.group import act, random_element
from harness.gauge.moved import moved
from harness.gauge.residual import fold
from harness.gauge.search import ALIGNMENTS
from harness.statistics.undefined import UndefinedError
from harness.streams import generator


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_a_model_and_the_same_moved_are_one(zoo_pair, alignment):
    """As the control does it: in the model's own precision."""
    subject = zoo_pair[0]
    other = moved(subject, alignment, generator=generator(0, "test"))
    found = weight_error(subject, other, alignment=alignment)
    assert 0.0 <= bracket(found.nmse, found.lower)[1] <= 1e-12
    assert bracket(found.mse, found.lower_mse)[1] <= 1e-12


def test_gains_are_part_of_the_weights_behind_them(make_subject):
    """Generic gains against the same model without any: nothing is left even unaligned."""
    subject = make_subject()
    plain = subject.with_weights(fold(subject.weights(), subject.architecture))
    assert not torch.equal(plain.weights()["embed"], torch.zeros(1))
    for alignment in ALIGNMENTS:
        found = weight_error(subject, plain, alignment=alignment)
        assert bracket(found.nmse, found.lower)[1] <= 1e-20
    weights = dict(plain.weights())
    weights["norm_final.gain"] = weights["norm_final.gain"] * 1.5
    found = weight_error(subject, subject.with_weights(weights), alignment="none")
    assert found.nmse["unembed.copy.weight"] == pytest.approx(0.25)
    assert found.nmse["embed"] == 0.0


def test_independent_models_are_far_on_every_group(zoo_pair):
    for alignment in ALIGNMENTS:
        found = weight_error(*zoo_pair, alignment=alignment)
        low, high = bracket(found.nmse, found.lower)
        assert 1e-3 < low <= high
        assert high == max(found.nmse.values())
        low, high = bracket(found.mse, found.lower_mse)
        assert low <= high == max(found.mse.values())


def test_weights_are_folded_in_double_precision(zoo_pair):
    weights = folded(zoo_pair[0])
    assert {tensor.dtype for tensor in weights.values()} == {torch.float64}
    gains = zoo_pair[0].architecture.folds
    assert all(bool((weights[name] == 1).all()) for name in gains)


def test_a_small_tensor_passes_for_free_only_as_published(zoo_pair):
    """One tensor a hundred times smaller in both, and unrelated: mse does not see it."""
    reference, other = (folded(subject) for subject in zoo_pair)
    subject = zoo_pair[0].with_weights(reference)
    name = "unembed.valid.weight"
    changed = {**reference, name: other[name] * 1e-2}
    small = zoo_pair[0].with_weights({**reference, name: reference[name] * 1e-2})
    found = weight_error(small, zoo_pair[0].with_weights(changed), alignment="none")
    assert found.mse[name] < 1e-3
    assert found.nmse[name] > 0.1
    assert weight_error(subject, subject, alignment="none").objective == 0.0


def test_a_bracket_is_of_the_largest_tensors():
    assert bracket({"a": 0.5, "b": 0.2}, {"a": 0.1, "b": 0.15}) == (0.15, 0.5)


def test_an_element_of_high_condition_is_balanced_away(zoo_pair):
    subject = zoo_pair[0]
    weights = folded(subject)
    element = random_element(subject.architecture, generator=generator(0, "test"), condition=1e4)
    other = act(element, weights, subject.architecture)
    found = weight_error(
        subject.with_weights(weights), subject.with_weights(other), alignment="full"
    )
    assert bracket(found.nmse, found.lower)[1] <= 1e-16


def test_an_empty_reference_has_no_error(zoo_pair):
    subject = zoo_pair[0]
    zeros = {name: torch.zeros_like(tensor) for name, tensor in subject.weights().items()}
    with pytest.raises(UndefinedError, match="zero"):
        weight_error(subject.with_weights(zeros), subject, alignment="full")
    found = weight_error(subject, subject.with_weights(zeros), alignment="full")
    assert bracket(found.nmse, found.lower) == pytest.approx((1.0, 1.0))
