"""The verbs that load models: run and train."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import Home, Json, Reference
from harness.cli.output import add, emit, progress

Accelerator = Annotated[
    str, typer.Option("--accelerator", help="Lightning accelerator: cpu, gpu, auto ...")
]


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    add(app, run)
    add(app, train)


def run(
    registration: Reference,
    deviate: Annotated[
        str | None,
        typer.Option("--deviate", help="Reason to go on although something differs; recorded."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what earlier attempts have finished.")
    ] = False,
    accelerator: Accelerator = "cpu",
    workspace: Home = None,
    as_json: Json = False,
) -> None:
    """Measure claims and controls in a new attempt; evidence goes to the workspace."""
    from harness.run import run as measure
    from prereg.errors import InputError
    from prereg.workspace import Workspace

    home = Workspace.at(workspace)
    if home.resolve(registration).attempt is not None:
        raise InputError(
            f"the attempt {registration}",
            expected="a registration: every run is a new attempt",
            fix=f"prebench run {registration.partition('/')[0]}",
            code="run.names-attempt",
        )
    if deviate is not None and not deviate.strip():
        raise InputError(
            "an empty reason to deviate",
            expected="why it is run although something differs",
            fix='--deviate "REASON"',
            code="run.no-reason",
        )
    _stop_on_sigterm()
    done = measure(
        home,
        registration,
        deviate=deviate,
        fresh=fresh,
        trainer_options=_options(accelerator),
        progress=progress,
    )
    short = f"{done.registration[:12]}/{done.attempt}"
    emit(
        {
            "run": short,
            "id": done.registration,
            "attempt": done.attempt,
            "evidence": done.evidence,
            "deviations": list(done.deviations),
            "reused": list(done.reused),
            "seconds": round(done.seconds, 2),
        },
        as_json=as_json,
        text=lambda: (
            f"{short} finished in {done.seconds:.0f} s\nevidence {done.evidence}\n"
            f"next: prebench judge {short}"
        ),
    )


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="Shipped recipe by name, or a recipe file.")
    ],
    to: Annotated[Path, typer.Option("--to", help="New folder for the model.")],
    accelerator: Accelerator = "cpu",
    as_json: Json = False,
) -> None:
    """Train a model from a recipe, and measure its accuracy on fresh sequences."""
    from harness.training import train_to

    _stop_on_sigterm()
    card = train_to(recipe, to, trainer_options=_options(accelerator), progress=progress)

    def text() -> str:
        accuracy = ", ".join(f"{head} {share:.4%}" for head, share in card["accuracy"].items())
        return f"{card['name']} in {to}\nweights {card['weights']}\naccuracy: {accuracy}"

    emit(card, as_json=as_json, text=text)


def _stop_on_sigterm() -> None:
    """A request to end is an interrupt: the attempt is recorded as aborted, its stages are kept."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _options(accelerator: str) -> dict[str, Any]:
    """The Trainer's own options; only departures from the default are passed and recorded."""
    return {} if accelerator == "cpu" else {"accelerator": accelerator}
