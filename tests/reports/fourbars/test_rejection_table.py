"""Which bar rejected which: every cell from the verdict, and the sentences from the cells."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from harness.judging.evidence import EvidenceRecord
from harness.judging.verdict import ControlOutcome, Estimate, Verdict
from reports import rejections
from reports.audit import render
from reports.verify import verify

KL, NMSE = "bar.behavioural.kl@1", "bar.parametric.nmse@1"
PATCH, LOSS = "bar.causal.pearson@1", "bar.predictive.nrmse@1"

EXPECTED = {
    "the real case": ["let through"] * 4,
    "untrained": ["rejected"] * 4,
    "depth-averaged": ["let through", "rejected", "undefined", "not applicable"],
    "blocks-swapped": ["let through", "undecided", "rejected", "not applicable"],
    "twin": ["let through", "let through", "not applicable", "rejected"],
    "shuffled-components": ["not applicable", "not applicable", "rejected", "not applicable"],
    "lineage": ["rejected", "rejected", "undecided", "not measured"],
    "self": ["let through"] * 4,
    "gauge-self": ["not applicable", "let through", "let through", "let through"],
}
"""Row by row for pair b: what B, P, C and Pr did."""


def plain(markup: str) -> str:
    """The text of markup, on one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", markup))).strip()


def tables(page: str) -> list[dict[str, list[str]]]:
    """Cells of every table by row."""
    found = []
    for table in re.findall(r'<table class="matrix">(.*?)</table>', page, re.DOTALL):
        rows = {}
        for row in re.findall(r"<tr.*?>(.*?)</tr>", table, re.DOTALL)[1:]:
            head = re.search(r"<th.*?>(.*?)(?:<span|</th>)", row, re.DOTALL)
            assert head is not None
            cells = re.findall(r"<td>(.*?)</td>", row, re.DOTALL)
            rows[plain(head[1])] = [plain(cell) for cell in cells]
        found.append(rows)
    return found


def told(page: str) -> list[list[str]]:
    """The sentences below each table."""
    lists = re.findall(r'<ul class="told">(.*?)</ul>', page, re.DOTALL)
    return [[plain(item) for item in re.findall(r"<li.*?</li>", one)] for one in lists]


def states(cells: list[str]) -> list[str]:
    """The state of every cell: what stands behind its symbol."""
    words = [*rejections.STATES.values(), "not applicable", "not judged for this pair"]
    return [next(w for w in words if cell.split(" ", 1)[1].startswith(w)) for cell in cells]


def test_every_cell_says_what_the_bar_proved_about_the_case(four_bars: Any) -> None:
    first, second = tables(four_bars.page)
    assert {name: states(cells) for name, cells in first.items()} == EXPECTED
    # In the other pair the predictive bar lets the twin through.
    moved = EXPECTED | {"twin": ["let through", "let through", "not applicable", "let through"]}
    assert {name: states(cells) for name, cells in second.items()} == moved


def test_what_has_to_be_rejected_stands_first_and_what_has_to_pass_last(four_bars: Any) -> None:
    assert list(tables(four_bars.page)[0]) == list(EXPECTED)


def test_role_symbol_and_colour_of_a_cell_say_whether_it_did_what_it_should(
    four_bars: Any,
) -> None:
    rows = tables(four_bars.page)[0]
    assert rows["untrained"][0].startswith("✔\ufe0e rejected must fail 2.")
    assert rows["twin"][1].startswith("✘\ufe0e let through must fail bounds [0.020, 0.080]")
    assert rows["self"][1].startswith("✔\ufe0e let through must pass")
    assert rows["lineage"][3] == "□ not measured comparator"
    assert rows["depth-averaged"][2] == (
        "□ undefined comparator the counterfactuals do not reach the averaged rows"
    )
    moods = re.findall(r'<td><b class="(\w+)">.*?</span> ([a-z ]+)</b>', four_bars.page)
    assert ("bad", "let through") in moods
    assert ("good", "rejected") in moods
    assert ("bad", "rejected") not in moods


def test_a_must_fail_control_that_is_not_settled_is_open_and_neither_good_nor_bad(
    four_bars: Any,
) -> None:
    def wide(record: EvidenceRecord) -> EvidenceRecord:
        twin = (record.statistic, record.case) == (NMSE, "twin")
        return record.model_copy(update={"bounds": (0.02, 0.4)}) if twin else record

    page = four_bars.with_evidence(wide).page
    assert tables(page)[0]["twin"][1].startswith("◐\ufe0e undecided must fail bounds [0.02, 0.40]")
    assert re.search(r'<b class="open"><[^>]*>[^<]*</span> undecided</b><span>must fail', page)


