"""The verbs around the hypothesis file: new, check, register, amend, log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Home, HypothesisFile, Json
from harness.cli.output import add, duration, emit, table

if TYPE_CHECKING:
    from harness.resolve import Prepared
    from prereg.chain import Entry


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    add(app, new)
    add(app, check)
    add(app, register)
    add(app, amend)
    add(app, log)


def new(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="See `prebench suites`.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Hypothesis file of the suite; default: its own."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a commented hypothesis file, ready to edit."""
    from harness.suite import suite as find
    from prereg.near import unknown

    files = find(suite).hypotheses
    wanted = name or suite
    if wanted not in files:
        raise unknown(
            f"no hypothesis file {wanted!r} in suite {suite}",
            wanted,
            tuple(files),
            code="suite.unknown-hypothesis",
        )
    text = files[wanted].read_text(encoding="utf-8")
    emit({"suite": suite, "name": wanted, "text": text}, as_json=as_json, text=text.rstrip)


def check(file: HypothesisFile, as_json: Json = False) -> None:
    """Look everything up and say what could be decided; nothing is frozen."""
    from harness.outlook import outlook

    prepared, _ = _prepare(file)
    found = outlook(prepared)

    def text() -> str:
        claim = prepared.registration.claim
        lines = [
            f"{claim.title}",
            f"would freeze to {found.id[:12]}",
            table(
                [
                    (name, judged.statistic, judged.kind, judged.region, found.members[name])
                    for name, judged in claim.judged().items()
                ],
                header=("judged", "statistic", "kind", "accepted region", "members"),
            ),
            *(["what could PASS, known before any data:"] if found.reach else ()),
            *(f"  {name}: {said}" for name, said in found.reach.items()),
            *(f"bar {name} abstains: {reason}" for name, reason in claim.abstained().items()),
            f"{found.family} primary members, each with an interval at {found.member_level:.4%}; "
            f"{found.blocks} evaluation blocks",
            f"controls: {', '.join(found.controls)} (random ones: {found.draws} draws)",
            *(
                ()
                if found.seconds is None
                else (f"run time: about {duration(found.seconds)} on one core of this machine",)
            ),
            *(f"warning: {warning}" for warning in found.warnings),
        ]
        return "\n".join(lines)

    emit({"check": "ok", **found.plain()}, as_json=as_json, text=text)


def register(file: HypothesisFile, workspace: Home = None, as_json: Json = False) -> None:
    """Freeze a hypothesis file: canonical bytes, sha256, an entry in the ledger."""
    from harness.outlook import refuse_undecidable
    from prereg.workspace import Workspace

    home = Workspace.at(workspace)
    prepared, source = _prepare(file)
    refuse_undecidable(prepared)
    identifier = prepared.registration.id
    fresh = home.register(prepared.registration, source, suffix=_suffix(file))
    state = "registered" if fresh else "was registered before, unchanged"
    emit(
        {"id": identifier, "new": fresh, "head": home.ledger.head()},
        as_json=as_json,
        text=lambda: f"{identifier[:12]} {state}\nid {identifier}",
    )


def amend(
    registration: Annotated[str, typer.Argument(metavar="ID", help="The registration to amend.")],
    file: HypothesisFile,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in every report.")],
    workspace: Home = None,
    as_json: Json = False,
) -> None:
    """Register a linked successor; the old registration stays."""
    from harness.outlook import refuse_undecidable
    from prereg.workspace import Workspace

    home = Workspace.at(workspace)
    old = home.resolve(registration).registration
    prepared, source = _prepare(file)
    refuse_undecidable(prepared)
    identifier = prepared.registration.id
    fresh = home.amend(old, prepared.registration, source, suffix=_suffix(file), reason=reason)
    emit(
        {"id": identifier, "supersedes": old, "new": fresh, "head": home.ledger.head()},
        as_json=as_json,
        text=lambda: (
            f"{identifier[:12]} amends {old[:12]}"
            + (f": {reason}" if fresh else " already; nothing was recorded")
            + f"\nid {identifier}"
        ),
    )


def log(workspace: Home = None, as_json: Json = False) -> None:
    """List registrations, attempts, verdicts, amendments and publications, in order."""
    from prereg.workspace import Workspace

    home = Workspace.at(workspace)
    contents = home.ledger.read()
    entries = contents.entries
    killed: list[dict[str, Any]] = [
        {"registration": state.registration, "attempt": state.number}
        for one in entries
        if one.event == "registered"
        for state in home.attempts(str(one.body["registration"]))
        if state.state == "aborted" and state.ended is None
    ]

    def text() -> str:
        lines = [table([(e.seq, e.at, e.event, *_what(e)) for e in entries])]
        lines += [f"aborted: {k['registration'][:12]}/{k['attempt']}" for k in killed]
        lines += [f"head {home.ledger.head()}"] if entries else []
        if contents.torn:
            lines.append("a torn last line is left out: the next entry moves it aside")
        return "\n".join(line for line in lines if line) or f"nothing registered in {home.root}"

    emit(
        {
            "workspace": str(home.root),
            "head": home.ledger.head(),
            "entries": [entry.model_dump(mode="json") for entry in entries],
            "aborted": killed,
            "torn": bool(contents.torn),
        },
        as_json=as_json,
        text=text,
    )


def _prepare(file: Path) -> tuple[Prepared, bytes]:
    from harness.resolve import prepare
    from prereg.hypothesis import read_hypothesis

    hypothesis, source = read_hypothesis(file)
    return prepare(hypothesis), source


def _suffix(file: Path) -> str:
    return "json" if file.suffix.lower() == ".json" else "yaml"


def _what(entry: Entry) -> tuple[str, str]:
    """Which registration or attempt an entry is about, and its most telling fact."""
    body: dict[str, Any] = entry.body
    about = str(body.get("registration", ""))[:12]
    if "attempt" in body:
        about += f"/{body['attempt']}"
    for fact in ("reason", "code", "word", "manifest", "evidence", "stage"):
        if fact in body:
            value = str(body[fact])
            told = value[:12] if fact in ("manifest", "evidence") else value
            again = f", from attempt {body['reused_from']}" if "reused_from" in body else ""
            label = "verdict" if fact == "word" else fact
            return about, f"{label} {told}{again}"
    return about, ""
