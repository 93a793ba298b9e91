"""What the models are made of: the `spec` of `run.json`, checked, as small tables.

Exploratory, outside the evidence and not judged: which heads and neurons a model has, by numbers
that no change of basis inside the model alters, and how far its states linearly hold what the task
is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError, model_validator

from prereg.errors import IntegrityError
from prereg.record import Record
from reports.wording import NONE, number

KEY = "spec"
"""Where the models stand in `run.json`."""


class Head(Record):
    """An attention head, by the two products of its weights that act on the residual stream."""

    component: str = Field(description="Component id.")
    qk_norm: float = Field(ge=0, description="Frobenius norm of the product of query and key.")
    qk_rank: float | None = Field(ge=0, description="Its effective rank; none of a zero product.")
    ov_norm: float = Field(ge=0, description="Frobenius norm of the product of value and output.")
    ov_rank: float | None = Field(ge=0, description="Its effective rank; none of a zero product.")


class Mlp(Record):
    """An MLP."""

    component: str = Field(description="Component id.")
    neurons: int = Field(ge=0, description="Neurons.")
    alive: int = Field(ge=0, description="Neurons that are active somewhere in the sample.")
    norm: float = Field(ge=0, description="Root of sum |in|^2 |out|^2 over its neurons.")

    @model_validator(mode="after")
    def _alive_are_neurons(self) -> Mlp:
        if self.alive > self.neurons:
            raise ValueError(f"{self.alive} of {self.neurons} neurons are alive")
        return self


class Features(Record):
    """How well the states at each site linearly give each feature of the task."""

    sites: tuple[str, ...] = Field(description="Sites, in order of flow.")
    names: tuple[str, ...] = Field(description="Features.")
    r2: tuple[tuple[float | None, ...], ...] = Field(
        description="R^2 by site and feature; none where it is not defined."
    )

    @model_validator(mode="after")
    def _is_a_table(self) -> Features:
        if len(self.r2) != len(self.sites) or any(len(row) != len(self.names) for row in self.r2):
            raise ValueError("r2 has a row for each site, and in it a value for each name")
        return self


class Spec(Record):
    """What one model is made of."""

    parameters: int = Field(ge=0, description="Numbers that it consists of.")
    folded: bool = Field(description="Whether its norms' gains were folded into the weights.")
    heads: tuple[Head, ...] = Field(description="Attention heads, in order of flow.")
    mlps: tuple[Mlp, ...] = Field(description="MLPs, in order of flow.")
    features: Features = Field(description="Features of the task in its states.")
    samples: int = Field(ge=0, description="Sequences on which neurons and features were measured.")
    tokens: int = Field(ge=0, description="Positions of these sequences, padding left out.")
    folding: float | None = Field(
        None, ge=0, description="Largest change of a logit by folding, on these positions."
    )


class Models(Record):
    """The models of a registration."""

    reference: Spec = Field(description="The reference.")
    others: dict[str, Spec] = Field(description="The others, by label.")


@dataclass(frozen=True, slots=True)
class Table:
    """A small table about all models."""

    title: str
    says: str
    """What the numbers are."""
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    """For each model its rows; the first cell of each heads it."""


def models_of(run: Mapping[str, Any]) -> Models | None:
    """The models that `run.json` describes; none where it describes none.

    Raises:
        IntegrityError: they are described in another form.
    """
    if KEY not in run:
        return None
    try:
        return Models.model_validate_json(json.dumps(run[KEY]))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join((KEY, *(str(part) for part in first["loc"])))
        found = f"{where}: {first['msg']}"
        raise _refuse(
            found, "the models as run.json describes them: `reference`, and `others` by label"
        ) from error


def _refuse(found: str, expected: str) -> IntegrityError:
    return IntegrityError(
        found,
        expected=expected,
        fix="take run.json as the run wrote it, or run again",
        code="report.run",
    )


def run_of(data: bytes) -> dict[str, Any]:
    """The bytes of `run.json` as plain data.

    Raises:
        IntegrityError: they are no JSON object, or describe the models in another form.
    """
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refuse(str(error), "run.json to be a JSON object") from error
    if not isinstance(plain, dict):
        raise _refuse(f"a JSON {type(plain).__name__}", "run.json to be a JSON object")
    models_of(plain)
    return plain


def tables_of(models: Models | None) -> tuple[Table, ...]:
    """The tables of the page; none without models."""
    if models is None:
        return ()
    by_label = {"reference": models.reference, **models.others}
    found = [_whole(by_label), _heads(by_label), _mlps(by_label), _features(by_label)]
    return tuple(table for table in found if any(rows for _, rows in table.rows))


def _whole(models: Mapping[str, Spec]) -> Table:
    rows = []
    for label, spec in models.items():
        folded = "folded into the weights" if spec.folded else "not folded"
        cells = [_whole_number(spec.parameters), folded]
        cells.append(NONE if spec.folding is None else number(float(f"{spec.folding:.3g}")))
        cells += [_whole_number(spec.samples), _whole_number(spec.tokens)]
        rows.append((label, (tuple(cells),)))
    return Table(
        title="Size and sample",
        says="Numbers that each model consists of; whether the gains of its norms were folded into "
        "the weights behind them, and the most that this changed a logit; the sequences and "
        "positions (padding left out) on which neurons and features were measured.",
        heads=("Parameters", "Gains", "Change of a logit", "Sequences", "Positions"),
        rows=tuple(rows),
    )


def _heads(models: Mapping[str, Spec]) -> Table:
    return Table(
        title="Attention heads",
        says="Frobenius norm and effective rank (exp of the entropy of the squared singular "
        "values) of the two products through which a head acts on the residual stream, query with "
        "key (QK) and value with output (OV): no change of basis inside the head, and no rotation "
        "of the residual stream, alters them.",
        heads=("Head", "QK norm", "QK rank", "OV norm", "OV rank"),
        rows=tuple(
            (
                label,
                tuple(
                    (
                        head.component,
                        *map(_figures, (head.qk_norm, head.qk_rank, head.ov_norm, head.ov_rank)),
                    )
                    for head in spec.heads
                ),
            )
            for label, spec in models.items()
        ),
    )


def _mlps(models: Mapping[str, Spec]) -> Table:
    return Table(
        title="MLPs",
        says="Neurons that are active at one position of the sample at least, of all, and the root "
        "of the sum of |in|² |out|² over them: no order and no positive scale of the neurons "
        "alters them.",
        heads=("MLP", "Alive", "Neurons", "Norm"),
        rows=tuple(
            (
                label,
                tuple(
                    (mlp.component, str(mlp.alive), str(mlp.neurons), _figures(mlp.norm))
                    for mlp in spec.mlps
                ),
            )
            for label, spec in models.items()
        ),
    )


def _features(models: Mapping[str, Spec]) -> Table:
    names: dict[str, None] = {}
    for spec in models.values():
        names |= dict.fromkeys(spec.features.names)
    rows = []
    for label, spec in models.items():
        by_site = []
        for site, values in zip(spec.features.sites, spec.features.r2, strict=True):
            known = dict(zip(spec.features.names, values, strict=True))
            by_site.append((site, *(_share(known.get(name)) for name in names)))
        rows.append((label, tuple(by_site)))
    return Table(
        title="Task features in the states",
        says="R² of an affine map from the states at a site to a feature, on samples that it was "
        "not fitted on (below 0: worse than the mean): no change of basis of the states alters it; "
        f"{NONE} where the feature does not vary.",
        heads=("Site", *names),
        rows=tuple(rows),
    )


def _whole_number(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _figures(value: float | None) -> str:
    return NONE if value is None else number(float(f"{value:.4g}"))


def _share(value: float | None) -> str:
    return NONE if value is None else number(value, decimals=3)
