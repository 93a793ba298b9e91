"""What bar P and the joint alignment cost on one core: `make bench`.

Machines are shared and noisy, so nothing here is a test: each figure is the best of several tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from harness.bars.joint import joint_alignment
from harness.bars.parametric import folded, weight_error
from harness.gauge.fit import Moments
from harness.gauge.group import act, random_element
from harness.gauge.search import search
from harness.runners.trainer import set_threads
from harness.streams import generator
from harness.subjects.loading import load
from harness.subjects.reference import locate

PAIRS = (
    ("indep-100", "indep-101"),
    ("shared-0", "shared-1"),
    ("indep-100", "indep-100/step-20000"),
    ("shared-0", "twin-400"),
)
STARTS = 8


def best(work: Callable[[], object], *, tries: int = 3) -> float:
    """Shortest processor time of several tries, in seconds."""
    times = []
    for _ in range(tries):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def bare(width: int = 64) -> float:
    """One decomposition of a matrix as wide as the stream: what a step cannot do without."""
    matrix = generator(0, "bench").standard_normal((width, width))
    return best(lambda: [np.linalg.svd(matrix) for _ in range(100)]) / 100


def states(width: int = 64, tokens: int = 4096) -> Moments:
    """Moments of random states of both models."""
    other, reference = generator(1, "bench").standard_normal((2, tokens, width))
    sums = other.sum(0), reference.sum(0)
    products = other.T @ reference, other.T @ other, reference.T @ reference
    return Moments(float(tokens), *sums, *products)


def main() -> None:
    """Prints the table."""
    set_threads()
    models = {name: load(locate(f"zoo:dyck3/{name}")) for pair in PAIRS for name in pair}
    one = bare()
    for first, second in PAIRS:
        reference, other = models[first], models[second]
        found = weight_error(reference, other, alignment="full", starts=STARTS)
        taken = best(lambda a=reference, b=other: weight_error(a, b, alignment="full"))
        print(
            f"{first}, {second}: {STARTS} starts {taken:.2f} s, {taken / one:,.0f} decompositions; "
            f"nmse {max(found.lower.values()):.2g} to {max(found.nmse.values()):.2g}"
        )
    subject = models["indep-100"]
    weights, architecture = folded(subject), subject.architecture
    element = random_element(architecture, generator=generator(0, "bench"))
    copy = act(element, weights, architecture)
    taken = best(lambda: search(weights, copy, architecture, alignment="full"))
    print(f"a random element of the group is recovered in {taken:.2f} s")
    other, moments = folded(models["indep-101"]), [states(), states()]
    taken = best(
        lambda: joint_alignment(
            weights, other, architecture, moments=moments, shares=(0.0, 0.25, 0.5, 0.75, 1.0)
        )
    )
    print(f"joint alignment, five shares: {taken:.2f} s")


if __name__ == "__main__":
    main()
