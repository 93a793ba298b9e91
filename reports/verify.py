"""The stranger's check of a published bundle: offline, without models, trusting nobody.

Three stages; each reads only what the stage before proved to be whole.

1. The folder: plain files only, the ledger one chain, its last line the manifest's digest, every
   file as the manifest states it, none missing, none added.
2. The arrows: the registration has the id under which it was entered, evidence and run are those
   that the ledger states for the attempt, the verdict is one that was entered.
3. The contents: values and verdict are computed again from the evidence, the page is rendered again
   and compared byte for byte, the figures are drawn again where the same library is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from harness.judging import judge, read_evidence
from harness.judging.evidence import Evidence
from harness.judging.verdict import JUDGE_VERSION, Verdict
from prereg.canonical import sha256, short
from prereg.chain import Entry, verify_chain
from prereg.errors import Exit, PrebenchError
from prereg.hypothesis import parse_hypothesis
from prereg.record import Record
from prereg.registration import Registration
from reports import manifest as names
from reports.audit import REPORT_VERSION, FileFact, Material, render
from reports.differences import differences, first_difference
from reports.figures import draw, drawing_version, same_drawing
from reports.history import facts_of
from reports.intake import read_folder
from reports.manifest import Manifest
from reports.models import run_of

MOST_PROBLEMS = 20
"""Differences of one verdict that are listed."""

# What reading, judging or rendering a file that a stranger made can raise besides our own errors.
_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class Verification(Record):
    """What a check found."""

    ok: bool = Field(description="Whether the bundle holds.")
    problems: tuple[str, ...] = Field(description="What broke, each naming the file or line.")
    notes: tuple[str, ...] = Field(description="What was not checked, or is worth knowing.")
    head: str | None = Field(description="Hash of the ledger's last line, if the chain holds.")
    word: str | None = Field(description="The published verdict, if it could be read.")
    deviated: bool = Field(description="Whether it carries the flag DEVIATED.")
    rejudged: bool = Field(description="Whether values and verdict were computed again.")
    registration: str | None = Field(description="Id of the registration, if known.")
    attempt: int | None = Field(description="The attempt that was judged, if known.")


def verification_exit(verification: Verification) -> Exit:
    """0 where the bundle holds, 3 where it does not, 11 where it could not be judged again."""
    if not verification.ok:
        return Exit.INTEGRITY
    return Exit.DONE if verification.rejudged else Exit.INCOMPLETE


Comparison = Callable[[Registration], tuple[list[str], list[str]]]
"""Problems and notes of a frozen registration, against what is installed here."""


def verify(
    folder: Path, *, head: str | None = None, compare: Comparison | None = None
) -> Verification:
    """What a stranger can say about a bundle; every fault is a problem, never an exception.

    Args:
        folder: the bundle.
        head: hash of a ledger line that is known from elsewhere; it has to be in the ledger.
        compare: holds the frozen definitions against the installed suite and models; without it
            they are taken as the bundle states them, and that is noted.
    """
    check = _Check(compare=compare)
    for stage in (_folder, _arrows, _contents):
        if not check.problems:
            stage(check, Path(folder))
        if stage is _folder and head is not None:
            _known_head(check, head)
    return Verification(
        ok=not check.problems,
        problems=tuple(check.problems),
        notes=tuple(check.notes),
        head=check.entries[-1].hash if check.entries else None,
        word=_word(check),
        deviated=bool(check.verdict and check.verdict.deviated),
        rejudged=check.rejudged and not check.problems,
        registration=check.manifest.registration if check.manifest else None,
        attempt=check.manifest.attempt if check.manifest else None,
    )


def _word(check: _Check) -> str | None:
    """The published word; of another version's verdict, what it says it is."""
    if check.verdict is not None:
        return check.verdict.word
    if check.foreign:
        with suppress(*_MALFORMED):
            word = _plain(check.data[names.VERDICT]).get("word")
            return word if isinstance(word, str) else None
    return None


