"""A synthetic registration with a bit of everything, its evidence, and a workspace that ran it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.judging import judge, write_evidence
from harness.judging.evidence import Evidence, EvidenceHeader, EvidenceRecord
from harness.judging.verdict import Verdict
from prereg.canonical import canonical, sha256
from prereg.registration import Hypothesis, Registration
from prereg.resolved import Resolved
from prereg.workspace import Workspace
from reports.audit import FileFact, Material
from reports.bundle import publish
from reports.figures import draw
from reports.history import AttemptFact, LedgerFacts, LinkFact

SITES = ("blocks.0.hook_resid_post", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post")
PAIRS = ("b", "c")
BLOCKS = 64
DRAWS = 32
DEVIATION = "torch 2.6.0 where 2.5.1 was frozen: the frozen wheel has no build for this machine"


def hypothesis_data() -> dict[str, Any]:
    """The hypothesis file as plain data."""
    return {
        "schema": "prebench/registration/1",
        "title": "One rotation carries one seed's states into the other's (Dyck-3)",
        "authors": [{"name": "A. Author", "orcid": "0000-0002-1825-0097"}],
        "question": "Do two independent seeds compute the same states up to a rotation?",
        "prior_access": "results-seen",
        "suite": {"name": "rotation", "version": 1},
        "subjects": {
            "reference": "zoo:dyck3/indep-100",
            "others": {"b": "zoo:dyck3/indep-101", "c": "zoo:dyck3/indep-102"},
        },
        "corpus": {"name": "dyck3", "seed": 7, "splits": {"fit": 2048, "evaluate": 1024}},
        "plan": {"sites": list(SITES), "alignment": "orthogonal"},
        "bars": {
            "B": {"abstain": "The heads are not compared: this is about states."},
            "P": {
                "statistic": "bar.parametric.nmse@1",
                "kind": "differs",
                "above": 0.1,
            },
            "C": {"abstain": "No counterfactual split was drawn."},
            "Pr": {"abstain": "No ablation was planned."},
        },
        "claims": [
            {
                "id": "naive-transfer-fails",
                "statistic": "sae.ev.raw@1",
                "kind": "differs",
                "below": 0.0,
            },
            {
                "id": "same-state",
                "statistic": "alignment.ev.paired@1",
                "kind": "same",
                "above": 0.5,
            },
        ],
        "controls": {"drop": [{"control": "noise", "reason": "Covered by covariance-only."}]},
    }


def _statistic(id_: str, title: str, formula: str, **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "title": title,
        "formula": formula,
        "unit": "1",
        "source": "definition of this project",
        **more,
    }


def resolved_data() -> dict[str, Any]:
    """What the hypothesis was resolved to."""
    ev = "1 - sum |x - x^|^2 / sum |x - mean|^2, pooled over tokens and dimensions"
    subject = {"kind": "zoo", "architecture": "dyck"}
    controls = [
        ("self", ["other"], "the reference", False),
        ("gauge-self", ["other"], "the reference under a random rotation", False),
        ("gauge-self-unaligned", ["other", "map"], "a rotated reference, not aligned", False),
        ("untrained", ["other"], "a fresh initialisation", False),
        ("covariance-only", ["map"], "covariance eigenbases matched in order", False),
        ("shuffled", ["pairing"], "a random pairing", True),
        ("haar", ["map"], "a random rotation", True),
    ]
    data: dict[str, Any] = {
        "subjects": {
            "reference": {
                "written": "zoo:dyck3/indep-100",
                "weights": "a" * 64,
                "config": "d" * 64,
                **subject,
            },
            "others": {
                "b": {
                    "written": "zoo:dyck3/indep-101",
                    "weights": "b" * 64,
                    "config": "d" * 64,
                    **subject,
                },
                "c": {
                    "written": "zoo:dyck3/indep-102",
                    "weights": "c" * 64,
                    "config": "d" * 64,
                    **subject,
                },
            },
        },
        "corpus": {"digest": "d" * 64},
        "shape": {"components": ["blocks.0.mlp"], "outputs": ["valid"]},
        "code": {"version": "0.1.0", "sha256": "e" * 64},
        "suite": {
            "name": "rotation",
            "version": 1,
            "controls": [
                {"name": n, "replaces": r, "by": by, "random": random}
                for n, r, by, random in controls
            ],
            "draws": DRAWS,
            "figures": [
                {"id": "raw", "title": "Unrotated transfer", "statistic": "sae.ev.raw@1"},
                {
                    "id": "paired",
                    "title": "Same state",
                    "statistic": "alignment.ev.paired@1",
                    "beside": [
                        {"label": label, "statistic": "alignment.ev.paired@1", "arm": arm}
                        for label, arm in BESIDE.items()
                    ],
                },
                {"id": "stitching", "title": "Stitching", "statistic": "alignment.stitch@1"},
            ],
        },
        "statistics": {
            "bar.parametric.nmse@1": _statistic(
                "bar.parametric.nmse@1",
                "weight error",
                "sum (W_B - W_A)^2 / sum W_A^2 after alignment",
                lower=0.0,
                estimator="exact",
                per_site=False,
                roles={
                    "same": {"self": "must-pass", "gauge-self": "must-pass"},
                    "differs": {"self": "must-fail", "gauge-self": "must-fail"},
                },
            ),
            "sae.ev.raw@1": _statistic(
                "sae.ev.raw@1",
                "explained variance, unrotated",
                ev,
                upper=1.0,
                estimator="one_minus_ratio",
                per_site=True,
                roles={
                    "same": {"self": "must-pass", "untrained": "must-fail"},
                    "differs": {
                        "self": "must-fail",
                        "gauge-self-unaligned": "must-pass",
                        "untrained": "comparator",
                        "shuffled": "not-applicable",
                    },
                },
            ),
            "alignment.ev.paired@1": _statistic(
                "alignment.ev.paired@1",
                "explained variance, rotated",
                ev,
                upper=1.0,
                estimator="one_minus_ratio",
                per_site=True,
                roles={
                    "same": {
                        "self": "must-pass",
                        "gauge-self": "must-pass",
                        "untrained": "must-fail",
                        "covariance-only": "must-fail",
                        "shuffled": "must-fail",
                        "haar": "must-fail",
                    },
                    "differs": {"self": "must-fail"},
                },
            ),
            "alignment.stitch@1": _statistic(
                "alignment.stitch@1",
                "stitched accuracy",
                "share of positions kept",
                lower=0.0,
                upper=1.0,
                estimator="mean",
                per_site=True,
                roles={"same": {"self": "must-pass"}, "differs": {"self": "must-fail"}},
            ),
        },
        "sites": list(SITES),
        "judge": 1,
    }
    for statistic in data["statistics"].values():
        for roles in statistic["roles"].values():
            roles |= {name: "not-applicable" for name, *_ in controls if name not in roles}
    return data


def make_registration(**changes: Any) -> Registration:
    """The registration, with top-level fields of the hypothesis replaced."""
    claim = Hypothesis.model_validate_json(json.dumps(hypothesis_data() | changes))
    resolved = Resolved.model_validate_json(json.dumps(resolved_data()))
    return Registration(claim=claim, resolved=resolved)


RAW = {
    ("b", 0): -0.82,
    ("b", 1): -0.35,
    ("b", 2): -0.61,
    ("c", 0): -0.44,
    ("c", 1): 0.31,
    ("c", 2): None,
}
PAIRED = {
    ("b", 0): 0.948,
    ("b", 1): 0.861,
    ("b", 2): 0.902,
    ("c", 0): 0.5,
    ("c", 1): 0.242,
    ("c", 2): 0.778,
}
RAW_CONTROLS = {"self": 0.97, "gauge-self-unaligned": -0.52, "untrained": -7.3}
PAIRED_CONTROLS = {"self": 0.9991, "gauge-self": 0.9987, "untrained": 0.08}
BESIDE = {
    "not aligned": "raw",
    "shifted only": "shift-only",
    "any linear map": "linear",
    "scaled": "scaled",
}
"""Series beside the paired claim, with their arms; the last is nowhere measured."""
BESIDE_VALUES = {"raw": -41.0, "shift-only": 0.33, "linear": 0.97}
COVARIANCE = {("b", 1): 0.72}
"""Where the covariance alone passes, and the claim cannot tell."""


@dataclass
class Measured:
    """Makes evidence records with a value near the asked one."""

    rng: np.random.Generator

    def ev(self, statistic: str, site: str, pair: str, case: str, value: float) -> EvidenceRecord:
        """Per-block sums of squares whose ratio gives about `value`."""
        total = self.rng.gamma(200.0, 1.0, BLOCKS)
        residual = (1.0 - value) * total * self.rng.normal(1.0, 0.04, BLOCKS)
        return EvidenceRecord(
            statistic=statistic,
            site=site,
            pair=pair,
            case=case,
            estimator="one_minus_ratio",
            blocks=tuple(range(BLOCKS)),
            columns={"residual": tuple(residual.tolist()), "total": tuple(total.tolist())},
            value=float(1.0 - residual.sum() / total.sum()),
        )

    def draws(
        self, statistic: str, site: str, pair: str, case: str, centre: float
    ) -> EvidenceRecord:
        """A random control around `centre`."""
        return EvidenceRecord(
            statistic=statistic,
            site=site,
            pair=pair,
            case=case,
            estimator="one_minus_ratio",
            draws=tuple(self.rng.normal(centre, 0.03, DRAWS).tolist()),
        )


def make_evidence(registration: Registration, *, deviations: tuple[str, ...] = ()) -> Evidence:
    """Evidence in which members pass, fail, cannot tell and are undefined."""
    make = Measured(np.random.default_rng(1))
    raw, paired = "sae.ev.raw@1", "alignment.ev.paired@1"
    records = []
    for (pair, index), value in RAW.items():
        site = SITES[index]
        if value is None:
            records.append(
                EvidenceRecord(
                    statistic=raw,
                    site=site,
                    pair=pair,
                    case="main",
                    estimator="one_minus_ratio",
                    undefined="the dictionary has no active feature at this site",
                )
            )
        else:
            records.append(make.ev(raw, site, pair, "main", value))
        records += [make.ev(raw, site, pair, c, v) for c, v in RAW_CONTROLS.items()]
    for (pair, index), value in PAIRED.items():
        site = SITES[index]
        records.append(make.ev(paired, site, pair, "main", value))
        records += [make.ev(paired, site, pair, c, v) for c, v in PAIRED_CONTROLS.items()]
        covariance = COVARIANCE.get((pair, index), 0.21)
        records.append(make.ev(paired, site, pair, "covariance-only", covariance))
        records.append(make.draws(paired, site, pair, "shuffled", 0.02))
        records.append(make.draws(paired, site, pair, "haar", -0.9))
        if (pair, index) != ("c", 2):
            records += [
                make.ev(paired, site, pair, "main", v).model_copy(update={"arm": arm})
                for arm, v in BESIDE_VALUES.items()
            ]
    for pair, error in zip(PAIRS, (1.31, 1.44), strict=True):
        for case, value in (("main", error), ("self", 0.0), ("gauge-self", 3e-14)):
            records.append(
                EvidenceRecord(
                    statistic="bar.parametric.nmse@1",
                    pair=pair,
                    case=case,
                    estimator="exact",
                    value=value,
                )
            )
    records.append(
        EvidenceRecord(
            statistic="alignment.stitch@1",
            site=SITES[0],
            pair="b",
            case="main",
            estimator="mean",
            blocks=tuple(range(BLOCKS)),
            columns={"total": (12.0,) * BLOCKS, "weight": (16.0,) * BLOCKS},
            value=0.75,
        )
    )
    header = EvidenceHeader(
        evidence="prebench/evidence/1", registration=registration.id, deviations=deviations
    )
    return Evidence(header=header, records=tuple(records))


RUN: dict[str, Any] = {
    "run": "prebench/run/1",
    "attempt": 2,
    "environment": {"python": "3.11.7", "torch": "2.6.0", "numpy": "2.1.0"},
    "devices": ["cpu"],
    "threads": 1,
    "seconds": {"fit": 12.5, "measure": 40.25},
    "reused": [],
}


@pytest.fixture(scope="session")
def registration() -> Registration:
    """The synthetic registration."""
    return make_registration()


@pytest.fixture(scope="session")
def evidence(registration: Registration) -> Evidence:
    """Its evidence, with one deviation."""
    return make_evidence(registration, deviations=(DEVIATION,))


@pytest.fixture(scope="session")
def verdict(registration: Registration, evidence: Evidence) -> Verdict:
    """Its verdict, by the judge."""
    digest = sha256(write_evidence(evidence))
    return judge(registration, evidence, evidence_sha256=digest)


@dataclass(frozen=True)
class Run:
    """A workspace with a registration that was amended, run twice and judged."""

    workspace: Workspace
    id: str
    attempt: int


def make_run(
    root: Path, *, deviations: tuple[str, ...] = (DEVIATION,), code: str | None = None
) -> Run:
    """A workspace: a first version, its amendment, an aborted attempt and a finished one."""
    workspace = Workspace(root)
    first = make_registration(title="An earlier version of the claim")
    workspace.register(first, _source(first), suffix="yaml")
    second = make_registration()
    reason = "the title named another corpus"
    workspace.amend(first.id, second, _source(second), suffix="yaml", reason=reason)
    with workspace.start_attempt(second.id) as attempt:
        attempt.abort("interrupted at the keyboard")
    facts = {"code": code or second.resolved.code.sha256}
    with workspace.start_attempt(second.id, deviations=deviations, facts=facts) as attempt:
        evidence = write_evidence(make_evidence(second, deviations=deviations))
        attempt.finish(evidence, canonical(RUN))
    return Run(workspace, second.id, attempt.number)


def _source(registration: Registration) -> bytes:
    # JSON is YAML: what matters here is that it is read back as the same claim.
    return json.dumps(registration.plain()["claim"], indent=2).encode()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A finished attempt in a fresh workspace."""
    return make_run(tmp_path / "workspace")


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published bundle; tests copy it before they touch it."""
    root = tmp_path_factory.mktemp("published")
    made = make_run(root / "workspace")
    publish(made.workspace, made.id, made.attempt, to=root / "bundle")
    return root / "bundle"


@pytest.fixture
def bundle(published: Path, tmp_path: Path) -> Path:
    """A copy of the published bundle that a test may spoil."""
    return Path(shutil.copytree(published, tmp_path / "bundle"))


@dataclass(frozen=True)
class Factory:
    """The makers above, for tests that need another registration or workspace."""

    registration: Callable[..., Registration] = make_registration
    evidence: Callable[..., Evidence] = make_evidence
    run: Callable[..., Run] = make_run
    deviation: str = DEVIATION


@pytest.fixture(scope="session")
def make() -> Factory:
    """The makers of registrations, evidence and workspaces."""
    return Factory()


@pytest.fixture(scope="session")
def material(registration: Registration, evidence: Evidence, verdict: Verdict) -> Material:
    """What the synthetic page is rendered from."""
    return Material(
        evidence=evidence,
        facts=LedgerFacts(
            registered_at="2026-12-01T09:14:07+00:00",
            registered_line=2,
            registered_hash="f" * 64,
            attempts=(
                AttemptFact(
                    attempt=1,
                    state="aborted",
                    started="2026-12-01T09:20:00+00:00",
                    ended="2026-12-01T09:30:00+00:00",
                    note="interrupted at the keyboard",
                ),
                AttemptFact(
                    attempt=2,
                    state="finished",
                    started="2026-12-01T10:20:00+00:00",
                    ended="2026-12-01T10:30:00+00:00",
                    deviations=(DEVIATION,),
                ),
            ),
            amendments=(
                LinkFact(
                    direction="amends",
                    registration="9" * 64,
                    at="2026-12-01T09:14:07+00:00",
                    reason="the title named another corpus",
                ),
            ),
            events=(),
            stamped=False,
        ),
        attempt=2,
        run=RUN,
        figures=draw(registration, verdict, evidence),
        files={"evidence.jsonl": FileFact("1" * 64, 1234)},
    )
