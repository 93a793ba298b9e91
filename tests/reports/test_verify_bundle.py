"""The stranger's check: whatever is changed in a bundle is found, and named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.judging import judge, read_evidence
from prereg.canonical import canonical, sha256
from prereg.chain import Entry, entry, verify_chain
from prereg.errors import Exit
from prereg.registration import Registration
from reports import verify as module
from reports.bundle import publish
from reports.differences import differences
from reports.verify import Verification, verification_exit, verify

FILES = [
    "evidence.jsonl",
    "figures/paired.svg",
    "figures/raw.svg",
    "hypothesis.yaml",
    "ledger.jsonl",
    "manifest.json",
    "registration.json",
    "report.html",
    "run.json",
    "verdict.json",
]
PUBLISHED = "published"


def named(found: Verification, name: str) -> bool:
    """Whether the check failed and a problem names the file."""
    return not found.ok and any(problem.startswith(name) for problem in found.problems)


def seal(folder: Path, **manifest_fields: Any) -> None:
    """What a forger does first: make manifest and last ledger line agree with the files again."""
    manifest = json.loads((folder / "manifest.json").read_bytes()) | manifest_fields
    for path in manifest["files"]:
        data = (folder / path).read_bytes()
        manifest["files"][path] = {"sha256": sha256(data), "size": len(data)}
    (folder / "manifest.json").write_bytes(canonical(manifest))
    rechain(folder, lambda e: e.body)


def rechain(folder: Path, body_of: Callable[[Entry], dict[str, Any]]) -> None:
    """What a thorough forger does: rewrite the ledger from genesis, every hash fitting."""
    lines: list[Entry] = []
    for line in verify_chain((folder / "ledger.jsonl").read_bytes()):
        body = dict(body_of(line))
        if line.event == PUBLISHED:
            body["manifest"] = sha256((folder / "manifest.json").read_bytes())
        # A line that says the same keeps its hash.
        new = entry(line.event, body, after=lines[-1] if lines else None, at=time_of(line))
        lines.append(new)
    (folder / "ledger.jsonl").write_bytes(b"".join(line.line for line in lines))


def time_of(line: Entry) -> datetime:
    """The time of a line, as it was."""
    return datetime.fromisoformat(line.at)


def forge(folder: Path, event: str, **facts: str) -> None:
    """Seal, and let the ledger's `event` lines state other digests."""
    rechain(folder, lambda e: e.body | facts if e.event == event else e.body)
    seal(folder)