@dataclass
class _Check:
    """What is known so far."""

    compare: Comparison | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: Mapping[str, bytes] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    manifest: Manifest | None = None
    registration: Registration | None = None
    evidence: Evidence | None = None
    verdict: Verdict | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = False
    rejudged: bool = False

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Whatever breaks inside becomes a problem of the file `name`."""
        try:
            yield
        except PrebenchError as error:
            self.problems.append(f"{name}: {error.found}; expected {error.expected}")
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            self.problems.append(f"{name}: {where}: {first['msg']}")
        except _MALFORMED as error:
            self.problems.append(f"{name}: cannot be read ({type(error).__name__}: {error})")


# --- 1. the folder --------------------------------------------------------------------------------


def _folder(check: _Check, folder: Path) -> None:
    check.data = read_folder(folder, check.problems)
    if not check.data and check.problems:
        return
    with check.naming(names.LEDGER):
        check.entries = verify_chain(check.data.get(names.LEDGER, b""))
        if not check.entries:
            check.problems.append(f"{names.LEDGER}: missing or empty; a bundle carries the ledger")
    with check.naming(names.MANIFEST):
        if names.MANIFEST not in check.data:
            check.problems.append(f"{names.MANIFEST}: missing")
            return
        data = check.data[names.MANIFEST]
        check.manifest = Manifest.model_validate_json(data)
        if check.manifest.canonical() != data:
            check.problems.append(f"{names.MANIFEST}: not in canonical form")
        _listed(check, check.manifest)
    if check.entries:
        _published(check, check.entries[-1])


def _listed(check: _Check, manifest: Manifest) -> None:
    found = set(check.data) - names.UNLISTED
    stated = set(manifest.files)
    for path in sorted(stated - found):
        check.problems.append(f"{path}: in the manifest, but missing")
    for path in sorted(found - stated):
        check.problems.append(f"{path}: in the folder, but not in the manifest")
    for path in sorted(set(names.NEEDED) - stated):
        check.problems.append(f"{names.MANIFEST}: does not list {path}")
    if not stated & set(names.HYPOTHESES):
        check.problems.append(f"{names.MANIFEST}: does not list the hypothesis file")
    for path in sorted(stated & found):
        if names.entry_of(check.data[path]) != manifest.files[path]:
            check.problems.append(f"{path}: its bytes do not have the digest in the manifest")


def _published(check: _Check, last: Entry) -> None:
    place = f"{names.LEDGER} line {last.seq + 1}"
    if last.event != "published":
        check.problems.append(f"{place}: the last line is `{last.event}`, expected `published`")
        return
    digest = sha256(check.data.get(names.MANIFEST, b""))
    if last.body.get("manifest") != digest:
        check.problems.append(f"{names.MANIFEST}: does not have the digest of {place}")
    manifest = check.manifest
    if manifest is None:
        return
    for key, value in (("registration", manifest.registration), ("attempt", manifest.attempt)):
        if last.body.get(key) != value:
            check.problems.append(f"{place}: {key} is not the manifest's")


def _known_head(check: _Check, head: str) -> None:
    if not check.entries:
        return
    for line in check.entries:
        if line.hash == head:
            after = len(check.entries) - 1 - line.seq
            check.notes.append(f"the known head is line {line.seq + 1}; {after} line(s) follow it")
            return
    check.problems.append(f"{names.LEDGER}: no line has the known head {head}")


# --- 2. the arrows --------------------------------------------------------------------------------


def _arrows(check: _Check, _: Path) -> None:
    manifest = check.manifest
    if manifest is None:
        return
    check.foreign = (manifest.judge, manifest.report) != (JUDGE_VERSION, REPORT_VERSION)
    if check.foreign:
        check.notes.append(
            f"digests hold, not re-judged: judge {manifest.judge} and report {manifest.report} "
            f"made it, here are judge {JUDGE_VERSION} and report {REPORT_VERSION}"
        )
    if sha256(check.data[names.REGISTRATION]) != manifest.registration:
        check.problems.append(f"{names.REGISTRATION}: does not have the id of the manifest")
    with check.naming(names.LEDGER):
        _attempt(check, manifest)
    stamped = any(line.event == "stamped" for line in check.entries)
    check.notes.append(
        "the ledger has a time stamp; it was not checked here"
        if stamped
        else "times are those of a local clock: no time stamp witnesses them"
    )
    # What another version wrote may have another form: only its digests are compared.
    if not check.foreign:
        _read(check, manifest)


def _read(check: _Check, manifest: Manifest) -> None:
    """The files as data, each about the same registration, attempt and evidence."""
    with check.naming(names.REGISTRATION):
        data = check.data[names.REGISTRATION]
        check.registration = Registration.model_validate_json(data)
        if check.registration.canonical() != data:
            check.problems.append(f"{names.REGISTRATION}: not in canonical form")
    with check.naming(names.EVIDENCE):
        check.evidence = read_evidence(check.data[names.EVIDENCE])
        if check.evidence.header.registration != manifest.registration:
            check.problems.append(f"{names.EVIDENCE}: was measured for another registration")
    with check.naming(names.RUN):
        check.run = run_of(check.data[names.RUN])
    with check.naming(names.VERDICT):
        data = check.data[names.VERDICT]
        check.verdict = Verdict.model_validate_json(data)
        if check.verdict.canonical() != data:
            check.problems.append(f"{names.VERDICT}: not in canonical form")
        if check.verdict.registration != manifest.registration:
            check.problems.append(f"{names.VERDICT}: is about another registration")
        if check.verdict.evidence != sha256(check.data[names.EVIDENCE]):
            check.problems.append(f"{names.VERDICT}: rests on other evidence")
        if check.verdict.judge != manifest.judge:
            check.problems.append(f"{names.MANIFEST}: names another judge than {names.VERDICT}")


def _attempt(check: _Check, manifest: Manifest) -> None:
    """The ledger's own words about what was published, in the order in which it must say them."""
    entries = check.entries
    mine = [e for e in entries if e.body.get("registration") == manifest.registration]
    tried = [e for e in mine if e.body.get("attempt") == manifest.attempt]
    steps: Sequence[tuple[str, Sequence[Entry]]] = (
        ("registered", mine),
        ("attempt-started", tried),
        ("attempt-finished", tried),
        ("judged", tried),
    )
    before = -1
    for event, among in steps:
        line = next((e for e in among if e.event == event and _fits(check, e)), None)
        what = short(manifest.registration)
        if line is None:
            stated = "" if event == "attempt-started" else " with these digests"
            check.problems.append(
                f"{names.LEDGER}: no `{event}` line for {what}, attempt {manifest.attempt}{stated}"
                f"{_culprit(check, event, among)}"
            )
        elif line.seq < before:
            check.problems.append(f"{names.LEDGER} line {line.seq + 1}: `{event}` comes too early")
        else:
            before = line.seq


