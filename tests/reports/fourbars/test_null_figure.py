"""Nulls: the draws that a value is held against, its rank and its p, drawn and told."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.evidence import Evidence, EvidenceRecord, Undefined
from harness.judging.intervals import p_value
from reports.canvas import MAIN
from reports.figures import same_drawing
from reports.null import AS_WELL, DRAW, PANEL, Nulls, bars, nulls_of
from reports.places import draws_of
from reports.svg import inline
from reports.verify import verify

RANK = "labels.rank@1"
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: bytes) -> list[str]:
    """Every text of a drawing."""
    return [e.text or "" for e in ET.fromstring(drawing).iter(f"{SVG}text")]


def boxes(drawing: bytes, colour: str) -> list[tuple[float, float, float]]:
    """Left, right and height of every bar of a colour."""
    found = []
    for path in ET.fromstring(drawing).iter(f"{SVG}path"):
        if f"fill: {colour}" in (path.get("style") or "") and path.get("clip-path"):
            corners = re.findall(r"[ML] (\S+) (\S+)", path.get("d") or "")
            xs, ys = zip(*((float(x), float(y)) for x, y in corners), strict=True)
            found.append((min(xs), max(xs), max(ys) - min(ys)))
    return found


def upright(drawing: bytes) -> list[float]:
    """Where the marked values stand."""
    found = []
    for path in ET.fromstring(drawing).iter(f"{SVG}path"):
        corners = re.findall(r"[ML] (\S+) (\S+)", path.get("d") or "")
        style = path.get("style") or ""
        if f"stroke: {MAIN}" in style and path.get("clip-path") and len(corners) == 2:
            found.append(float(corners[0][0]))
    return found


def nulls(some: Any) -> Nulls:
    """What the null shows."""
    spec = next(s for s in some.registration.resolved.suite.figures if s.kind == "null")
    shown = nulls_of(spec, some.registration, some.verdict, some.evidence)
    assert isinstance(shown, Nulls)
    return shown


def record_of(some: Any, pair: str | None) -> EvidenceRecord:
    """The real case's record."""
    return next(r for r in some.evidence.records if (r.statistic, r.pair) == (RANK, pair))


FLOATS = st.floats(-1e6, 1e6, allow_nan=False)


@given(value=FLOATS, draws=st.lists(FLOATS, min_size=1, max_size=40), step=st.floats(1e-3, 1e5))
@settings(deadline=None, max_examples=80)
def test_bars_hold_every_draw_once_and_split_exactly_at_the_value(
    value: float, draws: list[float], step: float
) -> None:
    found = bars(value, [*draws, value], step=step)
    assert sum(found.values()) == len(draws) + 1
    as_well = sum(draw >= value for draw in [*draws, value])
    assert sum(count for i, count in found.items() if i >= 0) == as_well


def test_the_dark_bars_hold_the_draws_that_do_as_well_or_better(four_bars: Any) -> None:
    drawing = four_bars.drawings["labellings"]
    record = record_of(four_bars, "b")
    assert record.draws is not None
    draws = [d for d in record.draws if isinstance(d, float)]
    above = sum(d >= (record.value or 0.0) for d in draws)
    mark = upright(drawing)[0]
    first = 72 * PANEL[0]
    dark = [box for box in boxes(drawing, AS_WELL) if box[0] < first]
    light = [box for box in boxes(drawing, DRAW) if box[0] < first]
    each = sum(h for *_, h in light) / (len(draws) - above)  # height of one draw
    assert sum(h for *_, h in dark) == pytest.approx(above * each, rel=1e-3)
    # The bars part at the marked value.
    assert min(left for left, *_ in dark) == pytest.approx(mark, abs=0.01)
    assert max(right for _, right, _ in light) == pytest.approx(mark, abs=0.01)


def test_the_value_stands_where_the_axis_says(four_bars: Any) -> None:
    drawing = four_bars.drawings["labellings"]
    ticks = {}
    for text in ET.fromstring(drawing).iter(f"{SVG}text"):
        if re.fullmatch(r"\d\.\d", text.text or ""):
            ticks.setdefault(float(text.text or ""), float(text.get("x", "")))
    low, high = min(ticks), max(ticks)
    slope = (ticks[high] - ticks[low]) / (high - low)
    assert upright(drawing)[0] == pytest.approx(ticks[low] + slope * (0.78 - low), abs=0.02)


