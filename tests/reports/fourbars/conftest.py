"""A registration that judges all four bars against decoys, with a curve, a null and brackets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.judging import estimate_value, judge, write_evidence
from harness.judging.evidence import Evidence, EvidenceHeader, EvidenceRecord, Undefined
from harness.judging.verdict import Verdict
from prereg.canonical import canonical, sha256
from prereg.chain import Entry, entry, verify_chain
from prereg.registration import Hypothesis, Registration
from prereg.resolved import Resolved
from prereg.workspace import Workspace
from reports.audit import Material, render
from reports.bundle import publish
from reports.figures import draw

PAIRS = ("b", "c")
BLOCKS = 64
DRAWS = 32
NULL = 199
ARMS = ("0", "0.5", "1")
SHOWN = ("0.25",)

KL, NMSE = "bar.behavioural.kl@1", "bar.parametric.nmse@1"
PATCH, LOSS = "bar.causal.pearson@1", "bar.predictive.nrmse@1"
RANK, WEIGHT, STATES = "labels.rank@1", "front.weight@1", "front.states@1"

CONTROLS = {
    "self": ("other", "the reference itself", False),
    "gauge-self": ("other", "the reference under a random element of its symmetry group", False),
    "untrained": ("other", "a fresh initialisation of the reference's architecture", False),
    "depth-averaged": ("other", "the reference, its depth rows averaged in pairs", False),
    "blocks-swapped": ("other", "the reference with its two blocks in the other order", False),
    "twin": ("other", "the model that the registration names for it", False),
    "lineage": ("other", "another checkpoint of the reference's own run", False),
    "shuffled-components": ("components", "the components under permuted names", True),
}
ROLES: Mapping[str, Mapping[str, str]] = {
    "self": dict.fromkeys((KL, NMSE, PATCH, LOSS), "must-pass"),
    "gauge-self": dict.fromkeys((NMSE, PATCH, LOSS), "must-pass"),
    "untrained": dict.fromkeys((KL, NMSE, PATCH, LOSS), "must-fail"),
    "depth-averaged": {KL: "comparator", NMSE: "must-fail", PATCH: "comparator"},
    "blocks-swapped": {KL: "comparator", NMSE: "comparator", PATCH: "must-fail"},
    "twin": {KL: "comparator", NMSE: "must-fail", LOSS: "must-fail"},
    "lineage": dict.fromkeys((KL, NMSE, PATCH, LOSS), "comparator"),
    "shuffled-components": {PATCH: "must-fail"},
}
"""Role of each control for each bar; where there is none, it is not applicable."""

REAL = {KL: 4e-5, NMSE: (0.06, 0.09), PATCH: 0.9995, LOSS: 0.21}
VALUES: Mapping[tuple[str, str], Any] = {
    ("self", KL): 0.0,
    ("untrained", KL): 2.3,
    ("depth-averaged", KL): 6e-5,
    ("blocks-swapped", KL): 7e-5,
    ("twin", KL): 5e-5,
    ("lineage", KL): 1e-2,
    ("self", NMSE): (0.0, 0.0),
    ("gauge-self", NMSE): (0.0, 1e-12),
    ("untrained", NMSE): (0.9, 1.4),
    ("depth-averaged", NMSE): (0.4, 0.5),
    ("blocks-swapped", NMSE): (0.05, 0.6),
    ("twin", NMSE): (0.02, 0.08),
    ("lineage", NMSE): (0.15, 0.2),
    ("self", PATCH): 0.99999,
    ("gauge-self", PATCH): 0.99998,
    ("untrained", PATCH): 0.33,
    ("depth-averaged", PATCH): "the counterfactuals do not reach the averaged rows",
    ("blocks-swapped", PATCH): 0.41,
    ("lineage", PATCH): 0.988,
    ("self", LOSS): 0.02,
    ("gauge-self", LOSS): 0.02,
    ("untrained", LOSS): 1.4,
    ("twin", LOSS): 0.9,
}
"""What each case gives; the predictive bar was not measured for the lineage."""


def statistic(id_: str, title: str, estimator: str, **more: Any) -> dict[str, Any]:
    """A catalogue entry."""
    return {
        "id": id_,
        "title": title,
        "formula": f"formula of {id_}",
        "unit": "1",
        "source": "definition of this project",
        "estimator": estimator,
        "per_site": False,
        "roles": {
            kind: {name: ROLES[name].get(id_, "not-applicable") for name in CONTROLS}
            for kind in ("same", "differs")
        },
        **more,
    }


def statistics() -> dict[str, dict[str, Any]]:
    """The catalogue."""
    entries = [
        statistic(KL, "KL of the outputs", "ratio", unit="nats", lower=0.0),
        statistic(NMSE, "weight error", "bracket", lower=0.0),
        statistic(PATCH, "patch effects", "pearson", lower=-1.0, upper=1.0),
        statistic(LOSS, "error of ablation losses", "exact", lower=0.0),
        statistic(RANK, "patch effects under labellings", "draws"),
        statistic(
            WEIGHT, "weight error on the front", "bracket", lower=0.0, arms=ARMS, shown_arms=SHOWN
        ),
        statistic(
            STATES, "state error on the front", "ratio", unit="nats", arms=ARMS, shown_arms=SHOWN
        ),
    ]
    return {entry["id"]: entry for entry in entries}


FIGURES = [
    {
        "id": "front",
        "title": "Weight error against state error",
        "kind": "curve",
        "statistic": WEIGHT,
        "across": STATES,
    },
    {
        "id": "labellings",
        "title": "Patch effects under every labelling of the heads",
        "kind": "null",
        "statistic": RANK,
        "noun": "labelling",
    },
]


def judged(**more: Any) -> dict[str, Any]:
    """The four bars, all judged, some replaced."""
    bars = {
        "B": {"statistic": KL, "kind": "same", "below": 1e-4},
        "P": {"statistic": NMSE, "kind": "same", "below": 0.1},
        "C": {"statistic": PATCH, "kind": "same", "above": 0.99},
        "Pr": {"statistic": LOSS, "kind": "same", "below": 0.3},
    }
    return bars | more


def hypothesis_of(
    bars: Mapping[str, Any], claims: list[dict[str, Any]], *, within: bool
) -> dict[str, Any]:
    """The hypothesis file as plain data."""
    subjects: dict[str, Any] = {"reference": "zoo:dyck3/indep-100", "mode": "pair"}
    if within:
        subjects["mode"] = "within"
    else:
        subjects["others"] = {"b": "zoo:dyck3/indep-101", "c": "zoo:dyck3/indep-102"}
        subjects["controls"] = {"twin": "zoo:dyck3/twin-101"}
    return {
        "schema": "prebench/registration/1",
        "title": "The folded reference, carried over, stands for the other seed (Dyck-3)",
        "authors": [{"name": "A. Author"}],
        "question": "Do the four bars hold between independent seeds?",
        "prior_access": "nothing-run",
        "suite": {"name": "bars", "version": 1},
        "subjects": subjects,
        "corpus": {"name": "dyck3", "seed": 7, "splits": {"evaluate": 1024}},
        "plan": {"alignment": "symmetry"},
        "bars": dict(bars),
        "claims": claims,
    }


def resolved_of(
    hypothesis: Mapping[str, Any],
    figures: list[dict[str, Any]],
    *,
    roles: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What it was resolved to; `roles` gives statistics roles of controls for both directions."""
    known = statistics()
    for id_, given in roles.items():
        for kind in known[id_]["roles"].values():
            kind |= given
    names = {"reference": hypothesis["subjects"]["reference"]}
    named = hypothesis["subjects"].get("controls", {})
    names |= hypothesis["subjects"].get("others", {}) | named
    models = {
        name: {
            "kind": "zoo",
            "architecture": "dyck",
            "written": written,
            "weights": digit * 64,
            "config": "d" * 64,
        }
        for digit, (name, written) in zip("0123456789", names.items(), strict=False)
    }
    return {
        "subjects": {
            "reference": models["reference"],
            "others": {label: models[label] for label in hypothesis["subjects"].get("others", {})},
            "controls": {label: models[label] for label in named},
        },
        "corpus": {"digest": "d" * 64},
        "shape": {"components": ["blocks.0.mlp"], "outputs": ["valid"]},
        "code": {"version": "0.1.0", "sha256": "e" * 64},
        "suite": {
            "name": "bars",
            "version": 1,
            "controls": [
                {"name": name, "replaces": [field], "by": by, "random": random}
                | ({"named": True} if name in named else {})
                for name, (field, by, random) in CONTROLS.items()
            ],
            "draws": DRAWS,
            "figures": figures,
        },
        "statistics": known,
        "sites": ["blocks.0.hook_resid_post"],
        "judge": 1,
    }


