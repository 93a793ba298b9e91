"""Controls that any suite can use: functions from a case to a case.

Each takes the case of the claim, and a root seed where it is random, and replaces the fields that
its row in the suite's catalogue names. The measurement that follows cannot tell one from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from harness.case import Activations, Case, MapChoice, Pairing, Samples
from harness.gauge.fit import haar
from harness.gauge.residual import fold, rotate
from harness.streams import generator, stream_seed, torch_seed

OFFSET = 1000.0
"""Large beside the states of any model, so that a map that forgets a mean cannot pass."""


def itself(case: Case) -> Case:
    """The reference against itself."""
    return replace(case, other=case.reference)


def itself_fresh(case: Case) -> Case:
    """The reference against itself, on the evaluation samples that follow the registered ones."""
    fresh = Samples(fit=case.samples.fit, evaluate=case.samples.evaluate.following())
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
    planted = torch.from_numpy(haar(width, generator=generator(seed, "gauge-self", "rotation")))
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


def gauge_self_unaligned(case: Case, *, seed: int, sites: Sequence[str]) -> Case:
    """As `gauge_self`, and nothing is done about it."""
    return replace(gauge_self(case, seed=seed, sites=sites), map=MapChoice("identity"))


def untrained(case: Case, *, seed: int) -> Case:
    """A fresh initialisation as the other model."""
    start = torch.Generator().manual_seed(torch_seed(seed, "untrained"))
    return replace(case, other=case.reference.fresh(generator=start))


def covariance_only(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """Eigenbases matched in order of variance, with the signs of this draw."""
    signs = stream_seed(seed, "covariance-only", draw)
    return replace(
        case, map=MapChoice("covariance-only", signs), samples=_smaller(case.samples, sequences)
    )


def shuffled(case: Case, *, seed: int, draw: int, sequences: int) -> Case:
    """The pairing of tokens destroyed inside every block, by the permutations of this draw."""
    order = stream_seed(seed, "shuffled", draw)
    return replace(
        case, pairing=Pairing("shuffled", order), samples=_smaller(case.samples, sequences)
    )


def _smaller(samples: Samples, sequences: int) -> Samples:
    return Samples(samples.fit.head(sequences), samples.evaluate.head(sequences))
