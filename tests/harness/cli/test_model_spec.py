"""`prebench models REF --spec`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

from harness.cli import app, main
from harness.cli.spec import SAMPLES, task_of
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.runners.spec import constructive_spec
from harness.subjects.loading import load
from harness.subjects.reference import CARD, locate, zoo
from harness.subjects.spec import Spec
from prereg.errors import Exit, InputError

SHARED = "zoo:dyck3/shared-0"


def printed(*arguments):
    done = CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def measured(reference, *, task="standard", samples=64, seed=0):
    return constructive_spec(
        load(locate(reference)),
        corpus=Dyck3(seed, task=task),
        samples=SampleRange("fit", 0, samples),
        block_size=16,
        trainer_options={},
    )


@pytest.fixture
def refused(capsys):
    """The error of a call that is refused: exit code 2, and no traceback."""

    def call(*arguments):
        with pytest.raises(SystemExit) as caught:
            main(["models", *arguments, "--json"])
        assert caught.value.code == Exit.INPUT
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return json.loads(out)["error"]

    return call


def test_json_holds_the_record_of_the_model_and_of_the_samples():
    found = json.loads(printed(SHARED, "--spec", "--samples", "64", "--seed", "3", "--json"))
    assert found["reference"] == SHARED
    assert found["weights"] == locate(SHARED).resolved.weights
    assert found["corpus"] == {"name": "dyck3", "seed": 3, "task": "standard", "split": "fit"}
    spec = Spec.model_validate_json(json.dumps(found["spec"]))
    assert spec == measured(SHARED, seed=3)
    assert spec != measured(SHARED, seed=0)


def test_the_text_shows_every_number_of_the_record():
    text = printed(SHARED, "--spec", "--samples", "64")
    spec = measured(SHARED)
    lines = text.splitlines()
    assert lines[0] == f"{SHARED}: dyck, 104,448 parameters"
    assert locate(SHARED).resolved.weights in text
    assert f"64 sequences of dyck3 (seed 0, standard task), {spec.tokens:,} tokens" in text
    assert f"no logit changed by more than {spec.folding:.1e}" in text
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("b", "hook"))}
    for head in spec.heads:
        assert rows[head.component] == [
            f"{head.qk_norm:.4g}", f"{head.qk_rank:.2f}",
            f"{head.ov_norm:.4g}", f"{head.ov_rank:.2f}",
        ]  # fmt: skip
    for mlp in spec.mlps:
        assert rows[mlp.component] == [str(mlp.neurons), str(mlp.alive), f"{mlp.norm:.4g}"]
    for site, values in zip(spec.features.sites, spec.features.r2, strict=True):
        assert rows[site] == [f"{value:.3f}" for value in values]
    (header,) = [line for line in lines if line.startswith("R^2 at site")]
    assert header.split()[3:] == list(spec.features.names)
    assert max(map(len, lines)) <= 100


def test_what_has_no_value_is_a_dash(save_random):
    import torch

    from harness.subjects.loading import save_subject

    reference = save_random(0)
    found = locate(reference)
    weights = load(found).weights()
    weights["blocks.1.attn.W_V"] = torch.zeros_like(weights["blocks.1.attn.W_V"])
    save_subject(found.config, weights, found.folder)
    text = printed(reference, "--spec", "--samples", "64")
    (row,) = [line for line in text.splitlines() if line.startswith("blocks.1.attn.head.2")]
    assert row.split()[3:] == ["0", "-"]


def test_a_number_of_samples_has_a_default():
    text = printed(SHARED, "--spec")
    assert f"measured on {SAMPLES} sequences of dyck3 (seed 0, standard task)" in text


def test_a_model_is_held_against_the_task_that_it_learned():
    reference = "zoo:dyck3/tally-300"
    found = json.loads(printed(reference, "--spec", "--samples", "64", "--json"))
    assert found["corpus"]["task"] == "tally"
    spec = Spec.model_validate_json(json.dumps(found["spec"]))
    assert spec == measured(reference, task="tally")
    assert spec != measured(reference, task="standard")


def test_the_task_of_a_folder(tmp_path):
    assert task_of(tmp_path) == "standard"
    model, checkpoint, stranger = (tmp_path / "m", tmp_path / "m/step-20", tmp_path / "m/else")
    for folder in (checkpoint, stranger):
        folder.mkdir(parents=True)
    (model / CARD).write_text(json.dumps({"task": "tally", "checkpoints": {"step-20": "0"}}))
    assert [task_of(f) for f in (model, checkpoint, stranger)] == ["tally", "tally", "standard"]
    (checkpoint / CARD).write_text(json.dumps({"task": "standard"}))
    assert task_of(checkpoint) == "standard"  # its own card comes first


@pytest.mark.parametrize(
    "card", ["{", "[]", "{}", '{"task": "chess"}', '{"task": ["tally"]}', "\xff"]
)
def test_a_card_that_names_no_task_is_an_error(tmp_path, card):
    (tmp_path / CARD).write_bytes(card.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        task_of(tmp_path)
    assert caught.value.code == "subject.bad-card"
    assert CARD in caught.value.found


def test_a_spec_needs_a_model(refused):
    assert refused("--spec")["code"] == "models.incomplete-call"
    assert "--spec" in refused("--spec")["fix"]


@pytest.mark.parametrize("option", ["--samples", "--seed"])
def test_options_of_a_spec_do_nothing_without_it(refused, option):
    for reference in ([], [SHARED]):
        error = refused(*reference, option, "300")
        assert error["code"] == "models.incomplete-call"
        assert "--spec" in error["fix"]


@pytest.mark.parametrize("samples", ["-1", "0", "63"])
def test_too_few_samples(refused, samples):
    error = refused(SHARED, "--spec", "--samples", samples)
    assert error["code"] == "spec.too-few-samples"
    assert samples in error["found"]
    assert "64" in error["expected"]


def test_more_samples_than_there_are(refused):
    assert refused(SHARED, "--spec", "--samples", str(2**41))["code"] == "corpus.too-large"


@pytest.mark.parametrize("seed", ["-1", str(2**53), "one"])
def test_a_seed_is_a_number_that_json_can_hold(refused, seed):
    assert refused(SHARED, "--spec", "--seed", seed)["code"] == "usage"


def test_no_such_model(refused):
    assert refused("zoo:dyck3/shared-9", "--spec")["code"] == "subject.unknown-model"


def test_a_checkpoint_has_a_spec():
    names = [name for name in zoo() if "/step-" in name]
    found = json.loads(printed(f"zoo:{names[0]}", "--spec", "--samples", "64", "--json"))
    assert found["spec"]["samples"] == 64


def test_a_copy_of_a_model_has_the_same_spec(tmp_path):
    shutil.copytree(locate(SHARED).folder, tmp_path / "copy")
    plain, copy = (
        json.loads(printed(reference, "--spec", "--samples", "64", "--json"))
        for reference in (SHARED, f"path:{tmp_path / 'copy'}")
    )
    assert plain["spec"] == copy["spec"]
    assert plain["weights"] == copy["weights"]