@dataclass
class Measured:
    """Makes evidence records of every form."""

    rng: np.random.Generator

    def record(
        self, id_: str, case: str, pair: str | None, value: Any, *, arm: str | None = None
    ) -> EvidenceRecord:
        """A record of a statistic with about the value; words are why there is none."""
        estimator = statistics()[id_]["estimator"]
        key = {"statistic": id_, "pair": pair, "arm": arm, "case": case, "estimator": estimator}
        if isinstance(value, str):
            return EvidenceRecord(**key, undefined=value)
        if estimator == "bracket":
            return EvidenceRecord(**key, bounds=value)
        if estimator == "exact":
            return EvidenceRecord(**key, value=value)
        columns = self._ratio(value) if estimator == "ratio" else self._pearson(value)
        made = {name: tuple(column.tolist()) for name, column in columns.items()}
        blocks = tuple(range(BLOCKS))
        draft = EvidenceRecord(**key, blocks=blocks, columns=made, value=0.0)
        return draft.model_copy(update={"value": estimate_value(draft, {})})

    def _ratio(self, value: float) -> dict[str, Any]:
        weight = self.rng.gamma(200.0, 1.0, BLOCKS)
        total = value * weight * self.rng.normal(1.0, 0.04, BLOCKS)
        return {"numerator": total, "denominator": weight}

    def _pearson(self, value: float) -> dict[str, Any]:
        units = 24
        predicted = self.rng.normal(0.0, 1.0, units)
        other = self.rng.normal(0.0, 1.0, units)
        other -= predicted * (other @ predicted) / (predicted @ predicted)
        other *= np.linalg.norm(predicted) / np.linalg.norm(other)
        measured = value * predicted + np.sqrt(1 - value**2) * other
        columns: dict[str, Any] = {}
        for index in range(units):
            name = f"all/h{index // 4}/c{index}"
            weight = self.rng.gamma(200.0, 1.0, BLOCKS)
            columns[f"weight/{name}"] = weight
            columns[f"predicted/{name}"] = predicted[index] * weight
            columns[f"measured/{name}"] = measured[index] * weight
        return columns


