"""The dictionaries of a registration: trained when one is read, in one pass, once."""

from __future__ import annotations

import json

import pytest
import torch

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.sae import dictionaries as module
from harness.sae.dictionaries import Dictionaries
from harness.sae.train import train_dictionaries

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
CORPUS, SAMPLES = Dyck3(3), SampleRange("dictionary", 0, 32)


@pytest.fixture
def recipes(topk_recipe):
    small = {"batch_tokens": 64, "buffer_tokens": 256, "width": 32}
    return {
        "few": topk_recipe(steps=3, k=2, **small),
        "many": topk_recipe(steps=5, k=8, **small),
    }


@pytest.fixture
def trainings(monkeypatch):
    """Positional and keyword arguments of every training."""
    found = []

    def train(*given, **more):
        found.append((given, more))
        return train_dictionaries(*given, **more)

    monkeypatch.setattr(module, "train_dictionaries", train)
    return found


@pytest.fixture
def of_a_run(make_subject, recipes):
    subject = make_subject(1, dtype=torch.float32)
    return Dictionaries(
        subject,
        recipes,
        sites=SITES,
        corpus=CORPUS,
        samples=SAMPLES,
        trainer_options={"accelerator": "cpu"},
    )


def test_nothing_is_trained_before_one_is_read(of_a_run, trainings):
    assert of_a_run.facts() == {}
    assert not trainings
    assert (of_a_run.sites, list(of_a_run.recipes)) == (SITES, ["few", "many"])


def test_all_are_trained_in_one_pass_and_kept(of_a_run, trainings, recipes):
    one = of_a_run.trained[SITES[0], "few"]
    assert of_a_run.trained[SITES[0], "few"] is one
    assert set(of_a_run.trained) == {(site, name) for site in SITES for name in recipes}
    ((given, more),) = trainings
    assert given == (of_a_run.subject, recipes)
    assert more == {
        "sites": SITES,
        "corpus": CORPUS,
        "samples": SAMPLES,
        "accelerator": "cpu",
    }


def test_they_are_those_of_their_recipes(of_a_run, recipes):
    alone = train_dictionaries(
        of_a_run.subject,
        {"many": recipes["many"]},
        sites=SITES[1:],
        corpus=CORPUS,
        samples=SAMPLES,
        accelerator="cpu",
    )[SITES[1], "many"]
    beside = of_a_run.trained[SITES[1], "many"]
    assert torch.equal(beside.dictionary.W_dec, alone.dictionary.W_dec)
    assert torch.equal(beside.dictionary.W_enc, alone.dictionary.W_enc)
    assert beside.facts == alone.facts


def test_facts_are_plain_data_by_site_and_name(of_a_run, recipes):
    trained = of_a_run.trained
    facts = of_a_run.facts()
    assert set(facts) == {f"{site}/{name}" for site in SITES for name in recipes}
    assert json.loads(json.dumps(facts)) == facts
    found = facts[f"{SITES[1]}/many"]
    assert (found["steps"], found["tokens"]) == (5, 5 * 64)
    assert found["l0"] == trained[SITES[1], "many"].facts.l0 <= 8


def test_what_is_given_can_change_afterwards(make_subject, recipes):
    options, given = {"accelerator": "cpu"}, dict(recipes)
    found = Dictionaries(
        make_subject(1),
        given,
        sites=SITES,
        corpus=CORPUS,
        samples=SAMPLES,
        trainer_options=options,
    )
    options["devices"] = 2
    given.clear()
    assert found.trainer_options == {"accelerator": "cpu"}
    assert found.recipes == recipes
