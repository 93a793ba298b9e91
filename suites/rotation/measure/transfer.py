"""Per-block sums of the statistics that carry one model's states into the other's frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial

import numpy as np
import torch
from torch import Tensor

from harness.case import Case, MapChoice
from harness.gauge import fit
from harness.gauge.fit import AffineMap, Array, Moments
from harness.measured import Measured
from harness.runners.measure import BlockSums, View
from harness.statistics.explained_variance import from_sums
from harness.statistics.identity_share import identity_share, polar
from harness.statistics.undefined import UndefinedError
from suites.rotation.catalogue import IDENTITY_SHARE, PAIRED

_PER_SITE = ("residual", "total", "trace", "aligned")


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


class TransferMeter(BlockSums):
    """For one case and every site, per block and over its tokens:

    residual: sum |x_A - x~_B|^2; total: sum |x_A - m_A|^2; trace: tr C_b = sum (x_B - m_B).(x_A -
    m_A); aligned: tr(R'^T C_b) = sum ((x_B - m_B) R').(x_A - m_A). m are the evaluation means and
    R' the polar factor of the whole evaluation cross-moment, both held fixed over the blocks.
    """

    def __init__(
        self,
        case: Case,
        *,
        maps: Mapping[str, AffineMap],
        whole: Mapping[str, Moments],
        blocks: int,
    ) -> None:
        super().__init__(
            blocks=blocks, columns=[f"{site}/{name}" for site in maps for name in _PER_SITE]
        )
        self.case, self.maps, self.whole = case, maps, whole
        self._polar = {s: torch.from_numpy(polar(m.centred_cross)) for s, m in whole.items()}

    def observe(self, view: View) -> None:
        """Adds one batch."""
        values = [
            column
            for site in self.maps
            for column in self._site(site, *view.states(self.case, site))
        ]
        self.add(view.slots, torch.stack(values, dim=1))

    def _site(self, site: str, other: Tensor, reference: Tensor) -> tuple[Tensor, ...]:
        """The four columns' addends at a site, [tokens] each."""
        chosen, whole = self.maps[site], self.whole[site]

        def at(array: Array) -> Tensor:
            return torch.from_numpy(array).to(other)

        carried = (other - at(chosen.mean_other)) @ at(chosen.R) + at(chosen.mean_reference)
        centred_other = other - at(whole.mean_other)
        centred_reference = reference - at(whole.mean_reference)
        return (
            (reference - carried).square().sum(1),
            centred_reference.square().sum(1),
            (centred_other * centred_reference).sum(1),
            ((centred_other @ self._polar[site].to(other)) * centred_reference).sum(1),
        )

    def measured(self, asked: Set[str]) -> list[Measured]:
        """Paired EV and identity share at every site, as far as asked for."""
        found = []
        sums = self.by_column()
        for site in self.maps:
            residual, total, trace, aligned = (sums[f"{site}/{name}"] for name in _PER_SITE)
            if PAIRED.id in asked:
                value = partial(from_sums, residual=float(residual.sum()), total=float(total.sum()))
                columns = {"residual": residual, "total": total}
                found.append(_measured(PAIRED.id, site, columns=columns, value=value))
            if IDENTITY_SHARE.id in asked:
                value = partial(identity_share, self.whole[site].centred_cross)
                columns = {"numerator": trace, "denominator": aligned}
                found.append(_measured(IDENTITY_SHARE.id, site, columns=columns, value=value))
        return found


def _measured(
    statistic: str, site: str, *, columns: Mapping[str, Array], value: Callable[[], float]
) -> Measured:
    try:
        return Measured(statistic, site, value=value(), columns=columns)
    except UndefinedError as error:
        return Measured(statistic, site, undefined=str(error))
