"""The audit report: one self-contained page, a pure function of the files of its bundle.

No script, no remote asset, no clock: the same files give the same bytes, so that whoever holds a
bundle can render the page again and compare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.judging import sentence
from harness.judging.evidence import Evidence
from harness.judging.verdict import Verdict
from prereg.canonical import short
from prereg.registration import Registration
from reports import measurements, models, rejections, strips, views, wording
from reports.history import LedgerFacts

REPORT_VERSION = 1
"""Raised whenever the same files would be rendered differently."""

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "report.html.j2"
STYLE = "style.css"


class FileFact(NamedTuple):
    """A file of the bundle, as the page lists it."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Material:
    """What a page is rendered from, besides registration and verdict."""

    evidence: Evidence
    """What was measured; the page reads what belongs to no claim."""
    facts: LedgerFacts
    """What the ledger said before the bundle was entered in it."""
    attempt: int
    """Number of the attempt that was judged."""
    run: Mapping[str, Any]
    """`run.json` as plain data: environment, devices, timings."""
    figures: Mapping[str, bytes]
    """SVG bytes by figure id."""
    files: Mapping[str, FileFact]
    """The other files of the bundle by path, for the list of digests."""


def render(registration: Registration, verdict: Verdict, *, material: Material) -> bytes:
    """The bytes of `report.html`.

    Raises:
        IntegrityError: where a figure holds more than shapes and text, or the run describes its
            models in another form.
    """
    claims = views.claim_rows(registration, verdict, material.evidence)
    page = _environment().get_template(PAGE)
    text = page.render(
        registration=registration,
        claim=registration.claim,
        resolved=registration.resolved,
        verdict=verdict,
        sentence=sentence(verdict),
        bars=views.bar_rows(verdict),
        claims=claims,
        figures=measurements.figure_rows(
            registration,
            verdict,
            claims,
            evidence=material.evidence,
            drawings=material.figures,
        ),
        exploratory=measurements.exploratory_rows(registration, verdict, material.evidence),
        matrices=rejections.matrices(registration, verdict, material.evidence),
        facts=material.facts,
        attempt=material.attempt,
        models=models.tables_of(models.models_of(material.run)),
        run=views.leaves({key: v for key, v in material.run.items() if key != models.KEY}),
        files=sorted(material.files.items()),
        frozen=wording.outline(registration.plain()["claim"]),
        id=registration.id,
        style=_style(),
        report_version=REPORT_VERSION,
        prior_access=wording.PRIOR_ACCESS[registration.claim.prior_access],
    )
    return (text.rstrip() + "\n").encode("utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # Autoescaping is off by default, and choosing it by file name would leave `.j2` out.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "counted": wording.counted,
        "breakable": _breakable,
        "moment": wording.moment,
        "percent": wording.percent,
        "short": short,
        "word": wording.word,
    }
    environment.globals |= {
        "MEANINGS": wording.MEANINGS,
        "SHAPES": strips.SHAPES,
        "SYMBOLS": wording.SYMBOLS,
    }
    return environment


def _breakable(text: str) -> Markup:
    """`text` that may break after a dot or an underscore, and is copied without the breaks."""
    parts = re.split(r"(?<=[._/:])", wording.clean(text))
    return Markup("<wbr>").join(parts)


def _printable(value: Any) -> Any:
    return (
        wording.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )


@lru_cache(maxsize=1)
def _style() -> Markup:
    return Markup((TEMPLATES / STYLE).read_text(encoding="utf-8"))  # noqa: S704 - a file of ours
