"""Architectures as data: tensors, axes, sites and foldable norms of one family (no torch)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from math import prod
from typing import Any, Literal

from pydantic import Field, model_validator

from harness.data import as_json, load_yaml
from prereg.errors import InputError
from prereg.record import Record

RESIDUAL = "residual"
"""The space of the residual stream, in every family."""


class ResidualGroup(Record):
    """Which changes of basis of the residual stream leave the outputs alone."""

    folded: str = Field(description="Group once the norm gains are folded away.")
    unfolded: str = Field(description="Group with generic gains in place.")


class Permuted(Record):
    """Entries of one axis that change places together in some tensors of a block."""

    space: str = Field(description="Space of the axis.")
    tensors: tuple[str, ...] = Field(description="Tensors that have it.")


class Paired(Record):
    """Two tensors of a block that meet on an inner axis, so that only their product counts."""

    first: str = Field(description="Gets M on the inner axis.")
    second: str = Field(description="Gets M^-T on it.")
    space: str = Field(description="Space of the inner axis.")
    group: Literal["general-linear", "permutation-positive-scale"] = Field(
        description="What M may be: any invertible matrix, or permutations and positive scales."
    )


class Gauge(Record):
    """What leaves the outputs alone beside changes of basis of the residual stream."""

    permuted: tuple[Permuted, ...] = Field((), description="Axes whose entries change places.")
    pairs: tuple[Paired, ...] = Field((), description="Pairs of tensors with an inner axis.")
    writers: tuple[str, ...] = Field(
        (), description="Tensors that write to the stream: one positive factor, up to the eps."
    )


class Family(Record):
    """One architecture file; names are patterns over {layer}, {head} and {output}."""

    architecture: str = Field(description="Name of the family.")
    spaces: dict[str, str] = Field(description="Config field that gives the size of each space.")
    sites: dict[str, str] = Field(description="Site id and the space of its last axis.")
    components: tuple[str, ...] = Field(description="Components whose output can be edited.")
    tensors: dict[str, tuple[str, ...]] = Field(description="Tensor and the space of each axis.")
    constants: tuple[str, ...] = Field((), description="Tensors that are fixed, not trained.")
    folds: dict[str, tuple[str, ...]] = Field(
        description="Norm gain and the readers it folds into."
    )
    shared_io: tuple[str, ...] = Field(description="Input and output tensors of a shared-IO pair.")
    ordered_readouts: tuple[str, ...] = Field(
        (), description="Readouts, [.., class], of output heads whose classes have an order."
    )
    residual_group: ResidualGroup = Field(description="Gauge group of the residual stream.")
    gauge: Gauge = Field(Gauge(), description="The rest of the gauge group.")

    @model_validator(mode="after")
    def _gauge_fits(self) -> Family:
        if len(self.gauge.permuted) > 1:
            raise ValueError(
                "`gauge.permuted` has more than one axis: one order a block is searched"
            )
        for permuted in self.gauge.permuted:
            for tensor in permuted.tensors:
                self._insist(tensor, permuted.space, RESIDUAL)
        for pair in self.gauge.pairs:
            self._pair_fits(pair)
        for tensor in self.gauge.writers:
            self._insist(tensor, RESIDUAL)
        return self

    def _pair_fits(self, pair: Paired) -> None:
        """Beside the stream and the inner axis, heads have the permuted one, neurons nothing."""
        if pair.first == pair.second:
            raise ValueError(f"`gauge.pairs` pairs {pair.first} with itself")
        for tensor in (pair.first, pair.second):
            self._insist(tensor, pair.space, RESIDUAL)
            further = tuple(s for s in self.tensors[tensor] if s not in (RESIDUAL, pair.space))
            expected = tuple(p.space for p in self.gauge.permuted if tensor in p.tensors)
            if pair.group == "permutation-positive-scale":
                expected = ()
            elif not expected:
                raise ValueError(f"`gauge.pairs` names {tensor}, whose heads no `permuted` orders")
            if further != expected:
                raise ValueError(
                    f"`gauge.pairs` names {tensor} with the further axes {list(further)}, "
                    f"where {list(expected)} is expected"
                )

    def _insist(self, tensor: str, *spaces: str) -> None:
        if tensor not in self.tensors:
            raise ValueError(f"`gauge` names a tensor {tensor}, which does not exist")
        for space in spaces:
            if self.tensors[tensor].count(space) != 1:
                raise ValueError(
                    f"`gauge` names {tensor} with one axis {space}, but it has the axes "
                    f"{list(self.tensors[tensor])}"
                )


class Architecture:
    """A family with the sizes of one model: its pattern names written out.

    Args:
        family: the family's data.
        config: the model's `config.json`, with defaults filled in.
    """

    def __init__(self, family: Family, config: Mapping[str, Any]) -> None:
        self.family = family
        self.config = config
        self._layers = range(int(config["n_layers"]))
        self._heads = range(int(config["n_heads"]))
        self._outputs = tuple(config["heads"])

    @property
    def name(self) -> str:
        """Name of the family."""
        return self.family.architecture

    @property
    def sites(self) -> dict[str, int]:
        """Width of every site, by id, in order of flow."""
        written = [
            (name, self.size(space))
            for pattern, space in self.family.sites.items()
            for name, _ in self._expand(pattern)
        ]
        order = list(self.family.sites)
        depth = {name: self._flow(name, order) for name, _ in written}
        return dict(sorted(written, key=lambda item: depth[item[0]]))

    @property
    def site_spaces(self) -> dict[str, str]:
        """Space of the last axis of every site, by id."""
        return {
            name: space
            for pattern, space in self.family.sites.items()
            for name, _ in self._expand(pattern)
        }

    @property
    def components(self) -> tuple[str, ...]:
        """Ids of the components whose output can be edited."""
        return tuple(n for pattern in self.family.components for n, _ in self._expand(pattern))

    @property
    def head_components(self) -> dict[tuple[int, int], str]:
        """Component of every attention head, by block and number."""
        return {
            (binding["layer"], binding["head"]): name
            for pattern in self.family.components
            for name, binding in self._expand(pattern)
            if {"layer", "head"} <= binding.keys()
        }

    @property
    def component_kinds(self) -> tuple[tuple[str, ...], ...]:
        """Components that differ in the number of their attention head alone, together."""
        kinds: dict[tuple[str, Any], list[str]] = {}
        for pattern in self.family.components:
            for name, binding in self._expand(pattern):
                kinds.setdefault((pattern, binding.get("layer")), []).append(name)
        return tuple(tuple(names) for names in kinds.values())

    @property
    def heads(self) -> dict[str, int]:
        """Class count of every output head."""
        return {name: int(size) for name, size in self.config["heads"].items()}

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """Space of every axis of every tensor."""
        return {
            name: spaces
            for pattern, spaces in self.family.tensors.items()
            for name, _ in self._expand(pattern)
        }

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor, from the axis table and the config."""
        return {
            name: tuple(
                self.heads[binding["output"]] if space == "class" else self.size(space)
                for space in spaces
            )
            for pattern, spaces in self.family.tensors.items()
            for name, binding in self._expand(pattern)
        }

    @property
    def folds(self) -> dict[str, tuple[str, ...]]:
        """Readers into which each norm gain folds."""
        return {
            gain: tuple(
                name for reader in readers for name, _ in self._expand(reader, fixed=binding)
            )
            for pattern, readers in self.family.folds.items()
            for gain, binding in self._expand(pattern)
        }

    @property
    def shared_io(self) -> tuple[str, ...]:
        """Names of the input and output tensors."""
        return tuple(n for pattern in self.family.shared_io for n, _ in self._expand(pattern))

    @property
    def layers(self) -> range:
        """Numbers of the blocks."""
        return self._layers

    @property
    def writers(self) -> tuple[str, ...]:
        """Tensors that write to the residual stream."""
        return tuple(n for p in self.family.gauge.writers for n, _ in self._expand(p))

    @property
    def pairs(self) -> tuple[tuple[int, Paired], ...]:
        """Pairs of tensors that meet on an inner axis, written out, each with its block."""
        return tuple(
            (
                layer,
                pair.model_copy(
                    update={
                        "first": pair.first.format(layer=layer),
                        "second": pair.second.format(layer=layer),
                    }
                ),
            )
            for layer in self._layers
            for pair in self.family.gauge.pairs
        )

    @property
    def permuted(self) -> tuple[tuple[int, Permuted], ...]:
        """Axes whose entries change places, written out, each with its block."""
        return tuple(
            (
                layer,
                permuted.model_copy(
                    update={"tensors": tuple(t.format(layer=layer) for t in permuted.tensors)}
                ),
            )
            for layer in self._layers
            for permuted in self.family.gauge.permuted
        )

    @property
    def ordered_readouts(self) -> tuple[str, ...]:
        """Readouts of output heads whose classes have an order."""
        named = (n for pattern in self.family.ordered_readouts for n, _ in self._expand(pattern))
        return tuple(name for name in named if name in self.axes)

    @property
    def mirrored(self) -> dict[str, str]:
        """For each tensor of a block, the same tensor of the block as far from the other end."""
        last = self._layers[-1]
        return {
            name: pattern.format(**{**binding, "layer": last - binding["layer"]})
            for pattern in self.family.tensors
            for name, binding in self._expand(pattern)
            if "layer" in binding
        }

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        fixed = {n for pattern in self.family.constants for n, _ in self._expand(pattern)}
        return sum(prod(shape) for name, shape in self.shapes.items() if name not in fixed)

    def size(self, space: str) -> int:
        """Dimension of a space."""
        return int(self.config[self.family.spaces[space]])

    def _flow(self, name: str, order: list[str]) -> tuple[int, int]:
        """Position of a site along the forward pass: its block, then its place in the file."""
        parts = name.split(".")
        if parts[0] != "blocks":
            return -1, order.index(name)
        return int(parts[1]), order.index(".".join(("blocks", "{layer}", *parts[2:])))

    def _expand(
        self, pattern: str, *, fixed: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every name that a pattern stands for, with what its variables are bound to."""
        choices: dict[str, Any] = {
            "layer": self._layers,
            "head": self._heads,
            "output": self._outputs,
        }
        bindings: list[dict[str, Any]] = [dict(fixed or {})]
        for variable, values in choices.items():
            if "{" + variable + "}" in pattern and variable not in (fixed or {}):
                bindings = [{**b, variable: value} for b in bindings for value in values]
        for binding in bindings:
            yield pattern.format(**binding), binding


@cache
def families() -> dict[str, Family]:
    """Every architecture family that ships, by name."""
    folder = resources.files("harness.subjects.architectures")
    found = [
        Family.model_validate_json(as_json(load_yaml(entry)))
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".yaml")
    ]
    return {family.architecture: family for family in found}


def family(name: str) -> Family:
    """The family of that name.

    Raises:
        InputError: where there is none.
    """
    known = families()
    if name not in known:
        raise InputError(
            f"architecture {name!r}",
            expected=f"one of {', '.join(sorted(known))}",
            fix="use a model of a family that `prebench models` lists",
            code="subject.unknown-architecture",
        )
    return known[name]
