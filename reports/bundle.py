"""What is published: a folder that a stranger can check without the models and without trust.

The order makes a crash harmless at any point: everything is written beside the target under another
name, then the manifest's digest enters the ledger, then the folder takes its place. Between the two
the ledger knows of a bundle that nobody has; publishing again gives the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from harness.judging import judge, read_evidence
from harness.judging.verdict import JUDGE_VERSION, Verdict
from prereg.canonical import sha256
from prereg.errors import InputError
from prereg.files import fault, make_folder, sync_folder, write_atomic
from prereg.registration import Registration
from prereg.workspace import Workspace
from reports import manifest as names
from reports.audit import REPORT_VERSION, FileFact, Material, render
from reports.figures import draw, drawing_version
from reports.history import facts_of
from reports.manifest import FileEntry, Manifest, entry_of, figure_path
from reports.models import run_of


def publish(
    workspace: Workspace,
    reference: str,
    attempt: int,
    *,
    to: Path,
    replace: bool = False,
) -> str:
    """Publish an attempt as a bundle, and return the head: the hash of its ledger's last line.

    Args:
        workspace: where it was registered and run.
        reference: the registration.
        attempt: number of the attempt; it has to have finished. It is judged if it was not.
        to: the folder to make.
        replace: whether an older bundle there may be replaced; anything else never is.

    Raises:
        InputError: `to` exists and is not empty (or, with `replace`, is not a bundle).
        IncompleteError: the attempt has not finished.
        IntegrityError: the workspace does not hold, or the run's record has another form.
        EnvironmentFault: it could not be written; what was there before is whole.
    """
    to = Path(to).absolute()
    insist_free(to, replace=replace)
    if to.resolve().is_relative_to(workspace.root.resolve()):
        raise InputError(
            f"{to}, inside the workspace {workspace.root}",
            expected="a folder outside: the workspace holds what the ledger knows",
            fix="choose another folder",
            code="publish.inside-workspace",
        )
    registration = workspace.registration(reference)
    verdict_bytes = _verdict_bytes(workspace, registration, attempt)
    verdict = Verdict.model_validate_json(verdict_bytes)
    evidence = read_evidence(workspace.evidence(registration.id, attempt))
    drawn = draw(registration, verdict, evidence)
    run = run_of(workspace.run_record(registration.id, attempt))
    # Recording the verdict first also enters attempts that were killed, so that under the lock no
    # line comes between what the page says about the ledger and the line that publishes it.
    with workspace.ledger.locked():
        workspace.record_judged(registration.id, attempt, verdict_bytes, word=verdict.word)
        files = _files(workspace, registration, attempt, verdict_bytes)
        files |= {figure_path(figure): data for figure, data in drawn.items()}
        entries = {path: entry_of(data) for path, data in files.items()}
        material = Material(
            evidence=evidence,
            facts=facts_of(workspace.ledger.entries(), registration.id),
            attempt=attempt,
            run=run,
            figures=drawn,
            files={path: FileFact(entry.sha256, entry.size) for path, entry in entries.items()},
        )
        files[names.REPORT] = render(registration, verdict, material=material)
        entries[names.REPORT] = entry_of(files[names.REPORT])
        files[names.MANIFEST] = _manifest(registration, attempt, entries).canonical()
        with _beside(to) as folder:
            _write(folder, files)
            line = workspace.record_published(
                registration.id, attempt, manifest=sha256(files[names.MANIFEST])
            )
            write_atomic(folder / names.LEDGER, workspace.ledger.snapshot())
            _take_place(folder, to)
    return line.hash


def _verdict_bytes(workspace: Workspace, registration: Registration, attempt: int) -> bytes:
    """The verdict of this version of the judge: the one on record, else a new one."""
    recorded = workspace.verdict(registration.id, attempt)
    if recorded is not None:
        with suppress(ValidationError):
            if Verdict.model_validate_json(recorded).judge == JUDGE_VERSION:
                return recorded
    evidence = workspace.evidence(registration.id, attempt)
    verdict = judge(registration, read_evidence(evidence), evidence_sha256=sha256(evidence))
    return verdict.canonical()


def _files(
    workspace: Workspace, registration: Registration, attempt: int, verdict: bytes
) -> dict[str, bytes]:
    """Everything but the figures, the page, the manifest and the ledger."""
    name, source = workspace.hypothesis(registration.id)
    return {
        name: source,
        names.REGISTRATION: registration.canonical(),
        names.EVIDENCE: workspace.evidence(registration.id, attempt),
        names.RUN: workspace.run_record(registration.id, attempt),
        names.VERDICT: verdict,
    }


def _manifest(registration: Registration, attempt: int, entries: dict[str, FileEntry]) -> Manifest:
    return Manifest(
        manifest="prebench/manifest/1",
        registration=registration.id,
        attempt=attempt,
        judge=JUDGE_VERSION,
        report=REPORT_VERSION,
        drawing=drawing_version(),
        files=entries,
    )


def insist_free(to: Path, *, replace: bool) -> None:
    """Refuse a target that publishing would have to overwrite.

    Raises:
        InputError: `to` exists and is not empty (or, with `replace`, is not a bundle).
        EnvironmentFault: it cannot be read.
    """
    try:
        if not to.exists() and not to.is_symlink():
            return
        if to.is_dir() and not to.is_symlink():
            if not any(to.iterdir()):
                return
            if replace and _is_bundle(to):
                return
    except OSError as error:
        raise fault(error, to) from error
    bundle = to.is_dir() and _is_bundle(to)
    raise InputError(
        f"{to} {'holds a bundle' if bundle else 'exists and is no bundle of prebench'}",
        expected="a folder that does not exist yet, or is empty",
        fix="pass --replace to replace the bundle" if bundle else "choose another folder",
        code="publish.target-exists",
    )


def _is_bundle(folder: Path) -> bool:
    """Whether a folder holds a bundle and nothing else, so that replacing it loses nothing else."""
    try:
        listed = Manifest.model_validate_json((folder / names.MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    known = set(listed.files) | names.UNLISTED
    found = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return all(path.relative_to(folder).as_posix() in known for path in found)


@contextmanager
def _beside(to: Path) -> Iterator[Path]:
    """A new folder next to the target, on the same disk; removed unless it took its place."""
    make_folder(to.parent)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{to.name}.", suffix=".part", dir=to.parent))
    except OSError as error:
        raise fault(error, to) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        place = folder / path
        make_folder(place.parent)
        write_atomic(place, data)


def _take_place(folder: Path, to: Path) -> None:
    """Rename the finished folder to its target; an older bundle is moved away until then."""
    try:
        # Folders made for temporary files are private; a bundle is for others to read.
        folder.chmod(0o755)
        older: Path | None = None
        if to.exists():
            older = Path(tempfile.mkdtemp(prefix=f".{to.name}.", suffix=".old", dir=to.parent))
            to.rename(older / to.name)
        try:
            folder.rename(to)
        except OSError:
            if older is not None:
                (older / to.name).rename(to)
                older.rmdir()
            raise
        sync_folder(to.parent)
        if older is not None:
            shutil.rmtree(older, ignore_errors=True)
    except OSError as error:
        raise fault(error, to) from error
