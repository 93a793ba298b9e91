"""The judge: from a frozen registration and evidence to a verdict; pure, and without models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.judging.estimators import estimate_value
    from harness.judging.family import members
    from harness.judging.intervals import interval
    from harness.judging.judgement import exit_code, judge
    from harness.judging.multiplicity import smallest_n_rare
    from harness.judging.reading import evidence_digest, read_evidence, write_evidence
    from harness.judging.wording import sentence

_HOMES = {
    "estimate_value": "estimators",
    "evidence_digest": "reading",
    "exit_code": "judgement",
    "interval": "intervals",
    "judge": "judgement",
    "members": "family",
    "read_evidence": "reading",
    "sentence": "wording",
    "smallest_n_rare": "multiplicity",
    "write_evidence": "reading",
}

__all__ = [
    "estimate_value",
    "evidence_digest",
    "exit_code",
    "interval",
    "judge",
    "members",
    "read_evidence",
    "sentence",
    "smallest_n_rare",
    "write_evidence",
]


def __getattr__(name: str) -> Any:
    # numpy and scipy.special cost a quarter of a second: only who judges pays for them
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
