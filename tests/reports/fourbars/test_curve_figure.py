"""Curves: one statistic against another, one point an arm, exactly where the evidence says."""

from __future__ import annotations

import dataclasses
import html
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.evidence import Evidence, EvidenceRecord
from prereg.resolved import FigureSpec, Series
from reports.audit import render
from reports.canvas import MAIN, QUIET
from reports.curve import LABEL, Curves, curves_of
from reports.figures import draw, same_drawing
from reports.labels import Label, _box, placed
from reports.svg import inline
from reports.verify import verify

WEIGHT, STATES = "front.weight@1", "front.states@1"
SVG = "{http://www.w3.org/2000/svg}"
ARMS = ("0", "0.5", "1", "0.25")
"""As they are frozen: those that a claim can be about, then those that are only shown."""
FRONT = {"0": (0.5, 0.8), "0.5": (0.2, 0.3), "1": (0.05, 0.1), "0.25": (0.3, 0.42)}
UNJUDGED = "Not registered as a claim: shown, not judged."


def texts(drawing: bytes) -> list[str]:
    """Every text of a drawing."""
    return [e.text or "" for e in ET.fromstring(drawing).iter(f"{SVG}text")]


def points(drawing: bytes) -> list[tuple[float, float]]:
    """Where the marks of arms stand, in the order in which they were drawn; not the legend's."""
    root = ET.fromstring(drawing)
    found = [
        (float(e.get("x", "")), float(e.get("y", "")))
        for e in root.iter(f"{SVG}use")
        if f"stroke: {MAIN}" in (e.get("style") or "")
    ]
    legend = sum("an arm" in text for text in texts(drawing))
    return found[: len(found) - legend]


def lines(drawing: bytes, colour: str) -> list[list[tuple[float, float]]]:
    """Corners of the lines of a colour, axes left out."""
    found = []
    for path in ET.fromstring(drawing).iter(f"{SVG}path"):
        numbers = re.findall(r"[ML] (\S+) (\S+)", path.get("d") or "")
        style = path.get("style") or ""
        if f"stroke: {colour}" in style and "fill: none" in style and path.get("clip-path"):
            found.append([(float(x), float(y)) for x, y in numbers])
    return found


def curves(bars: Any) -> Curves:
    """What the curve shows."""
    spec = next(s for s in bars.registration.resolved.suite.figures if s.kind == "curve")
    shown = curves_of(spec, bars.registration, bars.verdict, bars.evidence)
    assert isinstance(shown, Curves)
    return shown


def fitted(xs: list[float], ys: list[float]) -> tuple[float, float]:
    """Slope and offset of the line through the two outermost points."""
    low, high = xs.index(min(xs)), xs.index(max(xs))
    slope = (ys[high] - ys[low]) / (xs[high] - xs[low])
    return slope, ys[low] - slope * xs[low]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "curve"}, "horizontal axis"),
        ({"across": STATES}, "horizontal axis"),
        ({"kind": "null", "across": STATES}, "horizontal axis"),
        ({"kind": "curve", "across": WEIGHT}, "two statistics"),
        ({"kind": "null", "beside": (Series(label="x", statistic=STATES),)}, "`beside` belongs"),
        ({"noun": "labelling"}, "`noun` belongs"),
        ({"kind": "scatter"}, "'sites', 'curve' or 'null'"),
    ],
)
def test_a_figure_that_does_not_fit_its_kind_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FigureSpec(id="f", title="t", statistic=WEIGHT, **changes)


def test_every_arm_stands_where_its_two_values_say(four_bars: Any) -> None:
    shown = [p for curve in curves(four_bars).panels for p in curve.drawn]
    drawn = points(four_bars.drawings["front"])
    assert len(drawn) == len(shown) == 7
    first = shown[:4]
    across = [p.across.value for p in first]
    up = [max(FRONT[p.arm]) for p in first]  # of a bracket the upper bound
    for values, pixels, grows in (
        (across, [x for x, _ in drawn[:4]], 1),
        (up, [y for _, y in drawn[:4]], -1),
    ):
        slope, offset = fitted(values, pixels)
        assert slope * grows > 0
        for value, pixel in zip(values, pixels, strict=True):
            assert pixel == pytest.approx(offset + slope * value, abs=0.02)
    # Both panels have the same axes.
    slope, offset = fitted(up, [y for _, y in drawn[:4]])
    assert drawn[4][1] == pytest.approx(offset + slope * 0.8 * 1.2, abs=0.02)