def edit(path: Path, old: bytes, new: bytes) -> None:
    """Replace the first occurrence in a file."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


# --- what holds -----------------------------------------------------------------------------------


def test_an_untouched_bundle_holds_and_was_judged_again(bundle: Path) -> None:
    found = verify(bundle)
    assert found.ok, found.problems
    assert found.rejudged
    assert found.word == "FAIL"
    assert verification_exit(found) is Exit.DONE
    assert any("no time stamp" in note for note in found.notes)


def test_sealing_an_untouched_bundle_changes_nothing(bundle: Path) -> None:
    before = (bundle / "ledger.jsonl").read_bytes()
    seal(bundle)
    assert (bundle / "ledger.jsonl").read_bytes() == before


def test_a_known_head_may_be_any_line_and_must_be_one(bundle: Path) -> None:
    lines = verify_chain((bundle / "ledger.jsonl").read_bytes())
    for line in lines:
        assert verify(bundle, head=line.hash).ok
    found = verify(bundle, head="0" * 64)
    assert named(found, "ledger.jsonl")
    assert verification_exit(found) is Exit.INTEGRITY


# --- every byte -----------------------------------------------------------------------------------


@given(data=st.data())
@settings(
    deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_one_flipped_bit_anywhere_is_found_and_named(bundle: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FILES))
    path = bundle / name
    before = path.read_bytes()
    offset = data.draw(st.integers(0, len(before) - 1))
    bit = data.draw(st.integers(0, 7))
    spoilt = bytearray(before)
    spoilt[offset] ^= 1 << bit
    try:
        path.write_bytes(bytes(spoilt))
        assert named(verify(bundle), name)
    finally:
        path.write_bytes(before)


@given(data=st.data())
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_bytes_cut_off_or_added_anywhere_are_found_and_named(
    bundle: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(FILES))
    path = bundle / name
    before = path.read_bytes()
    offset = data.draw(st.integers(0, len(before) - 1))
    added = data.draw(st.binary(min_size=1, max_size=5))
    changed = data.draw(
        st.sampled_from([before[:offset], before[:offset] + added + before[offset:]])
    )
    try:
        path.write_bytes(changed)
        assert named(verify(bundle), name)
    finally:
        path.write_bytes(before)


@given(data=st.data())
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_ledger_lines_dropped_doubled_or_reordered_are_found(
    bundle: Path, data: st.DataObject
) -> None:
    path = bundle / "ledger.jsonl"
    before = path.read_bytes()
    lines = before.splitlines(keepends=True)
    first, second = data.draw(
        st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True)
    )
    how = data.draw(st.sampled_from(["drop", "double", "swap"]))
    changed = list(lines)
    if how == "drop":
        del changed[first]
    elif how == "double":
        changed.insert(second, changed[first])
    else:
        changed[first], changed[second] = changed[second], changed[first]
    try:
        path.write_bytes(b"".join(changed))
        assert named(verify(bundle), "ledger.jsonl")
    finally:
        path.write_bytes(before)


# --- forgers --------------------------------------------------------------------------------------


def test_a_page_edited_together_with_manifest_and_ledger_is_found(bundle: Path) -> None:
    edit(bundle / "report.html", b"FAIL", b"PASS")
    seal(bundle)
    found = verify(bundle)
    assert named(found, "report.html")
    assert "not what the files render to" in found.problems[0]


def test_a_verdict_edited_together_with_manifest_and_ledger_is_not_the_one_entered(
    bundle: Path,
) -> None:
    edit(bundle / "verdict.json", b'"word":"FAIL"', b'"word":"PASS"')
    seal(bundle)
    found = verify(bundle)
    assert named(found, "ledger.jsonl")
    assert "verdict.json" in found.problems[0]


@pytest.mark.parametrize("field", ["word", "value", "low", "draws_inside", "reason", "family"])
def test_a_verdict_edited_with_the_whole_chain_is_judged_again_and_found(
    bundle: Path, field: str
) -> None:
    verdict = json.loads((bundle / "verdict.json").read_bytes())
    member = verdict["claims"][2]["members"][0]
    if field == "word":
        verdict["word"] = "PASS"
    elif field in {"value", "low"}:
        member["estimate"][field] *= 1 + 1e-6
    elif field == "draws_inside":
        next(c for c in member["controls"] if "draws" in c)["draws_inside"] += 1
    elif field == "reason":
        member["reason"] = "because"
    else:
        verdict["family"] += 1
    (bundle / "verdict.json").write_bytes(canonical(verdict))
    forge(bundle, "judged", verdict=sha256((bundle / "verdict.json").read_bytes()))
    found = verify(bundle)
    assert named(found, "verdict.json")
    assert field in found.problems[0]


def test_a_number_that_differs_only_by_another_machine_s_rounding_is_the_same() -> None:
    one = {"a": [0.5, {"b": 1.0}], "n": 3, "w": "PASS"}
    near = {"a": [0.5 * (1 + 5e-8), {"b": 1.0}], "n": 3, "w": "PASS"}
    assert differences(one, near, at="v") == []
    assert differences({"x": 1e-17}, {"x": 0.0}, at="v") == []
    assert differences({"x": 1.0}, {"x": 1.0 + 3e-7}, at="v") != []
    assert differences({"x": 1e-9}, {"x": 2e-9}, at="v") != []
    assert differences({"n": 3}, {"n": 4}, at="v") == ["v.n is 3, re-judged 4"]
    assert differences({"n": True}, {"n": 1}, at="v") != []
    assert differences({"n": [1]}, {"n": [1, 2]}, at="v") == ["v.n has another number of entries"]
    assert differences({"n": 1}, {}, at="v") == ["v.n is published, but not judged"]


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("evidence.jsonl", "attempt-finished"),
        ("run.json", "attempt-finished"),
        ("hypothesis.yaml", "registered"),
    ],
)
def test_a_file_edited_together_with_manifest_and_last_line_is_not_the_one_entered(
    bundle: Path, path: str, event: str
) -> None:
    data = (bundle / path).read_bytes()
    (bundle / path).write_bytes(data.replace(b"1", b"2", 1))
    seal(bundle)
    found = verify(bundle)
    assert named(found, "ledger.jsonl")
    assert any(path in problem and event in problem for problem in found.problems)


def test_a_hypothesis_file_that_says_something_else_than_was_frozen_is_found(bundle: Path) -> None:
    edit(bundle / "hypothesis.yaml", b'"above": 0.5', b'"above": 0.4')
    identifier = json.loads((bundle / "manifest.json").read_bytes())["registration"]
    digest = sha256((bundle / "hypothesis.yaml").read_bytes())
    rechain(
        bundle,
        lambda e: (
            e.body | {"hypothesis": digest}
            if e.event == "registered" and e.body["registration"] == identifier
            else e.body
        ),
    )
    seal(bundle)
    assert named(verify(bundle), "hypothesis.yaml")


def test_a_run_record_edited_with_the_whole_chain_makes_the_page_wrong(bundle: Path) -> None:
    edit(bundle / "run.json", b"2.6.0", b"2.5.1")
    forge(bundle, "attempt-finished", run=sha256((bundle / "run.json").read_bytes()))
    assert named(verify(bundle), "report.html")


def test_a_figure_edited_with_the_page_is_drawn_again_and_found(bundle: Path) -> None:
    shown = (bundle / "figures" / "raw.svg").read_bytes()
    changed = shown.replace(b">self", b">flesh").replace(b"1 \xc3\x97 self", b"1 \xc3\x97 none")
    assert changed != shown
    (bundle / "figures" / "raw.svg").write_bytes(changed)
    page = (bundle / "report.html").read_bytes()
    old = json.loads((bundle / "manifest.json").read_bytes())["files"]["figures/raw.svg"]
    page = page.replace(shown.strip(), changed.strip())
    page = page.replace(old["sha256"].encode(), sha256(changed).encode())
    (bundle / "report.html").write_bytes(page)
    seal(bundle)
    assert named(verify(bundle), "figures/raw.svg")


def test_figures_of_another_library_version_are_said_to_be_uncompared(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "drawing_version", lambda: "matplotlib 99.0")
    found = verify(bundle)
    assert found.ok
    assert any("figures not compared" in note for note in found.notes)


def test_a_bundle_without_its_figures_is_found(bundle: Path) -> None:
    (bundle / "figures" / "raw.svg").unlink()
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    del manifest["files"]["figures/raw.svg"]
    seal(bundle, files=manifest["files"])
    assert named(verify(bundle), "figures/raw.svg")


def test_a_drawing_that_runs_something_is_found_whatever_library_drew_it(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "drawing_version", lambda: "matplotlib 99.0")
    edit(bundle / "figures" / "raw.svg", b"</svg>", b"<script>alert(1)</script></svg>")
    seal(bundle)
    found = verify(bundle)
    assert named(found, "report.html")
    assert "script" in found.problems[0]


def test_only_a_known_head_finds_a_forger_who_measured_again_and_rewrote_everything(
    make: Any, bundle: Path, tmp_path: Path
) -> None:
    head = verify(bundle).head
    other = make.run(tmp_path / "forged", deviations=())
    publish(other.workspace, other.id, other.attempt, to=tmp_path / "other")
    assert verify(tmp_path / "other").ok
    assert not verify(tmp_path / "other", head=head).ok


def test_evidence_of_another_attempt_is_found(bundle: Path) -> None:
    seal(bundle, attempt=1)
    found = verify(bundle)
    assert any("attempt" in problem for problem in found.problems)
    assert verification_exit(found) is Exit.INTEGRITY


def identity(folder: Path, data: bytes) -> None:
    """Write another registration and call it by its own id wherever the old id stood."""
    old = json.loads((folder / "manifest.json").read_bytes())["registration"]
    (folder / "registration.json").write_bytes(data)
    rechain(folder, lambda e: {k: sha256(data) if v == old else v for k, v in e.body.items()})
    seal(folder, registration=sha256(data))


def test_a_manifest_in_another_form_is_found_even_if_the_ledger_agrees(bundle: Path) -> None:
    path = bundle / "manifest.json"
    path.write_bytes(json.dumps(json.loads(path.read_bytes()), indent=1).encode())
    rechain(bundle, lambda e: e.body)
    assert "manifest.json: not in canonical form" in verify(bundle).problems


def test_a_registration_in_another_form_is_found_even_if_its_id_fits(bundle: Path) -> None:
    plain = json.loads((bundle / "registration.json").read_bytes())
    identity(bundle, json.dumps(plain, indent=1).encode())
    assert "registration.json: not in canonical form" in verify(bundle).problems


def test_a_registration_edited_under_its_old_id_is_found(bundle: Path) -> None:
    edit(bundle / "registration.json", b'"level":0.95', b'"level":0.5')
    seal(bundle)
    assert "registration.json: does not have the id of the manifest" in verify(bundle).problems


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("registration", "verdict.json: is about another registration"),
        ("evidence", "verdict.json: rests on other evidence"),
    ],
)
def test_a_verdict_about_something_else_is_found_with_the_whole_chain_rewritten(
    bundle: Path, field: str, problem: str
) -> None:
    path = bundle / "verdict.json"
    path.write_bytes(canonical(json.loads(path.read_bytes()) | {field: "0" * 64}))
    forge(bundle, "judged", verdict=sha256(path.read_bytes()))
    assert problem in verify(bundle).problems


@pytest.mark.parametrize(("fact", "other"), [("registration", "0" * 64), ("attempt", 7)])
def test_a_last_line_about_another_run_is_found(bundle: Path, fact: str, other: Any) -> None:
    rechain(bundle, lambda e: e.body | {fact: other} if e.event == PUBLISHED else e.body)
    found = verify(bundle)
    assert any(f"{fact} is not the manifest's" in problem for problem in found.problems)


def test_a_verdict_entered_before_its_evidence_is_found(bundle: Path) -> None:
    lines = list(verify_chain((bundle / "ledger.jsonl").read_bytes()))
    at = next(i for i, line in enumerate(lines) if line.event == "judged")
    lines.insert(1, lines.pop(at))
    chained: list[Entry] = []
    for line in lines:
        after = chained[-1] if chained else None
        chained.append(entry(line.event, line.body, after=after, at=time_of(line)))
    (bundle / "ledger.jsonl").write_bytes(b"".join(line.line for line in chained))
    found = verify(bundle)
    assert named(found, "ledger.jsonl")
    assert "too early" in found.problems[0]


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["judge", "report"])
def test_a_bundle_of_another_version_holds_but_was_not_judged_again(
    bundle: Path, field: str
) -> None:
    seal(bundle, **{field: 99})
    found = verify(bundle)
    assert found.ok, found.problems
    assert not found.rejudged
    assert found.word == "FAIL"
    assert any("not re-judged" in note for note in found.notes)
    assert verification_exit(found) is Exit.INCOMPLETE


def test_another_version_does_not_excuse_a_changed_digest(bundle: Path) -> None:
    edit(bundle / "verdict.json", b'"word":"FAIL"', b'"word":"PASS"')
    seal(bundle, report=99)
    assert verification_exit(verify(bundle)) is Exit.INTEGRITY


# --- folders that are no bundles ------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    assert named(verify(bundle), name)


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "figures/more.svg", "deep/er/x"])
def test_an_unlisted_file_is_named(bundle: Path, name: str) -> None:
    (bundle / name).parent.mkdir(parents=True, exist_ok=True)
    (bundle / name).write_text("x")
    assert named(verify(bundle), name)


@pytest.mark.parametrize("name", FILES)
def test_a_link_instead_of_a_file_is_named_even_if_its_bytes_fit(
    bundle: Path, tmp_path: Path, name: str
) -> None:
    shutil.move(bundle / name, tmp_path / "elsewhere")
    (bundle / name).symlink_to(tmp_path / "elsewhere")
    found = verify(bundle)
    assert named(found, name)
    assert "a link" in found.problems[0]


def test_a_linked_folder_is_named(bundle: Path, tmp_path: Path) -> None:
    shutil.move(bundle / "figures", tmp_path / "figures")
    (bundle / "figures").symlink_to(tmp_path / "figures")
    assert named(verify(bundle), "figures")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_opened(bundle: Path) -> None:
    (bundle / "run.json").unlink()
    os.mkfifo(bundle / "run.json")
    assert named(verify(bundle), "run.json")


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "figures/../run.json", ".hidden", "a/b.json", "x\n.json"]
)
def test_a_manifest_cannot_name_a_file_outside(bundle: Path, path: str) -> None:
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["files"][path] = {"sha256": "0" * 64, "size": 1}
    (bundle / "manifest.json").write_bytes(canonical(manifest))
    rechain(bundle, lambda e: e.body)
    assert named(verify(bundle), "manifest.json")


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("absent", "file", "empty"):
        found = verify(tmp_path / name, head="0" * 64)
        assert not found.ok
        assert verification_exit(found) is Exit.INTEGRITY


def test_a_huge_file_is_not_read(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reports.intake.LARGEST", 1000)
    found = verify(bundle)
    assert named(found, "evidence.jsonl")


def test_a_flood_of_files_is_not_read(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reports.intake.MOST_FILES", 3)
    assert any("more than 3 files" in problem for problem in verify(bundle).problems)


GARBAGE = [
    b"",
    b"\x00\xff\xfe",
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b"1e999",
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":1' + b"0" * 10_000 + b"}",
    b'{"word":"PASS"}\n',
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("garbage", range(len(GARBAGE)))
def test_garbage_that_every_digest_agrees_with_is_a_problem_and_no_traceback(
    bundle: Path, name: str, garbage: int
) -> None:
    (bundle / name).write_bytes(GARBAGE[garbage])
    digest = sha256(GARBAGE[garbage])
    if name not in {"ledger.jsonl", "manifest.json"}:
        facts = {"verdict": digest, "evidence": digest, "run": digest, "hypothesis": digest}
        rechain(bundle, lambda e: {k: facts.get(k, v) for k, v in e.body.items()})
        if name == "registration.json":
            rename = {"registration": digest}
            rechain(bundle, lambda e: {k: rename.get(k, v) for k, v in e.body.items()})
            seal(bundle, registration=digest)
        else:
            seal(bundle)
    found = verify(bundle)
    assert not found.ok
    assert found.problems


def test_a_registration_that_lacks_what_its_claims_name_is_a_problem(
    bundle: Path, registration: Registration
) -> None:
    plain = registration.plain()
    del plain["resolved"]["statistics"]["sae.ev.raw@1"]
    data = canonical(plain)
    (bundle / "registration.json").write_bytes(data)
    identifier = registration.id
    rechain(
        bundle,
        lambda e: {k: sha256(data) if v == identifier else v for k, v in e.body.items()},
    )
    seal(bundle, registration=sha256(data))
    assert not verify(bundle).ok


def test_a_number_in_the_evidence_that_its_sums_do_not_give_is_found(bundle: Path) -> None:
    path = bundle / "evidence.jsonl"
    lines = path.read_bytes().split(b"\n")
    record = json.loads(lines[1])
    record["value"] = record["value"] + 0.01
    lines[1] = canonical(record)
    path.write_bytes(b"\n".join(lines))
    digest = sha256(path.read_bytes())
    verdict = json.loads((bundle / "verdict.json").read_bytes()) | {"evidence": digest}
    (bundle / "verdict.json").write_bytes(canonical(verdict))
    facts = {"evidence": digest, "verdict": sha256(canonical(verdict))}
    rechain(bundle, lambda e: {k: facts.get(k, v) for k, v in e.body.items()})
    seal(bundle)
    assert named(verify(bundle), "verdict.json")


def test_judging_the_published_evidence_gives_the_published_verdict(bundle: Path) -> None:
    data = (bundle / "evidence.jsonl").read_bytes()
    registration = Registration.model_validate_json((bundle / "registration.json").read_bytes())
    again = judge(registration, read_evidence(data), evidence_sha256=sha256(data))
    assert again.canonical() == (bundle / "verdict.json").read_bytes()


# --- start-up -------------------------------------------------------------------------------------


def test_reports_import_no_heavy_library_before_it_is_needed() -> None:
    script = (
        "import sys, reports.bundle, reports.verify, harness.judging.judgement\n"
        "heavy = {'torch', 'lightning', 'pytorch_lightning', 'transformers', 'matplotlib',"
        " 'scipy.stats', 'statsmodels', 'pandas', 'ruamel'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


# --- what the files say of one another ------------------------------------------------------------


def rewrite_source(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the hypothesis file, and let the ledger say that this is how it was registered."""
    path = bundle / "hypothesis.yaml"
    plain = json.loads(path.read_bytes())
    change(plain)
    path.write_bytes(json.dumps(plain).encode())
    identifier = json.loads((bundle / "manifest.json").read_bytes())["registration"]
    digest = sha256(path.read_bytes())
    mine = "registered", identifier
    rechain(
        bundle,
        lambda e: (
            e.body | {"hypothesis": digest}
            if (e.event, e.body.get("registration")) == mine
            else e.body
        ),
    )
    seal(bundle)


