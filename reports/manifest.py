"""What a bundle consists of: file names, and the manifest that lists them with their digests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from prereg.canonical import canonical, sha256
from prereg.record import Record
from prereg.resolved import Sha256

MANIFEST = "manifest.json"
LEDGER = "ledger.jsonl"
REGISTRATION = "registration.json"
EVIDENCE = "evidence.jsonl"
RUN = "run.json"
VERDICT = "verdict.json"
REPORT = "report.html"
HYPOTHESES = ("hypothesis.yaml", "hypothesis.json")
"""The hypothesis file as it was written, in one of the two forms that are read."""
FIGURES = "figures/"

UNLISTED = frozenset({MANIFEST, LEDGER})
"""The manifest cannot hold its own digest, nor that of the ledger, whose last line holds its."""

NEEDED = (REGISTRATION, EVIDENCE, RUN, VERDICT, REPORT)

FilePath = Annotated[
    str, Field(pattern=r"^(figures/[a-z0-9-]+\.svg|[a-z]+\.(json|jsonl|yaml|html))$")
]
"""A path inside the bundle: nothing absolute, nothing above it, nothing hidden."""


class FileEntry(Record):
    """A file of the bundle."""

    sha256: Sha256 = Field(description="sha256 of its bytes.")
    size: int = Field(ge=0, description="Bytes.")


class Manifest(Record):
    """Every file but the manifest and the ledger, and the versions that made them."""

    manifest: Literal["prebench/manifest/1"] = Field(description="Format of the file.")
    registration: Sha256 = Field(description="Id of the registration.")
    attempt: int = Field(ge=1, description="The attempt that was judged.")
    judge: int = Field(ge=1, description="Version of the judge.")
    report: int = Field(ge=1, description="Version of the report.")
    drawing: str = Field(description="Name and version of the drawing library.")
    files: dict[FilePath, FileEntry] = Field(description="Files by path.")

    def canonical(self) -> bytes:
        """The bytes of `manifest.json`."""
        return canonical(self.model_dump(mode="json"))


def entry_of(data: bytes) -> FileEntry:
    """Digest and size of a file's bytes."""
    return FileEntry(sha256=sha256(data), size=len(data))


def figure_path(figure: str) -> str:
    """Where a figure lies in the bundle."""
    return f"{FIGURES}{figure}.svg"


def figure_id(path: str) -> str:
    """The figure that lies at a path."""
    return path.removeprefix(FIGURES).removesuffix(".svg")
