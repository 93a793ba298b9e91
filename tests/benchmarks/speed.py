"""Speed as ratios, measured in one run: `make bench`.

Machines are shared and noisy, so nothing here is a test: each figure is the best of several tries
of one core, and what can be is divided by a bare computation timed beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from harness.case import Case, Samples
from harness.corpora.block import SampleRange
from harness.corpora.dyck3 import DRAWS, Dyck3
from harness.measured import Context
from harness.runners.blocks import BlockStream
from harness.runners.trainer import set_threads
from harness.subjects.loading import load
from harness.subjects.reference import locate
from suites.rotation import SUITE
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
    context = Context(Dyck3(7), 16, RotationPlan(sites=SITES), frozenset(SUITE.statistics), {})

    def forwards() -> None:
        with torch.inference_mode():
            for part in (samples.fit, samples.evaluate, samples.evaluate):
                for batch in BlockStream(Dyck3(7), part, size=16):
                    reference.forward(batch.block)
                    other.forward(batch.block)

    measure([case], context)
    bare, measured = best(forwards, tries=3), best(lambda: measure([case], context), tries=3)
    print(f"measuring one case, three sites: {measured / bare:.2f} x its bare forward passes")


if __name__ == "__main__":
    main()