def test_rank_and_p_are_told_and_undefined_draws_count_against(four_bars: Any) -> None:
    said = nulls(four_bars).alternative()
    for pair in ("b", "c"):
        record = record_of(four_bars, pair)
        draws = draws_of(record)
        assert draws is not None
        assert draws.p == p_value(record) == (1 + draws.as_well) / (1 + draws.total)
        assert f"pair {pair}: 0.78; {draws.as_well} of 199 labellings do as well or better" in said
        assert f"Monte-Carlo p = {float(f'{draws.p:.3g}'):g}" in said
    assert draws.undefined == 1  # type: ignore[union-attr]
    assert "(1 of them undefined, which counts against it)" in said
    assert said.endswith(
        "Not registered as a claim: shown, not judged. The table below holds every value."
    )
    assert said in html.unescape(four_bars.page)
    assert "199 labellings as good, p = 0.0" in " ".join(texts(four_bars.drawings["labellings"]))


def test_a_draw_that_moved_is_another_drawing_and_another_rank(four_bars: Any) -> None:
    def moved(record: EvidenceRecord) -> EvidenceRecord:
        if (record.statistic, record.pair) != (RANK, "b") or record.draws is None:
            return record
        lowest = min(d for d in record.draws if isinstance(d, float))
        draws = tuple(2.0 - 1.1 if d == lowest else d for d in record.draws)
        return record.model_copy(update={"draws": draws})

    changed = four_bars.with_evidence(moved)
    assert not same_drawing(four_bars.drawings["labellings"], changed.drawings["labellings"])
    before, after = (nulls(some).panels[0].draws for some in (four_bars, changed))
    assert before is not None
    assert after is not None
    assert after.as_well == before.as_well + 1
    assert four_bars.drawings["labellings"] == four_bars.drawings["labellings"]
    inline(four_bars.drawings["labellings"], name="labellings")


def test_a_published_bar_that_was_removed_is_found(
    four_bars: Any, publish_bars: Any, seal: Any
) -> None:
    folder: Path = publish_bars(four_bars, {"run": "prebench/run/1"})
    path = folder / "figures" / "labellings.svg"
    before = path.read_bytes()
    tall = max(re.findall(rb'<path d="[^"]*" clip-path="[^"]*" style="fill: #b9[^"]*"/>', before))
    path.write_bytes(before.replace(tall, b"", 1))
    page = (folder / "report.html").read_bytes()
    (folder / "report.html").write_bytes(page.replace(before.strip(), path.read_bytes().strip()))
    seal(folder)
    assert any(p.startswith("figures/labellings.svg") for p in verify(folder).problems)


def test_without_evidence_or_with_another_estimator_it_is_left_out_and_said_to_be(
    four_bars: Any, make_bars: Any
) -> None:
    bare = four_bars.with_evidence(lambda r: None if r.statistic == RANK else r)
    assert "labellings" not in bare.drawings
    assert f"Not drawn: {RANK} was not measured." in bare.page
    figure = {"id": "n", "title": "t", "kind": "null", "statistic": "bar.parametric.nmse@1"}
    other = make_bars(figures=[figure])
    assert other.drawings == {}
    assert "Not drawn: bar.parametric.nmse@1 has no draws of a null." in other.page


def test_an_undefined_value_is_told_and_not_drawn(four_bars: Any) -> None:
    def undefined(record: EvidenceRecord) -> EvidenceRecord:
        if (record.statistic, record.pair) != (RANK, "b"):
            return record
        update = {"draws": None, "value": None, "undefined": "one head only"}
        return record.model_copy(update=update)

    changed = four_bars.with_evidence(undefined)
    said = nulls(changed).alternative()
    assert "pair b: no value, one head only." in said
    assert "1 panel, the real value marked" in said
    assert len(upright(changed.drawings["labellings"])) == 1


