"""Controls that any suite can use: functions from a case to a case.

Each takes the case of the claim, and a root seed where it is random, and replaces the fields that
its row in the suite's catalogue names. The measurement that follows cannot tell one from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from harness.case import Activations, Case, ComponentChoice, Gaussian, MapChoice, Pairing
from harness.gauge import fit
from harness.gauge.residual import fold, rotate
from harness.streams import generator, stream_seed, torch_seed
from harness.subjects.subject import Subject

OFFSET = 1000.0
"""Large beside the states of any model, so that a map that forgets a mean cannot pass."""


def itself(case: Case) -> Case:
    """The reference against itself."""
    return replace(case, other=case.reference)


def itself_fresh(case: Case) -> Case:
    """The reference against itself, on the evaluation samples that follow the registered ones."""
    fresh = replace(case.samples, evaluate=case.samples.evaluate.following())
    return replace(case, other=case.reference, samples=fresh)


def gauge_self(case: Case, *, seed: int, sites: Sequence[str]) -> Case:
    """The reference in a Haar-random basis, its captured states moved by a random offset.

    The norms are folded in fp64 and the planted basis applied there, so that the outputs stay to
    the rounding of the subject's own dtype. Offsets are N(0, OFFSET^2) in each coordinate.
    """
    architecture = case.reference.architecture
    stored = {name: tensor.cpu() for name, tensor in case.reference.weights().items()}
    dtype = next(iter(stored.values())).dtype
    width = architecture.size("residual")
    planted = torch.from_numpy(fit.haar(width, generator=generator(seed, "gauge-self", "rotation")))
    folded = fold({name: tensor.double() for name, tensor in stored.items()}, architecture)
    turned = rotate(folded, architecture, planted)
    other = case.reference.with_weights({name: t.to(dtype) for name, t in turned.items()})
    offset = {
        site: torch.from_numpy(
            OFFSET * generator(seed, "gauge-self", "offset", site).standard_normal(width)
        )
        for site in sites
    }
    return replace(case, other=other, activations=Activations(offset))


def gauge_self_unaligned(case: Case, *, seed: int) -> Case:
    """The reference in the basis of `gauge_self`, without an offset, and nothing done about it."""
    turned = replace(gauge_self(case, seed=seed, sites=()), map=MapChoice("identity"))
    return replace(turned, activations=case.activations)


def untrained(case: Case, *, seed: int) -> Case:
    """A fresh initialisation as the other model."""
    start = torch.Generator().manual_seed(torch_seed(seed, "untrained"))
    return replace(case, other=case.reference.fresh(generator=start))


def untrained_both(case: Case, *, seed: int) -> Case:
    """One fresh initialisation as both models: what then agrees, agrees by construction."""
    fresh = untrained(case, seed=seed)
    return replace(fresh, reference=fresh.other)


def shuffled_components(case: Case, *, seed: int, draw: int) -> Case:
    """The labels of the other model's components permuted, by the permutation of this draw."""
    labels = ComponentChoice("shuffled", stream_seed(seed, "shuffled-components", draw))
    return replace(case, components=labels)


def instead(case: Case, *, model: Subject) -> Case:
    """A model that the registration names for a control, as the other model."""
    return replace(case, other=model)


def principal_components(case: Case) -> Case:
    """The reference's principal components in the place of its dictionaries."""
    return replace(case, dictionary=replace(case.dictionary, rule="pca"))


def covariance_only(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """Eigenbases matched in order of variance, with the signs of this draw."""
    signs = MapChoice("covariance-only", stream_seed(seed, "covariance-only", draw))
    return replace(smaller(case, sequences), map=signs)


def haar(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """A uniformly random rotation, the means aligned."""
    choice = MapChoice("haar", stream_seed(seed, "haar", draw))
    return replace(smaller(case, sequences), map=choice)


def noise(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """Gaussian states of the other model's mean and covariance in the place of its states."""
    gaussian = Gaussian(stream_seed(seed, "noise", draw))
    return replace(smaller(case, sequences), activations=Activations(gaussian=gaussian))


def shuffled(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """The pairing of tokens destroyed inside every block, by the permutations of this draw."""
    order = Pairing("shuffled", stream_seed(seed, "shuffled", draw))
    return replace(smaller(case, sequences), pairing=order)


def tokpos_shuffled(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """The pairing destroyed among equal tokens at equal positions only."""
    order = Pairing("tokpos-shuffled", stream_seed(seed, "tokpos-shuffled", draw))
    return replace(smaller(case, sequences), pairing=order)


def smaller(case: Case, sequences: int) -> Case:
    """The case on the first sequences of its fit and evaluation samples."""
    fit, evaluate = case.samples.fit.head(sequences), case.samples.evaluate.head(sequences)
    return replace(case, samples=replace(case.samples, fit=fit, evaluate=evaluate))
