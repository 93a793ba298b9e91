"""Second moments of paired states, streamed: d x d sums a site, whatever the number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from harness.case import Case
from harness.gauge.fit import Moments
from harness.runners.measure import Meter, View


class MomentsMeter(Meter):
    """The moments of one case's states at every site, fp64.

    Block number b, counted from the start of the range, belongs to part b modulo `parts`: with two
    parts, even and odd blocks are summed apart.
    """

    tokens: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, case: Case, *, sites: Sequence[str], width: int, parts: int = 1) -> None:
        super().__init__()
        self.case, self.sites, self.parts = case, tuple(sites), parts
        shapes = {
            "tokens": (parts,),
            "sums": (len(self.sites), parts, 2, width),  # other, reference
            "products": (len(self.sites), parts, 3, width, width),  # cross, other, reference
        }
        for name, shape in shapes.items():
            self.add_state(
                name, default=torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum"
            )

    def observe(self, view: View) -> None:
        """Adds one batch."""
        part = view.slots % self.parts
        members = [torch.nonzero(part == i).flatten() for i in range(self.parts)]
        self.tokens += torch.bincount(part, minlength=self.parts)
        for row, site in enumerate(self.sites):
            states = view.states(self.case, site)
            for i, chosen in enumerate(members):
                # a lone part is the whole batch: no copy
                other, reference = states if self.parts == 1 else (x[chosen] for x in states)
                sums, products = self.sums[row, i], self.products[row, i]
                own_sum, own_product = view.once(
                    ("moments", id(self.case.reference), site, self.parts, i),
                    partial(_own, reference),  # the same for every case of this reference
                )
                sums[0] += other.sum(0)
                sums[1] += own_sum
                products[0] += other.T @ reference
                products[1] += other.T @ other
                products[2] += own_product

    def moments(self, site: str) -> Moments:
        """The moments at a site, over all blocks."""
        row = self.sites.index(site)
        return _moments(self.tokens.sum(), self.sums[row].sum(0), self.products[row].sum(0))

    def part(self, site: str, i: int) -> Moments:
        """The moments at a site, over the blocks of one part."""
        row = self.sites.index(site)
        return _moments(self.tokens[i], self.sums[row, i], self.products[row, i])


def _own(states: Tensor) -> tuple[Tensor, Tensor]:
    return states.sum(0), states.T @ states


def _moments(tokens: Tensor, sums: Tensor, products: Tensor) -> Moments:
    """Sums as plain arrays, copied: the meter's states go on changing."""
    arrays = [np.array(array) for table in (sums, products) for array in table.cpu().numpy()]
    return Moments(float(tokens), *arrays)
