"""The suite's figures, of three kinds: values by site, a curve over arms, the draws of a null.

Beside a claim's own values by site stand its controls, and other arms of the same measurement, as
far as the suite names them and the evidence has them: the page shows every arm, and judges one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from importlib.metadata import version

from markupsafe import escape

from harness.judging.evidence import Evidence
from harness.judging.verdict import MemberVerdict, Verdict
from prereg.registration import Registration
from prereg.resolved import FigureSpec, StatisticSpec
from reports.beside import Beside, besides
from reports.curve import Curves, curves_of
from reports.null import Nulls, nulls_of
from reports.panels import Panels, svg_of
from reports.places import as_drawn, measure_of
from reports.strips import SHAPES
from reports.wording import clean, counted, percent, printed, region, unit

TOLERANCE = 0.02
"""Points by which two drawings may differ where the machines' arithmetic does."""

GEOMETRY = frozenset({"d", "x", "y", "width", "height", "transform"})
"""Attributes in which two machines' arithmetic may differ."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def drawing_version() -> str:
    """Name and version of the drawing library, without importing it."""
    return f"matplotlib {version('matplotlib')}"


def draw(registration: Registration, verdict: Verdict, evidence: Evidence) -> dict[str, bytes]:
    """SVG bytes by figure id, for every figure that has something to show.

    Raises:
        IntegrityError: a record that would be drawn lacks what its estimator reads.
    """
    drawn: dict[str, bytes] = {}
    for spec in registration.resolved.suite.figures:
        shown = shown_by(spec, registration, verdict, evidence)
        if isinstance(shown, Panels):
            statistic = registration.resolved.statistics[spec.statistic]
            svg = svg_of(
                shown,
                heading=f"{measure_of(statistic)} ({unit(statistic.unit)})",
                sites=registration.resolved.sites,
            )
            drawn[spec.id] = _finish(svg, spec, spoken(spec, statistic, shown))
        elif not isinstance(shown, str) and shown.panels:
            name = " ".join([f"{spec.title}: {shown.alternative()}", *_sentences(shown.said())])
            drawn[spec.id] = _finish(shown.svg(), spec, name)
    return drawn


def _sentences(parts: Iterable[str]) -> Iterator[str]:
    return (f"{part}." for part in parts)


def shown_by(
    spec: FigureSpec, registration: Registration, verdict: Verdict, evidence: Evidence
) -> Panels | Curves | Nulls | str:
    """What a figure shows; else why there is nothing to show."""
    if spec.kind == "curve":
        return curves_of(spec, registration, verdict, evidence)
    if spec.kind == "null":
        return nulls_of(spec, registration, verdict, evidence)
    panels = panels_of(spec, registration, verdict, evidence)
    return f"no claim is about {spec.statistic}" if panels is None else panels


def panels_of(
    spec: FigureSpec, registration: Registration, verdict: Verdict, evidence: Evidence
) -> Panels | None:
    """What a figure by site shows: the first claim about its statistic, and what stands beside it.

    None where no claim is about the statistic. Of a claim about p-values, those are shown.
    """
    statistic = registration.resolved.statistics.get(spec.statistic)
    for judged in verdict.claims:
        if judged.statistic == spec.statistic and judged.members:
            claim = as_drawn(judged, statistic)
            pairs: dict[str, list[MemberVerdict]] = {}
            for member in claim.members:
                pairs.setdefault(member.pair or "", []).append(member)
            names: dict[str, None] = {}
            for member in claim.members:
                names |= {c.control: None for c in member.controls if c.role in SHAPES}
            beside = besides(
                spec, claim, registration=registration, evidence=evidence, level=verdict.level
            )
            return Panels(
                claim=claim,
                by_pair={pair: tuple(found) for pair, found in pairs.items()},
                controls=tuple(names),
                beside=beside,
                level=verdict.level,
            )
    return None


def alternative(statistic: StatisticSpec, panels: Panels) -> str:
    """What a figure shows, in words."""
    claim = panels.claim
    drawn = f"{counted(len(panels.by_pair), 'panel')}, {counted(len(claim.members), 'value')}"
    arm = claim.members[0].arm
    own = f"{claim.name}{f' (arm {arm})' if arm else ''}"
    text = (
        f"{measure_of(statistic)} ({unit(statistic.unit)}) against the sites, {drawn}; "
        f"accepted region of {own}: {region(claim.lower, claim.upper)}. "
        f"Controls on the same axis: {', '.join(panels.controls) or 'none'}. "
    )
    if panels.drawn_beside:
        labels = ", ".join(f"({one.letter}) {one.label}" for one in panels.drawn_beside)
        text += (
            f"Beside them, not judged, with {percent(panels.level)} intervals each for itself: "
            f"{labels}. "
        )
    return text + "The table below holds every value."


def spoken(spec: FigureSpec, statistic: StatisticSpec, panels: Panels) -> str:
    """The name of a drawing for who cannot see it: what it shows, and the values beside."""
    said = [f"{spec.title}: {alternative(statistic, panels)}"]
    said += [f"{one.label}: {'; '.join(_said(one))}." for one in panels.drawn_beside]
    return " ".join(said)


def _said(one: Beside) -> Iterator[str]:
    for (site, pair), estimate in one.drawn.items():
        text = printed(estimate)
        where = f"{site or 'whole model'}{f', pair {pair}' if pair else ''}"
        yield f"{where} {text.value} {text.interval}"


def same_drawing(one: bytes, other: bytes) -> bool:
    """Whether two drawings agree in all but the last digits of their coordinates.

    Raises:
        ValueError: where one of them is not XML.
    """
    if one == other:
        return True
    try:
        first, second = (list(ET.fromstring(data).iter()) for data in (one, other))  # noqa: S314
    except ET.ParseError as error:
        raise ValueError(f"a drawing that is not XML ({error})") from error
    return len(first) == len(second) and all(map(_same_element, first, second))


def _same_element(one: ET.Element, other: ET.Element) -> bool:
    # What is read (text, labels) agrees exactly; only where things are drawn may rounding show.
    if (one.tag, one.text, one.tail) != (other.tag, other.text, other.tail):
        return False
    if len(one) != len(other) or set(one.attrib) != set(other.attrib):
        return False
    return all(
        _same_geometry(value, other.attrib[key]) if key in GEOMETRY else value == other.attrib[key]
        for key, value in one.attrib.items()
    )


def _same_geometry(one: str, other: str) -> bool:
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= TOLERANCE for a, b in pairs)


def _finish(svg: str, spec: FigureSpec, name: str) -> bytes:
    """The drawing without prolog, with its ids numbered under the figure's name."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        given = numbers.setdefault(match[2], f"{spec.id}-{len(numbers) + 1}")
        return f"{match[1]}{given}{match[3]}"

    def renamed(match: re.Match[str]) -> str:
        tag = re.sub(r'( id=")([^"]*)(")', numbered, match[0])
        tag = re.sub(r'(href="#)([^"]*)(")', numbered, tag)
        return re.sub(r"(url\(#)([^)]*)(\))", numbered, tag)

    # Angle brackets are escaped in text and attributes, so a tag is all that stands between two.
    body = re.sub(r"<[^<>]*>", renamed, body)
    label = escape(clean(name))
    head = f'<svg role="img" aria-label="{label}" style="stroke-linejoin: round" '
    return (body.replace("<svg ", head, 1).strip() + "\n").encode("utf-8")
