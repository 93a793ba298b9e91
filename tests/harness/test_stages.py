"""Stages: what their keys depend on, and which copies a later attempt takes over."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from harness.judging.evidence import EvidenceHeader
from harness.run import run
from harness.stages import Stage, StageStore
from prereg.canonical import sha256
from prereg.workspace import Workspace

HEX = "0123456789abcdef"
SOURCE = b"# the ledger keeps its digest, and nothing else is read of it\n"


NAMED = {"subjects.controls": {"lineage": "zoo:dyck3/shared-0/step-2000"}}


@pytest.fixture(scope="module")
def prepared(hypothesis, prepared_from):
    """The shipped file with a model for a control."""
    return prepared_from(hypothesis(NAMED))


@pytest.fixture(scope="module")
def every_stage(prepared):
    """The cases that a run measures, in order."""
    controls = prepared.registration.resolved.suite.controls
    return ["main", *(control.name for control in controls)]


@pytest.fixture(scope="module")
def stage(prepared):
    header = EvidenceHeader(
        evidence="prebench/evidence/1", registration=prepared.registration.id, deviations=("x",)
    )
    options = {"accelerator": "cpu", "devices": 1}
    return Stage("b/main", header, prepared, options, {"threads": 1, "libraries": {"torch": "2.0"}})


# --- keys -------------------------------------------------------------------------------------


def other_digest(digest):
    return HEX[(HEX.index(digest[0]) + 1) % 16] + digest[1:]


def resolved_otherwise(stage, change):
    registration = stage.prepared.registration
    resolved = change(registration.resolved)
    changed = registration.model_copy(update={"resolved": resolved})
    return replace(stage, prepared=replace(stage.prepared, registration=changed))


def inside(record, *path, change):
    """A record with the field at `path` changed."""
    head, *rest = path
    value = getattr(record, head)
    new = inside(value, *rest, change=change) if rest else change(value)
    return record.model_copy(update={head: new})


OTHERWISE = {
    "name": lambda s: replace(s, name="c/main"),
    "case": lambda s: replace(s, name="b/self"),
    "registration": lambda s: replace(
        s, header=inside(s.header, "registration", change=other_digest)
    ),
    "deviations": lambda s: replace(s, header=s.header.model_copy(update={"deviations": ()})),
    "trainer-option": lambda s: replace(s, trainer_options={**s.trainer_options, "devices": 2}),
    "more-options": lambda s: replace(s, trainer_options={**s.trainer_options, "precision": 64}),
    "threads": lambda s: replace(s, environment={**s.environment, "threads": 2}),
    "library": lambda s: replace(s, environment={**s.environment, "libraries": {"torch": "2.1"}}),
    "code": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "code", "sha256", change=other_digest)
    ),
    "corpus": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "corpus", "digest", change=other_digest)
    ),
    "reference-weights": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "subjects", "reference", "weights", change=other_digest)
    ),
    "controls-weights": lambda s: resolved_otherwise(
        s,
        lambda r: inside(
            r,
            "subjects",
            "controls",
            change=lambda c: {n: inside(m, "weights", change=other_digest) for n, m in c.items()},
        ),
    ),
    "draws": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "suite", "draws", change=lambda draws: draws + 1)
    ),
    "sites": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "sites", change=lambda sites: sites[:-1])
    ),
    "statistics": lambda s: resolved_otherwise(
        s, lambda r: inside(r, "statistics", change=lambda _: {})
    ),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_key_differs_where_anything_that_decides_the_stage_does(stage, what):
    assert OTHERWISE[what](stage).key != stage.key


def test_no_two_of_these_keys_are_equal_and_the_same_stage_has_the_same_key(stage):
    assert len({change(stage).key for change in OTHERWISE.values()}) == len(OTHERWISE)
    assert replace(stage, trainer_options=dict(stage.trainer_options)).key == stage.key


# --- copies -----------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """A store of attempt `number`, for which the ledger knows `known`."""

    def make(number, known=()):
        return StageStore(tmp_path / "runs" / str(number) / "stages", known=frozenset(known))

    return make


def test_the_newest_copy_wins_by_number(stage, store):
    known = set()
    for number in (2, 9, 10):
        data = f"attempt {number}\n".encode()
        store(number).keep(stage, data)
        known.add((stage.key, sha256(data)))
    assert store(11, known).find(stage) == (10, b"attempt 10\n")


def test_an_altered_copy_gives_way_to_an_older_whole_one(stage, store):
    data = b'{"value":0.125}\n'
    store(1).keep(stage, data)
    store(2).keep(stage, b'{"value":0.225}\n')
    known = {(stage.key, sha256(data))}
    assert store(3, known).find(stage) == (1, data)
    store(1).keep(stage, data[:-3])
    assert store(3, known).find(stage) is None


def test_a_stage_that_the_ledger_does_not_know_is_not_taken(stage, store):
    store(1).keep(stage, b"data")
    other = replace(stage, name="b/self")
    assert store(2).find(stage) is None
    crossed = {(stage.key, sha256(b"other")), (other.key, sha256(b"data"))}
    assert store(2, crossed).find(stage) is None
    assert store(2, {(stage.key, sha256(b"data"))}).find(stage) == (1, b"data")


def test_a_file_under_another_stages_name_is_not_taken(stage, store):
    other = replace(stage, name="b/self")
    store(1).keep(stage, b"data")
    store(1).keep(other, b"others")
    known = {(stage.key, sha256(b"data")), (other.key, sha256(b"others"))}
    (mine,) = [p for p in store(1).folder.iterdir() if p.read_bytes() == b"data"]
    (theirs,) = [p for p in store(1).folder.iterdir() if p.read_bytes() == b"others"]
    shutil.copy(theirs, mine)
    assert store(2, known).find(stage) is None
    assert store(2, known).find(other) == (1, b"others")


# --- attempts ---------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, prepared):
    made = Workspace(tmp_path / "home")
    made.register(prepared.registration, SOURCE, suffix="yaml")
    return made


def stage_files(home, identifier, number):
    """The stage files of an attempt, by the case of their records."""
    folder = home.run_folder(identifier, number) / "stages"
    return {
        json.loads(path.read_bytes().splitlines()[1])["case"]: path for path in folder.iterdir()
    }


def test_only_what_was_altered_is_measured_again(home, prepared, unmeasured, every_stage):
    identifier = prepared.registration.id
    one = run(home, identifier)
    assert sorted(unmeasured.measured) == sorted(every_stage)
    altered = stage_files(home, identifier, 1)["untrained"]
    assert altered.read_bytes().count(b"0.125") >= 1
    altered.write_bytes(altered.read_bytes().replace(b"0.125", b"0.126", 1))
    unmeasured.passes.clear()
    two = run(home, identifier)
    assert unmeasured.measured == ["untrained"]
    assert set(two.reused) == {f"b/{name}" for name in every_stage if name != "untrained"}
    assert two.evidence == one.evidence


def test_of_two_whole_copies_the_newer_is_named(home, prepared, unmeasured, every_stage):
    identifier = prepared.registration.id
    for _ in range(2):
        run(home, identifier)
    stage_files(home, identifier, 2)["self"].unlink()
    run(home, identifier)
    record = json.loads(home.run_record(identifier, 3))
    taken = {entry["stage"]: entry["reused_from"] for entry in record["stages"]}
    assert taken == {f"b/{name}": 1 if name == "self" else 2 for name in every_stage}


@pytest.mark.parametrize(
    "otherwise",
    [{"fresh": True}, {"trainer_options": {"precision": "64-true"}}],
    ids=["fresh", "other-options"],
)
def test_everything_is_measured_again_when_asked_to_or_otherwise(
    home, prepared, unmeasured, every_stage, otherwise
):
    run(home, prepared.registration.id)
    unmeasured.passes.clear()
    assert not run(home, prepared.registration.id, **otherwise).reused
    assert sorted(unmeasured.measured) == sorted(every_stage)


def test_everything_is_measured_again_in_another_environment(
    home, prepared, unmeasured, every_stage, monkeypatch
):
    run(home, prepared.registration.id)
    unmeasured.passes.clear()
    monkeypatch.setenv("PREBENCH_THREADS", "2")
    import torch

    threads = torch.get_num_threads()
    try:
        assert not run(home, prepared.registration.id).reused
    finally:
        torch.set_num_threads(threads)
    assert sorted(unmeasured.measured) == sorted(every_stage)


def test_stages_of_another_workspace_are_not_taken(
    home, prepared, unmeasured, every_stage, tmp_path, monkeypatch
):
    identifier = prepared.registration.id
    run(home, identifier)
    other = Workspace(tmp_path / "other")
    other.register(prepared.registration, SOURCE, suffix="yaml")

    def out_of_luck():
        raise RuntimeError("no such luck")

    with monkeypatch.context() as broken:
        broken.setattr("harness.run.environment", out_of_luck)
        with pytest.raises(RuntimeError, match="no such luck"):
            run(other, identifier)
    foreign, place = (home.run_folder(identifier, 1), other.run_folder(identifier, 1))
    shutil.copytree(foreign / "stages", place / "stages", dirs_exist_ok=True)
    unmeasured.passes.clear()
    done = run(other, identifier)
    assert (done.attempt, done.reused) == (2, ())
    assert sorted(unmeasured.measured) == sorted(every_stage)
