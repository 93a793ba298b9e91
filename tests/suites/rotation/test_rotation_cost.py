"""What `check` predicts of the run time: it moves as the work does, and says what it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.outlook import outlook
from harness.resolve import prepare
from harness.suite import Job, Workload
from prereg.hypothesis import parse_hypothesis
from suites.rotation import SUITE
from suites.rotation.cost import seconds
from suites.rotation.plan import RotationPlan

PLAN = RotationPlan.model_validate_json(
    '{"sites": ["blocks.0.hook_resid_post"], "dictionaries": '
    '{"topk": {"kind": "topk", "k": 8, "width": 128, "steps": 100}}}'
)
MAIN = Job("main", None, frozenset({("alignment.ev.paired@1", "rotated")}))
LOAD = Workload(
    jobs=(MAIN,),
    pairs=1,
    splits={"fit": 1024, "evaluate": 2048, "dictionary": 512},
    tokens=33.0,
    width=64,
    parameters=100_000,
    positions=64,
    components=10,
)


def with_job(name: str, *wanted: tuple[str, str | None], draws: int | None = None) -> Workload:
    return replace(LOAD, jobs=(MAIN, Job(name, draws, frozenset(wanted))))


@pytest.mark.parametrize(
    "more",
    [
        replace(LOAD, splits={**LOAD.splits, "evaluate": 4096}),
        replace(LOAD, splits={**LOAD.splits, "fit": 2048}),
        replace(LOAD, width=128),
        replace(LOAD, parameters=200_000),
        replace(LOAD, tokens=60.0),
        with_job("self", ("alignment.ev.paired@1", "rotated")),
        with_job("self-fresh", ("alignment.ev.paired@1", "rotated")),
        with_job("untrained", ("alignment.ev.paired@1", "rotated")),
        with_job("haar", ("alignment.ev.paired@1", "rotated"), draws=32),
    ],
)
def test_more_work_takes_longer(more: Workload) -> None:
    assert seconds(PLAN, more) > seconds(PLAN, LOAD)


@pytest.mark.parametrize(
    "wanted",
    [
        ("alignment.stitch@1", "rotated"),
        ("sae.ev.rotated@1", "topk"),
        ("alignment.ev.paired.state_gain@1", None),
        ("alignment.stitch.state_gain@1", None),
    ],
)
def test_every_statistic_has_its_price(wanted: tuple[str, str | None]) -> None:
    more = replace(LOAD, jobs=(Job("main", None, MAIN.wanted | {wanted}),))
    assert seconds(PLAN, more) > 1.005 * seconds(PLAN, LOAD)


def test_two_pairs_take_twice_as_long_but_train_once() -> None:
    one, two = seconds(PLAN, LOAD), seconds(PLAN, replace(LOAD, pairs=2))
    assert one < two < 2 * one


def test_no_dictionary_no_training() -> None:
    bare = PLAN.model_copy(update={"dictionaries": {}})
    assert seconds(bare, LOAD) < seconds(PLAN, LOAD)


@pytest.mark.parametrize("name", sorted(SUITE.hypotheses))
def test_every_shipped_file_has_a_prediction_in_its_budget(name: str) -> None:
    source = SUITE.hypotheses[name].read_bytes()
    found = outlook(prepare(parse_hypothesis(source, name=name, is_json=False)))
    assert found.seconds is not None
    assert 10 < found.seconds < 1200  # a wide band: it is for this machine, however slow