def test_draws_that_are_all_alike_or_all_undefined_break_nothing(four_bars: Any) -> None:
    def alike(record: EvidenceRecord) -> EvidenceRecord:
        if record.statistic != RANK or record.draws is None:
            return record
        same: list[float | Undefined] = [0.78] * 199
        none: list[float | Undefined] = [Undefined(undefined="constant")] * 199
        return record.model_copy(update={"draws": tuple(same if record.pair == "b" else none)})

    changed = four_bars.with_evidence(alike)
    shown = nulls(changed)
    assert [null.place.pair for null in shown.panels] == ["b"]
    assert all(null.draws is not None and null.draws.as_well == 199 for null in shown.all)
    assert len(boxes(changed.drawings["labellings"], AS_WELL)) == 1
    assert boxes(changed.drawings["labellings"], DRAW) == []


def test_every_arm_and_site_has_its_panel(four_bars: Any) -> None:
    spec = next(s for s in four_bars.registration.resolved.suite.figures if s.kind == "null")
    record = record_of(four_bars, "b")
    records = tuple(
        record.model_copy(update={"arm": arm, "site": site, "pair": pair})
        for arm in ("y", "x")
        for site in ("blocks.0.hook_resid_post", None)
        for pair in ("c", "b")
    )
    evidence = Evidence(header=four_bars.evidence.header, records=records)
    shown = nulls_of(spec, four_bars.registration, four_bars.verdict, evidence)
    assert isinstance(shown, Nulls)
    titles = [null.title for null in shown.panels]
    assert titles[:3] == [
        "pair b, arm x",
        "pair b, arm y",
        "pair b, blocks.0.hook_resid_post, arm x",
    ]
    assert len(titles) == 8


# --- tables ---------------------------------------------------------------------------------------


def exploratory(page: str) -> dict[str, list[list[str]]]:
    """Rows of the exploratory table by statistic."""
    section = page[page.index('<section id="exploratory">') :]
    found: dict[str, list[list[str]]] = {}
    for row in re.findall(r"<tr>(.*?)</tr>", section[: section.index("</table>")], re.DOTALL)[1:]:
        id_ = re.search(r"<code>(.*?)</code>", row)
        assert id_ is not None
        cells = [html.unescape(re.sub(r"<[^>]+>", "", c)) for c in re.findall(r"<td.*?</td>", row)]
        found.setdefault(id_[1], []).append(cells)
    return found


def test_exploratory_draws_have_value_number_rank_and_p(four_bars: Any) -> None:
    rows = exploratory(four_bars.page)[RANK]
    draws = draws_of(record_of(four_bars, "b"))
    assert draws is not None
    assert rows[0] == [
        "whole model, pair b",
        "0.78",
        "pure number",
        "no interval",
        "",
        f"n = 199 labellings, {draws.as_well} of them as well or better, p = {draws.p:.3g}",
    ]


def test_draws_are_called_draws_where_no_figure_names_them(make_bars: Any) -> None:
    rows = exploratory(make_bars(figures=[]).page)[RANK]
    assert rows[0][-1].startswith("n = 199 draws, ")


def test_exploratory_brackets_are_bounds_without_level_or_sample(four_bars: Any) -> None:
    rows = exploratory(four_bars.page)["front.weight@1"]
    assert ["bounds", "pure number", "[0.50, 0.80]", "", "not sampled"] in [r[1:] for r in rows]


CLAIM = {"id": "labels", "statistic": RANK, "kind": "differs", "below": 0.05}


def test_a_claim_about_a_p_value_is_drawn_and_told_on_the_axis_of_p(make_bars: Any) -> None:
    some = make_bars(claims=[CLAIM])
    claim = some.verdict.claims[-1]
    article = some.page[some.page.index('id="claim-labels"') :]
    article = article[: article.index("</article>")]
    assert "accepts p of patch effects under labellings <strong>below 0.05</strong>" in article
    strips = re.findall(r'<svg class="strip".*?</svg>', article)
    ticks = [float(t) for t in re.findall(r'class="tick"[^>]*>([\d.]+)<', strips[0])]
    assert 0 < max(ticks) < 0.2  # the value, .78, is not on this axis
    for member, drawing in zip(claim.members, strips[1:], strict=True):
        p = member.estimate.p_value
        assert f"p = {float(f'{p:.3g}'):g}; accepted region below 0.05" in drawing
        bound = float(re.search(r'class="bound" x1="([\d.]+)"', drawing)[1])  # type: ignore[index]
        mark = float(re.search(r'class="value" cx="([\d.]+)"', drawing)[1])  # type: ignore[index]
        assert (mark < bound) == (p < 0.05)
        text = html.unescape(re.sub(r"<[^>]+>", "", article))
        assert "0.78 pure number, n = 199 labellings, " in text
        assert f"of them as well or better, p = {p:.3g}" in text
    assert "no interval" not in article


