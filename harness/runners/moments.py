"""Second moments of paired states, streamed: d x d sums a site, whatever the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from harness.case import Case
from harness.gauge.fit import Moments
from harness.runners.measure import Meter, View


class MomentsMeter(Meter):
    """The moments of one case's states at every site, fp64."""

    tokens: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, case: Case, *, sites: Sequence[str], width: int) -> None:
        super().__init__()
        self.case, self.sites = case, tuple(sites)
        shapes = {
            "tokens": (1,),
            "sums": (len(self.sites), 2, width),  # other, reference
            "products": (len(self.sites), 3, width, width),  # cross, other, reference
        }
        for name, shape in shapes.items():
            self.add_state(
                name, default=torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum"
            )

    def observe(self, view: View) -> None:
        """Adds one batch."""
        self.tokens += len(view.slots)
        for row, site in enumerate(self.sites):
            other, reference = view.states(self.case, site)
            self.sums[row, 0] += other.sum(0)
            self.sums[row, 1] += reference.sum(0)
            self.products[row, 0] += other.T @ reference
            self.products[row, 1] += other.T @ other
            self.products[row, 2] += reference.T @ reference

    def moments(self, site: str) -> Moments:
        """The moments at a site."""
        row = self.sites.index(site)
        sums, products = self.sums[row].cpu().numpy(), self.products[row].cpu().numpy()
        return Moments(
            float(self.tokens), *(np.array(a) for a in sums), *(np.array(a) for a in products)
        )
