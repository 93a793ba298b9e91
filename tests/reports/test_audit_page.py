"""The audit report: what stands on the page, and that nothing else can."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from harness.judging import judge, sentence, write_evidence
from harness.judging.verdict import Verdict
from prereg.canonical import sha256
from prereg.errors import IntegrityError
from prereg.registration import Registration
from reports.audit import Material, render
from reports.figures import draw

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
SCRIPT = "<script>alert('x')</script>"


class Page(HTMLParser):
    """The page as a reader gets it: elements, attributes, text; refuses unbalanced tags."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(data.decode())
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is read, without the style sheet."""
        return re.sub(r"\s+", " ", "".join(self.texts))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every element of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page(registration: Registration, verdict: Verdict, material: Material) -> Page:
    """The synthetic page."""
    return Page(render(registration, verdict, material=material))


def test_the_synthetic_verdict_has_a_bit_of_everything(verdict: Verdict) -> None:
    words = {member.word for claim in verdict.claims for member in claim.members}
    assert words == {"PASS", "FAIL", "NOT_DIAGNOSTIC", "UNDECIDABLE", "INCONCLUSIVE"}


def test_the_header_has_verdict_sentence_bars_and_trust_line(page: Page, verdict: Verdict) -> None:
    for part in (
        f"✘\ufe0e {sentence(verdict)}",
        "\N{EN DASH} ABSTAINED",
        "The heads are not compared: this is about states.",
        "attempt 2 of 2 (1 aborted)",
        "registered 2026-12-01 09:14 UTC (local clock, unwitnessed)",
        "results seen before",
        "DEVIATED",
        "0000-0002-1825-0097",
    ):
        assert part in page.text


def test_sections_come_in_the_order_of_a_referee(page: Page) -> None:
    order = [a["id"] for a in page.all("section")]
    assert order == [
        "claims",
        "controls",
        "measurements",
        "frozen",
        "happened",
        "exploratory",
        "verify",
    ]


def test_every_claim_has_an_anchor_and_every_link_a_target(page: Page, verdict: Verdict) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {f"claim-{claim.name}" for claim in verdict.claims} <= set(ids)
    for attributes in page.all("a"):
        href = attributes["href"]
        assert href is not None
        assert href.startswith("#")
        assert href[1:] in ids


def test_every_verdict_word_on_the_page_stands_behind_its_symbol(page: Page) -> None:
    symbols = {"PASS": "✔", "FAIL": "✘", "NOT DIAGNOSTIC": "◇", "UNDECIDABLE": "⊘"}
    for name, symbol in symbols.items():
        badges = re.findall(rf"(\S+) {name}(?![\w:-])", page.text)
        assert any(before.startswith(symbol) for before in badges)


def test_numbers_of_a_member_stand_with_interval_unit_and_sample(
    page: Page, verdict: Verdict
) -> None:
    shown = re.findall(r"\S+ \[\S+, \S+\] pure number, 99\.64 % interval, n = 64 blocks", page.text)
    with_interval = [
        m for claim in verdict.claims for m in claim.members if m.estimate.blocks is not None
    ]
    assert len(shown) == len(with_interval) > 0


def test_controls_are_told_with_expectation_value_standing_and_behaviour(page: Page) -> None:
    for part in (
        "must fail: its interval has to lie outside",
        "outside 5, inside 1",
        "✘\ufe0e 5 of 6",
        "0 of 32 draws inside; 0 at or above the real value",
        "noise Covered by covariance-only.".replace(" ", ""),
    ):
        assert part in page.text or part in page.text.replace(" ", "")


def test_figures_have_formula_source_id_table_and_text_alternative(page: Page) -> None:
    figures = page.all("figure")
    assert [f["id"] for f in figures] == ["figure-raw", "figure-paired", "figure-stitching"]
    assert "Not drawn: no claim is about alignment.stitch@1." in page.text
    assert page.text.count("The table behind the figure") == 2
    for part in ("sae.ev.raw@1", "definition of this project", "pooled over tokens"):
        assert part in page.text


def test_every_drawing_has_a_text_alternative_and_every_table_header_a_scope(page: Page) -> None:
    drawings = page.all("svg")
    assert len(drawings) > 10
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)
    assert all(a["scope"] in {"col", "row", "rowgroup"} for a in page.all("th"))
    assert page.all("html") == [{"lang": "en"}]


def test_the_frozen_hypothesis_amendments_attempts_and_subjects_are_shown(page: Page) -> None:
    for part in (
        "prior_access: results-seen",
        "the title named another corpus",
        "interrupted at the keyboard",
        "torch 2.6.0 where 2.5.1 was frozen",
        "a" * 64,
        "environment.torch",
    ):
        assert part in page.text


def test_what_was_measured_but_not_claimed_is_exploratory(page: Page) -> None:
    after = page.text.split("Exploratory")[-1]
    assert "stitched accuracy" in after
    assert "0.75" in after


def test_without_exploratory_values_none_is_said(
    registration: Registration, verdict: Verdict, material: Material
) -> None:
    kept = tuple(
        r
        for r in material.evidence.records
        if r.statistic != "alignment.stitch@1" and r.arm is None
    )
    evidence = material.evidence.model_copy(update={"records": kept})
    page = Page(
        render(registration, verdict, material=dataclasses.replace(material, evidence=evidence))
    )
    assert "None: everything that was measured was registered." in page.text


def test_the_page_runs_nothing_loads_nothing_and_calls_nothing_significant(page: Page) -> None:
    kinds = {tag for tag, _ in page.tags}
    assert not kinds & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not {"src", "srcset", "action", "data"} & set(attributes)
        assert "url(" not in (attributes.get("style") or "").replace("url(#", "")
    policies = [a for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert [a["content"] for a in policies] == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "significant" not in page.text.lower()


def test_rendering_again_gives_the_same_bytes_in_another_process(
    registration: Registration, verdict: Verdict, material: Material, published: Any
) -> None:
    once = render(registration, verdict, material=material)
    assert render(registration, verdict, material=material) == once
    script = (
        "import sys\nfrom pathlib import Path\nfrom reports.verify import verify\n"
        "print(verify(Path(sys.argv[1])).ok)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(published)],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PYTHONHASHSEED": "99",
            "PYTHONPATH": ":".join(sys.path),
            "TZ": "Asia/Tokyo",
            "LC_ALL": "C",
        },
    )
    assert said.stdout.split() == ["True"]


def test_a_model_id_script_renders_as_text_everywhere(make: Any, material: Material) -> None:
    """Automatic escaping is off by default in the template library; here it is on."""
    registration: Registration = make.registration(title=SCRIPT, question=f"{SCRIPT} \u202e?")
    resolved = registration.resolved
    reference = resolved.subjects.reference.model_copy(update={"written": SCRIPT})
    subjects = resolved.subjects.model_copy(update={"reference": reference})
    controls = tuple(
        spec.model_copy(update={"by": SCRIPT, "replaces": (SCRIPT,)})
        for spec in resolved.suite.controls
    )
    figures = tuple(s.model_copy(update={"title": SCRIPT}) for s in resolved.suite.figures)
    suite = resolved.suite.model_copy(update={"controls": controls, "figures": figures})
    statistics = {
        name: spec.model_copy(update={"title": SCRIPT, "formula": SCRIPT, "unit": SCRIPT})
        for name, spec in resolved.statistics.items()
    }
    resolved = resolved.model_copy(
        update={"subjects": subjects, "suite": suite, "statistics": statistics}
    )
    registration = registration.model_copy(update={"resolved": resolved})
    evidence = make.evidence(registration, deviations=(SCRIPT,))
    digest = sha256(write_evidence(evidence))
    verdict = judge(registration, evidence, evidence_sha256=digest)
    hostile = verdict.model_dump()
    hostile["abstained"] = {"B": SCRIPT}
    for claim in hostile["claims"]:
        for member in claim["members"]:
            member["site"], member["pair"], member["reason"] = SCRIPT, SCRIPT, SCRIPT
            for control in member["controls"]:
                control["control"] = SCRIPT
    verdict = Verdict.model_validate(hostile)
    material = dataclasses.replace(
        material,
        evidence=evidence,
        figures=draw(registration, verdict, evidence),
        run={SCRIPT: [SCRIPT]},
    )
    data = render(registration, verdict, material=material)
    page = Page(data)
    assert not page.all("script")
    assert page.text.count(SCRIPT) > 100
    assert "\u202e" not in page.text
    assert b"<script" not in data


def test_a_figure_that_runs_something_is_refused(
    registration: Registration, verdict: Verdict, material: Material
) -> None:
    evil = b'<svg xmlns="http://www.w3.org/2000/svg"><script>x</script></svg>'
    changed = dataclasses.replace(material, figures={"raw": evil})
    with pytest.raises(IntegrityError, match=r"figures/raw\.svg"):
        render(registration, verdict, material=changed)


def test_a_registration_without_claims_figures_or_controls_is_said_to_be_so(
    registration: Registration, verdict: Verdict, material: Material
) -> None:
    suite = registration.resolved.suite.model_copy(update={"figures": ()})
    resolved = registration.resolved.model_copy(update={"suite": suite})
    bare = verdict.model_copy(update={"claims": (), "dropped_controls": {}})
    page = Page(
        render(
            registration.model_copy(update={"resolved": resolved}),
            bare,
            material=dataclasses.replace(material, figures={}),
        )
    )
    assert "No bar or claim was judged." in page.text
    assert "The suite has no figures." in page.text
    assert "None: every control of the suite that decides one of these claims was run." in page.text
