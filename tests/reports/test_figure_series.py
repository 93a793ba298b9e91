"""Other arms beside a claim's own values: drawn where they were measured, told in words and rows."""

from __future__ import annotations

import dataclasses
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging import interval, judge, write_evidence
from harness.judging.evidence import Evidence, EvidenceRecord
from harness.judging.intervals import pooled_interval
from harness.judging.verdict import ClaimVerdict, Estimate, MemberVerdict, Verdict
from prereg.canonical import sha256
from prereg.registration import Registration
from prereg.resolved import FigureSpec, Series, StatisticSpec
from reports.audit import Material, render
from reports.beside import Beside
from reports.figures import draw, panels_of, same_drawing
from reports.panels import BESIDE, BESIDE_COLOURS, MAIN
from reports.scale import PADDING, REACH, scale_of
from reports.svg import inline

PAIRED = "alignment.ev.paired@1"
RAW = "sae.ev.raw@1"
SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"
MINUS = "\N{MINUS SIGN}"
HOSTILE = '<script>alert("x")</script> & \u202e'


def with_figure(registration: Registration, **changes: Any) -> Registration:
    """The registration with only the paired figure, changed."""
    spec = next(s for s in registration.resolved.suite.figures if s.id == "paired")
    suite = registration.resolved.suite
    suite = suite.model_copy(update={"figures": (spec.model_copy(update=changes),)})
    resolved = registration.resolved.model_copy(update={"suite": suite})
    return registration.model_copy(update={"resolved": resolved})


def with_statistic(registration: Registration, **changes: Any) -> Registration:
    """The registration with a catalogue entry of the paired statistic that is changed."""
    spec = registration.resolved.statistics[PAIRED].model_copy(update=changes)
    statistics = registration.resolved.statistics | {PAIRED: spec}
    resolved = registration.resolved.model_copy(update={"statistics": statistics})
    return registration.model_copy(update={"resolved": resolved})


def figure_of(registration: Registration) -> FigureSpec:
    """The paired figure."""
    return next(s for s in registration.resolved.suite.figures if s.id == "paired")


