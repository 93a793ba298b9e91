"""The shipped models: what their cards say is what they are."""

from __future__ import annotations

import json

import pytest

from harness.subjects.reference import CARD, locate, zoo
from harness.training import RECIPE, read_recipe, recipes

NAMES = ("dyck3/indep-100", "dyck3/indep-101", "dyck3/shared-0", "dyck3/shared-1")


def card(name):
    return json.loads((zoo()[name] / CARD).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_digest_and_recipe_are_those_of_the_card(name):
    found = locate(f"zoo:{name}")
    assert found.resolved.weights == card(name)["weights"]
    assert {tensor.dtype for tensor in found.tensors.values()} == {"F32"}
    shipped = (zoo()[name] / RECIPE).read_bytes()
    assert shipped == recipes()[name].read_bytes()
    recipe, _ = read_recipe(name)
    assert recipe.name == name
    assert recipe.steps * recipe.batch == card(name)["sequences"]


def test_the_pair_is_independent():
    one, two = (read_recipe(name)[0] for name in NAMES[:2])
    assert one.init_seed != two.init_seed
    assert one.data_seed != two.data_seed
    assert one.model_dump(exclude={"name", "init_seed", "data_seed"}) == two.model_dump(
        exclude={"name", "init_seed", "data_seed"}
    )


def test_one_cohort_shares_its_input_and_output_weights_bit_for_bit():
    one, two = (locate(f"zoo:{name}") for name in NAMES[2:])
    assert card(NAMES[3])["shared_io"] == one.resolved.weights
    for name, tensor in one.tensors.items():
        shared = name in one.architecture.shared_io or name == "position_code"
        assert (tensor.data == two.tensors[name].data) == shared, name


def test_checkpoints_are_those_of_the_card():
    stated = card("dyck3/shared-0")["checkpoints"]
    assert set(stated) == {f"step-{n}" for n in read_recipe("dyck3/shared-0")[0].checkpoints}
    for step, digest in stated.items():
        assert locate(f"zoo:dyck3/shared-0/{step}").resolved.weights == digest


@pytest.mark.parametrize("name", NAMES)
def test_accuracy_on_fresh_sequences_is_as_stated(one_thread, name):
    from harness.runners.train import accuracies
    from harness.subjects.loading import load

    model = load(locate(f"zoo:{name}")).model
    measured = accuracies(model, seed=12_345, sequences=2_000)
    stated = card(name)["accuracy"]
    assert stated["depth"] >= 0.998
    assert measured["depth"] >= 0.995
    for head, share in measured.items():
        assert share == pytest.approx(stated[head], abs=2e-3)
