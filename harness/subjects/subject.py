"""The one interface to a model under test, and its implementation for the Dyck transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from harness.corpora.block import Block
from harness.subjects.architecture import Architecture, family
from harness.subjects.dyck import DyckTransformer, initialise
from harness.subjects.dyck_config import DyckConfig
from harness.subjects.tap import Edit, Tap
from prereg.errors import InputError


class Out(NamedTuple):
    """What a forward pass gives: logits {head: [b, t, classes]}, captured {site: [b, t, width]}."""

    logits: Mapping[str, Tensor]
    captured: Mapping[str, Tensor]


class Subject(Protocol):
    """A model under test. Subjects never change: another set of weights is another subject."""

    @property
    def architecture(self) -> Architecture:
        """Sites, components, heads and axis table."""

    def weights(self) -> Mapping[str, Tensor]:
        """Every tensor by name; the axes are in `architecture.axes`."""

    def with_weights(self, weights: Mapping[str, Tensor]) -> Subject:
        """A subject of the same shape with these weights, in their dtype."""

    def fresh(self, *, generator: torch.Generator) -> Subject:
        """A subject of the same shape, newly initialised (untrained)."""

    def to(self, device: torch.device) -> Subject:
        """The same subject on a device."""

    def forward(
        self, block: Block, *, capture: Sequence[str] = (), edits: Mapping[str, Edit] | None = None
    ) -> Out:
        """One forward pass; `edits` act at sites or component outputs, `capture` names sites."""

    def resume(self, site: str, states: Tensor, block: Block) -> Mapping[str, Tensor]:
        """Logits {head: [b, t, classes]} of the forward pass that goes on from `states` at `site`.

        The logits of `forward(block, edits={site: lambda _: states})`, at the cost of the layers
        behind the site.

        Args:
            site: a site of the residual stream.
            states: [b, t, d], in the model's dtype.
            block: the samples that the states belong to.

        Raises:
            InputError: `site` is not on the residual stream.
            ValueError: the states are not [b, t, d] of this block and model.
        """


class DyckSubject:
    """A Dyck transformer as a subject.

    Args:
        config: its shape.
        weights: every tensor of the axis table, all of one dtype.

    Attributes:
        model: the torch module itself, frozen.
    """

    def __init__(self, config: DyckConfig, weights: Mapping[str, Tensor]) -> None:
        self.config = config
        self.architecture = Architecture(family("dyck"), config.model_dump())
        dtype = next(iter(weights.values())).dtype
        self.model = DyckTransformer(config).to(dtype)
        self.model.load_state_dict(dict(weights), strict=True)
        self.model.requires_grad_(False).eval()
        self._copies: dict[torch.device, DyckSubject] = {}

    def weights(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return dict(self.model.state_dict())

    def with_weights(self, weights: Mapping[str, Tensor]) -> DyckSubject:
        """A subject of the same shape with these weights, in their dtype."""
        return DyckSubject(self.config, weights)

    def fresh(self, *, generator: torch.Generator) -> DyckSubject:
        """A subject of the same shape, newly initialised (untrained)."""
        model = DyckTransformer(self.config)
        initialise(model, generator=generator)
        dtype = self.model.embed.dtype
        return DyckSubject(self.config, {n: w.to(dtype) for n, w in model.state_dict().items()})

    def to(self, device: torch.device) -> DyckSubject:
        """The same subject on a device; a copy is made once and kept."""
        if device == self.model.embed.device:
            return self
        if device not in self._copies:
            moved = {name: tensor.to(device) for name, tensor in self.weights().items()}
            copy = DyckSubject(self.config, moved)
            copy.model.to(device)
            self._copies[device] = copy
        return self._copies[device]

    def forward(
        self, block: Block, *, capture: Sequence[str] = (), edits: Mapping[str, Edit] | None = None
    ) -> Out:
        """One forward pass; `edits` act at sites or component outputs, `capture` names sites."""
        if not capture and not edits:
            return Out(self.model(block.ids), {})
        tap = Tap(capture=capture, edits=edits or {})
        logits = self.model(block.ids, tap)
        tap.settle()
        return Out(logits, tap.captured)

    def resume(self, site: str, states: Tensor, block: Block) -> Mapping[str, Tensor]:
        """Logits of the forward pass that goes on from `states`, [b, t, d], at a residual site."""
        sites = [name for name, _ in self.model.flow]
        if site not in sites:
            raise InputError(
                f"{site!r}, from which no forward pass can go on",
                expected=f"a site of the residual stream: {', '.join(sites)}",
                fix="name a site of the residual stream",
                code="subject.cannot-resume",
            )
        expected = (*block.ids.shape, self.config.d_model)
        if states.shape != expected:
            raise ValueError(f"expected states of shape {expected}, got {tuple(states.shape)}")
        return self.model.resume(site, states)
