"""What a registration was resolved to: the facts that judge, report and verifier rely on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from prereg.record import Record

ControlRole = Literal["must-pass", "must-fail", "comparator", "not-applicable"]
Estimator = Literal[
    "mean",
    "rare_mean",
    "ratio",
    "one_minus_ratio",
    "difference",
    "ratio_fieller",
    "pearson",
    "spearman",
    "slope",
    "nrmse",
    "participation_u",
    "value_minus_median",
    "draws",
    "bracket",
    "exact",
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class StatisticSpec(Record):
    """A catalogue entry: one scalar for each site, pair and arm."""

    id: str = Field(description="family.name@version.", pattern=r"^[a-z][a-z0-9_.]*@[1-9][0-9]*$")
    title: str = Field(description="What it is called in a table.")
    formula: str = Field(description="Definition in words and symbols.")
    unit: str = Field(description="Unit, or `1` for a pure number.")
    lower: float | None = Field(None, description="Smallest possible value, if there is one.")
    upper: float | None = Field(None, description="Largest possible value, if there is one.")
    source: str = Field(description="Where the definition comes from.")
    estimator: Estimator = Field(description="How value and interval follow from the evidence.")
    parameters: dict[str, float] = Field(
        default={}, description="Frozen constants of the estimator (bar B: tau, c)."
    )
    split: str = Field("evaluate", description="Split on whose blocks it is evaluated.")
    per_site: bool = Field(description="Whether there is one value for each site.")
    arms: tuple[str, ...] = Field(
        (),
        description="Arms that a claim can be about, if any; `{output}` and `{draw}` stand for the "
        "output heads and the corpus' draws, until a plan freezes them.",
    )
    shown_arms: tuple[str, ...] = Field(
        (), description="Arms measured beside them; no control has a role, so none is claimed."
    )
    roles: dict[Literal["same", "differs"], dict[str, ControlRole]] = Field(
        description="For each direction of a claim, the role of every control."
    )
    roles_within: dict[Literal["same", "differs"], dict[str, ControlRole]] = Field(
        default={},
        description="The same within one model; frozen in the place of `roles`, and then left out.",
    )


class ControlSpec(Record):
    """A control: which field of the case it replaces, and by what."""

    name: str = Field(description="Name.")
    replaces: tuple[str, ...] = Field(description="Fields of the case that it replaces.")
    by: str = Field(description="What stands there instead.")
    random: bool = Field(description="Whether it is a distribution of draws.")
    named: bool = Field(
        False, description="Whether its model is named by the registration; else it is not run."
    )


class Series(Record):
    """Values that a figure shows beside a claim's own: measured on the real case, not judged."""

    label: str = Field(description="Text in the legend.", min_length=1)
    statistic: str = Field(description="Id of the statistic; its unit is the figure's.")
    arm: str | None = Field(None, description="Arm; where left out, that of the claim.")


class FigureSpec(Record):
    """A figure as data; one panel a pair (and site, where the statistic has sites).

    `sites`: one statistic against the sites, on one axis. At every site stand the values of the
    first claim about the statistic with its controls, and beside them what else the evidence holds
    there of the series named in `beside`.

    `curve`: the statistic upwards against the statistic `across`, one point for each of its arms,
    in the order of `arms` and `shown_arms`, joined by a line.

    `null`: how the draws of the statistic's null are distributed, with the real value marked; its
    estimator is `draws`.

    The last two show evidence of the real case, whether a claim is about it or not.
    """

    id: str = Field(description="File name without suffix.", pattern=r"^[a-z0-9-]+$")
    title: str = Field(description="Caption.")
    kind: Literal["sites", "curve", "null"] = Field("sites", description="What is drawn.")
    statistic: str = Field(description="Id of the statistic: of a null, its value and draws.")
    across: str | None = Field(
        None, description="Id of the statistic on the horizontal axis; of a curve only."
    )
    noun: str = Field(
        "draw", min_length=1, description="What one draw of the null is, in the singular."
    )
    beside: tuple[Series, ...] = Field(
        (),
        max_length=12,
        description="Values drawn beside the claim's own, from the evidence: no controls, nothing "
        "judged. Of `sites` only.",
    )

    @model_validator(mode="after")
    def _kind_fits(self) -> FigureSpec:
        if (self.kind == "curve") != (self.across is not None):
            raise ValueError("`across` is the horizontal axis of a `curve`, and of no other kind")
        if self.across == self.statistic:
            raise ValueError("the two axes of a `curve` are two statistics")
        if self.beside and self.kind != "sites":
            raise ValueError("`beside` belongs to figures of kind `sites`")
        if self.noun != "draw" and self.kind != "null":
            raise ValueError("`noun` belongs to figures of kind `null`")
        return self


class ResolvedSubject(Record):
    """A model, by what it is and not by what it is called."""

    written: str = Field(description="The reference as written.")
    kind: Literal["zoo", "path", "hf"] = Field(description="Kind of reference.")
    architecture: str = Field(description="Architecture family.")
    commit: str | None = Field(None, description="Revision, where the reference has one.")
    config: Sha256 = Field(description="sha256 of the config, defaults filled in.")
    weights: Sha256 = Field(description="sha256 over sorted (name, dtype, shape, bytes).")


class ResolvedSubjects(Record):
    """The models of the registration."""

    reference: ResolvedSubject = Field(description="The reference.")
    others: dict[str, ResolvedSubject] = Field(description="The others, by label.")
    controls: dict[str, ResolvedSubject] = Field(
        default={}, description="Models that controls put in the other's place, by control."
    )


class ResolvedCorpus(Record):
    """The corpus, by what it draws."""

    digest: Sha256 = Field(description="sha256 over the first samples of every split.")


class ResolvedShape(Record):
    """What the models of the registration have in common."""

    components: tuple[str, ...] = Field(description="Components whose output can be edited.")
    outputs: tuple[str, ...] = Field(description="Output heads.")


class ResolvedCode(Record):
    """The code that froze the registration."""

    version: str = Field(description="Version of the prebench distribution.")
    sha256: Sha256 = Field(description="sha256 over its sorted source and data files.")


class ResolvedSuite(Record):
    """The suite, its controls and figures."""

    name: str = Field(description="Name.")
    version: int = Field(description="Version.")
    controls: tuple[ControlSpec, ...] = Field(description="Controls that will be run.")
    draws: int = Field(ge=1, description="Draws of each random control.")
    figures: tuple[FigureSpec, ...] = Field(description="Figures of the report.")


class Resolved(Record):
    """Everything that the hypothesis refers to."""

    subjects: ResolvedSubjects = Field(description="Models, by weight digest.")
    corpus: ResolvedCorpus = Field(description="Corpus, by content digest.")
    shape: ResolvedShape = Field(description="Components and output heads of the models.")
    code: ResolvedCode = Field(description="Version of the code.")
    suite: ResolvedSuite = Field(description="Suite, controls, figures.")
    statistics: dict[str, StatisticSpec] = Field(description="Statistics in use, by id.")
    sites: tuple[str, ...] = Field(description="The plan's sites, in order of flow.")
    judge: int = Field(ge=1, description="Version of the judge.")
    environment: dict[str, str] = Field(
        default={}, description="Library versions, where the environment is pinned."
    )
