"""The constructive spec of a model as a record: what it consists of, in no basis (no torch).

A spec is the model itself with its norm gains folded into the weights behind them, described by
numbers that no change of basis alters: of the residual stream, of a head, of the hidden neurons.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from prereg.record import Record


class HeadSpec(Record):
    """One attention head by its two products, which are all that the model reads of its weights.

    ||A||_F is the root of the sum of squared entries. The rank is exp(-sum_i p_i log p_i) with p_i
    the squared singular values divided by their sum: null for a product that is zero. Of folded
    weights [d, d_head] and [d_head, d], the product's entries are a form on the residual stream.
    """

    component: str = Field(description="Id of the head.")
    qk_norm: float = Field(ge=0, description="||W_Q W_K^T||_F, without the factor 1/sqrt(d_head).")
    qk_rank: float | None = Field(ge=1, description="Effective rank of W_Q W_K^T.")
    ov_norm: float = Field(ge=0, description="||W_V W_O||_F.")
    ov_rank: float | None = Field(ge=1, description="Effective rank of W_V W_O.")


class MlpSpec(Record):
    """One MLP by its hidden neurons."""

    component: str = Field(description="Id of the MLP.")
    neurons: int = Field(ge=0, description="Hidden neurons.")
    alive: int = Field(ge=0, description="Those above zero on at least one token of the samples.")
    norm: float = Field(
        ge=0,
        description="sqrt(sum_i |in_i|^2 |out_i|^2), in_i and out_i the weights of neuron i: no "
        "order of the neurons and no positive scale of one changes it.",
    )

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> Self:
        if self.alive > self.neurons:
            raise ValueError(f"{self.alive} of {self.neurons} neurons are alive")
        return self


class FeatureSpec(Record):
    """How well features of the task are read off the residual stream by a linear map.

    R^2 = 1 - sum |y - y^|^2 / sum |y - mean|^2 over tokens and coordinates of a feature y, of the
    affine least-squares prediction y^. It is fitted on the samples of even index and evaluated on
    those of odd index, whose mean it is held against, so that it can be negative. Directions whose
    variance is below 1e-12 of the mean squared length of the states are not read.
    """

    sites: tuple[str, ...] = Field(description="Sites in the basis of the residual stream.")
    names: tuple[str, ...] = Field(
        description="token: one-hot; position: the index; labels of each output head: one-hot."
    )
    r2: tuple[tuple[float | None, ...], ...] = Field(
        description="R^2 by site and feature; null where the feature does not vary."
    )

    @model_validator(mode="after")
    def _one_value_each(self) -> Self:
        shape = [len(row) for row in self.r2]
        if shape != [len(self.names)] * len(self.sites):
            raise ValueError(
                f"expected {len(self.sites)} rows of {len(self.names)} values, got rows of {shape}"
            )
        return self


class Spec(Record):
    """The constructive spec of one model."""

    parameters: int = Field(ge=0, description="Trained parameters of the model.")
    folded: bool = Field(description="Whether every norm gain is 1 now.")
    heads: tuple[HeadSpec, ...] = Field(description="Attention heads, in order of flow.")
    mlps: tuple[MlpSpec, ...] = Field(description="MLPs, in order of flow.")
    features: FeatureSpec = Field(description="The residual stream against the task.")
    samples: int = Field(ge=1, description="Samples that were streamed through the model.")
    tokens: int = Field(ge=1, description="Their tokens, without padding.")
    folding: float = Field(
        ge=0, description="Largest difference that folding made to a logit, on those tokens, fp64."
    )
