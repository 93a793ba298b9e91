"""Training from recipes: repeatable, seeded by name, and refusing what it cannot read."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.blocks import to_torch
from harness.runners.train import BatchStream, accuracies, imitation_loss
from harness.subjects.loading import load
from harness.subjects.recipe import Optimiser
from harness.subjects.reference import locate
from harness.training import RECIPE, read_recipe, recipes, train_to
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


def shortened(name, folder):
    """A shipped recipe as a file that differs from it in length alone."""
    text = recipes()[name].read_text()
    steps, sequences = (
        re.search(rf"^{key}: .*$", text, re.MULTILINE)[0]
        for key in ("steps", "evaluation_sequences")
    )
    text = text.replace(f"\n{steps}\n", "\nsteps: 12\n")
    path = folder / RECIPE
    path.write_text(text.replace(sequences, "evaluation_sequences: 64"))
    short, whole = (read_recipe(written)[0] for written in (str(path), name))
    assert short.steps == 12
    length = {"steps", "evaluation_sequences"}
    assert short.model_dump(exclude=length) == whole.model_dump(exclude=length)
    return str(path)


@pytest.mark.parametrize("name", ["dyck3/indep-104", "dyck3/shared-3", "dyck3/tally-300"])
def test_a_shipped_recipe_gives_one_digest(tmp_path, one_thread, name):
    path = shortened(name, tmp_path)
    one, two = (train_to(path, tmp_path / folder) for folder in ("a", "b"))
    assert one["weights"] == two["weights"]
    assert one["task"] == read_recipe(name)[0].task


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
        (("data_seed: 1", "data_seed: 1\ntask: counting"), "task"),
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


COHORTS = {
    "independent": [f"dyck3/indep-{seed}" for seed in range(100, 105)],
    "shared": [f"dyck3/shared-{number}" for number in range(5)],
}


def test_every_shipped_recipe_reads_and_no_two_share_a_seed():
    found = {name: read_recipe(name)[0] for name in recipes()}
    assert all(recipe.name == name for name, recipe in found.items())
    alone = {"dyck3/tally-300", "dyck3/twin-400"}
    assert {*COHORTS["independent"], *COHORTS["shared"], *alone} == set(found)
    for seed in ("init_seed", "data_seed"):
        assert len({getattr(recipe, seed) for recipe in found.values()}) == len(found)


@pytest.mark.parametrize("cohort", COHORTS)
def test_the_recipes_of_a_cohort_differ_in_seeds_alone(cohort):
    found = [read_recipe(name)[0] for name in COHORTS[cohort]]
    own = {"name", "init_seed", "data_seed", "checkpoints", "shared_io"}
    assert all(r.model_dump(exclude=own) == found[0].model_dump(exclude=own) for r in found)
    given = "zoo:dyck3/shared-0" if cohort == "shared" else None
    assert [recipe.shared_io for recipe in found] == [None, *[given] * 4]


def test_a_shortened_run_of_a_shared_recipe_ends_with_the_weights_it_was_given(
    tmp_path, one_thread
):
    train_to(shortened("dyck3/shared-4", tmp_path), tmp_path / "a")
    donor, found = locate("zoo:dyck3/shared-0"), locate(f"path:{tmp_path / 'a'}")
    for name, tensor in found.tensors.items():
        shared = name in found.architecture.shared_io or name == "position_code"
        assert (tensor.data == donor.tensors[name].data) == shared, name


def test_shared_input_and_output_weights_stay_bit_identical(tmp_path, one_thread, save_random):
    reference = save_random(5, "donor")
    donor = locate(reference)
    path = tmp_path / "recipe.yaml"
    path.write_text(SHORT.format(init=1, steps=20) + f"shared_io: '{reference}'\n")
    train_to(str(path), tmp_path / "a")
    found = locate(f"path:{tmp_path / 'a'}")
    assert json.loads((tmp_path / "a" / "card.json").read_bytes())["shared_io"] == (
        donor.resolved.weights
    )
    for name, tensor in found.tensors.items():
        shared = name in found.architecture.shared_io or name == "position_code"
        assert (tensor.data == donor.tensors[name].data) == shared, name


def test_checkpoints_are_the_weights_along_the_run(tmp_path, one_thread):
    path = tmp_path / "recipe.yaml"
    path.write_text(SHORT.format(init=1, steps=20) + "checkpoints: [5, 20]\n")
    card = train_to(str(path), tmp_path / "a")
    digests = [locate(f"path:{tmp_path / 'a' / f'step-{n}'}").resolved.weights for n in (5, 20)]
    assert digests[1] == card["weights"] != digests[0]
    assert card["checkpoints"] == {"step-5": digests[0], "step-20": digests[1]}
    assert not (tmp_path / "a" / "step-10").exists()


TUNED = """\
schema: prebench/recipe/1
name: test/tuned
architecture: dyck
init_seed: 3
init_std: 0.02
data_seed: 5
batch: 8
steps: 6
optimiser: {lr: 0.01, betas: [0.9, 0.95], weight_decay: 0.3, clip_norm: 0.05, warmup_steps: 2, final_fraction: 0.02}
evaluation_seed: 900
evaluation_sequences: 70
"""


@pytest.fixture
def trained(tmp_path, one_thread):
    """The weights that the tuned recipe ends with, with one passage replaced."""
    from harness.runners.train import train

    def weights(old="", new=""):
        assert TUNED.count(old) == 1 or not old, old
        path = tmp_path / "tuned.yaml"
        path.write_text(TUNED.replace(old, new) if old else TUNED)
        return train(read_recipe(str(path))[0]).state_dict()

    return weights


def test_training_is_the_plain_loop_that_the_recipe_describes(trained):
    from torch.nn import functional

    from harness.runners.blocks import to_torch
    from harness.streams import torch_seed
    from harness.subjects.dyck import DyckTransformer, initialise
    from harness.subjects.dyck_config import DyckConfig

    model = DyckTransformer(DyckConfig())
    initialise(model, generator=torch.Generator().manual_seed(torch_seed(3, "init")), std=0.02)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.3, fused=True
    )
    clipped = []
    for step in range(6):
        block = to_torch(Dyck3(5).sample(SampleRange("train", 8 * step, 8 * step + 8)))
        logits = model(block.ids)
        losses = [
            functional.cross_entropy(logits[head][block.mask], block.targets[head][block.mask])
            for head in ("copy", "depth", "valid")
        ]
        for group in optimiser.param_groups:
            group["lr"] = 0.01 * Optimiser(warmup_steps=2).rate(step, steps=6)
        optimiser.zero_grad()
        (sum(losses) / 3).backward()
        clipped.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)))
        optimiser.step()
    assert min(clipped) > 0.1  # otherwise clipping would not be tested
    for name, weight in trained().items():
        torch.testing.assert_close(weight, model.state_dict()[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("init_seed: 3", "init_seed: 4"),
        ("init_std: 0.02", "init_std: 0.03"),
        ("data_seed: 5", "data_seed: 3"),
        ("data_seed: 5", "data_seed: 5\ntask: tally"),
        ("batch: 8", "batch: 9"),
        ("steps: 6", "steps: 7"),
        ("lr: 0.01", "lr: 0.02"),
        ("betas: [0.9, 0.95]", "betas: [0.8, 0.95]"),
        ("betas: [0.9, 0.95]", "betas: [0.9, 0.9]"),
        ("weight_decay: 0.3", "weight_decay: 0.0"),
        ("clip_norm: 0.05", "clip_norm: 1.0e+6"),
        ("final_fraction: 0.02", "final_fraction: 0.5"),
    ],
)
def test_every_setting_of_a_recipe_moves_the_weights(trained, old, new):
    one, other = trained(), trained(old, new)
    distances = [float((one[name] - other[name]).abs().max()) for name in one]
    assert max(distances) > 1e-5


def test_the_task_is_standard_unless_named(trained):
    one, other = trained(), trained("data_seed: 5", "data_seed: 5\ntask: standard")
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("task", ["standard", "tally"])
def test_accuracy_is_the_share_of_right_labels_on_the_evaluation_samples(make_subject, task):
    from harness.runners.blocks import to_torch

    model = make_subject(dtype=torch.float32).model

    def share(split):
        block = to_torch(Dyck3(900, task=task).sample(SampleRange(split, 0, 150)))
        logits = model(block.ids)
        return {
            head: float((logits[head].argmax(-1) == target)[block.mask].double().mean())
            for head, target in block.targets.items()
        }

    found = accuracies(model, seed=900, sequences=150, task=task)
    assert found == pytest.approx(share("evaluate"), rel=1e-12)
    assert found != pytest.approx(share("train"), rel=1e-3)


def test_training_reads_the_train_split_and_accuracy_the_evaluation_split(
    tmp_path, one_thread, monkeypatch
):
    read = []

    class Recording:
        def __init__(self, seed, *, task):
            self.corpus = Dyck3(seed, task=task)

        def sample(self, samples):
            read.append((self.corpus, samples))
            return self.corpus.sample(samples)

    monkeypatch.setattr("harness.runners.train.Dyck3", Recording)
    path = tmp_path / "tuned.yaml"
    path.write_text(TUNED + "task: tally\n")
    train_to(str(path), tmp_path / "a")
    assert {(corpus, samples.split) for corpus, samples in read} == {
        (Dyck3(5, task="tally"), "train"),
        (Dyck3(900, task="tally"), "evaluate"),
    }
    for split, count in (("train", 48), ("evaluate", 70)):
        mine = [samples for _, samples in read if samples.split == split]
        indices = [i for samples in mine for i in range(samples.start, samples.stop)]
        assert indices == list(range(count))


# --- a model that starts as another, and learns the outputs of a third ---------------------------


def test_imitation_is_kl_from_the_teacher_over_judged_positions():
    torch.manual_seed(0)
    taught, logits = ({"a": torch.randn(2, 3, 4), "b": torch.randn(2, 3, 2)} for _ in range(2))
    mask = torch.tensor([[True, True, False], [True, False, False]])
    block = SimpleNamespace(mask=mask)
    expected = [
        torch.nn.functional.kl_div(
            logits[head][mask].log_softmax(-1),
            taught[head][mask].log_softmax(-1),
            log_target=True,
            reduction="batchmean",
        )
        for head in taught
    ]
    torch.testing.assert_close(imitation_loss(logits, taught, block), torch.stack(expected).mean())
    assert float(imitation_loss(taught, taught, block)) == pytest.approx(0.0, abs=1e-7)


def test_the_twin_starts_as_one_model_and_moves_towards_the_outputs_of_another(
    tmp_path, one_thread
):
    card = train_to(shortened("dyck3/twin-400", tmp_path), tmp_path / "twin")
    start, teacher = (locate(f"zoo:dyck3/{name}") for name in ("indep-101", "shared-0"))
    assert card["start"] == start.resolved.weights
    assert card["teacher"] == teacher.resolved.weights
    block = to_torch(Dyck3(3).sample(SampleRange("evaluate", 0, 16)))
    twin, began, learnt = (
        load(model).forward(block).logits
        for model in (locate(f"path:{tmp_path / 'twin'}"), start, teacher)
    )
    from_start, from_teacher = (
        float((twin["depth"] - other["depth"]).abs().mean()) for other in (began, learnt)
    )
    assert 0 < from_start < 0.5 * from_teacher  # twelve steps away


def test_a_start_of_another_shape_is_refused(tmp_path):
    train_to(short(tmp_path), tmp_path / "donor")
    path = tmp_path / "other.yaml"
    path.write_text(
        SHORT.format(init=1, steps=1) + f"config: {{d_mlp: 8}}\nstart: path:{tmp_path / 'donor'}\n"
    )
    with pytest.raises(InputError) as caught:
        train_to(str(path), tmp_path / "out")
    assert caught.value.code == "recipe.other-shape"