def test_the_arms_come_in_their_frozen_order_and_the_line_joins_them_so(four_bars: Any) -> None:
    drawing = four_bars.drawings["front"]
    assert [p.arm for p in curves(four_bars).all[0].points] == list(ARMS)
    joined = lines(drawing, QUIET)
    drawn = points(drawing)
    assert np.array(joined[0]) == pytest.approx(np.array(drawn[:4]))
    # In the other pair the second arm has no state error: no line leads past it.
    assert np.array(joined[1]) == pytest.approx(np.array(drawn[5:7]))
    assert len(joined) == 2


def test_a_bracket_is_a_bar_from_the_upper_bound_down_to_the_lower(four_bars: Any) -> None:
    drawing = four_bars.drawings["front"]
    drawn = points(drawing)
    slope, offset = fitted([max(FRONT[a]) for a in ARMS], [y for _, y in drawn[:4]])
    bars = lines(drawing, MAIN)
    for arm, (x, y) in zip(ARMS, drawn[:4], strict=True):
        low = offset + slope * min(FRONT[arm])
        upright = [b for b in bars if b[0][0] == b[1][0] == pytest.approx(x, abs=0.01)]
        (ends,) = ({round(b[0][1], 2), round(b[1][1], 2)} for b in upright)
        assert sorted(ends) == pytest.approx(sorted([y, low]), abs=0.03)
    assert "A value that is only known between two bounds is drawn at the upper one" in (
        curves(four_bars).alternative()
    )


def test_an_interval_across_is_a_level_bar_at_the_registered_level(four_bars: Any) -> None:
    drawing = four_bars.drawings["front"]
    shown = curves(four_bars).panels[0].drawn
    drawn = points(drawing)
    slope, offset = fitted([p.across.value or 0.0 for p in shown], [x for x, _ in drawn[:4]])
    level = [b for b in lines(drawing, MAIN) if b[0][1] == b[1][1]]
    for point, (_, y) in zip(shown, drawn[:4], strict=True):
        assert point.across.level == four_bars.verdict.level
        wanted = [offset + slope * (end or 0.0) for end in (point.across.low, point.across.high)]
        assert any(
            b[0][1] == pytest.approx(y, abs=0.01)
            and [b[0][0], b[1][0]] == pytest.approx(wanted, abs=0.02)
            for b in level
        )


def test_axes_have_titles_and_units_on_their_own_sides(four_bars: Any) -> None:
    said = texts(four_bars.drawings["front"])
    assert "↑ weight error on the front (pure number)" in said
    assert said.count("→ state error on the front (nats)") == 2
    assert {"pair b", "pair c", *ARMS} <= set(said)


def test_swapped_axes_are_another_drawing(four_bars: Any, make_bars: Any) -> None:
    swapped = make_bars(
        figures=[
            {
                "id": "front",
                "title": "Weight error against state error",
                "kind": "curve",
                "statistic": STATES,
                "across": WEIGHT,
            }
        ]
    )
    one, other = four_bars.drawings["front"], swapped.drawings["front"]
    assert not same_drawing(one, other)
    assert "↑ state error on the front (nats)" in texts(other)


def test_what_has_no_point_is_told_with_its_reason(four_bars: Any) -> None:
    def broken(record: EvidenceRecord) -> EvidenceRecord | None:
        if (record.statistic, record.pair, record.arm) == (WEIGHT, "b", "1"):
            return record.model_copy(update={"bounds": None, "undefined": "no start converged"})
        return record

    changed = four_bars.with_evidence(broken)
    said = curves(changed).alternative()
    assert (
        "Without a point: pair b, arm 1 (upwards no start converged); "
        "pair c, arm 0.5 (across not measured). "
    ) in said
    assert said in html.unescape(changed.page)
    assert "no value: no start converged" in changed.page
    assert len(points(changed.drawings["front"])) == 6
    assert "2 panels, 6 points: one for each of 4 arms (0, 0.5, 1, 0.25)" in said


def test_a_curve_of_no_claim_says_that_it_is_not_judged(four_bars: Any) -> None:
    drawing = four_bars.drawings["front"]
    assert UNJUDGED in curves(four_bars).alternative()
    assert UNJUDGED in (ET.fromstring(drawing).get("aria-label") or "")
    figure = four_bars.page[four_bars.page.index('id="figure-front"') :]
    assert UNJUDGED in figure[: figure.index("</figcaption>")]
    assert "accepted region" not in texts(drawing)
    table = figure[: figure.index("</table>")]
    assert table.count("not judged</td>") == 16
    assert "badge" not in table


