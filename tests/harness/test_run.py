"""Attempts: measured once, entered first, resumed, repeated to the bit, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from harness.bars.catalogue import BARS
from harness.judging import read_evidence
from harness.resolve import prepare
from harness.run import run
from harness.verdicts import judge_attempt
from harness.workload import jobs
from prereg.errors import IncompleteError, IntegrityError
from prereg.workspace import Workspace

KL, PAIRED, SHARE = "bar.behavioural.kl@1", "alignment.ev.paired@1", "rotation.identity_share@1"
RAW, ROTATED = "sae.ev.raw@1", "sae.ev.rotated@1"
GAIN = "alignment.ev.paired.state_gain@1"


@pytest.fixture
def home(tmp_path):
    return Workspace(tmp_path / "home")


@pytest.fixture
def registered(register, tiny):
    """Registers the small file, with changes, and gives its id."""
    return lambda home, *changes: register(home, tiny(*changes))


def events(home):
    return [entry.event for entry in home.ledger.entries()]


def stage_names(home, identifier, pairs=("b",)):
    controls = [c.name for c in home.registration(identifier).resolved.suite.controls]
    return [f"{pair}/{case}" for pair in pairs for case in ("main", *controls)]


def records_of(home, identifier, attempt=1):
    return read_evidence(home.evidence(identifier, attempt)).records


def test_two_fresh_runs_give_the_same_evidence_to_the_bit(home, registered):
    identifier = registered(home)
    one, two = run(home, identifier), run(home, identifier, fresh=True)
    assert one.evidence == two.evidence
    assert (one.attempt, two.attempt) == (1, 2)
    assert not two.reused
    stages = len(stage_names(home, identifier)) * ["stage-finished"]
    attempt = ["attempt-started", *stages, "attempt-finished"]
    assert events(home) == ["registered", *2 * attempt]


def test_a_later_attempt_takes_over_finished_stages_and_says_so(home, registered):
    identifier = registered(home)
    one = run(home, identifier)
    two = run(home, identifier)
    assert list(two.reused) == stage_names(home, identifier)
    assert two.evidence == one.evidence
    record = json.loads(home.run_record(identifier, 2))
    assert {stage["reused_from"] for stage in record["stages"]} == {1}
    assert record["environment"]["threads"] == 1


def test_a_torn_or_altered_stage_is_measured_again(home, registered):
    identifier = registered(home)
    one = run(home, identifier)
    stages = sorted((home.run_folder(identifier, 1) / "stages").glob("*.jsonl"))
    stages[0].write_bytes(stages[0].read_bytes()[:-5])
    stages[1].write_bytes(stages[1].read_bytes().replace(b"1", b"2"))
    two = run(home, identifier)
    assert len(two.reused) == len(stages) - 2
    assert two.evidence == one.evidence


def test_evidence_holds_every_case_of_every_statistic_with_a_role(home, registered, dropping):
    identifier = registered(home, {"controls": dropping("haar", "noise", "self-fresh")})
    run(home, identifier)
    records = records_of(home, identifier)
    cases = {(r.statistic, r.arm, r.case) for r in records}
    assert (KL, None, "untrained") in cases
    assert (PAIRED, "rotated", "untrained") in cases
    assert {name for name, _, case in cases if case == "covariance-only"} == {PAIRED}
    assert {name for name, _, case in cases if case == "shuffled"} == {PAIRED, SHARE}
    assert {case for _, _, case in cases} == {
        "main",
        "self",
        "gauge-self",
        "untrained",
        "covariance-only",
        "shuffled",
        "decoy-depth-pairs",
    }
    draws = [r for r in records if r.case == "covariance-only"]
    assert {len(r.draws or ()) for r in draws} == {32}


def test_the_judge_is_pure_and_the_ledger_knows_a_verdict_once(home, registered):
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


@pytest.mark.parametrize("place", ["others.b", "controls.lineage"])
def test_another_model_in_the_place_of_the_registered_one_is_refused(
    home, registered, save_random, unmeasured, place
):
    path = f"subjects.{place}"
    identifier = registered(home, {path: save_random(1, "model")})
    save_random(2, "model")
    with pytest.raises(IntegrityError, match=rf"{path}\.weights".replace("s.", r"s\.")) as caught:
        run(home, identifier)
    assert caught.value.code == "run.not-as-registered"
    assert "--deviate" in caught.value.fix
    assert events(home) == ["registered"]
    assert not unmeasured.passes
    done = run(home, identifier, deviate="the first upload was broken")
    assert any("the first upload was broken" in line for line in done.deviations)
    assert any(line.startswith(f"{path}.weights") for line in done.deviations)


def test_a_deviation_is_in_the_verdict(home, registered, save_random):
    identifier = registered(home, {"subjects.others.b": save_random(1, "model")})
    save_random(2, "model")
    run(home, identifier, deviate="the first upload was broken")
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


def test_sigkill_leaves_an_aborted_attempt_and_a_working_workspace(home, registered):
    identifier = registered(home)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(home.root), identifier],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "self-fresh" in line:  # on samples of its own, so after the pass of `main`
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    assert [s.state for s in home.attempts(identifier)] == ["aborted"]
    done = run(home, identifier)
    assert done.attempt == 2
    assert "b/main" in done.reused
    assert "b/self-fresh" not in done.reused
    assert [s.state for s in home.attempts(identifier)] == ["aborted", "finished"]
    assert "attempt-aborted" in events(home)
    assert judge_attempt(home, identifier).attempt == 2


def test_a_fault_while_measuring_is_a_failed_attempt(home, registered, monkeypatch):
    identifier = registered(home)

    def broken(*_, **__):
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
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan
set_threads()
plan = RotationPlan(sites=("blocks.0.hook_resid_post", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post"))
a, b = (load(locate(f"zoo:dyck3/indep-{s}")) for s in (100, 101))
wanted = frozenset((f"alignment.{name}@1", "rotated") for name in ("ev.paired", "stitch"))
more = {("bar.behavioural.kl@1", None), ("rotation.identity_share@1", None)}
context = Context(Dyck3(7), 16, plan, wanted | more, 0, {})
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


# --- what is asked for ------------------------------------------------------------------------

JUDGED = {(KL, None), (PAIRED, "rotated"), (SHARE, None)}
ALL_CONTROLS = {"controls": "default"}


def test_a_control_is_asked_for_the_statistics_in_which_it_has_a_role(home, registered, unmeasured):
    run(home, registered(home, ALL_CONTROLS))
    pairing = {(PAIRED, "rotated"), (SHARE, None)}
    assert unmeasured.wanted == {
        "main": JUDGED,
        "self": JUDGED,
        "self-fresh": JUDGED,
        "gauge-self": JUDGED,
        "untrained": JUDGED,
        "covariance-only": {(PAIRED, "rotated")},
        "haar": {(PAIRED, "rotated")},
        "noise": pairing,
        "shuffled": pairing,
        "decoy-depth-pairs": {(KL, None)},
    }


def test_a_control_is_asked_for_the_arm_of_the_claim_in_which_it_has_a_role(
    home, registered, unmeasured, with_features
):
    few = with_features["plan.dictionaries"]["few"]
    (same,) = with_features["claims"]
    differs = {**same, "id": "raw", "statistic": RAW, "arm": "dense", "kind": "differs"}
    changes = {
        "plan.dictionaries": {"few": few, "dense": {**few, "k": 32}},
        "claims": [same, differs],
    }
    run(home, registered(home, changes, ALL_CONTROLS))
    rotated, raw, bar = (ROTATED, "few"), (RAW, "dense"), (KL, None)
    assert unmeasured.wanted == {
        "main": {bar, rotated, raw},
        "self": {bar, rotated, raw},
        "self-fresh": {bar, rotated, raw},
        "gauge-self": {bar, rotated, raw},
        "gauge-self-unaligned": {rotated, raw},
        "untrained": {bar, rotated, raw},
        "covariance-only": {rotated},
        "haar": {rotated},
        "noise": {rotated, raw},
        "shuffled": {rotated},
        "pca-k": {rotated, raw},
        "decoy-depth-pairs": {bar},
    }


def test_an_added_control_without_a_role_is_measured_on_all_that_is_judged(
    home, registered, unmeasured, tiny
):
    (needed,) = [c for c in tiny()["claims"] if c["statistic"] == SHARE]
    added = {"add": ["gauge-self-unaligned"]}
    run(home, registered(home, {"claims": [needed], "controls": added}))
    assert unmeasured.wanted["main"] == {(KL, None), (SHARE, None)}
    assert unmeasured.wanted["gauge-self-unaligned"] == {(KL, None), (SHARE, None)}
    assert "covariance-only" not in unmeasured.wanted  # PAIRED is judged by no claim


def test_a_model_named_for_a_control_makes_it_run(home, registered, unmeasured):
    run(home, registered(home, {"subjects.controls": {"lineage": "zoo:dyck3/shared-0/step-2000"}}))
    assert unmeasured.wanted["lineage"] == JUDGED
    assert "other-task" not in unmeasured.wanted


@pytest.mark.parametrize("explore", ["claimed", "all"])
def test_what_nothing_is_claimed_about_is_measured_where_the_plan_explores(
    home, registered, unmeasured, with_features, explore
):
    identifier = registered(home, with_features, {"plan.explore": explore}, ALL_CONTROLS)
    run(home, identifier)
    claimed = {(KL, None), (ROTATED, "few")}
    everything = {
        (spec.id, arm)
        for spec in home.registration(identifier).resolved.statistics.values()
        if spec.id == KL or not spec.id.startswith(BARS)
        for arm in ((*spec.arms, *spec.shown_arms) or (None,))
    }
    assert {(PAIRED, "raw"), (PAIRED, "rotated"), ("sae.l0@1", "few"), (GAIN, None)} < everything
    assert (PAIRED, None) not in everything
    frozen = home.registration(identifier)
    expected = jobs(frozen, plan=prepare(frozen.claim).plan)
    assert {job.name: job.wanted for job in expected} == unmeasured.wanted
    random = {control.name for control in frozen.resolved.suite.controls if control.random}
    assert {job.name for job in expected if job.draws is not None} == random
    assert unmeasured.wanted["main"] == (claimed if explore == "claimed" else everything)
    assert unmeasured.wanted["self"] == claimed  # controls are there for what is judged


def test_cases_on_the_same_samples_share_a_pass_and_random_ones_have_their_own(
    home, registered, unmeasured
):
    run(home, registered(home, ALL_CONTROLS))
    names = unmeasured.measured
    assert sorted(names) == sorted(unmeasured.wanted)  # each once
    random = {"covariance-only", "haar", "noise", "shuffled"}
    assert all(len(found) == 1 for found in unmeasured.passes if random & set(found))
    assert {"main", "self", "gauge-self"} <= set(unmeasured.passes[0])


def test_the_registered_number_of_the_attempt_decides(home, registered, unmeasured):
    from harness.verdicts import chosen_attempt

    identifier = registered(home, {"decision.attempt": 2})
    run(home, identifier)
    with pytest.raises(IncompleteError):
        chosen_attempt(home, identifier)
    assert chosen_attempt(home, f"{identifier}/1") == (identifier, 1, False)
    for _ in range(2):
        run(home, identifier)
    assert chosen_attempt(home, identifier) == (identifier, 2, True)
    assert chosen_attempt(home, f"{identifier}/2") == (identifier, 2, True)
    assert chosen_attempt(home, f"{identifier}/3") == (identifier, 3, False)


def test_the_first_attempt_that_finished_decides(home, registered, unmeasured, monkeypatch):
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


# --- models of controls -----------------------------------------------------------------------


def test_a_control_measures_the_model_that_is_named_for_it(home, registered, save_random, dropping):
    """Here that of the pair, in another folder: the control finds what the claim's own case does."""
    changes = {
        "subjects.others.b": save_random(3, "other"),
        "subjects.controls": {"lineage": save_random(3, "lineage")},
        "controls": dropping(
            "self-fresh", "gauge-self", "covariance-only", "haar", "noise", "shuffled"
        ),
    }
    identifier = registered(home, changes)
    run(home, identifier)
    found = {case: [] for case in ("main", "lineage", "untrained")}
    for record in records_of(home, identifier):
        if record.case in found:
            found[record.case].append(record.model_dump(exclude={"case"}))
    assert len(found["main"]) == 3
    assert found["lineage"] == found["main"] != found["untrained"]
    outcomes = judge_attempt(home, identifier).verdict.claims[1].members[0].controls
    assert "lineage" in {outcome.control for outcome in outcomes}