FRONT = {
    "0": ((0.5, 0.8), 0.10),
    "0.5": ((0.2, 0.3), 0.25),
    "1": ((0.05, 0.1), 0.9),
    "0.25": ((0.3, 0.42), 0.16),
}
"""Weight error and state error of each arm."""


def evidence_of(registration: Registration) -> Evidence:
    """Evidence with a bit of everything that a bar can do with a decoy."""
    make = Measured(np.random.default_rng(3))
    pairs: tuple[str | None, ...] = tuple(registration.claim.subjects.others) or (None,)
    records = []
    for index, pair in enumerate(pairs):
        for id_, value in REAL.items():
            records.append(make.record(id_, "main", pair, value))
        for (case, id_), value in VALUES.items():
            # In the second pair the loss bar lets the twin through.
            moved = 0.1 if (case, id_, index) == ("twin", LOSS, 1) else value
            records.append(make.record(id_, case, pair, moved))
        records.append(
            EvidenceRecord(
                statistic=PATCH,
                pair=pair,
                case="shuffled-components",
                estimator="pearson",
                draws=tuple(make.rng.normal(0.45, 0.1, DRAWS).tolist()),
            )
        )
        for arm, (bounds, error) in FRONT.items():
            shift = 1.0 + 0.2 * index
            low, high = bounds
            records.append(make.record(WEIGHT, "main", pair, (low * shift, high * shift), arm=arm))
            if (arm, index) != ("0.5", 1):
                records.append(make.record(STATES, "main", pair, error * shift, arm=arm))
        null: list[float | Undefined] = [float(x) for x in make.rng.normal(0.45, 0.2, NULL)]
        if index == 1:
            null[0] = Undefined(undefined="a constant layer")
        records.append(
            EvidenceRecord(
                statistic=RANK,
                pair=pair,
                case="main",
                estimator="draws",
                value=0.78,
                draws=tuple(null),
            )
        )
    header = EvidenceHeader(evidence="prebench/evidence/1", registration=registration.id)
    return Evidence(header=header, records=tuple(records))


@dataclass(frozen=True)
class Bars:
    """A registration with its evidence, verdict and page."""

    registration: Registration
    evidence: Evidence
    verdict: Verdict
    material: Material
    hypothesis: bytes = field(repr=False)

    @property
    def page(self) -> str:
        """The page."""
        return render(self.registration, self.verdict, material=self.material).decode()

    @property
    def drawings(self) -> dict[str, bytes]:
        """The figures."""
        return draw(self.registration, self.verdict, self.evidence)

    def with_evidence(self, change: Callable[[EvidenceRecord], EvidenceRecord | None]) -> Bars:
        """The same with every record changed, and judged again; none leaves a record out."""
        changed = (change(record) for record in self.evidence.records)
        records = tuple(record for record in changed if record is not None)
        evidence = self.evidence.model_copy(update={"records": records})
        return _bars(self.registration, evidence, self.material, self.hypothesis)

    def with_records(self, more: Iterable[EvidenceRecord]) -> Bars:
        """The same with further records, and judged again."""
        evidence = self.evidence.model_copy(update={"records": (*self.evidence.records, *more)})
        return _bars(self.registration, evidence, self.material, self.hypothesis)

    def with_run(self, **keys: Any) -> Bars:
        """The same with further keys of the run."""
        run = dict(self.material.run) | keys
        return dataclasses.replace(self, material=dataclasses.replace(self.material, run=run))


