"""The shipped models: what their cards say is what they are."""

from __future__ import annotations

import json

import pytest

from harness.subjects.reference import CARD, locate, zoo
from harness.training import RECIPE, read_recipe, recipes

INDEPENDENT = ("dyck3/indep-100", "dyck3/indep-101")
SHARED = ("dyck3/shared-0", "dyck3/shared-1")
TWIN = "dyck3/tally-300"
IMITATOR = "dyck3/twin-400"
NAMES = (*INDEPENDENT, *SHARED, TWIN, IMITATOR)
RUNS = ("dyck3/indep-100", "dyck3/shared-0")
"""Models whose checkpoints are shipped too."""


def card(name):
    return json.loads((zoo()[name] / CARD).read_bytes())


def measured(name, *, sequences, task="standard"):
    from harness.runners.train import accuracies
    from harness.subjects.loading import load

    model = load(locate(f"zoo:{name}")).model
    return accuracies(model, seed=12_345, sequences=sequences, task=task)


def test_every_model_and_checkpoint_is_tested_here():
    assert {*NAMES, *(f"{run}/{step}" for run in RUNS for step in card(run)["checkpoints"])} == {
        *zoo()
    }


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
    assert recipe.task == card(name)["task"]


def test_the_pair_is_independent():
    one, two = (read_recipe(name)[0] for name in INDEPENDENT)
    assert one.init_seed != two.init_seed
    assert one.data_seed != two.data_seed
    own = {"name", "init_seed", "data_seed", "checkpoints"}
    assert one.model_dump(exclude=own) == two.model_dump(exclude=own)


def test_one_cohort_shares_its_input_and_output_weights_bit_for_bit():
    one, two = (locate(f"zoo:{name}") for name in SHARED)
    assert card(SHARED[1])["shared_io"] == one.resolved.weights
    for name, tensor in one.tensors.items():
        shared = name in one.architecture.shared_io or name == "position_code"
        assert (tensor.data == two.tensors[name].data) == shared, name


@pytest.mark.parametrize("run", RUNS)
def test_checkpoints_are_those_of_the_card(run):
    stated = card(run)["checkpoints"]
    assert set(stated) == {f"step-{n}" for n in read_recipe(run)[0].checkpoints}
    for step, digest in stated.items():
        assert locate(f"zoo:{run}/{step}").resolved.weights == digest
    assert len({*stated.values(), card(run)["weights"]}) == len(stated) + 1


@pytest.mark.parametrize("run", RUNS)
def test_checkpoints_lie_on_the_path_to_the_end_of_their_run(one_thread, run):
    import torch

    from harness.subjects.loading import load

    def weights(name):
        found = load(locate(f"zoo:{name}")).weights()
        return torch.cat([found[key].double().flatten() for key in sorted(found)])

    steps = [f"{run}/step-{n}" for n in read_recipe(run)[0].checkpoints]
    end, stranger = weights(run), weights("dyck3/indep-101")
    distances = [float((weights(step) - end).norm()) for step in steps]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] > 0
    assert distances[0] < float((stranger - end).norm())
    depths = [measured(name, sequences=1_000)["depth"] for name in (*steps, run)]
    assert depths == sorted(depths)
    assert len(set(depths)) == len(depths)


@pytest.mark.parametrize("name", NAMES)
def test_accuracy_on_fresh_sequences_is_as_stated(one_thread, name):
    found = measured(name, sequences=2_000, task=card(name)["task"])
    stated = card(name)["accuracy"]
    assert stated["depth"] >= 0.998
    assert found["depth"] >= 0.995
    for head, share in found.items():
        assert share == pytest.approx(stated[head], abs=2e-3)


def test_the_twin_learned_its_own_task_and_not_the_other(one_thread):
    twin, reference = (read_recipe(name)[0] for name in (TWIN, INDEPENDENT[0]))
    assert (twin.task, reference.task) == ("tally", "standard")
    own = {"name", "init_seed", "data_seed", "task", "steps", "checkpoints"}
    assert twin.model_dump(exclude=own) == reference.model_dump(exclude=own)
    assert min(measured(TWIN, sequences=500, task="tally").values()) >= 0.99
    assert max(measured(TWIN, sequences=500).values()) < 0.6


def test_the_fine_tuned_twin_starts_from_one_seed_and_learned_from_another():
    recipe = read_recipe(IMITATOR)[0]
    assert (recipe.start, recipe.teacher) == ("zoo:dyck3/indep-101", "zoo:dyck3/shared-0")
    assert card(IMITATOR)["start"] == card("dyck3/indep-101")["weights"]
    assert card(IMITATOR)["teacher"] == card("dyck3/shared-0")["weights"]
