"""Scales, strips, the suite's figures, and what may stand in a drawing."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import write_evidence
from harness.judging.evidence import Evidence
from harness.judging.verdict import (
    ClaimVerdict,
    ControlOutcome,
    Estimate,
    MemberVerdict,
    Verdict,
)
from prereg.errors import IntegrityError
from prereg.registration import Registration
from reports import strips
from reports.figures import draw, drawing_version, same_drawing
from reports.scale import scale_of
from reports.svg import inline


def claim_of(*members: MemberVerdict, lower: float | None = 0.5) -> ClaimVerdict:
    """A claim with the given members."""
    return ClaimVerdict(
        name="c",
        bar=False,
        role="primary",
        statistic="s@1",
        kind="same",
        lower=lower,
        word="PASS",
        members=members,
    )


def member_of(value: float, half: float, *controls: ControlOutcome) -> MemberVerdict:
    """A member with an interval."""
    estimate = Estimate(value=value, low=value - half, high=value + half, level=0.95, blocks=64)
    return MemberVerdict(
        site="blocks.0", pair="b", word="PASS", reason="why", estimate=estimate, controls=controls
    )


def control_of(value: float, name: str = "untrained") -> ControlOutcome:
    """A single-valued must-fail control that behaved."""
    return ControlOutcome(
        control=name,
        role="must-fail",
        standing="outside",
        behaved=True,
        estimate=Estimate(value=value, low=value, high=value, level=0.95),
    )


REALS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False).map(lambda x: round(x, 6))


@given(value=REALS, half=st.floats(0, 1e6), lower=REALS, controls=st.lists(REALS, max_size=5))
@settings(deadline=None, max_examples=150)
def test_an_axis_holds_thresholds_and_intervals_whatever_the_controls_are(
    value: float, half: float, lower: float, controls: list[float]
) -> None:
    claim = claim_of(member_of(value, half, *map(control_of, controls)), lower=lower)
    scale = scale_of(claim)
    assert all(scale.holds(v) for v in (lower, value - half, value, value + half))
    assert 1 <= len(scale.ticks) <= 8
    assert list(scale.ticks) == sorted(scale.ticks)
    ET.fromstring(strips.strip(claim, claim.members[0], scale=scale))


def test_a_control_far_away_does_not_squeeze_the_axis_and_is_told_with_its_value() -> None:
    claim = claim_of(member_of(0.9, 0.01, control_of(-4000.0)))
    scale = scale_of(claim)
    assert scale.high - scale.low < 2
    strip = strips.strip(claim, claim.members[0], scale=scale)
    assert "← untrained at \N{MINUS SIGN}4000" in strip


def test_a_strip_places_its_value_where_the_scale_says() -> None:
    claim = claim_of(member_of(0.75, 0.05))
    scale = scale_of(claim)
    strip = ET.fromstring(strips.strip(claim, claim.members[0], scale=scale))
    circle = next(e for e in strip.iter() if e.get("class") == "value")
    region = next(e for e in strip.iter() if e.get("class") == "region")
    inner = strips.WIDTH - 2 * strips.MARGIN
    assert float(circle.get("cx", "")) == pytest.approx(
        strips.MARGIN + inner * scale.place(0.75), abs=0.06
    )
    assert float(region.get("x", "")) == pytest.approx(
        strips.MARGIN + inner * scale.place(0.5), abs=0.06
    )


def test_strip_labels_do_not_overlap() -> None:
    controls = [control_of(0.5 + 0.01 * i, f"control-number-{i}") for i in range(12)]
    claim = claim_of(member_of(0.6, 0.1, *controls))
    strip = ET.fromstring(strips.strip(claim, claim.members[0], scale=scale_of(claim)))
    rows: dict[str, list[tuple[float, float]]] = {}
    for text in strip.iter("text"):
        if text.get("class") != "label":
            continue
        x, width = float(text.get("x", "")), 5 * len(text.text or "")
        left = x - width if text.get("text-anchor") == "end" else x
        rows.setdefault(text.get("y", ""), []).append((left, left + width))
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_a_strip_says_in_words_what_it_draws() -> None:
    claim = claim_of(member_of(0.9, 0.01, control_of(0.1)))
    text = strips.alternative(claim, claim.members[0])
    for part in ("PASS", "0.900", "[0.890, 0.910]", "n = 64 blocks", "above 0.5", "untrained"):
        assert part in text


def test_figures_are_drawn_for_claimed_statistics_only(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    assert sorted(draw(registration, verdict, evidence)) == ["paired", "raw"]


def test_figures_are_the_same_bytes_in_another_process(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    script = (
        "import sys, json, hashlib\n"
        "from prereg.registration import Registration\n"
        "from harness.judging.verdict import Verdict\n"
        "from reports.figures import draw\n"
        "from harness.judging import read_evidence\n"
        "r, v, e = json.load(sys.stdin)\n"
        "d = draw(Registration.model_validate_json(r), Verdict.model_validate_json(v),"
        " read_evidence(e.encode()))\n"
        "print(*(hashlib.sha256(d[k]).hexdigest() for k in sorted(d)))\n"
    )

    said = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(
            [
                registration.canonical().decode(),
                verdict.canonical().decode(),
                write_evidence(evidence).decode(),
            ]
        ),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path), "MPLBACKEND": "pdf"},
    )
    drawn = draw(registration, verdict, evidence)
    digests = [hashlib.sha256(drawn[key]).hexdigest() for key in sorted(drawn)]
    assert said.stdout.split() == digests


def test_figures_have_no_dates_no_library_ids_and_may_stand_in_the_page(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    for name, data in draw(registration, verdict, evidence).items():
        text = data.decode()
        assert "metadata" not in text
        assert inline(data, name=name)
        ids = [e.get("id") for e in ET.fromstring(text).iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        assert all(i is not None and i.startswith(f"{name}-") for i in ids)


def test_user_settings_of_the_drawing_library_do_not_change_a_figure(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    import matplotlib as mpl

    before = draw(registration, verdict, evidence)
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "path", "axes.facecolor": "red"}):
        assert draw(registration, verdict, evidence) == before
        assert mpl.rcParams["font.size"] == 20


def test_text_that_looks_like_mathematics_or_markup_is_drawn_as_text(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    spec = registration.resolved.statistics["sae.ev.raw@1"]
    odd = spec.model_copy(update={"title": '<script>$\\frac{</script>\nid="x" \u202e'})
    statistics = registration.resolved.statistics | {"sae.ev.raw@1": odd}
    resolved = registration.resolved.model_copy(update={"statistics": statistics})
    drawn = draw(registration.model_copy(update={"resolved": resolved}), verdict, evidence)["raw"]
    assert b"<script" not in drawn
    assert '<script>$\\frac{</script> id="x"' in "".join(ET.fromstring(drawn).itertext())
    inline(drawn, name="raw")


def test_drawings_that_differ_in_more_than_rounding_are_not_the_same(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawn = draw(registration, verdict, evidence)["raw"]
    at = drawn.index(b' x="') + 4
    end = drawn.index(b'"', at)
    value = float(drawn[at:end])
    moved = drawn[:at] + f"{value + 1:.6f}".encode() + drawn[end:]
    nudged = drawn[:at] + f"{value + 0.001:.6f}".encode() + drawn[end:]
    assert same_drawing(drawn, nudged)
    assert not same_drawing(drawn, moved)
    assert not same_drawing(drawn, drawn.replace(b">0.5<", b">0.51<"))
    assert not same_drawing(drawn, drawn.replace(b"#0b4f8a", b"#0b4f8b"))
    with pytest.raises(ValueError, match="not XML"):
        same_drawing(drawn, drawn[:-9])


def test_the_drawing_version_is_told_without_importing_the_library() -> None:
    script = (
        "import sys; from reports.figures import drawing_version as v; print(v());"
        "assert 'matplotlib' not in sys.modules"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == drawing_version()


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        '<rect style="position:fixed;top:0;left:0"/>',
        '<g style="fill: red; z-index: 9999"><path d="M0 0"/></g>',
        '<rect style="width:100vw;height:100vh"/>',
        '<g onload="alert(1)"/>',
        "<foreignObject/>",
        '<image href="x.png"/>',
        '<use href="http://example.org/x.svg#a"/>',
        '<use xlink:href="data:image/svg+xml,x"/>',
        '<rect style="fill: url(http://example.org/a)"/>',
        '<rect style="fill: u\\72l(http://example.org/a)"/>',
        "<style>@import 'x'</style>",
        '<a href="#x"/>',
        "<!-- comment -->",
        "<g",
        "&undefined;",
    ],
)
def test_a_drawing_that_runs_or_fetches_is_refused(body: str) -> None:
    data = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{body}</svg>"
    ).encode()
    with pytest.raises(IntegrityError, match=r"x\.svg"):
        inline(data, name="x.svg")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"<html/>",
        b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        b"<svg>" * 5000,
    ],
)
def test_what_is_no_drawing_is_refused(data: bytes) -> None:
    with pytest.raises(IntegrityError):
        inline(data, name="x.svg")


def test_a_plain_drawing_is_taken_as_it_is() -> None:
    data = b'<svg xmlns="http://www.w3.org/2000/svg"><rect x="1" style="fill: url(#a)"/></svg>'
    assert str(inline(data, name="x.svg")) == data.decode()
