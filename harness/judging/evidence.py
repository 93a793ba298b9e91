"""Evidence: per statistic the per-block sums that value, interval and verdict are functions of."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from prereg.record import Record
from prereg.resolved import Estimator, Sha256

MAIN = "main"
"""Name of the case that the claims are about; every other case is a control."""


class Undefined(Record):
    """A value that does not exist, and why; never 0, -1 or NaN."""

    undefined: str = Field(min_length=1, description="Why there is no value.")


class EvidenceHeader(Record):
    """First line of an evidence file."""

    evidence: Literal["prebench/evidence/1"] = Field(description="Format of the file.")
    registration: Sha256 = Field(description="Id of the registration it was measured for.")
    deviations: tuple[str, ...] = Field((), description="What differed from what was frozen.")


class EvidenceRecord(Record):
    """One scalar of one case, in the one form that its estimator reads.

    Forms: `columns` (per-block sums, with the stated `value`); `draws` (one scalar a draw: a random
    control, or the null of a p-valued statistic, then with its `value`); `value` alone (exact);
    `bounds`; `undefined`.
    """

    statistic: str = Field(description="Versioned id.")
    site: str | None = Field(None, description="Site, where the statistic has sites.")
    pair: str | None = Field(None, description="Label of the other model; none within one model.")
    arm: str | None = Field(None, description="Arm, where the statistic has arms.")
    case: str = Field(description="`main` or the name of a control.")
    estimator: Estimator = Field(description="How the value follows from the columns.")
    blocks: tuple[int, ...] | None = Field(None, description="Index of each block.")
    columns: dict[str, tuple[float, ...]] | None = Field(
        None, description="Per-block sums by column; each as long as `blocks`."
    )
    draws: tuple[float | Undefined, ...] | None = Field(None, description="One scalar a draw.")
    value: float | None = Field(None, description="The statistic, as the measurement states it.")
    bounds: tuple[float, float] | None = Field(None, description="Lower and upper bound.")
    undefined: str | None = Field(None, description="Why there is no value.")

    @model_validator(mode="after")
    def _one_form(self) -> EvidenceRecord:
        forms = [
            self.columns is not None,
            self.draws is not None,
            self.bounds is not None,
            self.undefined is not None,
            self.value is not None and self.columns is None and self.draws is None,
        ]
        if sum(forms) != 1:
            raise ValueError(
                "an evidence record has exactly one of columns, draws, value, bounds, undefined"
            )
        if (self.columns is None) != (self.blocks is None):
            raise ValueError("`columns` and `blocks` go together")
        if self.columns is not None:
            if self.value is None:
                raise ValueError("a record with columns states its value")
            lengths = {len(column) for column in self.columns.values()} | {len(self.blocks or ())}
            if len(lengths) != 1:
                raise ValueError("every column is as long as `blocks`")
        return self

    @property
    def key(self) -> tuple[str, str | None, str | None, str | None, str]:
        """Identity of the record inside an evidence file."""
        return (self.statistic, self.site, self.pair, self.arm, self.case)


class Evidence(Record):
    """A whole evidence file."""

    header: EvidenceHeader
    records: tuple[EvidenceRecord, ...]
