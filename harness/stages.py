"""Stages: the resumable parts of an attempt, kept by the digest of all that decides them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from harness.judging.evidence import EvidenceHeader
from harness.resolve import Prepared
from prereg.canonical import digest, sha256, short
from prereg.files import make_folder, write_atomic


@dataclass(frozen=True)
class Stage:
    """One case of one pair, and everything that its evidence depends on."""

    name: str
    header: EvidenceHeader
    prepared: Prepared
    trainer_options: Mapping[str, Any]
    environment: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Digest of registration, deviations, what is here now, options and stage name.

        A file of the same name is never enough: with other code, weights or data the key differs.
        """
        return digest(
            {
                "stage": self.name,
                "header": self.header.model_dump(mode="json"),
                "resolved": self.prepared.registration.resolved.model_dump(mode="json"),
                "trainer": {name: str(value) for name, value in self.trainer_options.items()},
                "environment": dict(self.environment),
            }
        )


class Kept(NamedTuple):
    """A stage that an earlier attempt has finished."""

    attempt: int
    data: bytes


class StageStore:
    """The stages of one attempt, and those of the attempts beside it.

    The ledger decides: a file whose key and sha256 it does not know is measured again, whether it
    is torn, altered, or of a stage that was never entered.

    Args:
        folder: runs/<id12>/<attempt>/stages.
        known: key and sha256 of the stages that the ledger knows; none to measure everything.
    """

    def __init__(self, folder: Path, *, known: frozenset[tuple[str, str]]) -> None:
        self.folder = folder
        self.known = known

    def find(self, stage: Stage) -> Kept | None:
        """The newest whole copy of a stage in an earlier attempt."""
        key = stage.key
        attempts = self.folder.parent.parent
        for file in sorted(
            attempts.glob(f"*/{self.folder.name}/{short(key)}.jsonl"),
            key=lambda path: int(path.parent.parent.name),
            reverse=True,
        ):
            data = file.read_bytes()
            if (key, sha256(data)) in self.known:
                return Kept(int(file.parent.parent.name), data)
        return None

    def keep(self, stage: Stage, data: bytes) -> None:
        """Writes a stage's evidence."""
        make_folder(self.folder)
        write_atomic(self.folder / f"{short(stage.key)}.jsonl", data)
