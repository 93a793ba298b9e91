"""Synthetic registrations and evidence: small worlds in which the right verdict is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.judging.evidence import Evidence, EvidenceHeader, EvidenceRecord, Undefined
from harness.judging.verdict import JUDGE_VERSION
from prereg.registration import Registration
from prereg.resolved import ControlRole, ControlSpec, StatisticSpec

STATISTIC = "world.mean@1"
SHA = "0" * 64

CONTROLS: dict[str, bool] = {
    "self": False,
    "untrained": False,
    "untrained-both": False,
    "shuffled": True,
    "lineage": False,
    "haar": True,
}
"""Controls of the synthetic suite, and whether each is random."""

SAME: dict[str, ControlRole] = {
    "self": "must-pass",
    "untrained": "must-fail",
    "untrained-both": "must-fail",
    "shuffled": "must-fail",
    "lineage": "comparator",
    "haar": "not-applicable",
}
DIFFERS: dict[str, ControlRole] = {
    "self": "must-fail",
    "untrained": "comparator",
    "untrained-both": "comparator",
    "shuffled": "must-pass",
    "lineage": "comparator",
    "haar": "not-applicable",
}


def spec(identifier: str = STATISTIC, **changes: Any) -> StatisticSpec:
    """A catalogue entry."""
    fields: dict[str, Any] = {
        "id": identifier,
        "title": "a mean",
        "formula": "sum total / sum weight",
        "unit": "1",
        "source": "synthetic",
        "estimator": "mean",
        "per_site": True,
        "roles": {"same": SAME, "differs": DIFFERS},
    }
    return StatisticSpec(**(fields | changes))


def claim(name: str = "holds", **changes: Any) -> dict[str, Any]:
    """A claim as plain data: the mean is above 0.5."""
    fields: dict[str, Any] = {"id": name, "statistic": STATISTIC, "kind": "same"}
    region = {"below", "above", "between", "equivalent_to"} & set(changes)
    return fields | ({} if region else {"above": 0.5}) | changes


def registration(
    *claims: Mapping[str, Any],
    bars: Mapping[str, Any] | None = None,
    specs: Sequence[StatisticSpec] = (),
    controls: Mapping[str, bool] = CONTROLS,
    sites: Sequence[str] = ("blocks.0.hook_resid_post",),
    others: Sequence[str] = ("b",),
    level: float = 0.95,
    judge: int = JUDGE_VERSION,
    drop: Mapping[str, str] | None = None,
    blocks: int = 40,
) -> Registration:
    """A frozen registration of `claims`; bars abstain unless given; no `others`: within."""
    abstained = {name: {"abstain": "not the question"} for name in ("B", "P", "C", "Pr")}
    subject = {
        "written": "zoo:a",
        "kind": "zoo",
        "architecture": "dyck",
        "config": SHA,
        "weights": SHA,
    }
    changes = [{"control": name, "reason": why} for name, why in (drop or {}).items()]
    plain = {
        "claim": {
            "schema": "prebench/registration/1",
            "title": "A synthetic world",
            "authors": [{"name": "A. Nonymous"}],
            "question": "Is the judge right?",
            "prior_access": "nothing-run",
            "suite": {"name": "world", "version": 1},
            "subjects": {
                "mode": "pair" if others else "within",
                "reference": "zoo:a",
                "others": {label: f"zoo:{label}" for label in others},
            },
            "corpus": {"name": "noise", "seed": 1, "splits": {"evaluate": 16 * blocks}},
            "plan": {},
            "bars": abstained | dict(bars or {}),
            "claims": list(claims),
            "decision": {"level": level},
            "controls": {"drop": changes} if changes else "default",
        },
        "resolved": {
            "subjects": {"reference": subject, "others": dict.fromkeys(others, subject)},
            "corpus": {"digest": SHA},
            "shape": {"components": [], "outputs": []},
            "code": {"version": "0", "sha256": SHA},
            "suite": {
                "name": "world",
                "version": 1,
                "controls": [
                    ControlSpec(name=name, replaces=("other",), by="x", random=random).model_dump()
                    for name, random in controls.items()
                    if name not in (drop or {})
                ],
                "draws": 32,
                "figures": [],
            },
            "statistics": {s.id: s.model_dump() for s in (*specs, spec())},
            "sites": list(sites),
            "judge": judge,
        },
    }
    return Registration.model_validate_json(json.dumps(plain))


def key(
    case: str = "main",
    *,
    statistic: str = STATISTIC,
    site: str | None = "blocks.0.hook_resid_post",
    pair: str | None = "b",
    arm: str | None = None,
) -> dict[str, Any]:
    """Key fields of a record."""
    return {"statistic": statistic, "site": site, "pair": pair, "arm": arm, "case": case}


def record(
    columns: Mapping[str, Any], *, value: float, estimator: str = "mean", **fields: Any
) -> EvidenceRecord:
    """A record with columns."""
    stacked = {name: tuple(map(float, column)) for name, column in columns.items()}
    blocks = tuple(range(len(next(iter(stacked.values())))))
    return EvidenceRecord(
        estimator=estimator, blocks=blocks, columns=stacked, value=value, **(key() | fields)
    )


def mean_record(
    value: float, *, spread: float = 0.1, blocks: int = 40, carrying: int = 40, **fields: Any
) -> EvidenceRecord:
    """A `mean` whose value is exactly `value` and whose blocks alternate around it.

    Only the first `carrying` blocks have any weight.
    """
    weight = np.where(np.arange(blocks) < carrying, 8.0, 0.0)
    total = weight * (value + spread * np.where(np.arange(blocks) % 2, 1.0, -1.0))
    stated = float(total.sum() / weight.sum())
    return record({"total": total, "weight": weight}, value=stated, **fields)


def draws_record(
    draws: Sequence[float | None], *, value: float | None = None, **fields: Any
) -> EvidenceRecord:
    """Draws of a random control, or of a null with its value; None is an undefined draw."""
    filled = tuple(Undefined(undefined="no draw") if d is None else float(d) for d in draws)
    return EvidenceRecord(
        **(key() | {"estimator": "mean", "draws": filled, "value": value} | fields)
    )


def evidence(
    frozen: Registration,
    records: Sequence[EvidenceRecord],
    *,
    deviations: tuple[str, ...] = (),
    identifier: str | None = None,
) -> Evidence:
    """Evidence for a registration."""
    header = EvidenceHeader(
        evidence="prebench/evidence/1",
        registration=identifier or frozen.id,
        deviations=deviations,
    )
    return Evidence(header=header, records=tuple(records))


SOUND: dict[str, float | list[float | None]] = {
    "self": 0.9,
    "untrained": 0.1,
    "untrained-both": 0.1,
    "shuffled": [0.0] * 32,
    "lineage": 0.7,
}
"""Controls as they should stand around a claim that a mean is above 0.5."""


def world(
    main: float,
    *,
    spread: float = 0.1,
    controls: Mapping[str, float | list[float | None] | None] = SOUND,
    **fields: Any,
) -> list[EvidenceRecord]:
    """Records of one member: a value and its controls; None leaves a control out."""
    records = [mean_record(main, spread=spread, **fields)]
    for name, value in controls.items():
        if isinstance(value, list):
            records.append(draws_record(value, case=name, **fields))
        elif value is not None:
            records.append(mean_record(value, spread=spread, case=name, **fields))
    return records


@pytest.fixture(scope="session")
def worlds() -> SimpleNamespace:
    """The factories of this folder."""
    return SimpleNamespace(
        claim=claim,
        controls=CONTROLS,
        draws_record=draws_record,
        evidence=evidence,
        key=key,
        mean_record=mean_record,
        record=record,
        registration=registration,
        sha=SHA,
        sound=SOUND,
        spec=spec,
        statistic=STATISTIC,
        world=world,
    )
