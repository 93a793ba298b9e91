"""One case with its maps: the other model's states as they are seen in the reference's frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness.case import Case, MapChoice
from harness.gauge import fit
from harness.gauge.fit import AffineMap, Array, Moments
from harness.runners.measure import View


def fit_map(choice: MapChoice, moments: Moments) -> AffineMap:
    """The map that a case asks for, from the moments of its fit samples."""
    match choice.rule:
        case "procrustes":
            return fit.procrustes(moments)
        case "identity":
            return fit.identity(moments)
        case "covariance-only":
            width = len(moments.sum_other)
            signs = np.random.default_rng(choice.seed).choice([-1.0, 1.0], width)
            return fit.covariance_only(moments, signs=signs)
        case "haar":
            return fit.random_rotation(moments, generator=np.random.default_rng(choice.seed))


_FITS = {
    "raw": fit.identity,
    "shift-only": fit.shift_only,
    "pure-rotation": fit.pure_rotation,
    "scaled": fit.scaled,
    "linear": fit.linear,
}
"""Arms that do not read the case's own map."""


class Halves(NamedTuple):
    """Moments of the fit samples."""

    whole: Moments
    parts: tuple[Moments, ...]
    """Even and odd blocks; the whole alone where nothing reads them."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A case, what was fitted for it, and its states under every arm, once a batch.

    Attributes:
        case: whose states.
        fitted: moments of the fit samples, by site.
        whole: moments of the evaluation samples, by site: means and totals, never fits.
    """

    case: Case
    fitted: Mapping[str, Halves]
    whole: Mapping[str, Moments]
    _maps: dict[tuple[str, str], AffineMap] = field(default_factory=dict)

    def map(self, site: str, arm: str) -> AffineMap:
        """The map of an arm at a site; `rotated` is the one that the case asks for."""
        key = (site, arm)
        if key not in self._maps:
            moments = self.fitted[site].whole
            self._maps[key] = (
                fit_map(self.case.map, moments) if arm == "rotated" else _FITS[arm](moments)
            )
        return self._maps[key]

    def reference(self, view: View, site: str) -> Tensor:
        """x_A, [tokens, d] fp64."""
        return view.reference(self.case, site)

    def other(self, view: View, site: str) -> Tensor:
        """x_B as it is paired, [tokens, d] fp64."""
        return view.once((id(self), site), lambda: view.other(self.case, site))

    def carried(self, view: View, site: str, arm: str) -> Tensor:
        """x~_B, [tokens, d] fp64."""

        def carry() -> Tensor:
            chosen, states = self.map(site, arm), self.other(view, site)
            centred = states - at(chosen.mean_other, states)
            return centred @ at(chosen.R, states) + at(chosen.mean_reference, states)

        return view.once((id(self), site, arm), carry)

    def residual(self, view: View, site: str, arm: str) -> Tensor:
        """|x_A - x~_B|^2, [tokens]."""
        return view.once(
            (id(self), site, arm, "residual"),
            lambda: squared(self.reference(view, site) - self.carried(view, site, arm)),
        )

    def total(self, view: View, site: str) -> Tensor:
        """|x_A - m_A|^2 with the evaluation mean, [tokens]."""
        states = self.reference(view, site)
        return view.once(
            (id(self), site, "total"),
            lambda: squared(states - at(self.whole[site].mean_reference, states)),
        )

    def carried_total(self, view: View, site: str, arm: str) -> Tensor:
        """|x~_B - m~|^2 with the evaluation mean of x~_B, [tokens]."""
        states = self.carried(view, site, arm)
        mean = self.map(site, arm).apply(self.whole[site].mean_other)
        return squared(states - at(mean, states))


def at(array: Array, like: Tensor) -> Tensor:
    """An array in the dtype and on the device of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(like)


def squared(x: Tensor) -> Tensor:
    """|x|^2 of each row."""
    return x.square().sum(1)