def test_the_row_of_the_real_case_has_verdict_value_and_interval(four_bars: Any) -> None:
    real = tables(four_bars.page)[0]["the real case"]
    assert real[0].startswith("✔\ufe0e let through PASS 0.0000")
    assert real[1] == "◇\ufe0e let through NOT DIAGNOSTIC bounds [0.060, 0.090]"
    assert re.fullmatch(r"✔\ufe0e let through PASS 0\.99\d+ \[0\.99\d+, 0\.99\d+\]", real[2])


@pytest.mark.parametrize(
    ("bounds", "state", "word"),
    [((0.2, 0.3), "rejected", "FAIL"), ((0.05, 0.3), "undecided", "INCONCLUSIVE")],
)
def test_the_real_case_may_be_rejected_or_undecided(
    four_bars: Any, bounds: tuple[float, float], state: str, word: str
) -> None:
    def moved(record: EvidenceRecord) -> EvidenceRecord:
        own = (record.statistic, record.case) == (NMSE, "main")
        return record.model_copy(update={"bounds": bounds}) if own else record

    real = tables(four_bars.with_evidence(moved).page)[0]["the real case"]
    assert real[1].split(" ", 1)[1].startswith(f"{state} {word}")


def test_numbers_stand_with_unit_level_and_sample_in_the_title(four_bars: Any) -> None:
    titles = re.findall(r'<span class="figure" title="(.*?)">(.*?)</span>', four_bars.page)
    by_value = {html.unescape(value): html.unescape(title) for title, value in titles}
    kl = next(title for value, title in by_value.items() if value.startswith("2."))
    assert kl == "nats, 95\u202f% interval, n = 64 blocks"
    assert by_value["bounds [0.020, 0.080]"] == "pure number, not sampled"
    draws = next(title for value, title in by_value.items() if value.startswith("median"))
    assert draws == "pure number, n = 32 draws"


def test_a_row_says_in_short_what_the_control_puts_in_place(four_bars: Any) -> None:
    heads = re.findall(r'<th scope="row" title="(.*?)">(.*?)</th>', four_bars.page)
    said = {plain(head.split("<span>")[0]): (title, head) for title, head in heads}
    assert "zoo:<wbr>dyck3/<wbr>twin-101" in said["twin"][1]
    title, head = said["gauge-self"]
    assert title.endswith("a random element of its symmetry group")
    assert plain(head).endswith("…")
    assert len(plain(head.split("<span>")[1])) <= rejections.SHORT


def test_the_sentences_say_by_which_bars_a_control_was_rejected(four_bars: Any) -> None:
    first, second = told(four_bars.page)
    assert first == [
        "untrained : rejected by B, P, C and Pr.",
        "depth-averaged : rejected by P; let through by B; undefined by C.",
        "blocks-swapped : rejected by C; let through by B; undecided by P.",
        "twin : rejected by Pr; let through by B and P.",
        "shuffled-components : rejected by C.",
        "lineage : rejected by B and P; undecided by C; not measured for Pr.",
    ]
    assert "twin : rejected by no judged bar; let through by B, P and Pr." in second


def test_a_decoy_that_no_bar_rejects_is_named(four_bars: Any) -> None:
    page = plain(four_bars.page)
    assert page.count("No judged bar rejected") == 1
    assert "No judged bar rejected twin. A row without rejected means" in page
    assert re.search(r'<li class="bad"><strong>twin</strong>', four_bars.page)


def test_a_cell_follows_its_evidence(four_bars: Any) -> None:
    def moved(record: EvidenceRecord) -> EvidenceRecord:
        twin = (record.statistic, record.case) == (NMSE, "twin")
        return record.model_copy(update={"bounds": (0.4, 0.5)}) if twin else record

    changed = four_bars.with_evidence(moved)
    before, after = tables(four_bars.page)[0], tables(changed.page)[0]
    assert states(after["twin"]) == ["let through", "rejected", "not applicable", "rejected"]
    different = {
        (name, i) for name in before for i in range(4) if before[name][i] != after[name][i]
    }
    assert different == {("twin", 1), ("the real case", 1)}  # the real case may PASS now
    assert "twin : rejected by P and Pr; let through by B." in told(changed.page)[0]
    assert "No judged bar rejected" not in changed.page


