"""The verbs of the verdict: judge, publish, verify, demo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Home, Json, Reference
from harness.cli.output import add, emit, progress, table

if TYPE_CHECKING:
    from harness.judging.verdict import Verdict
    from reports.verify import Verification

Bundle = Annotated[Path, typer.Argument(metavar="FOLDER", help="A published bundle.")]


Replace = Annotated[bool, typer.Option("--replace", help="Replace an older bundle in that folder.")]

_NOT_DECIDING = "this is not the attempt that the registration's decision rule takes"


def add_to(app: typer.Typer) -> None:
    """Adds the verbs."""
    add(app, judge)
    add(app, publish)
    add(app, verify)
    add(app, demo)


def judge(registration: Reference, workspace: Home = None, as_json: Json = False) -> None:
    """Hold evidence against the frozen thresholds; the exit code is the verdict."""
    from harness.judging import exit_code
    from harness.verdicts import judge_attempt
    from prereg.workspace import Workspace

    judged = judge_attempt(Workspace.at(workspace), registration)
    verdict = judged.verdict

    def text() -> str:
        lines = [verdict_table(verdict), f"attempt {judged.attempt} of {judged.attempts}"]
        if not judged.decides:
            lines.append(_NOT_DECIDING)
        if judged.unrecorded:
            lines.append(f"not entered in the ledger: {judged.unrecorded}")
        return "\n".join(lines)

    emit(
        {
            "id": verdict.registration,
            "attempt": judged.attempt,
            "decides": judged.decides,
            "recorded": not judged.unrecorded,
            "verdict": verdict.model_dump(mode="json", exclude_none=True),
        },
        as_json=as_json,
        text=text,
    )
    raise typer.Exit(exit_code(verdict))


def publish(
    registration: Reference,
    to: Annotated[Path, typer.Option("--to", help="Folder of the bundle.")],
    replace: Replace = False,
    workspace: Home = None,
    as_json: Json = False,
) -> None:
    """Write a bundle: report.html and everything that is needed to check it."""
    from harness.verdicts import chosen_attempt
    from prereg.workspace import Workspace
    from reports.bundle import publish as write

    home = Workspace.at(workspace)
    identifier, attempt, decides = chosen_attempt(home, registration)
    head = write(home, identifier, attempt, to=to, replace=replace)
    emit(
        {
            "id": identifier,
            "attempt": attempt,
            "decides": decides,
            "bundle": str(to),
            "head": head,
        },
        as_json=as_json,
        text=lambda: (
            f"{to / 'report.html'}\nhead {head}\ncheck it with: prebench verify {to}"
            + ("" if decides else f"\n{_NOT_DECIDING}")
        ),
    )


def verify(
    folder: Bundle,
    head: Annotated[
        str | None, typer.Option("--head", help="Hash of a ledger line, known from elsewhere.")
    ] = None,
    verdict: Annotated[
        bool, typer.Option("--verdict", help="Let the exit code speak the verdict.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a bundle, offline and without its models: digests, chain, values, verdict, report."""
    from harness.comparison import compare
    from prereg.errors import InputError
    from reports.verify import verification_exit
    from reports.verify import verify as check

    if not folder.exists():
        raise InputError(
            f"no folder {folder}",
            expected="a bundle: the folder that `prebench publish` wrote",
            fix="check the path",
            code="verify.no-folder",
        )
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise InputError(
            f"the head {head!r}",
            expected="64 hex digits: the hash of a ledger line",
            fix="`prebench log` and `prebench publish` print it",
            code="verify.bad-head",
        )
    found = check(folder, head=head, compare=compare)
    emit(
        found.model_dump(mode="json", exclude_none=True),
        as_json=as_json,
        text=lambda: _verification_text(folder, found),
    )
    code = verification_exit(found)
    if verdict and code == 0:
        code = _published_exit(folder)
    raise typer.Exit(code)


def demo(
    to: Annotated[Path, typer.Option("--to", help="Folder of the bundle.")] = Path("prebench-demo"),
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """All of it on shipped models: register, run, judge, publish, verify."""
    from harness.cli.demo import run_demo

    done = run_demo(to, replace=replace, progress=progress)
    found = done.verification

    def text() -> str:
        return "\n".join(
            (
                verdict_table(done.verdict),
                f"published {to / 'report.html'} in {done.seconds:.0f} s",
                _verification_text(to, found),
            )
        )

    emit(
        {
            "bundle": str(to),
            "seconds": round(done.seconds, 2),
            "verdict": done.verdict.model_dump(mode="json", exclude_none=True),
            "verification": found.model_dump(mode="json", exclude_none=True),
        },
        as_json=as_json,
        text=text,
    )
    from reports.verify import verification_exit

    raise typer.Exit(verification_exit(found))


def verdict_table(verdict: Verdict) -> str:
    """A row a member: what was claimed, where, its value, interval and word; below, the reasons.

    Those of members that do not PASS and whose interval does not say why by itself.
    """
    from harness.judging import sentence
    from prereg.regions import Region
    from reports.wording import SYMBOLS

    rows: list[tuple[object, ...]] = []
    reasons: list[str] = []
    for claim in verdict.claims:
        region = Region(
            -float("inf") if claim.lower is None else claim.lower,
            float("inf") if claim.upper is None else claim.upper,
        )
        for member in claim.members:
            found = member.estimate
            value = "undefined" if found.undefined is not None else "bounds"
            value = value if found.value is None else f"{found.value:.4g}"
            interval = ""
            if found.low is not None and found.high is not None:
                interval = f"[{found.low:.4g}, {found.high:.4g}]"
            where = " ".join(part for part in (member.site, member.pair, member.arm) if part)
            word = f"{SYMBOLS[member.word]} {member.word}"
            rows.append((claim.name, where, str(region), value, interval, word))
            plain = member.word in ("PASS", "FAIL", "INCONCLUSIVE")
            if not plain or (member.word == "INCONCLUSIVE" and "control" in member.reason):
                place = f" ({where})" if where else ""
                reasons.append(f"{claim.name}{place}: {member.reason}")
    rows += [(name, "", "", "", "", f"abstained: {why}") for name, why in verdict.abstained.items()]
    header = ("judged", "where", "accepts", "value", "interval", "verdict")
    summary = f"{SYMBOLS[verdict.word]} {sentence(verdict)}"
    return "\n".join((table(rows, header=header), *reasons, summary))


def _verification_text(folder: Path, found: Verification) -> str:
    state = "holds" if found.rejudged else "digests hold, the rest was not checked"
    lines = [f"{folder}: " + (state if found.ok else "does NOT hold")]
    lines += [f"  broken: {problem}" for problem in found.problems]
    lines += [f"  note: {note}" for note in found.notes]
    if found.ok:
        again = "re-judged, the same" if found.rejudged else "as it states, not re-judged"
        flag = ", DEVIATED" if found.deviated else ""
        lines.append(f"  verdict {found.word}{flag} ({again})")
        lines.append(f"  head {found.head}")
    return "\n".join(lines)


def _published_exit(folder: Path) -> Any:
    from harness.judging import exit_code
    from harness.judging.verdict import Verdict

    return exit_code(Verdict.model_validate_json((folder / "verdict.json").read_bytes()))
