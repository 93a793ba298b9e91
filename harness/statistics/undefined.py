"""The error of a statistic that does not exist for its input."""

from __future__ import annotations


class UndefinedError(ValueError):
    """The statistic has no value here; the message says why. Never 0, -1 or NaN in its place."""