def test_a_claim_about_one_arm_has_region_filled_mark_and_verdict(make_bars: Any) -> None:
    claims = [{"id": "near", "statistic": WEIGHT, "kind": "same", "below": 0.35, "arm": "0.5"}]
    judged = make_bars(claims=claims)
    said = curves(judged).alternative()
    assert UNJUDGED not in said
    assert "Judged where near is about it; the rest is shown, not judged." in said
    drawing = judged.drawings["front"]
    assert {"an arm that is judged", "an arm, not judged", "accepted region"} <= set(texts(drawing))
    filled = [
        e
        for e in ET.fromstring(drawing).iter(f"{SVG}use")
        if (e.get("style") or "").startswith(f"fill: {MAIN}; stroke: {MAIN}")
    ]
    assert len(filled) == 1 + 1  # pair b, and the legend: pair c has no point there
    figure = judged.page[judged.page.index('id="figure-front"') :]
    table = figure[: figure.index("</table>")]
    assert table.count('href="#claim-near"') == 2
    assert table.count("not judged</td>") == 14


def test_every_value_is_in_the_table_behind_with_unit_interval_and_sample(four_bars: Any) -> None:
    figure = four_bars.page[four_bars.page.index('id="figure-front"') :]
    table = figure[: figure.index("</table>")]
    rows = [
        [html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<td.*?</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    ]
    assert len(rows) == 2 * 2 * 4
    assert [row[1] for row in rows[:2]] == [f"{WEIGHT}, arm 0", f"{STATES}, arm 0"]
    assert rows[0][2:] == ["bounds", "[0.50, 0.80] pure number", "", "not sampled", "not judged"]
    assert rows[1][2].endswith(" nats")
    assert rows[1][4:] == ["95\u202f%", "n = 64 blocks", "not judged"]
    for part in ("Upwards", "To the right", "formula of front.states@1"):
        assert part in figure


def test_the_spoken_name_holds_every_point(four_bars: Any) -> None:
    name = ET.fromstring(four_bars.drawings["front"]).get("aria-label") or ""
    assert name.count(" upwards, ") == 7
    assert "pair b, arm 0.5 bounds [0.200, 0.300] upwards, 0.2" in name


@pytest.mark.parametrize("missing", [WEIGHT, STATES])
def test_a_curve_without_evidence_is_left_out_and_said_to_be(four_bars: Any, missing: str) -> None:
    without = four_bars.with_evidence(
        lambda r: None if (r.statistic, r.case) == (missing, "main") else r
    )
    assert sorted(without.drawings) == ["labellings"]
    assert f"Not drawn: {missing} was not measured." in without.page


def test_a_control_is_never_taken_for_the_real_case(four_bars: Any) -> None:
    moved = four_bars.with_evidence(
        lambda r: r.model_copy(update={"case": "self"}) if r.statistic == WEIGHT else r
    )
    assert "front" not in moved.drawings


def test_a_statistic_without_arms_has_no_curve(make_bars: Any) -> None:
    figure = {
        "id": "none",
        "title": "t",
        "kind": "curve",
        "statistic": "bar.parametric.nmse@1",
        "across": STATES,
    }
    made = make_bars(figures=[figure, figure | {"id": "other", "statistic": "not.frozen@1"}])
    assert made.drawings == {}
    assert "Not drawn: bar.parametric.nmse@1 has no arms." in made.page
    assert "Not drawn: not.frozen@1 was not frozen." in made.page


def test_a_point_that_moved_is_another_drawing_and_the_same_evidence_the_same_bytes(
    four_bars: Any,
) -> None:
    def moved(record: EvidenceRecord) -> EvidenceRecord:
        one = (record.statistic, record.pair, record.arm) == (WEIGHT, "b", "0.5")
        return record.model_copy(update={"bounds": (0.2, 0.31)}) if one else record

    one = four_bars.drawings["front"]
    assert four_bars.drawings["front"] == one
    assert not same_drawing(one, four_bars.with_evidence(moved).drawings["front"])


def test_a_published_point_that_was_moved_is_drawn_again_and_found(
    four_bars: Any, publish_bars: Any, seal: Any
) -> None:
    folder: Path = publish_bars(four_bars, {"run": "prebench/run/1"})
    path = folder / "figures" / "front.svg"
    drawing = path.read_bytes()
    x, _ = points(drawing)[0]
    path.write_bytes(drawing.replace(f'x="{x}"'.encode(), f'x="{x + 5}"'.encode(), 1))
    assert path.read_bytes() != drawing
    page = (folder / "report.html").read_bytes()
    page = page.replace(drawing.strip(), path.read_bytes().strip())
    (folder / "report.html").write_bytes(page)
    seal(folder)
    assert any(p.startswith("figures/front.svg") for p in verify(folder).problems)


def test_a_curve_by_site_has_a_panel_for_each_site(four_bars: Any) -> None:
    spec = next(s for s in four_bars.registration.resolved.suite.figures if s.kind == "curve")
    records = tuple(
        r.model_copy(update={"site": site})
        for r in four_bars.evidence.records
        if r.statistic in {WEIGHT, STATES}
        for site in ("late", "blocks.0.hook_resid_post")
    )
    evidence = Evidence(header=four_bars.evidence.header, records=records)
    shown = curves_of(spec, four_bars.registration, four_bars.verdict, evidence)
    assert isinstance(shown, Curves)
    # Pairs in their order, then sites in order of flow; what is not known comes last.
    assert [curve.place.title for curve in shown.panels] == [
        "pair b, blocks.0.hook_resid_post",
        "pair b, late",
        "pair c, blocks.0.hook_resid_post",
        "pair c, late",
    ]


def test_hostile_names_are_drawn_as_text_and_may_stand_in_the_page(four_bars: Any) -> None:
    script = '<script>alert("x")</script> $\\frac{ \u202e'
    registration = four_bars.registration
    arms = (script, *ARMS[1:3])
    statistics = {
        id_: spec.model_copy(
            update={"title": script, "unit": script} | ({"arms": arms} if spec.arms else {})
        )
        for id_, spec in registration.resolved.statistics.items()
    }
    resolved = registration.resolved.model_copy(update={"statistics": statistics})
    changed = registration.model_copy(update={"resolved": resolved})
    records = tuple(
        r.model_copy(update={"arm": script}) if r.arm == "0" else r
        for r in four_bars.evidence.records
    )
    evidence = four_bars.evidence.model_copy(update={"records": records})
    drawings = draw(changed, four_bars.verdict, evidence)
    for name, data in drawings.items():
        inline(data, name=name)
        assert b"<script" not in data
        assert "\u202e" not in data.decode()
        ids = [e.get("id") for e in ET.fromstring(data).iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        assert all(i is not None and i.startswith(f"{name}-") for i in ids)
    material = dataclasses.replace(four_bars.material, evidence=evidence, figures=drawings)
    page = render(changed, four_bars.verdict, material=material).decode()
    assert "<script" not in page


SPOTS = st.floats(10, 190).map(lambda x: round(x, 2))


@given(found=st.lists(st.tuples(SPOTS, SPOTS), min_size=1, max_size=6, unique=True))
@settings(deadline=None, max_examples=60)
def test_names_of_points_that_are_far_apart_cover_nothing_and_stay_in_the_panel(
    found: list[tuple[float, float]],
) -> None:
    apart = [p for i, p in enumerate(found) if all(abs(p[1] - q[1]) > 20 for q in found[:i])]
    labels = [Label(f"arm-{i}", x, y) for i, (x, y) in enumerate(apart)]
    spots = placed(labels, wide=200, tall=200, size=LABEL)
    boxes = [_box(label, spot, LABEL) for label, spot in zip(labels, spots, strict=True)]
    assert all(b.left >= 0 and b.right <= 200 and b.low >= 0 and b.high <= 200 for b in boxes)
    ordered = sorted(boxes, key=lambda b: b.low)
    assert all(a.high <= b.low for a, b in pairwise(ordered))


def test_names_of_near_points_are_put_on_different_sides() -> None:
    labels = [Label("alpha", 100.0, 100.0), Label("beta", 104.0, 101.0)]
    one, two = placed(labels, wide=200, tall=200, size=LABEL)
    boxes = [_box(label, spot, LABEL) for label, spot in zip(labels, (one, two), strict=True)]
    assert not boxes[0].meets(boxes[1])
    edge = placed([Label("at the edge", 198.0, 100.0)], wide=200, tall=200, size=LABEL)
    assert edge[0].anchor == "right"
