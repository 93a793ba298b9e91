"""The shipped pair in fp64 with tiny dictionaries, and every statistic in plain NumPy at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch

from harness.case import Case, DictionaryChoice, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.measured import Context
from harness.runners.blocks import to_torch
from harness.sae.dictionaries import Dictionaries
from harness.sae.recipe import DictionaryOptimiser, DictionaryRecipe, Feed
from harness.sae.train import Trained
from harness.suite import Scope
from suites.rotation import SUITE
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan

CORPUS = Dyck3(7)
SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
ARMS = ("raw", "shift-only", "pure-rotation", "rotated", "scaled", "linear")


def _recipe(kind, **more):
    return DictionaryRecipe(
        kind=kind,
        width=64,
        steps=20,
        optimiser=DictionaryOptimiser(lr=1e-2),
        feed=Feed(batch_tokens=256, buffer_tokens=2048),
        **more,
    )


RECIPES = {"top": _recipe("topk", k=8), "re": _recipe("relu", l1=0.05)}
PLAN = RotationPlan(sites=SITES, dictionaries=RECIPES)
SCOPE = Scope(
    components=("blocks.0.mlp", "blocks.1.mlp"),
    outputs=("copy", "depth", "valid"),
    draws=("standard", "long", "compositional"),
    splits={"fit": 128, "evaluate": 384},
    block=16,
)
DRAWN = ("alignment.ev.paired.state_gain@1", "alignment.stitch.state_gain@1")
"""Statistics with draws of their own, which take longer."""


def everything(plan):
    """Statistic and arm of all that the plan can measure, but for the gains."""
    frozen = filter(
        None,
        (
            plan.frozen(entry, SCOPE)
            for entry in SUITE.catalogue
            if entry.id not in DRAWN and plan.explored(entry.id)
        ),
    )
    return frozenset(
        (entry.id, arm) for entry in frozen for arm in (*entry.arms, *entry.shown_arms) or (None,)
    )


@pytest.fixture(scope="session")
def scope():
    """What the shipped pair and its corpus have to offer, without the splits of bars C and Pr."""
    return SCOPE


@pytest.fixture(scope="session")
def plan():
    """Two sites, a TopK and a ReLU dictionary."""
    return PLAN


@pytest.fixture(scope="session")
def context():
    """Makes contexts; everything but the gains is wanted where nothing is said."""

    def make(*wanted, plan=PLAN, block_size=16, corpus=CORPUS, seed=5):
        chosen = frozenset(wanted) or everything(plan)
        return Context(corpus, block_size, plan, chosen, seed, {})

    return make


@pytest.fixture(scope="session")
def pair(zoo_pair):
    """The shipped pair in fp64, so that sums taken in another order agree to many digits."""
    return tuple(
        subject.with_weights({name: tensor.double() for name, tensor in subject.weights().items()})
        for subject in zoo_pair
    )


@dataclass(frozen=True, eq=False)
class Fixed:
    """Dictionaries that are given and not trained."""

    trained: dict


@pytest.fixture(scope="session")
def given():
    """Stands for `Dictionaries` with these, by (site, variant)."""
    return Fixed


@pytest.fixture(scope="session")
def dictionaries(pair):
    """Both dictionaries at both sites, trained on the reference by the shipped code."""
    return Dictionaries(
        pair[0],
        RECIPES,
        sites=SITES,
        corpus=CORPUS,
        samples=SampleRange("dictionary", 0, 64),
        trainer_options={},
    )


@pytest.fixture(scope="session")
def exact(dictionaries):
    """The same dictionaries with weights in fp64."""
    like = torch.zeros(1, dtype=torch.float64)
    return Fixed(
        {
            key: Trained(found.dictionary.to(like), found.facts)
            for key, found in dictionaries.trained.items()
        }
    )


@pytest.fixture(scope="session")
def samples():
    """Makes samples: few, and the last block of the evaluation is short."""

    def make(fit=96, evaluate=330):
        return Samples(SampleRange("fit", 0, fit), SampleRange("evaluate", 0, evaluate))

    return make


@pytest.fixture(scope="session")
def case(pair, exact, samples):
    """The shipped pair with its dictionaries."""
    return Case(*pair, samples(), dictionary=DictionaryChoice(exact))


@pytest.fixture(scope="session")
def found(case, context):
    """What measuring the shipped pair gives, but for the gains."""
    return measure([case], context())[0]


@pytest.fixture(scope="session")
def values():
    """Values by statistic, site and arm."""
    return lambda found: {(m.statistic, m.site, m.arm): m.value for m in found}


def ev(predicted, actual):
    """1 - residual / total."""
    return 1 - np.square(actual - predicted).sum() / np.square(actual - actual.mean(0)).sum()


def fitted(arm, b, a):
    """The map of an arm from all states, [tokens, d] each, as a function of states."""
    mu_b, mu_a = b.mean(0), a.mean(0)
    u, s, vt = np.linalg.svd((b - mu_b).T @ (a - mu_a))
    rotation = u @ vt
    match arm:
        case "raw":
            return lambda x: x
        case "shift-only":
            return lambda x: x - mu_b + mu_a
        case "pure-rotation":
            left, _, right = np.linalg.svd(b.T @ a)
            return lambda x: x @ (left @ right)
        case "rotated":
            return lambda x: (x - mu_b) @ rotation + mu_a
        case "scaled":
            factor = s.sum() / np.square(b - mu_b).sum()
            return lambda x: (x - mu_b) @ (factor * rotation) + mu_a
        case "linear":
            solution = np.linalg.lstsq(b - mu_b, a - mu_a, rcond=None)[0]
            return lambda x: (x - mu_b) @ solution + mu_a
    raise ValueError(arm)


class Plain:
    """Every statistic of a case from all of its states at once, paired token by token."""

    def __init__(self, case, *, corpus=CORPUS):
        self.case, self.corpus = case, corpus
        self.offsets = {s: o.numpy() for s, o in case.activations.offset.items()}
        self.states = cache(self._states)
        self.carried = cache(self._carried)
        self.fixed = cache(self._fixed)

    def _states(self, split, site):
        """States of the other model and the reference, [tokens, d]."""
        block = to_torch(self.corpus.sample(getattr(self.case.samples, split)))
        other, reference = (
            subject.forward(block, capture=[site]).captured[site][block.mask].double().numpy()
            for subject in (self.case.other, self.case.reference)
        )
        return other + self.offsets.get(site, 0.0), reference

    def _carried(self, site, arm):
        """x~_B and x_A of the evaluation."""
        b, a = self.states("evaluate", site)
        return fitted(arm, *self.states("fit", site))(b), a

    def paired(self, site, arm):
        """EV of x~_B against x_A."""
        return ev(*self.carried(site, arm))

    def whitened(self, site):
        """Mean R^2 over the principal components that hold 99 % of the variance."""
        carried, a = self.carried(site, "rotated")
        mine = self.states("fit", site)[1]
        values, vectors = np.linalg.eigh(np.cov(mine.T))
        held = np.cumsum(values[::-1]) / values.sum()
        basis = vectors[:, ::-1][:, : 1 + int((held < 0.99).sum())]
        return np.mean([ev((carried @ e)[:, None], (a @ e)[:, None]) for e in basis.T])

    def identity_share(self, site):
        """tr C / ||C||_*."""
        b, a = self.states("evaluate", site)
        cross = (b - b.mean(0)).T @ (a - a.mean(0))
        return np.trace(cross) / np.linalg.svd(cross, compute_uv=False).sum()

    def polar(self, site):
        """The rotation R with the largest tr R^T C at the evaluation."""
        b, a = self.states("evaluate", site)
        u, _, vt = np.linalg.svd((b - b.mean(0)).T @ (a - a.mean(0)))
        return u @ vt

    def code(self, site, variant, states):
        """Reconstruction and number of active features of the case's dictionary."""
        return code(self.case.dictionary.source.trained[site, variant].dictionary, states)

    def rotation(self, site, rows=slice(None)):
        """R and the singular values and vectors that it comes from."""
        b, a = (x[rows] for x in self.states("fit", site))
        u, s, vt = np.linalg.svd((b - b.mean(0)).T @ (a - a.mean(0)))
        return u @ vt, s, vt

    def effective_rank(self, site, side):
        """exp of the entropy of the covariance's normalised eigenvalues."""
        values = np.linalg.svd(np.cov(self.states("fit", site)[side].T), compute_uv=False)
        shares = values / values.sum()
        return np.exp(-(shares * np.log(shares)).sum())

    def halves(self, block_size):
        """Which fit tokens lie in even blocks."""
        block = self.corpus.sample(self.case.samples.fit)
        number = np.repeat(np.arange(len(block.ids)) // block_size, block.mask.sum(1))
        return number % 2 == 0

    def stitch(self, site, arm, *, subject=None):
        """Share of the loss gap that survives, by edits of whole forward passes."""
        subject = subject or self.case.reference
        clean, ablated = self.fixed(subject, site)
        stitched = self._loss(subject, site, self.carried(site, arm)[0])
        return (ablated - stitched) / (ablated - clean)

    def _fixed(self, subject, site):
        """Losses of the subject's own states, and of the reference's fit mean at every token."""
        mean = self.states("fit", site)[1].mean(0)
        return self._loss(subject, site, None), self._loss(subject, site, mean)

    def _loss(self, subject, site, states):
        """Mean loss with these states at the site; none means the subject's own."""
        block = to_torch(self.corpus.sample(self.case.samples.evaluate))

        def replaced(x):
            x = x.clone()
            x[block.mask] = torch.as_tensor(states, dtype=x.dtype)
            return x

        edits = {} if states is None else {site: replaced}
        logits = subject.forward(block, edits=edits).logits
        mask = block.mask.numpy()
        losses = [
            _cross_entropy(scores.numpy()[mask], block.targets[head].numpy()[mask])
            for head, scores in logits.items()
        ]
        return np.mean(losses)

    def dictionary(self, statistic, site, variant):
        """Any statistic of a dictionary."""
        found = self.case.dictionary.source.trained[site, variant].dictionary
        carried, a = self.carried(site, "rotated")
        match statistic:
            case "self":
                return ev(code(found, a)[0], a)
            case "paired":
                return ev(code(found, carried)[0], a)
            case "gap_to_self":
                return ev(code(found, carried)[0], carried) - ev(code(found, a)[0], a)
            case "l0":
                return code(found, a)[1].mean()
        states = self.carried(site, statistic.replace("_", "-"))[0]
        return ev(code(found, states)[0], states)


def _cross_entropy(scores, targets):
    """Mean -log softmax of the targets."""
    top = scores.max(1, keepdims=True)
    normaliser = top[:, 0] + np.log(np.exp(scores - top).sum(1))
    return (normaliser - scores[np.arange(len(scores)), targets]).mean()


def code(dictionary, states):
    """Reconstruction [tokens, d] and number of active features [tokens], of all states at once."""
    W_enc, b_enc, W_dec, b_dec = (
        getattr(dictionary, name).double().numpy() for name in ("W_enc", "b_enc", "W_dec", "b_dec")
    )
    pre = (states * dictionary.scale - b_dec) @ W_enc + b_enc
    if dictionary.k is not None:
        least = np.sort(pre, axis=1)[:, -dictionary.k][:, None]
        pre = np.where(pre >= least, pre, 0.0)
    codes = np.maximum(pre, 0.0)
    return (codes @ W_dec + b_dec) / dictionary.scale, (codes > 0).sum(1)


@pytest.fixture(scope="session")
def plain():
    """Makes the plain computation of a case."""
    return cache(Plain)


@pytest.fixture(scope="session")
def plain_ev():
    """EV of two arrays."""
    return ev
