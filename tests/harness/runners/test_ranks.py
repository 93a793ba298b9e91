"""Passes over several ranks, and over batches in another order: the same sums."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torchmetrics.utilities import dim_zero_sum

from harness.bars.behavioural import BehaviouralMeter
from harness.case import Activations, Case, Gaussian, MapChoice, Pairing, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.gauge.fit import Moments
from harness.judging import estimate_value
from harness.measured import Context, record
from harness.runners.blocks import BlockStream
from harness.runners.measure import MeasuringPass, Meter
from harness.runners.moments import MomentsMeter
from harness.sae.dictionaries import Dictionaries
from harness.sae.recipe import DictionaryRecipe
from harness.suite import Scope
from prereg.errors import InputError
from suites.rotation import SUITE
from suites.rotation.measure import measure
from suites.rotation.measure.frame import Frame, Halves
from suites.rotation.measure.reading import Place, ReadingMeter
from suites.rotation.measure.stitching import stitch
from suites.rotation.measure.transfer import paired
from suites.rotation.plan import RotationPlan

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PLAN = RotationPlan(sites=SITES)
SCOPE = Scope(
    components=("blocks.0.mlp", "blocks.1.mlp"),
    outputs=("copy", "depth", "valid"),
    draws=("standard",),
    splits={"fit": 128, "evaluate": 384},
    block=16,
)
CORPUS = Dyck3(7)

# --- ranks ------------------------------------------------------------------------------------

RANK = """
import json, sys
from dataclasses import replace
from harness.bars.behavioural import BehaviouralMeter
from harness.case import Activations, Case, Gaussian, Pairing, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import Dyck3
from harness.measured import Context
from harness.runners.measure import run_pass
from harness.runners.moments import MomentsMeter
from harness.runners.trainer import set_threads
from harness.subjects.loading import load
from harness.subjects.reference import locate
from harness.suite import Scope
from suites.rotation import SUITE
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan

