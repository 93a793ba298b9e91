"""What was promised, and when: hypothesis files, registrations, the ledger and the workspace."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prereg.errors import PrebenchError
    from prereg.hypothesis import parse_hypothesis, read_hypothesis
    from prereg.ledger import Ledger
    from prereg.registration import Hypothesis, Registration
    from prereg.workspace import Workspace

__all__ = [
    "Hypothesis",
    "Ledger",
    "PrebenchError",
    "Registration",
    "Workspace",
    "parse_hypothesis",
    "read_hypothesis",
]

# Names are imported on first use: building the record types takes longer than `--help` may.
_HOMES = {
    "Hypothesis": "prereg.registration",
    "Ledger": "prereg.ledger",
    "PrebenchError": "prereg.errors",
    "Registration": "prereg.registration",
    "Workspace": "prereg.workspace",
    "parse_hypothesis": "prereg.hypothesis",
    "read_hypothesis": "prereg.hypothesis",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