def _attempt_says(check: _Check, evidence: Evidence, registration: Registration) -> None:
    """The attempt ran the code that was frozen, or deviated; and the evidence says the same."""
    started = [line for line in check.entries if line.event == "attempt-started"]
    mine = (registration.id, check.manifest.attempt if check.manifest else None)
    for line in started:
        if (line.body.get("registration"), line.body.get("attempt")) != mine:
            continue
        deviations = line.body.get("deviations", [])
        if deviations != list(evidence.header.deviations):
            check.problems.append(
                f"{names.EVIDENCE}: states other deviations than {names.LEDGER} line {line.seq + 1}"
            )
        facts = line.body.get("facts")
        ran = facts.get("code") if isinstance(facts, dict) else None
        if ran != registration.resolved.code.sha256 and not deviations:
            check.problems.append(
                f"{names.LEDGER} line {line.seq + 1}: ran other code than was frozen, undeclared"
            )


def _fits(check: _Check, line: Entry) -> bool:
    return not _unlike(check, line)


def _unlike(check: _Check, line: Entry) -> list[str]:
    """The files whose digests are not those that a line states."""
    written = next(path for path in names.HYPOTHESES if path in check.data)
    wanted = {
        "registered": {"hypothesis": written},
        "attempt-finished": {"evidence": names.EVIDENCE, "run": names.RUN},
        "judged": {"verdict": names.VERDICT},
    }.get(line.event, {})
    return [p for key, p in wanted.items() if line.body.get(key) != sha256(check.data[p])]


def _culprit(check: _Check, event: str, among: Sequence[Entry]) -> str:
    files = sorted({p for e in among if e.event == event for p in _unlike(check, e)})
    return f" (the digest of {' and '.join(files)} differs)" if files else ""


