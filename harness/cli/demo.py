"""The whole chain on the shipped pair, in a workspace of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness.comparison import compare
from harness.judging.verdict import Verdict
from harness.resolve import prepare
from harness.run import run
from harness.suite import suite
from harness.verdicts import judge_attempt
from prereg.files import make_folder
from prereg.hypothesis import parse_hypothesis
from prereg.workspace import Workspace
from reports.bundle import insist_free, publish
from reports.verify import Verification, verify

SUITE = "rotation"


class Demonstrated(NamedTuple):
    """What the demo ended with."""

    verdict: Verdict
    verification: Verification
    seconds: float


def run_demo(to: Path, *, replace: bool, progress: Callable[[str], None]) -> Demonstrated:
    """Registers, runs, judges, publishes and verifies the rotation suite's own hypothesis file.

    Args:
        to: folder of the bundle.
        replace: whether an older bundle there may be replaced; anything else never is.
        progress: called with a line for every step.

    Raises:
        InputError: `to` holds something that is not a bundle.
        EnvironmentFault: something could not be written.
    """
    begun = time.monotonic()
    insist_free(to, replace=replace)
    make_folder(to.absolute().parent)
    source = suite(SUITE).hypotheses[SUITE].read_bytes()
    prepared = prepare(parse_hypothesis(source, name=f"{SUITE}.yaml", is_json=False))
    identifier = prepared.registration.id
    with tempfile.TemporaryDirectory(prefix="prebench-demo-") as folder:
        workspace = Workspace(Path(folder) / ".prebench")
        workspace.register(prepared.registration, source, suffix="yaml")
        progress(f"registered {identifier[:12]}: {prepared.registration.claim.title}")
        done = run(workspace, identifier, progress=progress)
        progress(f"measured in {done.seconds:.0f} s")
        judged = judge_attempt(workspace, identifier)
        publish(workspace, identifier, done.attempt, to=to, replace=replace)
    return Demonstrated(judged.verdict, verify(to, compare=compare), time.monotonic() - begun)
