"""The suite's figures: one statistic against the sites, one panel a pair, controls on the axis.

Drawn straight into SVG, text as text, without dates, and with names numbered in order, so that the
same verdict gives the same bytes. The drawing library is imported only when something is drawn.
"""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import escape

from harness.judging.verdict import ClaimVerdict, MemberVerdict, Verdict
from prereg.registration import Registration
from prereg.resolved import FigureSpec, StatisticSpec
from reports.scale import Scale, figures_of, scale_of, span_of
from reports.strips import SHAPES
from reports.wording import clean, counted, number, region, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.5, 2.75)
"""Width and height of a panel, in inches."""
ACROSS = 3
LEGEND = 1.75
EDGE = {"left": 0.52, "right": 0.12, "bottom": 0.62, "top": 0.56}
"""Fixed margins of a panel, in inches: no layout depends on measuring text."""

INK = "#1f2933"
MAIN = "#0b4f8a"
WRONG = "#b3261e"
QUIET = "#6b7785"
REGION = "#e3f1e6"
TOLERANCE = 0.02
"""Points by which two drawings may differ where the machines' arithmetic does."""

GEOMETRY = frozenset({"d", "x", "y", "width", "height", "transform"})
"""Attributes in which two machines' arithmetic may differ."""

_SETTINGS: Mapping[str, Any] = {
    "svg.hashsalt": "prebench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.usetex": False,
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": QUIET,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


class Panels(NamedTuple):
    """What a figure shows: a judged claim, by pair."""

    claim: ClaimVerdict
    by_pair: dict[str, tuple[MemberVerdict, ...]]
    controls: tuple[str, ...]


def drawing_version() -> str:
    """Name and version of the drawing library, without importing it."""
    return f"matplotlib {version('matplotlib')}"


def draw(registration: Registration, verdict: Verdict) -> dict[str, bytes]:
    """SVG bytes by figure id, for every figure whose statistic was judged."""
    drawn: dict[str, bytes] = {}
    for spec in registration.resolved.suite.figures:
        panels = panels_of(spec, verdict)
        if panels is not None:
            statistic = registration.resolved.statistics[spec.statistic]
            drawn[spec.id] = _draw(spec, statistic, panels, registration.resolved.sites)
    return drawn


def panels_of(spec: FigureSpec, verdict: Verdict) -> Panels | None:
    """The first judged claim about the figure's statistic; none where there is no such claim."""
    for claim in verdict.claims:
        if claim.statistic == spec.statistic and claim.members:
            pairs: dict[str, list[MemberVerdict]] = {}
            for member in claim.members:
                pairs.setdefault(member.pair or "", []).append(member)
            names: dict[str, None] = {}
            for member in claim.members:
                names |= {c.control: None for c in member.controls if c.role in SHAPES}
            return Panels(claim, {p: tuple(m) for p, m in pairs.items()}, tuple(names))
    return None


def alternative(spec: FigureSpec, statistic: StatisticSpec, panels: Panels) -> str:
    """What a figure shows, in words."""
    claim = panels.claim
    drawn = f"{counted(len(panels.by_pair), 'panel')}, {counted(len(claim.members), 'value')}"
    return (
        f"{statistic.title} ({unit(statistic.unit)}) against the sites, {drawn}; "
        f"accepted region of {claim.name}: {region(claim.lower, claim.upper)}. "
        f"Controls on the same axis: {', '.join(panels.controls) or 'none'}. "
        "The table below holds every value."
    )


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


def _draw(
    spec: FigureSpec, statistic: StatisticSpec, panels: Panels, sites: Sequence[str]
) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    across = min(ACROSS, len(panels.by_pair))
    down = math.ceil(len(panels.by_pair) / ACROSS)
    width, height = across * PANEL[0] + LEGEND, down * PANEL[1]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height))
        scale = scale_of(panels.claim)
        present = [s for s in sites if any(m.site == s for m in panels.claim.members)]
        for index, (pair, members) in enumerate(panels.by_pair.items()):
            row, column = divmod(index, ACROSS)
            box = (
                (column * PANEL[0] + EDGE["left"]) / width,
                1 - ((row + 1) * PANEL[1] - EDGE["bottom"]) / height,
                (PANEL[0] - EDGE["left"] - EDGE["right"]) / width,
                (PANEL[1] - EDGE["bottom"] - EDGE["top"]) / height,
            )
            axes = figure.add_axes(box)
            _panel(axes, scale, panels, members, present)
            axes.set_title(_line(f"pair {pair}" if pair else ""), fontsize=8, loc="left", pad=5)
        heading = f"{statistic.title} ({unit(statistic.unit)})"
        figure.text(0.008, 1 - 0.16 / height, _line(heading), fontsize=8.5, fontweight="bold")
        _legend(figure, panels, across * PANEL[0] / width, height)
        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata=nothing)
    return _finish(buffer.getvalue().decode("utf-8"), spec, alternative(spec, statistic, panels))