# --- dictionaries -----------------------------------------------------------------------------


@pytest.fixture
def trainings(monkeypatch):
    """Sites and names of the dictionaries of every training, in order."""
    from harness.sae import dictionaries

    shipped, found = dictionaries.train_dictionaries, []

    def train(subject, recipes, *, sites, **more):
        found.append((tuple(sites), tuple(recipes)))
        return shipped(subject, recipes, sites=sites, **more)

    monkeypatch.setattr(dictionaries, "train_dictionaries", train)
    return found


def test_dictionaries_are_trained_once_for_all_cases_and_pairs(
    home, registered, with_features, trainings, save_random
):
    others = {"subjects.others": {"b": "zoo:dyck3/indep-101", "c": save_random(8)}}
    identifier = registered(home, with_features, others)
    one = run(home, identifier)
    (site,) = home.registration(identifier).resolved.sites
    assert trainings == [((site,), ("few",))]
    names = stage_names(home, identifier, pairs=("b", "c"))
    rotated = {"main", "self", "untrained", "pca-k"}
    assert {name.partition("/")[2] for name in names} == {*rotated, "decoy-depth-pairs"}
    cases = {(r.pair, r.case) for r in records_of(home, identifier) if r.statistic == ROTATED}
    assert cases == {(pair, case) for pair in ("b", "c") for case in rotated}
    two = run(home, identifier)
    assert list(two.reused) == names
    assert len(trainings) == 1  # nothing was measured, so nothing was trained
    assert two.evidence == one.evidence
    stages = sorted((home.run_folder(identifier, 1) / "stages").glob("*.jsonl"))
    again = sorted((home.run_folder(identifier, 2) / "stages").glob("*.jsonl"))
    for file in (stages[0], again[0]):
        file.write_bytes(file.read_bytes()[:-5])
    three = run(home, identifier)
    assert len(three.reused) == len(names) - 1
    assert three.evidence == one.evidence


