"""The constructive spec of a model, measured: one pass over samples, and the folded weights.

Everything is in fp64, whatever the model is stored in, so that what folding changed is rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from harness.case import Case, Samples
from harness.corpora.block import Block, SampleRange
from harness.corpora.catalogue import Corpus
from harness.gauge.fit import Moments
from harness.gauge.residual import fold
from harness.runners.measure import Meter, View, run_pass
from harness.statistics.products import paired_norm, product
from harness.statistics.readout import held_out_r2
from harness.subjects.architecture import RESIDUAL, Architecture, Paired
from harness.subjects.spec import FeatureSpec, HeadSpec, MlpSpec, Spec
from harness.subjects.subject import Subject
from prereg.errors import InputError

Array = NDArray[np.float64]

LEAST_SAMPLES = 64
"""Fewer samples make a regression on a stream of 64 coordinates a matter of chance."""

_TOKENS_A_COORDINATE = 4
_PRODUCTS = {"W_Q": "qk", "W_V": "ov"}
"""Which product a head's pair of tensors makes, by the name of its first."""

_FIT, _EVALUATE = 0, 1  # parity of the samples that each half holds


class Features:
    """The task's features of every token: names, and columns of one matrix."""

    def __init__(self, architecture: Architecture) -> None:
        self.heads = architecture.heads
        sizes = {"token": architecture.size("vocab"), "position": 1, **self.heads}
        ends = np.cumsum(list(sizes.values())).tolist()
        self.width = ends[-1]
        self.columns = {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }

    def of(self, block: Block) -> Tensor:
        """[tokens, width], fp64: one-hot token, position, one-hot label of every output head.

        Raises:
            InputError: the samples have no label for a head, or one that is not among its classes.
        """
        mask = block.mask
        position = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)[mask]
        token = self.columns["token"]
        parts = [_one_hot("token", block.ids[mask], token.stop - token.start), position[:, None]]
        for head, classes in self.heads.items():
            if head not in block.targets:
                raise InputError(
                    f"an output head {head!r}, for which the samples have no labels",
                    expected=f"heads among {', '.join(block.targets)}",
                    fix="use a model of this task",
                    code="subject.unlabelled-head",
                )
            parts.append(_one_hot(head, block.targets[head][mask], classes))
        return torch.cat([part.double() for part in parts], dim=1)


