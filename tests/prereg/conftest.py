"""A hypothesis file that is right, ways to break it, and registrations made of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prereg.hypothesis import parse_hypothesis
from prereg.registration import Registration
from prereg.resolved import Resolved

VALID = """\
schema: prebench/registration/1
title: One rotation carries one model into the other
authors: [{name: A. Author}]
question: Do both models compute the same?
prior_access: nothing-run
suite: {name: rotation, version: 1}
subjects:
  reference: zoo:dyck3/indep-100
  others: {b: zoo:dyck3/indep-101}
corpus: {name: dyck3, seed: 7, block: 16, splits: {fit: 2048, evaluate: 4096}}
plan: {sites: [blocks.0.hook_resid_post], sae: {kind: topk, k: 16, width: 512}}
bars:
  B: {statistic: bar.behavioural.kl@1, kind: same, below: 0.02}
  P: {statistic: bar.parametric.nmse@1, kind: same, below: 1e-3}
  C: {statistic: bar.causal.pearson@1, kind: same, above: 0.99}
  Pr: {abstain: not measured here}
claims:
  - id: same-state
    statistic: alignment.ev.paired@1
    kind: same
    above: 0.5
  - {id: haar-trace, statistic: rotation.haar.trace@1, kind: differs, equivalent_to: 0.0, margin: 4}
"""

DIGEST = "0" * 63 + "1"


@pytest.fixture
def valid() -> str:
    return VALID


@pytest.fixture
def edited() -> Callable[[str, str], bytes]:
    """The valid file with one passage replaced; the passage has to be there."""

    def edit(old: str, new: str) -> bytes:
        assert VALID.count(old) == 1, old
        return VALID.replace(old, new).encode()

    return edit


@pytest.fixture
def freeze() -> Callable[..., Registration]:
    """A registration, made different from others by its title."""

    def make(title: str = "One rotation carries one model into the other") -> Registration:
        text = VALID.replace("One rotation carries one model into the other", title)
        claim = parse_hypothesis(text.encode(), name="claim.yaml", is_json=False)
        subject = {"kind": "zoo", "architecture": "dyck", "config": DIGEST, "weights": DIGEST}
        resolved = Resolved.model_validate(
            {
                "subjects": {
                    "reference": {"written": "zoo:dyck3/indep-100", **subject},
                    "others": {"b": {"written": "zoo:dyck3/indep-101", **subject}},
                },
                "corpus": {"digest": DIGEST},
                "shape": {"components": (), "outputs": ()},
                "code": {"version": "0.1.0", "sha256": DIGEST},
                "suite": {
                    "name": "rotation",
                    "version": 1,
                    "controls": (),
                    "draws": 32,
                    "figures": (),
                },
                "statistics": {},
                "sites": ("blocks.0.hook_resid_post",),
                "judge": 1,
            }
        )
        return Registration(claim=claim, resolved=resolved)

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; skipped where mounting is not permitted."""
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mount.returncode:
        pytest.skip("mounting is not permitted")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
