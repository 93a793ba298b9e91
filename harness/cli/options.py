"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Home = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        help="Workspace folder (default: $PREBENCH_HOME, else .prebench).",
        show_default=False,
    ),
]
Reference = Annotated[
    str, typer.Argument(metavar="ID", help="Registration id or its beginning; ID/N is attempt N.")
]
HypothesisFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Hypothesis file (YAML 1.2, or JSON).")
]