def test_only_judged_bars_are_columns_and_the_others_are_said(make_bars: Any) -> None:
    bars = {
        "B": {"abstain": "another registration has it"},
        "P": {"statistic": NMSE, "kind": "same", "below": 0.1},
        "C": {"abstain": "no counterfactuals"},
        "Pr": {"statistic": LOSS, "kind": "same", "below": 0.3},
    }
    page = make_bars(bars=bars).page
    assert states(tables(page)[0]["twin"]) == ["let through", "rejected"]
    assert "What B, C would reject is not known: not judged." in plain(page)
    assert "shuffled-components" not in tables(page)[0]


def test_without_a_judged_bar_or_a_control_that_was_run_there_is_no_table(
    make_bars: Any, four_bars: Any
) -> None:
    none = {name: {"abstain": "a claim is enough"} for name in ("B", "P", "C", "Pr")}
    claims = [{"id": "c", "statistic": NMSE, "kind": "same", "below": 0.1}]
    without = make_bars(bars=none, claims=claims)
    assert any(m.controls for claim in without.verdict.claims for m in claim.members)
    bare = four_bars.with_evidence(lambda r: r if r.case == "main" else None)
    for page in (without.page, bare.page):
        assert 'class="matrix"' not in page
        assert "Which bar rejected which" not in page


def test_claims_are_no_columns(make_bars: Any) -> None:
    claims = [{"id": "extra", "statistic": NMSE, "kind": "same", "below": 0.5}]
    page = make_bars(claims=claims).page
    head = re.search(r'<table class="matrix">.*?<thead>(.*?)</thead>', page, re.DOTALL)
    assert head is not None
    assert re.findall(r'href="#claim-(\w+)"', head[1]) == ["B", "P", "C", "Pr"]
    assert "Pr · Predictive error of ablation losses below 0.3" in plain(head[1])


def test_within_one_model_there_is_one_table_without_a_pair(make_bars: Any) -> None:
    within = make_bars(within=True)
    (table,) = tables(within.page)
    assert {name: states(cells) for name, cells in table.items()} == EXPECTED
    captions = re.findall(r'<table class="matrix">\s*<caption>(.*?)</caption>', within.page)
    assert captions == ["8 controls against 4 judged bars"]
    assert "zoo:dyck3/indep-100 alone" in plain(within.page)


def several(verdict: Verdict, bar: str, *standings: tuple[str, str]) -> Verdict:
    """The verdict with a bar of several values, the standing of twin and of self in each."""
    claim = next(c for c in verdict.claims if c.name == bar)
    member = claim.members[0]

    def outcome(name: str, role: str, standing: Any) -> ControlOutcome:
        value = {"inside": 0.01, "outside": 0.5}.get(standing)
        return ControlOutcome(
            control=name,
            role=role,  # type: ignore[arg-type]
            standing=standing,
            behaved=None,
            estimate=None if value is None else Estimate(value=value, low=value, high=value),
        )

    members = tuple(
        member.model_copy(
            update={
                "site": f"site-{index}",
                "controls": (outcome("twin", "must-fail", one), outcome("self", "must-pass", two)),
            }
        )
        for index, (one, two) in enumerate(standings)
    )
    changed = claim.model_copy(update={"members": members})
    claims = tuple(changed if c.name == bar else c for c in verdict.claims)
    return verdict.model_copy(update={"claims": claims})


@pytest.mark.parametrize(
    ("standings", "twin", "own"),
    [
        ((("outside", "inside"), ("outside", "inside")), "rejected", "let through"),
        ((("outside", "inside"), ("inside", "outside")), "let through", "rejected"),
        ((("undecided", "undecided"), ("outside", "inside")), "undecided", "undecided"),
        ((("undefined", "undefined"), ("undecided", "undecided")), "undefined", "undefined"),
        ((("inside", "inside"), ("missing", "missing")), "let through", "not measured"),
    ],
)
def test_of_several_values_a_cell_shows_the_worst_for_its_role_and_counts_the_rest(
    four_bars: Any, standings: tuple[tuple[str, str], ...], twin: str, own: str
) -> None:
    verdict = several(four_bars.verdict, "P", *standings)
    first = rejections.matrices(four_bars.registration, verdict, four_bars.evidence)[0]
    rows = {row.name: row.cells[1] for row in first.controls}
    assert (rows["twin"].state, rows["self"].state) == (twin, own)
    assert rows["twin"].note.startswith("the worst of 2 values (")
    one = standings[0][0] == standings[1][0]
    place = 0 if one else [rejections.STATES[s] for s, _ in standings].index(twin)  # type: ignore[index]
    assert rows["twin"].note.endswith(f": site-{place} · pair b")


