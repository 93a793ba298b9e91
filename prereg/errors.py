"""The errors that a user can meet: each says what was found, what was expected and what to do.

Every error carries a stable `code` for machines and the process exit code it leads to. The tree is
small on purpose, and each branch refines the builtin that plain Python code would raise, so that
callers who know nothing of prebench can still catch sensibly.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any


class Exit(IntEnum):
    """Process exit codes: `0` is done, verified or PASS; verdict words have codes of their own."""

    DONE = 0
    FAULT = 1
    INPUT = 2
    INTEGRITY = 3
    ENVIRONMENT = 4
    FAIL = 10
    INCOMPLETE = 11
    INCONCLUSIVE = 12
    NOT_DIAGNOSTIC = 13
    DEVIATED = 14
    UNDECIDABLE = 15
    INTERRUPTED = 130


class PrebenchError(Exception):
    """Base of every error that prebench raises on purpose.

    Args:
        found: what was there, with the offending value and its place.
        expected: what should have been there.
        fix: what to type or change next.
        code: a stable, machine-readable name such as `registration.unknown-key`.
    """

    exit_code: Exit = Exit.FAULT

    def __init__(self, found: str, *, expected: str, fix: str, code: str) -> None:
        self.found = found
        self.expected = expected
        self.fix = fix
        self.code = code
        super().__init__(f"{found}\n  expected: {expected}\n  what to do: {fix}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Keyword arguments survive pickling, so that a worker process can hand its error over."""
        rebuild = partial(type(self), expected=self.expected, fix=self.fix, code=self.code)
        return (rebuild, (self.found,))

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data, as `--json` prints it."""
        return {
            "code": self.code,
            "found": self.found,
            "expected": self.expected,
            "fix": self.fix,
        }


class InputError(PrebenchError, ValueError):
    """Bad input or usage: nothing was written."""

    exit_code = Exit.INPUT


class IntegrityError(PrebenchError, ValueError):
    """Something that was frozen, chained or published no longer is what its digest says."""

    exit_code = Exit.INTEGRITY


class EnvironmentFault(PrebenchError, OSError):  # noqa: N818 - not an error of the user
    """The machine is at fault: disk full, read-only, not permitted, out of memory."""

    exit_code = Exit.ENVIRONMENT


class InterruptedRunError(PrebenchError, RuntimeError):
    """The user, or the system, stopped it; what was finished is kept."""

    exit_code = Exit.INTERRUPTED


class IncompleteError(PrebenchError, RuntimeError):
    """There is nothing to judge or re-judge yet, or not with this version."""

    exit_code = Exit.INCOMPLETE