def test_facts_of_the_training_stand_in_the_run_record(home, registered, with_features):
    identifier = registered(home, with_features)
    run(home, identifier)
    (site,) = home.registration(identifier).resolved.sites
    record = json.loads(home.run_record(identifier, 1))
    assert list(record["dictionaries"]) == [f"{site}/few"]
    facts = record["dictionaries"][f"{site}/few"]
    assert (facts["steps"], facts["tokens"], len(facts["losses"])) == (4, 4 * 64, 4)
    assert 0 < facts["l0"] <= 4
    assert 0 < facts["live_fraction"] <= 1
    assert b"live_fraction" not in home.evidence(identifier, 1)
    run(home, identifier)
    assert json.loads(home.run_record(identifier, 2))["dictionaries"] == {}


def test_two_fresh_runs_with_dictionaries_give_the_same_evidence_to_the_bit(
    home, registered, with_features, trainings
):
    identifier = registered(home, with_features)
    one, two = run(home, identifier), run(home, identifier, fresh=True)
    assert len(trainings) == 2
    assert not two.reused
    assert one.evidence == two.evidence
    records = [json.loads(home.run_record(identifier, attempt)) for attempt in (1, 2)]
    assert records[0]["dictionaries"] == records[1]["dictionaries"]


def test_dictionaries_that_nothing_reads_are_not_trained(
    home, registered, with_features, trainings, tiny, dropping
):
    others = {"claims": tiny()["claims"], "controls": dropping("covariance-only", "haar", "noise")}
    identifier = registered(home, with_features, others)
    run(home, identifier)
    assert not trainings
    assert json.loads(home.run_record(identifier, 1))["dictionaries"] == {}