def _panel(
    axes: Axes,
    scale: Scale,
    panels: Panels,
    members: Sequence[MemberVerdict],
    sites: Sequence[str],
) -> None:
    claim = panels.claim
    low = scale.low if claim.lower is None else claim.lower
    high = scale.high if claim.upper is None else claim.upper
    axes.axhspan(low, high, color=REGION, linewidth=0, zorder=0)
    for bound in (claim.lower, claim.upper):
        if bound is not None:
            axes.axhline(bound, color="#2e7d4f", linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    names = list(sites) or ["whole model"]
    arms = sorted({m.arm or "" for m in members})
    for member in members:
        place = float(names.index(member.site)) if member.site in names else 0.0
        place += 0.16 * (arms.index(member.arm or "") - (len(arms) - 1) / 2)
        _member(axes, scale, panels, member, place)
    axes.set_ylim(scale.low, scale.high)
    axes.set_yticks(scale.ticks, [number(t, decimals=scale.decimals) for t in scale.ticks])
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(
        range(len(names)),
        [_line(_short(name)) for name in names],
        rotation=18,
        ha="right",
        rotation_mode="anchor",
        fontsize=7,
    )
    axes.spines[["top", "right"]].set_visible(False)


def _member(axes: Axes, scale: Scale, panels: Panels, member: MemberVerdict, place: float) -> None:
    ends = figures_of(member.estimate)
    slots = len(panels.controls) + 1
    left = place - 0.34
    if ends:
        axes.plot([left, left], [min(ends), max(ends)], color=MAIN, linewidth=2.2, zorder=4)
        if member.estimate.value is not None:
            axes.plot([left], [member.estimate.value], "o", color=MAIN, markersize=5, zorder=5)
    for outcome in member.controls:
        span = span_of(outcome)
        if outcome.control not in panels.controls or span is None:
            continue
        slot = panels.controls.index(outcome.control) + 1
        x = left + 0.74 * slot / slots
        wrong = outcome.behaved is False
        colour = WRONG if wrong else QUIET
        seen = [min(max(value, scale.low), scale.high) for value in span]
        axes.plot([x, x], [seen[0], seen[2]], color=colour, linewidth=0.8, zorder=2)
        marker = {"must-pass": "o", "must-fail": "x", "comparator": "s"}[outcome.role]
        if span[0] > scale.high or span[2] < scale.low:
            marker = "^" if span[0] > scale.high else "v"
        axes.plot(
            [x], [seen[1]], marker, color=colour, markerfacecolor="white", markersize=4, zorder=3
        )
        above = scale.place(seen[1]) < 0.9
        axes.annotate(
            str(slot),
            (x, seen[1]),
            xytext=(0, 4 if above else -9),
            textcoords="offset points",
            ha="center",
            fontsize=5.5,
            fontweight="bold" if wrong else "normal",
            color=colour,
            annotation_clip=False,
        )


def _legend(figure: Figure, panels: Panels, left: float, height: float) -> None:
    roles = {c.control: c.role for m in panels.claim.members for c in m.controls}
    lines = [("● value and interval", MAIN), ("■ accepted region", "#2e7d4f")]
    lines += [
        (f"{i} {SHAPES[roles[name]]} {_line(name)}", QUIET)
        for i, name in enumerate(panels.controls, start=1)
    ]
    passing, failing, comparing = (
        SHAPES[role] for role in ("must-pass", "must-fail", "comparator")
    )
    lines.append((f"{passing} must pass, {failing} must fail,", INK))
    lines.append((f"{comparing} comparator, ▵▿ off the axis", INK))
    for index, (text, colour) in enumerate(lines):
        y = 1 - (EDGE["top"] + 0.05 + 0.165 * index) / height
        figure.text(left + 0.01, y, text, fontsize=6.8, color=colour, va="baseline")


def _line(text: str) -> str:
    """`text` on one line: several lines would be laid out by measuring them."""
    return " ".join(clean(text).split())


def _short(site: str) -> str:
    """A site's name without what all sites share."""
    return site.replace("blocks.", "").replace("hook_", "")


def _finish(svg: str, spec: FigureSpec, alt: str) -> bytes:
    """The drawing without prolog, with its ids numbered under the figure's name."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        name = numbers.setdefault(match[2], f"{spec.id}-{len(numbers) + 1}")
        return f"{match[1]}{name}{match[3]}"

    def renamed(match: re.Match[str]) -> str:
        tag = re.sub(r'( id=")([^"]*)(")', numbered, match[0])
        tag = re.sub(r'(href="#)([^"]*)(")', numbered, tag)
        return re.sub(r"(url\(#)([^)]*)(\))", numbered, tag)

    # Angle brackets are escaped in text and attributes, so a tag is all that stands between two.
    body = re.sub(r"<[^<>]*>", renamed, body)
    name = escape(clean(f"{spec.title}: {alt}"))
    head = f'<svg role="img" aria-label="{name}" style="stroke-linejoin: round" '
    return (body.replace("<svg ", head, 1).strip() + "\n").encode("utf-8")
