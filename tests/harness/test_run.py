"""Attempts: measured once, entered first, resumed, repeated to the bit, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from harness.judging import read_evidence
from harness.resolve import prepare
from harness.run import run
from harness.suite import suite
from harness.verdicts import judge_attempt
from prereg.errors import IncompleteError, IntegrityError
from prereg.hypothesis import parse_hypothesis
from prereg.workspace import Workspace

SMALL = (
    ("fit: 2048", "fit: 128"),
    ("evaluate: 4096", "evaluate: 640"),
)


def small_text(*changes):
    text = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")
    for old, new in (*SMALL, *changes):
        assert old in text, old
        text = text.replace(old, new)
    return text.encode()


def registered(home, *changes):
    source = small_text(*changes)
    found = prepare(parse_hypothesis(source, name="claim.yaml", is_json=False))
    home.register(found.registration, source, suffix="yaml")
    return found.registration.id


@pytest.fixture
def home(tmp_path):
    return Workspace(tmp_path / "home")


def events(home):
    return [entry.event for entry in home.ledger.entries()]


def test_two_fresh_runs_give_the_same_evidence_to_the_bit(home):
    identifier = registered(home)
    one, two = run(home, identifier), run(home, identifier, fresh=True)
    assert one.evidence == two.evidence
    assert (one.attempt, two.attempt) == (1, 2)
    assert not two.reused
    attempt = ["attempt-started", *7 * ["stage-finished"], "attempt-finished"]
    assert events(home) == ["registered", *2 * attempt]


def test_a_later_attempt_takes_over_finished_stages_and_says_so(home):
    identifier = registered(home)
    one = run(home, identifier)
    two = run(home, identifier)
    assert set(two.reused) == {
        f"b/{name}"
        for name in (
            "main",
            "self",
            "self-fresh",
            "gauge-self",
            "untrained",
            "covariance-only",
            "shuffled",
        )
    }
    assert two.evidence == one.evidence
    record = json.loads(home.run_record(identifier, 2))
    assert {stage["reused_from"] for stage in record["stages"]} == {1}
    assert record["environment"]["threads"] == 1


def test_a_torn_or_altered_stage_is_measured_again(home):
    identifier = registered(home)
    one = run(home, identifier)
    stages = sorted((home.run_folder(identifier, 1) / "stages").glob("*.jsonl"))
    stages[0].write_bytes(stages[0].read_bytes()[:-5])
    stages[1].write_bytes(stages[1].read_bytes().replace(b"1", b"2"))
    two = run(home, identifier)
    assert len(two.reused) == len(stages) - 2
    assert two.evidence == one.evidence


def test_evidence_holds_every_case_of_every_statistic_with_a_role(home):
    identifier = registered(home)
    run(home, identifier)
    evidence = read_evidence(home.evidence(identifier, 1))
    cases = {(r.statistic, r.case) for r in evidence.records}
    assert ("bar.behavioural.kl@1", "untrained") in cases
    assert ("bar.behavioural.kl@1", "shuffled") not in cases
    assert ("rotation.identity_share@1", "covariance-only") not in cases
    draws = [r for r in evidence.records if r.case == "covariance-only"]
    assert {len(r.draws or ()) for r in draws} == {32}
    assert len({r.site for r in draws}) == 3


def test_the_judge_is_pure_and_the_ledger_knows_a_verdict_once(home):
    identifier = registered(home)
    with pytest.raises(IncompleteError):
        judge_attempt(home, identifier)
    run(home, identifier)
    one, two = judge_attempt(home, identifier), judge_attempt(home, identifier)
    assert one.verdict == two.verdict
    assert (one.new, two.new) == (True, False)
    run(home, identifier)
    assert judge_attempt(home, identifier).attempt == 1
    other = judge_attempt(home, f"{identifier[:12]}/2")
    assert (other.attempt, other.decides) == (2, False)


def test_another_model_in_the_place_of_the_registered_one_is_refused(home, save_random):
    reference = save_random(1, "model")
    identifier = registered(home, ("zoo:dyck3/indep-101", reference))
    save_random(2, "model")
    with pytest.raises(IntegrityError, match=r"subjects\.others\.b\.weights"):
        run(home, identifier)
    assert events(home) == ["registered"]
    done = run(home, identifier, deviate="the first upload was broken")
    assert any("the first upload was broken" in line for line in done.deviations)
    verdict = judge_attempt(home, identifier).verdict
    assert verdict.deviated
    assert any("weights" in line for line in verdict.deviations)


KILLED = """
import sys
from pathlib import Path
from harness.run import run
from prereg.workspace import Workspace
run(Workspace(Path(sys.argv[1])), sys.argv[2], progress=lambda line: print(line, flush=True))
"""


def test_sigkill_leaves_an_aborted_attempt_and_a_working_workspace(home):
    identifier = registered(home)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(home.root), identifier],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "gauge-self" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    assert [s.state for s in home.attempts(identifier)] == ["aborted"]
    done = run(home, identifier)
    assert done.attempt == 2
    assert "b/main" in done.reused
    assert [s.state for s in home.attempts(identifier)] == ["aborted", "finished"]
    assert "attempt-aborted" in events(home)
    assert judge_attempt(home, identifier).attempt == 2


def test_a_fault_while_measuring_is_a_failed_attempt(home, monkeypatch):
    identifier = registered(home)

    def broken(*_):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("harness.run.load_callable", lambda _: broken)
    with pytest.raises(RuntimeError, match="no such luck"):
        run(home, identifier)
    assert [s.state for s in home.attempts(identifier)] == ["failed"]


MEMORY = """
import resource, sys
from harness.case import Case, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.measured import Context
from harness.runners.trainer import set_threads
from harness.subjects.loading import load
from harness.subjects.reference import locate
from suites.rotation import SUITE
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan
set_threads()
plan = RotationPlan(sites=("blocks.0.hook_resid_post", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post"))
a, b = (load(locate(f"zoo:dyck3/indep-{s}")) for s in (100, 101))
context = Context(Dyck3(7), 16, plan, frozenset(SUITE.statistics), {})
sequences = int(sys.argv[1])
case = Case(a, b, Samples(SampleRange("fit", 0, 256), SampleRange("evaluate", 0, sequences)))
measure([case], context)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_tokens():
    """1 M tokens against 65 k: at most 32 MB more resident memory (a sequence has 34 on average)."""

    def peak(tokens):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tokens // 34)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout.split()[-1]) / 1024

    small, large = peak(65_000), peak(1_000_000)
    assert large - small <= 32


def test_threads_are_set_in_one_place(monkeypatch):
    import torch

    from harness.runners.trainer import set_threads

    before = torch.get_num_threads()
    monkeypatch.setenv("PREBENCH_THREADS", "2")
    assert set_threads() == 2 == torch.get_num_threads()
    monkeypatch.delenv("PREBENCH_THREADS")
    assert set_threads() == 1
    torch.set_num_threads(before)


@pytest.fixture
def asked(monkeypatch):
    """Which statistics a run asks for, by case; nothing is computed."""
    from harness.measured import Measured

    found, case_names = {}, ["main"]

    def make(name, case, *, plan, seed, draw):
        case_names.append(name)
        return case

    def stub(cases, context):
        found[case_names[-1]] = set(context.statistics)
        return [[Measured(s, None, value=0.125) for s in context.statistics] for _ in cases]

    loaded = {"measure": stub, "make_control": make}
    monkeypatch.setattr("harness.run.load_callable", lambda w: loaded[w.partition(":")[2]])
    return found


KL, PAIRED, SHARE = "bar.behavioural.kl@1", "alignment.ev.paired@1", "rotation.identity_share@1"


def test_a_control_is_asked_for_the_statistics_in_which_it_has_a_role(home, asked):
    run(home, registered(home))
    assert asked == {
        "main": {KL, PAIRED, SHARE},
        "self": {KL, PAIRED, SHARE},
        "self-fresh": {KL, PAIRED, SHARE},
        "gauge-self": {KL, PAIRED, SHARE},
        "untrained": {KL, PAIRED, SHARE},
        "covariance-only": {PAIRED},
        "shuffled": {PAIRED, SHARE},
    }


def test_an_added_control_without_a_role_is_measured_on_all_that_is_judged(home, asked):
    text = suite("rotation").hypotheses["rotation"].read_text(encoding="utf-8")
    start, stop = text.index("  - id: same-state"), text.index("  - id: rotation-needed")
    added = ("controls: default", "controls: {add: [gauge-self-unaligned]}")
    run(home, registered(home, (text[start:stop], ""), added))
    assert asked["main"] == {KL, PAIRED, SHARE}
    assert asked["gauge-self-unaligned"] == {KL, SHARE}  # PAIRED is judged by no claim
    assert "covariance-only" not in asked


def test_the_registered_number_of_the_attempt_decides(home, asked):
    from harness.verdicts import chosen_attempt

    identifier = registered(home, ("attempt: first-completed", "attempt: 2"))
    run(home, identifier)
    with pytest.raises(IncompleteError):
        chosen_attempt(home, identifier)
    assert chosen_attempt(home, f"{identifier}/1") == (identifier, 1, False)
    for _ in range(2):
        run(home, identifier)
    assert chosen_attempt(home, identifier) == (identifier, 2, True)
    assert chosen_attempt(home, f"{identifier}/2") == (identifier, 2, True)
    assert chosen_attempt(home, f"{identifier}/3") == (identifier, 3, False)


def test_the_first_attempt_that_finished_decides(home, asked, monkeypatch):
    from harness.verdicts import chosen_attempt

    identifier = registered(home)

    def out_of_luck():
        raise RuntimeError("no such luck")

    with monkeypatch.context() as broken:
        broken.setattr("harness.run.environment", out_of_luck)
        with pytest.raises(RuntimeError, match="no such luck"):
            run(home, identifier)
    for _ in range(2):
        run(home, identifier)
    assert [s.state for s in home.attempts(identifier)] == ["failed", "finished", "finished"]
    assert chosen_attempt(home, identifier) == (identifier, 2, True)
    assert chosen_attempt(home, f"{identifier}/3") == (identifier, 3, False)


# --- code version -----------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of the four packages and of a guest's, of which the code version is taken."""
    import shutil

    from harness import code_version

    copies = {}
    for package in code_version.PACKAGES:
        copies[package] = tmp_path / "packages" / package
        junk = shutil.ignore_patterns("__pycache__", "*.safetensors", ".*")
        shutil.copytree(code_version._root(package), copies[package], ignore=junk)
    copies["guest"] = tmp_path / "packages" / "guest"
    copies["guest"].mkdir()
    (copies["guest"] / "__init__.py").write_text("SUITE = 1\n")
    monkeypatch.setattr(code_version, "_root", copies.__getitem__)
    return tmp_path / "packages"


def code_digest(*suite_package):
    from harness.code_version import code_version

    return code_version.__wrapped__(*suite_package).sha256


def test_the_code_version_covers_every_shipped_file(tree):
    whole = code_digest("suites.rotation")
    files = [p for p in sorted(tree.rglob("*")) if p.is_file() and "guest" not in p.parts]
    suffixes = {path.suffix for path in files}
    assert suffixes >= {".py", ".yaml", ".json", ".css", ".j2"}
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data + b"\n")
        shipped_model = "subjects/zoo/" in path.as_posix()  # has a digest of its own
        prose = path.suffix == ".md"  # decides nothing
        assert (code_digest("suites.rotation") == whole) == (shipped_model or prose), path
        path.write_bytes(data)
    assert code_digest("suites.rotation") == whole == code_digest()


def test_the_code_version_covers_names_and_the_guest_suite(tree):
    whole, guests = code_digest(), code_digest("guest.suite")
    assert whole != guests
    (tree / "guest" / "__init__.py").write_text("SUITE = 2\n")
    assert code_digest("guest.suite") not in (whole, guests)
    assert code_digest() == whole
    template = tree / "reports" / "templates" / "macros.html.j2"
    template.rename(template.with_name("macrot.html.j2"))  # in the same place of the order
    renamed = code_digest()
    assert renamed != whole
    for suffix in (".py", ".yaml", ".json", ".css", ".j2"):
        added = tree / "suites" / "rotation" / f"added{suffix}"
        added.write_bytes(b"")
        assert code_digest() != renamed, suffix
        added.unlink()
    assert code_digest() == renamed


def test_a_copy_of_the_packages_has_their_code_version(tree, monkeypatch):
    from harness.code_version import code_version, version

    copied = code_version.__wrapped__()
    monkeypatch.undo()
    assert copied == code_version.__wrapped__()
    assert copied.version == version()