class SpecMeter(Meter):
    """What a spec says about samples, for a case of the folded model and the model as it is.

    States: sums over the tokens of each half, active tokens of every neuron, and the largest
    difference of a logit, over which ranks take the maximum.
    """

    sums: Tensor
    grams: Tensor
    cross: Tensor
    feature_sums: Tensor
    feature_grams: Tensor
    tokens: Tensor
    active: Tensor
    folding: Tensor

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        architecture = case.reference.architecture
        spaces = architecture.site_spaces
        self.sites = tuple(name for name in architecture.sites if spaces[name] == RESIDUAL)
        self.hidden = tuple(name for name in architecture.sites if spaces[name] == "mlp")
        self.features = Features(architecture)
        sites, d, k = len(self.sites), architecture.size(RESIDUAL), self.features.width
        shapes: dict[str, tuple[int, ...]] = {
            "sums": (sites, 2, d),
            "grams": (sites, 2, d, d),
            "cross": (sites, 2, d, k),
            "feature_sums": (2, k),
            "feature_grams": (2, k, k),
            "tokens": (2,),
            "active": (len(self.hidden), architecture.size("mlp")),
            "folding": (),
        }
        for name, shape in shapes.items():
            reduce = "max" if name == "folding" else "sum"
            zeros = torch.zeros(shape, dtype=torch.float64)
            self.add_state(name, default=zeros, dist_reduce_fx=reduce)

    @property
    def captured(self) -> tuple[str, ...]:
        """The sites that a pass has to capture for it."""
        return (*self.sites, *self.hidden)

    def observe(self, view: View) -> None:
        """Adds one batch."""
        block, mask = view.block, view.block.mask
        features = self.features.of(block)
        parity = (block.sample_ids % 2)[:, None].expand_as(mask)[mask]
        members = [torch.nonzero(parity == half).flatten() for half in (_FIT, _EVALUATE)]
        for half, chosen in enumerate(members):
            y = features[chosen]
            self.tokens[half] += len(chosen)
            self.feature_sums[half] += y.sum(0)
            self.feature_grams[half] += y.T @ y
            for row, site in enumerate(self.sites):
                x = view.reference(self.case, site)[chosen]
                self.sums[row, half] += x.sum(0)
                self.grams[row, half] += x.T @ x
                self.cross[row, half] += x.T @ y
        for row, site in enumerate(self.hidden):
            self.active[row] += (view.reference(self.case, site) > 0).sum(0)
        self.folding = torch.maximum(self.folding, self._difference(view))

    def _difference(self, view: View) -> Tensor:
        """Largest difference of a logit between the two models, over the batch's tokens."""
        folded, plain = view.out(self.case.reference).logits, view.out(self.case.other).logits
        found = [(folded[h] - plain[h])[view.block.mask].abs().max() for h in folded]
        return torch.stack(found).max().double()

    def alive(self) -> dict[str, int]:
        """Neurons that were above zero on at least one token, by MLP."""
        counts = (self.active > 0).sum(1).tolist()
        names = (site.rpartition(".")[0] for site in self.hidden)
        return dict(zip(names, counts, strict=True))

    def moments(self, row: int, half: int) -> Moments:
        """Sums over the tokens of one half: the site of that number with the features."""
        found = (
            self.sums[row, half],
            self.feature_sums[half],
            self.cross[row, half],
            self.grams[row, half],
            self.feature_grams[half],
        )
        return Moments(float(self.tokens[half]), *(sums.cpu().numpy().copy() for sums in found))

    def feature_spec(self) -> FeatureSpec:
        """R^2 of every feature at every site.

        Raises:
            InputError: sums of squares that overflow fp64, or too few tokens for a regression.
        """
        _check_tokens(self.tokens.tolist(), width=self.sums.shape[-1])
        _finite(float(self.grams.abs().max()), "the squared length of a residual state")
        columns = self.features.columns
        rows = tuple(
            held_out_r2(
                self.moments(row, _FIT), self.moments(row, _EVALUATE), features=[*columns.values()]
            )
            for row in range(len(self.sites))
        )
        return FeatureSpec(sites=self.sites, names=tuple(columns), r2=rows)


def constructive_spec(
    subject: Subject,
    *,
    corpus: Corpus,
    samples: SampleRange,
    block_size: int,
    trainer_options: Mapping[str, Any],
) -> Spec:
    """The spec of a model: its folded weights, and its states on a range of samples.

    Every number but `folding`, which is rounding, is the same for a model that is moved by an
    element of its gauge group: bases of the residual stream and of each head, order and scale of
    the neurons; and order of the heads, but for the order of the list. The one exception is a
    common factor on all writers of the stream, which the norms take out again up to their eps: it
    multiplies the norms of what writes.

    Args:
        subject: the model as it is, in any dtype.
        corpus: where the samples and the labels of its task come from.
        samples: even ones are fitted on, odd ones evaluated.
        block_size: samples that stay together in a batch; changes rounding alone.
        trainer_options: the Trainer's own.

    Raises:
        InputError: fewer than `LEAST_SAMPLES` samples or too few tokens for the model's width,
            states that are not finite, or labels that do not belong to the model's heads.
    """
    if samples.count < LEAST_SAMPLES:
        raise InputError(
            f"{samples.count} samples for a spec",
            expected=f"at least {LEAST_SAMPLES}: half of them fit linear maps from every site",
            fix=f"ask for {LEAST_SAMPLES} samples or more",
            code="spec.too-few-samples",
        )
    architecture = subject.architecture
    plain = subject.with_weights({name: w.double() for name, w in subject.weights().items()})
    folded = plain.with_weights(fold(plain.weights(), architecture))
    meter = SpecMeter(Case(folded, plain, Samples(fit=samples, evaluate=samples)))
    run_pass(
        [meter],
        corpus=corpus,
        samples=samples,
        block_size=block_size,
        capture=meter.captured,
        trainer_options=dict(trainer_options),
    )
    weights = folded.weights()
    factors = _Factors(weights, architecture)
    return Spec(
        parameters=architecture.parameters,
        folded=all(bool((weights[gain] == 1).all()) for gain in architecture.folds),
        heads=_heads(factors),
        mlps=_mlps(factors, alive=meter.alive()),
        features=meter.feature_spec(),
        samples=samples.count,
        tokens=int(meter.tokens.sum()),
        folding=_finite(float(meter.folding), "the difference between two logits"),
    )


