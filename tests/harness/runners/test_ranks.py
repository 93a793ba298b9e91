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
from harness.judging import estimate_value
from harness.measured import Context, record
from harness.runners.blocks import BlockStream
from harness.runners.measure import MeasuringPass, Meter
from harness.runners.moments import MomentsMeter
from suites.rotation import SUITE
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
PLAN = RotationPlan(sites=SITES)
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
samples = Samples(SampleRange("fit", 0, 96), SampleRange("evaluate", 0, 150))
plan = RotationPlan(sites=sites)
frozen = [found_ for found_ in map(plan.frozen, SUITE.catalogue) if found_ is not None]
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
            scale = np.abs(expected[path]).max()
            np.testing.assert_allclose(
                value, expected[path], rtol=1e-12, atol=1e-12 * scale, err_msg=str(path)
            )
            if path[-1] in ("tokens", "positions", "sequences", "exceeding", "shortest"):
                counts += 1
                assert np.array_equal(value, expected[path]), path
    assert counts == 2 * (3 * 5 + 4)


@pytest.fixture
def meters(zoo_pair):
    """A meter of each kind of sum, for a range."""

    def make(samples):
        case = Case(*zoo_pair, Samples(samples, samples))
        blocks = -(-samples.count // 16)
        return [
            MomentsMeter(case, sites=SITES[:1], width=64),
            BehaviouralMeter(case, blocks=blocks, tau=0.1, c=2.0),
        ]

    return make


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


# --- order ------------------------------------------------------------------------------------


class Reversed(BlockStream):
    """The same batches, last first."""

    def __iter__(self):
        return iter(list(super().__iter__())[::-1])


def found(case, *, statistics=None):
    wanted = frozenset(statistics or SUITE.statistics)
    context = Context(CORPUS, 16, PLAN, wanted, {})
    return {(m.statistic, m.site): m for m in measure([case], context)[0]}


@pytest.mark.parametrize(
    "change",
    [{}, {"pairing": Pairing("shuffled", 4)}, {"map": MapChoice("identity")}],
    ids=["claim", "shuffled", "identity"],
)
def test_any_order_of_batches_gives_the_same_values_and_columns(zoo_pair, monkeypatch, change):
    samples = Samples(SampleRange("fit", 0, 130), SampleRange("evaluate", 0, 250))
    case = Case(*zoo_pair, samples, **change)
    forwards = found(case)
    monkeypatch.setattr("harness.runners.measure.BlockStream", Reversed)
    backwards = found(case)
    assert forwards.keys() == backwards.keys()
    for key, one in forwards.items():
        other = backwards[key]
        assert other.value == pytest.approx(one.value, rel=1e-12)
        for name, column in one.columns.items():
            scale = np.abs(column).max()
            np.testing.assert_allclose(
                other.columns[name], column, rtol=1e-12, atol=1e-12 * scale, err_msg=name
            )


def test_any_order_of_the_blocks_gives_the_judge_the_same_value(zoo_pair):
    samples = Samples(SampleRange("fit", 0, 128), SampleRange("evaluate", 0, 330))
    order = np.random.default_rng(0).permutation(21)
    for (statistic, _), one in found(Case(*zoo_pair, samples)).items():
        spec = SUITE.statistics[statistic]
        moved = replace(one, columns={name: c[order] for name, c in one.columns.items()})
        values = [
            estimate_value(record(m, spec=spec, pair="b", case="main"), PLAN.parameters(statistic))
            for m in (one, moved)
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-12)
        assert values[0] == pytest.approx(one.value, rel=1e-9)
