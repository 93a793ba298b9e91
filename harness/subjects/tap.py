"""Reading and editing what flows through a model, one forward pass at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

Edit = Callable[[Tensor], Tensor]
"""Takes the tensor at a site or component output and returns the one that flows on."""


class Tap:
    """Captures and edits by name; afterwards `settle` checks that each fired exactly once.

    Captures see the tensor after the edit of the same name.
    """

    def __init__(self, *, capture: Iterable[str], edits: Mapping[str, Edit]) -> None:
        self.captured: dict[str, Tensor] = {}
        self._capture = frozenset(capture)
        self._edits = dict(edits)
        self._fired: Counter[str] = Counter()

    def wants(self, name: str) -> bool:
        """Whether anything is to happen at `name`."""
        return name in self._capture or name in self._edits

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor that flows on at `name`."""
        if not self.wants(name):
            return tensor
        self._fired[name] += 1
        if name in self._edits:
            # on a copy: an edit that works in place would reach what was captured before it, and
            # a share that is subtracted from the tensor it is part of
            tensor = self._edits[name](tensor.clone())
        if name in self._capture:
            self.captured[name] = tensor
        return tensor

    def settle(self) -> None:
        """Checks the count of every capture and edit.

        Raises:
            RuntimeError: a name fired never or twice, so the result would silently be another one.
        """
        wrong = {n: self._fired[n] for n in self._capture | set(self._edits) if self._fired[n] != 1}
        if wrong:
            raise RuntimeError(f"each site must fire exactly once in a forward pass, got {wrong}")