def _plain(data: bytes) -> dict[str, Any]:
    plain = json.loads(data)
    if not isinstance(plain, dict):
        raise ValueError(f"a JSON {type(plain).__name__} where an object is expected")
    return plain


# --- 3. the contents ------------------------------------------------------------------------------


def _contents(check: _Check, _: Path) -> None:
    manifest, registration = check.manifest, check.registration
    evidence, verdict = check.evidence, check.verdict
    if manifest is None or registration is None or evidence is None or verdict is None:
        return
    with check.naming(names.VERDICT):
        digest = sha256(check.data[names.EVIDENCE])
        again = judge(registration, evidence, evidence_sha256=digest)
        different = differences(
            verdict.model_dump(mode="json"), again.model_dump(mode="json"), at="verdict"
        )
        check.problems += [f"{names.VERDICT}: {text}" for text in different[:MOST_PROBLEMS]]
        check.rejudged = True
    for path in names.HYPOTHESES:
        if path in check.data:
            with check.naming(path):
                _hypothesis(check, path, registration)
    _frozen(check, registration)
    _attempt_says(check, evidence, registration)
    figures = _figures(check, manifest, registration, verdict, evidence)
    with check.naming(names.REPORT):
        facts = facts_of(check.entries[:-1], manifest.registration)
        if not facts.decides(manifest.attempt, registration.claim.decision):
            check.notes.append(
                f"attempt {manifest.attempt} is not the one that the registration lets decide"
            )
        material = Material(
            evidence=evidence,
            facts=facts,
            attempt=manifest.attempt,
            run=check.run,
            figures=figures,
            files={
                path: FileFact(item.sha256, item.size)
                for path, item in manifest.files.items()
                if path != names.REPORT
            },
        )
        page = render(registration, verdict, material=material)
        if page != check.data[names.REPORT]:
            check.problems.append(
                f"{names.REPORT}: {first_difference(page, check.data[names.REPORT])}"
            )


def _frozen(check: _Check, registration: Registration) -> None:
    """What was resolved fits the claim, and the definitions are those that are installed."""
    if not registration.resolves_its_own_models():
        check.problems.append(f"{names.REGISTRATION}: resolves other models than the claim names")
    if check.compare is None:
        check.notes.append("definitions not compared with an installed suite")
        return
    with check.naming(names.REGISTRATION):
        problems, notes = check.compare(registration)
        check.problems += [f"{names.REGISTRATION}: {problem}" for problem in problems]
        check.notes += notes


def _hypothesis(check: _Check, path: str, registration: Registration) -> None:
    written = parse_hypothesis(check.data[path], name=path, is_json=path.endswith(".json"))
    frozen = registration.claim
    # The plan is frozen with its defaults filled in; the file may leave them out, and nothing else.
    same = written.model_copy(update={"plan": frozen.plan}) == frozen
    if not same or not _within(written.plan, frozen.plan):
        check.problems.append(f"{path}: does not say what {names.REGISTRATION} froze")


def _within(written: Any, frozen: Any) -> bool:
    """Whether every key that is written, at any depth, has its frozen value."""
    if isinstance(written, dict) and isinstance(frozen, dict):
        return all(key in frozen and _within(item, frozen[key]) for key, item in written.items())
    return bool(written == frozen)


def _figures(
    check: _Check,
    manifest: Manifest,
    registration: Registration,
    verdict: Verdict,
    evidence: Evidence,
) -> dict[str, bytes]:
    published = {
        names.figure_id(path): check.data[path]
        for path in manifest.files
        if path.startswith(names.FIGURES)
    }
    if manifest.drawing != drawing_version():
        check.notes.append(
            f"figures not compared: {manifest.drawing} drew them, here is {drawing_version()}"
        )
        return published
    with check.naming(names.FIGURES):
        drawn = draw(registration, verdict, evidence)
        for figure in sorted(set(drawn) | set(published)):
            path = names.figure_path(figure)
            if figure not in drawn or figure not in published:
                check.problems.append(f"{path}: published and drawn figures are not the same")
                continue
            with check.naming(path):
                if not same_drawing(drawn[figure], published[figure]):
                    check.problems.append(f"{path}: does not show what verdict and evidence say")
    return published
