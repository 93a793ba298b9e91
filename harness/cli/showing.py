"""The verbs that show what there is: suites and models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Json
from harness.cli.output import add, emit, table
from harness.cli.spec import SAMPLES, show_spec
from prereg.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.suite import Suite


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    add(app, suites)
    add(app, models)


def suites(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One suite, in full.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List suites: statistics with definition and unit, controls, hypothesis files."""
    from harness.suite import suite, suites

    chosen = [suite(name)] if name else list(suites().values())
    emit(
        {"suites": [_suite(one) for one in chosen]},
        as_json=as_json,
        text=lambda: "\n\n".join(_suite_text(one, whole=name is not None) for one in chosen),
    )


def models(
    reference: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="zoo:NAME or path:FOLDER; default: list the zoo."),
    ] = None,
    spec: Annotated[
        bool,
        typer.Option(
            "--spec", help="Show its constructive spec: heads, neurons, features; gains folded."
        ),
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", help=f"Sequences that the spec is measured on; default: {SAMPLES}."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, max=2**53 - 1, help="Corpus seed of these sequences; default: 0."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the shipped models, or show what an adapter sees in one; --spec: what it is made of."""
    if not spec and (samples is not None or seed is not None):
        raise _without("--samples or --seed without --spec", "both say what a spec is measured on")
    if spec and reference is None:
        raise _without("--spec without a model", "the model whose spec it is")
    if reference is None:
        _zoo(as_json=as_json)
    elif spec:
        show_spec(
            reference,
            samples=SAMPLES if samples is None else samples,
            seed=seed or 0,
            as_json=as_json,
        )
    else:
        _model(reference, as_json=as_json)


def _without(found: str, expected: str) -> InputError:
    return InputError(
        found, expected=expected, fix="prebench models REF --spec", code="models.incomplete-call"
    )


def _zoo(*, as_json: bool) -> None:
    """Every shipped model."""
    from harness.subjects.reference import CARD, zoo

    cards = {n: _card(f) for n, f in zoo().items() if (f / CARD).exists()}  # not checkpoints
    emit(
        {"models": [{"reference": f"zoo:{name}", **card} for name, card in cards.items()]},
        as_json=as_json,
        text=lambda: table(
            [
                (
                    f"zoo:{name}",
                    card["weights"][:12],
                    f"{card['sequences']:,}",
                    card["task"],
                    _accuracy(card),
                )
                for name, card in cards.items()
            ],
            header=(
                "model",
                "weights",
                "training sequences",
                "task",
                "accuracy on fresh sequences",
            ),
        ),
    )


def _model(reference: str, *, as_json: bool) -> None:
    """What an adapter sees in a model."""
    from harness.subjects.reference import locate

    found = locate(reference)
    architecture = found.architecture
    seen: dict[str, Any] = {
        "reference": reference,
        "architecture": architecture.name,
        "weights": found.resolved.weights,
        "parameters": architecture.parameters,
        "heads": architecture.heads,
        "sites": architecture.sites,
        "components": list(architecture.components),
        "residual_group": architecture.family.residual_group.model_dump(),
    }

    def text() -> str:
        group = architecture.family.residual_group
        return "\n".join(
            (
                f"{reference}: {architecture.name}, {seen['parameters']:,} parameters",
                f"weights {found.resolved.weights}",
                f"output heads: {', '.join(f'{h} ({n})' for h, n in architecture.heads.items())}",
                f"residual gauge group: {group.folded} with gains folded, else {group.unfolded}",
                table(list(architecture.sites.items()), header=("site", "width")),
                f"components: {', '.join(architecture.components)}",
            )
        )

    emit(seen, as_json=as_json, text=text)


def _suite(suite: Suite) -> dict[str, Any]:
    return {
        "name": suite.name,
        "version": suite.version,
        "title": suite.title,
        "statistics": [
            entry.model_dump(mode="json", exclude_none=True) for entry in suite.catalogue
        ],
        "controls": [control.model_dump(mode="json") for control in suite.controls],
        "plan": suite.plan.model_json_schema(),
        "hypotheses": list(suite.hypotheses),
    }


def _suite_text(suite: Suite, *, whole: bool) -> str:
    rows = [(entry.id, entry.unit, entry.title) for entry in suite.catalogue]
    lines = [f"{suite.name} (version {suite.version}): {suite.title}", table(rows)]
    if whole:
        lines += [f"{entry.id} [{entry.unit}]\n  {entry.formula}" for entry in suite.catalogue]
        lines.append(table([(c.name, c.by) for c in suite.controls], header=("control", "by")))
    lines.append(
        f"hypothesis files: {', '.join(suite.hypotheses)}  (prebench new {suite.name} NAME)"
    )
    return "\n".join(lines)


def _card(folder: Path) -> dict[str, Any]:
    from harness.subjects.reference import CARD

    card: dict[str, Any] = json.loads((folder / CARD).read_bytes())
    return card


def _accuracy(card: dict[str, Any]) -> str:
    return ", ".join(f"{head} {share:.2%}" for head, share in card["accuracy"].items())