set_threads()
options = json.loads(sys.argv[1])
sites = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
pair = [load(locate(f"zoo:dyck3/indep-{seed}")) for seed in (100, 101)]
found = {}
for count in (40, 190, 256):  # one, three and four batches of at most 64 samples
    samples = SampleRange("evaluate", 0, count)
    case = Case(*pair, Samples(samples, samples))
    moments = MomentsMeter(case, sites=sites, width=64)
    bar = BehaviouralMeter(case, blocks=-(-count // 16), tau=0.1, c=2.0)
    run_pass(
        [moments, bar],
        corpus=Dyck3(7),
        samples=samples,
        block_size=16,
        capture=sites,
        trainer_options=dict(options),
    )
    states = {"tokens": moments.tokens, "sums": moments.sums, "products": moments.products[..., :3, :]}
    found[str(count)] = {name: state.tolist() for name, state in states.items()}
    found[str(count)]["columns"] = {n: c.tolist() for n, c in bar.by_column().items()}
samples = Samples(SampleRange("fit", 0, 250), SampleRange("evaluate", 0, 250))  # four batches
plan = RotationPlan(sites=sites)
scope = Scope((), (), (), {"fit": 250, "evaluate": 250}, 16)
frozen = [
    spec
    for entry in SUITE.catalogue
    if plan.explored(entry.id) and (spec := plan.frozen(entry, scope)) is not None
]
wanted = frozenset(
    (spec.id, arm) for spec in frozen for arm in ((*spec.arms, *spec.shown_arms) or (None,))
)
context = Context(Dyck3(7), 16, plan, wanted, 5, options)
main = Case(*pair, samples)
changes = {
    "main": {},
    "shuffled": {"pairing": Pairing("shuffled", 4)},
    "tokpos-shuffled": {"pairing": Pairing("tokpos-shuffled", 4)},
    "noise": {"activations": Activations(gaussian=Gaussian(4))},
}
cases = [replace(main, **change) for change in changes.values()]
gains = frozenset(one for one in wanted if one[0].endswith("state_gain@1"))
rows = measure(cases, replace(context, wanted=(wanted, *3 * (wanted - gains,))))
for name, row in zip(changes, rows, strict=True):
    found[name] = {
        f"{m.statistic} {m.arm} {m.site}": {
            "value": m.value,
            "undefined": 0.0 if m.undefined is None else 1.0,
            "columns": {n: c.tolist() for n, c in (m.columns or {}).items()},
            "draws": list(m.draws or ()),
        }
        for m in row
    }
print("found:" + json.dumps(found))
"""

DISTRIBUTED = {"accelerator": "cpu", "devices": 1, "num_nodes": 2, "strategy": "ddp"}


def processes(options, environments):
    """What each of the processes found, with one process for each environment."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, json.dumps(options)],
            env={**os.environ, **extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for extra in environments
    ]
    try:
        ended = [(*process.communicate(timeout=150), process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()
    found = []
    for out, err, code in ended:
        assert code == 0, err[-4000:]
        (line,) = [line for line in out.splitlines() if line.startswith("found:")]
        found.append(json.loads(line.removeprefix("found:")))
    return found


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def leaves(found, path=()):
    """Every array and number of nested plain data, by path."""
    if isinstance(found, dict):
        return {
            k: v for key, value in found.items() for k, v in leaves(value, (*path, key)).items()
        }
    if isinstance(found, list) and any(isinstance(value, dict) for value in found):
        return leaves(dict(enumerate(found)), path)
    return {path: np.asarray(found, np.float64)}


def tolerance(path):
    """How far sums over ranks may differ, relative to the largest of an array.

    Addition in another order moves fp64 states by their rounding. Losses behind a site are computed
    in the model's fp32, where that flips roundings; least squares and gaps magnify it by the
    condition of the states.
    """
    name = " ".join(path[:2])
    if "alignment.stitch" in name:
        return float(np.finfo(np.float32).eps)
    return 1e-9 if any(word in name for word in ("linear", "rank.gap")) else 1e-12


@pytest.mark.slow
def test_two_processes_give_the_sums_of_one():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    two = processes(DISTRIBUTED, [{**address, "NODE_RANK": str(rank)} for rank in (0, 1)])
    (one,) = processes({}, [{}])
    expected = leaves(one)
    counts = 0
    for found in map(leaves, two):
        assert found.keys() == expected.keys()
        for path, value in found.items():
            scale, near = np.abs(expected[path]).max(initial=0.0), tolerance(path)
            np.testing.assert_allclose(
                value, expected[path], rtol=near, atol=near * scale, err_msg=str(path)
            )
            if path[-1] in ("tokens", "positions", "sequences", "exceeding", "shortest"):
                counts += 1
                assert np.array_equal(value, expected[path]), path
    assert counts == 2 * (3 * 5 + 4 * 4)
    for case in ("main", "shuffled", "tokpos-shuffled", "noise"):
        stitched = expected[case, f"alignment.stitch@1 rotated {SITES[1]}", "columns", "numerator"]
        assert stitched.shape == (16,)
        assert stitched.any()
    gains = [path for path in expected if path[0] == "main" and path[-1] == "draws"]
    assert sum(expected[path].size == 32 for path in gains) == 2 * len(SITES)


@pytest.fixture
def meters(zoo_pair):
    """A meter of each kind of sum, for a range."""

    def make(samples):
        case = Case(*zoo_pair, Samples(samples, samples))
        cases = [case, *(replace(case, **change) for change in RANDOM.values())]
        blocks = -(-samples.count // 16)
        return [
            *(MomentsMeter(one, sites=SITES[:1], width=64) for one in cases),
            *(readings(one, blocks=blocks) for one in cases),
            BehaviouralMeter(case, blocks=blocks, tau=0.1, c=2.0),
        ]

    return make


def planted_gaussian(seed=4, width=64):
    """Gaussian states of a covariance that is not round."""
    rng = np.random.default_rng(seed)
    mean, factor = rng.normal(size=width), rng.normal(size=(width, width))
    return Gaussian(seed, dict.fromkeys(SITES, mean), dict.fromkeys(SITES, factor))


RANDOM = {
    "shuffled": {"pairing": Pairing("shuffled", 4)},
    "tokpos-shuffled": {"pairing": Pairing("tokpos-shuffled", 4)},
    "noise": {"activations": Activations(gaussian=planted_gaussian())},
}
"""Fields of the cases that draw what they read, by control."""


def readings(case, *, blocks):
    """Stitched and paired sums of a case whose moments are known."""
    rng = np.random.default_rng(1)
    b, a = (rng.normal(size=(500, 64)) for _ in range(2))
    known = Moments(500.0, b.sum(0), a.sum(0), b.T @ a, b.T @ b, a.T @ a)
    frame = Frame(case, {SITES[0]: Halves(known, known)}, {SITES[0]: known})
    made = [
        make(frame, Place(name, SITES[0], "rotated"))
        for name, make in (("alignment.stitch@1", stitch), ("alignment.ev.paired@1", paired))
    ]
    return ReadingMeter(made, blocks=blocks)


def passed(meters, *, samples, rank, world):
    """The meters after one rank's share of a pass, and before ranks are summed."""
    part = MeasuringPass(meters, corpus=CORPUS, samples=samples, block_size=16, capture=SITES[:1])
    part.trainer = SimpleNamespace(global_rank=rank, world_size=world)
    for batch in part.test_dataloader():
        part.test_step(batch)
    part.on_test_epoch_end()
    return meters


def test_the_states_of_the_ranks_add_up_and_are_summed_once(meters, monkeypatch):
    synced = []

    def sync(meter):
        synced.append(meter)

    monkeypatch.setattr(Meter, "sync", sync)
    samples = SampleRange("evaluate", 0, 190)  # three batches
    alone = passed(meters(samples), samples=samples, rank=0, world=1)
    assert not synced
    ranks = [passed(meters(samples), samples=samples, rank=rank, world=2) for rank in (0, 1)]
    assert synced == [*ranks[0], *ranks[1]]
    for whole, *parts in zip(alone, *ranks, strict=True):
        for name, reduction in whole._reductions.items():
            assert reduction is dim_zero_sum
            state, shares = getattr(whole, name), [getattr(part, name) for part in parts]
            torch.testing.assert_close(sum(shares), state, rtol=1e-12, atol=1e-9)
            assert all(bool(share.any()) for share in shares)
            assert not any(torch.equal(share, state) for share in shares)
    # what is compared above differs between the cases, or one of them would test nothing
    firsts = [meter.products[0, 0, 0] for meter in alone if isinstance(meter, MomentsMeter)]
    sums = [meter.sums[:, :2] for meter in alone if isinstance(meter, ReadingMeter)]
    for found in (firsts, sums):
        assert len(found) == 1 + len(RANDOM)
        assert not any(torch.allclose(one, x) for i, one in enumerate(found) for x in found[:i])


# --- order ------------------------------------------------------------------------------------


class Reversed(BlockStream):
    """The same batches, last first."""

    def __iter__(self):
        return iter(list(super().__iter__())[::-1])


def found(case):
    """Everything that is measured of a case without dictionaries, by statistic, site and arm."""
    specs = [
        spec
        for entry in SUITE.catalogue
        if PLAN.explored(entry.id) and (spec := PLAN.frozen(entry, SCOPE)) is not None
    ]
    wanted = frozenset(
        (spec.id, arm)
        for spec in specs
        for arm in ((*spec.arms, *spec.shown_arms) or (None,))
        if spec.estimator != "value_minus_median"
    )
    context = Context(CORPUS, 16, PLAN, wanted, 0, {})
    return {(m.statistic, m.site, m.arm): m for m in measure([case], context)[0]}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"map": MapChoice("identity")},
        {"pairing": Pairing("shuffled", 4)},
        {"pairing": Pairing("tokpos-shuffled", 4)},
        {"activations": Activations(gaussian=Gaussian(4))},
    ],
    ids=["claim", "identity", "shuffled", "tokpos-shuffled", "noise"],
)
def test_any_order_of_batches_gives_the_same_values_and_columns(zoo_pair, monkeypatch, change):
    samples = Samples(SampleRange("fit", 0, 130), SampleRange("evaluate", 0, 250))
    case = Case(*zoo_pair, samples, **change)
    forwards = found(case)
    monkeypatch.setattr("harness.runners.measure.BlockStream", Reversed)
    backwards = found(case)
    assert forwards.keys() == backwards.keys()
    for key, one in forwards.items():
        other, near = backwards[key], tolerance((key[0], str(key[2])))
        assert other.undefined == one.undefined
        if one.undefined is None:
            assert other.value == pytest.approx(one.value, rel=near, abs=near)
        for name, column in (one.columns or {}).items():
            scale = np.abs(column).max()
            np.testing.assert_allclose(
                other.columns[name], column, rtol=near, atol=near * scale, err_msg=name
            )


def test_any_order_of_the_blocks_gives_the_judge_the_same_value(zoo_pair):
    samples = Samples(SampleRange("fit", 0, 128), SampleRange("evaluate", 0, 330))
    order = np.random.default_rng(0).permutation(21)
    summed = 0
    for (statistic, _, _), one in found(Case(*zoo_pair, samples)).items():
        if one.columns is None:
            continue
        summed += 1
        spec = PLAN.frozen(SUITE.statistics[statistic], SCOPE)
        moved = replace(one, columns={name: c[order] for name, c in one.columns.items()})
        values = [
            estimate_value(record(m, spec=spec, pair="b", case="main"), spec.parameters)
            for m in (one, moved)
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-12)
        assert values[0] == pytest.approx(one.value, rel=1e-9)
    assert summed == 1 + len(SITES) * (2 * 6 + 3)


# --- dictionaries -----------------------------------------------------------------------------


def test_dictionaries_are_trained_on_one_device_and_more_are_refused(zoo_pair):
    recipe = DictionaryRecipe(kind="topk", k=4, width=32, steps=2)
    dictionaries = Dictionaries(
        zoo_pair[0],
        {"few": recipe},
        sites=SITES[:1],
        corpus=CORPUS,
        samples=SampleRange("dictionary", 0, 32),
        trainer_options=DISTRIBUTED,
    )
    with pytest.raises(InputError) as caught:
        _ = dictionaries.trained
    assert caught.value.code == "dictionary.devices"
    assert dictionaries.facts() == {}
