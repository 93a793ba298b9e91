"""Training from recipes: repeatable, seeded by name, and refusing what it cannot read."""

from __future__ import annotations

import json

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.train import BatchStream, accuracies
from harness.subjects.recipe import Optimiser
from harness.subjects.reference import locate
from harness.training import read_recipe, recipes, train_to
from prereg.errors import InputError

SHORT = """\
schema: prebench/recipe/1
name: test/short
architecture: dyck
init_seed: {init}
data_seed: 1
batch: 8
steps: {steps}
evaluation_seed: 900
evaluation_sequences: 64
"""


def short(tmp_path, *, init=1, steps=20):
    path = tmp_path / f"recipe-{init}-{steps}.yaml"
    path.write_text(SHORT.format(init=init, steps=steps))
    return str(path)


def test_a_recipe_gives_one_digest_whatever_the_global_seed(tmp_path, one_thread):
    torch.manual_seed(1)
    one = train_to(short(tmp_path), tmp_path / "a")
    torch.manual_seed(2)
    two = train_to(short(tmp_path), tmp_path / "b")
    other = train_to(short(tmp_path, init=2), tmp_path / "c")
    assert one["weights"] == two["weights"] != other["weights"]
    assert locate(f"path:{tmp_path / 'a'}").resolved.weights == one["weights"]
    assert json.loads((tmp_path / "a" / "card.json").read_bytes()) == one
    assert one["threads"] == 1


def test_training_learns(tmp_path, one_thread):
    card = train_to(short(tmp_path, steps=150), tmp_path / "a")
    assert card["accuracy"]["copy"] > 0.5


def test_every_training_sequence_is_read_once_and_in_order(tmp_path):
    recipe, _ = read_recipe(short(tmp_path, steps=300))
    batches = list(BatchStream(recipe))
    ids = torch.cat([batch.sample_ids for batch in batches])
    first = SampleRange("train", 0, 1).base
    assert torch.equal(ids, torch.arange(first, first + 2400))
    again = Dyck3(1).sample(SampleRange("train", 1600, 1608))
    assert torch.equal(batches[200].ids, torch.from_numpy(again.ids))


def test_the_schedule_warms_up_then_falls_to_two_per_cent():
    rates = [Optimiser().rate(step, steps=40_000) for step in range(40_000)]
    assert rates[0] == pytest.approx(1 / 500)
    assert rates[499] == pytest.approx(1)
    assert max(rates) == rates[499]
    assert rates[-1] == pytest.approx(0.02, abs=1e-4)
    assert Optimiser().rate(50, steps=1000) == pytest.approx(1)  # 5 % of a short run


def test_an_untrained_model_has_chance_accuracy(make_subject):
    measured = accuracies(make_subject(dtype=torch.float32).model, seed=1, sequences=100)
    assert measured["copy"] < 0.3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("steps: 20", "steps: 0"), "steps"),
        (("batch: 8", "batch: eight"), "batch"),
        (("init_seed: 1", "seed: 1"), "init_seed"),
        (("architecture: dyck", "architecture: gpt"), "architecture"),
    ],
)
def test_malformed_recipes_are_refused(tmp_path, change, says):
    path = tmp_path / "recipe.yaml"
    path.write_text(SHORT.format(init=1, steps=20).replace(*change))
    with pytest.raises(InputError, match=says):
        train_to(str(path), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").write_text("x")
    with pytest.raises(InputError, match="not an empty folder"):
        train_to(short(tmp_path), tmp_path / "a")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["mine"]


def test_every_shipped_recipe_reads():
    for name in recipes():
        assert read_recipe(name)[0].name == name


def test_shared_input_and_output_weights_stay_bit_identical(tmp_path, one_thread, save_random):
    reference = save_random(5, "donor")
    donor = locate(reference)
    path = tmp_path / "recipe.yaml"
    path.write_text(SHORT.format(init=1, steps=20) + f"shared_io: '{reference}'\n")
    train_to(str(path), tmp_path / "a")
    found = locate(f"path:{tmp_path / 'a'}")
    for name, tensor in found.tensors.items():
        shared = name in found.architecture.shared_io or name == "position_code"
        assert (tensor.data == donor.tensors[name].data) == shared, name


def test_checkpoints_are_the_weights_along_the_run(tmp_path, one_thread):
    path = tmp_path / "recipe.yaml"
    path.write_text(SHORT.format(init=1, steps=20) + "checkpoints: [5, 20]\n")
    card = train_to(str(path), tmp_path / "a")
    digests = [locate(f"path:{tmp_path / 'a' / f'step-{n}'}").resolved.weights for n in (5, 20)]
    assert digests[1] == card["weights"] != digests[0]
    assert not (tmp_path / "a" / "step-10").exists()