def test_a_claim_by_site_about_p_values_shows_them_with_its_region(make_bars: Any) -> None:
    figure = {"id": "by-site", "title": "Labels", "statistic": RANK}
    some = make_bars(claims=[CLAIM], figures=[figure])
    said = texts(some.drawings["by-site"])
    assert "p of patch effects under labellings (pure number)" in said
    ticks = [float(t) for t in said if re.fullmatch(r"\d\.\d+", t)]
    assert max(ticks) < 0.2
    assert "p of patch effects under labellings (pure number) against the sites" in some.page


def test_a_judged_null_says_which_claim_judges_it(make_bars: Any) -> None:
    some = make_bars(claims=[CLAIM])
    assert "Judged where labels is about it; the rest is shown, not judged." in (
        nulls(some).alternative()
    )
    figure = some.page[some.page.index('id="figure-labellings"') :]
    assert figure[: figure.index("</table>")].count('href="#claim-labels"') == 2


def test_controls_of_a_p_valued_claim_have_their_draws_and_p_and_no_rank_of_p(
    make_bars: Any,
) -> None:
    roles = {"untrained": "must-fail", "shuffled-components": "must-fail", "self": "comparator"}
    some = make_bars(claims=[CLAIM], roles={RANK: roles})
    rng = np.random.default_rng(0)
    null = tuple(rng.normal(0.5, 0.2, 199).tolist())
    more = []
    for pair in ("b", "c"):
        key = {"statistic": RANK, "pair": pair, "estimator": "draws"}
        more.append(EvidenceRecord(**key, case="untrained", value=0.4, draws=null))
        p_values = tuple(rng.uniform(0.3, 0.9, 32).tolist())
        more.append(EvidenceRecord(**key, case="shuffled-components", draws=p_values))
    changed = some.with_records(more)
    table = changed.page[changed.page.index('id="controls-labels"') :]
    table = html.unescape(re.sub(r"<[^>]+>", " ", table[: table.index("</table>")]))
    table = re.sub(r"\s+", " ", table)
    rank = sum(draw >= 0.4 for draw in null)
    p = (1 + rank) / 200
    assert (
        f"0.4 no interval n = 199 labellings, {rank} of them as well or better, p = {p:.3g}"
        in table
    )
    assert "median p 0." in table
    assert "0 of 32 draws inside" in table
    assert "at or above the real value" not in table


def test_no_sample_of_the_page_is_left_unsaid(four_bars: Any, make_bars: Any) -> None:
    for some in (four_bars, make_bars(claims=[CLAIM]), make_bars(within=True)):
        assert "n not stated" not in some.page
        assert "None" not in re.sub(r"None(:|\.)", "", some.page)


def test_a_judged_bracket_reads_as_two_bounds_everywhere(four_bars: Any) -> None:
    article = four_bars.page[four_bars.page.index('id="claim-P"') :]
    article = article[: article.index("</article>")]
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", article)))
    assert "bounds [0.060, 0.090] pure number, not sampled" in text
    assert "% interval" not in text
    assert "NOT DIAGNOSTIC: bounds [0.060, 0.090]; accepted region below 0.1." in article
    table = four_bars.page[four_bars.page.index('id="controls-P"') :]
    row = re.sub(r"<[^>]+>", " ", table[table.index("depth-averaged") :])
    row = re.sub(r"\s+", " ", row)
    assert row.startswith("depth-averaged must-fail bounds [0.400, 0.500] not sampled outside")