def beside_of(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[Beside, ...]:
    """The series of the paired figure."""
    panels = panels_of(figure_of(registration), registration, verdict, evidence)
    assert panels is not None
    return panels.beside


def main_records(evidence: Evidence, statistic: str, arm: str | None) -> list[EvidenceRecord]:
    """Records of the real case."""
    return [
        r
        for r in evidence.records
        if (r.statistic, r.arm, r.case) == (statistic, arm, "main") and r.undefined is None
    ]


def texts(drawing: bytes) -> list[str]:
    """Every text of a drawing."""
    return [e.text or "" for e in ET.fromstring(drawing).iter(f"{SVG}text")]


def marks(drawing: bytes, colour: str) -> list[tuple[float, float]]:
    """Where markers of a colour stand, without the legend."""
    found = [
        (float(e.get("x", "")), float(e.get("y", "")))
        for e in ET.fromstring(drawing).iter(f"{SVG}use")
        if f"fill: {colour}" in (e.get("style") or "")
    ]
    return sorted(found)[:-1]


def segments(drawing: bytes, colour: str) -> list[tuple[float, float, float]]:
    """Upright lines of a colour: x, lower and upper end (as values go, so larger y first)."""
    found = []
    for path in ET.fromstring(drawing).iter(f"{SVG}path"):
        ends = re.fullmatch(r"M (\S+) (\S+) L (\S+) (\S+) ?", path.get("d") or "")
        if ends and f"stroke: {colour}" in (path.get("style") or ""):
            x1, y1, x2, y2 = map(float, ends.groups())
            if x1 == x2:
                found.append((x1, y1, y2))
    return sorted(found)


def heights(
    drawing: bytes, registration: Registration, verdict: Verdict, evidence: Evidence
) -> tuple[float, float]:
    """Slope and offset of y against value, from the claim's own markers."""
    claim = next(c for c in verdict.claims if c.statistic == PAIRED)
    drawn = [y for _, y in marks(drawing, MAIN)]
    order = sorted(
        claim.members,
        key=lambda m: (m.pair or "", registration.resolved.sites.index(m.site or "")),
    )
    values = [m.estimate.value for m in order if m.estimate.value is not None]
    assert len(values) == len(drawn)
    low, high = values.index(min(values)), values.index(max(values))
    slope = (drawn[high] - drawn[low]) / (values[high] - values[low])
    for value, y in zip(values, drawn, strict=True):
        assert y == pytest.approx(drawn[low] + slope * (value - values[low]), abs=0.01)
    return slope, drawn[low] - slope * values[low]


def test_a_series_is_drawn_at_its_value_with_its_interval_at_the_registered_level(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawing = draw(registration, verdict, evidence)["paired"]
    slope, offset = heights(drawing, registration, verdict, evidence)
    parameters = registration.resolved.statistics[PAIRED].parameters
    records = sorted(
        main_records(evidence, PAIRED, "shift-only"),
        key=lambda r: (r.pair or "", registration.resolved.sites.index(r.site or "")),
    )
    colour = BESIDE_COLOURS[1]
    points, lines = marks(drawing, colour), segments(drawing, colour)
    assert len(points) == len(lines) == len(records) == 5
    for record, point, line in zip(records, points, lines, strict=True):
        estimate = interval(record, parameters, level=registration.claim.decision.level)
        assert estimate.value is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert point[0] == pytest.approx(line[0], abs=0.01)
        assert point[1] == pytest.approx(offset + slope * estimate.value, abs=0.02)
        assert line[1] == pytest.approx(offset + slope * estimate.low, abs=0.02)
        assert line[2] == pytest.approx(offset + slope * estimate.high, abs=0.02)


def test_a_series_stands_at_the_site_and_in_the_panel_where_it_was_measured(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawing = draw(registration, verdict, evidence)["paired"]
    own, beside = marks(drawing, MAIN), marks(drawing, BESIDE_COLOURS[1])
    # Six own values; the series lacks the last site of the last pair.
    steps = [x - o for (x, _), (o, _) in zip(beside, own, strict=False)]
    assert len(own) == 6
    assert max(steps) - min(steps) < 0.02
    assert 0 < steps[0] < own[1][0] - own[0][0]


def test_a_series_without_records_is_left_out_of_drawing_legend_and_words(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawing = draw(registration, verdict, evidence)["paired"]
    assert "c any linear map" in texts(drawing)
    assert b"scaled" not in drawing
    bare = evidence.model_copy(
        update={"records": tuple(r for r in evidence.records if r.arm is None)}
    )
    without = draw(registration, verdict, bare)["paired"]
    none = draw(with_figure(registration, beside=()), verdict, evidence)["paired"]
    assert without == none
    assert not any("not judged" in text for text in texts(without))


def test_a_value_off_the_axis_is_an_arrow_at_the_edge_with_its_value(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawing = draw(registration, verdict, evidence)["paired"]
    spec = registration.resolved.statistics[PAIRED]
    expected = [
        f"a {MINUS}{abs(float(f'{record.value:.3g}')):g}"
        for record in main_records(evidence, PAIRED, "raw")
    ]
    assert spec.parameters == {}
    told = [text for text in texts(drawing) if re.fullmatch(rf"a {MINUS}[\d.]+", text)]
    assert sorted(told) == sorted(expected)
    # An arrow and the shape of the series for each value, and the shape in the legend.
    assert len(marks(drawing, BESIDE_COLOURS[0])) == 2 * len(expected)


def test_a_value_off_the_axis_does_not_squeeze_what_decides(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    near = tuple(s for s in figure_of(registration).beside if s.arm != "raw")
    one = draw(registration, verdict, evidence)["paired"]
    other = draw(with_figure(registration, beside=near), verdict, evidence)["paired"]
    ticks = [
        [text for text in texts(drawing) if re.fullmatch(rf"{MINUS}?[\d.]+", text)]
        for drawing in (one, other)
    ]
    assert ticks[0] == ticks[1] != []  # the same axis


@pytest.mark.parametrize(("value", "above"), [(-41.0, False), (1e12, True)])
def test_an_arrow_points_to_the_side_where_the_value_lies(
    registration: Registration, verdict: Verdict, evidence: Evidence, value: float, above: bool
) -> None:
    spec = StatisticSpec.model_validate(
        registration.resolved.statistics[PAIRED].model_dump()
        | {"id": "odd.exact@1", "estimator": "exact", "upper": None}
    )
    statistics = registration.resolved.statistics | {spec.id: spec}
    resolved = registration.resolved.model_copy(update={"statistics": statistics})
    changed = with_figure(
        registration.model_copy(update={"resolved": resolved}),
        beside=(Series(label="odd", statistic=spec.id),),
    )
    record = EvidenceRecord(
        statistic=spec.id,
        site=registration.resolved.sites[0],
        pair="b",
        case="main",
        estimator="exact",
        value=value,
    )
    more = evidence.model_copy(update={"records": (*evidence.records, record)})
    drawing = draw(changed, verdict, more)["paired"]
    root = ET.fromstring(drawing)
    used = {
        float(e.get("x", "")): (float(e.get("y", "")), e.get(f"{XLINK}href", "#")[1:])
        for e in root.iter(f"{SVG}use")
        if f"fill: {BESIDE_COLOURS[0]}" in (e.get("style") or "")
    }
    drawn = [
        (float(e.get("y", "")), e.get(f"{XLINK}href", "#")[1:])
        for e in root.iter(f"{SVG}use")
        if float(e.get("x", "")) == min(used)
    ]
    legend = used[max(used)][1]
    (shape,) = (y for y, name in drawn if name == legend)
    ((arrow, name),) = ((y, name) for y, name in drawn if name != legend)
    path = next(e for e in root.iter(f"{SVG}path") if e.get("id") == name)
    tip = float((path.get("d") or "").split()[2])
    middle = sum(y for _, y in marks(drawing, MAIN)) / len(marks(drawing, MAIN))
    # Up is towards smaller y.
    assert (tip < 0) == (arrow < shape) == (arrow < middle) == above
    inline(drawing, name="paired")


REALS = st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 6))


@given(beside=st.lists(REALS, max_size=6), value=REALS, half=st.floats(1e-3, 1e6), lower=REALS)
@settings(deadline=None, max_examples=100)
def test_the_reach_of_the_axis_is_bounded_whatever_stands_beside(
    beside: list[float], value: float, half: float, lower: float
) -> None:
    estimate = Estimate(value=value, low=value - half, high=value + half, level=0.95)
    member = MemberVerdict(
        site="s", pair="b", word="PASS", reason="why", estimate=estimate, controls=()
    )
    claim = ClaimVerdict(
        name="c",
        bar=False,
        role="primary",
        statistic="s@1",
        kind="same",
        lower=lower,
        word="PASS",
        members=(member,),
    )
    scale = scale_of(claim, [Estimate(value=v, low=v, high=v, level=0.95) for v in beside])
    core = max(value + half, lower) - min(value - half, lower)
    assert all(scale.holds(v) for v in (value - half, value + half, lower))
    limit = (1 + 2 * REACH) * (1 + 2 * PADDING) * core
    assert scale.high - scale.low <= limit * (1 + 1e-6) + 1e-6
    reach = 0.99 * REACH * core
    near = [v for v in beside if abs(v - value) <= half + reach]
    assert all(scale.holds(v) for v in near)


def test_shape_and_colour_tell_as_many_series_apart_as_a_figure_may_have() -> None:
    most = 12
    with pytest.raises(ValueError, match="at most 12"):
        FigureSpec(
            id="f",
            title="t",
            statistic="s@1",
            beside=tuple(Series(label=str(i), statistic="s@1") for i in range(most + 1)),
        )
    used = {(BESIDE[i % len(BESIDE)], BESIDE_COLOURS[i % len(BESIDE_COLOURS)]) for i in range(most)}
    assert len(used) == most
    assert not set(BESIDE) & set("ox^vs")


def test_the_words_behind_a_figure_hold_every_value_beside(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    drawing = draw(registration, verdict, evidence)["paired"]
    said = ET.fromstring(drawing).get("aria-label") or ""
    assert "Beside them, not judged, with 95\u202f% intervals each for itself: (a) not" in said
    for series in beside_of(registration, verdict, evidence):
        assert f"{series.label}: " in said
    assert said.count("pair b") == said.count("blocks.") - said.count("pair c") == 9
    assert re.search(r"shifted only: blocks\.0\.hook_resid_post, pair b 0\.\d+ \[0\.\d+, ", said)


def test_the_table_behind_a_figure_holds_every_value_beside(
    registration: Registration, verdict: Verdict, material: Material
) -> None:
    page = render(registration, verdict, material=material).decode()
    figure = page[page.index('id="figure-paired"') :]
    table = figure[figure.index('<table class="behind"') : figure.index("</table>")]
    groups = [
        [
            [html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in cells]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
            if (cells := re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL))
        ]
        for body in re.findall(r"<tbody>(.*?)</tbody>", table, re.DOTALL)
    ]
    assert [len(rows) for rows in groups] == [4, 4, 4, 4, 4, 1]
    assert groups[0][0][0] == "blocks.0.hook_resid_postpair b"
    labels = [row[0] for row in groups[0][1:]]
    assert labels == ["a not aligned", "b shifted only", "c any linear map"]
    own, shifted = groups[0][0], groups[0][2]
    assert own[1:3] == ["same-state", PAIRED]
    assert own[-1].endswith("PASS")
    assert shifted[1] == f"{PAIRED}, arm shift-only"
    assert re.fullmatch(r"0\.33\d*|0\.32\d*", shifted[2])
    assert re.fullmatch(r"\[0\.3\d+, 0\.3\d+\]", shifted[3])
    assert shifted[4:] == ["95\u202f%", "n = 64 blocks", "not judged"]
    assert 'href="#controls-same-state"' in table
    assert 'id="controls-same-state"' in page


def test_an_arm_left_out_is_that_of_the_claim_and_the_claims_own_stands_once(
    make: Any, evidence: Evidence
) -> None:
    claims = [
        {"id": "same", "statistic": PAIRED, "kind": "same", "above": 0.5, "arm": "topk"},
    ]
    registration = with_statistic(make.registration(claims=claims), arms=("topk", "relu"))
    raw = Series(label="raw", statistic=RAW)
    registration = with_figure(
        registration,
        beside=(
            Series(label="own", statistic=PAIRED),
            Series(label="also own", statistic=PAIRED, arm="topk"),
            raw,
            Series(label="relu", statistic=PAIRED, arm="relu"),
        ),
    )
    records = [
        r.model_copy(update={"arm": "topk"})
        for r in evidence.records
        if r.statistic == PAIRED and r.arm is None
    ]
    records += [
        r.model_copy(update={"arm": "relu"}) for r in main_records(evidence, PAIRED, "linear")
    ]
    bars = [r for r in evidence.records if r.statistic.startswith("bar.")]

    def found(arms: Iterable[str | None]) -> list[tuple[str, str | None, int]]:
        raws = [
            r.model_copy(update={"arm": arm})
            for arm in arms
            for r in main_records(evidence, RAW, None)
        ]
        header = evidence.header.model_copy(update={"registration": registration.id})
        changed = Evidence(header=header, records=(*bars, *records, *raws))
        said = judge(registration, changed, evidence_sha256=sha256(write_evidence(changed)))
        return [(one.label, one.arm, one.index) for one in beside_of(registration, said, changed)]

    assert found(["topk", "relu"]) == [("raw", "topk", 2), ("relu", "relu", 3)]
    # A control's record says nothing about the arms of the real case.
    records.append(
        next(r for r in evidence.records if (r.statistic, r.case) == (RAW, "self")).model_copy(
            update={"arm": "topk"}
        )
    )
    assert found([None]) == [("raw", None, 2), ("relu", "relu", 3)]
    assert found(["relu"]) == [("relu", "relu", 3)]


def test_beside_a_claim_over_seeds_stand_means_over_the_same_seeds(
    make: Any, evidence: Evidence, material: Material
) -> None:
    claims = [{"id": "same", "statistic": PAIRED, "kind": "same", "above": 0.5, "pool": "seeds"}]
    registration = make.registration(claims=claims)
    kept = tuple(r for r in evidence.records if r.statistic == PAIRED or r.case == "main")
    header = evidence.header.model_copy(update={"registration": registration.id})
    changed = Evidence(header=header, records=kept)
    verdict = judge(registration, changed, evidence_sha256=sha256(write_evidence(changed)))
    shifted = next(
        one for one in beside_of(registration, verdict, changed) if one.label == "shifted only"
    )
    sites = registration.resolved.sites
    assert shifted.pooled
    assert list(shifted.values) == [(site, None) for site in sites]
    records = [r for r in main_records(changed, PAIRED, "shift-only") if r.site == sites[0]]
    assert len(records) == 2
    assert shifted.values[sites[0], None] == pooled_interval(records, {}, level=verdict.level)
    assert shifted.values[sites[2], None].undefined == "not measured for c"
    assert len(shifted.drawn) == 2
    drawings = draw(registration, verdict, changed)
    shown = dataclasses.replace(material, evidence=changed, figures=drawings)
    page = render(registration, verdict, material=shown).decode()
    table = page[page.index('<table class="behind"') :]
    # Three values of the claim, and three series of which the third site has no second seed.
    assert table[: table.index("</table>")].count("n = 2 seeds") == 3 + 2 * 3
    assert "no value: not measured for c" in table


def test_a_value_with_too_little_data_for_an_interval_is_told_and_not_drawn(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    few = tuple(
        r.model_copy(
            update={
                "blocks": (r.blocks or ())[:2],
                "columns": {name: column[:2] for name, column in (r.columns or {}).items()},
            }
        )
        if r.arm == "linear"
        else r
        for r in evidence.records
    )
    found = beside_of(registration, verdict, evidence.model_copy(update={"records": few}))
    linear = next(one for one in found if one.label == "any linear map")
    assert all(e.value is not None and e.undefined for e in linear.values.values())
    assert linear.drawn == {}


def test_what_has_another_unit_or_no_interval_is_told_and_not_drawn(
    registration: Registration, verdict: Verdict, evidence: Evidence, material: Material
) -> None:
    other = Series(label="in nats", statistic=RAW)
    unknown = Series(label="of old", statistic="alignment.old@1")
    spec = registration.resolved.statistics[RAW].model_copy(update={"unit": "nats"})
    statistics = registration.resolved.statistics | {RAW: spec}
    resolved = registration.resolved.model_copy(update={"statistics": statistics})
    changed = with_figure(
        registration.model_copy(update={"resolved": resolved}), beside=(other, unknown)
    )
    old = evidence.records[0].model_copy(update={"statistic": "alignment.old@1"})
    more = evidence.model_copy(update={"records": (*evidence.records, old)})
    drawing = draw(changed, verdict, more)["paired"]
    none = draw(with_figure(registration, beside=()), verdict, evidence)["paired"]
    assert drawing == none
    page = render(
        changed,
        verdict,
        material=dataclasses.replace(material, evidence=more, figures={"paired": drawing}),
    ).decode()
    assert "a in nats" in page
    assert " nats, not drawn</td>" in page
    assert "no value: the statistic was not frozen, so neither was its interval" in page
    assert "no value: the dictionary has no active feature at this site" in page


def test_a_control_record_is_never_taken_for_a_value_beside(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    changed = tuple(
        r.model_copy(update={"case": "self"}) if r.arm == "linear" else r for r in evidence.records
    )
    found = beside_of(registration, verdict, evidence.model_copy(update={"records": changed}))
    assert [one.label for one in found] == ["not aligned", "shifted only"]


def test_a_figure_with_series_has_the_same_bytes_twice_and_not_where_a_value_moved(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    one = draw(registration, verdict, evidence)["paired"]
    assert draw(registration, verdict, evidence)["paired"] == one
    moved = tuple(
        r.model_copy(
            update={
                "columns": {
                    "residual": tuple(1.05 * x for x in (r.columns or {})["residual"]),
                    "total": (r.columns or {})["total"],
                }
            }
        )
        if r.arm == "shift-only"
        else r
        for r in evidence.records
    )
    other = draw(registration, verdict, evidence.model_copy(update={"records": moved}))["paired"]
    assert not same_drawing(one, other)


def test_a_hostile_label_is_drawn_and_shown_as_text(
    registration: Registration, verdict: Verdict, evidence: Evidence, material: Material
) -> None:
    changed = with_figure(
        registration, beside=(Series(label=HOSTILE, statistic=PAIRED, arm="linear"),)
    )
    drawings = draw(changed, verdict, evidence)
    inline(drawings["paired"], name="paired")
    assert b"<script" not in drawings["paired"]
    assert "\u202e" not in drawings["paired"].decode()
    assert any(text.startswith('a <script>alert("x")</s') for text in texts(drawings["paired"]))
    page = render(
        changed, verdict, material=dataclasses.replace(material, figures=drawings)
    ).decode()
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; &amp; \ufffd" in page


def test_a_legend_has_room_for_every_line_and_no_name_runs_out_of_the_drawing(
    registration: Registration, verdict: Verdict, evidence: Evidence
) -> None:
    long = "a label that nobody could read at this length"
    changed = with_figure(
        registration,
        beside=tuple(Series(label=long, statistic=PAIRED, arm="linear") for _ in range(12)),
    )
    claims = tuple(
        c.model_copy(update={"members": tuple(m for m in c.members if m.pair == "b")})
        for c in verdict.claims
    )
    drawing = draw(changed, verdict.model_copy(update={"claims": claims}), evidence)["paired"]
    root = ET.fromstring(drawing)
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.get("y", "0")) < height
        x = float(text.get("x", "0"))
        shown = text.text or ""
        if shown.endswith("…"):
            assert x + 0.6 * 6.8 * len(shown) < width
    assert sum(text.endswith("…") for text in texts(drawing)) == 12


def test_a_published_figure_holds_the_series(published: Path) -> None:
    drawing = (published / "figures" / "paired.svg").read_bytes()
    assert {"a not aligned", "b shifted only", "c any linear map"} <= set(texts(drawing))


def test_every_claim_has_a_line_in_the_overview_that_counts_values_and_controls(
    registration: Registration, verdict: Verdict, material: Material
) -> None:
    page = render(registration, verdict, material=material).decode()
    table = page[page.index('<table class="overview"') :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)[1:]
    plain = [re.sub(r"<[^>]+>", " ", row) for row in rows]
    assert len(rows) == len(verdict.claims) == 3
    assert "4 PASS, 1 FAIL, 1 UNDECIDABLE" in plain[1]
    assert "35 of 36 as expected; ✘\ufe0e covariance-only not (1 of 6)" in plain[2]
    for row, claim in zip(rows, verdict.claims, strict=True):
        assert f'href="#claim-{claim.name}"' in row
        valued = [m for m in claim.members if m.estimate.value is not None]
        assert row.count('class="short') == len(valued)