# --- exploring --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explored(tmp_path_factory, register, tiny, with_features, dropping):
    """A workspace with a run that shows all, and the id of its registration."""
    home = Workspace(tmp_path_factory.mktemp("explored") / "home")
    gain = {"id": "gain", "statistic": GAIN, "kind": "same", "above": 0.0}
    changes = {
        "plan.explore": "all",
        "claims": [*with_features["claims"], gain],
        "controls": dropping(
            "self-fresh",
            "gauge-self",
            "covariance-only",
            "haar",
            "noise",
            "shuffled",
            "pca-k",
        ),
    }
    identifier = register(home, tiny(with_features, changes))
    run(home, identifier)
    return home, identifier


def test_all_that_is_shown_is_in_the_evidence_and_can_be_judged(explored):
    home, identifier = explored
    specs = home.registration(identifier).resolved.statistics
    records = records_of(home, identifier)
    main = {(r.statistic, r.arm) for r in records if r.case == "main"}
    assert main == {
        (spec.id, arm)
        for spec in specs.values()
        if spec.id == KL or not spec.id.startswith(BARS)
        for arm in ((*spec.arms, *spec.shown_arms) or (None,))
    }
    claimed = {(KL, None), (ROTATED, "few"), (GAIN, None)}
    for control in ("self", "untrained"):
        assert {(r.statistic, r.arm) for r in records if r.case == control} == claimed
    verdict = judge_attempt(home, identifier).verdict
    assert {claim.name for claim in verdict.claims} == {"B", "features", "gain"}


def test_a_gain_has_a_value_and_as_many_draws_as_registered(explored):
    home, identifier = explored
    gains = {r.case: r for r in records_of(home, identifier) if r.statistic == GAIN}
    assert gains.keys() == {"main", "self", "untrained"}
    for record in gains.values():
        assert record.estimator == "value_minus_median"
        assert record.columns is None
        assert isinstance(record.value, float)
        assert len(record.draws) == 32
        assert len(set(record.draws)) == 32
    assert gains["self"].value == pytest.approx(1.0)
    assert gains["self"].value > max(gains["self"].draws)
    member = judge_attempt(home, identifier).verdict.claims[-1].members[0]
    ordered = sorted(gains["main"].draws)
    median = (ordered[15] + ordered[16]) / 2
    assert member.estimate.value == pytest.approx(gains["main"].value - median, rel=1e-8)


def test_a_run_that_shows_what_is_claimed_measures_nothing_else(home, registered, with_features):
    identifier = registered(home, with_features)
    run(home, identifier)
    found = {(r.statistic, r.arm) for r in records_of(home, identifier)}
    assert found == {(KL, None), (ROTATED, "few")}


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
