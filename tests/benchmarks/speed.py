"""Speed as ratios, measured in one run: `make bench`.

Machines are shared and noisy, so nothing here is a test: each figure is the best of several tries
of one core, and what can be is divided by a bare computation timed beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from harness.bars.catalogue import KL
from harness.case import Case, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import DRAWS, Dyck3
from harness.measured import Context
from harness.outlook import outlook
from harness.resolve import prepare
from harness.run import run
from harness.runners.blocks import BlockStream
from harness.runners.trainer import set_threads
from harness.subjects.loading import load
from harness.subjects.reference import locate
from prereg.hypothesis import parse_hypothesis
from prereg.workspace import Workspace
from suites.rotation import SUITE
from suites.rotation.catalogue.alignment import PAIRED
from suites.rotation.catalogue.rotation import IDENTITY_SHARE
from suites.rotation.measure import measure
from suites.rotation.plan import RotationPlan

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post")
SEQUENCES = 2048


def best(work: Callable[[], object], *, tries: int = 5) -> float:
    """Shortest wall time of several tries, in seconds."""
    times = []
    for _ in range(tries):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def predicted(name: str) -> str:
    """The run time of a shipped file that `check` predicts, and the one that it takes."""
    source = SUITE.hypotheses[name].read_bytes()
    prepared = prepare(parse_hypothesis(source, name=name, is_json=False))
    seconds = outlook(prepared).seconds or 0.0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        workspace.register(prepared.registration, source, suffix="yaml")
        taken = run(workspace, prepared.registration.id).seconds
    return f"{name}: predicted {seconds:.0f} s, took {taken:.0f} s, {seconds / taken:.2f} of it"


def main() -> None:
    """Prints the table."""
    set_threads()
    for draw in DRAWS:
        corpus = Dyck3(7, draw)
        rate = 65_536 / best(lambda c=corpus: c.sample(SampleRange("fit", 0, 65_536)))
        print(f"sampler, {draw}: {rate:,.0f} sequences a second")

    reference, other = (load(locate(f"zoo:dyck3/indep-{seed}")) for seed in (100, 101))
    samples = Samples(SampleRange("fit", 0, SEQUENCES), SampleRange("evaluate", 0, SEQUENCES))
    case = Case(reference, other, samples)
    wanted = frozenset({(PAIRED.id, "rotated"), (IDENTITY_SHARE.id, None), (KL, None)})
    context = Context(Dyck3(7), 16, RotationPlan(sites=SITES), wanted, 0, {})

    def forwards() -> None:
        with torch.inference_mode():
            for part in (samples.fit, samples.evaluate, samples.evaluate):
                for batch in BlockStream(Dyck3(7), part, size=16):
                    reference.forward(batch.block)
                    other.forward(batch.block)

    measure([case], context)
    bare, measured = best(forwards, tries=3), best(lambda: measure([case], context), tries=3)
    print(f"measuring one case, three sites: {measured / bare:.2f} x its bare forward passes")
    for name in ("rotation", "published-independent", "independent"):
        print(predicted(name))


if __name__ == "__main__":
    main()
