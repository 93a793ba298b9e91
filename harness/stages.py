"""Stages: the resumable parts of an attempt, kept by the digest of all that decides them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.judging import read_evidence
from harness.judging.evidence import EvidenceHeader
from harness.resolve import Prepared
from prereg.canonical import canonical, digest, sha256, short
from prereg.errors import IntegrityError
from prereg.files import make_folder, write_atomic


@dataclass(frozen=True)
class Stage:
    """One case of one pair, and everything that its evidence depends on."""

    name: str
    header: EvidenceHeader
    prepared: Prepared
    trainer_options: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Digest of registration, deviations, what is installed now, options and stage name.

        A file of the same name is never enough: with other code, weights or data the key differs.
        """
        return digest(
            {
                "stage": self.name,
                "header": self.header.model_dump(mode="json"),
                "resolved": self.prepared.registration.resolved.model_dump(mode="json"),
                "trainer": {name: str(value) for name, value in self.trainer_options.items()},
            }
        )


class Kept(NamedTuple):
    """A stage that an earlier attempt has finished."""

    attempt: int
    data: bytes


class StageStore:
    """The stages of one attempt, and those of the attempts beside it.

    A stage file is a line with the sha256 of the rest, then evidence lines: a torn or altered one
    is measured again.
    """

    def __init__(self, folder: Path, *, reuse: bool) -> None:
        self.folder = folder  # runs/<id12>/<attempt>/stages
        self.reuse = reuse

    def find(self, stage: Stage) -> Kept | None:
        """The newest whole copy of a stage in an earlier attempt."""
        if not self.reuse:
            return None
        attempts = self.folder.parent.parent
        for file in sorted(
            attempts.glob(f"*/{self.folder.name}/{short(stage.key)}.jsonl"),
            key=lambda path: int(path.parent.parent.name),
            reverse=True,
        ):
            head, _, data = file.read_bytes().partition(b"\n")
            if head == canonical({"key": stage.key, "sha256": sha256(data)}):
                try:
                    read_evidence(data)
                except IntegrityError:
                    continue
                return Kept(int(file.parent.parent.name), data)
        return None

    def keep(self, stage: Stage, data: bytes) -> str:
        """Writes a stage's evidence and returns its sha256."""
        make_folder(self.folder)
        content = sha256(data)
        head = canonical({"key": stage.key, "sha256": content})
        write_atomic(self.folder / f"{short(stage.key)}.jsonl", head + b"\n" + data)
        return content
