"""The hypothesis file as data: what is claimed, about which models, judged how.

`Hypothesis` is what the user writes. `Registration` is what is frozen: the hypothesis with every
default filled in, and everything that it referred to resolved to digests, versions and formulae, so
that judge, report and verifier need neither the suite nor the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from prereg.canonical import canonical, digest, reread
from prereg.record import Record
from prereg.regions import Region
from prereg.resolved import Resolved
from prereg.rules import BAR_NAMES, insist, mode_fault, names_fault, region_fault

Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Text = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"\S")]
Kind = Literal["same", "differs"]
Role = Literal["primary", "secondary"]


class Author(Record):
    """A person who answers for the registration."""

    name: Text = Field(description="Name as it should be cited.", examples=["A. Author"])
    orcid: str | None = Field(
        None, description="ORCID iD.", pattern=r"^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$"
    )


class SuiteChoice(Record):
    """Which suite measures."""

    name: Label = Field(
        description="Name of an installed suite (`prebench suites`).", examples=["rotation"]
    )
    version: int = Field(
        ge=1, description="Version of the suite that the claims were written for.", examples=[1]
    )


class Subjects(Record):
    """The models under test, by reference."""

    mode: Literal["pair", "within"] = Field(
        "pair", description="`pair` compares models; `within` is about the reference alone."
    )
    reference: Text = Field(
        description="The reference model: zoo:NAME or path:FOLDER.",
        examples=["zoo:dyck3/indep-100"],
    )
    others: dict[Label, Text] = Field(
        default={}, description="The models compared with it, by the label that names the pair."
    )
    controls: dict[Label, Text] = Field(
        default={},
        description="Models that controls put in the other's place, by the control's name.",
    )
    shared_io: Literal["required", "forbidden", "unchecked"] = Field(
        "unchecked", description="Whether the pair must (or must not) share input/output weights."
    )

    @model_validator(mode="after")
    def _mode_fits(self) -> Subjects:
        insist(mode_fault({"mode": self.mode, "others": self.others}))
        return self


class CorpusChoice(Record):
    """Which samples are drawn."""

    name: Label = Field(description="Name of the corpus.", examples=["dyck3"])
    seed: int = Field(ge=0, lt=2**53, description="Root seed of the samples.", examples=[7])
    draw: Label = Field("standard", description="Which of the corpus' distributions is sampled.")
    block: int = Field(16, ge=1, le=4096, description="Consecutive samples in a block.")
    splits: dict[Label, Annotated[int, Field(ge=1, lt=2**40)]] = Field(
        min_length=1,
        description="Number of samples in each split; the splits are disjoint.",
        examples=[{"evaluate": 4096}],
    )


class Accepts(Record):
    """An accepted region, written as `below`, `above`, `between`, or `equivalent_to` + `margin`."""

    below: float | None = Field(None, description="Accept values below this (statistic's unit).")
    above: float | None = Field(None, description="Accept values above this (statistic's unit).")
    between: tuple[float, float] | None = Field(
        None, description="Accept values between these two (statistic's unit)."
    )
    equivalent_to: float | None = Field(None, description="Accept values within `margin` of this.")
    margin: float | None = Field(None, gt=0, description="Half-width around `equivalent_to`.")

    @model_validator(mode="after")
    def _one_region(self) -> Accepts:
        insist(region_fault({name: getattr(self, name) for name in Accepts.model_fields}))
        return self

    @property
    def region(self) -> Region:
        """The accepted region."""
        if self.below is not None:
            return Region(upper=self.below)
        if self.above is not None:
            return Region(lower=self.above)
        if self.between is not None:
            return Region(*self.between)
        centre, margin = self.equivalent_to or 0.0, self.margin or 0.0
        return Region(centre - margin, centre + margin)


class Range(Record):
    """What a claim ranges over."""

    sites: tuple[Text, ...] | Literal["all"] = Field(
        "all", description="Sites, or all of the plan's sites."
    )
    pairs: tuple[Label, ...] | Literal["all"] = Field(
        "all", description="Labels of `others`, or all of them."
    )


class Judged(Accepts):
    """What a bar and a claim have in common."""

    statistic: str = Field(
        description="Versioned id of the statistic.",
        examples=["alignment.ev.paired@1"],
        pattern=r"^[a-z][a-z0-9_.]*@[1-9][0-9]*$",
    )
    kind: Kind = Field(
        description="`same`: the structure holds (self must pass); `differs`: it does not.",
        examples=["same"],
    )
    arm: Label | None = Field(None, description="Arm, where the statistic has arms.")
    over: Range = Field(Range(), description="Sites and pairs; one verdict for each.")
    pool: Literal["none", "seeds"] = Field(
        "none", description="`seeds` judges one value over all pairs (leave-one-seed-out)."
    )


class Bar(Judged):
    """A bar with its threshold."""


class Abstained(Record):
    """A bar that is not judged."""

    abstain: Text = Field(description="Why this bar is not judged.", examples=["not measured here"])


def _abstains(bar: Any) -> Literal["judged", "abstained"]:
    given = "abstain" in bar if isinstance(bar, dict) else isinstance(bar, Abstained)
    return "abstained" if given else "judged"


BarOrReason = Annotated[
    Annotated[Bar, Tag("judged")] | Annotated[Abstained, Tag("abstained")],
    Discriminator(_abstains),
]


_ABSTAIN = {"abstain": "not measured here"}


class Bars(Record):
    """All four bars; each is judged or abstains with a reason."""

    B: BarOrReason = Field(description="Behavioural: KL between the outputs.", examples=[_ABSTAIN])
    P: BarOrReason = Field(
        description="Parametric: weight error after symmetry alignment.", examples=[_ABSTAIN]
    )
    C: BarOrReason = Field(
        description="Causal: patch effects, predicted against measured.", examples=[_ABSTAIN]
    )
    Pr: BarOrReason = Field(
        description="Predictive: ablation losses, predicted vs measured.", examples=[_ABSTAIN]
    )


class Claim(Judged):
    """A further claim."""

    id: Label = Field(description="Name of the claim, unique in the file.", examples=["same-state"])
    role: Role = Field("primary", description="Only primary claims decide the registration.")


class Decision(Record):
    """How the verdict is reached."""

    level: float = Field(0.95, ge=0.5, le=0.9999, description="Confidence over the whole family.")
    attempt: Literal["first-completed"] | Annotated[int, Field(ge=1)] = Field(
        "first-completed", description="Which attempt `judge ID` takes."
    )

    def takes(self, finished: Sequence[int]) -> int | None:
        """The attempt that decides, given the numbers of the finished ones in order."""
        if self.attempt == "first-completed":
            return finished[0] if finished else None
        return self.attempt if self.attempt in finished else None


class Dropped(Record):
    """A default control that the registration leaves out; the report shows it."""

    control: Label = Field(description="Name of the control.")
    reason: Text = Field(description="Why it is left out.", examples=["does not apply"])


class ControlChanges(Record):
    """Departures from the suite's own controls."""

    add: tuple[Label, ...] = Field((), description="Further controls of the suite.")
    drop: tuple[Dropped, ...] = Field((), description="Default controls left out, with reasons.")