def _bars(
    registration: Registration, evidence: Evidence, material: Material, hypothesis: bytes
) -> Bars:
    digest = sha256(write_evidence(evidence))
    verdict = judge(registration, evidence, evidence_sha256=digest)
    shown = dataclasses.replace(
        material, evidence=evidence, figures=draw(registration, verdict, evidence)
    )
    return Bars(registration, evidence, verdict, shown, hypothesis)


Maker = Callable[..., Bars]


@pytest.fixture(scope="session")
def make_bars(material: Material) -> Maker:
    """Makes a registration of bars, claims and figures with its evidence and page."""

    def made(
        *,
        bars: Mapping[str, Any] | None = None,
        claims: list[dict[str, Any]] | None = None,
        figures: list[dict[str, Any]] | None = None,
        roles: Mapping[str, Mapping[str, str]] | None = None,
        within: bool = False,
    ) -> Bars:
        hypothesis = hypothesis_of(bars or judged(), claims or [], within=within)
        resolved = resolved_of(
            hypothesis, FIGURES if figures is None else figures, roles=roles or {}
        )
        registration = Registration(
            claim=Hypothesis.model_validate_json(json.dumps(hypothesis)),
            resolved=Resolved.model_validate_json(json.dumps(resolved)),
        )
        source = json.dumps(registration.plain()["claim"]).encode()
        return _bars(registration, evidence_of(registration), material, source)

    return made


@pytest.fixture(scope="session")
def four_bars(make_bars: Maker) -> Bars:
    """All four bars, two pairs."""
    return make_bars()


@pytest.fixture
def publish_bars(tmp_path: Path) -> Callable[..., Path]:
    """Publishes a registration of bars with a run record, and gives the folder."""

    def published(bars: Bars, run: Any) -> Path:
        workspace = Workspace(tmp_path / "workspace")
        id_ = bars.registration.id
        workspace.register(bars.registration, bars.hypothesis, suffix="yaml")
        facts = {"code": bars.registration.resolved.code.sha256}
        with workspace.start_attempt(id_, facts=facts) as attempt:
            attempt.finish(write_evidence(bars.evidence), canonical(run))
        publish(workspace, id_, 1, to=tmp_path / "bundle")
        return tmp_path / "bundle"

    return published


@pytest.fixture
def seal() -> Callable[[Path], None]:
    """What a forger does: make manifest and ledger agree with the files again, run included."""

    def sealed(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        for path in manifest["files"]:
            data = (folder / path).read_bytes()
            manifest["files"][path] = {"sha256": sha256(data), "size": len(data)}
        (folder / "manifest.json").write_bytes(canonical(manifest))
        facts = {
            "published": {"manifest": sha256(canonical(manifest))},
            "attempt-finished": {"run": manifest["files"]["run.json"]["sha256"]},
        }
        lines: list[Entry] = []
        for line in verify_chain((folder / "ledger.jsonl").read_bytes()):
            body = line.body | facts.get(line.event, {})
            at = datetime.fromisoformat(line.at)
            lines.append(entry(line.event, body, after=lines[-1] if lines else None, at=at))
        (folder / "ledger.jsonl").write_bytes(b"".join(line.line for line in lines))

    return sealed


MODEL: dict[str, Any] = {
    "parameters": 104448,
    "folded": True,
    "heads": [
        {
            "component": f"blocks.{block}.attn.head.{head}",
            "qk_norm": 3.25 + head,
            "qk_rank": 7.5,
            "ov_norm": 2.125,
            "ov_rank": 9.0,
        }
        for block in range(2)
        for head in range(4)
    ],
    "mlps": [
        {"component": f"blocks.{block}.mlp", "neurons": 256, "alive": 231 - block, "norm": 12.0625}
        for block in range(2)
    ],
    "features": {
        "sites": ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_post"],
        "names": ["token", "position", "copy", "depth", "valid"],
        "r2": [[1.0, 0.98765, 0.1234, 0.25, None], [0.4, 0.3, 0.9, 0.95, 0.85]],
    },
    "samples": 2048,
    "tokens": 65536,
    "folding": 3.0e-13,
}


@pytest.fixture
def models() -> dict[str, Any]:
    """The models as `run.json` holds them; a fresh copy."""
    one = json.loads(json.dumps(MODEL))
    other = json.loads(json.dumps(MODEL)) | {"folded": False, "parameters": 1234567}
    return {"reference": one, "others": {"b": other}}
