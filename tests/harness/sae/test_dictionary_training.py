"""Training dictionaries: planted features come back, and nothing but the recipe decides them."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.sae import topk
from harness.sae.activations import Normalisation, ShuffledStates, subject_states
from harness.sae.learner import Learner
from harness.sae.recipe import DictionaryOptimiser, DictionaryRecipe, Feed
from harness.sae.train import train_dictionaries, train_on
from prereg.errors import InputError

SITE = "blocks.1.hook_resid_post"


def weights(trained):
    dictionary = trained.dictionary
    return [dictionary.W_enc, dictionary.b_enc, dictionary.W_dec, dictionary.b_dec]


def equal(one, two):
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))


def mean_max_cosine(dictionary, features):
    return float((features @ dictionary.W_dec.double().numpy().T).max(1).mean())


def relu_recipe(l1, like, **more):
    return DictionaryRecipe(
        kind="relu",
        l1=l1,
        width=like.width,
        steps=like.steps,
        optimiser=like.optimiser,
        feed=like.feed,
        **more,
    )


def test_a_planted_dictionary_is_recovered(planted, topk_recipe, one_thread):
    recipe = topk_recipe(steps=700)
    trained = train_on(planted, {"k3": recipe})["site", "k3"]
    assert mean_max_cosine(trained.dictionary, planted.features) > 0.95
    x = planted.states.float()
    assert trained.dictionary.explained_variance(x) > 0.95
    assert trained.facts.l0 == pytest.approx(trained.dictionary.l0(x), abs=0.05)
    assert trained.facts.tokens == 700 * 256
    losses = trained.facts.losses
    assert len(losses) == 20
    assert losses[-1] < 0.1 * losses[0]

    untrained = train_on(planted, {"k3": topk_recipe(steps=1, lr=1e-9)})["site", "k3"]
    assert mean_max_cosine(untrained.dictionary, planted.features) < 0.7


def test_relu_dictionaries_recover_too_and_the_penalty_buys_sparsity(
    planted, topk_recipe, one_thread
):
    like = topk_recipe(steps=500)
    found = train_on(planted, {"weak": relu_recipe(0.3, like), "strong": relu_recipe(3.0, like)})
    weak, strong = found["site", "weak"], found["site", "strong"]
    assert strong.facts.l0 < 0.7 * weak.facts.l0
    assert mean_max_cosine(strong.dictionary, planted.features) > 0.9


def test_training_is_a_plain_loop_of_adam_over_the_shuffled_batches(
    planted, topk_recipe, one_thread
):
    """Dense autograd, gradients of one step each, clipped, at the scheduled rate."""
    steps = 20
    recipe = topk_recipe(steps=steps, width=24)
    batches = ShuffledStates(planted, recipe.feed)
    learner = Learner(recipe, batches.normalisations()["site"], site="site")
    weights = {name: w.detach().clone().requires_grad_() for name, w in learner.named_parameters()}
    optimiser = torch.optim.Adam(weights.values())
    losses = []
    for step, batch in enumerate(islice(batches, steps)):
        x = batch["site"] * learner.scale
        pre = (x - weights["b_dec"]) @ weights["encoder"].T + weights["b_enc"]
        scores = pre * weights["W_dec"].norm(dim=1)
        codes = pre.relu() * (scores >= scores.topk(3).values[:, -1:])
        loss = (codes @ weights["W_dec"] + weights["b_dec"] - x).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimiser.param_groups[0]["lr"] = 3e-3 * min(1.0, (steps - step) / 4)
        optimiser.step()
        losses.append(loss.item())
    dictionary, facts = train_on(planted, {"a": recipe})["site", "a"]
    norms = weights["W_dec"].detach().norm(dim=1, keepdim=True)
    close = {"rtol": 1e-3, "atol": 1e-4}  # fp32, and Adam's division by small moments
    torch.testing.assert_close(dictionary.W_dec, weights["W_dec"].detach() / norms, **close)
    torch.testing.assert_close(dictionary.W_enc.T, weights["encoder"].detach() * norms, **close)
    torch.testing.assert_close(dictionary.b_dec, weights["b_dec"].detach(), **close)
    assert facts.losses == pytest.approx(losses, rel=1e-4)
    assert facts.l0 == pytest.approx(float((codes > 0).sum(1).float().mean()), abs=0.01)
    assert facts.live_fraction == pytest.approx(float((codes > 0).any(0).float().mean()))


def test_features_that_never_fire_count_as_dead(topk_recipe, one_thread):
    """States along one line: a few of the 64 features take all of them."""
    line = torch.linspace(-1, 1, 512)[:, None] * torch.eye(32)[0]
    facts = train_on(lambda: iter([{"site": line}]), {"a": topk_recipe(k=1)})["site", "a"].facts
    assert 1 / 64 <= facts.live_fraction <= 0.2


def test_decoder_rows_have_unit_norm_after_training(planted, topk_recipe, one_thread):
    recipe = topk_recipe(decoder_norm=0.1)
    for trained in train_on(planted, {"a": recipe, "b": relu_recipe(0.5, recipe)}).values():
        norms = trained.dictionary.W_dec.norm(dim=1)
        torch.testing.assert_close(norms, torch.ones_like(norms))


@pytest.mark.parametrize("kind", ["topk", "relu"])
def test_unit_rows_change_no_reconstruction(kind, topk_recipe):
    """The function that was trained is the one that is used, although its rows had any norms."""
    like = topk_recipe(k=4, width=24)
    recipe = like if kind == "topk" else relu_recipe(0.5, like)
    mean = torch.linspace(-1, 1, 8).double()
    learner = Learner(recipe, Normalisation(mean, 0.6), site="s").double()
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        learner.W_dec *= torch.rand(24, 1, generator=rng) * 4 + 0.1
        learner.b_enc += 0.3 * torch.randn(24, generator=rng)
    x = torch.randn(60, 8, generator=rng, dtype=torch.float64)
    parts = {name: w.detach() for name, w in learner.named_parameters()}
    if kind == "topk":
        trained, _ = topk.reconstruct(0.6 * x, **parts, k=4)
    else:
        pre = (0.6 * x - parts["b_dec"]) @ parts["encoder"].T + parts["b_enc"]
        trained = pre.relu() @ parts["W_dec"] + parts["b_dec"]
    torch.testing.assert_close(learner.dictionary().reconstruct(x), trained / 0.6)


def test_the_relu_penalty_is_on_codes_times_row_norms(topk_recipe):
    """The mean over tokens of sum_j z_j |W_dec row j|: what unit rows would be charged."""
    recipe = relu_recipe(0.5, topk_recipe(width=24))
    free = relu_recipe(0.0, topk_recipe(width=24))
    learners = [Learner(r, Normalisation(torch.zeros(8), 1.0), site="s") for r in (recipe, free)]
    x = torch.randn(60, 8, generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        for learner in learners:
            learner.W_dec *= torch.linspace(0.5, 2, 24)[:, None]
    (charged, firings), (plain, _) = (learner.loss(x) for learner in learners)
    codes = learners[0].dictionary().encode(x)
    torch.testing.assert_close(charged - plain, 0.5 * codes.sum(1).mean(), rtol=1e-4, atol=1e-4)
    assert torch.equal(firings, (codes > 0).sum(0))


def test_only_the_recipe_decides_and_no_global_generator_is_read(planted, topk_recipe, one_thread):
    recipe = topk_recipe()
    results, untouched = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()
        results.append(train_on(planted, {"a": recipe})["site", "a"])
        after = torch.get_rng_state(), np.random.get_state()[1]
        untouched.append(torch.equal(before[0], after[0]) and (before[1] == after[1]).all())
    assert equal(*results)
    assert all(untouched)
    assert results[0].facts == results[1].facts
    for change in (
        topk_recipe(seed=1),
        recipe.model_copy(update={"feed": recipe.feed.model_copy(update={"seed": 1})}),
    ):
        assert not equal(results[0], train_on(planted, {"a": change})["site", "a"])


def test_trained_together_equals_trained_alone(planted, topk_recipe, one_thread):
    recipes = {
        "k3": topk_recipe(),
        "longer": topk_recipe(steps=45, k=2),
        "relu": relu_recipe(0.5, topk_recipe(), seed=4),
    }
    together = train_on(planted, recipes)
    for name, recipe in recipes.items():
        alone = train_on(planted, {name: recipe})
        assert equal(together["site", name], alone["site", name])
        assert together["site", name].facts == alone["site", name].facts


def test_units_of_the_states_do_not_matter(planted, topk_recipe, one_thread):
    """Four times the states: the same weights to the bit, and a quarter of the scale."""
    recipe = topk_recipe()

    def larger():
        return ({site: 4 * x for site, x in part.items()} for part in planted())

    one = train_on(planted, {"a": recipe})["site", "a"]
    two = train_on(larger, {"a": recipe})["site", "a"]
    assert equal(one, two)
    assert one.dictionary.scale == 4 * two.dictionary.scale
    x = planted.states[:50].float()
    torch.testing.assert_close(two.dictionary.reconstruct(4 * x), 4 * one.dictionary.reconstruct(x))


def test_a_short_training_explains_a_shipped_model(zoo_pair):
    subject, corpus = zoo_pair[0], Dyck3(7)
    recipe = DictionaryRecipe(
        kind="topk",
        k=16,
        width=512,
        steps=150,
        optimiser=DictionaryOptimiser(lr=3e-3),
        feed=Feed(batch_tokens=512, buffer_tokens=8192),
    )
    samples = SampleRange("dictionary", 0, 512)
    found = train_dictionaries(
        subject, {"k16": recipe}, sites=(SITE,), corpus=corpus, samples=samples
    )
    fresh = SampleRange("evaluate", 0, 256)
    source = subject_states(subject, corpus=corpus, samples=fresh, sites=(SITE,))
    x = torch.cat([part[SITE] for part in source()])
    trained = found[SITE, "k16"]
    assert trained.dictionary.explained_variance(x) > 0.9
    assert trained.dictionary.l0(x) <= 16
    assert 0.2 < trained.facts.live_fraction <= 1


def test_dictionaries_of_several_sites_come_from_one_pass(zoo_pair, topk_recipe):
    sites = ("blocks.0.hook_resid_post", SITE)
    options = {"corpus": Dyck3(7), "samples": SampleRange("dictionary", 0, 64)}
    recipes = {"k3": topk_recipe(steps=3), "k5": topk_recipe(steps=3, k=5)}
    both = train_dictionaries(zoo_pair[0], recipes, sites=sites, **options)
    assert set(both) == {(site, name) for site in sites for name in recipes}
    alone = train_dictionaries(zoo_pair[0], {"k5": recipes["k5"]}, sites=(SITE,), **options)
    assert equal(both[SITE, "k5"], alone[SITE, "k5"])


def test_the_rate_warms_up_and_falls_to_zero():
    spec = DictionaryOptimiser(warmup_steps=9, decay_fraction=0.25)
    rates = [spec.rate(step, steps=100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9:75] == pytest.approx([1] * 66)
    assert rates[-1] == pytest.approx(1 / 25)
    assert DictionaryOptimiser(decay_fraction=0.0).rate(99, steps=100) == 1


@pytest.mark.parametrize(
    "sparsity",
    [
        {"kind": "topk"},
        {"kind": "topk", "k": 3, "l1": 0.1},
        {"kind": "topk", "k": 9},
        {"kind": "relu"},
        {"kind": "relu", "l1": 0.1, "k": 3},
        {"kind": "jumprelu"},
    ],
)
def test_a_recipe_names_the_sparsity_of_its_kind_and_no_other(sparsity):
    with pytest.raises(ValidationError):
        DictionaryRecipe(width=8, steps=1, **sparsity)


def test_feeds_that_differ_are_refused(planted, topk_recipe):
    with pytest.raises(InputError) as caught:
        train_on(planted, {"a": topk_recipe(), "b": topk_recipe(batch_tokens=512)})
    assert caught.value.code == "dictionary.feeds"


def test_more_than_one_device_is_refused(planted, topk_recipe):
    with pytest.raises(InputError) as caught:
        train_on(planted, {"a": topk_recipe()}, devices=2)
    assert caught.value.code == "dictionary.devices"


def test_training_that_diverged_is_refused(topk_recipe):
    learner = Learner(topk_recipe(), Normalisation(torch.zeros(8), 1.0), site="s")
    with torch.no_grad():
        learner.W_dec[3] = float("inf")
    with pytest.raises(InputError) as caught:
        learner.dictionary()
    assert caught.value.code == "dictionary.diverged"