def test_the_real_case_shows_the_worst_of_its_values(four_bars: Any) -> None:
    claim = next(c for c in four_bars.verdict.claims if c.name == "Pr")
    good = claim.members[0]
    bad = good.model_copy(
        update={
            "site": "late",
            "word": "FAIL",
            "estimate": Estimate(value=0.7, low=0.7, high=0.7, level=0.95),
        }
    )
    for members in ((good, bad), (bad, good)):
        changed = claim.model_copy(update={"members": members})
        claims = tuple(changed if c.name == "Pr" else c for c in four_bars.verdict.claims)
        verdict = four_bars.verdict.model_copy(update={"claims": claims})
        matrix = rejections.matrices(four_bars.registration, verdict, four_bars.evidence)[0]
        cell = matrix.real.cells[3]
        assert (cell.state, cell.word) == ("rejected", "FAIL")
        assert cell.figures is not None
        assert cell.figures.value == "0.7"
        assert cell.note.startswith("the worst of 2 values (")
        assert "1 PASS" in cell.note
        assert cell.note.endswith(": late · pair b")


def test_a_bar_over_all_pairs_stands_in_the_table_of_every_pair(make_bars: Any) -> None:
    pooled = {
        "B": {"abstain": "not here"},
        "P": {"statistic": NMSE, "kind": "same", "below": 0.1},
        "C": {"abstain": "not here"},
        "Pr": {"statistic": LOSS, "kind": "same", "below": 0.3, "pool": "seeds"},
    }
    both = make_bars(bars=pooled)
    first, second = tables(both.page)
    assert first["untrained"][1] == second["untrained"][1]
    assert both.page.count("below 0.3, over all pairs") == 2
    pooled["P"] = {"abstain": "not here"}
    assert len(tables(make_bars(bars=pooled).page)) == 1


def test_a_bar_that_is_not_judged_for_a_pair_says_so(make_bars: Any) -> None:
    some = {
        "B": {"abstain": "not here"},
        "P": {"statistic": NMSE, "kind": "same", "below": 0.1, "over": {"pairs": ["b"]}},
        "C": {"abstain": "not here"},
        "Pr": {"statistic": LOSS, "kind": "same", "below": 0.3},
    }
    second = tables(make_bars(bars=some).page)[1]
    assert states(second["twin"])[0] == "not judged for this pair"
    assert states(second["the real case"])[0] == "not judged for this pair"


def test_a_cell_edited_in_a_published_page_is_found(
    four_bars: Any, publish_bars: Any, seal: Any
) -> None:
    folder: Path = publish_bars(four_bars, {"run": "prebench/run/1"})
    assert verify(folder).ok
    path = folder / "report.html"
    page = path.read_text()
    at = page.index("let through</b><span>must fail")
    path.write_text(page[:at] + "rejected" + page[at + len("let through") :])
    seal(folder)
    found = verify(folder)
    assert [p.split(":")[0] for p in found.problems] == ["report.html"]


def test_a_must_fail_control_of_a_claim_that_models_differ_is_rejected_by_its_region(
    make_bars: Any,
) -> None:
    bars = {
        "B": {"abstain": "not here"},
        "P": {"statistic": NMSE, "kind": "differs", "above": 0.1},
        "C": {"abstain": "not here"},
        "Pr": {"abstain": "not here"},
    }
    table = tables(make_bars(bars=bars).page)[0]
    assert states(table["the real case"]) == ["rejected"]
    assert states(table["untrained"]) == ["let through"]
    assert states(table["self"]) == ["rejected"]


def test_names_of_controls_are_text(four_bars: Any) -> None:
    script = "<script>alert(1)</script>"
    claims = tuple(
        claim.model_copy(
            update={
                "members": tuple(
                    member.model_copy(
                        update={
                            "controls": tuple(
                                c.model_copy(update={"control": script}) for c in member.controls
                            )
                        }
                    )
                    for member in claim.members
                )
            }
        )
        for claim in four_bars.verdict.claims
    )
    verdict = four_bars.verdict.model_copy(update={"claims": claims})
    page = render(four_bars.registration, verdict, material=four_bars.material).decode()
    assert "<script" not in page
    assert "not stated" in page
