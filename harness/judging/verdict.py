"""The verdict as data: what the judge says, and what it rests on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prereg.canonical import canonical
from prereg.record import Record
from prereg.resolved import ControlRole, Sha256

JUDGE_VERSION = 1
"""Raised whenever the same registration and evidence would be judged differently."""

Word = Literal["PASS", "FAIL", "NOT_DIAGNOSTIC", "UNDECIDABLE", "INCONCLUSIVE"]
Standing = Literal["inside", "outside", "undecided", "undefined", "missing"]


class Estimate(Record):
    """A value with its interval and its sample."""

    value: float | None = Field(None, description="The statistic; none where undefined.")
    low: float | None = Field(None, description="Lower end of the deciding interval.")
    high: float | None = Field(None, description="Upper end of the deciding interval.")
    level: float | None = Field(None, description="Coverage of the interval.")
    blocks: int | None = Field(None, description="Number of blocks; of seeds, where pooled.")
    effective_blocks: float | None = Field(None, description="(sum w)^2 / sum w^2.")
    p_value: float | None = Field(None, description="Monte-Carlo p-value, where there is one.")
    undefined: str | None = Field(None, description="Why there is no value or interval.")


class ControlOutcome(Record):
    """How one control behaved for one member."""

    control: str = Field(description="Name of the control.")
    role: ControlRole = Field(description="What was expected of it.")
    standing: Standing = Field(description="Where it was proven to lie.")
    behaved: bool | None = Field(
        None,
        description="Whether it did what its role says; none if no role, or nothing was proven.",
    )
    estimate: Estimate | None = Field(None, description="Its value, if single-valued.")
    draws: int | None = Field(None, description="Number of draws, if random.")
    draws_inside: int | None = Field(None, description="Draws inside the accepted region.")
    median: float | None = Field(None, description="Median of the draws.")
    low_draw: float | None = Field(None, description="Smallest draw.")
    high_draw: float | None = Field(None, description="Largest draw.")
    rank: int | None = Field(None, description="Draws at or above the real value.")


class MemberVerdict(Record):
    """The verdict on one site, pair and arm of a claim."""

    site: str | None = Field(None, description="Site.")
    pair: str | None = Field(None, description="Pair.")
    arm: str | None = Field(None, description="Arm.")
    word: Word = Field(description="Verdict.")
    reason: str = Field(description="Why, in one sentence.")
    estimate: Estimate = Field(description="Value and deciding interval.")
    controls: tuple[ControlOutcome, ...] = Field(description="Every control.")


class ClaimVerdict(Record):
    """The verdict on a bar or a claim: its worst member."""

    name: str = Field(description="Bar name or claim id.")
    bar: bool = Field(description="Whether it is one of the four bars.")
    role: Literal["primary", "secondary"] = Field(description="Whether it decides.")
    statistic: str = Field(description="Versioned id.")
    kind: Literal["same", "differs"] = Field(description="Direction of the claim.")
    lower: float | None = Field(None, description="Lower end of the accepted region.")
    upper: float | None = Field(None, description="Upper end of the accepted region.")
    word: Word = Field(description="Verdict.")
    members: tuple[MemberVerdict, ...] = Field(description="One for each site, pair and arm.")


class Verdict(Record):
    """The verdict on a registration."""

    verdict: Literal["prebench/verdict/1"] = Field(description="Format of the file.")
    judge: int = Field(description="Version of the judge.")
    registration: Sha256 = Field(description="Id of the registration.")
    evidence: Sha256 = Field(description="sha256 of the evidence file.")
    word: Word = Field(description="The worst primary claim or bar.")
    deviated: bool = Field(description="Whether anything differed from what was frozen.")
    deviations: tuple[str, ...] = Field(description="What differed.")
    family: int = Field(description="Number of primary members, m.")
    level: float = Field(description="Confidence over the whole family.")
    claims: tuple[ClaimVerdict, ...] = Field(description="Bars, then claims, as registered.")
    abstained: dict[str, str] = Field(description="Reasons of the bars that abstain.")
    dropped_controls: dict[str, str] = Field(description="Default controls left out, and why.")

    def canonical(self) -> bytes:
        """The bytes of `verdict.json`; absent optional fields are left out."""
        return canonical(self.model_dump(mode="json", exclude_none=True))