class _Factors:
    """The two sides of every product, by the architecture's data: [.., d, inner] each."""

    def __init__(self, weights: Mapping[str, Tensor], architecture: Architecture) -> None:
        self._weights = {name: np.asarray(tensor.cpu()) for name, tensor in weights.items()}
        self._axes = architecture.axes
        self._pairs = [pair for _, pair in architecture.pairs]

    def of(self, group: str) -> Iterator[tuple[Paired, Array, Array]]:
        """Every pair whose inner axis has that group, in order of flow."""
        for pair in self._pairs:
            if pair.group == group:
                first, second = (self._side(n, pair.space) for n in (pair.first, pair.second))
                yield pair, first, second

    def _side(self, name: str, inner: str) -> Array:
        place = self._axes[name].index
        return np.moveaxis(self._weights[name], (place(RESIDUAL), place(inner)), (-2, -1))


def _heads(factors: _Factors) -> tuple[HeadSpec, ...]:
    found: dict[str, dict[str, float | None]] = {}
    for pair, first, second in factors.of("general-linear"):
        attention, _, tensor = pair.first.rpartition(".")
        kind = _PRODUCTS[tensor]
        for head, sides in enumerate(zip(first, second, strict=True)):
            component = f"{attention}.head.{head}"
            norm, rank = product(*sides)
            found.setdefault(component, {}).update(
                {
                    f"{kind}_norm": _finite(norm, f"the norm of the {kind} product of {component}"),
                    f"{kind}_rank": rank,
                }
            )
    return tuple(
        HeadSpec.model_validate({"component": component, **values})
        for component, values in found.items()
    )


def _mlps(factors: _Factors, *, alive: Mapping[str, int]) -> tuple[MlpSpec, ...]:
    found = []
    for pair, into, out in factors.of("permutation-positive-scale"):
        component = pair.first.rpartition(".")[0]
        norm = _finite(paired_norm(into, out), f"the norm of {component}")
        found.append(
            MlpSpec(component=component, neurons=into.shape[-1], alive=alive[component], norm=norm)
        )
    return tuple(found)


def _one_hot(what: str, values: Tensor, classes: int) -> Tensor:
    """[tokens, classes], one 1 a row."""
    largest = int(values.max()) if len(values) else 0
    if largest >= classes:
        raise InputError(
            f"the label {largest} of {what!r}, and {classes} classes in the model",
            expected="a class for every label of the samples",
            fix="use a model of this task",
            code="subject.unlabelled-head",
        )
    return one_hot(values, classes)


def _check_tokens(tokens: list[float], *, width: int) -> None:
    needed = _TOKENS_A_COORDINATE * (width + 1)
    if min(tokens) < needed:
        raise InputError(
            f"{min(tokens):.0f} tokens in one half of the samples",
            expected=f"at least {needed}, {_TOKENS_A_COORDINATE} a coefficient of a linear map "
            f"from {width} coordinates",
            fix="ask for more samples",
            code="spec.too-few-samples",
        )


def _finite(value: float, what: str) -> float:
    """`value`, if it is finite."""
    if not np.isfinite(value):
        raise InputError(
            f"{what}, which is not finite",
            expected="weights and states whose squares are finite in double precision",
            fix="use a model whose training has not diverged",
            code="spec.not-finite",
        )
    return value
