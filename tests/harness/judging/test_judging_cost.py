"""What the judge costs, and what it imports."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import harness.judging as package
from harness.judging import judge, read_evidence, write_evidence

SITES = tuple(f"blocks.{i}.hook_resid_post" for i in range(7))


def test_seven_members_with_eight_controls_of_256_blocks_are_judged_in_a_fifth_of_a_second(worlds):
    controls = {f"c{i}": False for i in range(8)}
    roles = {"same": dict.fromkeys(controls, "must-fail")}
    spec = worlds.spec("world.ev@1", estimator="one_minus_ratio", roles=roles)
    frozen = worlds.registration(
        worlds.claim(statistic=spec.id), specs=[spec], sites=SITES, controls=controls, blocks=256
    )
    rng = np.random.default_rng(0)
    records = []
    for site in SITES:
        for case in ("main", *controls):
            residual, total = rng.gamma(2.0, size=256), 30.0 + rng.gamma(2.0, size=256)
            records.append(
                worlds.record(
                    {"residual": residual, "total": total},
                    value=float(1.0 - residual.sum() / total.sum()),
                    estimator="one_minus_ratio",
                    statistic=spec.id,
                    site=site,
                    case=case,
                )
            )
    evidence = read_evidence(write_evidence(worlds.evidence(frozen, records)))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        verdict = judge(frozen, evidence, evidence_sha256=worlds.sha)
        seconds.append(time.perf_counter() - start)
    assert verdict.word == "NOT_DIAGNOSTIC"
    assert min(seconds) < 0.2


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import harness.judging.evidence, harness.judging.verdict", ("numpy", "scipy")),
        (
            "from harness.judging import read_evidence, write_evidence, evidence_digest, judge, "
            "exit_code, sentence, members, smallest_n_rare, estimate_value, interval",
            ("torch", "lightning", "transformers", "scipy.stats", "statsmodels", "matplotlib"),
        ),
    ],
)
def test_imports_stay_light(code, absent):
    script = f"import sys\n{code}\nprint([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_public_names_are_functions_and_not_modules():
    for name in package.__all__:
        assert callable(getattr(package, name)), name
    with pytest.raises(AttributeError, match="no attribute"):
        _ = package.nothing
