"""What a registration was resolved to: the facts that judge, report and verifier rely on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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
    arms: tuple[str, ...] = Field((), description="Arms that a claim can be about, if any.")
    shown_arms: tuple[str, ...] = Field(
        (), description="Arms measured beside them; no control has a role, so none is claimed."
    )
    roles: dict[Literal["same", "differs"], dict[str, ControlRole]] = Field(
        description="For each direction of a claim, the role of every control."
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
    """A figure as data: one statistic against sites, one panel a pair, on one axis.

    At every site stand the values of the first claim about the statistic with its controls, and
    beside them what else the evidence holds there of the series named in `beside`.
    """

    id: str = Field(description="File name without suffix.", pattern=r"^[a-z0-9-]+$")
    title: str = Field(description="Caption.")
    statistic: str = Field(description="Id of the statistic on the vertical axis.")
    beside: tuple[Series, ...] = Field(
        (),
        max_length=12,
        description="Values drawn beside the claim's own, from the evidence: no controls, nothing "
        "judged.",
    )


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
    code: ResolvedCode = Field(description="Version of the code.")
    suite: ResolvedSuite = Field(description="Suite, controls, figures.")
    statistics: dict[str, StatisticSpec] = Field(description="Statistics in use, by id.")
    sites: tuple[str, ...] = Field(description="The plan's sites, in order of flow.")
    judge: int = Field(ge=1, description="Version of the judge.")
    environment: dict[str, str] = Field(
        default={}, description="Library versions, where the environment is pinned."
    )