class Hypothesis(Record):
    """A hypothesis file, as the user writes it."""

    schema_: Literal["prebench/registration/1"] = Field(
        alias="schema", description="Format of the file.", examples=["prebench/registration/1"]
    )
    title: Text = Field(
        description="The claim in one sentence.",
        examples=["One rotation carries one model into the other"],
    )
    authors: tuple[Author, ...] = Field(
        min_length=1, description="Who answers for it.", examples=[[{"name": "A. Author"}]]
    )
    question: Text = Field(
        description="What the run is to decide.", examples=["Do both models compute the same?"]
    )
    prior_access: Literal["nothing-run", "not-opened", "none-seen", "results-seen"] = Field(
        description="What the authors had seen of these results when they registered.",
        examples=["nothing-run"],
    )
    suite: SuiteChoice = Field(
        description="Which suite measures.", examples=[{"name": "rotation", "version": 1}]
    )
    subjects: Subjects = Field(
        description="The models under test.",
        examples=[{"reference": "zoo:dyck3/indep-100", "others": {"b": "zoo:dyck3/indep-101"}}],
    )
    corpus: CorpusChoice = Field(
        description="The samples.",
        examples=[{"name": "dyck3", "seed": 7, "splits": {"evaluate": 4096}}],
    )
    plan: dict[str, Any] = Field(
        description="The suite's own settings, checked by the suite.",
        examples=[{"sites": ["blocks.0.hook_resid_post"]}],
    )
    bars: Bars = Field(description="The four bars.")
    claims: tuple[Claim, ...] = Field((), description="Further claims.")
    decision: Decision = Field(Decision(), description="How the verdict is reached.")
    controls: Literal["default"] | ControlChanges = Field(
        "default", description="The suite's own controls, or departures from them."
    )
    environment: Literal["free", "pinned"] = Field(
        "free", description="`pinned` makes another library version a deviation."
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Hypothesis:
        insist(names_fault([claim.id for claim in self.claims]))
        return self

    @field_validator("plan")
    @classmethod
    def _plan_is_plain(cls, plan: dict[str, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = reread(plan)
        return plain

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of the hypothesis file, for editors and other tools."""
        return cls.model_json_schema(by_alias=True)

    def judged(self) -> dict[str, Bar | Claim]:
        """Bars that do not abstain and claims, by name, in the order in which they are reported."""
        bars = {name: getattr(self.bars, name) for name in BAR_NAMES}
        judged: dict[str, Bar | Claim] = {
            name: bar for name, bar in bars.items() if isinstance(bar, Bar)
        }
        return judged | {claim.id: claim for claim in self.claims}

    def abstained(self) -> dict[str, str]:
        """Reasons of the bars that abstain, by name."""
        bars = {name: getattr(self.bars, name) for name in BAR_NAMES}
        return {n: bar.abstain for n, bar in bars.items() if isinstance(bar, Abstained)}


class Registration(Record):
    """What is frozen: the parsed hypothesis and everything it refers to, resolved."""

    claim: Hypothesis = Field(description="The hypothesis file, defaults filled in.")
    resolved: Resolved = Field(description="Digests, versions and formulae it was resolved to.")

    def plain(self) -> dict[str, Any]:
        """Plain data, as frozen; absent optional fields are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def resolves_its_own_models(self) -> bool:
        """Whether what was resolved is, name by name, what the hypothesis names."""
        written, resolved = self.claim.subjects, self.resolved.subjects
        groups = ((written.others, resolved.others), (written.controls, resolved.controls))
        return written.reference == resolved.reference.written and all(
            named == {label: one.written for label, one in found.items()} for named, found in groups
        )

    def canonical(self) -> bytes:
        """The frozen bytes."""
        return canonical(self.plain())

    @property
    def id(self) -> str:
        """sha256 of the frozen bytes."""
        return digest(self.plain())