def test_a_file_that_leaves_defaults_of_the_plan_out_says_what_was_frozen(bundle: Path) -> None:
    rewrite_source(bundle, lambda plain: plain["plan"].pop(next(iter(plain["plan"]))))
    assert not any("does not say what" in problem for problem in verify(bundle).problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain["plan"].update(sites=["blocks.0.hook_resid_post"]),
        lambda plain: plain["plan"].update(unknown=1),
        lambda plain: plain.update(title="Another title"),
    ],
)
def test_a_file_that_says_something_else_is_found(
    bundle: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    rewrite_source(bundle, change)
    assert any("does not say what" in problem for problem in verify(bundle).problems)


def test_deviations_that_only_the_ledger_states_are_found(bundle: Path) -> None:
    forge(bundle, "attempt-started", deviations=["another one"])
    assert named(verify(bundle), "evidence.jsonl")


def test_other_code_without_a_declared_deviation_is_found(tmp_path: Path, make: Any) -> None:
    made = make.run(tmp_path / "workspace", deviations=(), code="f" * 64)
    publish(made.workspace, made.id, made.attempt, to=tmp_path / "bundle")
    found = verify(tmp_path / "bundle")
    assert any("other code" in problem for problem in found.problems)


def test_a_deviation_is_told_with_the_word(bundle: Path) -> None:
    assert verify(bundle).deviated


def test_definitions_are_compared_where_there_is_something_to_compare_with(bundle: Path) -> None:
    assert any("not compared" in note for note in verify(bundle).notes)
    found = verify(bundle, compare=lambda _: (["its statistics are others"], ["a note"]))
    assert named(found, "registration.json")
    assert "a note" in found.notes
